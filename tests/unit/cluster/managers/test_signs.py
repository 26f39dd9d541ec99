# SPDX-License-Identifier: Apache-2.0

"""What speaks against members, out of who sees what."""

from octavia_hmsync.cluster.managers import base as mgr
from octavia_hmsync.cluster.managers import signs
from tests.unit import base


def see(member_id, who, state, age=50.0, **values):
    values.setdefault('is_active', who == 'd1')
    return signs.Probe(member_id, who, state, age, **values)


class TestSigns(base.TestCase):

    def read(self, *probes, **values):
        found = signs.read(probes, **values).get('a')
        return found and (bool(found.silent), bool(found.down))

    def test_silent(self):
        self.assertIsNone(self.read())
        self.assertEqual((True, False), self.read(see('a', None, 'DOWN')))
        self.assertEqual((False, False), self.read(see('a', None, 'UP')))
        # No health manager is there to hear it.
        self.assertIsNone(self.read(see('a', None, 'DOWN', is_online=False)))

    def test_down(self):
        """By the one that the traffic passes, which sees others."""
        down, other = see('a', 'd1', 'DOWN'), see('b', 'd1', 'UP')
        self.assertEqual((False, True), self.read(down, other))
        for more in ((), (see('b', 'd2', 'UP'),), (see('b', None, 'UP'),),
                     (see('a', None, 'UP'),), (see('a', 'd2', 'UP'),),
                     (see('b', 'd2', 'DOWN'),)):
            self.assertEqual((False, False), self.read(down, *more))
        # Another one sees the same.
        self.assertEqual((False, True), self.read(down, see('a', 'd2',
                                                            'DOWN')))
        self.assertEqual((False, False), self.read(
            down, see('a', 'd2', 'DOWN', is_online=False)))

    def test_nobody_else_looks(self):
        """As with OVN: heartbeats, which take another way, see the same."""
        down, silent = see('a', 'd1', 'DOWN'), see('a', None, 'DOWN')
        away = see('a', 'd2', 'UP', is_online=False)
        for more in ((), (see('b', 'd1', 'DOWN'), see('b', None, 'DOWN')),
                     (away,)):
            self.assertEqual((True, True), self.read(down, silent, *more))
        for more in ((see('a', 'd2', 'UP'),), (see('b', 'd2', 'UP'),)):
            self.assertEqual((True, False), self.read(down, silent, *more))
        for silent in (see('b', None, 'DOWN'),
                       see('a', None, 'DOWN', is_online=False)):
            self.assertEqual((False, False), self.read(down, silent))

    def test_nobody_looks(self):
        silent = see('a', None, 'DOWN', age=601.0)
        self.assertEqual((True, False), self.read(silent))
        self.assertEqual((True, True), self.read(silent, patience=600.0))
        self.assertEqual((True, False), self.read(
            see('a', None, 'DOWN', age=600.0), patience=600.0))
        for probe in (see('a', None, 'UP', age=601.0),
                      see('a', 'd1', 'UP', age=601.0)):
            self.assertEqual((False, False), self.read(probe,
                                                       patience=600.0))

    def test_down_elsewhere(self):
        """Nobody's traffic passes there."""
        self.assertEqual((False, False), self.read(
            see('a', 'd2', 'DOWN'), see('b', 'd2', 'UP'),
            see('a', 'd1', 'UP')))

    def test_not_there(self):
        self.assertIsNone(self.read(
            see('a', 'd1', 'DOWN', is_online=False),
            see('b', 'd1', 'UP', is_online=False)))

    def test_reason(self):
        found = signs.read([see('a', None, 'DOWN', error='for 60 s.'),
                            see('a', 'd1', 'DOWN', 7.0),
                            see('a', 'd2', 'DOWN', 9.0)])['a']
        self.assertEqual(('for 60 s', 'its front end does not answer', 50.0),
                         (found.silent, found.down, found.since))

    def test_well_for(self):
        found = signs.read([see('a', None, 'UP', 40.0),
                            see('a', 'd1', 'UP', 7.0),
                            see('a', 'd2', 'UP', 3.0)])['a']
        self.assertEqual(7.0, found.well_for)

    def assertBetter(self, expected, *probes):
        self.assertEqual(expected, signs.find_better(probes), probes)

    def test_better(self):
        """By another one that sees what the active one does not."""
        down, there = see('a', 'd1', 'DOWN', 1.0), see('a', 'd2', 'UP', 1.0)
        self.assertBetter('d2', down, there)
        self.assertBetter('d2', down, see('a', 'd3', 'DOWN'), there)
        for probes in (
                (), (down, see('a', 'd2', 'DOWN')),
                (down, see('b', 'd2', 'UP')), (down, see('a', None, 'UP')),
                (down, see('a', 'd2', 'UP', is_online=False)),
                (see('a', 'd1', 'DOWN', is_online=False), there)):
            self.assertBetter(None, *probes)

    def test_better_by_one_member(self):
        """It sees all that the active one does, and more, for a while."""
        down, there = see('a', 'd1', 'DOWN', 31.0), see('a', 'd2', 'UP', 31.0)
        other, same = see('b', 'd1', 'UP', 1.0), see('b', 'd2', 'UP', 1.0)
        self.assertBetter('d2', down, there, other, same)
        for probes in (
                # Not for long: somebody just died, or came.
                (see('a', 'd1', 'DOWN', 30.0), there, other, same),
                (down, see('a', 'd2', 'UP', 30.0), other, same),
                # Each sees one that the other one does not.
                (down, there, other, see('b', 'd2', 'DOWN')),
                (down, there, other),
                (down, there, other, see('b', 'd2', 'UP', is_online=False)),
                # Both see the same.
                (see('a', 'd1', 'UP'), there, other, same)):
            self.assertBetter(None, *probes)

    def test_not_again_at_once(self):
        """Whoever carries the traffic may be who sees nobody."""
        down, there = see('a', 'd1', 'DOWN', 1.0), see('a', 'd2', 'UP', 1.0)
        for age, expected in ((29.0, None), (31.0, 'd2')):
            self.assertEqual(expected, signs.find_better(
                (down, there), signs.Move(age, 30.0)))

    def test_hold(self):
        """Twice as long each time, for as long as that goes on."""
        self.assertEqual(30.0, signs.choose_hold(None))
        holds = [30.0]
        while len(holds) < 8:
            holds.append(signs.choose_hold(signs.Move(holds[-1] + 1.0,
                                                      holds[-1])))
        self.assertEqual([30, 60, 120, 240, 480, 960, 960, 960], holds)
        self.assertEqual(60.0, signs.choose_hold(signs.Move(3.0, 30.0)))
        self.assertEqual(30.0, signs.choose_hold(signs.Move(1561.0, 960.0)))

    def test_load(self):
        """Who says that he is not there has not too much to do."""
        def may_be(*probes):
            return signs.read([see('b', 'd1', 'UP'), *probes])[
                'a'].may_be_load

        self.assertTrue(may_be(see('a', 'd1', 'DOWN')))
        self.assertTrue(may_be(see('a', 'd1', 'DOWN'), see('a', None, 'UP')))
        self.assertFalse(may_be(see('a', 'd1', 'DOWN', is_mute=False)))
        self.assertFalse(may_be(see('a', 'd1', 'DOWN'),
                                see('a', None, 'DOWN')))
        self.assertFalse(may_be(see('a', 'd1', 'UP')))

    def test_not_admitted(self):
        """As by a security group: who is silent is that alone."""
        def see_all(age, **heard):
            return [*(see(member, who, 'DOWN', age) for member in 'abcd'
                      for who in ('d1', 'd2')),
                    *(see(member, None, state, 20.0)
                      for member, state in heard.items())]

        well = dict.fromkeys('bcd', 'UP')
        for age, down in ((600.0, False), (100.0, True)):
            # Members that have just died are heard for a while.
            self.assertEqual((False, down), self.read(*see_all(
                age, a='UP', **well)))
            self.assertEqual((True, False), self.read(*see_all(
                age, a='DOWN', **well)))
        # All of them are dead.
        self.assertEqual((True, True), self.read(*see_all(
            90.0, **dict.fromkeys('abcd', 'DOWN'))))
        # Silent for so long that it counts as both.
        self.assertEqual((True, True), self.read(
            *see_all(900.0, **well), see('a', None, 'DOWN', 601.0),
            patience=600.0))
        # One is seen.
        self.assertEqual((True, True), self.read(
            *see_all(900.0, a='DOWN', b='UP'), see('e', 'd1', 'UP')))


class TestSpare(base.TestCase):

    def spare(self, *members, held=('a',), min_size=2):
        """What speaks against the first one: silence, its front end."""
        found = signs.spare(members, set(held), min_size)[0].signs
        return bool(found.silent), bool(found.down), found.since

    def member(self, member_id, silent=None, down=None, state='ACTIVE',
               slot=1):
        return mgr.Member(member_id, slot, state, 50.0, signs=mgr.Signs(
            silent, down, since=700.0))

    def test_others_serve(self):
        dead = self.member('a', 'no heartbeat', 'no answer')
        others = self.member('b'), self.member('c')
        self.assertEqual((True, False, 0.0), self.spare(dead, *others))
        self.assertEqual((True, True, 700.0), self.spare(
            dead, *others, held=['b']))
        # As soon as one of them is not well, or leaves.
        for other in (self.member('c', 'no heartbeat'),
                      self.member('c', None, 'no answer'),
                      self.member('c', state='DRAINING'),
                      self.member('c', slot=None)):
            self.assertEqual((True, True, 700.0), self.spare(
                dead, others[0], other))
        self.assertEqual((True, True, 700.0), self.spare(dead, min_size=0))

    def test_no_longer_than_it_is_silent(self):
        for silent, down in ((None, 'no answer'), (None, None)):
            self.assertEqual((False, bool(down), 700.0), self.spare(
                self.member('a', silent, down), self.member('b'),
                self.member('c')))
