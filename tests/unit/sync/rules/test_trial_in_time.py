# SPDX-License-Identifier: Apache-2.0

"""A bad list on trial, second by second: nobody is failed over for it.

Only the rules are real: who is chosen, the verdict, and the guard.
"""

import random

from octavia_hmsync.sync.rules import canaries
from octavia_hmsync.sync.rules import heartbeats
from octavia_hmsync.sync.rules import silence
from octavia_hmsync.sync.rules import trial
from tests.unit import base
from tests.unit.sync.rules import cases

SETTINGS = cases.SETTINGS
INTERVAL, TIMEOUT = 10, 60
POLL = 2
# Longer than [hmsync] upload_timeout, and a poll or two.
UPLOAD_TIME = 20
HOLD_MAX = 300
OLD = cases.addresses(1)
NEW = cases.addresses(*range(2, 7))
WATCH = trial.time_to_watch(60, len(NEW), SETTINGS)


class Amphora:
    """Has the old list until it gets the new one."""

    def __init__(self, number, is_cut_off):
        self.name = str(number)
        self.phase = number % INTERVAL
        # From what is new.
        self.is_cut_off = is_cut_off
        self.has_new = self.sends_there = False
        self.upload_at = self.applied_at = None
        self.heard_at = self.last_update = 0
        self.held_since = None
        self.fell_silent = False

    def step(self, now):
        if self.upload_at == now:
            self.has_new = not self.has_new
            self.applied_at, self.upload_at = now, None
        if now % INTERVAL != self.phase:
            return
        if not (self.sends_there and self.is_cut_off):
            self.heard_at = self.last_update = now
            self.held_since = None
        # One more heartbeat goes to the list before.
        self.sends_there = self.has_new


class Trial:
    """A fleet that gets a list, as one housekeeper takes it there.

    :param cut_off: called with a number, tells whether that amphora is.
    :param resumes: seconds after which an amphora that is cut off is heard
                    again, or None.
    """

    def __init__(self, number, cut_off, seed, resumes=None, is_guarded=True,
                 canary_size=3):
        self.amphorae = [Amphora(n, cut_off(n)) for n in range(number)]
        self.shuffle = random.Random(seed).shuffle
        self.resumes = resumes
        self.admitted = []
        self.watch = heartbeats.HeartbeatWatch()
        self.verdict = None
        self.failed_over = set()
        self.is_guarded = is_guarded
        self.canary_size = canary_size

    def run(self, seconds=600):
        for now in range(1, seconds):
            for amphora in self.amphorae:
                amphora.step(now)
                if (self.resumes and amphora.has_new and
                        now - amphora.applied_at == self.resumes):
                    amphora.is_cut_off = False
            if now % POLL == 0:
                self.guard(now)
                if self.verdict is None:
                    self.examine(now)
        return self

    def guard(self, now):
        """As every health manager does; then what Octavia does."""
        for amphora in self.amphorae:
            if now - amphora.last_update > TIMEOUT / 2 and self.must_hold(
                    amphora, now):
                amphora.last_update = now
                amphora.held_since = amphora.held_since or now
            if now - amphora.last_update > TIMEOUT:
                self.failed_over.add(amphora.name)

    def must_hold(self, amphora, now):
        return silence.must_hold(
            silence.SilentAmphora(
                NEW if amphora.has_new else OLD, (),
                amphora.applied_at and now - amphora.applied_at, 0,
                amphora.held_since and now - amphora.held_since,
                self.is_guarded and amphora.has_new and
                self.verdict is not trial.Verdict.GOOD),
            cases.listeners(cases.alive(*range(1, 7)), settings=SETTINGS),
            HOLD_MAX)

    def admit(self, now, size):
        asked = {a.name for a in self.admitted}
        chosen = canaries.choose(
            [canaries.Eligible(a.name, a.name, NEW) for a in self.amphorae
             if a not in self.admitted], (), size, asked, self.shuffle)
        for name in chosen:
            amphora = self.amphorae[int(name)]
            amphora.upload_at = now + UPLOAD_TIME
            self.admitted.append(amphora)

    def examine(self, now):
        if not self.admitted:
            self.admit(now, self.canary_size)
        applied = [a for a in self.admitted if a.has_new]
        self.watch.sample(now, {a.name: a.heard_at for a in applied})
        for amphora in applied:
            if trial.has_fallen_silent(self.watch.silence(amphora.name),
                                       SETTINGS):
                amphora.fell_silent = True
        verdict = trial.judge([trial.Admitted(
            a.name, a.has_new, a.has_new, a.fell_silent,
            self.watch.silence(a.name) if a.has_new else 0.0,
            self.watch.watched_for(a.name) if a.has_new else 0.0)
            for a in self.admitted], WATCH, SETTINGS,
            len(self.admitted) < len(self.amphorae))
        if verdict is trial.Verdict.ASK_OTHERS:
            self.admit(now, canaries.how_many_more(
                len(self.admitted), sum(not a.fell_silent for a in applied)))
        elif verdict is not trial.Verdict.WAIT:
            self.verdict = verdict
        if verdict is trial.Verdict.BAD:
            for amphora in applied:
                amphora.upload_at = now + UPLOAD_TIME
            for amphora in set(self.admitted) - set(applied):
                amphora.upload_at = None


class TestTrialInTime(base.TestCase):

    def test_nobody_is_heard(self):
        """All canaries are back long before a failover."""
        for seed in range(20):
            subject = Trial(30, lambda n: True, seed).run()
            self.assertIs(trial.Verdict.BAD, subject.verdict)
            self.assertEqual(set(), subject.failed_over)
            self.assertEqual(3, len(subject.admitted))

    def test_nobody_is_heard_and_one_is_asked_first(self):
        subject = Trial(30, lambda n: True, 1, canary_size=1).run()
        self.assertIs(trial.Verdict.BAD, subject.verdict)
        self.assertEqual(set(), subject.failed_over)
        self.assertEqual(3, len(subject.admitted))

    def third(self, is_guarded=True):
        return [Trial(60, lambda n: n % 3 == 0, seed,
                      is_guarded=is_guarded).run() for seed in range(60)]

    def test_third_of_the_fleet_is_cut_off(self):
        """Also where others have to be asked first."""
        trials = self.third()
        noticed = [t for t in trials if any(a.fell_silent
                                            for a in t.admitted)]
        bad = [t for t in noticed if t.verdict is trial.Verdict.BAD]
        self.assertGreater(len(noticed), 30)
        self.assertGreaterEqual(len(bad), 0.9 * len(noticed))
        for one in bad:
            self.assertEqual(set(), one.failed_over)
        self.assertIn(10, [len(one.admitted) for one in bad])

    def test_first_one_is_held_while_others_are_asked(self):
        """It is the guard that gives them the time."""
        self.assertTrue(any(
            t.failed_over for t in self.third(is_guarded=False)
            if t.verdict is trial.Verdict.BAD))

    def test_one_is_hostile(self):
        """It resumes in time, or is held until the others have it."""
        for resumes in range(40, 100, 5):
            subject = Trial(12, lambda n: n == 5, resumes, resumes).run()
            self.assertIs(trial.Verdict.GOOD, subject.verdict)
            self.assertEqual(set(), subject.failed_over)

    def test_few(self):
        for number in (1, 2, 3):
            subject = Trial(number, lambda n: True, 1).run()
            self.assertIs(trial.Verdict.BAD, subject.verdict)
            self.assertEqual(set(), subject.failed_over)
