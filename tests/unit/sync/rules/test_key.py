# SPDX-License-Identifier: Apache-2.0

import dataclasses

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import key
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member
from tests.unit import base
from tests.unit.sync.rules import cases

OLD, NEW = 'old key', 'new key'
SETTINGS = cases.SETTINGS


def make(number, digest, *args, **kwargs):
    return dataclasses.replace(cases.make_member(number, *args, **kwargs),
                               key_digest=digest)


def make_keys(published, keepers, members, suspects=(), pinned=()):
    return key.Keys(
        published, dict(enumerate(keepers)), listening.HealthManagers(
            members, pinned, SETTINGS), cases.addresses(*suspects))


_digests = st.sampled_from([None, OLD, NEW, 'third key'])
_members = st.lists(st.tuples(
    _digests, st.sampled_from([member.ONLINE, member.DRAINING,
                               member.OFFLINE]),
    st.sampled_from([1.0, 30.0, 70.0])), max_size=4).map(
        lambda rows: [make(n, *row) for n, row in enumerate(rows, 1)])
_worlds = st.builds(
    make_keys, _digests, st.lists(_digests, max_size=3), _members,
    st.sets(st.integers(1, 4)),
    st.sampled_from([(), cases.addresses(1), cases.addresses(9)]))


def up(keys):
    found = [(keys.managers.member(a), keys.managers.state(a))
             for a in keys.managers.addresses]
    return {m.key_digest for m, state in found
            if state is member.State.ALIVE}


class TestProperties(base.TestCase):

    @hypothesis.given(_worlds, st.sampled_from([OLD, NEW, 'third key']),
                      _digests)
    def test_never_what_no_living_listener_has(self, keys, own, wanted):
        if keys.find_obstacle(own, wanted) is None and up(keys) - {None}:
            self.assertIn(own, up(keys))

    @hypothesis.given(_worlds)
    def test_no_list_for_what_no_living_listener_has(self, keys):
        chosen = keys.choose()
        if chosen != keys.published and up(keys) - {None}:
            self.assertIn(chosen, up(keys))

    @hypothesis.given(_worlds, _digests)
    def test_two_never_upload_different_ones(self, keys, wanted):
        """Nor publish them: what a list is for is the same to all."""
        permitted = {own for own in filter(None, keys.keepers.values())
                     if keys.find_obstacle(own, wanted) is None}
        self.assertLessEqual(len(permitted), 1)

    @hypothesis.given(_worlds)
    def test_no_change_while_they_differ(self, keys):
        known = set(filter(None, keys.keepers.values()))
        if (len(known) != 1 and keys.published and
                {keys.published, None} & up(keys)):
            self.assertEqual(keys.published, keys.choose())

    @hypothesis.given(_worlds)
    def test_it_comes_to_its_end(self, keys):
        """All have a key, and so has somebody whom nobody suspects."""
        known = set(filter(None, keys.keepers.values()))
        good = {m.key_digest for a in keys.managers.addresses
                for m in [keys.managers.member(a)]
                if a not in keys.suspects and
                keys.managers.state(a) is member.State.ALIVE}
        if len(known) == 1 and known <= good:
            own, = known
            self.assertEqual(own, keys.choose())
            self.assertIsNone(keys.find_obstacle(own, own))


class TestChoose(base.TestCase):

    def test_the_way_of_a_new_key(self):
        half = [make(1, NEW), make(2, NEW), make(3, OLD), make(4, OLD)]
        for keepers, chosen in (((OLD, OLD), OLD), ((OLD, NEW), OLD),
                                ((NEW, NEW), NEW)):
            self.assertEqual(chosen, make_keys(OLD, keepers, half).choose())

    def test_housekeepers_first(self):
        members = [make(1, OLD), make(2, OLD)]
        for keepers in (OLD, NEW), (NEW, NEW):
            keys = make_keys(OLD, keepers, members)
            self.assertEqual(OLD, keys.choose())
            self.assertIs(key.Obstacle.NOBODY_LISTENS,
                          keys.find_obstacle(NEW, OLD))
        self.assertEqual(['hm1', 'hm2'], keys.find_other_managers(NEW))

    def test_while_they_differ_one_waits(self):
        keys = make_keys(OLD, (OLD, NEW), [make(1, OLD), make(2, NEW)])
        self.assertIsNone(keys.find_obstacle(OLD, OLD))
        self.assertIs(key.Obstacle.OTHERS_DIFFER,
                      keys.find_obstacle(NEW, OLD))
        self.assertEqual([0], keys.find_other_keepers(NEW))

    def test_before_the_list_comes(self):
        keys = make_keys(OLD, (NEW, None), [make(1, NEW), make(2, OLD)])
        self.assertEqual(NEW, keys.choose())
        self.assertIs(key.Obstacle.NO_LIST_YET, keys.find_obstacle(NEW, OLD))

    def test_one_health_manager_alone(self):
        """Nothing is lost by a list for its new key."""
        self.assertEqual(OLD, make_keys(OLD, (OLD,), [
            make(1, NEW)]).choose())
        self.assertEqual(NEW, make_keys(OLD, (NEW,), [
            make(1, NEW)]).choose())
        # Some have it, and nobody listens with the other one any more.
        self.assertEqual(NEW, make_keys(OLD, (OLD, NEW), [
            make(1, NEW)]).choose())

    def test_somebody_may_be_restarting(self):
        for age, chosen in (5.0, OLD), (70.0, NEW):
            self.assertEqual(chosen, make_keys(OLD, (OLD, NEW), [
                make(1, NEW), make(2, OLD, member.OFFLINE, age)]).choose())

    def test_after_a_roll_back(self):
        """The list with the new key is not tried again and again."""
        members = [make(1, NEW), make(2, OLD)]
        self.assertEqual(OLD, make_keys(OLD, (NEW, NEW), members,
                                        suspects=(1,)).choose())
        # Better than nobody.
        self.assertEqual(NEW, make_keys(OLD, (NEW, NEW), members[:1],
                                        suspects=(1,)).choose())

    def test_nobody_is_up(self):
        """They come back with the key that they had."""
        keys = make_keys(OLD, (NEW,), [make(1, OLD, member.OFFLINE, 70.0)])
        self.assertEqual(OLD, keys.choose())
        self.assertIsNone(keys.find_obstacle(OLD, OLD))
        self.assertIs(key.Obstacle.NOBODY_LISTENS,
                      keys.find_obstacle(NEW, None))

    def test_a_list_that_does_not_tell(self):
        members = [make(1, OLD), make(2, NEW)]
        self.assertIsNone(make_keys(None, (OLD, NEW), members).choose())
        self.assertEqual(NEW, make_keys(None, (NEW,), members).choose())
        keys = make_keys(None, (OLD,), members)
        self.assertIsNone(keys.find_obstacle(OLD, None))
        self.assertIsNotNone(keys.find_obstacle(NEW, None))
        # No housekeeper is up.
        keys = make_keys(None, (), members[:1])
        self.assertIsNone(keys.find_obstacle(OLD, None))
        self.assertIsNotNone(keys.find_obstacle(NEW, None))
        keys = make_keys(None, (), members)
        self.assertIsNotNone(keys.find_obstacle(OLD, None))

    def test_without_the_plugin_nobody_can_tell(self):
        """Files pin health managers of which no key is known."""
        pinned = cases.addresses(9)
        keys = make_keys(OLD, (NEW,), [], pinned=pinned)
        self.assertEqual(NEW, keys.choose())
        # Where one tells, its word counts.
        keys = make_keys(OLD, (NEW,), [make(1, OLD)], pinned=pinned)
        self.assertEqual(OLD, keys.choose())
        self.assertIs(key.Obstacle.NOBODY_LISTENS,
                      keys.find_obstacle(NEW, OLD))
