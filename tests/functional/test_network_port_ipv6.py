# SPDX-License-Identifier: Apache-2.0

"""A node's port in an IPv6 network, and a real health manager there."""

import os
import secrets

from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import member as mem
from tests.cloud import certificates
from tests.cloud import controllers
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import waiting
from tests.functional import test_network_port

NAME = test_network_port.NAME


class HealthManager(controllers.HealthManager):

    def is_ready(self):
        # What it listens to is in another network namespace.
        return self.running


class IPv6TestCase(test_network_port.NodePortTestCase):

    BIND_IP = '::'

    def setUp(self):
        super().setUp()
        self.start_agent()

    def check_reboot_while_neutron_is_down(self):
        made, _changes = self.plug()
        self.ovs.reboot()
        self.use(self.load_conf(neutron={
            'endpoint_override': 'http://127.0.0.1:1',
            'auth_section': 'service_auth'}))
        self.refused(exceptions.CloudUnavailable,
                     'The interface o-hm0 has its address as before',
                     self.plug)
        self.assertEqual((made.mac, list(made.ip_addresses)), self.look())
        self.assertIn(f'{made.ip_addresses[0]}/64', self.namespace.run(
            'ip', 'address', 'show', 'dev', NAME).stdout)

    def check_port_that_was_lost(self):
        before, _changes = self.plug()
        self.api.delete_port(before.id)
        after, _changes = self.plug()
        self.assertNotEqual(before.id, after.id)
        self.assertEqual((before.mac, before.ip_addresses),
                         (after.mac, after.ip_addresses))


class TestStateful(IPv6TestCase):
    """As "network ensure" makes it."""

    NETWORK = 'node-ports-ipv6'
    CIDR = 'fd00:31::/64'

    def start_health_manager(self, bind_ip):
        directory = self.directory
        options = octavia_conf.merge(
            octavia_conf.controller(
                self.database.connection, self.useFixture(
                    certificates.Certificates(
                        os.path.join(directory, secrets.token_hex(4)))),
                'key', 9443),
            octavia_conf.HMSYNC, octavia_conf.FAILOVER,
            {'health_manager': {'bind_ip': bind_ip},
             'hmsync': {'address_driver': 'neutron_port',
                        'allow_loopback': False}})
        manager = HealthManager('node1', options, directory, directory)
        manager.command = self.namespace.wrap(manager.command)
        self.useFixture(manager)
        return manager

    def get_member(self):
        found = hm_repo.get_all(self.engine)
        return (found[0].address, found[0].status) if found else None

    def wait_for_member(self, expected, manager):
        waiting.wait_for(
            lambda: self.get_member() == expected,
            lambda: f'{expected}: {self.get_member()}',
            processes=[manager])

    def test_health_manager(self):
        made, _changes = self.plug()
        address = f'[{made.ip_addresses[0]}]:5555'
        self.assertTrue(address.startswith('[fd00:31::'), address)
        manager = self.start_health_manager('::')
        self.wait_for_member((address, mem.ONLINE), manager)
        # The address is lost, and comes back.
        self.namespace.run('ip', 'address', 'flush', 'dev', NAME)
        self.wait_for_member((address, mem.OFFLINE), manager)
        self.plug()
        self.wait_for_member((address, mem.ONLINE), manager)

    def test_health_manager_that_does_not_listen_there(self):
        self.plug()
        manager = self.start_health_manager('0.0.0.0')  # nosec B104
        waiting.wait_for(
            lambda: 'would not be heard: set [health_manager] bind_ip = ::'
            in manager.log(), 'refusal', processes=[manager])
        self.assertIsNone(self.get_member())

    def test_reboot_while_neutron_is_down(self):
        self.check_reboot_while_neutron_is_down()

    def test_port_that_was_lost(self):
        self.check_port_that_was_lost()


class TestSLAAC(IPv6TestCase):
    """Adopted: the address follows from the MAC address."""

    NETWORK = 'node-ports-slaac'
    CIDR = 'fd00:32::/64'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        connection = neutron.connect(cls.neutron)
        cls.addClassCleanup(connection.close)
        made = connection.network.create_network(name=cls.NETWORK)
        connection.network.create_subnet(
            network_id=made.id, name=f'{cls.NETWORK}-subnet', cidr=cls.CIDR,
            ip_version=6, gateway_ip=None, ipv6_address_mode='slaac',
            ipv6_ra_mode='slaac')

    def test_reboot_while_neutron_is_down(self):
        self.check_reboot_while_neutron_is_down()

    def test_port_that_was_lost(self):
        self.check_port_that_was_lost()
