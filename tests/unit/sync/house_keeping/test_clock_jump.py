# SPDX-License-Identifier: Apache-2.0

"""The clock of the database jumps, under a housekeeper that looks on."""

import fixtures

from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.house_keeping import examiner
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base
from tests.unit.db import sqlite

PINNED = '192.0.2.99:5555'
OFFLINE_AFTER = 20
# By less than what makes anybody dead, by more, and by more than any row is
# kept for.
NEAR = (12, 30)
JUMPS = (6, *NEAR, 3600, 200000)


class TestClockJump(sqlite.SqliteMixin, base.DatabaseTestCase):
    """Three health managers, and a pin of another controller."""

    def setUp(self):
        super().setUp()
        self.clock = self.stop_clock()
        self.log = self.useFixture(fixtures.FakeLogger(
            'octavia_hmsync', format='%(levelname)s %(message)s'))
        self.conf = self.make_conf(DEFAULT={'host': 'controller1'})
        self.begin()

    def begin(self):
        """As if nothing had ever been."""
        self.empty()
        self.now = 1000.0
        self.planner = planner.Planner(self.conf, self.engine, tuple,
                                       clock=lambda: self.now)
        self.up = set()
        for number in (1, 2, 3):
            self.start(number)
        self.run_for(40)
        generation_repo.set_open(self.engine, self.newest.number)
        self.assertEqual(4, len(self.newest.addresses))

    def start(self, number):
        self.up.add(number)
        self.register(number)

    def register(self, number):
        hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                         5555, f'instance-{number}', OFFLINE_AFTER)

    def run_for(self, seconds, *, first=0):
        """Let time pass, and return the lists that come of it."""
        lists = []
        for second in range(first, first + seconds):
            self.now += 1
            self.clock.advance(1)
            if second % 5 == 0:
                keeper_repo.touch(self.engine, 'controller2', [PINNED])
            for number in self.up:
                # Each at another time.
                if second % 5 == number and not hm_repo.touch(
                        self.engine, f'hm{number}', f'instance-{number}',
                        f'192.0.2.{number}', 5555, OFFLINE_AFTER):
                    self.register(number)
            if second % 2 == 0 and self.planner.run_once():
                lists.append(self.newest.addresses)
        return lists

    @property
    def newest(self):
        return generation_repo.get_newest(self.engine)

    def each_jump(self, jumps=JUMPS):
        """Yield what to do in the middle of the test, for each jump."""
        for jump in jumps:
            for seconds in (jump, -jump):
                self.begin()
                yield lambda: self.clock.advance(seconds)

    def test_shortens_no_list(self):
        for jump in self.each_jump():
            jump()
            self.assertEqual([], self.run_for(150))

    def test_at_each_moment_between_two_keepalives(self):
        """It matters where a keepalive more or less does."""
        for jump in self.each_jump(NEAR):
            for first in (1, 4):
                jump()
                self.assertEqual([], self.run_for(150, first=first))

    def test_restarting_meanwhile(self):
        """What said goodbye before the jump keeps its grace."""
        for jump in self.each_jump():
            self.up -= {1, 2}
            for number in (1, 2):
                hm_repo.set_offline(self.engine, f'hm{number}',
                                    f'instance-{number}')
            self.assertEqual([], self.run_for(4))
            jump()
            self.assertEqual([], self.run_for(10, first=4))
            self.start(1)
            self.start(2)
            self.assertEqual([], self.run_for(100, first=14))

    def test_one_that_dies_leaves_all_the_same(self):
        for jump in self.each_jump():
            self.up -= {2}
            self.run_for(3)
            jump()
            lists = self.run_for(200, first=3)
            self.assertEqual([('192.0.2.1:5555', '192.0.2.3:5555', PINNED)],
                             lists)

    def test_who_was_dead_is_not_published_again(self):
        for jump in self.each_jump():
            self.up -= {2}
            # As old as the jump is far, and older.
            for seconds in (100, 20):
                self.run_for(seconds)
                jump()
                self.run_for(60)
                self.assertEqual(
                    ('192.0.2.1:5555', '192.0.2.3:5555', PINNED),
                    self.newest.addresses)
                self.assertEqual(3, self.newest.number)

    def test_one_that_comes_is_published(self):
        for jump in self.each_jump():
            jump()
            self.start(4)
            self.assertEqual(1, len(self.run_for(12)))

    def test_it_is_said_once(self):
        self.clock.advance(-3600)
        self.run_for(60)
        line, = [line for line in self.log.output.splitlines()
                 if 'clock' in line]
        self.assertRegex(line, 'WARNING .* went back by 36')
        self.clock.advance(90)
        self.run_for(60)
        self.assertRegex(self.log.output, 'went forward by (89|90|91) s')

    def test_what_time_explains_is_no_jump(self):
        """An answer that comes late, and a clock that is slewed."""
        self.planner._clock = lambda: self.now + self.now % 3
        for _ in range(30):
            self.now += 2
            self.clock.advance(2.5)
            self.planner.run_once()
        self.assertNotIn('clock', self.log.output)

    def test_a_trial_goes_on(self):
        """As if all that amphorae have were dead: nothing to lose."""
        for amphora_id in self.add_amphorae(3):
            self.records.set_health(amphora_id)
        amphora_repo.add_missing(self.engine)
        self.start(4)
        self.run_for(10)
        self.assertEqual(trial.CANARY, self.newest.status)
        subject = examiner.Examiner(self.conf, self.engine,
                                    clock=lambda: self.now)
        self.planner.run_once = lambda: subject.run_once(self.newest)
        self.run_for(40)
        keeper_repo.touch(self.engine, 'controller2', [])
        self.clock.advance(3600)
        self.run_for(4, first=4)
        self.assertEqual(trial.CANARY, self.newest.status)
