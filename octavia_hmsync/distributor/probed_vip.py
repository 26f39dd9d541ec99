# SPDX-License-Identifier: Apache-2.0

"""Probes the members of one VIP, all of them in each round.

In a round the distributor sends each member a SYN to the VIP, at the member's
MAC address, and waits for answers. A member without an answer in time counts
as silent only after Open vSwitch has reported that it sent all of them and has
delivered what came, because Open vSwitch may be what is slow.

The distributor that has the VIP announces it now and then, as keepalived does.

At the peers port of members haproxy itself must answer, see peer_calls.py.

A member that claims an address of the VIP counts as one without an answer,
whatever else it does, and is contradicted.
"""

from collections import abc
import dataclasses
import math
import secrets

from oslo_log import log as logging

from octavia_hmsync.distributor import announcement
from octavia_hmsync.distributor import backend as backend_
from octavia_hmsync.distributor import claims as claims_
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import judgement
from octavia_hmsync.distributor import peer_calls
from octavia_hmsync.distributor import probe_frames
from octavia_hmsync.distributor import probe_results as results_
from octavia_hmsync.distributor import probe_rules
from octavia_hmsync.distributor import probe_tries
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Source ports of SYNs have this bit. Thousands of probes pass before a port is
# used again, since connection tracking may take it for an old connection.
FIRST_PORT = 0x8000
# In shares of the interval: the wait for answers, the wait for Open vSwitch,
# and the wait until it is tried again.
_PATIENCE = 0.5
_LAG = 5
_REDIAL = 1
# In shares of the interval: when old observations are forgotten.
_FORGET = 10
# Seconds for which a distributor repeats its announcement of a VIP.
_SAID_AGAIN = 41
# Seconds between two announcements of a VIP after that: it corrects neighbours
# and a distributor that have missed all of the others.
_REFRESH = 30
# Seconds since a controller last asked within which a VIP is announced. After
# that another distributor may have it. That one ignores this for _SAID_AGAIN.
_ASKED_WITHIN = 30
# Seconds until problems of a VIP's members are logged again.
_SILENCE = 600

_PROBED = (doc.ACTIVE, doc.DRAINING)


@dataclasses.dataclass
class _Round:
    """Probes in progress.

    :ivar tries: by MAC address.
    :ivar mark: what Open vSwitch was asked to report, if it was.
    """

    tries: dict[str, probe_tries.Try]
    begun: float
    mark: bytes | None = None


class ProbedVip:
    """A VIP whose members are probed. For one thread only.

    :param interval: seconds between two rounds.
    :param misses: after how many in a row a member is DOWN.
    :param now: when it begins.
    :param announce: called with the id of the VIP to announce it again; it
                     may raise VswitchUnavailable.
    :param are_lossy: tells whether Open vSwitch loses packets now, and
                      perhaps probes.
    :param leave: called with the id of the VIP and a version when another
                  distributor has announced the VIP since this one did.
    :param patience: seconds without any answer after which a haproxy hangs;
                     0 to ask no haproxy.
    """

    def __init__(self, vip_id: str, results: results_.Results, interval: float,
                 misses: int, now: float,
                 announce: abc.Callable[[str], None],
                 are_lossy: abc.Callable[[], bool] = lambda: False,
                 leave: abc.Callable[[str, int], None] = lambda *_: None,
                 patience: float = 0) -> None:
        self.vip_id = vip_id
        self._results = results
        self._interval = interval
        self._misses = misses
        self._document: doc.Document | None = None
        self._pair: doc.ProbePair | None = None
        self._members: dict[str, doc.Member] = {}
        self._verdicts: dict[str, probe_rules.Verdict] = {}
        self.line: backend_.Line | None = None
        self._round: _Round | None = None
        self._due = now
        self._next_full = now
        self._judged = now
        self._own_port = secrets.randbelow(FIRST_PORT)
        self._claims = claims_.Claims(vip_id, announce, self._hear_partner)
        self._are_lossy = are_lossy
        self._leave = leave
        self._has_left = False
        self._said = -math.inf
        # VIPs take turns.
        self._refresh_due = now + secrets.randbelow(_REFRESH)
        # When a controller last said something; since when this distributor
        # answers for the VIP; since when each member has its state.
        self._told_at = self._active_since = now
        self._since: dict[str, float] = {}
        # The judgement of members, all in all.
        self._states: dict[str, str | None] = {}
        self._calls = peer_calls.Calls(interval, patience)
        self._patience = patience
        # The peers of members, for calls of their haproxy.
        self._peers: dict[str, doc.Peer] = {}
        self._callers: dict[tuple[str, int], str] = {}
        self.left_out: frozenset[str] = frozenset()

    # What it is about

    @property
    def version(self) -> int | None:
        """Version of the document; None before there was one."""
        return self._document.version if self._document else None

    def follow(self, document: doc.Document, now: float) -> None:
        """Probe the members of this document from now on.

        :param now: seconds of any clock.
        """
        if document is self._document:
            return
        self._note_version(document, now)
        members = {member.id: member for member in document.members
                   if member.state in _PROBED and member.mac}
        for member_id in set(self._members) - set(members):
            self._verdicts.pop(member_id, None)
            self._results.note(self.vip_id, member_id, results_.GONE)
        for member_id, member in members.items():
            before = self._members.get(member_id)
            if before is None or before.mac != member.mac:
                self._verdicts[member_id] = probe_rules.Verdict()
                self._states.pop(member_id, None)
                self._peers.pop(member_id, None)
                self._results.note(self.vip_id, member_id, results_.UNKNOWN)
        # Probes in progress may concern other members, or an old state.
        self._round = None
        self._members, self._document = members, document
        self._pair = doc.choose_probe(document)
        peers = doc.choose_peers(document, self._pair)
        self._calls.keep([member_id for member_id, peer in peers.items()
                          if self._peers.get(member_id) == peer and
                          member_id in members])
        self._peers = peers
        self._callers = {(peer.address, peer.port): member_id
                         for member_id, peer in peers.items()}

    def _note_version(self, document: doc.Document, now: float) -> None:
        before = self._document
        if before is not None and before.version == document.version:
            return
        self._told_at = now
        # The data plane announces the VIP in these cases.
        if (before is None or self._has_left or not before.active or
                document.version > before.version + 1):
            self._active_since = now
        self._has_left = False
        self.left_out = frozenset()

    def _hear_partner(self, mac: str, now: float) -> None:
        assert self._document
        # Old announcements may be repeated for a while.
        if (self._document.active and not self._has_left and
                now - self._active_since > _SAID_AGAIN):
            self._has_left = True
            LOG.warning('VIP %s: another distributor (%s) has announced it. '
                        'This one answers for it no more until a controller '
                        'says otherwise: see whether controllers reach it.',
                        self.vip_id, mac)
            self._leave(self.vip_id, self._document.version)

    def _choose_left_out(self, now: float) -> None:
        assert self._document
        before = self.left_out
        self.left_out = judgement.choose_left_out(
            self._document.members,
            {member_id: (state, self._since[member_id])
             for member_id, state in self._states.items()
             if state and member_id in self._members},
            before, self._told_at, now)
        for member_id in self.left_out - before:
            LOG.warning('VIP %s: the member %s does not answer, and no '
                        'controller has said anything of it: it gets no new '
                        'connections. See whether controllers reach this '
                        'distributor.', self.vip_id, member_id)

    def end(self) -> None:
        """Stop probing members."""
        self.hang_up()
        for member_id in self._members:
            self._results.note(self.vip_id, member_id, results_.GONE)

    def hang_up(self) -> None:
        """Close the line; probes in progress are dropped."""
        self._round = None
        self._calls.hang_up(self._judged)
        if self.line is not None:
            self.line.close()
            self.line = None

    # What is to be done

    def step(self, now: float, dial: abc.Callable[[str], backend_.Line],
             may_begin: bool) -> None:
        """Do what is due.

        :param dial: called with the id of the VIP for a line, if there is
                     none.
        :param may_begin: whether a round may begin: the data plane matches
                          the document.
        :raises VswitchUnavailable: if that fails; the line is closed then.
        """
        self._forget(now)
        if self._round is not None:
            self._go_on(self._round, now)
        elif (may_begin and now >= self._due and self._pair and
              self._members):
            try:
                self._begin(now, dial)
            except exceptions.VswitchUnavailable:
                self._due = now + _REDIAL * self._interval
                self.hang_up()
                raise

    def _forget(self, now: float) -> None:
        if now - self._judged > _FORGET * self._interval:
            self._judged = now
            for member_id in self._members:
                self._verdicts[member_id] = probe_rules.Verdict()
                self._states[member_id] = None
                self._results.note(self.vip_id, member_id, results_.UNKNOWN)

    def _begin(self, now: float,
               dial: abc.Callable[[str], backend_.Line]) -> None:
        if self.line is None:
            self.line = dial(self.vip_id)
        is_full = now >= self._next_full
        if is_full:
            self._next_full = now + self._interval
        self._round = _Round({
            str(member.mac): self._make_try(member)
            for member in self._members.values()
            if is_full or self._verdicts[member.id].is_in_doubt}, now)
        self.line.send([
            *self._refresh(now),
            *(frame for one in self._round.tries.values()
              for frame in one.make_frames()),
            *(frame for member_id in self._members
              if is_full and member_id in self._peers
              for frame in self._calls.call(member_id, now, self._make_syn))])

    def _refresh(self, now: float) -> list[bytes]:
        """Return frames that announce the VIP, if that is due."""
        assert self._document
        if now < self._refresh_due or now - self._active_since <= _SAID_AGAIN:
            return []
        self._refresh_due = now + _REFRESH
        if (not self._document.active or self._has_left or
                self._results.get_silence() > _ASKED_WITHIN):
            return []
        return [frame for address in self._document.addresses
                for frame in announcement.make_frames(
                    address, self._document.port.mac)]

    def _make_syn(self, member_id: str) -> probe_frames.Segment:
        assert self._document and self._pair
        peer = self._peers[member_id]
        return probe_frames.Segment(
            self._document.port.mac, str(self._members[member_id].mac),
            self._pair.own, peer.address, self._take_port(), peer.port,
            secrets.randbits(32), 0, probe_frames.SYN)

    def _take_port(self) -> int:
        # A probe uses two ports, one for each of its frames.
        self._own_port = (self._own_port + 2) % FIRST_PORT & ~1
        return FIRST_PORT + self._own_port

    def _make_try(self, member: doc.Member) -> probe_tries.Try:
        assert self._document and self._document.probe and self._pair
        ports = self._document.probe.ports
        verdict = self._verdicts[member.id]
        return probe_tries.Try(
            member, self._pair, self._document.port.mac,
            ports[verdict.turn % len(ports)], self._take_port(),
            secrets.randbits(32),
            secrets.randbits(32) if verdict.is_in_doubt or
            verdict.state == probe_rules.DOWN or self._misses == 1 else None)

    def _go_on(self, current: _Round, now: float) -> None:
        waited = now - current.begun
        if all(one.is_done for one in current.tries.values()):
            self._judge(current, now)
        elif waited > (_PATIENCE + _LAG) * self._interval:
            self._due = now
            self.hang_up()
            raise exceptions.VswitchUnavailable(
                f'ovs-vswitchd has not said for {waited:.1f} s that it sent '
                f'what it was told.')
        elif waited > _PATIENCE * self._interval and current.mark is None:
            assert self.line
            current.mark = secrets.token_bytes(8)
            self.line.send([], current.mark)

    # What comes

    def hear(self, now: float) -> bool:
        """Take what has arrived on the line.

        :returns: whether there may be more.
        :raises VswitchUnavailable: if the line is dead; it is closed then.
        """
        if self.line is None:
            return False
        try:
            heard = self.line.receive()
            replies = [reply for frame in heard.frames
                       for reply in self._take(frame, now)]
            if replies:
                self.line.send(replies)
        except exceptions.VswitchUnavailable:
            self._due = now + _REDIAL * self._interval
            self.hang_up()
            raise
        current = self._round
        if current and (current.mark in heard.marks or all(
                one.is_done for one in current.tries.values())):
            self._judge(current, now)
        return heard.is_more

    def _take(self, frame: bytes, now: float) -> list[bytes]:
        """Take an answer, or a claim, if it is one.

        :returns: the frames to send back: once for each probe, and only to
                  members that are being probed.
        """
        answer = probe_frames.parse(frame)
        if answer is None:
            if self._document is not None:
                self._claims.hear(frame, self._document, now)
            return []
        caller = self._callers.get((answer.source, answer.source_port))
        if caller is not None:
            return self._calls.take(caller, answer, now)
        one = self._round and self._round.tries.get(answer.source_mac)
        reset = one.take(answer) if one else None
        return [] if reset is None else [reset]

    def _judge(self, current: _Round, now: float) -> None:
        self._round, self._judged = None, now
        misses = self._misses
        # Members that are DOWN already need no excuse.
        if any(one.error == probe_rules.SILENT and
               self._verdicts[one.member.id].state != probe_rules.DOWN
               for one in current.tries.values()) and self._are_lossy():
            misses += probe_rules.EXCUSED
        for one in current.tries.values():
            member_id = one.member.id
            before = self._verdicts[member_id]
            verdict = self._verdicts[member_id] = probe_rules.judge(
                before, one.error, misses)
            self._calls.note(member_id, one.error in (None, probe_rules.FULL),
                             now)
            if verdict.state == probe_rules.UP and self._calls.is_hung(
                    member_id):
                verdict = dataclasses.replace(
                    verdict, state=probe_rules.DOWN, error=probe_rules.HANGS)
            if verdict.state != self._states.get(member_id):
                self._states[member_id] = verdict.state
                self._since[member_id] = now
            if self._claims.holds(one.member.mac, now):
                self._results.note(self.vip_id, member_id, probe_rules.DOWN,
                                   claims_.CLAIMS)
            elif verdict.state is not None and self._results.note(
                    self.vip_id, member_id, verdict.state, verdict.error):
                self._say(one.member, verdict, now)
        is_in_doubt = any(verdict.is_in_doubt
                          for verdict in self._verdicts.values())
        self._due = now if is_in_doubt else self._next_full
        self._choose_left_out(now)

    def _say(self, member: doc.Member, verdict: probe_rules.Verdict,
             now: float) -> None:
        if verdict.error == probe_rules.HANGS:
            LOG.warning('VIP %s: the haproxy of the member %s has answered '
                        'nothing for %g s, and its system lives: it hangs. '
                        'See what it does, or replace the member.',
                        self.vip_id, member.id, self._patience)
        # Under too much load this comes and goes.
        if verdict.error == probe_rules.FULL and now - self._said > _SILENCE:
            self._said = now
            LOG.warning('VIP %s: the member %s takes no more connections: '
                        'raise connection_limit of its listeners, or give '
                        'the cluster more members.', self.vip_id,
                        member.id)
