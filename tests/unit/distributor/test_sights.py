# SPDX-License-Identifier: Apache-2.0

import threading
import time

from hypothesis import given
from hypothesis import stateful
from hypothesis import strategies as st

from octavia_hmsync.distributor import sights as sights_
from tests.unit import base
from tests.unit.distributor import distributors

UP, DOWN = 'UP', 'DOWN'
CHANGES = st.tuples(
    st.sampled_from('vw'), st.sampled_from('abc'),
    st.sampled_from([(UP, None), (DOWN, 'silent'), (DOWN, 'refused'),
                     (sights_.UNKNOWN, None), (sights_.GONE, None)]))


class Listener:
    """What a controller has, who goes by what he is told alone."""

    def __init__(self):
        self.run, self.sequence, self.known = None, 0, {}

    def ask(self, sights):
        news = sights.read(self.run, self.sequence, 0)
        if news.is_whole:
            self.known = {}
        for sight in news.sights:
            key = (sight.vip_id, sight.member_id)
            if sight.state == sights_.GONE:
                self.known.pop(key, None)
            else:
                self.known[key] = (sight.state, sight.error)
        self.run, self.sequence = news.run, news.sequence


class Sights(stateful.RuleBasedStateMachine):
    """Whoever listens now and then, in any order, knows it all after it."""

    def __init__(self):
        super().__init__()
        self.restart()
        self.listeners = [Listener(), Listener()]

    @stateful.rule()
    def restart(self):
        self.sights = sights_.Sights(most_gone=2)
        self.known = {}

    @stateful.rule(change=CHANGES)
    def note(self, change):
        vip_id, member_id, (state, error) = change
        key = (vip_id, member_id)
        before = self.known.get(key)
        is_news = self.sights.note(vip_id, member_id, state, error)
        if state == sights_.GONE:
            self.known.pop(key, None)
            assert is_news == (before is not None)
        else:
            self.known[key] = (state, error)
            assert is_news == (before != (state, error))

    @stateful.rule(number=st.integers(0, 1))
    def ask(self, number):
        listener = self.listeners[number]
        listener.ask(self.sights)
        assert listener.known == self.known
        for vip_id in 'vw':
            assert {
                member: (sight.state, sight.error) for member, sight
                in self.sights.get_of_vip(vip_id).items()} == {
                    member: seen for (vip, member), seen
                    in self.known.items() if vip == vip_id}


TestStates = Sights.TestCase


class TestSights(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = distributors.Clock()
        self.sights = sights_.Sights(1, self.clock)

    def tell(self, *args):
        thread = threading.Timer(.1, self.sights.note, args)
        thread.start()
        self.addCleanup(thread.join)

    def test_since(self):
        self.sights.note('v', 'a', DOWN, 'silent')
        first = self.clock.now
        self.clock.now += 5
        self.sights.note('v', 'a', DOWN, 'refused')
        self.assertEqual(first, self.sights.get_of_vip('v')['a'].since)
        self.sights.note('v', 'a', UP)
        self.assertEqual(self.clock.now,
                         self.sights.get_of_vip('v')['a'].since)

    def test_only_what_changed(self):
        for member in 'abc':
            self.sights.note('v', member, UP)
        news = self.sights.read(None, 0, 0)
        self.assertEqual((True, 3), (news.is_whole, len(news.sights)))
        self.sights.note('v', 'b', DOWN, 'silent')
        news = self.sights.read(news.run, news.sequence, 0)
        self.assertEqual((False, ['b']), (
            news.is_whole, [sight.member_id for sight in news.sights]))
        self.assertEqual((), self.sights.read(news.run, news.sequence,
                                              0).sights)

    def test_another_run(self):
        self.sights.note('v', 'a', UP)
        other = sights_.Sights()
        for number in range(5):
            other.note('v', 'a', (UP, DOWN)[number % 2])
        for run, after in ((other.run, 1), (other.run, 5), (None, 0),
                           (self.sights.run, 7)):
            self.assertTrue(self.sights.read(run, after, 5).is_whole)

    def test_wait(self):
        run = self.sights.run
        self.tell('v', 'a', DOWN, 'silent')
        news = self.sights.read(run, 0, 3600)
        self.assertEqual(['silent'], [one.error for one in news.sights])
        # Nothing came.
        self.assertEqual((), self.sights.read(run, 1, .01).sights)

    def test_too_many(self):
        """Who comes when others wait already is answered at once."""
        waiting = threading.Thread(target=self.sights.read,
                                   args=(self.sights.run, 0, 30))
        waiting.start()
        self.addCleanup(waiting.join)
        while not self.sights._waiting:
            time.sleep(.01)
        self.assertEqual((), self.sights.read(self.sights.run, 0, 30).sights)
        self.sights.note('v', 'a', UP)

    def test_end(self):
        is_ending = threading.Event()
        self.sights.end_when(is_ending.is_set)
        threading.Timer(.1, is_ending.set).start()
        self.sights.read(self.sights.run, 0, 3600)

    @given(st.lists(CHANGES, max_size=40))
    def test_numbers(self, changes):
        """They only grow, one for each change."""
        sights, numbers = sights_.Sights(), []
        for vip_id, member_id, (state, error) in changes:
            if sights.note(vip_id, member_id, state, error):
                numbers.append(sights.read(None, 0, 0).sequence)
        self.assertEqual(list(range(1, len(numbers) + 1)), numbers)
