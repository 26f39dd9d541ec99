# SPDX-License-Identifier: Apache-2.0

"""Lists of health managers that have zones, from registration to upload."""

import datetime
import re

import fixtures
from oslo_utils import timeutils

from octavia_hmsync.db import models
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync.sync.house_keeping import examiner
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync.house_keeping import synchronizer
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes
from tests.unit.sync.house_keeping import passes

_LENGTH = 5
# Their second addresses end in 101 and so on.
_NEW = '198.51.100.0/24'
_IN = re.compile(r'IN \((?:VALUES )?\(?\?[?, ()]*\)')


class _Cases(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.log = self.useFixture(fixtures.FakeLogger(
            'octavia_hmsync', format='%(levelname)s %(message)s'))
        self.driver = fakes.install_driver(self)
        self.now = 1000.0
        self.configure()

    def configure(self, **hmsync):
        self.conf = self.make_conf(
            DEFAULT={'host': 'controller1'},
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': 'key'}, hmsync=hmsync)
        self.planner = planner.Planner(
            self.conf, self.engine, tuple, clock=lambda: self.now,
            notifier=outbox.NOWHERE)
        for _ in range(12):
            self.plan()

    def plan(self):
        self.now += 2
        return self.planner.run_once()

    def register(self, number, zone=None, instance='first'):
        hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                         5555, instance, 20, zone=zone)
        self.make_older(models.HealthManager, 'online_since', 100,
                        host=f'hm{number}')

    def move(self, *numbers, instance='first'):
        """Have health managers announce a second address."""
        for n in numbers:
            hm_repo.register(
                self.engine, f'hm{n}', f'192.0.2.{n}', 5555, instance, 20,
                further={_NEW: f'198.51.100.{100 + n}'})
            self.make_older(models.HealthManager, 'online_since', 100,
                            host=f'hm{n}')

    def silence(self, *numbers):
        for n in numbers:
            self.make_older(models.HealthManager, 'keepalive_at', 100,
                            host=f'hm{n}')

    def sync(self):
        subject = synchronizer.Synchronizer(
            self.conf, self.engine, self.engine, lambda: None,
            notifier=outbox.NOWHERE)
        self.addCleanup(subject.stop)
        passes.run_until_idle(subject)

    def open(self):
        generation_repo.set_open(self.engine, self.newest.number)

    @property
    def newest(self):
        return generation_repo.get_newest(self.engine)

    def get_numbers(self, amphora_id):
        """Return to which health managers an amphora sends."""
        return [int(a.partition(':')[0].rpartition('.')[2]) for a in
                self.driver.lists()[amphora_id].split(', ')]

    def make_edge(self):
        """One amphora in an edge zone, one in another, one in none."""
        self.add_zone('edge', 'network-e', 'nova-e')
        self.add_zone('edge-large', 'network-e')
        self.add_zone('far', 'network-f')
        self.add_zone('centre', compute_zone='nova-e')
        return [self.add_amphora_in(zone) for zone in (
            'edge', 'edge-large', 'far', 'centre', None)]


class TestZones(_Cases):

    def test_each_gets_those_of_its_zone(self):
        ids = self.make_edge()
        self.register(1)
        self.register(2)
        self.register(3, 'nova-e')
        self.register(4, 'edge')
        self.assertTrue(self.plan())
        self.assertEqual({'192.0.2.3:5555': 'nova-e',
                          '192.0.2.4:5555': 'edge'}, self.newest.zones)
        self.open()
        self.sync()
        self.assertEqual([[3, 4], [3, 4], [1, 2], [1, 2], [1, 2]],
                         list(map(self.get_numbers, ids)))

    def test_a_zone_is_lost_and_comes_back(self):
        edge, large, far, *_others = self.make_edge()
        self.register(1)
        self.register(3, 'edge')
        self.plan()
        self.open()
        self.sync()
        self.silence(3)
        self.assertTrue(self.plan())
        self.assertIn('no health manager is left in zone edge',
                      self.newest.reason)
        # Nobody hears them meanwhile: there is nothing to try out.
        self.assertEqual(trial.OPEN, self.newest.status)
        self.sync()
        # It is heard as soon as either can hear it, with no other list.
        self.assertEqual([[1, 3], [1, 3], [1]], list(map(
            self.get_numbers, (edge, large, far))))
        for _ in range(5):
            self.assertFalse(self.plan())
        self.assertNotIn('WARNING', self.log.output)
        # Back, with all others, at leisure.
        self.register(3, 'edge', 'second')
        self.assertTrue(self.plan())
        self.assertEqual(('because zone edge is back', trial.CANARY),
                         (self.newest.reason, self.newest.status))
        self.open()
        self.sync()
        self.assertEqual([3], self.get_numbers(edge))

    def test_a_zone_that_comes_back_settles(self):
        edge, *_others = self.make_edge()
        self.register(1)
        self.register(3, 'edge')
        self.plan()
        self.silence(3)
        self.plan()
        hm_repo.register(self.engine, 'hm3', '192.0.2.3', 5555, 'second', 20,
                         zone='edge')
        self.assertFalse(self.plan())
        self.register(3, 'edge', 'second')
        self.assertTrue(self.plan())

    def test_a_zone_whose_health_managers_are_forgotten(self):
        edge, *_others = self.make_edge()
        self.register(1)
        self.register(3, 'edge')
        self.plan()
        self.silence(3)
        self.plan()
        row = next(row for row in hm_repo.get_rows(self.engine)
                   if row.host == 'hm3')
        hm_repo.delete(self.engine, 'hm3', row.keepalive_at)
        self.assertTrue(self.plan())
        self.assertIn('no health manager is left', self.newest.reason)
        self.assertEqual((('192.0.2.1:5555',), {}),
                         (self.newest.addresses, self.newest.zones))

    def test_it_gets_another_zone(self):
        edge, *_others, nowhere = self.make_edge()
        self.register(1)
        self.register(3)
        self.plan()
        self.open()
        self.sync()
        self.assertEqual([1, 3], self.get_numbers(edge))
        self.register(3, 'edge', 'second')
        self.assertTrue(self.plan())
        self.assertIn('zones of its addresses changed', self.newest.reason)
        self.assertFalse(self.plan())
        self.open()
        self.sync()
        self.assertEqual([[3], [1]], list(map(self.get_numbers,
                                              (edge, nowhere))))

    def test_a_wrong_zone_is_taken_back_once(self):
        """A roll back keeps the zone from before, until it starts anew."""
        self.make_edge()
        self.register(1)
        self.register(3, 'far')
        self.plan()
        self.open()
        self.sync()
        good = self.newest
        self.register(3, 'edge', 'second')
        self.plan()
        bad = self.newest
        self.assertEqual({'192.0.2.3:5555': 'edge'}, bad.zones)
        self.assertEqual(trial.CANARY, bad.status)
        self.assertTrue(generation_repo.roll_back(
            self.engine, bad.number, ['192.0.2.3:5555'], good.slots, 'bad',
            'controller1', good_zones=good.zones))
        for _ in range(3):
            self.assertFalse(self.plan())
        self.assertEqual((good.zones, bad.number + 1),
                         (self.newest.zones, self.newest.number))

    def test_canaries_where_addresses_are_new(self):
        edge, large, far, *_others = self.make_edge()
        for amphora_id in (row['id'] for row in self.records.rows('amphora')):
            self.records.set_health(amphora_id)
        self.register(1)
        self.register(3, 'edge')
        self.plan()
        self.open()
        self.sync()
        self.register(4, 'far')
        self.plan()
        self.configure(canary_size=1)
        subject = examiner.Examiner(self.conf, self.engine,
                                    clock=lambda: self.now)
        subject.run_once(self.newest)
        self.assertEqual([far], [a.amphora_id for a in
                                 admission_repo.get_admitted(
                                     self.engine, self.newest.number)])

    # A compute zone that an operator drains

    def drain(self, zone='az1'):
        drain_repo.begin(self.engine, zone, timeutils.utcnow() +
                         datetime.timedelta(seconds=3600), True)

    def make_zones(self, *zones):
        """Health managers that all amphorae reach; returns an amphora."""
        self.add_zone('az1', compute_zone='az1')
        amphora_id = self.add_amphora_in('az1')
        for number, zone in enumerate(zones, 1):
            self.register(number, zone)
        self.plan()
        self.open()
        self.sync()
        self.assertEqual(list(range(1, len(zones) + 1)),
                         self.get_numbers(amphora_id))
        return amphora_id

    def test_a_drained_zone_leaves_and_comes_back(self):
        amphora_id = self.make_zones('az1', 'az1', 'az2', 'az3')
        self.drain()
        self.assertTrue(self.plan())
        self.assertEqual(
            (trial.CANARY, 'removed 192.0.2.1:5555, 192.0.2.2:5555 (the zone '
             'is drained) [zone az1]'),
            (self.newest.status, self.newest.reason))
        self.open()
        self.sync()
        self.assertEqual([3, 4], self.get_numbers(amphora_id))
        for _ in range(3):
            self.assertFalse(self.plan())
        # A zone that nothing is in.
        self.drain('az4')
        self.assertFalse(self.plan())
        drain_repo.end(self.engine, 'az1')
        self.assertTrue(self.plan())
        self.assertEqual(trial.CANARY, self.newest.status)
        self.open()
        self.sync()
        self.assertEqual([1, 2, 3, 4], self.get_numbers(amphora_id))

    def test_a_zone_is_drained_of_what_lives_and_what_is_dead(self):
        amphora_id = self.make_zones('az1', 'az1', 'az2')
        self.silence(2)
        self.drain()
        self.assertTrue(self.plan())
        self.sync()
        self.assertEqual([3], self.get_numbers(amphora_id))

    def test_others_die_while_a_zone_is_drained(self):
        """Those of the zone serve, until another one is there."""
        amphora_id = self.make_zones('az1', 'az2')
        self.drain()
        self.plan()
        self.silence(2)
        self.assertTrue(self.plan())
        self.sync()
        self.assertIn(1, self.get_numbers(amphora_id))
        self.register(2, 'az2', 'second')
        self.plan()
        self.open()
        self.sync()
        self.assertEqual([2], self.get_numbers(amphora_id))

    def test_only_a_drained_zone_is_left(self):
        """As it cannot be ordered, but comes to be."""
        amphora_id = self.make_zones('az1', 'az2')
        self.silence(2)
        self.drain()
        for _ in range(20):
            self.plan()
        self.sync()
        self.assertIn(1, self.get_numbers(amphora_id))

    def test_a_drained_zone_beside_some_without(self):
        amphora_id = self.add_amphora_in(None)
        self.register(1)
        self.register(2, 'az1')
        self.plan()
        self.open()
        self.drain()
        self.assertTrue(self.plan())
        self.assertEqual(('192.0.2.1:5555',), self.newest.addresses)
        self.sync()
        self.assertEqual([1], self.get_numbers(amphora_id))

    def test_few_statements(self):
        self.make_edge()
        ids = [self.add_amphora_in('edge') for _ in range(30)]
        with self.count_statements() as statements:
            self.assertEqual(
                30, len(zone_repo.get_names(self.engine, ['edge'], ids)))
        self.assertEqual(2, len(statements))

    def run_all(self):
        """Register, plan, upload, and look at another list on trial."""
        for n in range(1, 8):
            self.register(n)
        with self.count_statements() as statements:
            self.plan()
            self.open()
            self.sync()
            self.register(9)
            self.plan()
            examiner.Examiner(self.conf, self.engine,
                              clock=lambda: self.now).run_once(self.newest)
        return statements

    def test_without_zones_nothing_changes(self):
        """Whatever zones Octavia has: no look at them, the same lists."""
        ids = self.add_amphorae(5)
        before = self.run_all()
        lists = {i: self.get_numbers(i) for i in ids}
        self.empty()
        ids = self.make_edge()
        self.configure()
        after = self.run_all()
        # How many each has of a kind, and how often threads look, differs.
        self.assertEqual({_IN.sub('IN (?)', s) for s in before},
                         {_IN.sub('IN (?)', s) for s in after})
        self.assertFalse([s for s in before if 'availability_zone' in s])
        slots = {f'192.0.2.{n}:5555': n - 1 for n in range(1, 8)}
        for amphora_id in (*lists, *ids):
            expected = [int(a.split(':')[0].rpartition('.')[2]) for a in
                        subset.subset(amphora_id, slots, _LENGTH)]
            self.assertEqual(expected, self.get_numbers(amphora_id))


class TestNetworks(_Cases):
    """Amphorae move from one network to another."""

    def setUp(self):
        super().setUp()
        self.old = self.add_amphorae(2)
        for number in (1, 2, 3):
            self.register(number)
        self.publish()

    def publish(self):
        self.assertTrue(self.plan())
        self.open()
        self.sync()

    def boot(self):
        """Add an amphora in the new network."""
        return self.records.add_amphora(
            f'198.51.100.{len(self.records.rows("amphora"))}',
            self.records.add_load_balancer())

    def test_from_one_to_the_other(self):
        old = self.newest
        uploads = len(self.driver.uploads)
        self.move(1, 2, 3)
        self.assertTrue(self.plan())
        self.assertEqual({f'198.51.100.{n}:5555': _NEW
                          for n in (101, 102, 103)}, self.newest.zones)
        # Nothing is new to amphorae of the old network: none tries it.
        self.assertEqual(trial.CANARY, self.newest.status)
        examiner.Examiner(self.conf, self.engine,
                          clock=lambda: self.now).run_once(self.newest)
        self.assertEqual(trial.OPEN, self.newest.status)
        self.sync()
        self.assertEqual(uploads, len(self.driver.uploads))
        for amphora_id in self.old:
            self.assertEqual([1, 2, 3], self.get_numbers(amphora_id))
        new = self.boot()
        self.sync()
        self.assertEqual([101, 102, 103], self.get_numbers(new))
        # Amphorae have moved; health managers follow, one after the other.
        for number in (1, 2, 3):
            hm_repo.register(self.engine, f'hm{number}',
                             f'198.51.100.{100 + number}', 5555, 'second', 20)
            self.make_older(models.HealthManager, 'online_since', 100,
                            host=f'hm{number}')
            self.publish()
            self.assertEqual([101, 102, 103], self.get_numbers(new))
        self.assertEqual(
            ([f'198.51.100.{n}:5555' for n in (101, 102, 103)], {}),
            (list(self.newest.addresses), self.newest.zones))
        self.assertGreater(self.newest.number, old.number)
        self.assertNotIn('WARNING', self.log.output)

    def test_while_some_do_not_announce_it_yet(self):
        new = self.boot()
        self.sync()
        self.assertEqual([1, 2, 3], self.get_numbers(new))
        self.move(1)
        self.publish()
        self.assertEqual([101], self.get_numbers(new))
        # It is away: its amphorae get the others in addition.
        self.silence(1)
        self.assertTrue(self.plan())
        self.assertEqual(trial.OPEN, self.newest.status)
        self.sync()
        self.assertEqual([2, 3, 101], [
            n for n in self.get_numbers(new) if n != 1])

    def test_new_addresses_are_tried_in_their_network(self):
        self.move(1, 2)
        self.publish()
        news = [self.boot() for _ in range(3)]
        for amphora_id in (*self.old, *news):
            self.records.set_health(amphora_id)
        self.sync()
        self.move(3)
        self.plan()
        self.configure(canary_size=1)
        examiner.Examiner(self.conf, self.engine,
                          clock=lambda: self.now).run_once(self.newest)
        admitted, = admission_repo.get_admitted(self.engine,
                                                self.newest.number)
        self.assertIn(admitted.amphora_id, news)

    def test_while_a_dead_one_is_remembered(self):
        """With its address in the old network, and one in the new one."""
        self.move(1, 2)
        self.publish()
        new = self.boot()
        self.silence(1)
        self.publish()
        for number in (2, 3):
            hm_repo.register(self.engine, f'hm{number}',
                             f'198.51.100.{100 + number}', 5555, 'second', 20)
            self.make_older(models.HealthManager, 'online_since', 100,
                            host=f'hm{number}')
        for _ in range(3):
            if self.plan():
                self.open()
        self.sync()
        self.assertEqual([102, 103], [
            n for n in self.get_numbers(new) if n != 101])
        self.assertFalse([a for a in self.newest.addresses
                          if a.startswith('192') and a != '192.0.2.1:5555'])
        self.assertNotIn('WARNING', self.log.output)

    def test_a_drained_one_leaves_both(self):
        self.move(1, 2, 3)
        self.publish()
        new = self.boot()
        hm_repo.change_status(self.engine, 'hm2', 'ONLINE', 'DRAINING')
        self.publish()
        self.assertEqual([[1, 3], [101, 103]], [
            self.get_numbers(i) for i in (self.old[0], new)])

    def test_it_is_announced_once(self):
        notifier = fakes.Notifier()
        self.move(1, 2, 3)
        subject = planner.Announcer(self.engine, notifier)
        for _ in range(3):
            subject.run_once(listening_repo.get_health_managers(
                self.engine, timing.Settings.from_conf(self.conf)))
        self.assertEqual([f'192.0.2.{n}:5555' for n in (1, 2, 3)],
                         [payload.address for payload in notifier.take()])

    def test_few_statements(self):
        ids = [self.boot() for _ in range(30)]
        for asked in (ids, None):
            with self.count_statements() as statements:
                self.assertEqual(
                    dict.fromkeys(ids, frozenset({_NEW})),
                    zone_repo.get_names(self.engine, [_NEW, 'edge'], asked))
            self.assertEqual(2, len(statements))


class TestTrialByZone(_Cases):
    """A list that is another one in a zone is tried there."""

    def setUp(self):
        super().setUp()
        self.beats = 0
        self.ids = {}
        self.add_zone('edge', 'network-e')

    def begin(self, zone=None, number=4, edge=4):
        """Amphorae with the list of all, before controllers have zones."""
        self.ids = {None: [self.add_amphora_in(None) for _ in range(number)],
                    'edge': [self.add_amphora_in('edge')
                             for _ in range(edge)]}
        for amphora_id in sum(self.ids.values(), []):
            self.records.set_health(amphora_id)
        self.examiner = examiner.Examiner(self.conf, self.engine,
                                          clock=lambda: self.now)
        for n in (1, 2):
            self.register(n)
        # What amphorae at the edge reach.
        self.register(9, zone)
        self.plan()
        self.open()
        self.sync()

    def watch(self, seconds, silent=()):
        """Look on while all but some are heard."""
        health = self.records.tables['amphora_health']
        for amphora_id in sum(self.ids.values(), []):
            self.records.set_health(amphora_id, age=500)
        began = timeutils.utcnow() - datetime.timedelta(seconds=500)
        for _ in range(seconds // 2):
            self.now += 2
            self.beats += 1
            for zone, ids in self.ids.items():
                if zone in silent:
                    ids = [i for i in ids if not self.get_admitted() & {i}]
                with self.engine.begin() as connection:
                    connection.execute(
                        health.update().where(health.c.amphora_id.in_(ids))
                        .values(last_update=began + datetime.timedelta(
                            seconds=self.beats)))
            self.examiner.run_once(self.newest)
            self.sync()

    def get_admitted(self):
        return {a.amphora_id for a in admission_repo.get_admitted(
            self.engine, self.newest.number)}

    def test_a_wrong_zone_is_a_change_with_new_addresses(self):
        """A controller that the edge does not reach gets its zone."""
        self.begin()
        self.register(1, 'edge', 'second')
        self.assertTrue(self.plan())
        self.assertEqual(trial.CANARY, self.newest.status)
        self.sync()
        for amphora_id in set(sum(self.ids.values(), [])) - (
                self.get_admitted()):
            self.assertEqual([1, 2, 9], self.get_numbers(amphora_id))

    def test_it_is_tried_where_it_changes(self):
        self.begin()
        self.register(1, 'edge', 'second')
        self.plan()
        self.watch(4)
        for ids in self.ids.values():
            self.assertTrue(self.get_admitted() & set(ids))

    def test_one_zone_that_falls_silent_is_enough(self):
        """However many others are well: they tell nothing of it."""
        for edge in (1, 4):
            self.empty()
            self.add_zone('edge', 'network-e')
            self.begin(number=20, edge=edge)
            good = self.newest
            self.register(1, 'edge', 'second')
            self.plan()
            self.watch(120, silent=['edge'])
            self.assertEqual(
                (good.number + 2, good.zones, trial.OPEN),
                (self.newest.number, self.newest.zones, self.newest.status))
            for amphora_id in sum(self.ids.values(), []):
                self.assertEqual([1, 2, 9], self.get_numbers(amphora_id))
            # Nor is it tried again, or left out where it was.
            for _ in range(5):
                self.assertFalse(self.plan())

    def test_where_all_are_well_it_goes_on(self):
        self.begin()
        self.register(9, 'edge', 'second')
        self.plan()
        self.watch(120)
        self.assertEqual(trial.OPEN, self.newest.status)
        self.assertEqual([9], self.get_numbers(self.ids['edge'][-1]))
        self.assertEqual([1, 2], self.get_numbers(self.ids[None][-1]))

    def test_a_zone_whose_canaries_do_not_answer(self):
        """Others of it are asked; those of other zones are not all."""
        self.begin(number=20)
        self.register(9, 'edge', 'second')
        self.plan()
        for amphora_id in self.ids['edge'][:3]:
            self.driver.broken.add(amphora_id)
        self.watch(150)
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_a_zone_that_has_an_amphora_only_later(self):
        self.begin(edge=0)
        self.register(9, 'edge', 'second')
        self.plan()
        self.watch(20)
        self.ids['edge'].append(self.add_amphora_in('edge'))
        self.watch(40)
        self.assertEqual(trial.CANARY, self.newest.status)
        self.watch(60)
        self.assertTrue(self.get_admitted() & set(self.ids['edge']))
