# SPDX-License-Identifier: Apache-2.0

"""The options of octavia-hmsync-distributor, in ``[hmsync_distributor]``.

It runs on network nodes and reads its own file alone: octavia.conf, with the
passwords of the database and of Keystone, stays with the controllers.
"""

import os
import socket

from oslo_config import cfg
from oslo_log import log as logging

from octavia_hmsync.distributor.ovs import conf as ovs_conf
from octavia_hmsync import exceptions
from octavia_hmsync import version

GROUP = ovs_conf.GROUP
PROG = 'octavia-hmsync-distributor'
CONFIG_FILE = '/etc/octavia-hmsync/distributor.conf'

OPTS = [
    cfg.HostAddressOpt(
        'bind_host', default='0.0.0.0',  # nosec B104
        help='Address that the REST API listens at, :: for IPv4 and IPv6. '
             'It belongs into a network that controllers reach, and load '
             'balancers do not.'),
    cfg.PortOpt('bind_port', default=9444, min=1,
                help='Port of the REST API.'),
    cfg.StrOpt('host', sample_default='<host name>',
               help='Name of this node, as Neutron knows it '
                    '(binding:host_id). The host name by default.'),
    cfg.StrOpt('server_cert',
               help='File with the certificate of this distributor, and '
                    'those of authorities between it and the one that '
                    'controllers trust. Its subjectAltName has to have the '
                    'host of the URL in [hmsync_cluster] distributors. It '
                    'is read anew at SIGHUP.'),
    cfg.StrOpt('server_key',
               help='File with its private key. By default that is in the '
                    'file with the certificate.'),
    cfg.StrOpt('client_ca',
               help='File with the certificates of the authorities of '
                    'controllers. A client without a certificate of one of '
                    'these gets no answer. It is read anew at SIGHUP.'),
    cfg.ListOpt('allowed_clients', default=[],
                help='Common names that the certificate of a controller may '
                     'have. By default any that client_ca vouches for: then '
                     'every holder of a certificate of that authority can '
                     'redirect the traffic of all load balancers.'),
    cfg.StrOpt('state_path', default='/var/lib/octavia-hmsync/distributor',
               advanced=True,
               help='Directory in which it remembers its VIPs over a '
                    'restart. It has to be on a disk: what is lost with the '
                    'node is sent by a controller only once that looks.'),
    cfg.StrOpt('backend', default='openvswitch',
               advanced=True,
               help='What forwards packets, an entry point of '
                    'octavia_hmsync.distributor.backends.'),
    cfg.IntOpt('threads', default=16, min=2, max=256,
               advanced=True,
               help='Requests that are worked on at once. A larger value '
                    'serves more controllers at a time, and starts more '
                    'programs of Open vSwitch at once.'),
    cfg.IntOpt('request_timeout', default=5, min=1, max=60,
               advanced=True,
               help='Seconds that a client may be silent for while it makes '
                    'a request. A larger value tolerates a worse network, '
                    'and lets each that hangs keep a thread for longer.'),
    cfg.FloatOpt('probe_interval', default=1, min=0, max=60,
                 advanced=True,
                 help='Seconds between two probes of the front end of each '
                      'member: a SYN to a port that it serves, taken back '
                      'when it answers. 0 for none: then only health '
                      'managers tell that a member is dead. A smaller value '
                      'finds it sooner; 1000 members each second take some '
                      'of a processor.'),
    cfg.IntOpt('probe_misses', default=2, min=1, max=100,
               advanced=True,
               help='After how many probes in a row without an answer a '
                    'member is told to be DOWN. The second one follows at '
                    'once. A larger value tolerates members that stop for '
                    'a moment, and finds dead ones later.'),
    cfg.FloatOpt('hang_timeout', default=10, min=0, max=600,
                 advanced=True,
                 help='Seconds after which the haproxy of a member hangs, and '
                      'the member is told to be DOWN, that has taken a '
                      'connection to its peers port (TCP 1025) and answered '
                      'nothing, while its system answers probes. 0 for never: '
                      'then it is not asked. A smaller value finds it sooner, '
                      'and may take one for it that is merely busy: with '
                      'its processor shared by six others, haproxy was seen '
                      'to answer after 2.5 s.'),
    cfg.IntOpt('restore_interval', default=2, min=1, max=60,
               advanced=True,
               help='Seconds between two looks at whether Open vSwitch has '
                    'all flows. A smaller value puts them back sooner after '
                    'a restart of ovs-vswitchd; each look starts some '
                    'programs of Open vSwitch.'),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of the process and of the data plane."""
    conf.register_opts(OPTS, group=GROUP)
    ovs_conf.register_opts(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS), *ovs_conf.list_opts()]


def parse(args: list[str]) -> cfg.ConfigOpts:
    """Read the configuration file of this process, and no other one.

    :raises InvalidConfiguration: if it cannot be used, in one line.
    """
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    register_opts(conf)
    try:
        conf(args, project='octavia-hmsync', prog=PROG,
             version=version.version_string(),
             default_config_files=[CONFIG_FILE] if os.path.exists(
                 CONFIG_FILE) else [], default_config_dirs=[])
        if not conf.config_file and not conf.config_dir:
            raise exceptions.InvalidConfiguration(
                f'There is no {CONFIG_FILE}: write one, or name another one '
                f'with --config-file.')
        _read_all(conf)
    except cfg.Error as e:
        raise exceptions.InvalidConfiguration(
            f'The configuration cannot be used: {e}') from e
    return conf


def _read_all(conf: cfg.ConfigOpts) -> None:
    # A value that cannot be read is found now, not when it is needed.
    options = conf[GROUP]
    for name in options:
        try:
            options[name]
        except ValueError as e:
            raise exceptions.InvalidConfiguration(
                f'[{GROUP}] {name} cannot be used: {e}') from e
    for name in ('server_cert', 'client_ca'):
        if not options[name]:
            raise exceptions.InvalidConfiguration(
                f'[{GROUP}] {name} is not set: set it, as without '
                f'certificates any client could tell where traffic goes.')


def get_host(conf: cfg.ConfigOpts) -> str:
    return conf[GROUP].host or socket.gethostname()
