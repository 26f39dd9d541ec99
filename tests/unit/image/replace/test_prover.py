# SPDX-License-Identifier: Apache-2.0

"""How long a new amphora is looked at, with a clock of the test's own."""

import dataclasses
import datetime
import types
from unittest import mock

import fixtures

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import prover
from octavia_hmsync.image.replace import testimony
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.sync.db import amphora_view as view_repo
from tests.unit import base
from tests.unit.image.replace import test_proof

INTERVAL = 10
TIMEOUT = 100


class Clock:
    """A time that passes when somebody waits; .at has what happens when."""

    def __init__(self):
        self.now = 0.0
        self.at = []

    def monotonic(self):
        return self.now

    def pause(self, seconds=work_.INTERVAL):
        self.now += seconds
        while self.at and self.at[0][0] <= self.now:
            self.at.pop(0)[1]()


class ProverTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.useFixture(fixtures.MockPatchObject(prover, 'time', self.clock))
        self.members = {'member': 'ONLINE'}
        self.listeners = {'web': 'ACTIVE'}
        self.down_after = 0
        self.is_silent = False
        self.agent = mock.Mock()
        self.agent.get_listeners.side_effect = lambda: self.listeners
        self.agent.count_haproxies.side_effect = lambda: self.haproxies
        self.agent.holds.return_value = True
        self.haproxies = 1
        self.values = {}
        # What health managers have recorded.
        self.views = []
        self.replacement = types.SimpleNamespace(target_image_id='image')
        self.work = types.SimpleNamespace(
            conf=types.SimpleNamespace(
                health_manager=types.SimpleNamespace(
                    heartbeat_interval=INTERVAL),
                controller_worker=types.SimpleNamespace(
                    statistics_drivers=['stats_db', 'hmsync'])),
            options=types.SimpleNamespace(proof_timeout=TIMEOUT),
            replacement=self.replacement, old_id='old', new_id='new',
            read=self._read, read_views=self._read_views,
            pause=self.clock.pause,
            agent_of=lambda amphora: self.agent,
            get_load_balancer=lambda: self.load_balancer,
            find_holders=lambda amphorae, vip: {'old': False, 'new': True})
        self.load_balancer = types.SimpleNamespace(
            enabled=True, topology='ACTIVE_STANDBY',
            vip=types.SimpleNamespace(ip_address='192.0.2.5'),
            listeners=[types.SimpleNamespace(id='web', enabled=True)])
        self.prover = prover.Prover(self.work, lambda *args: frozenset())

    def _read(self):
        now = test_proof.NOW + datetime.timedelta(seconds=self.clock.now)
        heard_at = test_proof.NOW if self.is_silent else now
        return dataclasses.replace(
            test_proof.EVIDENCE, now=now, members=dict(self.members),
            down_after=self.down_after, **self.values, amphorae={
                'old': test_proof.OLD, 'new': dataclasses.replace(
                    test_proof.NEW, heard_at=heard_at)})

    def _read_views(self, since):
        return [view for view in self.views if view.seen_at >= since]

    def say(self, amphora_id, status=None, listeners=None):
        """Have a heartbeat of an amphora recorded now.

        :param status: how it sees the member; as Octavia's row has it if not
                       given.
        :param listeners: what it serves; as its agent has it if not given.
        """
        self.views.append(view_repo.View(
            len(self.views), amphora_id, test_proof.NOW + datetime.timedelta(
                seconds=self.clock.now),
            frozenset(self.listeners if listeners is None else listeners),
            {'member': status} if status else dict(self.members)))

    def say_each(self, amphora_id, *args, first=0, end=3000):
        """Have a heartbeat of an amphora in each interval."""
        for number in range(first, end, INTERVAL):
            self.at(number, self.say, amphora_id, *args)

    def at(self, seconds, function, *arguments, **keywords):
        self.clock.at.append(
            (seconds, lambda: function(*arguments, **keywords)))
        self.clock.at.sort(key=lambda one: one[0])


class TestAlone(ProverTestCase):
    """The only amphora dies while its replacement is proven."""

    def setUp(self):
        super().setUp()
        # A monitor as slow as a tenant may have it.
        self.down_after = 3600
        self.holding = {'old': True, 'new': False}
        self.work.find_holders = lambda amphorae, vip: dict(self.holding)
        self.prover = prover.Prover(self.work,
                                    lambda *args: frozenset({'old'}))
        # It was heard last when the proof began.
        self.at(5, self.holding.update, old=None)
        self.say_each('new')

    def prove(self, is_switched=False):
        began = self.clock.now
        self.prover.prove(is_switched)
        return self.clock.now - began

    def test_forward(self):
        self.assertLess(self.prove(), 4 * INTERVAL)
        self.assertTrue(self.prover.is_alone)

    def test_members_are_worse(self):
        """It is the only one that could serve them."""
        self.prover.remember()
        self.members['member'] = 'ERROR'
        self.assertLess(self.prove(), 4 * INTERVAL + 2 * INTERVAL)

    def test_the_new_one_does_not_serve(self):
        self.listeners.clear()
        self.assertRaises(exceptions.NotProven, self.prove)

    def test_it_is_heard(self):
        """That its agent does not answer here says nothing by itself."""
        read = self.work.read

        def read_with_heartbeats():
            found = read()
            found.amphorae['old'] = dataclasses.replace(
                found.amphorae['old'], heard_at=found.now)
            return found
        self.work.read = read_with_heartbeats
        e = self.assertRaises(exceptions.NotProven, self.prove)
        self.assertIn('old does not say who has the VIP', str(e))
        self.assertFalse(self.prover.is_alone)

    def test_it_answers(self):
        """That no heartbeat of it arrives is no sign either."""
        self.clock.at = [each for each in self.clock.at if each[0] != 5]
        self.say_each('new')
        self.assertGreater(self.prove(), 60)
        self.assertFalse(self.prover.is_alone)

    def test_its_row_is_gone(self):
        read = self.work.read

        def read_without():
            found = read()
            del found.amphorae['old']
            return found
        self.work.read = read_without
        self.holding = {'new': False}
        self.assertLess(self.prove(), 3 * INTERVAL)

    def test_switched(self):
        self.holding.update(new=True)
        self.assertLess(self.prove(is_switched=True), 4 * INTERVAL)


class TestProver(ProverTestCase):

    def assertTakes(self, seconds, is_switched=False):
        began = self.clock.now
        self.prover.prove(is_switched)
        self.assertAlmostEqual(seconds, self.clock.now - began, delta=3)

    def assertNotProven(self, text, is_switched=False):
        e = self.assertRaises(exceptions.NotProven, self.prover.prove,
                              is_switched)
        self.assertEqual(f'The new amphora is not shown to serve: {text}.',
                         str(e))

    def test_shown(self):
        """For two heartbeats, and for three when it has the VIP."""
        self.prover.remember()
        self.say_each('new', first=3)
        self.assertTakes(23)
        self.assertTakes(30, is_switched=True)

    def test_monitors_have_time(self):
        self.say_each('new')
        self.down_after = 45
        self.assertTakes(65)
        self.assertTakes(30, is_switched=True)

    def test_again_from_the_beginning(self):
        """What comes and goes is not shown."""
        self.say_each('new')
        self.at(15, self.listeners.clear)
        self.at(25, self.listeners.update, web='ACTIVE')
        self.assertTakes(52)

    def test_never(self):
        self.listeners.clear()
        self.assertNotProven('the agent of amphora new has listener web as '
                             'none of its own')
        self.assertAlmostEqual(TIMEOUT + 20, self.clock.now, delta=3)

    def test_agent_is_silent(self):
        self.agent.get_listeners.side_effect = exceptions.AgentUnreachable(
            'It did not answer.')
        self.assertNotProven('It did not answer')

    def test_falls_silent(self):
        self.at(5, setattr, self, 'is_silent', True)
        self.down_after = 60
        self.assertNotProven('no heartbeat of amphora new arrives')

    def test_members(self):
        """One look at a member is enough: the old one's comes next."""
        self.prover.remember()
        for second in range(10, 300, 10):
            self.at(second, self.members.update, member='ERROR')
            self.at(second + 0.5, self.members.update, member='ONLINE')
        self.assertNotProven('members that were better before: member')
        self.clock.at.clear()
        self.members['member'] = 'ONLINE'
        self.assertFalse(self.prover.were_members_at_fault())

    def test_members_failed_by_themselves(self):
        self.prover.remember()
        self.at(8, self.members.update, member='ERROR')
        self.assertNotProven('members that were better before: member')
        self.assertTrue(self.prover.were_members_at_fault())

    def test_not_only_members(self):
        """What else is wrong is the new one's fault."""
        self.prover.remember()
        self.listeners.clear()
        self.at(8, self.members.update, member='ERROR')
        self.assertRaises(exceptions.NotProven, self.prover.prove, False)
        self.assertFalse(self.prover.were_members_at_fault())

    def test_members_were_bad_before(self):
        """In either of the looks before."""
        self.at(1, self.members.update, member='ERROR')
        self.at(2, self.members.update, member='ONLINE')
        self.down_after = 1
        self.prover.remember()
        self.members['member'] = 'ERROR'
        self.assertTakes(32)

    def test_how_they_were_is_not_known(self):
        """To one that goes on for somebody who died."""
        self.members['member'] = 'ERROR'
        self.assertTakes(32, is_switched=True)

    # What amphorae themselves say

    def say_by_turns(self, old='ONLINE', new='ONLINE', later=1):
        """Have both say what they see; Octavia's row has what came last."""
        for number in range(0, 1000, INTERVAL):
            self.at(number, self.say, 'new', new)
            self.at(number, self.members.update, member=new)
            self.at(number + later, self.say, 'old', old)
            self.at(number + later, self.members.update, member=old)

    def begin_anew(self):
        """Begin at 0 s, and know how the old one saw the members then."""
        self.clock.now, self.clock.at, self.views = 0, [], []
        self.members['member'] = 'ONLINE'
        self.prover = prover.Prover(self.work, lambda *args: frozenset())
        self.down_after = 1
        self.at(0.5, self.say, 'old')
        self.at(0.5, self.say, 'new')
        self.prover.remember()
        self.clock.at = []

    def test_reaches_no_member(self):
        """Whatever the row has when somebody looks at it."""
        for later in (0.01, 0.1, 5, 9.99):
            self.begin_anew()
            self.say_by_turns(new='ERROR', later=later)
            self.assertNotProven('members that were better before: member')
            self.assertFalse(self.prover.were_members_at_fault())

    def test_reaches_no_member_that_came_and_went_before(self):
        self.down_after = 1
        self.at(0.3, self.say, 'old', 'ERROR')
        self.at(0.4, self.say, 'new', 'ERROR')
        self.prover.remember()
        self.clock.now, self.clock.at = 100, []
        for number in range(100, 1000, INTERVAL):
            self.at(number, self.say, 'old', 'ONLINE')
            self.at(number + 1, self.say, 'new', 'ERROR')
        self.assertNotProven('amphora new reaches no member, though another '
                             'one does')

    def test_reaches_no_member_with_the_vip(self):
        self.say_by_turns()
        self.prover.remember()
        self.assertTakes(21)
        self.clock.at = []
        for number in range(30, 1000, INTERVAL):
            # What the old one loses with the VIP excuses nothing.
            self.at(number, self.say, 'old', 'ERROR')
            self.at(number, self.say, 'new', 'ERROR')
        self.assertNotProven('members that were better before: member',
                             is_switched=True)

    def test_each_of_a_pair_is_heard_before(self):
        """However they come, for as long as a heartbeat takes."""
        self.down_after = 1
        self.at(8, self.say, 'old', 'ONLINE')
        self.at(9.5, self.say, 'new', 'ERROR')
        self.prover.remember()
        self.assertAlmostEqual(9.5, self.clock.now, delta=0.5)
        self.work.new_id = 'third'
        wanted = testimony.Wanted(('web',), {}, ('member',))
        self.prover._testimony.begin(('third',), test_proof.NOW)
        self.assertFalse(self.prover._testimony.take([view_repo.View(
            77, 'third', test_proof.NOW, frozenset({'web'}),
            {'member': 'ERROR'})], wanted))

    def test_nobody_is_waited_for_without_monitors(self):
        self.prover.remember()
        self.assertEqual(0, self.clock.now)

    def test_member_that_comes_and_goes(self):
        """It speaks against nobody, in whatever order it is seen."""
        self.down_after = 15
        for shift in range(0, 30, 3):
            self.clock.now, self.clock.at, self.views = 0, [], []
            self.prover = prover.Prover(self.work, lambda *args: frozenset())
            for number, status in enumerate(('ONLINE', 'ERROR') * 60):
                self.at(number * 10 + 5, self.say, 'old', status)
                self.at(number * 10 + 5 + shift / 3, self.say, 'new', (
                    'ERROR', 'ONLINE')[number % 2])
            self.prover.remember()
            self.prover.prove(False)
            self.prover.prove(True)

    def test_member_that_fails_meanwhile(self):
        """The old one says so, too; at once, or a heartbeat later."""
        for later in (1, 9):
            self.begin_anew()
            self.say_by_turns('ERROR', 'ERROR', later=later)
            self.prover.prove(False)

    def test_member_that_fails_after_the_switch(self):
        """It goes back, and is not to blame."""
        self.begin_anew()
        self.say_by_turns('ERROR', 'ERROR')
        self.assertNotProven('members that were better before: member',
                             is_switched=True)
        self.assertTrue(self.prover.were_members_at_fault())

    def test_heartbeats_of_one_that_died_say_nothing(self):
        """Whether members are well without it only others tell."""
        self.begin_anew()
        self.say_by_turns(new='ERROR')
        self.assertRaises(exceptions.NotProven, self.prover.prove, False)
        self.clock.at = [(at, do) for at, do in self.clock.at
                         if at < self.clock.now + 12]
        self.members['member'] = 'ERROR'
        self.assertFalse(self.prover.were_members_at_fault())

    def test_heartbeat_without_a_listener(self):
        """Of three one is enough to begin anew."""
        self.at(5, self.say, 'new')
        self.at(15, self.say, 'new', 'ONLINE', ())
        self.say_each('new', first=25)
        self.assertTakes(46)

    def test_heartbeats_without_listeners(self):
        self.say_each('new', 'ONLINE', ())
        self.assertNotProven('the heartbeats of amphora new do not tell of '
                             'listener web')

    def test_some_are_told(self):
        """Of three health managers one is of this release."""
        for number in (25, 55):
            self.at(number, self.say, 'new')
        self.assertTakes(56)

    def test_none_is_told(self):
        """Octavia's rows have to do, and that is said once."""
        with self.assertLogs(prover.LOG.logger, 'WARNING') as logs:
            self.assertTakes(32)
            self.assertTakes(32, is_switched=True)
        self.assertEqual(1, len(logs.output))
        self.assertIn('What amphora new says in its heartbeats is not told',
                      logs.output[0])

    # haproxy that does not stay

    def kill_haproxy(self, first, every, takes=0.4):
        """Have it end again and again, and started again."""
        number = first
        while number < 1000:
            self.at(number, setattr, self, 'haproxies', 0)
            self.at(number + takes, setattr, self, 'haproxies', 1)
            number += every

    def test_haproxy_is_killed_again_and_again(self):
        for every in (2, 7, 15):
            for is_switched in (False, True):
                self.clock.now, self.clock.at, self.views = 0, [], []
                self.prover = prover.Prover(self.work, lambda *_: frozenset())
                self.say_each('new')
                self.kill_haproxy(3, every)
                self.assertNotProven(
                    'haproxy of amphora new was gone 3 times, and started '
                    'again', is_switched)
                self.haproxies = 1

    def test_haproxy_is_gone_once(self):
        self.say_each('new')
        self.at(12, setattr, self, 'haproxies', 0)
        self.at(12.5, setattr, self, 'haproxies', 1)
        self.assertTakes(34)

    def test_haproxy_that_ends_after_the_switch(self):
        """Traffic is what kills it."""
        self.say_each('new')
        self.assertTakes(21)
        self.kill_haproxy(40, 12)
        self.assertNotProven('haproxy of amphora new was gone 3 times, and '
                             'started again', is_switched=True)

    def test_heartbeats_betray_it(self):
        """Looks may all have missed it."""
        self.say_each('new')
        for number in (12, 32, 52):
            self.at(number, self.say, 'new', 'ONLINE', ())
        self.down_after = 60
        self.assertNotProven('haproxy of amphora new was gone 3 times, and '
                             'started again')

    def test_haproxy_does_not_run(self):
        self.say_each('new')
        self.haproxies = 0
        self.assertNotProven('haproxy of amphora new does not run')

    def test_no_haproxy_is_needed(self):
        """With what keepalived serves, and where nothing is."""
        self.say_each('new')
        self.haproxies = 0
        self.values['without_haproxy'] = frozenset({'web'})
        self.assertTakes(21)
        self.values = {'is_enabled': False}
        self.listeners.clear()
        self.assertTakes(21)

    def test_agent_that_does_not_count(self):
        """What it says otherwise is looked at once a second."""
        self.say_each('new')
        self.agent.count_haproxies.side_effect = exceptions.AgentUnreachable(
            'It did not answer.')
        self.assertTakes(21)

    # How long

    def test_monitor_of_an_hour(self):
        """A tenant sets it, and no more than proof_timeout is waited."""
        self.say_each('new')
        self.down_after = 36010
        self.prover.remember()
        self.assertTakes(TIMEOUT + 20)
        self.listeners.clear()
        self.clock.at = []
        began = self.clock.now
        self.assertRaises(exceptions.NotProven, self.prover.prove, False)
        self.assertAlmostEqual(2 * TIMEOUT + 20, self.clock.now - began,
                               delta=3)

    def test_remembers_listeners(self):
        self.prover.remember()

    def test_serves(self):
        new = test_proof.NEW
        self.assertTrue(self.prover.serves(new))
        self.assertFalse(self.prover.serves(None))
        self.listeners.clear()
        self.assertFalse(self.prover.serves(new))
        self.listeners['web'] = 'OPEN'
        self.agent.holds.return_value = False
        self.assertFalse(self.prover.serves(new))
        self.load_balancer.listeners.clear()
        self.assertTrue(self.prover.serves(new))
        self.load_balancer.topology = 'SINGLE'
        self.assertFalse(self.prover.serves(new))
        self.agent.holds.side_effect = exceptions.AgentUnreachable('no')
        self.assertFalse(self.prover.serves(new))
