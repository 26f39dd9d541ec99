# SPDX-License-Identifier: Apache-2.0

"""What has to be seen of a new amphora."""

import dataclasses
import datetime

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.replace import proof
from tests.unit import base

NOW = datetime.datetime(2026, 5, 1, 12, 0, 0, 500000)
SECOND = datetime.timedelta(seconds=1)
OLD = evidence_repo.Amphora('old', 'ALLOCATED', 'image-old', heard_at=NOW,
                            listeners=frozenset({'web'}))
NEW = evidence_repo.Amphora('new', 'ALLOCATED', 'image', heard_at=NOW,
                            listeners=frozenset({'web'}))
EVIDENCE = evidence_repo.Evidence(
    NOW, {'old': OLD, 'new': NEW}, {'web': (True, 'ACTIVE', 'ONLINE')}, {}, 0)
SEEN = proof.Seen(EVIDENCE, {'web': 'ACTIVE'}, {'old': False, 'new': True})
EXPECTED = proof.Expectation('new', 'image', NOW, 30, frozenset({'new'}))
STATUSES = ('ONLINE', 'NO_MONITOR', 'OFFLINE', 'ERROR', 'DRAINING',
            'DEGRADED')


class TestFindProblems(base.TestCase):

    def assertProblem(self, text, seen=SEEN, expected=EXPECTED):
        self.assertEqual([text], proof.find_problems(expected, seen))

    def with_new(self, **values):
        return self.with_evidence(amphorae={
            'old': OLD, 'new': dataclasses.replace(NEW, **values)})

    def with_evidence(self, **values):
        return dataclasses.replace(SEEN, evidence=dataclasses.replace(
            EVIDENCE, **values))

    def with_holding(self, **holding):
        return dataclasses.replace(SEEN, holding=holding)

    def test_shown(self):
        self.assertEqual([], proof.find_problems(EXPECTED, SEEN))

    def test_one_replaced_before(self):
        """It may be one that is well until it has the VIP."""
        self.assertProblem(
            'the agent of amphora other has listener web as ERROR',
            dataclasses.replace(SEEN, replaced={'other': {'web': 'ERROR'}}))
        self.assertEqual([], proof.find_problems(EXPECTED, dataclasses.replace(
            SEEN, replaced={'other': {'web': 'ACTIVE'}})))

    def test_gone(self):
        self.assertProblem('amphora new is gone',
                           self.with_evidence(amphorae={'old': OLD}))

    def test_image(self):
        """Where either is not known, it cannot be another one."""
        self.assertProblem('amphora new is of image other, not of image',
                           self.with_new(image_id='other'))
        self.assertEqual([], proof.find_problems(
            EXPECTED, self.with_new(image_id=None)))
        self.assertEqual([], proof.find_problems(dataclasses.replace(
            EXPECTED, target_image_id=None), self.with_new(image_id='x')))

    def test_heartbeats(self):
        problem = 'no heartbeat of amphora new arrives'
        self.assertProblem(problem, self.with_new(heard_at=None))
        self.assertProblem(problem, self.with_new(heard_at=NOW - SECOND))
        # Octavia records whole seconds.
        self.assertEqual([], proof.find_problems(EXPECTED, self.with_new(
            heard_at=NOW.replace(microsecond=0))))

    def test_fell_silent(self):
        """One that came once is not enough."""
        self.assertProblem('no heartbeat of amphora new arrives',
                           self.with_evidence(now=NOW + 31 * SECOND))
        self.assertEqual([], proof.find_problems(
            EXPECTED, self.with_evidence(now=NOW + 30 * SECOND)))

    def test_error(self):
        """That of another amphora, too."""
        self.assertProblem(
            'amphora old is in ERROR', self.with_evidence(amphorae={
                'new': NEW, 'old': dataclasses.replace(OLD, status='ERROR')}))

    def test_listeners(self):
        self.assertProblem(
            'the agent of amphora new has listener web as none of its own',
            dataclasses.replace(SEEN, listeners={}))
        self.assertProblem(
            'the agent of amphora new has listener web as ERROR',
            dataclasses.replace(SEEN, listeners={'web': 'ERROR'}))
        self.assertProblem(
            'the heartbeats of amphora new do not tell of listener web',
            self.with_new(listeners=frozenset()))

    def test_listeners_not_told(self):
        self.assertEqual([], proof.find_problems(
            dataclasses.replace(EXPECTED, are_listeners_told=False),
            self.with_new(listeners=frozenset())))

    def test_disabled_listener(self):
        """Nobody serves it."""
        self.assertEqual([], proof.find_problems(
            EXPECTED, self.with_evidence(listeners={
                **EVIDENCE.listeners, 'off': (False, 'ACTIVE', 'OFFLINE')})))

    def test_disabled_load_balancer(self):
        """Nobody serves any of its listeners."""
        seen = dataclasses.replace(
            self.with_evidence(is_enabled=False), listeners={})
        self.assertEqual([], proof.find_problems(EXPECTED, seen))
        self.assertFalse(proof.needs_haproxy(seen.evidence))
        self.assertTrue(proof.needs_haproxy(EVIDENCE))

    def test_listeners_without_haproxy(self):
        for ids, is_needed in (({'web'}, False), ({'other'}, True)):
            self.assertIs(is_needed, proof.needs_haproxy(dataclasses.replace(
                EVIDENCE, without_haproxy=frozenset(ids))))

    def test_holders(self):
        self.assertProblem('no amphora has the VIP',
                           self.with_holding(old=False, new=False))
        self.assertProblem('new, old have the VIP at once',
                           self.with_holding(old=True, new=True))
        self.assertProblem('amphora old has the VIP',
                           self.with_holding(old=True, new=False))
        self.assertProblem('amphora old does not say who has the VIP',
                           self.with_holding(old=None, new=True))

    def test_no_listener(self):
        """keepalived of a pair gives the VIP to none then."""
        bare = dataclasses.replace(
            self.with_evidence(listeners={}), listeners={})
        nowhere = dataclasses.replace(
            bare, holding={'old': False, 'new': False})
        pair = dataclasses.replace(EXPECTED, holders=frozenset())
        both = dataclasses.replace(EXPECTED, holders=frozenset(('new', 'b')))
        for expected in (pair, both):
            self.assertEqual([], proof.find_problems(expected, nowhere))
            self.assertEqual([], proof.find_problems(expected, bare))
        for expected, holding in (
                (EXPECTED, {'old': False, 'new': False}),
                (pair, {'old': True, 'new': True}),
                (pair, {'old': None, 'new': False})):
            self.assertTrue(proof.find_problems(
                expected, dataclasses.replace(bare, holding=holding)))
        # A load balancer that is whole with one amphora is SINGLE.
        self.assertTrue(proof.find_problems(pair, dataclasses.replace(
            nowhere, evidence=dataclasses.replace(
                bare.evidence, amphorae={'new': NEW}))))

    def test_any_holder(self):
        expected = dataclasses.replace(EXPECTED, holders=frozenset())
        self.assertEqual([], proof.find_problems(
            expected, self.with_holding(old=True, new=False)))

    def test_each_is_a_holder(self):
        expected = dataclasses.replace(EXPECTED, holders=frozenset(),
                                       is_vip_shared=True)
        for holding, problems in (
                ({'old': True, 'new': True}, []),
                ({'new': True}, []),
                ({'old': True, 'new': False},
                 ['amphora new does not have the VIP']),
                ({'new': None},
                 ['amphora new does not say who has the VIP'])):
            self.assertEqual(problems, proof.find_problems(
                expected, self.with_holding(**holding)))

    @given(st.lists(st.sampled_from(('old', 'new', 'third')), unique=True),
           st.dictionaries(st.sampled_from(('old', 'new', 'third')),
                           st.sampled_from((True, False, None))))
    def test_one_holder_in_any_world(self, wanted, holding):
        """Nothing is wrong only with one who has it, and is to."""
        problems = proof.find_problems(
            dataclasses.replace(EXPECTED, holders=frozenset(wanted)),
            self.with_holding(**holding))
        having = [key for key, holds in holding.items() if holds]
        self.assertEqual(
            None not in holding.values() and len(having) == 1 and
            (not wanted or having[0] in wanted), not problems)


class TestMembers(base.TestCase):

    def test_worse(self):
        before = {'a': 'ONLINE', 'b': 'ERROR', 'c': 'ONLINE', 'd': 'OFFLINE'}
        self.assertEqual(['a', 'd'], proof.find_worse(before, {
            'a': 'ERROR', 'b': 'ERROR', 'c': 'NO_MONITOR', 'd': 'ERROR'}))

    def test_new_member(self):
        """One that nobody looked at before is compared with a good one."""
        self.assertEqual(['a'], proof.find_worse({}, {'a': 'ERROR',
                                                      'b': 'ONLINE'}))

    @given(*[st.dictionaries(st.sampled_from('abc'),
                             st.sampled_from(STATUSES))] * 3)
    def test_merged_in_any_world(self, first, second, third):
        """What was as bad in either look before is no worse."""
        merged = proof.merge_worst(first, second)
        self.assertEqual(set(second), set(merged))
        self.assertEqual([], proof.find_worse(merged, second))
        self.assertEqual([], proof.find_worse(
            merged, {key: first[key] for key in first if key in second}))
        self.assertLessEqual(
            set(proof.find_worse(merged, third)),
            set(proof.find_worse({**second}, third)))
