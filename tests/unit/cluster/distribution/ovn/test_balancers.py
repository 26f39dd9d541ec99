# SPDX-License-Identifier: Apache-2.0

"""OVN is told what rows say, whatever happens meanwhile."""

from unittest import mock

import fixtures

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovn import balancers
from octavia_hmsync.cluster.distribution.ovn import plan
from octavia_hmsync.cluster.distribution.ovn import watch
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from tests.cloud import waiting
from tests.unit.cluster.distribution.ovn import fakes


class TestAdd(fakes.OVNTestCase):

    def assertImpossible(self, words, cluster_id):
        e = self.assertRaises(exceptions.NotPossible, self.subject.add,
                              cluster_id)
        self.assertIn(words, str(e))
        # Nothing is built, and nothing is left in OVN.
        self.assertEqual({}, self.northbound.balancers)

    def test_added_and_again(self):
        cluster_id = self.add_cluster()
        for _again in range(2):
            outcome = self.subject.add(cluster_id)
            self.assertEqual((self.get_version(cluster_id), 'ovn', {}), (
                outcome.version, outcome.active, outcome.problems))
        row = self.get_row(cluster_id)
        self.assertEqual(
            (self.ports.sources[cluster_id], True, outcome.version, None),
            (row.port_id, row.active, row.applied_version, row.error))
        self.assertEqual('192.0.2.10:80,192.0.2.11:80',
                         self.get_vips(cluster_id)['192.0.2.5:80'])

    def test_where_it_cannot_work(self):
        cluster_id = self.add_cluster()
        self.northbound.switches.clear()
        self.assertImpossible('needs Neutron with ML2/OVN', cluster_id)
        self.assertEqual({}, self.ports.sources)
        self.northbound.switches.add(fakes.SWITCH)
        self.northbound.links.clear()
        self.assertImpossible(f'No router is in the subnet {fakes.SUBNET}',
                              cluster_id)
        self.assertEqual({}, self.ports.sources)
        self.northbound.links.append(
            plan.Link(fakes.SWITCH, 'neutron-r', ('192.0.2.1/24',)))
        self.northbound.is_silent = False
        self.assertImpossible('has its address for itself', cluster_id)
        self.northbound.is_silent = True
        self.ports.network['l2_adjacency'] = False
        self.assertImpossible('routed one', cluster_id)

    def test_of_another_driver(self):
        cluster_id = self.add_cluster(driver='hmsync_ovs')
        self.assertImpossible('distributor_driver = hmsync_ovs', cluster_id)

    def test_both_families(self):
        cluster_id = self.add_cluster(members=0, more=[fakes.VIP6])
        self.northbound.links[0] = plan.Link(
            fakes.SWITCH, 'neutron-r', ('192.0.2.1/24', 'fd00::1/64'))
        self.add_member(cluster_id, more=['fd00::10'])
        self.subject.add(cluster_id)
        self.assertEqual({
            '192.0.2.5': '192.0.2.10', '192.0.2.5:80': '192.0.2.10:80',
            'fd00::5': 'fd00::10', '[fd00::5]:80': '[fd00::10]:80'},
            self.get_vips(cluster_id))

    def test_ovn_is_away(self):
        cluster_id = self.add_cluster()
        self.northbound.error = self.unreachable()
        self.assertRaises(exceptions.DistributorUnreachable,
                          self.subject.add, cluster_id)
        self.northbound.error = None
        self.subject.add(cluster_id)


class TestApply(fakes.OVNTestCase):

    def setUp(self):
        super().setUp()
        self.cluster_id = self.add_cluster(members=0)
        self.members = [self.add_member(self.cluster_id) for _ in range(3)]
        self.subject.add(self.cluster_id)

    def apply(self):
        return self.subject.apply(self.cluster_id)

    def get_numbers(self):
        """The last numbers of whom connections go to."""
        found = self.get_vips(self.cluster_id)['192.0.2.5']
        return [int(one.rpartition('.')[2]) for one in found.split(',')]

    def test_who_gets_connections(self):
        self.assertEqual([10, 11, 12], self.get_numbers())
        for state, is_looked_at in (('DRAINING', True), ('FAILED', False),
                                    ('ACTIVE', True)):
            self.set_state(self.members[1], state)
            self.apply()
            self.assertEqual([10, 11, 12] if state == 'ACTIVE' else [10, 12],
                             self.get_numbers())
            # Whoever may be well again is looked at.
            self.assertEqual(is_looked_at, '192.0.2.11:80' in self.get_probe(
                self.cluster_id).vips['0.0.0.1:80'])

    def test_one_whose_port_is_gone(self):
        """As of an instance that somebody deleted."""
        self.northbound.addresses = {
            key: addresses for key, addresses in
            self.northbound.addresses.items() if '192.0.2.11' not in addresses}
        self.apply()
        self.assertEqual([10, 12], self.get_numbers())

    def test_source_ip(self):
        cluster_repo.set_affinity(self.engine, self.cluster_id, 'SOURCE_IP')
        self.apply()
        self.assertEqual(('ip_src',), self.get_main(
            self.cluster_id)[0].selection_fields)

    def test_floating_address(self):
        self.northbound.floating = '203.0.113.9'
        self.apply()
        self.assertIn('203.0.113.9:80', self.get_vips(self.cluster_id))

    def test_listeners(self):
        self.add_listener(self.cluster_id, 443)
        self.add_listener(self.cluster_id, 444, enabled=False)
        self.add_listener(self.cluster_id, 445,
                          provisioning_status='PENDING_CREATE')
        self.apply()
        self.assertEqual(
            {'192.0.2.5', '192.0.2.5:80', '192.0.2.5:443'},
            self.get_vips(self.cluster_id).keys())

    def test_ovn_is_away(self):
        self.northbound.error = self.unreachable()
        self.add_member(self.cluster_id)
        e = self.assertRaises(exceptions.NoDistributor, self.apply)
        self.assertIn('OVN is away. Traffic goes on', str(e))
        self.assertIn('OVN is away', self.get_row(self.cluster_id).error)
        self.northbound.error = None
        self.apply()
        self.assertIsNone(self.get_row(self.cluster_id).error)

    def test_a_newer_version_is_there(self):
        """Of a database that was restored."""
        for _ in range(3):
            self.add_member(self.cluster_id)
        self.apply()
        there = self.northbound.balancers[self.cluster_id]
        version = self.get_version(self.cluster_id)
        self.execute_version(2)
        self.apply()
        self.assertGreater(self.get_version(self.cluster_id), version)
        self.assertEqual(there.keys(),
                         self.northbound.balancers[self.cluster_id].keys())

    def execute_version(self, version):
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                f'UPDATE hmsync_cluster SET version = {version}')

    def test_somebody_was_faster(self):
        """A change comes between reading rows and telling them."""
        other = self.one_more()

        def change():
            self.set_state(self.members[0], 'FAILED')
            other.apply(self.cluster_id)

        self.northbound.before = change
        self.apply()
        self.assertEqual([11, 12], self.get_numbers())

    def test_not_there_yet(self):
        cluster_id = self.add_cluster()
        e = self.assertRaises(exceptions.NoDistributor, self.subject.apply,
                              cluster_id)
        self.assertIn('its VIP is added first', str(e))
        self.assertRaises(exceptions.UnknownCluster, self.subject.apply,
                          'nobody')


class TestRemove(fakes.OVNTestCase):

    def test_removed_and_again(self):
        cluster_id = self.add_cluster()
        self.subject.add(cluster_id)
        for _again in range(2):
            self.assertEqual({}, self.subject.remove(cluster_id))
            self.assertEqual(({}, {}, None), (
                self.northbound.balancers, self.ports.sources,
                self.get_row(cluster_id)))

    def test_ovn_is_away(self):
        cluster_id = self.add_cluster()
        self.subject.add(cluster_id)
        self.northbound.error = self.unreachable()
        self.assertEqual({'ovn': 'OVN is away.'},
                         self.subject.remove(cluster_id))
        self.northbound.error = None
        cluster_repo.delete(self.engine, cluster_id)
        self.look()
        self.assertEqual(({}, None), (self.northbound.balancers,
                                      self.get_row(cluster_id)))


class TestWatch(fakes.OVNTestCase):

    def setUp(self):
        super().setUp()
        self.cluster_id = self.add_cluster(members=0)
        self.member = self.add_member(self.cluster_id)
        self.subject.add(self.cluster_id)
        self.look()

    def assertQuiet(self):
        self.assertEqual((0, {}, {}), (
            (report := self.look()).told, report.failed, report.problems))

    def test_nothing_to_do(self):
        self.assertQuiet()

    def test_port_is_gone(self):
        """Another one is made within a minute."""
        gone = self.ports.sources.pop(self.cluster_id)
        self.ports.gone.add(gone)
        self.now += 61
        self.look()
        self.assertNotEqual(gone, self.ports.sources[self.cluster_id])
        self.assertEqual(self.ports.sources[self.cluster_id],
                         self.get_row(self.cluster_id).port_id)
        self.now += 61
        self.assertQuiet()

    def test_a_controller_that_just_started(self):
        other = fakes.watch.OVNWatch(self.engine, self.one_more())
        self.assertEqual(1, other.run_once().told)
        self.assertEqual(0, other.run_once().told)

    def test_networks_are_followed(self):
        self.northbound.links.append(
            plan.Link('other', 'neutron-r', ('10.2.0.1/24',)))
        self.assertEqual(1, self.look().told)
        _, found = self.get_main(self.cluster_id)
        self.assertEqual({fakes.SWITCH, 'other'}, found.switches)
        self.northbound.links.clear()
        self.assertEqual(1, self.look().told)
        self.assertIn('No router', self.get_row(self.cluster_id).error)
        # It is said, and nothing breaks that can go on.
        self.assertEqual('192.0.2.10',
                         self.get_vips(self.cluster_id)['192.0.2.5'])
        self.assertQuiet()
        self.northbound.links.append(
            plan.Link(fakes.SWITCH, 'neutron-r', ('192.0.2.1/24',)))
        self.assertEqual(1, self.look().told)
        self.assertIsNone(self.get_row(self.cluster_id).error)

    def test_links_elsewhere(self):
        self.northbound.links.append(
            plan.Link('far', 'neutron-far', ('10.9.0.1/24',)))
        self.assertQuiet()

    def test_listeners_and_floating_addresses_are_followed(self):
        self.add_listener(self.cluster_id, 443)
        self.assertEqual(1, self.look().told)
        self.northbound.floating = '203.0.113.9'
        self.assertEqual(1, self.look().told)
        self.assertIn('203.0.113.9:443', self.get_vips(self.cluster_id))
        self.assertQuiet()

    def test_lost_in_ovn(self):
        self.northbound.balancers.clear()
        self.assertEqual(1, self.look().told)
        self.assertQuiet()
        self.northbound.balancers[self.cluster_id].popitem()
        self.assertEqual(1, self.look().told)

    def test_what_somebody_died_with(self):
        """Rows were changed, and nobody told OVN."""
        self.set_state(self.member, 'DRAINING')
        self.assertEqual(1, self.look().told)
        self.assertEqual('', self.get_vips(self.cluster_id)['192.0.2.5'])

    def test_left_in_ovn(self):
        self.northbound.apply('gone', 1, [self.get_main(self.cluster_id)])
        self.ports.sources['gone'] = 'port'
        log = self.useFixture(fixtures.FakeLogger())
        self.patch(periodic, '_PROBLEMS', periodic._Problems())
        self.ports.error = exceptions.CloudUnavailable('Neutron is away.')
        for _look in range(3):
            self.look()
        # Once of each.
        self.assertEqual(2, log.output.count('Neutron is away.'), log.output)
        self.assertIn('Ports of clusters were not checked', log.output)
        self.assertIn('The port of the cluster gone, which is gone, was not '
                      'deleted', log.output)
        self.ports.error = None
        self.look()
        self.assertEqual({self.cluster_id}, self.northbound.balancers.keys())
        self.assertEqual({self.cluster_id}, self.ports.sources.keys())

    def test_ovn_is_away(self):
        self.northbound.error = self.unreachable()
        self.add_member(self.cluster_id)
        self.assertEqual({'ovn': 'OVN is away.'}, self.look().problems)
        row, = distributor_repo.get_all(self.engine)
        self.assertEqual('OFFLINE', row.status)
        self.northbound.error = None
        self.assertEqual(1, self.look().told)
        row, = distributor_repo.get_all(self.engine)
        self.assertEqual(('ovn', 'ONLINE'), (row.name, row.status))

    def test_ovn_is_away_from_one_controller(self):
        """It stays ONLINE as long as another one reaches it."""
        cut_off = watch.OVNWatch(self.engine, balancers.Balancers(
            self.conf, self.engine, self.ports, fakes.FakeNorthbound()),
            lambda: self.now)
        cut_off._balancers.northbound.error = self.unreachable()
        found = []
        for _look in range(3):
            cut_off.run_once()
            found += [row.status for row in distributor_repo.get_all(
                self.engine)]
            self.look()
        self.assertEqual(['OFFLINE', 'ONLINE', 'ONLINE'], found)

    def test_one_that_fails_is_told_again(self):
        def fail():
            self.northbound.error = self.unreachable()

        self.northbound.floating = '203.0.113.9'
        self.northbound.before = fail
        self.assertIn('OVN is away',
                      self.look().failed[self.cluster_id])
        self.northbound.error = None
        self.assertEqual(1, self.look().told)

    def look_soon(self):
        self.now += 1
        return self.watch.run_once().told

    def test_what_is_looked_at_costs_the_same_for_any_number(self):
        self.useFixture(fixtures.MockPatch(
            'octavia_hmsync.cluster.distribution.ovn.watch._PAGE', 2))
        for _ in range(6):
            self.subject.add(self.add_cluster(members=1))
        self.look()
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE hmsync_cluster SET updated_at = '2020-01-01'")
        read = self.useFixture(fixtures.MockPatchObject(
            vip_repo, 'get_of_clusters', autospec=True,
            side_effect=vip_repo.get_of_clusters)).mock
        seen = set()
        for _ in range(4):
            self.assertEqual(0, self.look_soon())
            page = read.call_args.args[1]
            self.assertLessEqual(len(page), 2)
            seen |= page
        # Each comes in its turn, and with it what left no trace.
        self.assertEqual(7, len(seen))
        self.add_listener(self.cluster_id, 443)
        self.assertEqual(1, sum(self.look_soon() for _ in range(4)))

        # What was changed, here or in OVN, waits for no turn.
        last = max(seen)
        self.add_listener(last, 444)
        cluster_repo.mark(self.engine, last)
        self.assertEqual(1, self.look_soon())
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE hmsync_cluster SET updated_at = '2020-01-01'")
        for _ in range(2):
            del self.northbound.balancers[last]
            self.assertEqual(1, self.look_soon())
        self.northbound.floating = '203.0.113.9'
        self.assertEqual(7, self.look_soon())
        self.assertEqual(0, self.look_soon())

    def test_removed_elsewhere(self):
        """Another process has taken it out of OVN."""
        self.one_more().remove(self.cluster_id)
        self.assertIn(self.cluster_id, self.subject.get_applied())
        self.assertEqual(0, self.look_soon())
        self.assertEqual({}, self.subject.get_applied())

    def get_probes(self):
        return {probe.member_id: probe.state for probe in
                probe_repo.get_of_cluster(self.engine, self.cluster_id)}

    def test_probes(self):
        port_id, = (key for key, addresses in
                    self.northbound.addresses.items()
                    if '192.0.2.10' in addresses)
        key = port_id, 80
        for statuses, wanted, woken in (
                ([], None, 0), (['online'], 'UP', 0), (['online'], 'UP', 0),
                (['offline'], 'DOWN', 1), (['online', 'offline'], 'UP', 2),
                (['offline'], 'DOWN', 3), ([], None, 4), ([], None, 4)):
            self.southbound.statuses = {key: statuses,
                                        ('else', 80): ['offline']}
            self.probes.hear()
            self.assertEqual({self.member.id: wanted} if wanted else {},
                             self.get_probes())
            self.assertEqual(woken, self.woken)

    def test_no_member_answers(self):
        """Who is overloaded everywhere is not dark, at that port alone."""
        log = self.useFixture(fixtures.FakeLogger())
        self.useFixture(fixtures.MockPatch(
            'octavia_hmsync.cluster.distribution.ovn.probes._RARELY', 1e9))
        self.add_member(self.cluster_id)
        self.add_listener(self.cluster_id, 443)
        self.look()
        ports = {member_id: port_id for applied, _
                 in self.subject.get_applied().values()
                 for port_id, member_id in applied.members.items()}
        others = sorted(each for each in ports.values()
                        if each != ports[self.member.id])
        for down, open_ports in (
                ([], []), (others, []), (ports.values(), [443]),
                (others, []), (ports.values(), [443]), ([], [])):
            for each in ports.values():
                self.southbound.statuses[each, 80] = ['online']
                self.southbound.statuses[each, 443] = [
                    'offline' if each in down else 'online']
            for _look in range(2):
                self.probes.hear()
                self.assertEqual(
                    set(open_ports),
                    self.northbound.list()[self.cluster_id].open)
        self.assertEqual(2, log.output.count('at port 443, and would refuse'))
        # Nothing is listed where nothing has changed.
        with mock.patch.object(self.northbound, 'list',
                               autospec=True) as list_all:
            self.probes.hear()
        list_all.assert_not_called()
        # Another process saw it first.
        other = self.one_more()
        self.southbound.statuses = dict.fromkeys(
            self.southbound.statuses, ['offline'])
        self.patch(self.northbound, 'set_open', lambda *_args: False)
        self.probes.hear()
        self.assertNotIn('80 443', log.output)
        self.assertEqual({}, other.get_applied())

    def test_node_is_dead(self):
        """Nobody has looked there since; Neutron is asked of who is silent."""
        ports = {member_id: port_id for applied, _
                 in self.subject.get_applied().values()
                 for port_id, member_id in applied.members.items()}
        port_id = ports[self.member.id]
        for each in ports.values():
            self.southbound.statuses[each, 80] = ['online']
        self.ports.dead_nodes = dict.fromkeys(ports.values(), 'compute1')

        def hear():
            self.look()
            self.probes.hear()
            return {member_id: look.state for member_id, look
                    in probe_repo.get_of_observer(
                        self.engine, self.subject.sync().id).items()}

        all_up = dict.fromkeys(ports, 'UP')
        self.assertEqual(all_up, hear())
        self.assertEqual([], self.ports.asked)
        for look, seen in ((probe_repo.Result('DOWN'), 'DOWN'),
                           (probe_repo.Result('UP'), 'UP')):
            probe_repo.record(self.engine, probe_repo.HEARTBEATS, {
                self.member.id: look})
            self.assertEqual({**all_up, self.member.id: seen}, hear())
        self.assertEqual([port_id], self.ports.asked)
        # Nor does a node that nobody can tell of count.
        probe_repo.record(self.engine, probe_repo.HEARTBEATS, {
            self.member.id: probe_repo.Result('DOWN')})
        hear()
        self.ports.error = exceptions.CloudUnavailable('Neutron hangs')
        self.assertEqual(all_up, hear())
        self.ports.error = None
        self.assertEqual('DOWN', hear()[self.member.id])
        # Not at each look.
        number = len(self.ports.asked)
        self.watch.run_once()
        self.assertEqual(number, len(self.ports.asked))
        self.ports.dead_nodes.clear()
        self.assertEqual(all_up, hear())

    def test_probes_of_who_came_elsewhere(self):
        """Another process has built it, and told OVN."""
        added = self.add_member(self.cluster_id)
        self.one_more().apply(self.cluster_id)
        writes = self.northbound.balancers[self.cluster_id]
        self.look()
        self.assertEqual(writes, self.northbound.balancers[self.cluster_id])
        port_id, = (key for key, addresses in
                    self.northbound.addresses.items()
                    if f'192.0.2.{10 + added.slot}' in addresses)
        self.southbound.statuses = {(port_id, 80): ['offline']}
        self.probes.hear()
        self.assertEqual({added.id: 'DOWN'}, self.get_probes())
        self.assertEqual(0, self.look().told)

    def test_probes_of_whoever_was_here_before(self):
        """Nobody is DOWN for good of whom nothing is seen any more."""
        probe_repo.record(self.engine, self.subject.sync().id, {
            self.member.id: probe_repo.Result('DOWN')})
        self.probes.hear()
        self.assertEqual({}, self.get_probes())
        with self.count_statements() as statements:
            self.probes.hear()
        self.assertEqual([], statements)

    def test_probes_in_a_thread(self):
        """Who does not see says nothing, and goes on."""
        self.useFixture(fixtures.MockPatch(
            'octavia_hmsync.cluster.distribution.ovn.probes._INTERVAL', 0.01))
        self.useFixture(fixtures.MockPatch(
            'octavia_hmsync.cluster.distribution.ovn.probes._PAUSE', 0.01))
        self.southbound.error = self.unreachable()
        log = self.useFixture(fixtures.FakeLogger())
        self.addCleanup(self.probes.stop, 10)
        self.probes.run_once()
        self.probes.run_once()
        self.wait_for(lambda: 'OVN is away' in log.output)
        port_id = next(iter(self.subject.get_applied().values())
                       )[0].port_ids[1]
        self.southbound.statuses = {(port_id, 80): ['offline']}
        self.southbound.error = None
        self.wait_for(lambda: self.get_probes() == {self.member.id: 'DOWN'})
        self.assertEqual(1, log.output.count('OVN is away'))

    def wait_for(self, is_so):
        waiting.wait_for(is_so, 'what is seen')
