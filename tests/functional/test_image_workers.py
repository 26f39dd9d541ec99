# SPDX-License-Identifier: Apache-2.0

"""What octavia-workers are asked for, through a real RabbitMQ."""

import queue

import fixtures
from octavia.common import rpc
import oslo_messaging
from oslotest import base

from octavia_hmsync import compat
from octavia_hmsync.compat import workers
from tests.cloud import rabbitmq


class Endpoint:
    """What stands for Octavia's, with the same method."""

    target = oslo_messaging.Target(namespace='controller', version='2.0')

    def __init__(self):
        self.heard = queue.Queue()

    def failover_amphora(self, context, amphora_id):
        self.heard.put(amphora_id)


class TestWorkers(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.rabbit = self.useFixture(rabbitmq.RabbitMQServer(
            self.useFixture(fixtures.TempDir()).path))
        self.rabbit.wait_until_ready()
        # As octavia.conf does.
        transport = rpc.create_transport(rpc.get_transport_url(
            self.rabbit.url))
        self.addCleanup(transport.cleanup)
        self.useFixture(fixtures.MockPatchObject(
            workers.rpc, 'get_transport_url',
            lambda: oslo_messaging.TransportURL.parse(compat.CONF,
                                                      self.rabbit.url)))
        self.endpoint = Endpoint()
        self.server = oslo_messaging.get_rpc_server(
            transport, oslo_messaging.Target(
                topic='octavia_provisioning_v2', server='worker1',
                fanout=False), [self.endpoint])

    def ask(self, amphora_id):
        with workers.Workers() as asked:
            asked.connect()
            asked.ask_for_failover(amphora_id)
            asked.close()

    def test_asked(self):
        # No worker has ever been there: that is told.
        self.assertRaises(workers.Undeliverable, self.ask, 'lost')
        self.server.start()
        self.ask('one')
        self.assertEqual('one', self.endpoint.heard.get(timeout=60))
        # One that is down finds it when it is back; nobody gets it twice.
        self.server.stop()
        self.server.wait()
        self.ask('two')
        self.assertTrue(self.endpoint.heard.empty())
        self.server.reset()
        self.server.start()
        self.addCleanup(self.server.stop)
        self.assertEqual('two', self.endpoint.heard.get(timeout=60))
        self.assertRaises(queue.Empty, self.endpoint.heard.get, timeout=1)

    def test_rabbitmq_goes(self):
        """It is told before anything is sent, and in a bounded time."""
        self.server.start()
        self.addCleanup(self.server.stop)
        with workers.Workers() as asked:
            asked.connect()
            self.rabbit.stop()
            self.assertRaises(oslo_messaging.MessageDeliveryFailure,
                              asked.ask_for_failover, 'three')
            self.assertRaises(oslo_messaging.MessageDeliveryFailure,
                              asked.connect)
