# SPDX-License-Identifier: Apache-2.0

"""A RabbitMQ server of one's own."""

import os
import secrets

from oslo_config import cfg
import oslo_messaging

from tests.cloud import network
from tests.cloud import process
from tests.cloud import waiting


class RabbitMQServer(process.ChildProcess):
    """rabbitmq-server with its own directories, ports and node name.

    The script in Debian's /usr/sbin changes to the user rabbitmq; this takes
    the one that it calls.

    :param directory: where its data and logs go.
    """

    def __init__(self, directory):
        self._directory = os.path.join(directory, 'rabbitmq')
        os.makedirs(self._directory)
        self.port = network.free_port()
        self._node = f'hmsync{secrets.token_hex(4)}@localhost'
        self._epmd_port = network.free_port()
        path = self._directory
        env = process.environment(
            path, RABBITMQ_NODENAME=self._node,
            RABBITMQ_NODE_IP_ADDRESS='127.0.0.1',
            RABBITMQ_NODE_PORT=str(self.port),
            RABBITMQ_DIST_PORT=str(network.free_port()),
            RABBITMQ_MNESIA_BASE=f'{path}/mnesia',
            RABBITMQ_LOG_BASE=path, RABBITMQ_LOGS='-',
            RABBITMQ_PID_FILE=f'{path}/pid',
            RABBITMQ_CONF_ENV_FILE=f'{path}/none',
            RABBITMQ_CONFIG_FILE=f'{path}/none',
            RABBITMQ_ENABLED_PLUGINS_FILE=f'{path}/enabled_plugins',
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=(
                '-kernel inet_dist_use_interface {127,0,0,1}'),
            ERL_EPMD_ADDRESS='127.0.0.1', ERL_EPMD_PORT=str(self._epmd_port))
        super().__init__('rabbitmq', [self._script()], log_directory=path,
                         env=env, cwd=path)

    def _setUp(self):
        # The server would start a port mapper as a daemon that outlives it.
        mapper = self.useFixture(process.ChildProcess(
            'epmd', ['epmd', '-address', '127.0.0.1', '-port',
                     str(self._epmd_port)], log_directory=self._directory,
            env=self.env, cwd=self._directory))
        waiting.wait_for(
            lambda: network.tcp_port_is_open('127.0.0.1', self._epmd_port),
            'port mapper', processes=[mapper])
        super()._setUp()

    @staticmethod
    def _script():
        base = '/usr/lib/rabbitmq/lib'
        for release in sorted(os.listdir(base)):
            script = f'{base}/{release}/sbin/rabbitmq-server'
            if os.path.exists(script):
                return script
        raise RuntimeError('rabbitmq-server is not installed; see bindep.txt')

    @property
    def url(self):
        """The transport_url for it."""
        return f'rabbit://guest:guest@127.0.0.1:{self.port}/'

    def is_ready(self):
        if 'Server startup complete' not in self.log():
            return False
        return network.tcp_port_is_open('127.0.0.1', self.port)


class RpcClient:
    """Sends what octavia-api sends to octavia-worker.

    :param url: a transport_url.
    """

    def __init__(self, url):
        # The library has options on the global object only.
        self._transport = oslo_messaging.get_rpc_transport(cfg.CONF, url)
        target = oslo_messaging.Target(
            namespace='controller', topic='octavia_provisioning_v2',
            version='2.0', fanout=False)
        self._client = oslo_messaging.get_rpc_client(self._transport, target)

    def cast(self, method, **arguments):
        """Send a message without waiting for anything."""
        self._client.cast({}, method, **arguments)

    def close(self):
        self._transport.cleanup()


def wait_until_logged(child, text, since=0, timeout=waiting.LIMIT):
    """Wait for a text in the log of a process.

    :param since: length of its log before.
    """
    waiting.wait_for(lambda: text in child.log()[since:],
                     f'"{text}" in the log of {child.name}', timeout,
                     processes=[child])
