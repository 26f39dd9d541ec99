# SPDX-License-Identifier: Apache-2.0

"""octavia.conf for commands that run no code of Octavia's.

These read few of Octavia's options, while octavia.common.config takes longer
to import than all else that they need. A test compares the two.
"""

import socket

from oslo_config import cfg
from oslo_db import options as db_options

OPTS = {
    None: [cfg.HostnameOpt('host', default=socket.gethostname())],
    'health_manager': [
        cfg.StrOpt('heartbeat_key', secret=True),
        cfg.IntOpt('heartbeat_timeout', default=60),
        cfg.IntOpt('heartbeat_interval', default=10)],
}


def load(args):
    """Parse octavia.conf from where Octavia's own commands find it."""
    conf = cfg.ConfigOpts()
    for group, opts in OPTS.items():
        conf.register_opts(opts, group)
    conf.register_opts(db_options.database_opts, 'database')
    conf(args=args, project='octavia', prog='octavia-hmsync')
    return conf
