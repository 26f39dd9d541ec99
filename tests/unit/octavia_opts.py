# SPDX-License-Identifier: Apache-2.0

"""Octavia's own option definitions, for a configuration object of one's own.

Octavia registers them with the global one.
"""

from octavia.certificates.common import local
from octavia.common import config
from oslo_db import options as db_options
from oslo_log import log as logging

_OPTS = {
    None: config.core_opts,
    'amphora_agent': config.amphora_agent_opts,
    'certificates': local.certgen_opts + config.certificate_opts,
    'cinder': config.cinder_opts,
    'controller_worker': config.controller_worker_opts,
    'haproxy_amphora': config.haproxy_amphora_opts,
    'health_manager': config.health_manager_opts,
    'house_keeping': config.house_keeping_opts,
    'nova': config.nova_opts,
    'task_flow': config.task_flow_opts,
}


def register(conf):
    """Register them.

    :param conf: an oslo.config object that has parsed nothing yet.
    """
    for group, opts in _OPTS.items():
        conf.register_opts(opts, group=group)
    db_options.set_defaults(conf)
    logging.register_options(conf)
