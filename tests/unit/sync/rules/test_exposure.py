# SPDX-License-Identifier: Apache-2.0

"""Which amphorae the failover guard has to look at."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import exposure
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import silence
from tests.unit import base
from tests.unit.sync.rules import cases

HOLD_MAX = 300
LISTENED = cases.SETTINGS.heartbeat_timeout
RECENT = silence.time_in_question(cases.SETTINGS)

_NUMBERS = st.integers(1, 9)
_LISTS = st.lists(_NUMBERS, min_size=1, max_size=7, unique=True).map(
    lambda numbers: cases.addresses(*numbers))
_AMPHORAE = st.builds(
    silence.SilentAmphora, addresses=_LISTS,
    others=st.lists(_LISTS, max_size=2).map(tuple),
    applied_age=st.floats(RECENT + 1, 10000),
    is_gone=st.booleans(),
    held_for=st.one_of(st.none(), st.floats(0, 2 * HOLD_MAX)),
    is_on_trial=st.booleans())
_MEMBERS = st.dictionaries(_NUMBERS, st.sampled_from(
    ['alive', 'young', 'dead'])).map(lambda kinds: [
        cases.make_dead(n) if kind == 'dead' else cases.make_member(
            n, online_for=LISTENED if kind == 'alive' else LISTENED - 1)
        for n, kind in kinds.items()])


class TestExposure(base.TestCase):

    def find_exposed(self, subject, members, pinned=()):
        return subject.find_exposed(listening.HealthManagers(
            members, pinned, cases.SETTINGS), HOLD_MAX)

    @given(st.dictionaries(st.text('abc', min_size=1), _AMPHORAE), _MEMBERS,
           st.lists(_NUMBERS, max_size=2))
    def test_whoever_must_be_held_is_found(self, amphorae, members, pinned):
        """The look at few finds what the look at all finds."""
        pinned = cases.addresses(*pinned)
        subject = exposure.Exposure()
        for amphora_id, amphora in amphorae.items():
            subject.note(amphora_id, exposure.Sending(
                amphora.addresses, amphora.others))
        listeners = listening.HealthManagers(members, pinned, cases.SETTINGS)
        held = {amphora_id for amphora_id, amphora in amphorae.items()
                if silence.must_hold(amphora, listeners, HOLD_MAX)}
        found = self.find_exposed(subject, members, pinned)
        self.assertLessEqual(held, found)
        # And nobody whose lists are heard.
        self.assertLessEqual(found, {
            amphora_id for amphora_id, amphora in amphorae.items()
            if not all(map(listeners.has_listened, {
                *amphora.addresses, *sum(amphora.others, ())}))})

    @given(st.lists(st.tuples(st.sampled_from('abc'),
                              st.one_of(st.none(), _LISTS))))
    def test_what_was_noted_last_counts(self, notes):
        subject, expected = exposure.Exposure(), {}
        for amphora_id, addresses in notes:
            subject.note(amphora_id, addresses and exposure.Sending(addresses))
            expected[amphora_id] = addresses
        self.assertEqual({i for i, a in expected.items() if a},
                         self.find_exposed(subject, []))
        self.assertEqual({i for i, a in expected.items() if a and i > 'a'},
                         subject.between('a', None))
        self.assertEqual(
            {i for i, a in expected.items() if a and i in 'ab'},
            subject.between('', 'b'))

    def test_another_key(self):
        """Whoever listens with another key does not hear it."""
        subject = exposure.Exposure()
        for amphora_id, key_digest in (('a', 'one'), ('b', 'two'),
                                       ('c', None)):
            subject.note(amphora_id, exposure.Sending(
                cases.addresses(1), key_digest=key_digest))
        self.assertEqual({'b'}, self.find_exposed(subject, [
            dataclasses.replace(cases.make_member(1, online_for=LISTENED),
                                key_digest='one')]))

    def test_a_list_that_is_empty(self):
        subject = exposure.Exposure()
        subject.note('a', exposure.Sending(()))
        self.assertEqual({'a'}, self.find_exposed(subject, []))
