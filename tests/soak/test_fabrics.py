# SPDX-License-Identifier: Apache-2.0

"""Distributors in the fabrics that clouds have: "Fabrics" in clusters.rst.

Members are machines that have the VIP on lo and answer no ARP.
"""

import time
import types

from oslo_config import cfg

from octavia_hmsync.cluster.api import vip_network
from octavia_hmsync.cluster.distribution.ovn import nat
from octavia_hmsync.cluster.distribution.ovs import floating_ips
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import ovn as ovn_conf
from tests.cloud.compute import node_fabric
from tests.cloud import machines
from tests.cloud import networking
from tests.cloud import neutron
from tests.cloud import process
from tests.cloud import vip
from tests.cloud import waiting
from tests.soak import test_ovn_data_plane

NUMBER = 12
_TAG = 101
# Seconds that are watched after a change.
_STEADY = 10
# Connections that are held, and new ones a second, where a router moves; and
# seconds for which a VIP may be dark after machines are no longer.
_HELD = 20
_RATE = 20
_LATER = 5


def count_answers(client, address, number=NUMBER):
    """Ask a few times; returns how many answers came."""
    # A first packet may be lost where somebody just came.
    for _ in range(3):
        if _ask(client, address):
            break
    return sum(_ask(client, address) for _ in range(number))


def _ask(client, address):
    return bool(client.namespace.run(
        'curl', '-sS', '--max-time', '3', f'http://{address}/',
        check=False).stdout)


class StrangeClients:
    """Clients that are plugged otherwise than most, in .cloud."""

    def add_second_router(self, members, gateway='10.1.0.254'):
        """Add a client behind another router of the tenant's subnet."""
        api = self.cloud.connection.network
        router = api.create_router(name='second',
                                   project_id=neutron.PROJECT_ID)
        port = api.create_port(
            network_id=self.cloud.network.id, project_id=neutron.PROJECT_ID,
            fixed_ips=[{'subnet_id': self.cloud.subnet.id,
                        'ip_address': gateway}])
        api.add_interface_to_router(router, port_id=port.id)
        network = self.cloud.add_network('beyond', '10.3.0.0/24', '10.3.0.1',
                                         router=router)[0]
        for each in members:
            # As amphorae have it, where the subnet has that host route.
            each.namespace.run('ip', 'route', 'add', '10.3.0.0/24', 'via',
                               gateway)
        return self.useFixture(machines.Client(
            self.cloud, 'second-router', network, host='compute2'))

    def add_trunk(self):
        """Add a client whose interface is a trunk."""
        parent = self.cloud.add_network('parent', '10.4.0.0/24')[0]
        return self.useFixture(machines.TrunkClient(
            self.cloud, 'trunk', parent, host='compute2'))

    def add_paired(self, addresses):
        """Add a machine that may have the VIP, and says nothing of it."""
        return self.useFixture(machines.Member(
            self.cloud, 'paired', self.cloud.network, host='compute2',
            allowed_address_pairs=[{'ip_address': address}
                                   for address in addresses]))


class TestFabrics(test_ovn_data_plane.VipTestCase, StrangeClients):
    """OVN."""

    how = {'provider': networking.PROVIDER, 'options': {'ml2_type_vlan': {
        'network_vlan_ranges': f'{networking.PROVIDER}:100:199'}}}

    def setUp(self):
        super().setUp()
        self.other = self.cloud.add_network(
            'other', '10.2.0.0/24', '10.2.0.1', router=self.cloud.router)[0]

    def add_client(self, name, network, host='compute2', **port):
        return self.useFixture(machines.Client(self.cloud, name, network,
                                               host=host, **port))

    def assert_answers(self, ways):
        """Each gets all its answers.

        :param ways: (client, address) pairs.
        """
        found = {client.name: count_answers(client, address)
                 for client, address in ways}
        self.assertEqual(dict.fromkeys(found, NUMBER), found)

    def test_vlan(self):
        self.check_provider_network('vlan', provider_segmentation_id=_TAG)

    def test_flat(self):
        self.check_provider_network('flat')

    def check_provider_network(self, kind, **attributes):
        network = self.cloud.connection.network.create_network(
            name=kind, project_id=neutron.PROJECT_ID,
            provider_network_type=kind,
            provider_physical_network=networking.PROVIDER, **attributes)
        self.cloud.fabric.set_tag(
            network.id, attributes.get('provider_segmentation_id'))
        self.cloud.add_subnet(network, '10.20.0.0/24', '10.20.0.1',
                              self.cloud.router)
        made = self.useFixture(vip.Vip(self.cloud, self.distributors, network,
                                       2))
        address, = made.addresses
        bare = self.add_client('bare', network, node_fabric.OUTSIDE,
                               binding_vnic_type='baremetal')
        self.check_bare(bare)
        self.assert_answers((
            (self.add_client('inside', network), address),
            (bare, address),
            (self.add_client('routed', self.other), address),
            (self.add_client('outside', self.cloud.external_network),
             self.cloud.add_floating_ip(made.port.id))))
        self.assertTrue(made.packets(made.active))

    def check_bare(self, machine):
        """It is an external port of OVN's."""
        central = self.cloud.networking.central
        self.assertEqual('external', process.run(
            'ovn-nbctl', f'--db={central.connection("nb")}', 'lsp-get-type',
            machine.port.id).strip())

    def test_clients(self):
        made = self.useFixture(vip.Vip(self.cloud, self.distributors,
                                       self.cloud.network, 2))
        address, = made.addresses
        paired = self.add_paired(made.addresses)
        clients = [self.add_second_router(made.members), paired,
                   self.add_trunk(),
                   self.add_client('inside', self.cloud.network),
                   self.add_client('routed', self.other)]
        self.assert_answers([(each, address) for each in clients])
        # It took nothing from members.
        self.assertNotIn(paired.name, {
            clients[0].get(address) for _ in range(NUMBER)})


class TestFabricsOVS(TestFabrics):
    """ML2/OVS."""

    network = 'ovs'

    def check_bare(self, machine):
        """It is nothing to ML2/OVS."""


class TestHARouter(test_ovn_data_plane.VipTestCase):
    """A router that keepalived of neutron-l3-agent has active."""

    network = 'ovs'
    how = {'options': {'DEFAULT': {'l3_ha': True,
                                   'max_l3_agents_per_router': 1}}}

    def test_answers(self):
        api = self.cloud.connection.network
        self.assertTrue(api.get_router(self.cloud.router.id).is_ha)
        other = self.cloud.add_network(
            'other', '10.2.0.0/24', '10.2.0.1', router=self.cloud.router)[0]
        made = self.useFixture(vip.Vip(self.cloud, self.distributors,
                                       self.cloud.network, 2))
        routed = self.useFixture(machines.Client(
            self.cloud, 'routed', other, host='compute2'))
        outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))
        floating = self.cloud.add_floating_ip(made.port.id)
        waiting.wait_for(lambda: count_answers(outside, floating, 1),
                         'router')
        self.assertEqual((NUMBER, NUMBER), (
            count_answers(routed, made.addresses[0]),
            count_answers(outside, floating)))


class RouterMoves:
    """The node of a router is cut off, in .cloud, on OVN."""

    how = {'provider': networking.EXTERNAL,
           'gateways': networking.NETWORK_NODES}
    lost = None

    def find_host(self):
        """Return on which node the router goes outside, or None."""
        database = self.cloud.networking.central.connection('sb')

        def ask(*command):
            return process.run('ovn-sbctl', f'--db={database}', '--bare',
                               *command).strip()

        chassis = ask('--columns=chassis', 'find', 'Port_Binding',
                      'type=chassisredirect')
        return chassis and ask('get', 'Chassis', chassis,
                               'hostname').strip('"')

    def wait_until_hosted(self):
        return waiting.wait_for(self.find_host, 'router')

    def check_node_dies(self, host, ways):
        """Only what goes through the router sees it, and not for long.

        :param host: where the router is.
        :param ways: {client: address}: "inside", "routed" and "outside", and
                     "routed-directly" and "outside-directly", to a member.
        """
        found = {}

        def all_answer():
            found.update({client.name: count_answers(client, address)
                          for client, address in ways.items()})
            return set(found.values()) == {NUMBER}

        def wait_until_served(when):
            waiting.wait_for(all_answer,
                             lambda: f'answers {when}: {found}')

        wait_until_served('at first')
        probes = [client.start_probe(address, rate=_RATE)
                  for client, address in ways.items()]
        held = [client.hold(address, _HELD).wait_until_open()
                for client, address in ways.items()]
        self.lost = host
        with self.cloud.networking.chassis[host].without_network():
            waiting.wait_for(
                lambda: self.find_host() not in ('', None, host),
                'another node')
            wait_until_served('by another node')
            time.sleep(_STEADY)
        wait_until_served('after it is back')
        failed, broken = {}, {}
        for client, probe, connections in zip(ways, probes, held,
                                              strict=True):
            report = probe.stop()
            failed[client.name] = report.failed
            broken[client.name] = len(connections.stop().broken)
            print(f'{client.name}: {report.failed} of {report.requests} '
                  f'failed, dark for {report.dark:.1f} s, '
                  f'{broken[client.name]} of {_HELD} connections broken')
        self.assertEqual((0, 0), (failed['inside'], broken['inside']))
        for name in ('routed', 'outside'):
            # That of the VIP comes back as that of a machine does.
            self.assertLess(failed[name], failed[f'{name}-directly'] +
                            _LATER * _RATE)


class TestRouterMoves(RouterMoves, test_ovn_data_plane.VipTestCase):
    """The active distributor is at the other node."""

    def test_node_dies(self):
        other = self.cloud.add_network(
            'other', '10.2.0.0/24', '10.2.0.1', router=self.cloud.router)[0]
        host = self.wait_until_hosted()
        made = self.useFixture(vip.Vip(
            self.cloud,
            sorted(self.distributors, key=lambda each: each.host == host),
            self.cloud.network, 2))
        address, = made.addresses
        member = made.members[0]
        floating = self.cloud.add_floating_ip(made.port.id)
        self.check_node_dies(host, {
            self.useFixture(machines.Client(self.cloud, name, network,
                                            host='compute2')): where
            for name, network, where in (
                ('inside', self.cloud.network, address),
                ('routed', other, address),
                ('routed-directly', other, member.address),
                ('outside-directly', self.cloud.external_network,
                 self.cloud.add_floating_ip(member.port.id)),
                ('outside', self.cloud.external_network, floating))})


class TestRouterMovesOVS(TestRouterMoves):
    """ML2/OVS: a router that keepalived of neutron-l3-agent has active."""

    network = 'ovs'
    how = {**TestRouterMoves.how, 'options': {'DEFAULT': {
        'l3_ha': True, 'max_l3_agents_per_router': 2}}}

    def find_host(self):
        return next((
            each.host for each in
            self.cloud.connection.network.routers_hosting_l3_agents(
                self.cloud.router.id)
            # A node that is cut off stays what it was.
            if each.ha_state == 'active' and each.host != self.lost), None)


class TestDistributedFloating(test_ovn_data_plane.VipTestCase):
    """Floating IPs are translated where a port is: octavia-api refuses it."""

    # Each node goes outside by itself.
    how = {'provider': networking.EXTERNAL, 'options': {
        'ovn': {'enable_distributed_floating_ip': True}}}

    def test_refused(self):
        cloud = self.cloud
        conf = cfg.ConfigOpts()
        groups.register(conf)
        conf.register_opts(ovn_conf.OPTS, group=ovn_conf.GROUP)
        conf([], default_config_files=[])
        conf.set_override(
            'ovn_nb_connection', [cloud.networking.central.connection('nb')],
            group=ovn_conf.GROUP)
        made = self.useFixture(vip.Vip(cloud, self.distributors,
                                       cloud.network, 2))
        inside, outside = (self.useFixture(machines.Client(
            cloud, name, network, host='compute2')) for name, network in (
                ('inside', cloud.network),
                ('outside', cloud.external_network)))
        floating = cloud.add_floating_ip(made.port.id)
        waiting.wait_for(
            lambda: nat.find_distributed(conf) == {made.port.id: floating},
            'distributed floating IP')
        # It is reached by its own address alone.
        self.assertEqual((NUMBER, 0), (
            count_answers(inside, made.addresses[0]),
            count_answers(outside, floating)))
        self.assertTrue(floating_ips.are_distributed(conf))
        driver = types.SimpleNamespace(network_proxy=cloud.connection.network)
        e = self.assertRaises(
            vip_network.Unsuitable, vip_network.check_floating_ips, driver,
            cloud.network.id, [cloud.subnet.id])
        self.assertIn('external gateway', str(e))
