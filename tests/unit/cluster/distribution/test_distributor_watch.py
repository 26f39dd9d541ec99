# SPDX-License-Identifier: Apache-2.0

from unittest import mock

import fixtures

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync.cluster.distribution import distributor_status
from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs_backend
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync.db import models
from octavia_hmsync.db import news
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from tests.unit import base
from tests.unit.cluster import distributors
from tests.unit.cluster.rules import test_handover

vip = test_handover.vip
ONLINE, OFFLINE = distributor_repo.ONLINE, distributor_repo.OFFLINE


class TestRules(base.TestCase):

    def test_lost(self):
        vips = [vip('a', cluster_id=name, applied_version=version)
                for name, version in (('same', 3), ('older', 3), ('newer', 3),
                                      ('gone', 3), ('never', None),
                                      ('known', 0))]
        lost = distributor_watch.find_lost(vips, {
            'same': 3, 'older': 2, 'newer': 4, 'stranger': 1})
        self.assertEqual(['older', 'newer', 'gone'],
                         [one.cluster_id for one in lost])

    def test_unsettled(self):
        vips = [vip('a', cluster_id='well'), vip('b', cluster_id='well'),
                vip('a', cluster_id='one'),
                vip('b', cluster_id='left'), vip('x', cluster_id='left'),
                vip('x', cluster_id='elsewhere')]

        def find(**enabled):
            return distributor_watch.find_unsettled(vips, enabled, 2)

        self.assertEqual(['elsewhere', 'left', 'one'], find(a=True, b=True))
        # Its second one is to be had later.
        self.assertEqual(['elsewhere', 'left', 'one'], find(a=False, b=True))
        # There is nobody to go to.
        self.assertEqual([], find(a=False, b=False))
        self.assertEqual([], find())

    def test_work(self):
        vips = [vip('a', active=True, cluster_id='well'),
                vip('b', cluster_id='well'),
                vip('a', active=True, cluster_id='moves', status=OFFLINE),
                vip('b', cluster_id='moves'),
                vip('a', active=True, cluster_id='waits', status=OFFLINE),
                vip('b', cluster_id='waits', status=OFFLINE),
                vip('a', active=True, cluster_id='behind')]
        self.assertEqual(['behind', 'moves'], distributor_watch.find_work(
            vips, [vips[-1], vips[4]]))
        self.assertEqual([], distributor_watch.find_work([], []))


class TestNoCluster(distributors.DistributorTestCase):

    def test_neutron_is_down(self):
        """It is asked for no port of a distributor."""
        with mock.patch.object(self.ports, 'get_switched_off', autospec=True,
                               side_effect=AssertionError):
            self.watch.run_once()


class TestLook(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.clusters = [self.add_cluster() for _number in range(3)]
        for cluster_id in self.clusters:
            self.vips.add(cluster_id)

    def statuses(self):
        return {row.name: row.status for row in
                distributor_repo.get_all(self.engine)}

    def assertAllAnswered(self, *names):
        for cluster_id in self.clusters:
            answering = self.get_answering(cluster_id)
            self.assertEqual(1, len(answering))
            self.assertIn(answering[0], names)

    def test_full(self):
        """Whose Open vSwitch remembers no more connections."""
        name, *others = sorted(self.statuses())
        self.assertEqual({}, self.watch.run_once().full)
        at_rest = {'full': False, 'cache_full': False, 'full_vips': []}
        for load in ({}, {'full': True}, {'cache_full': True},
                     {'full_vips': ['a']}):
            for each in others:
                self.fakes[each].load = at_rest
            self.fakes[name].load = {**at_rest, **load}
            self.assertEqual({name: bool(load), **dict.fromkeys(
                others, False)}, self.watch.run_once().full)

    def test_nothing_to_do(self):
        for _look in range(2):
            report = self.watch.run_once()
            self.assertEqual(({}, 0, {}), (report.problems, report.told,
                                           report.failed))
        before = [list(fake.requests) for fake in self.fakes.values()]
        self.watch.run_once()
        # Those of the versions, and of the status.
        self.assertEqual([len(one) + 2 for one in before],
                         [len(fake.requests) for fake in
                          self.fakes.values()])

    def answering(self):
        return sorted(self.get_answering(cluster_id)[0]
                      for cluster_id in self.clusters)

    def test_all_share_the_work(self):
        """From the first cluster on, and again when one is back."""
        self.clusters += [self.add_cluster() for _number in range(3)]
        for cluster_id in self.clusters[3:]:
            self.vips.add(cluster_id)
        self.watch.run_once()
        even = self.answering()
        self.assertLessEqual(
            max(map(even.count, even)) - min(map(even.count, even)), 1)
        for cluster_id in self.clusters:
            for vip in vip_repo.get_of_cluster(self.engine, cluster_id):
                if vip.distributor_name == 'network1':
                    vip_repo.set_active(self.engine, cluster_id,
                                        vip.distributor_id)
        self.watch.run_once()
        uneven = self.answering()
        self.assertEqual(4, uneven.count('network1'))
        for _minute in range(3):
            self.now += 61
            # All of them changed a moment ago.
            self.watch.run_once()
            self.assertEqual(uneven, self.answering())
        for cluster_id in self.clusters:
            self.grow_old(cluster_id)
        numbers = []
        for _minute in range(4):
            self.now += 61
            self.watch.run_once()
            numbers.append(self.answering().count('network1'))
        # One at a time, and no more than it takes.
        self.assertEqual([3, 2, 2, 2], numbers)

    def test_another_one_was_heard(self):
        """Who is to answer is told so in a version that it does not know."""
        cluster_id = self.clusters[0]
        rows = self.get_rows(cluster_id)
        active, = [name for name, vip in rows.items() if vip.active]
        other, = set(rows) - {active}
        for name in (active, other):
            self.fakes[name].left[cluster_id] = self.get_version(cluster_id)
        version = self.get_version(cluster_id)
        self.now += 61
        self.watch.run_once()
        self.assertEqual(version + 1, self.get_version(cluster_id))
        for name in (active, other):
            self.assertEqual(version + 1, self.fakes[name].documents[
                cluster_id].version)
        self.assertEqual([active], self.get_answering(cluster_id))
        self.now += 61
        self.watch.run_once()
        self.assertEqual(version + 1, self.get_version(cluster_id))

    def delete_port(self, cluster_id, name):
        port_id = self.get_rows(cluster_id)[name].port_id
        del self.ports.hosts[port_id], self.ports.is_on[port_id]
        return port_id

    def test_port_is_deleted(self):
        """Another one is made within a minute, and the VIP is not dark."""
        log = self.useFixture(fixtures.FakeLogger())
        cluster_id = self.clusters[0]
        self.watch.run_once()
        active, other = self.get_rows(cluster_id)
        self.assertTrue(self.get_rows(cluster_id)[active].active)
        for name in (active, other):
            gone = self.delete_port(cluster_id, name)
            self.now += 61
            self.watch.run_once()
            new = self.get_rows(cluster_id)[name].port_id
            self.assertNotIn(new, (None, gone))
            self.assertEqual((cluster_id, name), self.ports.hosts[new])
            self.assertIn(f'The port {gone} of the distributor {name} for '
                          f'the cluster {cluster_id} is gone', log.output)
            self.assertEqual(1, len(self.get_answering(cluster_id)))
            self.assertEqual(
                new, self.fakes[name].documents[cluster_id].port.id)
        # Both at once; a failover does it, too.
        for name in (active, other):
            self.delete_port(cluster_id, name)
        self.vips.add(cluster_id)
        self.assertEqual(1, len(self.get_answering(cluster_id)))
        self.assertEqual(2, len([key for key in self.ports.hosts.values()
                                 if key[0] == cluster_id]))

    def test_port_cannot_be_made_anew(self):
        """It is tried again, and the other one has the VIP."""
        cluster_id = self.clusters[0]
        self.watch.run_once()
        active, other = self.get_rows(cluster_id)
        self.delete_port(cluster_id, active)
        ensure = self.ports.ensure
        self.ports.ensure = mock.Mock(
            spec=ensure, side_effect=exceptions.CloudRefused('quota'))
        self.now += 61
        self.watch.run_once()
        self.assertIsNone(self.get_rows(cluster_id)[active].port_id)
        self.now += 5
        self.watch.run_once()
        self.assertEqual([other], [
            name for name, row in self.get_rows(cluster_id).items()
            if row.active])
        self.ports.ensure = ensure
        self.now += 61
        self.watch.run_once()
        self.assertIsNotNone(self.get_rows(cluster_id)[active].port_id)

    def test_port_is_changed(self):
        log = self.useFixture(fixtures.FakeLogger())
        cluster_id = self.clusters[0]
        vip, *_ = self.get_rows(cluster_id).values()
        for state in (cluster_ports.State(True, (), ('group',)),
                      cluster_ports.State(True, ('0.0.0.0/0',), ()),
                      cluster_ports.State(True, ('0.0.0.0/0',), ('group',),
                                          is_ovs=True)):
            self.ports.states[vip.port_id] = state
            self.now += 61
            self.watch.run_once()
            self.assertEqual({}, self.ports.states)
        self.assertEqual(3, log.output.count('were changed from outside'))
        self.assertIn(cluster_id, log.output)
        self.ports.states[vip.port_id] = cluster_ports.State(False, (), ())
        self.now += 61
        self.watch.run_once()
        self.assertIn(vip.port_id, self.ports.states)

    def grow_old(self, cluster_id):
        self.make_older(models.Cluster, 'updated_at', 1000, id=cluster_id)

    def test_at_rest(self):
        """Nobody reads what was not changed; what was is told."""
        first, second, third = self.clusters
        self.watch.run_once()
        for cluster_id in self.clusters:
            self.grow_old(cluster_id)
        with mock.patch.object(vip_repo, 'get_all',
                               autospec=True) as get_all:
            self.assertEqual(0, self.watch.run_once().told)
            self.add_member(second)
            self.assertEqual(1, self.watch.run_once().told)
            self.assertEqual(0, self.watch.run_once().told)
            # It goes on until they have it.
            self.add_member(third)
            fakes = [self.fakes[name] for name in self.get_names(third)]
            for fake in fakes:
                fake.error = exceptions.DistributorRejected('no')
            with mock.patch.object(self.watch, '_ask', self.ask_well):
                self.assertEqual([third], list(self.watch.run_once().failed))
                self.grow_old(third)
                self.assertEqual([third], list(self.watch.run_once().failed))
            get_all.assert_not_called()
        for fake in fakes:
            fake.error = None
        self.watch.run_once()
        version = self.get_version(third)
        self.assertEqual({version}, {
            fake.documents[third].version for fake in fakes})

    def ask_well(self, _row):
        return distributor_status.Answer(software_version='1.2.3')

    def test_one_dies_and_is_back(self):
        self.fakes['network1'].is_down = True
        report = self.watch.run_once()
        self.assertEqual(['network1'], list(report.problems))
        self.assertEqual(OFFLINE, self.statuses()['network1'])
        self.assertAllAnswered('network2', 'network3')
        self.fakes['network1'].is_down = False
        self.watch.run_once()
        self.assertAllAnswered('network2', 'network3')
        for cluster_id in self.clusters:
            for one in self.get_rows(cluster_id).values():
                self.assertIsNone(one.error)
                self.assertTrue(self.ports.is_on[one.port_id])

    def get_names(self, cluster_id):
        return {one.distributor_name for one in self.get_rows(
            cluster_id).values()}

    def test_one_is_drained(self):
        """Its clusters leave it, and another one answers before."""
        self.watch.run_once()
        one, _two, three = distributor_repo.get_all(self.engine)
        self.assertTrue(distributor_repo.drain(self.engine, one.id))
        self.watch._checked.clear()
        self.watch.run_once()
        self.assertAllAnswered('network2', 'network3')
        for cluster_id in self.clusters:
            self.assertEqual({'network2', 'network3'},
                             self.get_names(cluster_id))
        self.assertEqual({}, self.fakes['network1'].documents)
        # The next one leaves each of them with one.
        self.assertTrue(distributor_repo.drain(self.engine, three.id))
        self.watch._checked.clear()
        self.watch.run_once()
        self.assertAllAnswered('network2')
        self.assertEqual({}, self.fakes['network3'].documents)
        for each in (one, three):
            distributor_repo.resume(self.engine, each.id)
        self.watch._checked.clear()
        self.watch.run_once()
        self.assertAllAnswered('network2')
        for cluster_id in self.clusters:
            self.assertEqual(2, len(self.get_names(cluster_id)))
            self.grow_old(cluster_id)
        # They come back, one a minute, until the work is shared.
        moves = []
        for _minute in range(5):
            before = [self.get_answering(cluster_id)
                      for cluster_id in self.clusters]
            self.now += 61
            self.watch.run_once()
            self.assertAllAnswered('network1', 'network2', 'network3')
            moves.append(sum(
                one != self.get_answering(cluster_id)
                for one, cluster_id in zip(before, self.clusters)))
        self.assertEqual([1, 1, 0, 0, 0], moves)
        shares = [self.answering().count(name) for name in self.fakes]
        self.assertLessEqual(max(shares) - min(shares), 1, shares)

    def test_one_dies_while_neutron_takes_its_time(self):
        """Another one answers before Neutron is asked anything."""
        self.watch.run_once()
        self.now += 100
        self.fakes['network1'].is_down = True
        seen = []

        def get_switched_off():
            self.assertAllAnswered('network2', 'network3')
            seen.append(self.now)
            raise exceptions.CloudUnavailable('slow')

        with mock.patch.object(self.ports, 'get_switched_off',
                               get_switched_off):
            self.watch.run_once()
        self.assertEqual([self.now], seen)

    def test_many_leave_one(self):
        """Meanwhile somebody looks whether the others answer."""
        self.watch.run_once()
        one = distributor_repo.get_all(self.engine)[0]
        distributor_repo.drain(self.engine, one.id)
        self.watch._checked.clear()
        settle, settled = self.vips.settle, []

        def take_long(cluster_id, check):
            settled.append(cluster_id)
            self.now += 20
            if len(settled) == 1:
                raise exceptions.CloudUnavailable('down')
            settle(cluster_id, check)

        leaving = {cluster_id for cluster_id in self.clusters
                   if 'network1' in self.get_names(cluster_id)}
        with mock.patch.object(self.watch._vips, 'settle', take_long):
            for number in range(len(leaving) + 1):
                self.assertEqual(number, len(settled))
                self.watch.run_once()
        # One that cannot leave keeps nobody from it.
        self.assertEqual(leaving, set(settled))
        for cluster_id in leaving:
            self.assertNotIn('network1', self.get_names(cluster_id))

    def test_claim_is_lost_while_one_leaves(self):
        """The other owner of the cluster decides where it is from now on."""
        self.watch.run_once()
        one = distributor_repo.get_all(self.engine)[0]
        distributor_repo.drain(self.engine, one.id)
        self.watch._checked.clear()
        before = {cluster_id: self.get_names(cluster_id)
                  for cluster_id in self.clusters}
        apply = self.subject.apply

        def apply_and_lose(cluster_id):
            # It hung for longer than the claim lasts.
            result = apply(cluster_id)
            with self.engine.begin() as connection:
                connection.execute(models.Cluster.__table__.update().values(
                    claimed_by='another'))
            return result

        with mock.patch.object(self.subject, 'apply', apply_and_lose):
            self.watch.run_once()
        for cluster_id, names in before.items():
            # It has got another one by then, and has left none.
            self.assertLessEqual(set(names), set(self.get_names(cluster_id)))
            self.assertEqual('another', self.get_claim(cluster_id))

    def get_claim(self, cluster_id):
        return cluster_repo.get(self.engine, cluster_id).claimed_by

    def test_its_open_vswitch_is_down(self):
        self.fakes['network1'].ovs_error = 'Open vSwitch does not work'
        self.assertEqual({'network1': 'Open vSwitch does not work'},
                         self.watch.run_once().problems)
        self.assertAllAnswered('network2', 'network3')

    def test_one_that_misses_one_request_is_no_dead_one(self):
        fake = self.fakes['network1']
        ask = fake._ask

        def stumble(what):
            fake._ask = ask
            raise exceptions.DistributorUnreachable('slow')

        fake._ask = stumble
        self.assertEqual({}, self.watch.run_once().problems)

    def test_whatever_it_says(self):
        """Nothing of it reaches a terminal, or is too long for a column."""
        self.fakes['network1'].ovs_error = 'a\n\x1b[31m' + 1000 * 'b'
        problem = self.watch.run_once().problems['network1']
        self.assertEqual(r'a \x1b[31mbbb', problem[:13])
        self.assertEqual(300, len(problem))
        self.fakes['network2'].get_versions = lambda: {
            'software_version': 100 * '9'}
        self.assertNotIn('network2', self.watch.run_once().problems)
        self.assertEqual({64}, {
            len(row.software_version) for row in
            distributor_repo.get_all(self.engine) if row.name == 'network2'})

    def test_nonsense(self):
        self.fakes['network1'].get_versions = lambda: {'host': 'network1'}
        self.assertIn('cannot be read',
                      self.watch.run_once().problems['network1'])

    def test_all_die(self):
        for fake in self.fakes.values():
            fake.is_down = True
        self.assertEqual(3, len(self.watch.run_once().problems))
        for fake in self.fakes.values():
            fake.is_down = False
        self.watch.run_once()
        self.assertAllAnswered(*distributors.NAMES)

    def test_one_forgot_everything(self):
        self.watch.run_once()
        self.fakes['network1'].documents.clear()
        self.watch.run_once()
        self.now += 100
        self.watch.run_once()
        self.assertAllAnswered(*distributors.NAMES)
        self.assertNotEqual({}, self.fakes['network1'].documents)

    def test_a_port_that_is_off_for_no_reason(self):
        port_id = next(iter(self.ports.is_on))
        self.ports.is_on[port_id] = False
        self.watch.run_once()
        self.assertTrue(self.ports.is_on[port_id])
        # Neutron is asked rarely, and may be down.
        self.now += 100
        self.assertSaidOnce('Ports of distributors were not checked: down')

    def assertSaidOnce(self, *problems):
        """Check what is logged while Neutron is down for three rounds."""
        log = self.useFixture(fixtures.FakeLogger())
        self.patch(periodic, '_PROBLEMS', periodic._Problems())
        self.ports.error = exceptions.CloudUnavailable('down')
        for _look in range(3):
            self.watch.run_once()
        self.ports.error = None
        self.watch.run_once()
        said = [line for line in log.output.splitlines()
                if 'octavia-hmsync' in line]
        self.assertEqual(len(problems) + 1, len(said), log.output)
        for problem, line in zip(problems, said):
            self.assertIn(problem, line)
        self.assertIn('works again', said[-1])
        self.assertEqual(len(problems), log.output.count('down'), log.output)

    def set_distributors(self, *names):
        self.conf.set_override(
            'distributors', [f'https://{name}:9444' for name in names],
            group='hmsync_cluster')
        for _look in range(2):
            self.now += 100
            self.watch.run_once()

    def assertOn(self, *names):
        for cluster_id in self.clusters:
            rows = self.get_rows(cluster_id)
            self.assertEqual(set(names), set(rows))
            version = self.get_version(cluster_id)
            for name, one in rows.items():
                self.assertEqual((version, None), (one.applied_version,
                                                   one.error))
        self.assertAllAnswered(*names)
        self.assertEqual(2 * len(self.clusters), len(self.ports.is_on))

    def test_one_leaves_the_option(self):
        self.set_distributors('network2', 'network3')
        self.assertOn('network2', 'network3')
        self.assertEqual({}, self.fakes['network1'].documents)
        self.assertEqual(['network2', 'network3'], sorted(self.statuses()))

    def test_one_is_gone_for_good(self):
        self.fakes['network1'].is_down = True
        self.set_distributors('network2', 'network3')
        self.assertOn('network2', 'network3')

    def test_all_leave_the_option(self):
        """Nobody breaks what works for want of another one."""
        self.set_distributors()
        self.assertAllAnswered(*distributors.NAMES)

    def test_one_more(self):
        cluster_id = self.clusters[0]
        self.vips.remove(cluster_id)
        self.ports.refused = {'network1', 'network2'}
        self.vips.add(cluster_id)
        self.assertEqual(['network3'], list(self.get_rows(cluster_id)))
        self.ports.refused = {'network1'}
        self.now += 100
        self.watch.run_once()
        self.assertEqual(['network2', 'network3'],
                         sorted(self.get_rows(cluster_id)))

    def test_somebody_works_on_it(self):
        for cluster_id in self.clusters:
            claim_repo.claim(self.engine, cluster_id, 'somebody', 4000)
        self.set_distributors('network2', 'network3')
        for cluster_id in self.clusters:
            self.assertEqual(2, len(self.get_rows(cluster_id)))
            claim_repo.release(self.engine, cluster_id, 'somebody')
        self.set_distributors('network2', 'network3')
        self.assertOn('network2', 'network3')

    def test_ports_of_a_cluster_that_is_gone(self):
        for cluster_id in self.clusters:
            self.delete_cluster(cluster_id)
        self.assertEqual(6, len(self.ports.is_on))
        self.assertSaidOnce(
            f'Ports of the cluster {min(self.clusters)}, which is gone, were '
            f'not deleted: down',
            'Ports of distributors were not checked: down')
        self.assertEqual({}, self.ports.is_on)
        for fake in self.fakes.values():
            self.assertEqual({}, fake.documents)

    def test_there_are_none(self):
        self.conf.set_override('distributors', [], group='hmsync_cluster')
        self.assertEqual({}, self.watch.run_once().problems)


class TestCutOff(distributors.DistributorTestCase):
    """Two controllers look, and one of them does not reach everybody."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        # What the other one does not reach, and what only that one does.
        self.cut, self.reached = set(), {}
        subject = ovs_backend.Distributors(
            self.conf, self.engine, self.ports, self.client_of)
        self.other = distributor_watch.DistributorWatch(
            self.engine, subject, cluster_vips.VIPs(
                self.conf, self.engine, subject), lambda: self.now)
        self.clusters = [self.add_cluster() for _number in range(3)]
        for cluster_id in self.clusters:
            self.vips.add(cluster_id)
        self.look()
        news.take(self.engine, 1000)

    def client_of(self, url):
        """Return what the other one has for a distributor."""
        name = url.split('/')[2].split(':')[0]
        if name in self.cut:
            return self.make_dead(name)
        return self.reached.get(name) or self.fakes[name]

    @staticmethod
    def make_dead(name):
        dead = distributors.FakeDistributor(name)
        dead.is_down = True
        return dead

    def look(self):
        self.other.run_once()
        self.watch.run_once()

    def get_status(self, name='network1'):
        return {row.name: row.status for row in
                distributor_repo.get_all(self.engine)}[name]

    def take_news(self):
        return [(one.kind, one.body['distributor'])
                for one in news.take(self.engine, 1000)
                if one.kind.startswith('distributor.')]

    def test_one_stays_while_somebody_reaches_it(self):
        """It is left once; then nothing goes to and fro."""
        self.cut.add('network1')
        self.look()
        down_and_up = [(kind, 'network1') for kind in (
            news_repo.DISTRIBUTOR_DOWN, news_repo.DISTRIBUTOR_UP)]
        self.assertEqual(down_and_up, self.take_news())
        where = [self.get_answering(each) for each in self.clusters]
        self.assertNotIn('network1', sum(where, []))
        for _look in range(5):
            self.add_member(self.clusters[0])
            for watch in (self.other, self.watch):
                watch.run_once()
                self.assertEqual(ONLINE, self.get_status())
            self.assertEqual(where, [self.get_answering(each)
                                     for each in self.clusters])
            for cluster_id in self.clusters:
                for vip in self.get_rows(cluster_id).values():
                    self.assertIsNone(vip.error)
        self.assertEqual([], self.take_news())
        self.assertEqual(1, self.log.output.count(
            'The distributor network1 does not answer this controller'))

    def test_each_is_cut_off_from_another_one(self):
        self.cut.add('network1')
        real = self.fakes['network2']
        self.reached['network2'] = real
        self.fakes['network2'] = self.make_dead('network2')
        for _look in range(3):
            self.look()
        self.take_news()
        where = [self.get_answering(each) for each in self.clusters]
        for _look in range(5):
            self.look()
        self.assertEqual([], self.take_news())
        self.assertEqual(where, [self.get_answering(each)
                                 for each in self.clusters])

    def test_one_that_is_dead_for_all(self):
        """Whoever reached it last says so, at once."""
        self.cut.add('network1')
        self.look()
        self.look()
        self.fakes['network1'].is_down = True
        self.watch.run_once()
        self.assertEqual(OFFLINE, self.get_status())

    def test_nobody_else_is_left(self):
        """Then who is cut off is believed, after a while."""
        self.cut.add('network1')
        self.look()
        for seconds, status in ((10, ONLINE), (60, OFFLINE)):
            self.make_older(models.Distributor, 'last_seen', seconds,
                            name='network1')
            self.other.run_once()
            self.assertEqual(status, self.get_status())

    def test_one_that_is_reached_again(self):
        """Who is not cut off any more is believed at once."""
        self.cut.add('network1')
        self.look()
        self.cut.clear()
        self.look()
        self.fakes['network1'].is_down = True
        self.other.run_once()
        self.assertEqual(OFFLINE, self.get_status())
