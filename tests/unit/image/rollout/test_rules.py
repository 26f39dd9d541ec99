# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import datetime
import time

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.conf import windows
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import estimate
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import rules
from tests.unit import base

# A Monday.
NOW = datetime.datetime(2026, 11, 23)
SETTINGS = rollout_repo.Settings('replace', 1, 2, 0, 0, 1, '')


def change(**values):
    return dataclasses.replace(SETTINGS, **values)


def candidate(number, zone=None, **values):
    return limits.Candidate(f'lb{number:05}', values.pop('topology', 'SINGLE'),
                            values.pop('flavor_id', None), zone,
                            values.pop('target_image_id', 'new'), **values)


def replacement(of, state='RUNNING', canary=False, not_before=None,
                started_at=NOW):
    return replace_repo.Replacement(
        f'of {of.load_balancer_id}', 'rollout', of.load_balancer_id,
        of.topology, of.flavor_id, of.availability_zone, of.target_image_id,
        'replace', canary, state, None, None, None, 1, None, not_before,
        started_at, started_at, None, None, None, NOW)


class _Case(base.TestCase):

    def decide(self, settings, candidates, replacements=(), now=NOW,
               **kwargs):
        return rules.decide(limits.Situation(
            settings, now, candidates, replacements, **kwargs))

    def chosen(self, *args, **kwargs):
        return [(c.load_balancer_id, is_canary) for c, is_canary in
                self.decide(*args, **kwargs).chosen]

    def assertWaits(self, words, *args, **kwargs):
        decision = self.decide(*args, **kwargs)
        self.assertEqual(('RUNNING', ()), (decision.state, decision.chosen))
        self.assertIn(words, decision.reason)


class TestDecide(_Case):

    def test_nobody_is_outdated(self):
        self.assertEqual(rules.Decision('DONE', '0 done'),
                         self.decide(SETTINGS, []))

    def test_canaries_first(self):
        """One of each group, in order, as many as may at once."""
        fleet = [candidate(3, topology='ACTIVE_STANDBY'), candidate(1),
                 candidate(2), candidate(4, zone='az1'),
                 candidate(5, flavor_id='flavor')]
        self.assertEqual([('lb00001', True), ('lb00003', True)],
                         self.chosen(SETTINGS, fleet))
        self.assertEqual(
            [f'lb0000{n}' for n in (1, 3, 4, 5)],
            [one for one, _ in self.chosen(change(parallel=9), fleet)])
        self.assertEqual(
            ['lb00001', 'lb00002'],
            [one for one, _ in self.chosen(change(parallel=9, canaries=2),
                                           fleet[1:3])])

    def test_canaries_are_waited_for(self):
        fleet = [candidate(n) for n in range(4)]
        self.assertWaits('canaries', SETTINGS, fleet,
                         [replacement(fleet[0], canary=True)])
        self.assertEqual(
            [('lb00001', False), ('lb00002', False)],
            self.chosen(SETTINGS, fleet, [replacement(fleet[0], 'DONE')]))

    def test_without_canaries(self):
        self.assertEqual([('lb00001', False)], self.chosen(
            change(canaries=0), [candidate(1)]))

    def test_canary_that_was_skipped(self):
        """Another one of its group takes its place."""
        fleet = [candidate(1), candidate(2)]
        later = NOW + datetime.timedelta(seconds=60)
        skipped = replacement(fleet[0], 'SKIPPED', True, later)
        self.assertEqual([('lb00002', True)],
                         self.chosen(SETTINGS, fleet, [skipped]))
        self.assertWaits('1 are left', SETTINGS, fleet[:1], [skipped])
        self.assertEqual([('lb00001', True)], self.chosen(
            SETTINGS, fleet[:1], [skipped], later))

    def test_canary_that_failed(self):
        fleet = [candidate(1), candidate(2)]
        failed = [replacement(fleet[0], 'FAILED', True)]
        self.assertEqual([('lb00002', True)], self.chosen(
            change(max_failures=2), fleet, failed))
        self.assertEqual(
            rules.Decision('HALTED', '1 failed: lb00001'),
            self.decide(SETTINGS, fleet, failed))

    def test_group_of_which_nobody_may_begin(self):
        """It holds up nobody else, and has a canary when it may."""
        pending = candidate(9, topology='ACTIVE_STANDBY', is_pending=True)
        fleet = [candidate(1), candidate(2), pending]
        done = [replacement(fleet[0], 'DONE', True)]
        self.assertEqual([('lb00002', False)],
                         self.chosen(SETTINGS, fleet, done))
        fleet[2] = dataclasses.replace(pending, is_pending=False)
        self.assertEqual([('lb00009', True)],
                         self.chosen(SETTINGS, fleet, done))

    def test_image_that_came_meanwhile(self):
        """It has canaries of its own, also those that have the one before."""
        one, two = candidate(1), candidate(2)
        newer = [candidate(n, target_image_id='newer') for n in (1, 2)]
        done = [replacement(one, 'DONE', True), replacement(two, 'DONE')]
        self.assertEqual('DONE', self.decide(SETTINGS, [one], done).state)
        self.assertEqual([('lb00001', True)],
                         self.chosen(SETTINGS, newer, done))

    def test_those_in_the_way(self):
        blocked = candidate(1, blocked_by=('ERROR',))
        pending = candidate(2, is_pending=True)
        self.assertEqual(rules.Decision('DONE',
                                        '0 done, 1 blocked (lb00001)'),
                         self.decide(SETTINGS, [blocked]))
        self.assertWaits('1 are left', SETTINGS, [blocked, pending])
        self.assertWaits('1 are left', SETTINGS, [candidate(3)],
                         open_elsewhere=frozenset(['lb00003']))

    def test_runs(self):
        one = candidate(1)
        self.assertWaits('1 run', change(parallel=1), [one, candidate(2)],
                         [replacement(one)])
        # It is outdated no more, and not done either.
        self.assertEqual('RUNNING', self.decide(
            SETTINGS, [], [replacement(one)]).state)

    def test_window(self):
        settings = change(windows='Sat 01:00-05:00')
        self.assertWaits('opens at 2026-11-28T01:00 UTC', settings,
                         [candidate(1)])
        self.assertEqual(1, len(self.chosen(
            settings, [candidate(1)],
            now=NOW + datetime.timedelta(days=5, hours=2))))
        self.assertRaises(exceptions.NotPossible, self.decide,
                          change(windows='Sat'), [candidate(1)])

    def test_rate(self):
        settings = change(rate_per_hour=3, parallel=9, canaries=0)
        fleet = [candidate(n) for n in range(9)]
        for ages, room in (([], 3), ([10], 2), ([4000, 3600, 10, 20], 1)):
            self.assertEqual(room, len(self.chosen(settings, fleet,
                                                   start_ages=ages)))
        self.assertWaits('3 began within an hour: the next one may at '
                         '2026-11-23T00:10 UTC',
                         settings, fleet, start_ages=[3000, 20, 10, 4000])
        # The rate was lowered.
        self.assertWaits('may at 2026-11-23T00:59 UTC',
                         change(rate_per_hour=1), fleet,
                         start_ages=[10, 20, 30])

    def test_zones(self):
        settings = change(parallel=9, parallel_per_az=1, canaries=0)
        fleet = [candidate(1, 'az1'), candidate(2, 'az1'),
                 candidate(3, 'az2'), candidate(4), candidate(5)]
        self.assertEqual(['lb00001', 'lb00003', 'lb00004'], [
            one for one, _ in self.chosen(settings, fleet)])
        self.assertWaits('availability zones', settings, fleet[:2],
                         [replacement(fleet[0])])

    def test_many_failed(self):
        fleet = [candidate(n) for n in range(7)]
        self.assertEqual(
            '7 failed: lb00000, lb00001, lb00002, lb00003, lb00004 and 2 '
            'more', self.decide(
                SETTINGS, fleet, [replacement(c, 'FAILED') for c in fleet]
            ).reason)
        self.assertEqual(
            '1 failed: lb00001; 1 done before keep the image: if it is bad, '
            'take its tag off and run "octavia-hmsync rollout undo"',
            self.decide(SETTINGS, fleet, [
                replacement(fleet[0], 'DONE'),
                replacement(fleet[1], 'FAILED')]).reason)
        self.assertEqual('4 done, 1 failed', self.decide(
            change(max_failures=2), [], [
                *(replacement(c, 'DONE') for c in fleet[:4]),
                replacement(fleet[4], 'FAILED')]).reason)

    def test_refused(self):
        """It is named, does not halt, and is not tried again."""
        fleet = [candidate(1), candidate(2)]
        refused = [replacement(fleet[0], 'REFUSED', True)]
        self.assertEqual([('lb00002', True)],
                         self.chosen(SETTINGS, fleet, refused))
        self.assertEqual(
            rules.Decision('DONE', '1 done, 1 refused (lb00001)'),
            self.decide(SETTINGS, fleet[:1],
                        [*refused, replacement(fleet[1], 'DONE')]))

    def test_cancelled(self):
        """What an operator took back is not begun again."""
        fleet = [candidate(1), candidate(2)]
        self.assertEqual([('lb00002', True)], self.chosen(
            SETTINGS, fleet, [replacement(fleet[0], 'CANCELLED')]))


class TestSkipped(_Case):

    def skipped(self, of, times, wait=60):
        return [replacement(of, 'SKIPPED', False, NOW +
                            datetime.timedelta(seconds=wait))] * times

    def test_last_in_line(self):
        fleet = [candidate(n) for n in range(4)]
        settings = change(parallel=4, canaries=0)
        self.assertEqual(
            ['lb00002', 'lb00003', 'lb00001', 'lb00000'],
            [one for one, _ in self.chosen(settings, fleet, [
                *self.skipped(fleet[0], 2, 0), *self.skipped(fleet[1], 1, 0)]
            )])

    def test_wait_doubles(self):
        waits = [limits.get_wait(60, n) for n in range(limits.TRIES)]
        self.assertEqual([60, 120, 240, 480, 960, 1920, 3600, None], waits)

    def test_left_alone_at_last(self):
        """It is over with it, and it is named."""
        one = candidate(1)
        self.assertWaits('1 are left', SETTINGS, [one],
                         self.skipped(one, limits.TRIES - 1))
        self.assertEqual(
            rules.Decision('DONE', '0 done, 1 blocked (lb00001)'),
            self.decide(SETTINGS, [one], self.skipped(one, limits.TRIES)))
        # Another image is another matter.
        newer = candidate(1, target_image_id='newer')
        self.assertEqual([('lb00001', True)], self.chosen(
            SETTINGS, [newer], self.skipped(one, limits.TRIES, 0)))

    def test_stuck(self):
        self.assertEqual([False, False, True], [
            limits.is_stuck(age) for age in (None, 3599, 3600)])


class TestWatched(_Case):

    settings = change(watch_time=300)

    def done(self, of, seconds, canary=False):
        return dataclasses.replace(
            replacement(of, 'DONE', canary),
            finished_at=NOW - datetime.timedelta(seconds=seconds))

    def test_canary(self):
        """Its group begins when it was watched for long enough."""
        fleet = [candidate(n) for n in range(4)]
        self.assertWaits('the canaries are done, and watched until '
                         '2026-11-23T00:03 UTC', self.settings, fleet,
                         [self.done(fleet[0], 120, True)])
        self.assertEqual(
            [('lb00001', False), ('lb00002', False)], self.chosen(
                self.settings, fleet, [self.done(fleet[0], 300, True)]))

    def test_others(self):
        """They keep their places."""
        fleet = [candidate(n, 'az1') for n in range(6)]
        first = self.done(fleet[0], 900, True)
        one, two = self.done(fleet[1], 100), self.done(fleet[2], 299)
        self.assertEqual([('lb00002', False)], self.chosen(
            self.settings, fleet, [first, one]))
        self.assertWaits(
            '0 run and 2 that are done are watched, as many as may at once: '
            'the first of these until 2026-11-23T00:00 UTC', self.settings,
            fleet, [first, one, two])
        self.assertWaits(
            'availability zones', dataclasses.replace(
                self.settings, parallel_per_az=1), fleet, [first, one])

    def test_end(self):
        """It is not over before the last one was watched."""
        one = candidate(1)
        self.assertEqual('RUNNING', self.decide(
            self.settings, [], [self.done(one, 299)]).state)
        self.assertEqual(rules.Decision('DONE', '1 done'), self.decide(
            self.settings, [], [self.done(one, 300)]))


ZONES = st.sampled_from([None, 'az1', 'az2'])
FLEETS = st.lists(st.tuples(
    st.sampled_from(['SINGLE', 'ACTIVE_STANDBY']),
    st.sampled_from([None, 'flavor']), ZONES), max_size=12)
ALL_SETTINGS = st.builds(
    rollout_repo.Settings, st.just('replace'), st.integers(0, 2),
    st.integers(1, 4), st.integers(0, 2), st.integers(0, 4),
    st.integers(1, 3), st.sampled_from(['', 'Mon 00:00-02:00',
                                        'Mon,Tue 23:00-01:00; 12:00-13:00']),
    st.sampled_from([0, 300, 5000]))


class World:
    """Rolls out, minute by minute, until it is over."""

    def __init__(self, case, settings, fleet, chance):
        self.case, self.settings, self.chance = case, settings, chance
        self.fleet = [candidate(n, zone, topology=topology, flavor_id=flavor)
                      for n, (topology, flavor, zone) in enumerate(fleet)]
        self.rows = []
        self.now = NOW

    def run(self):
        while True:
            self.finish_some()
            decision = rules.decide(self.situation())
            self.check(decision)
            if decision.state != 'RUNNING':
                return decision
            for chosen, is_canary in decision.chosen:
                self.rows.append(replacement(chosen, canary=is_canary,
                                             started_at=self.now))
            self.check_rows()
            self.now += datetime.timedelta(
                minutes=self.chance.choice([1, 7, 31, 120]))

    def finish_some(self):
        for n, row in enumerate(self.rows):
            if row.state == 'RUNNING' and self.chance.random() < 0.5:
                state = self.chance.choice(
                    ['DONE', 'DONE', 'DONE', 'DONE', 'FAILED', 'REFUSED',
                     'SKIPPED'])
                wait = None if state != 'SKIPPED' else limits.get_wait(
                    60, sum(r.state == 'SKIPPED' for r in self.rows
                            if r.load_balancer_id == row.load_balancer_id))
                self.rows[n] = dataclasses.replace(
                    row, state=state, finished_at=self.now,
                    not_before=wait and
                    self.now + datetime.timedelta(seconds=wait))

    def situation(self):
        done = {r.load_balancer_id for r in self.rows if r.state == 'DONE'}
        return limits.Situation(
            self.settings, self.now,
            [dataclasses.replace(c, is_pending=self.chance.random() < 0.1)
             for c in self.fleet if c.load_balancer_id not in done],
            self.rows,
            start_ages=[(self.now - r.started_at).total_seconds()
                        for r in self.rows])

    def check(self, decision):
        if decision.chosen:
            self.case.assertTrue(windows.is_open(
                windows.parse(self.settings.windows), self.now))
        self.case.assertNotEqual(bool(decision.reason),
                                 bool(decision.chosen))
        is_canary = {canary for _, canary in decision.chosen}
        self.case.assertLessEqual(len(is_canary), 1)
        running = [r for r in self.rows if self.has_place(r)]
        done = collections.Counter(
            (r.topology, r.flavor_id, r.availability_zone,
             r.target_image_id) for r in self.rows
            if r.state == 'DONE' and r not in running)
        for chosen, canary in decision.chosen:
            if not canary:
                self.case.assertFalse(any(r.canary for r in running))
                self.case.assertGreaterEqual(done[chosen.group],
                                             self.settings.canaries)
            self.case.assertFalse(chosen.is_pending)
        if decision.state == 'DONE':
            self.case.assertEqual([], running)

    def has_place(self, row):
        return row.state == 'RUNNING' or limits.is_watched(
            row, self.settings, self.now)

    def check_rows(self):
        running = [r for r in self.rows if self.has_place(r)]
        self.case.assertLessEqual(len(running), self.settings.parallel)
        zones = collections.Counter(r.availability_zone for r in running)
        if self.settings.parallel_per_az:
            self.case.assertLessEqual(max(zones.values(), default=0),
                                      self.settings.parallel_per_az)
        ids = [r.load_balancer_id for r in running]
        self.case.assertEqual(len(ids), len(set(ids)))
        rate = self.settings.rate_per_hour
        starts = sorted(r.started_at for r in self.rows)
        for one, other in zip(starts, starts[rate:] if rate else ()):
            self.case.assertGreaterEqual(other - one,
                                         datetime.timedelta(hours=1))


class TestWorld(_Case):

    @given(ALL_SETTINGS, FLEETS, st.randoms(use_true_random=False))
    def test_any(self, settings, fleet, chance):
        """It keeps to all limits, and comes to an end with everybody."""
        world = World(self, settings, fleet, chance)
        decision = world.run()
        failed = sum(r.state == 'FAILED' for r in world.rows)
        if decision.state == 'HALTED':
            self.assertGreaterEqual(failed, settings.max_failures)
            return
        self.assertLess(failed, settings.max_failures)
        skipped = collections.Counter(
            r.load_balancer_id for r in world.rows if r.state == 'SKIPPED')
        self.assertLessEqual(max(skipped.values(), default=0), limits.TRIES)
        self.assertEqual(
            {c.load_balancer_id for c in world.fleet},
            {r.load_balancer_id for r in world.rows
             if r.state in ('DONE', 'FAILED', 'REFUSED')} |
            {one for one, number in skipped.items()
             if number == limits.TRIES})


class TestWaves(_Case):

    def waves(self, settings, fleet):
        return [(is_canary, [c.load_balancer_id for c in wave])
                for is_canary, wave in estimate.get_waves(settings, fleet)]

    def test_none(self):
        self.assertEqual([], self.waves(SETTINGS, []))

    def test_example(self):
        fleet = [candidate(n, 'az1' if n < 4 else 'az2') for n in range(7)]
        self.assertEqual([
            (True, ['lb00000', 'lb00004']),
            (False, ['lb00001', 'lb00005']), (False, ['lb00002', 'lb00006']),
            (False, ['lb00003'])],
            self.waves(change(parallel_per_az=1), fleet))
        self.assertEqual([
            (True, ['lb00000', 'lb00004']),
            (False, ['lb00001', 'lb00002', 'lb00003']),
            (False, ['lb00005', 'lb00006'])],
            self.waves(change(parallel=3), fleet))

    @given(ALL_SETTINGS, FLEETS)
    def test_as_they_would_begin(self, settings, fleet):
        """The rules begin the same, if each wave is done before the next."""
        settings = dataclasses.replace(settings, rate_per_hour=0, windows='',
                                       watch_time=0)
        fleet = [candidate(n, zone, topology=topology, flavor_id=flavor)
                 for n, (topology, flavor, zone) in enumerate(fleet)]
        rows = []
        for is_canary, wave in estimate.get_waves(settings, fleet):
            chosen = rules.decide(limits.Situation(
                settings, NOW, fleet, rows)).chosen
            self.assertEqual([(c, is_canary) for c in wave], list(chosen))
            rows += [replacement(c, 'DONE', is_canary) for c in wave]
        self.assertEqual('DONE', rules.decide(limits.Situation(
            settings, NOW, fleet, rows)).state)


class TestSpeed(_Case):

    def test_ten_thousand(self):
        """They take ten times as long as a thousand, not a hundred times."""
        self.assertLess(self.measure(10000), 40 * self.measure(1000))

    def measure(self, size):
        """Return the seconds that the best of three takes of a processor."""
        fleet = [candidate(n, f'az{n % 7}', flavor_id=f'flavor{n % 11}')
                 for n in range(size)]
        done = [replacement(c, 'DONE') for c in fleet[::2]]
        settings = change(parallel_per_az=2, parallel=20, rate_per_hour=100)
        times = []
        for _ in range(3):
            begun = time.thread_time()
            self.assertEqual(14, len(self.chosen(settings, fleet, done)))
            estimate.get_waves(settings, fleet)
            times.append(time.thread_time() - begun)
        return min(times)


DONE_AT = datetime.datetime(2026, 11, 23)
BEFORE = DONE_AT - datetime.timedelta(seconds=90)
SIGHT = rules.Sight(timeout=60, heard_ago=2, error_for=0)


def amphora(name='new', status='ALLOCATED', created_at=BEFORE, silent_for=3,
            is_busy=False):
    return aftermath_repo.Amphora(name, status, created_at, silent_for,
                                  is_busy)


def watched(*amphorae, provider='amphora', old_status='ONLINE',
            operating_status='ONLINE'):
    return aftermath_repo.Watched(
        'replacement', 'lb', provider, old_status, operating_status, 'new',
        DONE_AT, amphorae or (amphora(), amphora('other')))


class TestWatching(base.TestCase):

    def assertWell(self, *args, sight=SIGHT, **kwargs):
        self.assertIsNone(rules.find_problem(watched(*args, **kwargs),
                                             sight))

    def assertNotWell(self, words, *args, sight=SIGHT, **kwargs):
        self.assertIn(words, rules.find_problem(watched(*args, **kwargs),
                                                sight))

    def test_well(self):
        self.assertWell()

    def test_error(self):
        for provider in ('amphora', rules.compat.CLUSTER_PROVIDER):
            self.assertNotWell('amphora other is in ERROR', amphora(),
                               amphora('other', 'ERROR'), provider=provider)

    def test_failed_over(self):
        later = DONE_AT + datetime.timedelta(seconds=1)
        self.assertNotWell('amphora new is failed over again',
                           amphora(is_busy=True))
        self.assertNotWell('was failed over again, to third',
                           amphora(), amphora('third', created_at=later))
        self.assertNotWell('amphora new is gone', amphora('other'))

    def test_members_of_clusters(self):
        """They come and go, and Octavia marks each as busy."""
        later = DONE_AT + datetime.timedelta(seconds=1)
        provider = rules.compat.CLUSTER_PROVIDER
        self.assertWell(amphora('third', created_at=later, is_busy=True),
                        provider=provider)
        self.assertNotWell('no heartbeat', amphora(silent_for=61),
                           provider=provider)

    def test_silent(self):
        self.assertWell(amphora(silent_for=60))
        for age in (61, None):
            self.assertNotWell('amphora new has sent no heartbeat for more '
                               'than 60 s', amphora(silent_for=age))

    def test_no_amphora_is_heard(self):
        """It is no fault of the image."""
        for heard_ago in (61, None):
            self.assertWell(amphora(silent_for=61), sight=dataclasses.replace(
                SIGHT, heard_ago=heard_ago))

    def test_operating_status(self):
        """One that was not so before, and that lasts."""
        lasting = dataclasses.replace(SIGHT, error_for=60)
        self.assertNotWell('ONLINE before, is ERROR', sight=lasting,
                           operating_status='ERROR')
        self.assertWell(operating_status='ERROR')
        for before in ('ERROR', None):
            self.assertWell(old_status=before, operating_status='ERROR',
                            sight=lasting)
