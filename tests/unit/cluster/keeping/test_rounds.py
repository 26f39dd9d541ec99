# SPDX-License-Identifier: Apache-2.0

"""Which clusters a housekeeper looks at when it looks again."""

import fixtures

from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.keeping import keeper
from tests.unit import base

NUMBER = 250


class TestRounds(base.TestCase):

    def setUp(self):
        super().setUp()
        self.ids = [f'{number:03}' for number in range(NUMBER)]
        self.candidates = set()
        self.due = set()
        self.looked = []
        self.now = 0
        for function in (self.get_due, self.get_candidates, self.get_page):
            self.useFixture(fixtures.MockPatchObject(
                due_repo, function.__name__, function))
        self.rounds = keeper.Rounds(None, clock=lambda: self.now)

    def get_due(self, _engine, among=None, _followers=()):
        self.looked.append(among)
        return [due_repo.Due(each, True, ()) for each in
                sorted(self.due if among is None else self.due & among)]

    def get_candidates(self, _engine, seconds, _followers=()):
        self.assertGreater(seconds, 5)
        return set(self.candidates)

    def get_page(self, _engine, after, number):
        return [each for each in self.ids if each > after][:number]

    def look(self, seconds=5):
        """Look again; return whom it looked at, and whom it found."""
        self.now += seconds
        found = [each.id for each in self.rounds.look()]
        return self.looked[-1], found

    def test_first(self):
        """What was changed before it began is not known."""
        self.due = {'249'}
        self.assertEqual((None, ['249']), self.look())

    def test_in_turn(self):
        """All have their turn, whatever is found meanwhile."""
        self.look()
        for _ in range(2):
            seen = set()
            for number in (100, 100, 50):
                looked, _found = self.look()
                self.assertEqual(number, len(looked))
                seen |= looked
            self.assertEqual(set(self.ids), seen)

    def test_few(self):
        """Of few all are looked at each time."""
        self.ids = self.ids[:99]
        self.look()
        for _ in range(3):
            self.assertEqual(set(self.ids), self.look()[0])

    def test_candidates(self):
        """Once found, one is looked at until there is nothing with it."""
        self.look()
        self.candidates = {'240'}
        self.due = {'240', '241'}
        self.assertEqual(['240'], self.look()[1])
        self.candidates = set()
        self.assertEqual(['240'], self.look()[1])
        self.due = set()
        self.look()
        looked, _found = self.look()
        self.assertNotIn('240', looked)

    def test_away(self):
        """Who has not looked for a while has missed something."""
        self.look()
        self.assertIsNotNone(self.look()[0])
        self.assertIsNone(self.look(61)[0])
        self.assertIsNotNone(self.look()[0])

    def test_many(self):
        self.look()
        self.candidates = {f'more{number}' for number in range(500)}
        self.assertIsNone(self.look()[0])
