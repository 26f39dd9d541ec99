#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.
"""Begins a service that reads octavia.conf."""

from octavia.common import config
from octavia.common import rpc
from oslo_config import cfg

from octavia_hmsync import exceptions


def prepare(prog, args):
    """Parse octavia.conf, and log and send notifications as Octavia does.

    :param prog: the name of the program.
    :param args: of its command line.
    :raises InvalidConfiguration: if it cannot be read.
    """
    try:
        config.init(args, prog=prog)
        config.setup_logging(cfg.CONF)
        rpc.init()
    except (cfg.Error, ValueError) as e:
        raise exceptions.InvalidConfiguration(
            f'octavia.conf cannot be used: {" ".join(str(e).split())}') from e
