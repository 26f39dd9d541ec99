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

"""The options of image upgrades, all in ``[hmsync_image]``."""

from oslo_config import cfg

from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync import exceptions

GROUP = 'hmsync_image'

_service_opts = [
    cfg.IntOpt('image_timeout', default=30, min=1, max=600,
               help='Seconds to wait for the answer of the image service '
                    'when it is asked which image a tag has. A larger value '
                    'bears with a slow service, and lets a command hang for '
                    'longer at one that is down.'),
]

OPTS = _service_opts


def register_opts(conf):
    """Register the group ``[hmsync_image]`` and its options.

    :param conf: the oslo.config object to register with; doing it twice is
                 harmless.
    """
    conf.register_opts(OPTS, group=GROUP)


def list_opts():
    """Return the options for the sample configuration.

    :returns: a list of (group name, options).
    """
    return [(GROUP, OPTS)]


def neutralize(conf):
    """Find options with values that cannot be read; see octavia_hmsync.conf.

    :param conf: a parsed oslo.config object with our options registered.
    :returns: what is wrong and what to do, or None if all can be read.
    """
    return hmsync_conf.neutralize(conf, GROUP, OPTS)


def check(conf):
    """Check what can be told before anybody is asked.

    :param conf: a parsed oslo.config object with our options registered.
    :raises InvalidConfiguration: naming the option and what to do.
    """
    problem = neutralize(conf)
    if problem:
        raise exceptions.InvalidConfiguration(problem)
