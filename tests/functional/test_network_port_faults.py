# SPDX-License-Identifier: Apache-2.0

"""A node's port, while Neutron fails at one request or another."""

from concurrent import futures

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.network import port
from tests.cloud import http_proxy
from tests.cloud import relay
from tests.cloud import waiting
from tests.functional import test_network_port

NAME = test_network_port.NAME


class TestFaults(test_network_port.NodePortTestCase):

    def setUp(self):
        super().setUp()
        self.start_agent()
        self.proxy = self.useFixture(
            http_proxy.FaultyProxy(self.neutron.port))
        self.useFixture(relay.Relay(
            self.namespace, int(self.proxy.url.rpartition(':')[2])))
        self.reconnect()

    def reconnect(self, **options):
        """As a new process of the node."""
        self.use(self.load_conf(
            neutron={'auth_section': 'service_auth',
                     'endpoint_override': self.proxy.url},
            hmsync_network=options))

    def reboot(self):
        """What it does to the interface, in less time."""
        self.namespace.run('ip', 'address', 'flush', 'dev', NAME)

    def plug_failing(self, number, fault):
        """Plug with one bad request.

        :returns: what went wrong, None if nothing did; .asked is how many
                  requests there were.
        """
        self.reconnect(api_timeout=2)
        self.proxy.fail_at(number, fault)
        try:
            self.plug()
        except exceptions.HMSyncException as e:
            self.assertNotIn('\n', str(e))
            return e
        finally:
            self.asked = len(self.proxy.requests)
            self.proxy.heal()
            # What has to go well has more time.
            self.reconnect()

    def test_reboot_at_each_request(self):
        """Whatever Neutron says no to, the node has its address."""
        made, _changes = self.plug()
        expected = made.mac, list(made.ip_addresses)
        for fault in (http_proxy.REFUSES, http_proxy.FORBIDS):
            failed = 0
            while True:
                self.reboot()
                self.make_older()
                error = self.plug_failing(failed + 1, fault)
                self.assertEqual(expected, self.look(), error)
                self.assertPlugged()
                if failed + 1 > self.asked:
                    self.assertIsNone(error)
                    break
                failed += 1
            self.assertGreater(failed, 4)

    def test_reboot_with_two_ports_of_the_name(self):
        made, _changes = self.plug()
        self.api.create_port(
            network_id=self.ids.network_id, name=port.get_name('node1'),
            device_owner=port.DEVICE_OWNER)
        self.reboot()
        self.refused(exceptions.PortConflict, 'There are 2 ports of the name',
                     self.plug)
        self.assertEqual((made.mac, list(made.ip_addresses)), self.look())

    def test_reboot_of_a_node_with_another_name(self):
        """The port is said to be another node's."""
        self.plug()
        self.reboot()
        self.reconnect(binding_host='node9')
        self.refused(exceptions.NodeConflict, 'is bound to the node node1',
                     self.plug)
        self.assertEqual([], self.look()[1])

    def test_first_plug_at_each_request(self):
        """It is made, and nobody says so."""
        number = 0
        while self.plug_failing(number + 1, http_proxy.LOSES):
            number += 1
            self.assertLessEqual(len(self.get_ports()), 1)
        self.assertGreater(number, 4)
        made, = self.get_ports()
        self.assertEqual(made.id, self.plug()[0].id)

    def find_creation(self):
        """Which request of a plug makes the port."""
        self.proxy.heal()
        self.plug()
        methods = [method for method, _path in self.proxy.requests]
        self.clean()
        return methods.index('POST') + 1

    def test_claim_that_lapses(self):
        """Another plug makes the port while Neutron hangs."""
        number = self.find_creation()
        self.reconnect()
        self.proxy.fail_at(number, http_proxy.HOLDS)
        with futures.ThreadPoolExecutor(1) as executor:
            slow = executor.submit(self.plug)
            waiting.wait_for(lambda: len(self.proxy.requests) >= number,
                             'request')
            with self.engine.begin() as connection:
                connection.execute(sa.update(models.Port.__table__).values(
                    claim_expires_at=types.utcnow_plus(-1)))
            self.reconnect()
            made, _changes = self.plug()
            self.proxy.let_go()
            self.assertIsInstance(slow.exception(), exceptions.PortBusy)
        self.assertEqual([made.id], [p.id for p in self.get_ports()])
        self.assertEqual([], self.plug()[1])

    def test_request_that_is_done_late(self):
        """Neutron is slow; who has asked gave up, and asks again."""
        error = self.plug_failing(self.find_creation(), http_proxy.HOLDS)
        self.assertIsInstance(error, exceptions.CloudUnavailable)
        made, _changes = self.plug()
        self.proxy.let_go()
        self.assertEqual(made.id, self.plug()[0].id)
        self.assertEqual([made.id], [p.id for p in self.get_ports()])
