# SPDX-License-Identifier: Apache-2.0

import math

import fixtures

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.db import models
from octavia_hmsync.metrics import instruments
from octavia_hmsync.sync.db import amphora_view as view_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes


class TestPlanner(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.log = self.useFixture(fixtures.FakeLogger(
            'octavia_hmsync', format='%(levelname)s %(message)s'))
        self.now = 1000.0
        self.pinned = ()
        self.notifier = fakes.Notifier()
        self.planner = self.make()
        # Long enough to know who is dead.
        self.settle()

    def make(self, host='controller1', measure=None, purge=lambda: None):
        conf = self.make_conf(DEFAULT={'host': host})
        return planner.Planner(conf, self.engine, lambda: self.pinned,
                               clock=lambda: self.now,
                               notifier=self.notifier, measure=measure,
                               purge=purge)

    def settle(self):
        for _ in range(12):
            self.now += 2
            self.planner.run_once()

    def run_once(self, subject=None):
        self.now += 2
        return (subject or self.planner).run_once()

    def add(self, *numbers, online_for=100):
        for n in numbers:
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}', 20)
            self.make_older(models.HealthManager, 'online_since', online_for,
                            host=f'hm{n}')

    def silence(self, number, seconds):
        self.make_older(models.HealthManager, 'keepalive_at', seconds,
                        host=f'hm{number}')

    @property
    def newest(self):
        return generation_repo.get_newest(self.engine)

    def test_nobody_there(self):
        self.assertFalse(self.run_once())
        self.assertIsNone(self.newest)

    def test_first_list(self):
        self.add(1, 2)
        self.assertTrue(self.run_once())
        self.assertEqual((1, ('192.0.2.1:5555', '192.0.2.2:5555')),
                         (self.newest.number, self.newest.addresses))
        self.assertIn('Published generation 1', self.log.output)

    def test_health_manager_that_never_stays(self):
        """Each time at another address, for a minute."""
        self.add(1, 2)
        self.run_once()
        before = self.newest.number
        for number in range(10, 40):
            hm_repo.register(self.engine, 'hm1', f'192.0.2.{number}', 5555,
                             f'instance-{number}', 20)
            self.make_older(models.HealthManager, 'online_since', 2.5,
                            host='hm1')
            self.run_once()
        self.assertLessEqual(self.newest.number - before, 2)
        # Until it stays.
        self.make_older(models.HealthManager, 'online_since', 30, host='hm1')
        self.assertTrue(self.run_once())
        self.assertEqual({'192.0.2.2:5555', '192.0.2.39:5555'},
                         set(self.newest.addresses))

    def test_left_addresses_are_purged(self):
        for number in (1, 2):
            self.add(number)
            row, = hm_repo.get_rows(self.engine)
            hm_repo.delete(self.engine, row.host, row.keepalive_at)
        self.make_older(models.LeftAddress, 'left_at', 100000)
        # Another file than the one of this controller.
        keeper_repo.touch(self.engine, 'controller2', ['192.0.2.2:5555'])
        self.make_older(models.HouseKeeper, 'keepalive_at', 100000,
                        host='controller2')
        self.now += 700
        self.settle()
        self.assertEqual({'192.0.2.2:5555'},
                         left_repo.get_all(self.engine))

    def test_nothing_new(self):
        self.add(1, 2)
        self.run_once()
        for _ in range(5):
            self.assertFalse(self.run_once())
        self.assertEqual(1, self.newest.number)

    def test_one_added(self):
        self.add(1)
        self.run_once()
        self.add(2, online_for=0)
        self.assertFalse(self.run_once())
        # It is so each time that one joins.
        self.assertRegex(self.log.output, 'INFO .* to settle')
        self.assertNotIn('WARNING', self.log.output)
        self.add(2)
        self.assertTrue(self.run_once())
        self.assertEqual(2, self.newest.number)
        self.assertEqual('added 192.0.2.2:5555', self.newest.reason)

    def test_one_lost(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 59)
        self.assertFalse(self.run_once())
        self.silence(2, 61)
        self.assertTrue(self.run_once())
        self.assertEqual(('192.0.2.1:5555', '192.0.2.3:5555'),
                         self.newest.addresses)

    def test_who_stays_keeps_its_slot(self):
        self.add(1, 2, 3)
        self.run_once()
        before = self.newest.slots
        self.silence(2, 61)
        self.add(4)
        self.run_once()
        after = self.newest.slots
        self.assertEqual({'192.0.2.1:5555': before['192.0.2.1:5555'],
                          '192.0.2.3:5555': before['192.0.2.3:5555'],
                          '192.0.2.4:5555': before['192.0.2.2:5555']}, after)

    def test_nobody_is_dead_to_one_that_has_just_started(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 100)
        started = self.make('controller2')
        for _ in range(10):
            self.assertFalse(self.run_once(started))
        self.assertTrue(any(self.run_once(started) for _ in range(3)))

    def test_nobody_is_dead_after_a_pause(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 100)
        self.now += 30
        for _ in range(10):
            self.assertFalse(self.run_once())

    def test_nobody_is_dead_after_a_look_that_failed(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 100)
        get_all = hm_repo.get_all_at
        self.patch(hm_repo, 'get_all_at', None)
        for _ in range(3):
            self.assertRaises(TypeError, self.run_once)
        self.patch(hm_repo, 'get_all_at', get_all)
        for _ in range(10):
            self.assertFalse(self.run_once())

    def test_pinned(self):
        self.add(1)
        self.pinned = ('192.0.2.9:5555',)
        self.now += 60
        self.run_once()
        self.assertEqual(('192.0.2.1:5555', '192.0.2.9:5555'),
                         self.newest.addresses)

    def test_pinned_by_another_controller(self):
        self.add(1)
        self.pinned = ('192.0.2.9:5555',)
        self.run_once(self.make('controller2'))
        self.pinned = ()
        self.run_once()
        self.assertIn('192.0.2.9:5555', self.newest.addresses)

    def test_of_two_housekeepers_one_publishes(self):
        self.add(1, 2)
        other = self.make('controller2')
        results = self.run_at_once([self.planner.run_once, other.run_once])
        self.assertEqual([False, True], sorted(results))
        self.assertEqual(1, self.newest.number)
        # And one tells.
        self.assertEqual(1, len([
            p for p in self.notifier.sent
            if isinstance(p, payloads.GenerationPublished)]))

    def test_others_are_told(self):
        self.add(1)
        self.run_once()
        up, published = self.notifier.take()
        self.assertEqual(payloads.HealthManagerUp(
            'hm1', '192.0.2.1:5555', None, None), up)
        self.assertEqual(payloads.GenerationPublished(
            1, ('192.0.2.1:5555',), self.newest.status, self.newest.reason,
            'controller1'), published)
        self.run_once()
        self.assertEqual([], self.notifier.take())

    def test_of_one_that_nobody_could_watch_nothing_is_told(self):
        self.add(1)
        self.run_once()
        self.notifier.take()
        self.silence(1, 30)
        self.now += 1000
        self.planner.run_once()
        self.assertEqual([], self.notifier.take())
        self.settle()
        self.assertIsInstance(self.notifier.take()[0],
                              payloads.HealthManagerDown)

    def test_decisions_are_counted(self):
        measure = instruments.HouseKeepingInstruments()
        self.planner = self.make(measure=measure)

        def decisions():
            return {decision: int(measure.registry.get_sample_value(
                'octavia_hmsync_plan_decisions_total',
                {'decision': decision})) for decision in (
                    'published', 'unchanged', 'held', 'lost_race')}

        def held():
            return measure.registry.get_sample_value(
                'octavia_hmsync_plan_held')

        self.settle()
        self.assertEqual({'published': 0, 'unchanged': 12, 'held': 0,
                          'lost_race': 0}, decisions())
        self.add(1)
        self.run_once()
        self.assertEqual((1, 0), (decisions()['published'], held()))
        self.silence(1, 500)
        self.run_once()
        self.assertEqual((1, 1), (decisions()['held'], held()))
        self.add(1, 2)
        self.patch(generation_repo, 'publish', lambda *args: False)
        self.run_once()
        self.assertEqual((1, 0), (decisions()['lost_race'], held()))
        # While it fails, it does not go on saying so.
        self.patch(hm_repo, 'get_all_at', None)
        self.assertRaises(TypeError, self.run_once)
        self.assertTrue(math.isnan(held()))

    # How a list begins its way

    def open(self):
        generation_repo.set_open(self.engine, self.newest.number)

    def test_first_list_is_on_trial(self):
        self.add(1, 2)
        self.run_once()
        self.assertEqual(trial.CANARY, self.newest.status)

    def test_new_address_is_on_trial(self):
        self.add(1)
        self.run_once()
        self.open()
        self.add(2)
        self.run_once()
        self.assertEqual((2, trial.CANARY),
                         (self.newest.number, self.newest.status))

    def test_dropped_address_is_not(self):
        self.add(1, 2)
        self.run_once()
        self.open()
        self.silence(2, 61)
        self.run_once()
        self.assertEqual((2, trial.OPEN),
                         (self.newest.number, self.newest.status))

    def test_back_to_a_good_list_is_not(self):
        """The new health manager went again, before its list was good."""
        self.add(1)
        self.run_once()
        self.open()
        self.add(2)
        self.run_once()
        self.silence(2, 61)
        self.run_once()
        self.assertEqual((3, trial.OPEN, ('192.0.2.1:5555',)),
                         (self.newest.number, self.newest.status,
                          self.newest.addresses))

    def test_still_on_trial_with_another_list(self):
        self.add(1)
        self.run_once()
        self.open()
        self.add(2, 3)
        self.run_once()
        self.silence(3, 61)
        self.run_once()
        self.assertEqual((3, trial.CANARY),
                         (self.newest.number, self.newest.status))

    def test_nothing_to_lose(self):
        self.add(1)
        self.run_once()
        self.open()
        self.silence(1, 61)
        self.add(2)
        self.run_once()
        self.assertEqual((('192.0.2.2:5555',), trial.OPEN),
                         (self.newest.addresses, self.newest.status))

    def test_pinned_may_be_heard(self):
        """Somebody may listen there without the plugin."""
        self.pinned = ('192.0.2.1:5555',)
        self.add(1)
        self.run_once()
        self.open()
        self.now += 6
        self.silence(1, 61)
        self.add(2)
        self.run_once()
        self.assertEqual(trial.CANARY, self.newest.status)

    def test_without_canaries(self):
        for wave_size, expected in ((0, trial.OPEN), (5, trial.WAVES)):
            self.planner._conf.set_override('canary_size', 0, 'hmsync')
            self.planner._conf.set_override('wave_size', wave_size, 'hmsync')
            self.add(1 + wave_size)
            self.run_once()
            self.assertEqual(expected, self.newest.status)

    # After a roll back

    def roll_back(self, *good):
        """Find fault with the newest list, and put back a good one."""
        good = {f'192.0.2.{n}:5555': slot for slot, n in enumerate(good)}
        self.assertTrue(generation_repo.roll_back(
            self.engine, self.newest.number,
            set(self.newest.addresses) - set(good), good, 'it is bad',
            'controller1'))
        self.make_older(models.Generation, 'rolled_back_at', 50,
                        number=self.newest.number - bool(good))

    def make_suspect(self):
        """Roll back a list with 1 and 2 to one with 1 alone."""
        self.add(1)
        self.run_once()
        self.open()
        self.add(2)
        self.run_once()
        self.roll_back(1)
        self.assertEqual(3, self.newest.number)

    def assertNothingNew(self):
        before = self.newest.number
        self.settle()
        self.assertEqual(before, self.newest.number)

    def test_left_out_after_a_roll_back(self):
        self.make_suspect()
        self.assertNothingNew()

    def test_another_one_comes_after_a_roll_back(self):
        self.make_suspect()
        self.add(3)
        self.run_once()
        self.assertEqual(('192.0.2.1:5555', '192.0.2.3:5555'),
                         self.newest.addresses)

    def test_it_starts_anew(self):
        self.make_suspect()
        self.add(2, online_for=51)
        self.assertNothingNew()
        self.add(2, online_for=49)
        self.assertTrue(self.run_once())
        self.assertEqual((('192.0.2.1:5555', '192.0.2.2:5555'),
                          trial.CANARY),
                         (self.newest.addresses, self.newest.status))

    def test_operator_gives_it_another_chance(self):
        self.make_suspect()
        generation_repo.clear_suspects(self.engine)
        self.assertTrue(self.run_once())
        self.assertEqual(trial.CANARY, self.newest.status)

    def test_nobody_else_is_left(self):
        self.make_suspect()
        self.silence(1, 61)
        self.run_once()
        self.assertEqual((('192.0.2.2:5555',), trial.OPEN),
                         (self.newest.addresses, self.newest.status))

    def test_first_list_is_rolled_back(self):
        """It is not tried again, with other amphorae, by itself."""
        self.add(1)
        self.run_once()
        self.roll_back()
        self.assertEqual(trial.ROLLED_BACK, self.newest.status)
        self.assertNothingNew()
        self.add(2)
        self.assertTrue(self.run_once())
        self.assertEqual((('192.0.2.2:5555',), trial.CANARY),
                         (self.newest.addresses, self.newest.status))

    def test_first_list_is_rolled_back_and_starts_anew(self):
        self.add(1)
        self.run_once()
        self.roll_back()
        self.add(1, online_for=49)
        self.assertTrue(self.run_once())
        self.assertEqual((2, ('192.0.2.1:5555',), trial.CANARY),
                         (self.newest.number, self.newest.addresses,
                          self.newest.status))

    def test_first_list_is_rolled_back_and_gets_another_chance(self):
        self.add(1)
        self.run_once()
        self.roll_back()
        generation_repo.clear_suspects(self.engine)
        self.assertTrue(self.run_once())
        self.assertEqual((2, trial.CANARY),
                         (self.newest.number, self.newest.status))

    def test_held_is_said_once(self):
        self.add(1)
        self.run_once()
        self.silence(1, 500)
        for _ in range(5):
            self.run_once()
        self.assertEqual(1, self.log.output.count('no health manager is'))
        self.assertRegex(self.log.output, 'WARNING .* no health manager is')

    def test_purge(self):
        self.add(1, 2)
        self.silence(2, 100000)
        self.now += 700
        self.settle()
        self.assertEqual(['hm1'], [
            m.host for m in hm_repo.get_all(self.engine)])
        self.assertIn('hm2', self.log.output)

    def test_what_amphorae_said_is_purged(self):
        """What was recorded when its replacement had ended already."""
        for amphora_id in ('one', 'two'):
            view_repo.record(self.engine, amphora_id, 'lb',
                             heartbeat.Heartbeat(amphora_id, frozenset(), {}))
        self.make_older(models.AmphoraView, 'seen_at',
                        view_repo.RETENTION + 60, amphora_id='one')
        self.now += 700
        self.settle()
        self.assertEqual(['two'], [row.amphora_id for row in
                                   self.rows(models.AmphoraView)])

    def test_others_purge(self):
        """As seldom as the planner, and once it knows how time passes."""
        calls = []
        self.planner = self.make(purge=lambda: calls.append(self.now))
        self.run_once()
        self.assertEqual([], calls)
        for _ in range(2):
            self.settle()
            self.assertEqual(1, len(calls))
        self.now += 700
        self.settle()
        self.settle()
        self.assertEqual(2, len(calls))
