# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.rules import handover
from tests.unit import base

Answer = handover.Answer
Step = handover.Step
ONLINE, OFFLINE = distributor_repo.ONLINE, distributor_repo.OFFLINE


def vip(name, active=False, **values):
    return vip_repo.VIP(**{
        'id': f'vip-{name}', 'cluster_id': 'c', 'distributor_id': name,
        'distributor_name': name, 'url': f'https://{name}:9444',
        'status': ONLINE, 'port_id': f'port-{name}',
        'mac': 'fa:16:3e:00:00:01', 'mtu': 1450, 'active': active,
        'applied_version': 1, 'applied_active': active, 'applied_at': None,
        'error': None, **values})


@st.composite
def worlds(draw):
    """Some VIPs of a cluster, of which at most one is active."""
    number = draw(st.integers(0, 3))
    active = draw(st.integers(-1, number - 1))
    return [vip(f'd{n}', n == active,
                status=draw(st.sampled_from([ONLINE, OFFLINE])),
                port_id=draw(st.sampled_from([None, f'port-{n}'])),
                applied_active=draw(st.booleans()))
            for n in range(number)]


ANSWERS = st.sampled_from(list(Answer))


class TestOrder(base.TestCase):

    def test_one_that_leaves_is_told_before_the_new_one(self):
        old = vip('a', applied_active=True)
        new = vip('b', active=True, applied_active=False)
        self.assertEqual([[old], [new]], handover.order([new, old]))
        # Nobody waits for one that was not there a moment ago.
        self.assertEqual([[new]], handover.order([new, old], {'a'}))

    def test_otherwise_all_at_once(self):
        vips = [vip('a', active=True), vip('b')]
        self.assertEqual([vips], handover.order(vips))

    def test_one_that_is_down_is_told_when_it_is_back(self):
        vips = [vip('a', active=True), vip('b', status=OFFLINE)]
        self.assertEqual([vips[:1]], handover.order(vips))

    @given(worlds(), st.sets(st.sampled_from(['d0', 'd1', 'd2'])))
    def test_whoever_becomes_active_is_told_last(self, vips, lost):
        stages = handover.order(vips, lost)
        told = [one for stage in stages for one in stage]
        self.assertEqual(len(told), len({one.id for one in told}))
        # Nobody is told anything without a port, and the active one always.
        self.assertTrue(all(one.port_id for one in told))
        for one in vips:
            if one.active and one.port_id:
                self.assertIn(one, stages[-1])
            elif one.applied_active and one.port_id and (
                    one.distributor_id not in lost):
                self.assertIn(one, stages[0])
                self.assertFalse(any(other.active for other in stages[0]))


class TestChooseActive(base.TestCase):

    def test_the_one_that_is(self):
        self.assertIsNone(handover.choose_active(
            [vip('a', active=True), vip('b')]))

    def test_none_is(self):
        self.assertEqual('b', handover.choose_active(
            [vip('a', status=OFFLINE), vip('b')]))
        self.assertEqual('a', handover.choose_active(
            [vip('a', status=OFFLINE)]))

    def test_it_is_known_to_be_down(self):
        self.assertEqual('b', handover.choose_active(
            [vip('a', active=True, status=OFFLINE), vip('b')]))
        # So is the other one.
        self.assertIsNone(handover.choose_active(
            [vip('a', active=True, status=OFFLINE),
             vip('b', status=OFFLINE)]))

    @given(worlds())
    def test_it_can_be_told(self, vips):
        chosen = handover.choose_active(vips)
        for one in vips:
            if one.distributor_id == chosen:
                self.assertTrue(one.port_id)
                self.assertFalse(one.active)


class TestDecide(base.TestCase):

    def decide(self, answers, vips=None, **values):
        vips = vips or [vip('a', active=True), vip('b')]
        return handover.decide(7, vips, answers, **values)

    def test_the_active_one_took_it(self):
        for other in (*(a for a in Answer if a != Answer.NEWER), None):
            answers = {'a': Answer.TOOK, 'b': other}
            self.assertEqual(handover.Decision(Step.DONE),
                             self.decide(answers))

    def test_somebody_newer_has_been_there(self):
        self.assertEqual(
            handover.Decision(Step.AGAIN, version=9),
            self.decide({'a': Answer.NEWER, 'b': Answer.TOOK}, newer=[9]))
        # This version, with another content.
        self.assertEqual(
            handover.Decision(Step.AGAIN, version=7),
            self.decide({'a': Answer.TOOK, 'b': Answer.NEWER}, newer=[7]))

    def test_it_is_taken_for_wrong(self):
        self.assertEqual(Step.FAILED, self.decide(
            {'a': Answer.REJECTED, 'b': Answer.REJECTED}).step)

    def test_it_cannot_be_told(self):
        for other in (Answer.TOOK, Answer.SKIPPED):
            self.assertEqual(
                handover.Decision(Step.MOVE, move_to='b'),
                self.decide({'a': Answer.LOST, 'b': other}))

    def test_nobody_can(self):
        self.assertEqual(Step.FAILED, self.decide(
            {'a': Answer.LOST, 'b': Answer.LOST}).step)
        self.assertEqual(Step.FAILED, self.decide(
            {'a': Answer.LOST}, lost={'b'}).step)
        self.assertEqual(Step.FAILED, self.decide(
            {}, [vip('a', active=True, port_id=None)]).step)

    @given(worlds(), st.data())
    def test_ends(self, vips, data):
        """However each answers, and however often, it comes to an end."""
        lost, moves = set(), 0
        while True:
            told = [one for stage in handover.order(vips, lost)
                    for one in stage]
            answers = {one.distributor_id: data.draw(ANSWERS.filter(
                lambda a: a not in (Answer.NEWER, Answer.SKIPPED)))
                for one in told}
            lost |= {key for key, answer in answers.items()
                     if answer == Answer.LOST}
            decision = handover.decide(1, vips, answers, lost=lost)
            if decision.step != Step.MOVE:
                break
            moves += 1
            self.assertLessEqual(moves, len(vips))
            vips = [dataclasses.replace(
                one, active=one.distributor_id == decision.move_to)
                for one in vips]
        active = [one for one in vips if one.active and one.port_id]
        self.assertEqual(
            decision.step == Step.DONE,
            bool(active) and
            answers.get(active[0].distributor_id) == Answer.TOOK)
