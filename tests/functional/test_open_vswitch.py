# SPDX-License-Identifier: Apache-2.0

"""The node's interface, in a real Open vSwitch of a namespace."""

import ipaddress
import socket

import fixtures
from oslotest import base

from octavia_hmsync import exceptions
from octavia_hmsync.network import link
from octavia_hmsync.network import ovs
from tests.cloud import openvswitch

PORT = '5f0c2f0e-0000-4000-8000-000000000001'
MAC = 'fa:16:3e:00:00:01'
NAME = 'o-hm0'
ADDRESS = ipaddress.ip_interface('192.0.2.7/24')


class TestOpenVswitch(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.node = self.useFixture(openvswitch.Namespace(
            'node', self.directory))
        self.ovs = self.useFixture(openvswitch.OpenVswitch(
            self.node, 'node1', self.directory))
        self.vswitch = ovs.Vswitch('br-int', self.ovs.connection)

    def plug(self, port_id=PORT, mac=MAC, mtu=1442, host='node1',
             vswitch=None):
        return self.node.call((vswitch or self.vswitch).plug, NAME, port_id,
                              mac, mtu, host)

    def refused(self, kind, words, function, *args, **kwargs):
        error = self.assertRaises(kind, function, *args, **kwargs)
        self.assertIn(words, str(error))
        self.assertNotIn('\n', str(error))

    def configure(self, *addresses):
        return self.node.call(link.configure, NAME, addresses)

    def test_life(self):
        self.assertTrue(self.plug())
        self.assertFalse(self.plug())
        ids = self.ovs.get_external_ids(NAME)
        self.assertLess(0, float(ids.pop('hmsync-plugged-at')))
        self.assertEqual(
            {'iface-id': PORT, 'attached-mac': MAC, 'iface-status': 'active',
             'skip_cleanup': 'true', 'hmsync-host': 'node1'}, ids)
        self.assertEqual('node1', self.vswitch.get_host_name())

        self.assertTrue(self.configure(ADDRESS))
        self.assertFalse(self.configure(ADDRESS))
        self.assertEqual((MAC, ['192.0.2.7']), self.node.call(link.get, NAME))
        # Another port, another MTU, other addresses.
        other = [ipaddress.ip_interface(a) for a in (
            '192.0.2.8/24', '2001:db8::8/64')]
        self.assertTrue(self.plug(PORT[:-1] + '2', MAC[:-1] + '2', 1300))
        self.assertTrue(self.configure(*other))
        self.assertEqual((MAC[:-1] + '2', ['192.0.2.8', '2001:db8::8']),
                         self.node.call(link.get, NAME))
        found = self.vswitch.get(NAME)
        self.assertEqual((1300, PORT[:-1] + '2'),
                         (found.mtu, found.port_id))
        # Nobody has to wait until an address may be bound.
        self.assertNotIn('tentative', self.node.run(
            'ip', 'address', 'show', 'dev', NAME, 'scope', 'global').stdout)

        self.assertTrue(self.vswitch.unplug(NAME, 'node1'))
        self.assertFalse(self.vswitch.unplug(NAME, 'node1'))
        self.assertIsNone(self.vswitch.get(NAME))
        self.assertIsNone(self.node.call(link.get, NAME))

    def test_reboot(self):
        self.plug()
        self.configure(ADDRESS)
        self.ovs.reboot()
        self.plug()
        self.assertEqual((MAC, []), self.node.call(link.get, NAME))
        self.assertTrue(self.configure(ADDRESS))
        self.assertEqual((MAC, ['192.0.2.7']), self.node.call(link.get, NAME))

    def test_address_that_cannot_be_used(self):
        """It is there, but nobody may bind it, or it is soon gone."""
        address = ipaddress.ip_interface('2001:db8::7/64')
        self.plug()
        self.node.run('ip', 'link', 'set', NAME, 'up')
        # Detection is never done with.
        self.node.run('sysctl', '-w', f'net.ipv6.conf.{NAME}.dad_transmits='
                      '1000')
        self.node.run('ip', 'address', 'add', str(address), 'dev', NAME)
        self.assertRaises(OSError, self.node.call, self.bind, address)
        self.assertTrue(self.configure(address))
        self.node.call(self.bind, address)
        for one in (address, ADDRESS):
            self.configure(one)
            self.node.run('ip', 'address', 'change', str(one), 'dev', NAME,
                          'valid_lft', '100', 'preferred_lft', '100')
            self.assertTrue(self.configure(one))
            self.assertNotIn('100sec', self.node.run(
                'ip', 'address', 'show', 'dev', NAME).stdout)
            self.assertFalse(self.configure(one))

    @staticmethod
    def bind(address):
        with socket.socket(
                socket.AF_INET6, socket.SOCK_DGRAM) as heartbeats:
            heartbeats.bind((str(address.ip), 5555))

    def test_mtu_that_somebody_changed(self):
        self.plug()
        self.ovs.vsctl('set', 'Interface', NAME, 'mtu_request=1500')
        self.assertTrue(self.plug())
        self.assertEqual(1442, self.vswitch.get(NAME).mtu)

    def test_mtu_that_cannot_be(self):
        self.refused(exceptions.VswitchUnavailable,
                     'the management network 65535', self.plug, mtu=65535)
        self.assertIsNone(self.vswitch.get(NAME))

    def test_interface_of_somebody_else(self):
        self.ovs.vsctl('add-port', 'br-int', NAME, '--', 'set', 'Interface',
                       NAME, 'type=internal',
                       f'external_ids:iface-id={PORT}')
        self.refused(exceptions.InterfaceConflict,
                     f'for the Neutron port {PORT}', self.plug,
                     PORT[:-1] + '9')
        self.refused(exceptions.InterfaceConflict, 'was not plugged by',
                     self.vswitch.unplug, NAME, 'node1')
        self.assertEqual({'iface-id': PORT}, self.ovs.get_external_ids(NAME))
        # Another tool plugged this very port: it is taken over.
        self.assertTrue(self.plug())
        self.assertEqual('node1', self.vswitch.get(NAME).owner)

    def test_interface_of_another_bridge(self):
        self.ovs.vsctl('add-br', 'br-ex', '--', 'set', 'Bridge', 'br-ex',
                       'datapath_type=netdev')
        self.ovs.vsctl('add-port', 'br-ex', NAME, '--', 'set', 'Interface',
                       NAME, 'type=internal')
        self.refused(exceptions.InterfaceConflict, 'in bridge br-ex was not',
                     self.plug)

    def test_interface_of_the_kernel(self):
        self.node.run('ip', 'tuntap', 'add', NAME, 'mode', 'tap')
        self.refused(exceptions.InterfaceConflict,
                     f'ip link delete {NAME}', self.plug)
        self.assertIsNone(self.vswitch.get(NAME))

    def test_no_bridge(self):
        self.refused(
            exceptions.VswitchUnavailable,
            'has no bridge br-none (it has br-int)', self.plug,
            vswitch=ovs.Vswitch('br-none', self.ovs.connection))

    def test_no_vsctl(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.directory))
        self.refused(exceptions.VswitchUnavailable,
                     'ovs-vsctl is not installed', self.plug)

    def test_no_server(self):
        self.ovs.server.stop()
        self.refused(exceptions.VswitchUnavailable,
                     'ovsdb-server cannot be reached at '
                     f'{self.ovs.connection} (', self.plug)

    def test_server_that_hangs(self):
        self.patch(ovs, '_CALL_TIMEOUT', 1)
        self.ovs.server.pause()
        self.addCleanup(self.ovs.server.resume)
        self.refused(exceptions.VswitchUnavailable,
                     'ovsdb-server cannot be reached', self.plug)

    def test_vswitchd_that_does_not_run(self):
        self.refused_without_vswitchd()
        self.assertIsNone(self.vswitch.get(NAME))
        self.ovs.start_vswitchd()
        self.plug()
        # The database, and even the kernel, say that all is well.
        self.refused_without_vswitchd()
        self.assertIsNotNone(self.vswitch.get(NAME))

    def refused_without_vswitchd(self):
        self.ovs.vswitchd.stop()
        with fixtures.MonkeyPatch(
                'octavia_hmsync.network.ovs._APPLY_TIMEOUT', 1):
            self.refused(exceptions.VswitchUnavailable,
                         'it is not running, or hangs', self.plug)

    def test_other_namespace(self):
        """A container without the network of the host."""
        self.refused(exceptions.VswitchUnavailable, 'hostNetwork: true',
                     self.vswitch.plug, NAME, PORT, MAC, 1442, 'node1')
        self.assertIsNone(self.vswitch.get(NAME))
        self.refused(exceptions.InterfaceUnavailable, 'no interface o-hm0',
                     link.configure, NAME, [ADDRESS])
