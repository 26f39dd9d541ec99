# SPDX-License-Identifier: Apache-2.0

"""How soon others are built where each member dies."""

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.managers import deaths
from tests.unit import base

HOUR = 3600


class TestHold(base.TestCase):

    def test_the_first_death(self):
        """Others are built at once, also where all have died."""
        self.assertEqual(0, deaths.choose_hold(None, 900, []))
        # As for what died with it.
        last = deaths.Death(5, 0)
        self.assertFalse(last.holds)
        self.assertIsNone(deaths.choose_hold(last, 900, []))

    def get_holds(self, *others):
        """Return the holds of nine replacements that die, one by one.

        :param others: seconds by which members are older than each death.
        """
        found, last = [], deaths.Death(200, 0)
        for _ in range(9):
            hold = deaths.choose_hold(
                last, 100, [90, *(last.age + each for each in others)])
            found.append(hold)
            self.assertTrue(deaths.Death(hold - 1, hold).holds)
            self.assertFalse(deaths.Death(hold, hold).holds)
            last = deaths.Death(hold + 200, hold)
        return found

    def test_what_was_built_for_it_dies(self):
        self.assertEqual([60, 120, 240, 480, 960, 960, 960, 960, 960],
                         self.get_holds())

    def test_one_has_outlived_it(self):
        """What the others have died of does not concern all."""
        self.assertEqual([5, 10, 20, 40, 80, 160, 240, 240, 240],
                         self.get_holds(1))

    def test_long_after(self):
        self.assertEqual(120, deaths.choose_hold(
            deaths.Death(1860, 60), 100, []))
        self.assertEqual(0, deaths.choose_hold(
            deaths.Death(1861, 60), 100, []))

    @hypothesis.given(
        st.integers(1, 8), st.integers(1, 300), st.integers(10, 600),
        st.lists(st.integers(0, 300), min_size=8, max_size=8))
    def test_replacements_have_an_end(self, size, boot, life, ahead):
        """A member takes so long to be built, and lives for so long."""
        born = [-life - each for each in ahead[:size]]
        due: list[int] = []
        last = None
        built = 0
        for now in range(6 * HOUR):
            for birth in [each for each in born if now - each >= life]:
                age = now - birth
                born.remove(birth)
                due.append(now + boot)
                hold = deaths.choose_hold(
                    last and deaths.Death(now - last[0], last[1]), age,
                    [now - each for each in born])
                if hold is not None:
                    last = now, hold
            if last and now - last[0] < last[1]:
                continue
            for each in [each for each in due if each <= now]:
                due.remove(each)
                born.append(now)
                built += 1
        # Seven in the first hour, and then less than four an hour.
        self.assertLessEqual(built, size * 26)
