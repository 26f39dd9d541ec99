# SPDX-License-Identifier: Apache-2.0

"""Which members bear packets of connections that they do not know.

Such a packet has a mark, see document.MARK, and the RST with which a member
answers has it, too: by that the member drops it. The network may change the
mark, and an image may know nothing of it. So a member is sent two ACKs of no
connection, one with the mark and then one without. It is proven when the
second one is answered and the first one is not.
"""

from collections import abc
import dataclasses
import secrets
import select
import time
import typing

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import probe_flows
from octavia_hmsync.distributor import probe_frames

# Seconds: for how long is waited for answers, and after which it is asked
# again, as a member may have to find out first where to send them.
_PATIENCE, _AGAIN = 0.8, 0.2
# How often, where others answer: a dead member never does, and it gets new
# connections meanwhile unless probes find it DOWN already.
_ROUNDS = 2
_DSCP_SHIFT = 2


class _Line(typing.Protocol):
    def fileno(self) -> int:
        """Return its descriptor."""

    def send(self, frames: abc.Iterable[bytes]) -> None:
        """Send frames."""

    def receive(self) -> typing.Any:
        """Return what came."""


@dataclasses.dataclass(frozen=True)
class Proof:
    """What was found out.

    :ivar proven: MAC addresses of members that bear such packets.
    :ivar refuse: of members that answered them; all others were silent.
    """

    proven: frozenset[str] = frozenset()
    refuse: frozenset[str] = frozenset()


class Questions:
    """What members are asked, and what they have said. Pure.

    :param macs: MAC addresses of whom to ask.
    """

    def __init__(self, document: doc.Document,
                 macs: abc.Collection[str]) -> None:
        self._document = document
        pair = doc.choose_probe(document)
        self._pair = pair
        self._left = set(macs) if pair else set()
        self._refuse: set[str] = set()
        # By the MAC address, our port and the number that an answer has:
        # whether that is to come.
        self._asked: dict[tuple[str, int, int], bool] = {}
        self._port = secrets.randbelow(probe_flows.FIRST_PORT)
        self._proven: set[str] = set()

    @property
    def proof(self) -> Proof:
        """What is known by now."""
        return Proof(frozenset(self._proven), frozenset(self._refuse))

    @property
    def left(self) -> int:
        """How many have not answered."""
        return len(self._left)

    def ask(self) -> list[bytes]:
        """Return frames to members that have not answered."""
        frames = []
        for mac in sorted(self._left):
            # As of one connection: no network changes their order, and no
            # firewall finds fault with the second one alone.
            self._port = (self._port + 1) % probe_flows.FIRST_PORT
            sequence, number = secrets.randbits(32), secrets.randbits(31)
            frames += [self._make(mac, sequence, number + is_plain, is_plain)
                       for is_plain in (False, True)]
        return frames

    def _make(self, mac: str, sequence: int, number: int,
              is_plain: bool) -> bytes:
        assert self._pair and self._document.probe
        port = probe_flows.FIRST_PORT + self._port
        self._asked[mac, port, number] = is_plain
        return probe_frames.Segment(
            self._document.port.mac, mac, self._pair.own, self._pair.vip,
            port, self._document.probe.ports[0], sequence, number,
            probe_frames.ACK,
            tos=0 if is_plain else doc.MARK << _DSCP_SHIFT).to_frame()

    def hear(self, frame: bytes) -> None:
        """Take a frame, of whatever."""
        answer = probe_frames.parse(frame)
        if answer is None or not answer.flags & probe_frames.RST:
            return
        mac = answer.source_mac
        is_expected = self._asked.get((mac, answer.target_port,
                                       answer.sequence))
        if is_expected is None:
            return
        self._left.discard(mac)
        if not is_expected:
            self._refuse.add(mac)
            self._proven.discard(mac)
        elif mac not in self._refuse:
            self._proven.add(mac)


def prove(line: _Line, document: doc.Document, macs: abc.Collection[str],
          patience: float = _PATIENCE) -> Proof:
    """Find out who bears packets of connections of others.

    :param line: into the bridge of the VIP, whose flows let answers in.
    :param patience: seconds.
    :returns: a Proof; of no member without probes.
    :raises VswitchUnavailable: if the line fails.
    """
    questions = Questions(document, macs)
    if not questions.left:
        return questions.proof
    poll = select.poll()
    poll.register(line, select.POLLIN)
    end = time.monotonic() + patience
    again, rounds, everybody = 0.0, 0, questions.left
    while questions.left and (now := time.monotonic()) < end:
        if now >= again:
            if rounds >= _ROUNDS and questions.left < everybody:
                break
            rounds += 1
            again = now + _AGAIN
            line.send(questions.ask())
        poll.poll(max(0.0, min(again, end) - now) * 1000)
        for frame in line.receive().frames:
            questions.hear(frame)
    return questions.proof
