# SPDX-License-Identifier: Apache-2.0

"""When the server of a worker begins, and how it ends."""

import logging
import threading
import time

from octavia_hmsync.cluster.api import topics
from octavia_hmsync.cluster.worker import rpc_server
from tests.unit import base


def wait_for(condition):
    while not condition():
        time.sleep(0.01)


class Server:
    """One of oslo.messaging, which waits for RabbitMQ while it is down."""

    def __init__(self, is_up=True):
        self.up = threading.Event()
        self.started = threading.Event()
        self.calls = []
        if is_up:
            self.up.set()

    def start(self):
        self.up.wait(60)
        self.calls.append('start')
        self.started.set()

    def stop(self):
        # As the real one, which waits for start().
        self.started.wait(60)
        self.calls.append('stop')

    def wait(self):
        self.calls.append('wait')


class TestRPCServer(base.TestCase):

    def setUp(self):
        super().setUp()
        self.consumer = logging.getLogger(rpc_server.CONSUMER)
        self.addCleanup(self.consumer.setLevel, self.consumer.level)
        for each in list(self.consumer.filters):
            self.consumer.removeFilter(each)

    def begin(self, server):
        self.made = []

        def make(topic, endpoint):
            self.made.append((topic, endpoint))
            if isinstance(server, Exception):
                raise server
            return server

        subject = rpc_server.RPCServer('conf', make, lambda conf: conf)
        self.addCleanup(lambda: [self.consumer.removeFilter(each)
                                 for each in list(self.consumer.filters)])
        subject.start()
        return subject

    def test_served_and_stopped(self):
        """It ends as Octavia's own does, by what that one logs."""
        server = Server()
        self.begin(server)
        self.assertTrue(server.started.wait(10))
        self.assertEqual([(topics.TOPIC, 'conf')], self.made)
        wait_for(lambda: self.consumer.filters[0]._server._server)
        self.consumer.info('Stopping V2 consumer...')
        self.consumer.info('V2 Consumer successfully stopped.  Waiting for '
                           'final messages to be processed...')
        self.assertEqual(['start', 'stop'], server.calls)
        self.consumer.info('Shutting down V2 endpoint worker and its '
                           'executors...')
        self.assertEqual(['start', 'stop', 'wait'], server.calls)

    def test_quiet_log(self):
        """What is not logged stops it, too, and is not logged either."""
        self.consumer.setLevel(logging.WARNING)
        server = Server()
        self.begin(server)
        self.assertTrue(server.started.wait(10))
        wait_for(lambda: self.consumer.filters[0]._server._server)
        with self.assertNoLogs(self.consumer):
            self.consumer.info('Stopping V2 consumer...')
        self.assertIn('stop', server.calls)

    def test_rabbitmq_is_down(self):
        """A worker ends without waiting for it."""
        server = Server(is_up=False)
        subject = self.begin(server)
        self.consumer.info('Stopping V2 consumer...')
        self.consumer.info('Shutting down V2 endpoint worker')
        subject.wait()
        self.assertEqual([], server.calls)
        # Should it come after all, it takes nothing.
        server.up.set()
        self.assertTrue(server.started.wait(10))
        wait_for(lambda: server.calls == ['start', 'stop'])

    def test_broken(self):
        """Octavia's own orders are taken all the same."""
        with self.assertLogs(rpc_server.LOG.logger, 'ERROR') as logs:
            subject = self.begin(ValueError('no'))
            wait_for(lambda: logs.output)
        subject.stop()
        subject.wait()
        self.assertIn('takes no orders for clusters', logs.output[0])
