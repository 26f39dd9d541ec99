# SPDX-License-Identifier: Apache-2.0

import threading
import time

from hypothesis import given
from hypothesis import stateful
from hypothesis import strategies as st

from octavia_hmsync.distributor import probe_results as results_
from tests.unit import base
from tests.unit.distributor import distributors

UP, DOWN = 'UP', 'DOWN'
CHANGES = st.tuples(
    st.sampled_from('vw'), st.sampled_from('abc'),
    st.sampled_from([(UP, None), (DOWN, 'silent'), (DOWN, 'refused'),
                     (results_.UNKNOWN, None), (results_.GONE, None)]))


class Listener:
    """What a controller has, who goes by what he is told alone."""

    def __init__(self):
        self.run, self.sequence, self.known = None, 0, {}

    def ask(self, results):
        news = results.read(self.run, self.sequence, 0)
        if news.is_whole:
            self.known = {}
        for result in news.results:
            key = (result.vip_id, result.member_id)
            if result.state == results_.GONE:
                self.known.pop(key, None)
            else:
                self.known[key] = (result.state, result.error)
        self.run, self.sequence = news.run, news.sequence


class Results(stateful.RuleBasedStateMachine):
    """Whoever listens now and then, in any order, knows it all after it."""

    def __init__(self):
        super().__init__()
        self.restart()
        self.listeners = [Listener(), Listener()]

    @stateful.rule()
    def restart(self):
        self.results = results_.Results(most_gone=2)
        self.known = {}

    @stateful.rule(change=CHANGES)
    def note(self, change):
        vip_id, member_id, (state, error) = change
        key = (vip_id, member_id)
        before = self.known.get(key)
        is_news = self.results.note(vip_id, member_id, state, error)
        if state == results_.GONE:
            self.known.pop(key, None)
            assert is_news == (before is not None)
        else:
            self.known[key] = (state, error)
            assert is_news == (before != (state, error))

    @stateful.rule(number=st.integers(0, 1))
    def ask(self, number):
        listener = self.listeners[number]
        listener.ask(self.results)
        assert listener.known == self.known
        for vip_id in 'vw':
            assert {
                member: (result.state, result.error) for member, result
                in self.results.get_of_vip(vip_id).items()} == {
                    member: seen for (vip, member), seen
                    in self.known.items() if vip == vip_id}


TestStates = Results.TestCase


class TestResults(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = distributors.Clock()
        self.results = results_.Results(1, self.clock)

    def tell(self, *args):
        thread = threading.Timer(.1, self.results.note, args)
        thread.start()
        self.addCleanup(thread.join)

    def test_since(self):
        self.results.note('v', 'a', DOWN, 'silent')
        first = self.clock.now
        self.clock.now += 5
        self.results.note('v', 'a', DOWN, 'refused')
        self.assertEqual(first, self.results.get_of_vip('v')['a'].since)
        self.results.note('v', 'a', UP)
        self.assertEqual(self.clock.now,
                         self.results.get_of_vip('v')['a'].since)

    def test_only_what_changed(self):
        for member in 'abc':
            self.results.note('v', member, UP)
        news = self.results.read(None, 0, 0)
        self.assertEqual((True, 3), (news.is_whole, len(news.results)))
        self.results.note('v', 'b', DOWN, 'silent')
        news = self.results.read(news.run, news.sequence, 0)
        self.assertEqual((False, ['b']), (
            news.is_whole, [result.member_id for result in news.results]))
        self.assertEqual((), self.results.read(news.run, news.sequence,
                                               0).results)

    def test_another_run(self):
        self.results.note('v', 'a', UP)
        other = results_.Results()
        for number in range(5):
            other.note('v', 'a', (UP, DOWN)[number % 2])
        for run, after in ((other.run, 1), (other.run, 5), (None, 0),
                           (self.results.run, 7)):
            self.assertTrue(self.results.read(run, after, 5).is_whole)

    def test_wait(self):
        run = self.results.run
        self.tell('v', 'a', DOWN, 'silent')
        news = self.results.read(run, 0, 3600)
        self.assertEqual(['silent'], [one.error for one in news.results])
        # Nothing came.
        self.assertEqual((), self.results.read(run, 1, .01).results)

    def test_too_many(self):
        """Who comes when others wait already is answered at once."""
        waiting = threading.Thread(target=self.results.read,
                                   args=(self.results.run, 0, 30))
        waiting.start()
        self.addCleanup(waiting.join)
        while not self.results._waiting:
            time.sleep(.01)
        self.assertEqual(
            (), self.results.read(self.results.run, 0, 30).results)
        self.results.note('v', 'a', UP)

    def test_end(self):
        is_ending = threading.Event()
        self.results.end_when(is_ending.is_set)
        threading.Timer(.1, is_ending.set).start()
        self.results.read(self.results.run, 0, 3600)

    @given(st.lists(CHANGES, max_size=40))
    def test_numbers(self, changes):
        """They only grow, one for each change."""
        results, numbers = results_.Results(), []
        for vip_id, member_id, (state, error) in changes:
            if results.note(vip_id, member_id, state, error):
                numbers.append(results.read(None, 0, 0).sequence)
        self.assertEqual(list(range(1, len(numbers) + 1)), numbers)
