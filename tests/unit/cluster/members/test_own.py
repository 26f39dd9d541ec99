# SPDX-License-Identifier: Apache-2.0

"""The addresses of members that OVN sends to."""

import types

from octavia_hmsync.amphora import agent
from octavia_hmsync.cluster.members import own
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync import exceptions
from tests.unit import base

SUBNET = agent.Subnet('192.0.2.0/24', '192.0.2.1')
IPV6 = agent.Subnet('fd00::/64', 'fd00::1')


class Network:
    """A network driver."""

    error = None

    def get_port(self, port_id):
        if self.error:
            raise self.error
        return types.SimpleNamespace(fixed_ips=[
            types.SimpleNamespace(ip_address=address)
            for address in (f'192.0.2.{port_id}', f'fd00::{port_id}')])


def make_load_balancer(*more):
    load_balancer = types.SimpleNamespace(
        vip=types.SimpleNamespace(ip_address='192.0.2.5'),
        additional_vips=[types.SimpleNamespace(ip_address=address)
                         for address in more], listeners=[])
    load_balancer.amphorae = [
        types.SimpleNamespace(id='a', vrrp_ip='192.0.2.10',
                              vrrp_port_id='10'),
        types.SimpleNamespace(id='b', vrrp_ip='192.0.2.11',
                              vrrp_port_id='11'),
        # It is being built.
        types.SimpleNamespace(id='c', vrrp_ip=None, vrrp_port_id=None)]
    return load_balancer


class TestOwn(base.TestCase):

    def setUp(self):
        super().setUp()
        self.network = Network()

    def make_conf(self, driver):
        return types.SimpleNamespace(controller_worker=types.SimpleNamespace(
            distributor_driver=driver))

    def find(self, load_balancer, driver='hmsync_ovn', ids=None):
        return own.find(load_balancer, ids, self.make_conf(driver),
                        self.network)

    def test_find(self):
        self.assertEqual({'a': ('192.0.2.10',), 'b': ('192.0.2.11',)},
                         self.find(make_load_balancer()))
        self.assertEqual({'b': ('192.0.2.11', 'fd00::11')},
                         self.find(make_load_balancer('fd00::5'), ids={'b'}))
        for driver in ('hmsync_ovs', 'another'):
            self.assertEqual({}, self.find(make_load_balancer('fd00::5'),
                                           driver))

    def test_neutron_does_not_answer(self):
        self.network.error = OSError('it is down')
        self.find(make_load_balancer())
        e = self.assertRaises(exceptions.NotPossible, self.find,
                              make_load_balancer('fd00::5'))
        self.assertIn('Neutron does not tell the addresses', str(e))

    def test_show(self):
        """Octavia's own data model stays as it is."""
        load_balancer = make_load_balancer('fd00::5')
        for addresses, wanted in (
                (None, ['fd00::5']),
                (('192.0.2.10', 'fd00::10'),
                 ['fd00::5', '192.0.2.10', 'fd00::10'])):
            shown = peers.show(load_balancer, frozenset('a'))
            own.show(shown, addresses)
            self.assertEqual(wanted, [vip.ip_address for vip
                                      in shown.additional_vips])
            self.assertEqual(1, len(load_balancer.additional_vips))

    def test_show_datagrams(self):
        """An agent counts what came to the first address of each family."""
        load_balancer = make_load_balancer('fd00::5', '192.0.2.6')
        load_balancer.listeners = [
            types.SimpleNamespace(protocol=protocol,
                                  load_balancer=load_balancer)
            for protocol in ('TCP', 'UDP')]
        shown = peers.show(load_balancer, frozenset('a'))
        own.show(shown, ('192.0.2.10', 'fd00::10'))
        tcp, udp = shown.listeners
        self.assertIs(shown, tcp.load_balancer)
        self.assertEqual(
            ['192.0.2.10', 'fd00::10', '192.0.2.5', 'fd00::5', '192.0.2.6'],
            [vip.ip_address for vip in (udp.load_balancer.vip,
                                        *udp.load_balancer.additional_vips)])
        self.assertEqual('192.0.2.5', shown.vip.ip_address)
        for each in load_balancer.listeners:
            self.assertIs(load_balancer, each.load_balancer)

    def test_read(self):
        config = {'vrrp_port': {'fixed_ips': [
            {'ip_address': '192.0.2.10', 'subnet_id': '4'},
            {'ip_address': 'fd00::10', 'subnet_id': '6'},
            {'ip_address': '10.9.0.10', 'subnet_id': 'elsewhere'}]}}
        vips = (('192.0.2.5', SUBNET), ('192.0.2.6', SUBNET),
                ('fd00::5', IPV6))
        self.assertEqual(
            [('192.0.2.10/24', True), ('fd00::10/64', False)],
            [(str(address), is_there) for address, is_there in own.read(
                config, vips, '192.0.2.10', self.make_conf('hmsync_ovn'))])
        self.assertEqual((), own.read(config, vips, '192.0.2.10',
                                      self.make_conf('hmsync_ovs')))
