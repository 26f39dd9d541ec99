# SPDX-License-Identifier: Apache-2.0

"""How long a rollout takes with load balancers that cannot be replaced."""

import dataclasses
import datetime
import heapq
import itertools

from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import rules
from tests.unit import base
from tests.unit.image.rollout import test_rules

NOW = test_rules.NOW
# Seconds of one that is well; of a black hole, whose agent does not answer;
# and of one whose members flap: build, proof, and back.
GOOD, BLACK_HOLE, FLAPPING = 120, 90, 300


class Cloud:
    """A fleet, and a clock that runs from one event to the next.

    :param settings: of the rollout.
    :param size: how many load balancers.
    :param bad: {number of a load balancer: seconds of each attempt, all of
                which are SKIPPED}.
    """

    def __init__(self, settings, size, bad):
        self.settings = settings
        self.bad = {f'lb{number:05}': seconds
                    for number, seconds in bad.items()}
        self.left = {f'lb{n:05}': test_rules.candidate(n)
                     for n in range(size)}
        self.now = NOW
        # In which order they are to be, by number.
        self.rows = []
        self.touched = []
        self.running = []
        self.done_at = {}
        self.numbers = itertools.count()

    def run(self):
        """Roll out until it is over.

        :returns: the Decision.
        """
        while True:
            decision = rules.decide(limits.Situation(
                self.settings, self.now, list(self.left.values()), self.rows,
                start_ages=self.get_start_ages()))
            if decision.state != 'RUNNING':
                return decision
            for candidate, is_canary in decision.chosen:
                self.begin(candidate, is_canary)
            if not decision.chosen:
                self.go_on()

    def get_start_ages(self):
        """Those count that have begun to change anything."""
        return [(self.now - self.rows[n].started_at).total_seconds()
                for n in self.touched]

    def begin(self, candidate, is_canary):
        name = candidate.load_balancer_id
        number = len(self.rows)
        self.rows.append(test_rules.replacement(
            candidate, canary=is_canary, started_at=self.now))
        self.touched.append(number)
        heapq.heappush(self.running, (
            self.now + datetime.timedelta(
                seconds=self.bad.get(name, GOOD)), number))

    def go_on(self):
        """Have the next attempt end, or the next one be tried again."""
        times = [r.not_before for r in self.rows if r.not_before]
        times += [limits.get_watch_end(r, self.settings) for r in self.rows
                  if r.state == 'DONE']
        later = [at for at in times if at > self.now]
        later += [at for at, _number in self.running[:1]]
        if self.settings.rate_per_hour:
            later += [at for at in (self.rows[n].started_at +
                                    datetime.timedelta(hours=1)
                                    for n in self.touched) if at > self.now]
        self.now = min(later)
        while self.running and self.running[0][0] <= self.now:
            self.end(heapq.heappop(self.running)[1])

    def end(self, number):
        row = self.rows[number]
        name = row.load_balancer_id
        if name not in self.bad:
            del self.left[name]
            self.done_at[name] = self.now
            self.rows[number] = dataclasses.replace(
                row, state='DONE', finished_at=self.now)
            return
        skipped = sum(r.load_balancer_id == name and r.state == 'SKIPPED'
                      for r in self.rows)
        wait = limits.get_wait(60, skipped)
        self.rows[number] = dataclasses.replace(
            row, state='SKIPPED', finished_at=self.now, not_before=wait and
            self.now + datetime.timedelta(seconds=wait))
        if self.bad[name] == BLACK_HOLE:
            # It was found silent before the lock.
            self.touched.remove(number)

    def get_time(self):
        """Return the seconds after which all that are well were done."""
        return (max(self.done_at.values()) - NOW).total_seconds()


class TestStarvation(base.TestCase):

    def measure(self, settings, bad, size=500):
        cloud = Cloud(settings, size, bad)
        decision = cloud.run()
        self.assertEqual('DONE', decision.state)
        self.assertEqual(size - len(bad), len(cloud.done_at))
        tries = [sum(r.load_balancer_id == name and
                     r.state == replace_repo.SKIPPED for r in cloud.rows)
                 for name in cloud.bad]
        self.assertEqual([limits.TRIES] * len(bad), tries)
        if bad:
            self.assertIn(f'{len(bad)} blocked (lb', decision.reason)
        return cloud.get_time()

    def compare(self, size=500, bad=None, **settings):
        """Compare with the time in which the good ones alone are done."""
        settings = test_rules.change(**settings)
        # The first in line, so that they are in everybody's way.
        bad = bad or {0: BLACK_HOLE, 1: FLAPPING, 2: FLAPPING, 3: BLACK_HOLE,
                      4: FLAPPING}
        alone = self.measure(settings, {}, size - len(bad))
        self.assertLessEqual(self.measure(settings, bad, size), 1.1 * alone)

    def test_one_at_a_time(self):
        self.compare(parallel=1)

    def test_watched(self):
        self.compare(parallel=1, watch_time=300)

    def test_several_at_once(self):
        self.compare(parallel=4, watch_time=300)

    def test_rate(self):
        self.compare(parallel=1, rate_per_hour=20)

    def test_many_black_holes(self):
        self.compare(parallel=4, bad=dict.fromkeys(range(8), BLACK_HOLE))

    def test_nothing_but_black_holes(self):
        """It comes to its end, and says so."""
        cloud = Cloud(test_rules.change(parallel=2), 5,
                      dict.fromkeys(range(5), BLACK_HOLE))
        decision = cloud.run()
        self.assertEqual(('DONE', '0 done, 5 blocked'),
                         (decision.state, decision.reason[:17]))
