# SPDX-License-Identifier: Apache-2.0

"""A real amphora agent."""

import configparser
import os
import sys

from tests.cloud import haproxy
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process

OLD_AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                         'old_agent.py')


class Amphora(process.ChildProcess):
    """An amphora-agent process with an address and a home of its own.

    start(), stop(), kill_tree(), pause() and resume() are those of a child
    process; the agent configuration survives them, as in a real amphora.

    :param directory: working directory that holds the syslog socket; the
                      home of the agent is made in it
    :param controller_ip_port_list: what it boots with
    :param listener: arguments for .haproxy, by name, which runs when there
                     are some; it ends apart from the agent, as in a real
                     amphora
    :param old_image: whether the agent is one of before the fix of LP 2121691
    """

    def __init__(self, amphora_id, lb_network_ip, controller_ip_port_list,
                 certificates, heartbeat_key, directory, log_directory,
                 port=9443, heartbeat_interval=1, topology='SINGLE',
                 listener=None, old_image=False):
        self.amphora_id = amphora_id
        self.lb_network_ip = lb_network_ip
        self.port = port
        # Short: the path of haproxy's socket, below it, has the id of the load
        # balancer, and has to fit into a socket address.
        self.home = os.path.join(directory, amphora_id[:8])
        # The agent overwrites the first file that oslo.config finds by
        # itself. Under this name, that is this one, whatever /etc holds.
        self.conf_path = os.path.join(self.home, '.octavia', 'octavia.conf')
        self._boot_options = {
            'health_manager': {
                'controller_ip_port_list': controller_ip_port_list,
                'heartbeat_interval': heartbeat_interval,
                'heartbeat_key': heartbeat_key,
            },
            'amphora_agent': {'amphora_id': amphora_id},
            'controller_worker': {'loadbalancer_topology': topology},
        }
        base_path = os.path.join(self.home, 'lib')
        # What an upload must not change: in the environment, which goes
        # before files.
        env = process.environment(
            self.home, TMPDIR=os.path.join(directory, 'tmp'),
            OS_HAPROXY_AMPHORA__BIND_HOST=lb_network_ip,
            OS_HAPROXY_AMPHORA__BIND_PORT=str(port),
            OS_HAPROXY_AMPHORA__BASE_PATH=base_path,
            OS_HAPROXY_AMPHORA__BASE_CERT_DIR=os.path.join(
                base_path, 'certs'),
            OS_AMPHORA_AGENT__AGENT_SERVER_CERT=certificates.server_path(
                amphora_id),
            OS_AMPHORA_AGENT__AGENT_SERVER_CA=(
                certificates.client_authority.certificate_path))
        self.haproxy = listener and haproxy.HAProxy(
            amphora_id, lb_network_ip, base_path=base_path,
            log_directory=log_directory, **listener)
        # Without -P, modules beside the script hide those of Python.
        program = ([sys.executable, '-P', OLD_AGENT] if old_image else
                   [process.program('amphora-agent')])
        super().__init__(
            f'amphora-{amphora_id[:8]}',
            [*program, '--config-file', self.conf_path],
            log_directory, env=env, cwd=directory)

    def _setUp(self):
        os.makedirs(os.path.dirname(self.conf_path))
        os.makedirs(os.path.join(self.home, 'lib', 'certs'))
        os.makedirs(os.path.join(self.env['TMPDIR']), exist_ok=True)
        octavia_conf.write(self.conf_path, self._boot_options)
        if self.haproxy:
            self.useFixture(self.haproxy)
        super()._setUp()

    def is_ready(self):
        return network.tcp_port_is_open(self.lb_network_ip, self.port)

    def configured_option(self, group, option):
        """An option in its configuration file, as it is on disk now."""
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read(self.conf_path)
        return parser.get(group, option, fallback=None)

    def configured_list(self):
        """controller_ip_port_list in its configuration file."""
        value = self.configured_option('health_manager',
                                       'controller_ip_port_list') or ''
        return [item.strip() for item in value.split(',') if item.strip()]
