# SPDX-License-Identifier: Apache-2.0

"""A probe of one member: its frames, and what answers them. Pure."""

from collections import abc
import dataclasses

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import probe_frames
from octavia_hmsync.distributor import probe_rules


@dataclasses.dataclass
class Try:
    """A probe of one member, in progress.

    :ivar mac: MAC address of the distributor.
    :ivar own_port: source port of the SYN; an ACK comes from the next one.
    :ivar sequence: a secret that only this member gets.
    :ivar number: another secret, for an ACK outside of any connection, or
                  None for no ACK. A system answers such an ACK even if its
                  haproxy accepts no more connections, when an overloaded
                  one does not answer a SYN.
    :ivar is_done: whether it answered.
    :ivar error: what is wrong, if anything.
    """

    member: doc.Member
    pair: doc.ProbePair
    mac: str
    port: int
    own_port: int
    sequence: int
    number: int | None = None
    is_done: bool = False
    error: str | None = probe_rules.SILENT

    def make_frames(self) -> abc.Iterator[bytes]:
        """Return the frames to send."""
        syn = probe_frames.Segment(
            self.mac, str(self.member.mac), self.pair.own, self.pair.vip,
            self.own_port, self.port, self.sequence, 0, probe_frames.SYN)
        yield syn.to_frame()
        if self.number is not None:
            yield dataclasses.replace(
                syn, source_port=self.own_port + 1, acknowledged=self.number,
                flags=probe_frames.ACK).to_frame()

    def take(self, answer: probe_frames.Segment) -> bytes | None:
        """Take a segment of the member, if it is an answer.

        :returns: the frame to send back, once for each probe.
        """
        if self.is_done:
            return None
        if self._is_sign_of_life(answer):
            # It may still answer the SYN.
            self.error = probe_rules.FULL
        if not self._is_answer(answer):
            return None
        if answer.flags & probe_frames.RST:
            self.is_done, self.error = True, probe_rules.REFUSED
            return None
        if answer.flags & probe_frames.SYN:
            self.is_done, self.error = True, None
            return probe_frames.make_reset(answer).to_frame()
        return None

    def _is_answer(self, answer: probe_frames.Segment) -> bool:
        return bool(
            answer.flags & probe_frames.ACK and
            answer.acknowledged == (self.sequence + 1) % 2 ** 32 and
            self._is_between(answer, self.own_port))

    def _is_sign_of_life(self, answer: probe_frames.Segment) -> bool:
        return bool(
            self.number is not None and answer.flags & probe_frames.RST and
            answer.sequence == self.number and
            self._is_between(answer, self.own_port + 1))

    def _is_between(self, answer: probe_frames.Segment, own_port: int) -> bool:
        return (
            answer.target_mac == self.mac and
            (answer.source, answer.target) == (
                self.pair.vip, self.pair.own) and
            (answer.source_port, answer.target_port) == (self.port, own_port))
