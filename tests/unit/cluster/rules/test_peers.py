# SPDX-License-Identifier: Apache-2.0

"""Who shares stick tables with whom, in any cluster."""

import dataclasses
import datetime

import hypothesis
from hypothesis import strategies as st
from octavia.common import data_models

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.rules import peers
from tests.unit import base
from tests.unit.cluster.distribution import test_documents


@dataclasses.dataclass(frozen=True)
class Member:
    amphora_id: str | None
    slot: int | None


SIZES = st.sampled_from((2, 3))
SLOTS = st.lists(st.integers(0, 40), unique=True, max_size=16)


def make(slots):
    return [Member(f'amphora-{slot}', slot) for slot in slots]


def find(members, member, size):
    return peers.find_group(members, member.slot, size, member.amphora_id)


class TestGroups(base.TestCase):

    @hypothesis.given(SLOTS, SIZES)
    def test_each_is_in_one_and_all_in_it_agree(self, slots, size):
        members = make(slots)
        groups = {member.amphora_id: find(members, member, size)
                  for member in members}
        for amphora_id, group in groups.items():
            self.assertIn(amphora_id, group)
            self.assertLessEqual(len(group), size)
            for other in group:
                self.assertEqual(group, groups[other])

    @hypothesis.given(SLOTS, SIZES, st.integers(0, 40))
    def test_who_comes_or_goes_changes_no_other_group(self, slots, size,
                                                      changed):
        members = make(set(slots) | {changed})
        without = [member for member in members if member.slot != changed]
        for member in without:
            before, now = (find(some, member, size)
                           for some in (members, without))
            if peers.get_group(member.slot, size) != peers.get_group(
                    changed, size):
                self.assertEqual(before, now)
            else:
                self.assertEqual({f'amphora-{changed}'}, before - now)

    @hypothesis.given(SLOTS.filter(bool), SIZES)
    def test_one_that_takes_a_place_is_in_its_group(self, slots, size):
        """It is alone with the others there, before its row has the slot."""
        members = make(slots)
        old = members[0]
        new = Member('new', None)
        self.assertEqual(
            {*find(members, old, size) - {old.amphora_id}, 'new'},
            peers.find_group([*members, new], old.slot, size, 'new'))

    def test_one_that_stands_by_is_alone(self):
        members = [*make(range(4)), Member('waits', None), Member(None, 4)]
        self.assertEqual({'waits'},
                         peers.find_group(members, None, 2, 'waits'))
        self.assertEqual({'new'}, peers.find_group(members, 5, 2, 'new'))


class TestTeachers(base.TestCase):

    def setUp(self):
        super().setUp()
        self.alone = test_documents.make_member(
            1, 'ACTIVE', 0, config_digest=member_repo.ALONE)

    def find(self, *others, **values):
        return [found.slot for found in peers.find_teachers(
            [self.alone, *others], dataclasses.replace(self.alone, **values))]

    def test_those_of_its_group(self):
        others = [test_documents.make_member(2 + slot, 'ACTIVE', slot)
                  for slot in (1, 2)]
        self.assertEqual([1], self.find(*others))
        for values in ({'config_digest': None}, {'config_digest': 'd'},
                       {'slot': None, 'peer_group': None}):
            self.assertEqual([], self.find(*others, **values))

    def test_who_knows_no_more(self):
        other = test_documents.make_member(2, 'ACTIVE', 1)
        later = self.alone.updated_at + datetime.timedelta(seconds=1)
        for values in ({'state': 'DRAINING'}, {'state': 'FAILED'},
                       {'slot': None}, {'config_digest': member_repo.ALONE},
                       {'updated_at': later}):
            self.assertEqual([], self.find(
                dataclasses.replace(other, **values)))


class TestShow(base.TestCase):

    def setUp(self):
        super().setUp()
        self.amphorae = [data_models.Amphora(id=name) for name in 'dcba']
        self.lb = data_models.LoadBalancer(
            id='lb', topology='ACTIVE_ACTIVE', amphorae=self.amphorae)
        self.lb.listeners = [
            data_models.Listener(id=name, load_balancer=self.lb)
            for name in ('l1', 'l2')]

    def test_it_is_one_of_a_pair(self):
        shown = peers.show(self.lb, frozenset('bc'))
        self.assertEqual('ACTIVE_STANDBY', shown.topology)
        self.assertEqual(['b', 'c'], [each.id for each in shown.amphorae])
        self.assertEqual(['l1', 'l2'],
                         [each.id for each in shown.listeners])
        for listener in shown.listeners:
            self.assertIs(shown, listener.load_balancer)

    def test_what_it_is_made_of_stays(self):
        shown = peers.show(self.lb, frozenset('b'))
        shown.listeners.clear()
        shown.amphorae[0].api_version = '1.0'
        self.assertEqual('ACTIVE_ACTIVE', self.lb.topology)
        self.assertEqual(self.amphorae, self.lb.amphorae)
        self.assertFalse(hasattr(self.amphorae[2], 'api_version'))
        for listener in self.lb.listeners:
            self.assertIs(self.lb, listener.load_balancer)
        self.assertEqual(2, len(self.lb.listeners))
