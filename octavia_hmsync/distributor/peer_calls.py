# SPDX-License-Identifier: Apache-2.0

"""Calls at members' peers port, where haproxy itself must answer. Pure.

A member's system accepts connections even if haproxy hangs. So each member is
asked for something that only haproxy can answer, at the port of its stick
tables' peers, which is no tenant's listener: haproxy gets nonsense, answers
that it does not understand, and closes the connection. No connection limit
applies there, and the tenant sees nothing in logs or counters.

A busy haproxy answers late. So haproxy hangs only if it accepted a call and
has sent nothing for long. If the system's answers to probes come through
meanwhile, an answer of haproxy, which the system repeats, would come as well.
If nothing answers at that port, for example because of a security group, the
state is unknown.
"""

from collections import abc
import dataclasses

from octavia_hmsync.distributor import probe_frames
from octavia_hmsync.distributor import probe_rules

# No version of the peers protocol begins with it.
HELLO = b'\n'
# In shares of the interval between two rounds: the time between two calls; the
# time until a call is lost; the most that counts of a round.
_EVERY, _LOST, _COUNTS = 3, 5, 2
# Seconds for which a call waits for a hanging haproxy, which accepts a few.
_KEEP = 60
# How often the same segment is sent.
_REPEATS = 5


@dataclasses.dataclass
class Call:
    """A call at one member, in progress.

    :ivar first: the SYN.
    :ivar is_taken: whether its system has received the data for haproxy.
    :ivar is_answered: whether haproxy has sent anything.
    """

    first: probe_frames.Segment
    is_taken: bool = False
    is_done: bool = False
    is_answered: bool = False
    repeats: int = 0

    def take(self, answer: probe_frames.Segment) -> list[bytes]:
        """Take a segment from the member; return the frames to send to it."""
        said = self.first.sequence + 1
        heard = said + len(HELLO)
        if self.is_done or (
                (answer.source_mac, answer.target_port) !=
                (self.first.target_mac, self.first.source_port)):
            return []
        if answer.flags & probe_frames.RST:
            self.is_done = True
        elif not answer.flags & probe_frames.ACK:
            return []
        elif answer.flags & probe_frames.SYN:
            if (answer.acknowledged == said % 2 ** 32 and
                    self.repeats < _REPEATS):
                self.repeats += 1
                return [self._speak(answer).to_frame()]
        elif answer.acknowledged == heard % 2 ** 32:
            self.is_taken = True
            if answer.payload or answer.flags & probe_frames.FIN:
                self.is_done = self.is_answered = True
                return [probe_frames.make_reset(answer).to_frame()]
        return []

    def _speak(self, answer: probe_frames.Segment) -> probe_frames.Segment:
        return dataclasses.replace(
            self.first, sequence=answer.acknowledged,
            acknowledged=(answer.sequence + 1) % 2 ** 32,
            flags=probe_frames.ACK | probe_frames.PSH, payload=HELLO)

    def end(self) -> bytes:
        """Return the frame that resets it."""
        return dataclasses.replace(
            self.first, flags=probe_frames.RST, sequence=(
                self.first.sequence + 1 + len(HELLO)) % 2 ** 32).to_frame()


@dataclasses.dataclass
class _Called:
    """The state of one member.

    :ivar due: when it is called next.
    :ivar call: the Call, if one is in progress.
    :ivar waited: seconds for which it could have been heard.
    :ivar counted: up to when.
    :ivar hits: how often it has answered since.
    """

    due: float
    call: Call | None = None
    begun: float = 0.0
    waited: float = 0.0
    counted: float = 0.0
    is_hung: bool = False
    hits: int = 0


class Calls:
    """The calls at the members of one VIP. For one thread only.

    :param interval: seconds between two rounds.
    :param patience: seconds without any answer after which haproxy hangs; 0
                     for no calls at all.
    """

    def __init__(self, interval: float, patience: float) -> None:
        self._interval = interval
        self._patience = patience
        self._called: dict[str, _Called] = {}

    def keep(self, member_ids: abc.Collection[str]) -> None:
        """Forget all other members."""
        self._called = {key: one for key, one in self._called.items()
                        if key in member_ids}

    def call(self, member_id: str, now: float,
             make_syn: abc.Callable[[str], probe_frames.Segment]
             ) -> list[bytes]:
        """Call a member, if it is due.

        :param make_syn: called with its id, returns the SYN of the call.
        :returns: the frames to send.
        """
        if not self._patience:
            return []
        one = self._called.setdefault(member_id, _Called(now))
        frames = []
        if one.call is not None and now - one.begun > (
                _KEEP if one.call.is_taken else _LOST * self._interval):
            frames.append(one.call.end())
            self._end(one, now)
        if one.call is None and now >= one.due:
            one.call = Call(make_syn(member_id))
            one.begun = one.counted = now
            one.waited = 0.0
            frames.append(one.call.first.to_frame())
        return frames

    def take(self, member_id: str, answer: probe_frames.Segment,
             now: float) -> list[bytes]:
        """Take a segment from the peers port of a member.

        :returns: the frames to send to it.
        """
        one = self._called.get(member_id)
        if one is None or one.call is None:
            return []
        frames = one.call.take(answer)
        if not one.call.is_done:
            return frames
        # A process that refuses it is not the one that hung.
        one.hits += 1
        if not one.call.is_answered or one.hits >= probe_rules.HITS:
            one.is_hung = False
        self._end(one, now)
        if one.is_hung:
            one.due = now
        return frames

    def _end(self, one: _Called, now: float) -> None:
        one.call, one.due = None, now + _EVERY * self._interval

    def note(self, member_id: str, is_heard: bool, now: float) -> None:
        """Note that a round is over.

        :param is_heard: whether the system of the member has answered in it.
        """
        one = self._called.get(member_id)
        if one is None or one.call is None:
            return
        if is_heard and one.call.is_taken:
            one.waited += min(now - one.counted, _COUNTS * self._interval)
        one.counted = now
        if one.waited > self._patience:
            one.is_hung, one.hits = True, 0

    def is_hung(self, member_id: str) -> bool:
        """Tell whether the haproxy of a member hangs."""
        one = self._called.get(member_id)
        return one is not None and one.is_hung

    def hang_up(self, now: float) -> None:
        """Drop calls in progress: their answers would be lost."""
        for one in self._called.values():
            one.call, one.due = None, now
