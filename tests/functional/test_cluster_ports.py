# SPDX-License-Identifier: Apache-2.0

"""The ports of distributors in a real Neutron."""

import itertools
import uuid

from octavia.common import data_models
from octavia.network.drivers.neutron import allowed_address_pairs
from openstack import exceptions as sdk_exc

from octavia_hmsync.cluster.db import admission
from octavia_hmsync.cluster.db import vip as vip_repo
from octavia_hmsync.cluster.distribution import groups as cluster_groups
from octavia_hmsync.cluster.distribution.ovn import ports as ovn_ports
from octavia_hmsync.cluster.distribution import port_watch
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync import exceptions
from tests.cloud import http_proxy
from tests.cloud import neutron
from tests.unit import base

V4, V6 = '192.0.2.5', 'fd00::5'


class Compute:
    """What Octavia's driver for Nova does to a port.

    :ivar limit: how many interfaces an instance may have
    """

    def __init__(self, api, node):
        self.api = api
        self.node = node
        self.limit = 1
        self.plugged = []

    def attach_network_or_port(self, compute_id, port_id=None):
        port = self.api.get_port(port_id)
        if port.device_id:
            raise ValueError(f'Port {port_id} is in use.')
        if len(self.plugged) == self.limit:
            raise ValueError('No more\nPCI slots.')
        self.plugged.append(port_id)
        self.api.update_port(port_id, device_id=compute_id,
                             device_owner='compute:nova',
                             binding_host_id=self.node)

    def detach_port(self, compute_id, port_id):
        self.plugged.remove(port_id)


class TestPorts(base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.neutron = neutron.shared_server()
        cls.cloud = neutron.connect(cls.neutron)
        cls.addClassCleanup(cls.cloud.close)
        cls.api = cls.cloud.network

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf(hmsync_network={'api_timeout': 60})
        self.host = f'network-{uuid.uuid4().hex[:8]}'
        self.cluster_id = str(uuid.uuid4())
        self.subject = cluster_ports.Ports(self.conf, self.cloud)

    def add_agent(self):
        self.neutron.add_agent(self.host)
        self.addCleanup(self.neutron.remove_agent, self.host)

    def add_network(self, is_dual=False, **attributes):
        """Make a network with a subnet, and an agent where ports can be.

        :returns: what is passed to Ports.ensure().
        """
        self.add_agent()
        made = self.api.create_network(name='vip', **attributes)
        self.addCleanup(self.api.delete_network, made.id)
        self.subnets = {V4: self.add_subnet(made, 4, '192.0.2.0/24')}
        if is_dual:
            self.subnets[V6] = self.add_subnet(made, 6, 'fd00::/64')
        self.network_id = made.id
        self.addCleanup(self.subject.delete, self.cluster_id)
        return self.subject.get_network(made.id)

    def add_subnet(self, network, version, cidr):
        subnet = self.api.create_subnet(network_id=network.id,
                                        ip_version=version, cidr=cidr)
        self.addCleanup(self.api.delete_subnet, subnet.id)
        return subnet.id

    def ensure(self, network, subject=None):
        return (subject or self.subject).ensure(
            self.cluster_id, self.host, network, self.subnets)

    def list(self):
        return list(self.api.ports(network_id=self.network_id,
                                   device_owner=cluster_ports.DEVICE_OWNER))

    def pairs(self, port_id):
        return [pair['ip_address'] for pair in
                self.api.get_port(port_id).allowed_address_pairs]

    def test_made_and_again(self):
        network = self.add_network(is_dual=True)
        made = self.ensure(network)
        port, = self.list()
        self.assertEqual((port.id, port.mac_address), (made.id, made.mac))
        self.assertEqual(network['mtu'], made.mtu)
        self.assertEqual(self.host, port.binding_host_id)
        self.assertEqual({*self.subnets.values()},
                         {ip['subnet_id'] for ip in port.fixed_ips})
        self.assertEqual(made, self.ensure(network))
        self.assertEqual(1, len(self.list()))
        self.subject.delete(self.cluster_id)
        self.subject.delete(self.cluster_id)
        self.assertEqual([], self.list())

    def repair_member(self, port_id, groups, foreign=()):
        ports = self.subject.read({port_id})
        values = port_watch.find_changes(ports, [V4], groups, foreign)
        self.subject.change(port_id, values[port_id])
        self.assertEqual({}, port_watch.find_changes(
            self.subject.read({port_id}), [V4], groups, foreign))

    def test_what_somebody_did(self):
        """Deleted, or changed, as the owner of the network may."""
        network = self.add_network()
        made = self.ensure(network)
        member = self.api.create_port(network_id=network['id'])
        self.addCleanup(self.api.delete_port, member.id)
        ids = {made.id, member.id, str(uuid.uuid4())}
        found = self.subject.read(ids)
        self.assertEqual({made.id, member.id}, set(found))
        self.assertTrue(self.subject.is_right(found[made.id], set()))
        self.assertEqual(tuple(member.security_group_ids),
                         found[member.id].groups)
        self.repair_member(member.id, member.security_group_ids)
        self.assertEqual([f'{V4}/32'], self.pairs(member.id))
        right = self.subject.read(ids)[member.id]
        for changes in (
                {'security_group_ids': []}, {'admin_state_up': False},
                {'allowed_address_pairs': []},
                {'allowed_address_pairs': [], 'security_group_ids': [],
                 'port_security_enabled': False}):
            self.api.update_port(member.id, **changes)
            self.repair_member(member.id, member.security_group_ids)
            self.assertEqual(right, self.subject.read(ids)[member.id])
        self.api.update_port(made.id, allowed_address_pairs=[])
        wrong = self.subject.read(ids)[made.id]
        self.assertEqual(wrong.is_secured,
                         not self.subject.is_right(wrong, set()))
        self.ensure(network)
        self.assertTrue(self.subject.is_right(
            self.subject.read(ids)[made.id], set()))
        self.api.delete_port(made.id)
        self.assertEqual({member.id}, set(self.subject.read(ids)))
        # More than are asked for at once.
        self.assertEqual({member.id}, set(self.subject.read(
            ids | {str(uuid.uuid4()) for _ in range(60)})))

    def test_of_another_agent(self):
        """What the firewall of ML2/OVS would not let through, OVN's does."""
        network = self.add_network(is_dual=True)
        values = self.subject._security(network, self.subnets)
        port = self.api.create_port(network_id=network['id'], **values)
        self.addCleanup(self.api.delete_port, port.id)
        self.assertCountEqual(
            [V4, V6, '0.0.0.0/0', '2000::/3', 'fc00::/7'],
            self.pairs(port.id))
        group, = values['security_group_ids']
        self.assertEqual(values, self.subject._security(network,
                                                        self.subnets))
        group = self.api.get_security_group(group)
        self.assertFalse(group.stateful)
        self.assertEqual(
            {(direction, version) for direction in ('ingress', 'egress')
             for version in ('IPv4', 'IPv6')},
            {(rule['direction'], rule['ethertype'])
             for rule in group.security_group_rules})

    def test_ml2_ovs(self):
        """Its firewall follows connections, of which there is one half."""
        made = self.ensure(self.add_network())
        port = self.api.get_port(made.id)
        self.assertEqual(
            (False, [], []),
            (port.is_port_security_enabled, port.security_group_ids,
             port.allowed_address_pairs))

    def test_without_port_security(self):
        network = self.add_network(is_port_security_enabled=False)
        self.ensure(network)
        port, = self.list()
        self.assertEqual([], port.security_group_ids)

    def test_unknown_node(self):
        network = self.add_network()
        self.host = 'nowhere'
        e = self.assertRaises(exceptions.PortConflict, self.ensure, network)
        self.assertIn('to the node nowhere', str(e))
        # An agent comes.
        self.add_agent()
        self.assertEqual('nowhere', self.api.get_port(
            self.ensure(network).id).binding_host_id)
        self.assertEqual(1, len(self.list()))

    def test_any_request_fails(self):
        """However it ends, the next one finds what there is."""
        network = self.add_network()
        proxy = self.useFixture(http_proxy.FaultyProxy(self.neutron.port))
        connection = neutron.connect(proxy)
        self.addCleanup(connection.close)
        proxied = cluster_ports.Ports(self.conf, connection)
        # Versions, and the group, which others make too.
        self.ensure(network, proxied)
        for fault in (http_proxy.LOSES, http_proxy.REFUSES, http_proxy.LIES):
            for number in itertools.count(1):
                self.subject.delete(self.cluster_id)
                proxy.fail_at(number, fault)
                try:
                    self.ensure(network, proxied)
                except (exceptions.CloudUnavailable,
                        exceptions.CloudRefused) as e:
                    self.assertNotIn('\n', str(e))
                asked = len(proxy.requests)
                proxy.heal()
                self.ensure(network)
                self.assertEqual(1, len(self.list()), (fault, number))
                if number > asked:
                    break

    def test_somebody_else_makes_it_at_the_same_time(self):
        network = self.add_network()
        made = self.ensure(network)
        # It was not there yet when the other one looked.
        found = []
        find = self.subject._find
        self.subject._find = lambda *args: (
            find(*args) if found else found.append(True))
        self.assertEqual(made, self.ensure(network))
        self.assertEqual(1, len(self.list()))

    def test_switched(self):
        made = self.ensure(self.add_network())
        self.assertNotIn(made.id, self.subject.get_switched_off())
        for _again in range(2):
            self.subject.switch(made.id, False)
            self.assertIn(made.id, self.subject.get_switched_off())
        self.subject.switch(made.id, True)
        self.assertNotIn(made.id, self.subject.get_switched_off())
        # One that is gone needs no switch.
        self.subject.switch(str(uuid.uuid4()), False)

    def test_repaired(self):
        network = self.add_network()
        made = self.ensure(network)
        self.subject.switch(made.id, False)
        self.ensure(network)
        self.assertEqual(set(), self.subject.get_switched_off() & {made.id})

    def test_instance(self):
        """Its name is its UUID, and Nova plugs its ports."""
        self.conf.set_override('compute_driver', 'tests',
                               group='controller_worker')
        network = self.add_network()
        compute = Compute(self.api, self.host)
        self.host = str(uuid.uuid4())
        names = []
        self.subject = cluster_ports.Ports(
            self.conf, self.cloud,
            lambda name: names.append(name) or compute)
        made = self.ensure(network)
        self.assertEqual(made, self.ensure(network))
        self.assertEqual(([made.id], ['tests']), (compute.plugged, names))
        port = self.api.get_port(made.id)
        self.assertEqual((self.host, [V4]), (port.device_id, [
            address for address in self.subnets]))
        self.assertEqual(made.addresses,
                         tuple(ip['ip_address'] for ip in port.fixed_ips))
        # Somebody else's is left alone, whatever it says.
        other = self.api.create_port(
            network_id=network['id'], name='other',
            description=port.description)
        self.addCleanup(self.api.delete_port, other.id)

        # The next one it cannot have.
        first, self.cluster_id = self.cluster_id, str(uuid.uuid4())
        e = self.assertRaises(exceptions.PortConflict, self.ensure, network)
        self.assertIn('(No more PCI slots.)', str(e))
        self.subject.delete(self.cluster_id, self.host)
        compute.limit = 2
        second = self.ensure(network)
        self.subject.delete(self.cluster_id, 'network1')
        self.assertEqual([made.id, second.id], compute.plugged)
        for cluster_id in (self.cluster_id, first, first):
            self.subject.delete(cluster_id)
        self.assertEqual([], compute.plugged)
        self.assertEqual([other.id], [one.id for one in self.api.ports(
            network_id=network['id']) if not one.device_owner])

    def test_instance_of_another_one(self):
        network = self.add_network()
        self.host = str(uuid.uuid4())
        compute = Compute(self.api, 'anywhere')
        self.subject = cluster_ports.Ports(self.conf, self.cloud,
                                           lambda _name: compute)
        made = self.ensure(network)
        self.api.update_port(made.id, device_id=str(uuid.uuid4()))
        e = self.assertRaises(exceptions.PortConflict, self.ensure, network)
        self.assertIn(f'and not into the instance {self.host}', str(e))

    def test_refused(self):
        network = self.add_network()
        self.subnets = {V4: str(uuid.uuid4())}
        e = self.assertRaises(exceptions.CloudRefused, self.ensure, network)
        self.assertIn('Could not make the port octavia-lb-distributor-',
                      str(e))
        self.assertNotIn('\n', str(e))

    def test_unknown_network(self):
        e = self.assertRaises(exceptions.CloudRefused,
                              self.subject.get_network, 'gone')
        self.assertIn('HTTP 404', str(e))

    def test_neutron_does_not_answer(self):
        class Down:
            url = 'http://127.0.0.1:1'

        connection = neutron.connect(Down)
        self.addCleanup(connection.close)
        subject = cluster_ports.Ports(self.conf, connection)
        self.assertRaises(exceptions.CloudUnavailable, subject.get_network,
                          'any')

    # What is deleted by hand, as Octavia's own driver makes it

    def make_octavia(self):
        """Octavia's network driver, with this Neutron."""
        made = object.__new__(allowed_address_pairs.AllowedAddressPairsDriver)
        made.network_proxy = self.api
        made.sec_grp_enabled = True
        made._check_extension_enabled = lambda _alias: True
        return made

    def make_load_balancer(self, vip, *listeners, more=()):
        lb_id = str(uuid.uuid4())
        return data_models.LoadBalancer(
            id=lb_id, project_id='demo', vip=vip, topology='ACTIVE_ACTIVE',
            additional_vips=[data_models.AdditionalVip(ip_address=each)
                             for each in more],
            listeners=[data_models.Listener(
                protocol=protocol, protocol_port=port, peer_port=peer_port,
                provisioning_status='ACTIVE', allowed_cidrs=[
                    data_models.ListenerCidr(listener_id='any', cidr=cidr)
                    for cidr in cidrs])
                for protocol, port, peer_port, cidrs in listeners])

    def list_rules(self, group_id):
        return {rule.id: rule for rule in self.api.security_group_rules(
            security_group_id=group_id)}

    def test_each_rule_of_a_load_balancer(self):
        """Each is made anew as it was, and Octavia changes nothing then."""
        listeners = (('TCP', 80, 1025, ()),
                     ('UDP', 53, 1026, ('192.0.2.0/24', 'fd00::/64')),
                     ('HTTPS', 443, 1025, ('0.0.0.0/0',)))
        for sg_ids in ([], [str(uuid.uuid4())]):
            load_balancer = self.make_load_balancer(
                data_models.Vip(ip_address=V4, sg_ids=sg_ids), *listeners,
                more=(V6,))
            octavia = self.make_octavia()
            name = cluster_groups.get_name(load_balancer.id)
            made = octavia._create_security_group(name)
            self.addCleanup(self.api.delete_security_group, made.id)
            octavia._update_security_group_rules(load_balancer, made.id)
            needed = admission.Admission(
                load_balancer.id, (V4, V6), tuple(sg_ids), tuple(
                    admission.Listener(*each) for each in listeners))
            group, = self.subject.list_groups([name, 'lb-none'])
            self.assertEqual((made.id, []), (
                group.id, cluster_groups.find_missing(needed, group.rules)))
            for rule_id in self.list_rules(made.id):
                self.api.delete_security_group_rule(rule_id)
                found, = self.subject.list_groups([name])
                missing, = cluster_groups.find_missing(needed, found.rules)
                self.assertTrue(self.subject.add_rule(made.id, missing))
                # Somebody else was first.
                self.assertFalse(self.subject.add_rule(made.id, missing))
                found, = self.subject.list_groups([name])
                self.assertEqual(group.rules, found.rules)
            before = set(self.list_rules(made.id))
            octavia._update_security_group_rules(load_balancer, made.id)
            self.assertEqual(before, set(self.list_rules(made.id)))

    def test_rules_of_distributors(self):
        self.ensure(self.add_network())
        group, = self.subject.list_groups([cluster_groups.DISTRIBUTORS])
        self.assertEqual(
            [], cluster_groups.find_missing_of_distributors(group.rules))
        for rule_id in self.list_rules(group.id):
            self.api.delete_security_group_rule(rule_id)
        self.subject._ensure_group()
        self.assertEqual([group], self.subject.list_groups(
            [cluster_groups.DISTRIBUTORS]))
        # Whoever has a port with it cannot delete it all.
        port = self.api.create_port(
            network_id=self.network_id, security_group_ids=[group.id])
        self.addCleanup(self.api.delete_port, port.id)
        self.assertRaises(sdk_exc.ConflictException,
                          self.api.delete_security_group, group.id)

    def test_port_of_a_vip(self):
        """It is made as it was, unless somebody else has the address."""
        self.add_network()
        vip = data_models.Vip(
            network_id=self.network_id, subnet_id=self.subnets[V4],
            ip_address=V4)
        load_balancer = self.make_load_balancer(vip)
        octavia = self.make_octavia()
        made, _ = octavia.allocate_vip(load_balancer)
        self.assertEqual(made.port_id, self.subject.find_holder(
            self.network_id, V4))
        before = self.api.get_port(made.port_id).to_dict()
        vip.port_id = made.port_id
        self.api.delete_port(made.port_id)
        self.assertIsNone(self.subject.find_holder(self.network_id, V4))
        again, _ = octavia.allocate_vip(load_balancer)
        after = self.api.get_port(again.port_id).to_dict()
        for values in (before, after):
            for name in ('id', 'mac_address', 'created_at', 'updated_at',
                         'revision_number', 'location'):
                values.pop(name)
        self.assertEqual(before, after)
        state, = self.subject.read({again.port_id}).values()
        self.assertEqual(({V4: self.subnets[V4]}, False),
                         (state.addresses, state.is_on))
        # With a security group that nobody has any more.
        self.api.update_port(again.port_id, security_group_ids=[])
        vip.port_id = again.port_id
        group_id = octavia.update_vip_sg(load_balancer, vip)
        self.addCleanup(self.api.delete_security_group, group_id)
        self.addCleanup(self.api.delete_port, again.port_id)
        state, = self.subject.read({again.port_id}).values()
        self.assertEqual((group_id,), state.groups)

    def make_vip(self):
        """As Octavia has it; returns its vip.Addresses and its group."""
        self.add_network()
        vip = data_models.Vip(
            network_id=self.network_id, subnet_id=self.subnets[V4],
            ip_address=V4)
        self.octavia = self.make_octavia()
        self.load_balancer = self.make_load_balancer(
            vip, ('TCP', 80, 1025, ()))
        made, _ = self.octavia.allocate_vip(self.load_balancer)
        self.addCleanup(self.api.delete_port, made.port_id)
        vip.port_id = made.port_id
        group_id = self.octavia.update_vip_sg(self.load_balancer, vip)
        self.addCleanup(self.api.delete_security_group, group_id)
        # Cleanups run from the last to the first.
        self.addCleanup(self.api.update_port, made.port_id,
                        security_group_ids=[])
        return vip_repo.Addresses(
            self.load_balancer.id, self.network_id, made.port_id, None,
            {V4: self.subnets[V4]}), group_id

    def find_changes_of_vip(self, vip, group_id):
        state, = self.subject.read({vip.port_id}).values()
        return port_watch.find_changes_of_vip(state, vip, [group_id])

    def test_changes_of_the_port_of_a_vip(self):
        """Whatever is changed by hand; Octavia then has what it had."""
        other = self.add_group('other')
        vip, group_id = self.make_vip()
        subnet = self.subnets[V4]
        before = self.subject.read({vip.port_id})
        self.assertEqual({}, self.find_changes_of_vip(vip, group_id))
        more = {'security_group_ids': [group_id, other]}
        for changes, found in (
                ({'fixed_ips': [{'subnet_id': subnet,
                                 'ip_address': '192.0.2.77'}]}, 'fixed_ips'),
                # Octavia takes the first one for the VIP.
                ({'fixed_ips': [{'subnet_id': subnet, 'ip_address': each}
                                for each in ('192.0.2.3', V4)]},
                 'fixed_ips'),
                ({'security_group_ids': []}, 'security_group_ids'),
                ({'security_group_ids': [], 'port_security_enabled': False},
                 'port_security_enabled'),
                ({'device_owner': ''}, 'device_owner')):
            self.api.update_port(vip.port_id, **changes)
            values = self.find_changes_of_vip(vip, group_id)
            self.assertIn(found, values)
            if len(changes.get('fixed_ips', ())) == 2:
                again, _ = self.octavia.allocate_vip(self.load_balancer)
                self.assertEqual('192.0.2.3', again.ip_address)
            self.subject.change(vip.port_id, values)
            self.assertEqual(before, self.subject.read({vip.port_id}))
            again, more_vips = self.octavia.allocate_vip(self.load_balancer)
            self.assertEqual((V4, vip.port_id, []), (
                again.ip_address, again.port_id, more_vips))
        # What costs nobody anything is the tenant's.
        for changes in (
                {'name': 'mine'}, {'admin_state_up': True},
                {'mac_address': 'fa:16:3e:00:00:99'}, more,
                {'allowed_address_pairs': [{'ip_address': '192.0.2.9'}]}):
            self.api.update_port(vip.port_id, **changes)
            self.assertEqual({}, self.find_changes_of_vip(vip, group_id))

    def add_group(self, name):
        made = self.api.create_security_group(name=name)
        self.addCleanup(self.api.delete_security_group, made.id,
                        ignore_missing=True)
        return made.id

    def test_group_of_another_load_balancer(self):
        """Octavia deletes ports that have it, together with it."""
        self.add_network()
        own, other = (self.add_group(cluster_groups.get_name(uuid.uuid4()))
                      for _ in range(2))
        by_hand = self.add_group('by hand')
        port = self.api.create_port(
            network_id=self.network_id,
            security_group_ids=[own, other, by_hand])
        self.addCleanup(self.api.delete_port, port.id)
        found = self.subject.list_groups([own, other, by_hand], 'id')
        self.assertEqual({own, other}, {
            group.id for group in found
            if cluster_groups.is_made(group.name)})
        self.assertRaises(sdk_exc.ConflictException,
                          self.api.delete_security_group, other)
        self.repair_member(port.id, [own], {other})
        state, = self.subject.read({port.id}).values()
        self.assertEqual({own, by_hand}, set(state.groups))
        self.api.delete_security_group(other)

    # Those that OVN's load balancers have

    def test_source(self):
        """It is bound nowhere, and has the VIP for a neighbour."""
        network = self.add_network(is_dual=True)
        subject = ovn_ports.SourcePorts(self.conf, self.cloud)
        made = subject.ensure_source(self.cluster_id, network, self.subnets)
        self.assertEqual(made, subject.ensure_source(
            self.cluster_id, network, self.subnets))
        port, = self.list()
        self.assertEqual((port.id, port.mac_address), (made.id, made.mac))
        self.assertEqual(
            ('', {V4, V6}, set(self.subnets.values()), []),
            (port.binding_host_id, set(self.pairs(port.id)),
             {each['subnet_id'] for each in port.fixed_ips},
             port.security_group_ids))
        # Somebody changed it.
        self.api.update_port(port.id, allowed_address_pairs=[])
        subject.ensure_source(self.cluster_id, network, self.subnets)
        self.assertEqual({V4, V6}, set(self.pairs(port.id)))
        subject.delete(self.cluster_id)
        self.assertEqual([], self.list())
