# SPDX-License-Identifier: Apache-2.0

import dataclasses
import math

from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import transition as transitions
from tests.unit.distributor.ovs import documents

A, DR, DEAD = doc.ACTIVE, doc.DRAINING, doc.DEAD


def slots(chosen):
    """A mapping as a dict from slots to the last bytes of MAC addresses."""
    return {slot: [int(target.mac[-2:], 16) for target in targets]
            for slot, targets in chosen.slots}


def make(*states, **kwargs):
    return documents.make_document(*states, **kwargs)


class TestMapping(base.BaseTestCase):

    def of(self, *states, affinity=doc.FLOW):
        return slots(mapping.of_document(make(*states, affinity=affinity)))

    def test_only_active(self):
        self.assertEqual({0: [0], 3: [3]}, self.of(A, DR, DEAD, A, None))
        self.assertEqual({}, self.of(DR))
        self.assertEqual({}, self.of())

    def test_peers(self):
        """Groups of two: who is not there is replaced by its peer."""
        self.assertEqual({0: [0], 1: [0], 2: [3], 3: [3]},
                         self.of(A, DR, DEAD, A, affinity=doc.SOURCE_IP))

    def test_no_peer(self):
        self.assertEqual({2: [2]}, self.of(DEAD, DEAD, A,
                                           affinity=doc.SOURCE_IP))

    def test_several_peers(self):
        members = [doc.Member(str(n), n, 7, documents.mac(n), state)
                   for n, state in enumerate((A, DEAD, A))]
        document = make(affinity=doc.SOURCE_IP)
        document = doc.Document(**{**vars(document), 'members':
                                   tuple(members)})
        self.assertEqual({0: [0], 1: [0, 2], 2: [2]},
                         slots(mapping.of_document(document)))

    def test_empty_slot_without_mac(self):
        member = doc.Member('1', 1, 0, None, DEAD)
        document = doc.Document(**{**vars(make(A)), 'members': (
            *make(A).members, member)})
        self.assertEqual({0: [0]}, slots(mapping.of_document(document)))
        self.assertEqual({documents.mac(0)}, mapping.get_living(document))

    def test_living(self):
        self.assertEqual({documents.mac(0), documents.mac(1)},
                         mapping.get_living(make(A, DR, DEAD)))

    def test_json(self):
        chosen = mapping.of_document(make(A, DEAD, A, A,
                                          affinity=doc.SOURCE_IP))
        self.assertEqual(chosen, mapping.Mapping.from_json(chosen.to_json()))


class TestTransition(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.state = None

    def go(self, *states, after=0, **kwargs):
        """Returns the slots of the base and the current ones."""
        self.now += after
        self.state = transitions.advance(
            self.state, make(*states, **kwargs), self.now)
        return slots(self.state.base), slots(self.state.current)

    def test_first(self):
        self.assertEqual(({0: [0]}, {0: [0]}), self.go(A))
        self.assertTrue(self.state.is_over)

    def test_added(self):
        self.go(A, A)
        before, after = {0: [0], 1: [1]}, {0: [0], 1: [1], 2: [2]}
        self.assertEqual((before, after), self.go(A, A, A, after=5))
        end = transitions.get_end(self.state, make(A, A, A))
        self.assertEqual(1005 + 3600 + transitions.MARGIN +
                         transitions.LATER, end)
        # Others end it before the active one does.
        self.assertEqual(end - transitions.LATER, transitions.get_end(
            self.state, make(A, A, A, active=False)))
        self.assertEqual((before, after),
                         self.go(A, A, A, after=end - self.now - 1))
        self.assertEqual((after, after), self.go(A, A, A, after=1))
        self.assertIsNone(transitions.get_end(self.state, make(A, A, A)))

    def test_next_change_begins_anew(self):
        self.go(A)
        self.go(A, A)
        last = {0: [0], 1: [1], 2: [2]}
        self.assertEqual(({0: [0]}, last), self.go(A, A, A, after=3600))
        self.assertEqual(({0: [0]}, last), self.go(A, A, A, after=3600))
        self.assertEqual((last, last), self.go(
            A, A, A, after=transitions.MARGIN + transitions.LATER))

    def test_dead(self):
        """Out of both, which is no change for anybody else."""
        self.go(A, A, A)
        both = {0: [0], 2: [2]}
        self.assertEqual((both, both), self.go(A, DEAD, A, after=5))
        self.assertEqual(1000, self.state.since)
        # It comes back as another one.
        self.assertEqual((both, {0: [0], 1: [9], 2: [2]}),
                         self.go(A, (A, 9), A, after=5))

    def test_replaced_at_once(self):
        self.go(A, A)
        both = {0: [0], 1: [9]}
        self.assertEqual((both, both), self.go(A, (A, 9)))

    def test_handover(self):
        """Nothing new goes to a member that is seen DOWN."""
        before = transitions.advance(None, make(A, A, A), 1000)
        for states, down, expected in (
                ((A, DR, A, A), (), {0: [0], 1: [1], 2: [2]}),
                ((A, DR, A, A), (1,), {0: [0], 2: [2]}),
                # Unless nothing else is left, as where it is cut off itself.
                ((DR, DR, DR), (0, 1, 2), {0: [0], 1: [1], 2: [2]}),
                ((A, DEAD, A, A), (1,), {0: [0], 2: [2]})):
            document = make(*states)
            after = transitions.advance(before, document, 1001)
            handover = transitions.make_handover(
                before, after, document, {documents.mac(one) for one in down})
            self.assertEqual(expected, slots(handover.current))
            self.assertEqual(after.formers, handover.formers)

    def test_draining(self):
        """In the base only; then removed."""
        self.go(A, A)
        self.assertEqual(({0: [0], 1: [1]}, {0: [0]}), self.go(A, DR))
        self.assertEqual(({0: [0]}, {0: [0]}), self.go(A, after=9))

    def test_dead_peer(self):
        """Its clients find its peer, and are not moved again."""
        self.go(A, A, A, affinity=doc.SOURCE_IP)
        both = {0: [0], 1: [0], 2: [2]}
        self.assertEqual((both, both),
                         self.go(A, DEAD, A, affinity=doc.SOURCE_IP))

    def test_all_gone(self):
        self.go(A)
        self.assertEqual(({}, {}), self.go(DEAD))
        self.assertEqual(({1: [1]}, {1: [1]}), self.go(DEAD, A))

    def test_all_drain(self):
        self.go(A)
        self.assertEqual(({0: [0]}, {}), self.go(DR))

    def test_clock_set_back(self):
        self.go(A)
        self.go(A, A)
        self.go(A, A, after=-500)
        self.assertEqual(500, self.state.since)
        self.go(A, A, after=3600 + transitions.MARGIN + transitions.LATER)
        self.assertTrue(self.state.is_over)

    def test_twice(self):
        """As who keeps the state first, and then has it applied."""
        self.go(A, A)
        for states in ((A, DR), (A, DEAD, A), ((A, 7), A)):
            self.go(*states, after=5)
            once = self.state
            self.go(*states)
            self.assertEqual(once, self.state)

    def test_long_pin_timeout(self):
        """Open vSwitch could not keep one for as long."""
        self.go(A)
        self.go(A, A, pin_timeout=7 * 86400)
        self.go(A, A, after=65535 + transitions.LATER,
                pin_timeout=7 * 86400)
        self.assertTrue(self.state.is_over)

    def adopt(self, own, other, *states):
        """Go by what others have, by their lists of members."""
        found = []
        for lists in (own, other):
            self.state = None
            for each in lists:
                self.go(*each, after=5)
            found.append(self.state)
        document = make(*(states or own[-1]), active=False)
        return *found, transitions.adopt(*found, document)

    def test_adopted(self):
        """It has heard of less, or later."""
        last = (A, (A, 9), A)
        own, other, adopted = self.adopt(
            [(A, A, A), last], [(A, A, A), (A, DEAD, A), (A, None, A), last])
        self.assertTrue(own.is_over)
        self.assertEqual(dataclasses.replace(other, stands_by=True), adopted)
        self.assertEqual({0: [0], 2: [2]}, slots(adopted.base))
        own, other, adopted = self.adopt(
            [(A, A), (A, A), (A, A), (A, A, A)], [(A, A), (A, A, A)])
        self.assertEqual(dataclasses.replace(other, stands_by=True), adopted)
        self.assertEqual(other.base, own.base)
        self.assertNotEqual(other.since, own.since)

    def test_not_adopted(self):
        # It is at another list of members.
        own, _, adopted = self.adopt([(A, A)], [(A, A, A)])
        self.assertIs(own, adopted)
        # There is nothing that could be another one.
        own, other, adopted = self.adopt([(A, A)], [(A, A)])
        other = transitions.Transition(other.base, other.current,
                                       own.since + 0.9)
        self.assertIs(own, transitions.adopt(own, other, make(A, A)))
        # Of a base without anybody that lives.
        own, _, adopted = self.adopt([(A, None, A)], [(None, A), (A, A, A)],
                                     A, None, A)
        self.assertIs(own, adopted)

    def test_adopted_without_dead(self):
        _, _, adopted = self.adopt([(A, A), (A, None, A)],
                                   [(A, A), (A, None, A)], A, None, A)
        self.assertEqual({0: [0]}, slots(adopted.base))

    def prove(self, *numbers):
        self.state = dataclasses.replace(self.state, proven=frozenset(
            map(documents.mac, numbers or range(9))))

    def change(self, *lists, after=5, **kwargs):
        """Changes of proven members."""
        for states in lists:
            self.go(*states, after=after, **kwargs)
            self.prove()

    def get_formers(self):
        return [slots(one) for one in self.state.formers]

    def test_several(self):
        """Each is forgotten by its own time."""
        self.change((A,), (A, A), (A, A, A))
        self.assertEqual([{0: [0]}, {0: [0], 1: [1]}], self.get_formers())
        end = 1010 + 3600 + transitions.MARGIN + transitions.LATER
        self.assertEqual(end, transitions.get_end(self.state, make(A, A, A)))
        self.go(A, A, A, after=end - self.now - 1)
        self.assertEqual(2, len(self.state.formers))
        self.go(A, A, A, after=1)
        self.assertEqual([{0: [0], 1: [1]}], self.get_formers())
        self.assertEqual(end + 5, transitions.get_end(self.state,
                                                      make(A, A, A)))
        self.go(A, A, A, after=5)
        self.assertTrue(self.state.is_over)
        self.assertEqual(frozenset(), self.state.proven)

    def test_too_many(self):
        """What began under the last of them is pinned."""
        self.change(*[(A,) * number for number in range(1, 8)])
        self.assertTrue(self.state.is_full)
        self.assertEqual([1, 2, 3, 4], [len(one) for one in
                                        self.get_formers()])
        self.assertEqual(7, len(self.state.current.slots))
        self.go(*(A,) * 7, after=3630 - 20)
        self.assertEqual([3, 4], [len(one) for one in self.get_formers()])

    def test_comes_and_goes(self):
        """However often: there are two lists, and each ends in its time."""
        self.change((A, A), *[(A, A, A), (A, A, DR)] * 9)
        self.assertEqual([{0: [0], 1: [1], 2: [2]}], self.get_formers())
        end = self.now + 3600 + transitions.MARGIN + transitions.LATER
        self.assertEqual(end, transitions.get_end(self.state, make(A, A, DR)))
        self.go(A, A, DR, after=end - self.now)
        self.assertTrue(self.state.is_over)

    def test_handover_to_one_of_before(self):
        """What began under it is not lost meanwhile."""
        self.change((A, A), (A, A, A))
        before = self.state
        self.change((A, A, DR))
        handover = transitions.make_handover(before, self.state,
                                             make(A, A, DR))
        both = [{0: [0], 1: [1], 2: [2]}, {0: [0], 1: [1]}]
        self.assertEqual(both[:1], self.get_formers())
        self.assertEqual(both, [slots(one) for one in handover.formers])
        self.assertEqual(both[0], slots(handover.current))

    def test_handover_of_proven(self):
        """What goes on goes to those as well who are next."""
        self.change((A, A))
        before = self.state
        self.change((A, A, A))
        both = {0: [0], 1: [1]}, {0: [0], 1: [1], 2: [2]}
        for proven, formers in ((2, both[:1]), (3, both)):
            self.prove(*range(proven))
            handover = transitions.make_handover(before, self.state,
                                                 make(A, A, A))
            self.assertEqual([*formers], [slots(one) for one
                                          in handover.formers])
            self.assertEqual(both[0], slots(handover.current))

    def test_not_known(self):
        """None is forgotten before it is known who lives on."""
        self.change((A,), (A, A))
        later = self.now + 9999
        for since, is_over in ((math.inf, False), (later - 3614, False),
                               (later - 3615, True)):
            self.assertEqual(is_over, transitions.advance(
                self.state, make(A, A), later, since).is_over)
        # What is pinned one by one is known.
        self.prove(0)
        self.assertTrue(transitions.advance(self.state, make(A, A), later,
                                            math.inf).is_over)

    def test_stands_by(self):
        """It forgets nothing; when it becomes active, time begins anew."""
        self.change((A,), (A, A), active=False)
        self.go(A, A, after=99999, active=False)
        self.assertEqual([{0: [0]}], self.get_formers())
        self.assertIsNone(transitions.get_end(
            self.state, make(A, A, active=False)))
        self.go(A, A, after=1)
        self.assertEqual(self.now, self.state.since)
        self.assertEqual([{0: [0]}], self.get_formers())
        # Of others it is told, and must not know more than the active one.
        self.go(A, A, active=False)
        self.prove(0)
        self.go(A, A, after=99999, active=False)
        self.assertTrue(self.state.is_over)

    def test_dead_of_several(self):
        """Nobody takes its place in what was, as nobody had connections."""
        self.change((A, A, A), (A, A, A, A))
        self.go(A, DEAD, A, A)
        self.go(A, (A, 9), A, A)
        self.assertEqual({0: [0], 1: [], 2: [2]}, self.get_formers()[0])
        self.go(A, (A, 9), A, A)
        self.assertEqual({0: [0], 1: [], 2: [2]}, self.get_formers()[0])
        self.go(A, (A, 9), A, A, after=9999)
        self.assertTrue(self.state.is_over)

    def test_back(self):
        """What began between has its time, unless it is pinned."""
        self.change((A, A), (A, A, A), (A, A, DR))
        self.assertEqual([{0: [0], 1: [1], 2: [2]}], self.get_formers())
        self.state = None
        for states in ((A, A), (A, A, A), (A, A, DR)):
            self.go(*states, after=5)
        self.assertTrue(self.state.is_over)

    def test_adopted_of_several(self):
        self.change((A,), (A, A), (A, A, A))
        other, self.state = self.state, None
        self.change((A,), (A, A, A), active=False)
        adopted = transitions.adopt(self.state, other,
                                    make(A, A, A, active=False))
        self.assertEqual(dataclasses.replace(
            other, stands_by=True, proven=adopted.proven), adopted)
        self.assertIs(adopted, transitions.adopt(
            adopted, other, make(A, A, A, active=False)))

    def test_json_of_several(self):
        self.change((A,), (A, A), (A, A, A))
        raw = self.state.to_json()
        self.assertEqual(self.state, transitions.Transition.from_json(raw))
        for name in ('between', 'proven', 'stands_by'):
            del raw[name]
        self.assertEqual((), transitions.Transition.from_json(raw).between)

    def test_json(self):
        self.go(A, A)
        self.go(A, DR, A, affinity=doc.SOURCE_IP)
        raw = self.state.to_json()
        self.assertEqual(self.state, transitions.Transition.from_json(raw))
        for broken in ({}, {**raw, 'base': []}, {**raw, 'since': 'never'},
                       {**raw, 'current': {'affinity': 'FLOW',
                                           'slots': [[0]]}}):
            self.assertRaises((KeyError, TypeError, ValueError),
                              transitions.Transition.from_json, broken)
