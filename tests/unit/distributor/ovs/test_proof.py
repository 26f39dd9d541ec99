# SPDX-License-Identifier: Apache-2.0

"""Who bears packets of connections of others."""

import dataclasses
import os
import types

from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import proof
from octavia_hmsync.distributor import probe_frames
from tests.unit.distributor.ovs import documents

BEARS, ANSWERS, SILENT, LATE = [documents.mac(number) for number in range(4)]
OWN = {'10.0.0.5': '10.0.0.250', 'fd00::5': 'fd00::fa'}


def make_document(address='10.0.0.5'):
    return dataclasses.replace(
        documents.make_document(doc.ACTIVE, addresses=[address]),
        probe=doc.Probe((OWN[address],), (80,)))


class Members:
    """What they answer."""

    def __init__(self):
        self.asked = []
        self.answers = []
        self.rounds = 0
        self._ends = os.pipe()
        os.write(self._ends[1], b'.')

    def fileno(self):
        return self._ends[0]

    def close(self):
        for each in self._ends:
            os.close(each)

    def send(self, frames):
        self.rounds += 1
        for frame in frames:
            asked = probe_frames.parse(frame)
            self.asked.append(asked)
            tos = (frame[15] if frame[12:14] == b'\x08\0' else
                   int.from_bytes(frame[14:16], 'big') >> 4 & 0xff)
            mac = asked.target_mac
            if mac == SILENT or mac == LATE and self.rounds < 2 or (
                    tos and mac != ANSWERS):
                continue
            assert tos in (0, doc.MARK << 2), tos
            self.answers.append(probe_frames.make_reset(asked).to_frame())

    def receive(self):
        answers, self.answers = self.answers, []
        return types.SimpleNamespace(frames=[b'?', *answers])


class TestProof(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.members = Members()
        self.addCleanup(self.members.close)

    def prove(self, document, *macs, patience=60):
        return proof.prove(self.members, document, macs, patience)

    def test_both(self):
        for address in OWN:
            found = self.prove(make_document(address), BEARS, ANSWERS)
            self.assertEqual({BEARS}, found.proven)
            self.assertEqual({ANSWERS}, found.refuse)
            self.assertEqual({OWN[address]}, {
                one.source for one in self.members.asked[-4:]})

    def test_late(self):
        """It is asked again, and others are not."""
        self.assertEqual({BEARS, LATE}, self.prove(
            make_document(), BEARS, LATE).proven)
        self.assertEqual([BEARS, BEARS, LATE, LATE, LATE, LATE], [
            one.target_mac for one in self.members.asked])

    def test_silent(self):
        found = self.prove(make_document(), BEARS, SILENT, patience=0.01)
        self.assertEqual(({BEARS}, set()), (found.proven, found.refuse))

    def test_dead(self):
        """Nobody waits for a dead one for long, where others answer."""
        found = self.prove(make_document(), BEARS, SILENT)
        self.assertEqual(proof.Proof(frozenset([BEARS])), found)
        self.assertEqual(2, self.members.rounds)

    def test_nobody_looks(self):
        self.assertEqual(proof.Proof(), self.prove(
            documents.make_document(doc.ACTIVE), BEARS))
        self.assertEqual([], self.members.asked)

    def test_made_up(self):
        """Whoever does not know what was asked proves nothing."""
        questions = proof.Questions(make_document(), [BEARS, LATE])
        for frame in questions.ask():
            asked = probe_frames.parse(frame)
            answer = probe_frames.make_reset(asked)
            for other in (
                    dataclasses.replace(
                        answer, sequence=answer.sequence ^ 1 << 20),
                    dataclasses.replace(answer, source_mac=SILENT),
                    dataclasses.replace(answer, flags=probe_frames.ACK)):
                questions.hear(other.to_frame())
        self.assertEqual(proof.Proof(), questions.proof)
        self.assertEqual(2, questions.left)

    def test_answered_after_all(self):
        """What is answered in another order counts."""
        questions = proof.Questions(make_document(), [BEARS])
        marked, plain = [probe_frames.make_reset(probe_frames.parse(frame))
                         for frame in questions.ask()]
        questions.hear(plain.to_frame())
        self.assertEqual({BEARS}, questions.proof.proven)
        questions.hear(marked.to_frame())
        self.assertEqual(frozenset(), questions.proof.proven)
        questions.hear(plain.to_frame())
        self.assertEqual(proof.Proof(refuse=frozenset({BEARS})),
                         questions.proof)
