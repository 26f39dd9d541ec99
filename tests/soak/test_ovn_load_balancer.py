# SPDX-License-Identifier: Apache-2.0

"""A VIP that OVN distributes: members are mere machines."""

import time

from testtools import content

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovn import balancers
from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.cluster.distribution.ovn import ports as ovn_ports
from octavia_hmsync.cluster.distribution.ovn import probes
from octavia_hmsync.cluster.distribution.ovn import watch
from octavia_hmsync.conf import ovn as ovn_conf
from tests.cloud import machines
from tests.cloud import networking
from tests.cloud import neutron
from tests.cloud import process
from tests.cloud import records
from tests.cloud import tenants
from tests.cloud import waiting
from tests.db_cases import base
from tests.soak import test_fabrics
from tests.unit.db import sqlite

NUMBER = 40


class LoadBalancerTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):
    """Clients of the same subnet, of another one, and outside."""

    # What tenants.Networks takes.
    how: dict = {}

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(tenants.Networks(**self.how))
        self.addOnException(lambda _: self.addDetail(
            'OVN', content.text_content(self.describe())))
        central = self.cloud.networking.central
        for name in ('nb', 'sb'):
            self.conf.set_override(f'ovn_{name}_connection',
                                   [central.connection(name)],
                                   group=ovn_conf.GROUP)
        self.addCleanup(connections.disconnect)
        self.subject = balancers.Balancers(
            self.conf, self.engine,
            ovn_ports.SourcePorts(self.conf, self.cloud.connection))
        self.watch = watch.OVNWatch(self.engine, self.subject)
        self.probes = probes.OVNProbeWatch(
            self.engine, self.subject, probes.Southbound(self.conf),
            lambda: None)
        self.addCleanup(self.probes.stop, 10)
        self.probes.run_once()
        self.cloud.add_subnet(self.cloud.network, 'fd00:1::/64', 'fd00:1::1',
                              self.cloud.router)
        self.other = self.cloud.add_network(
            'other', '10.2.0.0/24', '10.2.0.1', router=self.cloud.router)[0]
        self.cloud.add_subnet(self.other, 'fd00:2::/64', 'fd00:2::1',
                              self.cloud.router)
        self.inside, self.routed, self.outside = (
            self.useFixture(machines.Client(self.cloud, name, network,
                                            host='compute2'))
            for name, network in (('inside', self.cloud.network),
                                  ('routed', self.other),
                                  ('outside', self.cloud.external_network)))
        self.members = {}
        self._add_vip()

    def describe(self):
        central = self.cloud.networking.central
        members = (
            f'--- {each.name}\n{each.server.log_tail()}'
            f'{each.namespace.run("ss", "-Htln").stdout}'
            for each in self.members.values())
        tables = (process.run(
            f'ovn-{name}ctl', f'--db={central.connection(name)}', 'list',
            table) for name, table in (('nb', 'Load_Balancer'),
                                       ('sb', 'Service_Monitor')))
        return '\n'.join((self.cloud.networking.describe(), *members,
                          *tables))

    def _add_vip(self):
        api = self.cloud.connection.network
        load_balancer_id = records.new_id()
        # As Octavia makes it.
        self.port = api.create_port(
            network_id=self.cloud.network.id,
            name=f'octavia-lb-{load_balancer_id}',
            device_id=f'lb-{load_balancer_id}', device_owner='Octavia',
            is_admin_state_up=False, project_id=neutron.PROJECT_ID)
        first, *more = sorted(self.port.fixed_ips,
                              key=lambda each: len(each['ip_address']))
        self.addresses = [each['ip_address'] for each in (first, *more)]
        self.records.insert_all({
            'load_balancer': [{
                **records.load_balancer_row(load_balancer_id),
                'topology': 'ACTIVE_ACTIVE'}],
            'vip': [{**records.vip_row(load_balancer_id), **first,
                     'network_id': self.cloud.network.id,
                     'port_id': self.port.id}],
            'additional_vip': [{
                'load_balancer_id': load_balancer_id,
                'port_id': self.port.id,
                'network_id': self.cloud.network.id, **each}
                for each in more]})
        self.load_balancer_id = load_balancer_id
        self.listener_id = self.add_listener(80)
        self.cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            self.cluster_id, load_balancer_id, 'web', 8, 1, 'hmsync_ovn'))

    def add_listener(self, port):
        listener_id = records.new_id()
        self.records.insert_all({'listener': [records.listener_row(
            listener_id, self.load_balancer_id, port)]})
        return listener_id

    def add_member(self):
        """Add a machine; clients come to it once it is told."""
        number = len(self.members)
        machine = self.useFixture(machines.Member(
            self.cloud, f'member{number}', self.cloud.network,
            host=self.cloud.fabric.hosts[number % 2]))
        member = member_repo.add(self.engine, self.cluster_id,
                                 records.new_id(), 8)
        amphora_id = records.new_id()
        self.records.insert_all({'amphora': [{
            **records.amphora_row(amphora_id, '192.0.2.9',
                                  self.load_balancer_id),
            'vrrp_port_id': machine.port.id}]})
        member_repo.assign_amphora(self.engine, member.id, amphora_id)
        member_repo.set_state(self.engine, member.id,
                              [member_repo.BUILDING], member_repo.ACTIVE)
        self.members[member.id] = machine
        return member.id

    @property
    def ways(self):
        """Who uses which address."""
        for address in self.addresses:
            yield self.inside, address
            yield self.routed, address
        yield self.outside, self.floating

    def assert_answers(self, names, ways=None):
        for client, address in ways or self.ways:
            waiting.wait_for(
                lambda: names == {client.get(address) for _ in range(24)},
                f'{names} for {client.name} at {address}')

    def start(self):
        """Have the members there are, and a floating IP."""
        outcome = self.subject.add(self.cluster_id)
        self.assertEqual({}, outcome.problems)
        # It is followed, as routers and networks are.
        self.floating = self.cloud.add_floating_ip(self.port.id)
        self.wait_until_followed('floating address in OVN')

    def add_two(self):
        """Have two members and a floating IP, by which all answer."""
        ids = [self.add_member() for _ in range(2)]
        self.start()
        self.assert_answers(self.names())
        return ids

    def wait_until_followed(self, what):
        waiting.wait_for(lambda: self.watch.run_once().told, what)

    def broken(self):
        return set().union(*(each.report().broken for each in self.held))

    def assert_broken(self, ports):
        # Each is used meanwhile.
        time.sleep(3)
        self.assertEqual(ports, self.broken())

    def names(self, *without):
        return {machine.name for key, machine in self.members.items()
                if key not in without}

    def get_probes(self):
        return {probe.member_id: probe.state for probe in
                probe_repo.get_of_cluster(self.engine, self.cluster_id)}


class TestLoadBalancer(LoadBalancerTestCase):

    def test_life(self):
        one, _two = self.add_two()
        self.held = [client.hold(address, NUMBER, rate=1).wait_until_open()
                     for client, address in self.ways]
        # A node may lose a packet in the moment when it learns of a change.
        probes = [client.start_probe(address, rate=10, timeout=3)
                  for client, address in self.ways]
        opened = set().union(*(each.report().opened for each in self.held))
        self.assertEqual(5 * NUMBER, len(opened))

        # A member more, and one that is drained.
        three = self.add_member()
        self.subject.apply(self.cluster_id)
        self.assert_answers(self.names())
        self.assert_broken(set())
        member_repo.set_state(self.engine, one, [member_repo.ACTIVE],
                              member_repo.DRAINING)
        self.subject.apply(self.cluster_id)
        self.assert_answers(self.names(one))
        self.assert_broken(set())
        # It answers, and OVN goes on looking at it.
        waiting.wait_for(lambda: self.get_probes() == {
            key: 'UP' for key in self.members}, 'probe of members')
        for each in probes:
            report = each.stop()
            self.assertEqual((0, 0), (report.failed, report.broken), report)

        # One that dies.
        dead = self.members[three]
        dead.kill()
        began = time.monotonic()
        waiting.wait_for(lambda: self.get_probes()[three] == 'DOWN',
                         'probe of the dead')
        print('seen after', time.monotonic() - began)
        self.assert_answers(self.names(one, three), [
            way for way in self.ways if ':' not in way[1]])
        member_repo.set_state(self.engine, three, [member_repo.ACTIVE],
                              member_repo.FAILED)
        self.subject.apply(self.cluster_id)
        self.assert_answers(self.names(one, three))

    def test_no_answer(self):
        """OVN gets none from any member, as where all are overloaded."""
        self.add_two()
        machines_ = self.members.values()
        ways = [way for way in self.ways if ':' not in way[1]]
        probes = [client.start_probe(address, rate=10, timeout=3)
                  for client, address in ways]
        monitored, = {source for source in process.run(
            'ovn-sbctl',
            f'--db={self.cloud.networking.central.connection("sb")}',
            '--bare', '--columns=src_ip', 'list',
            'Service_Monitor').split()}
        for each in machines_:
            each.namespace.run('nft', f'''
                table inet deaf {{
                    chain input {{
                        type filter hook input priority 0;
                        ip saddr {monitored} tcp dport 80 drop
                    }}
                }}''')
        northbound = self.subject.northbound
        waiting.wait_for(
            lambda: northbound.list()[self.cluster_id].open == {80},
            'open port')
        self.assert_answers(self.names(), ways)
        reports = [each.stop() for each in probes]
        print('dark', [each.dark for each in reports])
        self.assertEqual(0, sum(each.broken for each in reports), reports)
        for each in reports:
            # Until the second look at what OVN says.
            self.assertLess(each.dark, 5, reports)
        for each in machines_:
            each.namespace.run('nft', 'delete table inet deaf')
        waiting.wait_for(
            lambda: not northbound.list()[self.cluster_id].open,
            'closed port')
        self.assert_answers(self.names())

    def assert_datagrams(self, names):
        """Only these machines get flows that begin now.

        From ports that were not used before: OVN remembers those that were.
        """
        for client, address in self.ways:
            report = client.hold(
                address, NUMBER, rate=1, timeout=4, scheme='udp',
                answers=sorted(names)).wait_until_open().stop()
            self.assertEqual(NUMBER, len(report.opened))
            self.assertEqual({}, report.broken, (client.name, address))

    def test_datagrams(self):
        """Members are mere machines that answer datagrams, without LVS."""
        self.records.change('listener', self.listener_id, protocol='UDP')
        one, _two = (self.add_member() for _ in range(2))
        self.start()
        self.assert_datagrams(self.names())

        def hold():
            return [client.hold(address, NUMBER, rate=1, timeout=9,
                                scheme='udp').wait_until_open()
                    for client, address in self.ways]

        self.held = hold()
        opened = set().union(*(each.report().opened for each in self.held))
        self.assertEqual(5 * NUMBER, len(opened))

        # A member more, and one that is drained: each port keeps its home.
        three = self.add_member()
        self.subject.apply(self.cluster_id)
        self.assert_datagrams(self.names())
        self.assert_broken(set())
        member_repo.set_state(self.engine, one, [member_repo.ACTIVE],
                              member_repo.DRAINING)
        self.subject.apply(self.cluster_id)
        self.assert_datagrams(self.names(one))
        self.assert_broken(set())
        # Who is silent by TCP is not taken for dead: OVN does not look.
        self.assertEqual({}, self.get_probes())

        # Of the one that dies all ports go unanswered, and no others.
        self.held += hold()
        dead = self.members[three]
        dead.kill()
        member_repo.set_state(self.engine, three, [member_repo.ACTIVE],
                              member_repo.FAILED)
        self.subject.apply(self.cluster_id)
        self.assert_datagrams(self.names(one, three))
        waiting.wait_for(self.broken, 'silence of the dead')
        # Each of the others is used once more after the last of its own.
        time.sleep(12)
        errors = [error for each in self.held
                  for error in each.report().broken.values()]
        self.assertEqual({f'ValueError: no answer of {dead.name}'},
                         set(errors))
        print(len(errors), 'flows of the dead of', 10 * NUMBER)


class TestFabrics(LoadBalancerTestCase, test_fabrics.StrangeClients):
    """What test_fabrics has of clients, and of floating IPs."""

    # Each node goes outside by itself.
    how = {'provider': networking.EXTERNAL, 'options': {
        'ovn': {'enable_distributed_floating_ip': True}}}

    def test_distributed_floating_ip(self):
        """No machine has the VIP, so OVN translates at the gateway."""
        self.add_two()

    def test_clients(self):
        self.add_two()
        address = self.addresses[0]
        second = self.add_second_router(self.members.values())
        self.wait_until_followed('second router')
        clients = [second, self.add_paired([address]), self.add_trunk(),
                   self.inside, self.routed]
        found = {each.name: test_fabrics.count_answers(each, address)
                 for each in clients}
        found['outside'] = test_fabrics.count_answers(self.outside,
                                                      self.floating)
        self.assertEqual(dict.fromkeys(found, test_fabrics.NUMBER), found)
        self.assertEqual(self.names(), {
            second.get(address) for _ in range(24)})


class TestRouterMoves(test_fabrics.RouterMoves, LoadBalancerTestCase):

    def test_node_dies(self):
        host = self.wait_until_hosted()
        self.add_two()
        member = next(iter(self.members.values()))
        routed, outside = (self.useFixture(machines.Client(
            self.cloud, f'{name}-directly', network, host='compute2'))
            for name, network in (('routed', self.other),
                                  ('outside', self.cloud.external_network)))
        self.check_node_dies(host, {
            routed: member.address,
            outside: self.cloud.add_floating_ip(member.port.id),
            self.inside: self.addresses[0], self.routed: self.addresses[0],
            self.outside: self.floating})
