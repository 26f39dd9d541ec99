# SPDX-License-Identifier: Apache-2.0

"""Octavia's controller processes."""

import os

from tests.cloud import installations
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process


class Controller(process.ChildProcess):
    """A process of Octavia with its own octavia.conf.

    The file is written at each start, so a test may change .options (a
    {group: {option: value}} dict) between stop() and start().

    :param installation: an installations.Installation
    """

    PROGRAM = None
    READY = None

    def __init__(self, host, options, directory, log_directory,
                 installation=installations.OURS):
        name = f'{self.PROGRAM}-{host}'
        self.host = host
        self.options = octavia_conf.merge(options, {'DEFAULT': {'host': host}})
        self.conf_path = os.path.join(directory, f'{name}.conf')
        super().__init__(name, None, log_directory, cwd=directory)
        self.install(installation)
        os.makedirs(self.env['TMPDIR'], exist_ok=True)

    def install(self, installation):
        """Have it be of another release, from its next start on."""
        self.command = [installation.program(self.PROGRAM), '--config-file',
                        self.conf_path]
        self.env = installation.environment(
            self.cwd, TMPDIR=os.path.join(self.cwd, 'tmp'))

    def start(self):
        octavia_conf.write(self.conf_path, self.options)
        super().start()

    def is_ready(self):
        return self.READY in self.log()


class InNamespace:
    """For a process that runs in a network namespace."""

    namespace = None

    def enter(self, namespace):
        """Have it run there, from its next start on.

        :param namespace: an openvswitch.Namespace.
        """
        self.namespace = namespace
        self.command = namespace.wrap(self.command)
        return self

    def is_open(self, protocol, port):
        """Whether somebody has bound a port in the namespace."""
        with open(f'/proc/{self.namespace.pid}/net/{protocol}') as table:
            return any(line.split()[1].endswith(f':{port:04X}')
                       for line in table)


class HealthManager(Controller):
    PROGRAM = 'octavia-health-manager'

    @property
    def bind_ip(self):
        return self.options['health_manager']['bind_ip']

    @property
    def bind_port(self):
        return self.options['health_manager']['bind_port']

    @property
    def address(self):
        """Its entry in controller_ip_port_list."""
        host = f'[{self.bind_ip}]' if ':' in self.bind_ip else self.bind_ip
        return f'{host}:{self.bind_port}'

    def move(self, bind_ip):
        """Give it another address, from its next start on."""
        self.options['health_manager']['bind_ip'] = bind_ip

    def is_ready(self):
        return self.running and network.udp_port_is_open(self.bind_ip,
                                                         self.bind_port)


class Housekeeping(Controller):
    PROGRAM = 'octavia-housekeeping'
    READY = 'Starting house keeping'


class Worker(Controller):
    PROGRAM = 'octavia-worker'
    READY = 'Starting V2 consumer'


class Api(Controller):
    PROGRAM = 'octavia-api'
    READY = 'Starting API server on'


class DriverAgent(Controller):
    PROGRAM = 'octavia-driver-agent'
    READY = 'Driver agent get listener process starts'


class ClusterManager(Controller):
    PROGRAM = 'octavia-hmsync-cluster-manager'
    READY = 'Looking after clusters of amphorae'
