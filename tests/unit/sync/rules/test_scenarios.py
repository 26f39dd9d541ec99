# SPDX-License-Identifier: Apache-2.0

"""The rules over time: what amphorae live through."""

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import member
from tests.unit import base
from tests.unit.sync.rules import cases
from tests.unit.sync.rules import loss
from tests.unit.sync.rules import simulation

TIMEOUT = cases.SETTINGS.heartbeat_timeout


class TestScenarios(base.TestCase):

    def simulate(self, *numbers, **kwargs):
        sim = simulation.Simulation(numbers, **kwargs)
        self.assertEqual([], sim.run(60))
        return sim

    def assertAllHeard(self, sim):
        self.assertLess(sim.longest_silence, TIMEOUT)

    def test_restart_at_the_same_address(self):
        sim = self.simulate(1, 2, 3)
        for number in (1, 2, 3):
            sim.stop(f'hm{number}')
            self.assertEqual([], sim.run(15))
            sim.start(number)
            self.assertEqual([], sim.run(15))
        self.assertAllHeard(sim)

    def test_all_but_one_restart_together(self):
        sim = self.simulate(1, 2, 3, 4, 5)
        for number in (2, 3, 4, 5):
            sim.stop(f'hm{number}')
        self.assertEqual([], sim.run(15))
        for number in (2, 3, 4, 5):
            sim.start(number)
        self.assertEqual([], sim.run(100))
        self.assertAllHeard(sim)

    def test_all_restart_together(self):
        sim = self.simulate(1, 2, 3, 4, 5)
        for number in (1, 2, 3, 4, 5):
            sim.stop(f'hm{number}')
        self.assertEqual([], sim.run(15))
        for number in (1, 2, 3, 4, 5):
            sim.start(number)
        self.assertEqual([], sim.run(100))
        self.assertAllHeard(sim)

    def test_all_restart_together_on_a_busy_host(self):
        """Each says that it starts; the first one is long there before."""
        for end in ('stop', 'kill'):
            sim = self.simulate(1, 2, 3, 4, 5)
            for number in range(1, 6):
                getattr(sim, end)(f'hm{number}')
            self.assertEqual([], sim.run(14))
            sim.start(1)
            for _ in range(6):
                for number in range(2, 6):
                    sim.begin_to_start(f'hm{number}')
                self.assertEqual([], sim.run(5))
            for number in range(2, 6):
                sim.start(number)
            self.assertEqual([], sim.run(100))

    def test_the_first_one_back_tells_what_restarts_take(self):
        """The others are longer about it, and say nothing before."""
        for first, last in ((15, 28), (25, 48)):
            sim = self.simulate(1, 2, 3, 4, 5)
            for number in range(1, 6):
                sim.stop(f'hm{number}')
            self.assertEqual([], sim.run(first))
            sim.start(1)
            self.assertEqual([], sim.run(last - first))
            for number in range(2, 6):
                sim.start(number)
            self.assertEqual([], sim.run(100))

    def test_restarts_that_come_to_nothing(self):
        """Some never listen, though they say that they start, for ever."""
        sim = self.simulate(1, 2, 3, 4, 5)
        for number in range(1, 6):
            sim.stop(f'hm{number}')
        sim.run(15)
        sim.start(1)
        for _ in range(30):
            for number in range(2, 6):
                sim.begin_to_start(f'hm{number}')
            sim.run(2)
        self.assertEqual(cases.addresses(1), sim.addresses)

    def test_crash_and_restart_at_the_same_address(self):
        sim = self.simulate(1, 2, 3)
        sim.kill('hm2')
        self.assertEqual([], sim.run(50))
        sim.start(2)
        self.assertEqual([], sim.run(100))
        self.assertAllHeard(sim)

    def test_one_lost(self):
        sim = self.simulate(1, 2, 3)
        sim.kill('hm2')
        self.assertEqual([], sim.run(50))
        self.assertEqual([cases.addresses(1, 3)], sim.run(15))
        self.assertAllHeard(sim)

    def test_one_added(self):
        sim = self.simulate(1, 2, 3)
        sim.start(4)
        self.assertEqual([cases.addresses(1, 2, 3, 4)], sim.run(60))

    def test_scaled_up_one_second_after_the_other(self):
        sim = self.simulate(1, 2, 3)
        for number in (4, 5, 6, 7):
            sim.start(number)
            self.assertEqual([], sim.run(1))
        self.assertEqual([cases.addresses(1, 2, 3, 4, 5, 6, 7)],
                         sim.run(60))
        self.assertAllHeard(sim)

    def test_endless_stream_of_new_ones(self):
        sim = self.simulate(1)
        for number in range(2, 50):
            sim.start(number)
            sim.run(1)
        self.assertGreaterEqual(len(sim.published), 3)
        self.assertLessEqual(len(sim.published), 6)

    def test_all_replaced_by_new_addresses(self):
        """Pods get new names and addresses; the old ones die hard."""
        sim = self.simulate(1, 2, 3)
        for number in (1, 2, 3):
            sim.kill(f'hm{number}')
            sim.start(number + 10)
        published = sim.run(100)
        self.assertEqual(cases.addresses(11, 12, 13), published[-1])
        self.assertLessEqual(len(published), 2)
        self.assertAllHeard(sim)

    def test_rolling_replacement(self):
        sim = self.simulate(1, 2, 3)
        for number in (1, 2, 3):
            sim.start(number + 10)
            sim.run(20)
            sim.drain(f'hm{number}')
            sim.run(30)
            self.assertNotIn(cases.address(number), sim.addresses)
            sim.stop(f'hm{number}')
        self.assertEqual(cases.addresses(11, 12, 13), sim.addresses)
        self.assertEqual(7, len(sim.published))
        self.assertAllHeard(sim)

    def test_all_but_one_die_at_once(self):
        for survivors in range(2, 13):
            sim = self.simulate(*range(1, survivors + 1))
            for number in range(2, survivors + 1):
                sim.kill(f'hm{number}')
            sim.run(100)
            self.assertEqual(cases.addresses(1), sim.addresses)
            self.assertAllHeard(sim)

    def test_last_but_one_gone_while_the_last_restarts(self):
        sim = self.simulate(1, 2, 3)
        for host in ('hm1', 'hm2', 'hm3'):
            sim.stop(host)
        # They may all be back.
        self.assertEqual([], sim.run(10))
        sim.start(1)
        sim.run(120)
        self.assertEqual(cases.addresses(1), sim.addresses)
        self.assertAllHeard(sim)

    def test_database_down_for_long(self):
        sim = self.simulate(1, 2, 3, 4)
        sim.cut_off_database()
        sim.run(600)
        sim.bring_back_database()
        self.assertEqual([], sim.run(100))
        self.assertAllHeard(sim)

    def test_one_died_while_the_database_was_down(self):
        sim = self.simulate(1, 2, 3)
        sim.cut_off_database()
        sim.kill('hm1')
        sim.run(100)
        sim.bring_back_database()
        self.assertEqual([], sim.run(20))
        self.assertEqual([cases.addresses(2, 3)], sim.run(10))

    def test_drain_of_all(self):
        sim = self.simulate(1, 2)
        sim.drain('hm1')
        self.assertEqual([cases.addresses(2)], sim.run(4))
        sim.drain('hm2')
        self.assertEqual([], sim.run(60))
        self.assertAllHeard(sim)

    def test_drained_one_restarts(self):
        """It is not back in the list before it listens."""
        sim = self.simulate(1, 2, 3)
        sim.drain('hm1')
        self.assertEqual([cases.addresses(2, 3)], sim.run(4))
        sim.stop('hm1')
        for _ in range(10):
            sim.begin_to_start('hm1')
            self.assertEqual([], sim.run(3))
        sim.start(1)
        self.assertEqual([cases.addresses(1, 2, 3)], sim.run(10))
        self.assertAllHeard(sim)

    def test_restart_while_the_database_is_away(self):
        """What that took is no reason to give up those that are slower."""
        sim = self.simulate(1, 2, 3, 4, 5)
        for number in range(1, 6):
            sim.stop(f'hm{number}')
        sim.run(2)
        sim.cut_off_database()
        sim.run(26)
        sim.bring_back_database()
        sim.start(1)
        self.assertEqual([], sim.run(20))
        for number in range(2, 6):
            sim.start(number)
        self.assertEqual([], sim.run(100))

    def test_drain_while_others_start(self):
        """A preStop hook waits for it."""
        sim = self.simulate(1, 2, 3)
        sim.drain('hm1')
        for number in range(11, 15):
            sim.start(number)
            sim.run(1)
        self.assertNotIn(cases.address(1), sim.addresses)

    def test_pinned_without_the_plugin(self):
        """Rolled out one controller at a time."""
        pinned = cases.addresses(1, 2, 3)
        sim = simulation.Simulation((1, 2, 3), pinned=pinned)
        for number in (1, 2, 3):
            del sim.rows[f'hm{number}']
        self.assertEqual([], sim.run(30))
        for number in (1, 2, 3):
            sim.start(number)
            self.assertEqual([], sim.run(20))
        sim.pinned = ()
        self.assertEqual([], sim.run(100))

    def test_same_host_at_a_new_address_again_and_again(self):
        sim = self.simulate(1, 2, 3)
        for number in (11, 12, 13):
            sim.start(number, host='hm1')
            self.assertEqual([cases.addresses(2, 3, number)], sim.run(60))
        self.assertAllHeard(sim)


_fates = st.lists(st.tuples(
    st.integers(0, 60),                        # when it ends
    st.sampled_from(['kill', 'stop', 'drain']),
    st.integers(5, 60),                        # how long it is away
    st.sampled_from(['stays away', 'same', 'new'])), max_size=8)


class TestAnyHistory(base.TestCase):

    @hypothesis_settings(max_examples=100)
    @given(_fates, st.booleans())
    def test_one_that_lives_keeps_all_amphorae(self, fates, one_more):
        """Whatever becomes of the others, at any time.

        Nobody is failed over: each one is heard, or held back until it is.
        """
        numbers = range(1, len(fates) + 2)
        sim = loss.Cloud(numbers, amphorae=6, loss=0)
        events = {}
        for number, (when, end, away, back) in enumerate(fates, start=2):
            host = f'hm{number}'
            events.setdefault(60 + when, []).append(
                lambda host=host, end=end: getattr(sim, end)(host))
            if back != 'stays away':
                events.setdefault(60 + when + away, []).append(
                    lambda host=host, n=number, back=back: sim.start(
                        n + 20 * (back == 'new'), host))
        if one_more:
            events.setdefault(80, []).append(lambda: sim.start(99))
        for second in range(320):
            for event in events.get(second, ()):
                event()
            sim.run(1)
            self.assertEqual(0, sim.failovers())
        live = {row.address for row in sim.rows.values()
                if row.up and row.status == member.ONLINE}
        self.assertEqual(live, set(sim.addresses))
