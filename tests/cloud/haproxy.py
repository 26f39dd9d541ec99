# SPDX-License-Identifier: Apache-2.0

"""A real haproxy, as in an amphora whose load balancer has a listener."""

import os

from tests.cloud import network
from tests.cloud import process

# The lines of Octavia's template that the agent looks for or that haproxy
# needs, without a user: a harness need not be root for this. There are no
# pools, so it answers 503.
CONFIGURATION = """\
# Configuration for loadbalancer {load_balancer_id}
global
    daemon
    stats socket {socket_path} mode 0666 level user
    maxconn 100
    nbthread 1

defaults
    no log
    retries 3
    option redispatch
    option http-keep-alive
    timeout connect 5000
    timeout server 50000

frontend {listener_id}
    maxconn 100
    bind {bind_ip}:{port}
    mode http
    timeout client 50000
"""


class HAProxy(process.ChildProcess):
    """The haproxy of a load balancer with one HTTP listener.

    While it does not run, the heartbeats of its amphora carry no listeners,
    and health managers do not count them.

    :param base_path: that of the agent; everything is made below it
    :param port: of the listener, on the address of the amphora
    """

    def __init__(self, amphora_id, bind_ip, load_balancer_id, listener_id,
                 base_path, log_directory, port):
        self.load_balancer_id = load_balancer_id
        self.listener_id = listener_id
        self.bind_ip = bind_ip
        self.port = port
        self.socket_path = os.path.join(base_path, f'{load_balancer_id}.sock')
        self._directory = os.path.join(base_path, load_balancer_id)
        self._pid_path = os.path.join(self._directory,
                                      f'{load_balancer_id}.pid')
        conf_path = os.path.join(self._directory, 'haproxy.cfg')
        self._conf_path = conf_path
        super().__init__(
            f'haproxy-{amphora_id[:8]}',
            # -db undoes "daemon": one process, which is the one started.
            [process.system_program('haproxy'), '-db', '-f', conf_path],
            log_directory, env=process.environment(base_path), cwd=base_path)

    def _setUp(self):
        os.makedirs(self._directory)
        with open(self._conf_path, 'w') as conf:
            conf.write(CONFIGURATION.format(
                load_balancer_id=self.load_balancer_id,
                listener_id=self.listener_id, socket_path=self.socket_path,
                bind_ip=self.bind_ip, port=self.port))
        super()._setUp()

    def start(self):
        super().start()
        # haproxy writes none in the foreground; the agent reads it.
        with open(self._pid_path, 'w') as pid_file:
            pid_file.write(f'{self.pid}\n')

    def is_ready(self):
        return self.running and network.tcp_port_is_open(self.bind_ip,
                                                         self.port)
