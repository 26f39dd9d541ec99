# SPDX-License-Identifier: Apache-2.0

"""Starts a service that reads octavia.conf."""

from octavia.common import config
from octavia.common import rpc
from oslo_config import cfg

from octavia_hmsync import exceptions


def prepare(prog, args):
    """Parse octavia.conf, and set up logs and notifications like Octavia.

    :raises InvalidConfiguration: if octavia.conf cannot be read.
    """
    try:
        config.init(args, prog=prog)
        config.setup_logging(cfg.CONF)
        rpc.init()
    except (cfg.Error, ValueError) as e:
        raise exceptions.InvalidConfiguration(
            f'octavia.conf cannot be used: {" ".join(str(e).split())}') from e
