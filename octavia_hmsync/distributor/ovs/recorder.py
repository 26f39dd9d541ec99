# SPDX-License-Identifier: Apache-2.0

"""Whose connections are, as the cache of the data path shows. Pure.

While packets of a connection go to several members, see pipeline.py, nothing
is remembered of it. Before a mapping of before is forgotten, connections that
live on must be pinned. Each that has packets has a flow in the cache, for
as long as other_config:max-idle (10 s) after the last one, so a
reader that comes more often sees all of them. Who has a connection is known

* if the cache showed a packet of it just before members changed,
* if it showed its first packet, long enough after they changed: that of one
  from before may be shown as if it had gone where it would go now.

All others are pinned to all members that may have it.

That is remembered for as long as a connection may be silent.
"""

import collections
from collections import abc
import dataclasses
import math
import re
import sys
import typing

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import sharing

_FLOW = re.compile(
    r'eth\(src=[0-9a-f:]+,dst=(?P<vip>[0-9a-f:]+)\).*'
    r'ipv(?P<family>[46])\(src=(?P<src>[0-9a-f.:]+),dst=(?P<dst>[0-9a-f.:]+),'
    r'[^)]*proto=6[,)].*\btcp\(src=(?P<sport>\d+)(,dst=(?P<dport>\d+))?\)'
    r'.*actions:(?P<actions>.*)')
_FLAGS = re.compile(r'tcp_flags\(([^)]*)\)')
_TARGET = re.compile(r'set\(eth\([^)]*dst=([0-9a-f:]{17})')
_MARKED = re.compile(r'set\(ipv[46]\(.*?(?:tos|tclass)='
                     f'{doc.MARK << 2:#x}[/,)]')
# At rest a flow is for any port of the VIP.
ANY = 0
_UNKNOWN = '?'
# How many targets a pin may have.
_MOST = 1 + len(sharing.MORE)
# Less than that of pins that are learned.
PRIORITY = 8
# Seconds above other_config:max-idle: Open vSwitch looks over its cache twice
# a second, later if it is busy.
_LATE = 5
# Of the cookie of a pin: that the distributor stands by.
WAITS = 1 << 54
_KIND_SHIFT = 48
WAITING = openflow.Match(sharing.PINS, WAITS, WAITS)
CERTAIN, DOUBTFUL = (openflow.Match(
    sharing.PINS, kind << _KIND_SHIFT, 0x7 << _KIND_SHIFT)
    for kind in (sharing.TOLD, sharing.DOUBTFUL))


class Key(typing.NamedTuple):
    """A connection: family, address and port of the client and of the VIP."""

    family: int
    source: str
    port: int
    target: str
    target_port: int


@dataclasses.dataclass(frozen=True)
class Pin:
    """Where packets of a connection go.

    :ivar macs: the member, or all that may have it.
    :ivar ends: whether its client has ended it.
    """

    key: Key
    macs: tuple[str, ...]
    ends: bool = False

    def to_text(self, timeout: int | None) -> str:
        """Return the flow, as ovs-ofctl takes it.

        :param timeout: seconds for which it may be silent; None if it is not
                        forgotten: the distributor stands by.
        """
        key, first = self.key, self.macs[0]
        kind = (sharing.TOLD if len(self.macs) == 1 else sharing.DOUBTFUL)
        cookie = (sharing.get_pin_cookie(first, kind) if len(self.macs) == 1
                  # With one of its members it is not gone.
                  else kind << _KIND_SHIFT)
        times = end = ''
        if timeout is None:
            cookie |= WAITS
        else:
            if timeout > sharing.FIN_TIMEOUT:
                # With its end, as that of one that is learned.
                end = f',fin_timeout(idle_timeout={sharing.FIN_TIMEOUT})'
            times = 'idle_timeout=%d,' % (
                min(timeout, sharing.FIN_TIMEOUT) if self.ends else timeout)
        protocol, source, target = openflow.TCP[key.family]
        registers = (sharing.OUT, *sharing.MORE_REGISTERS)
        actions = [f'set_field:{sharing.to_number(mac):#x}->{register}'
                   for mac, register in zip(self.macs, registers)]
        return (f'flow add cookie={cookie:#x},table={sharing.PINS},'
                f'priority={PRIORITY},{times}{protocol},'
                f'{source}={key.source},{target}={key.target},'
                f'tcp_src={key.port},tcp_dst={key.target_port},actions='
                f'{",".join(actions)},set_field:{kind}->{sharing.PIN}{end}')

    def to_json(self) -> list[typing.Any]:
        """Return what from_json() takes."""
        return [*self.key[1:], list(self.macs)]

    @classmethod
    def from_json(cls, raw: abc.Sequence[typing.Any]) -> 'Pin':
        """Return the pin that to_json() was called on."""
        source, port, target, target_port, macs = raw
        return cls(Key(6 if ':' in source else 4, source, port, target,
                       target_port), tuple(macs))


@dataclasses.dataclass(frozen=True)
class Seen:
    """A flow of the cache.

    :ivar vip: the MAC address of the VIP.
    :ivar macs: to whom it goes; the member of the base first.
    :ivar is_marked: whether that is who may have it.
    """

    vip: str
    key: Key
    macs: tuple[str, ...]
    is_marked: bool
    begins: bool
    ends: bool
    is_reset: bool


def read(lines: abc.Iterable[str]) -> abc.Iterator[Seen]:
    """Read flows of the data path, as "dpctl/dump-flows" shows them."""
    for line in lines:
        found = _FLOW.search(line)
        if found is None:
            continue
        shown = _FLAGS.search(line)
        flags = shown[1] if shown else ''
        # What many connections have in common takes memory once.
        macs = tuple(dict.fromkeys(map(
            sys.intern, _TARGET.findall(found['actions']))))
        if macs:
            yield Seen(found['vip'], Key(
                int(found['family']), found['src'], int(found['sport']),
                sys.intern(found['dst']), int(found['dport'] or ANY)), macs,
                bool(_MARKED.search(found['actions'])),
                '+syn' in flags and '-ack' in flags, '+fin' in flags,
                '+rst' in flags)


@dataclasses.dataclass(slots=True)
class _Known:
    """A connection whose packets go to several members.

    :ivar macs: to whom.
    :ivar at: when it was seen last.
    :ivar ended: when its end was seen last.
    :ivar is_in_order: whether they are in the order of the mappings that
                       there are.
    """

    macs: tuple[str, ...]
    at: float
    ended: float = -math.inf
    is_in_order: bool = False


class Recorder:
    """What is known of the connections of one VIP.

    :param idle: seconds for which the cache has a flow without packets.
    :param most: how many connections are remembered.
    :param now: seconds since the epoch.
    """

    def __init__(self, idle: float, most: int, now: float) -> None:
        self._idle = idle
        self._most = most
        # Since when nothing was missed; inf if something is at the moment.
        self.known_since = math.inf
        self._read_at = -math.inf
        # What the cache has of before may be shown as it would go now.
        self._changed_at = self._ordered_at = now
        # The member, and when the connection was seen last.
        self._owners: dict[Key, tuple[str, float]] = {}
        # Connections without another packet yet.
        self._begun: dict[Key, tuple[str, float]] = {}
        self._known: dict[Key, _Known] = {}

    def change(self, seen: abc.Iterable[Seen], now: float) -> None:
        """Note that members change after seen, of this VIP, was read."""
        self._changed_at = now
        self.reorder(now)
        for one in seen:
            if len(one.macs) == 1 and not (one.begins or one.is_reset) and (
                    one.key in self._owners or
                    len(self._owners) < 2 * self._most):
                self._owners[one.key] = one.macs[0], now
        self._begun.clear()
        if self.known_since > now:
            self.known_since = self._read_at = now

    def reorder(self, now: float) -> None:
        """Note that there are other mappings."""
        self._ordered_at = now
        for known in self._known.values():
            known.is_in_order = False

    def _find(self, key: Key) -> Key | None:
        """Return the key by which it is known who has a connection."""
        for one in (key, key._replace(target_port=ANY)):
            if one in self._owners:
                return one
        return None

    def _get_owner(self, key: Key) -> str | None:
        found = self._find(key)
        return self._owners[found][0] if found else None

    def miss(self) -> None:
        """Note that the cache could not be read, or is not complete."""
        self.known_since = math.inf

    def note(self, seen: abc.Collection[Seen], now: float,
             timeout: float, took: float = 0.0) -> None:
        """Note what the cache has.

        :param now: seconds since the epoch, when it began to be read.
        :param timeout: seconds for which a connection may be silent.
        :param took: seconds that reading it took.
        """
        # A packet that came just after the last reading had begun may have
        # been missed by it, and its flow may end before this one does.
        if (now + took - self._read_at > self._idle or
                self.known_since > now):
            self.known_since = now
        self._read_at = now
        are_told = now - self._changed_at > self._idle + _LATE
        for one in seen:
            if not one.begins:
                continue
            if are_told:
                self._begun[one.key] = one.macs[0], now
            if self._find(one.key):
                # The same address and port once more.
                self._owners[one.key] = (
                    one.macs[0] if are_told else _UNKNOWN, now)
        # A reset comes after all others.
        for one in sorted(seen, key=lambda one: one.is_reset):
            if one.begins:
                continue
            begun = self._begun.pop(one.key, None)
            if one.is_marked and begun:
                self._owners[one.key] = begun[0], now
            elif found := self._find(one.key):
                self._owners[found] = self._owners[found][0], now
            if one.is_marked:
                self._note_one(one, now)
        self._forget(now, timeout)

    def _note_one(self, one: Seen, now: float) -> None:
        if one.is_reset:
            self._known.pop(one.key, None)
            self._owners.pop(one.key, None)
            if self._find(one.key):
                self._owners[one.key] = _UNKNOWN, now
            return
        known = self._known.setdefault(one.key, _Known(one.macs, now))
        known.macs, known.at = one.macs, now
        known.is_in_order = now - self._ordered_at > _LATE
        if one.ends:
            known.ended = now

    def _forget(self, now: float, timeout: float) -> None:
        ends = min(timeout, sharing.FIN_TIMEOUT)
        for key in [key for key, known in self._known.items()
                    if now - known.at > timeout or (
                        now - known.ended > ends and
                        known.at - known.ended <= self._idle)]:
            del self._known[key]
            self._owners.pop(key, None)
        for key in [key for key, (_, at) in self._begun.items()
                    if now - at > sharing.YOUNG_TIMEOUT]:
            del self._begun[key]
        # Else one that lives may not have been seen.
        if now - self.known_since > timeout:
            for key in [key for key, (_, at) in self._owners.items()
                        if now - at > timeout]:
                del self._owners[key]
        if len(self._known) + len(self._begun) > 2 * self._most:
            self.miss()
            self._begun.clear()

    def count(self, now: float, timeout: float
              ) -> tuple[abc.Mapping[str, int], bool]:
        """Return how many connections each member may have, of those known.

        :param timeout: seconds for which a connection may be silent.
        :returns: also whether all are known.
        """
        counted: collections.Counter[str] = collections.Counter()
        for key, known in self._known.items():
            owner = self._get_owner(key)
            counted.update([owner] if owner in known.macs else known.macs)
        return counted, now - self.known_since > timeout

    def find_pins(self, current_only: bool,
                  living: abc.Container[str]) -> list[Pin]:
        """Return the pins that connections need when a mapping is forgotten.

        :param current_only: whether there were two mappings, and the current
                             one alone is left.
        :param living: MAC addresses of members that are not dead.
        """
        pins = []
        for key, known in self._known.items():
            macs = [mac for mac in known.macs if mac in living]
            owner = self._get_owner(key)
            if owner in macs:
                if current_only and known.is_in_order and len(
                        known.macs) == 2 and owner == known.macs[1]:
                    # It goes there anyway.
                    continue
                macs = [owner]
            if macs:
                pins.append((known.at, Pin(key, tuple(macs[:_MOST]),
                                           known.ended > -math.inf and
                                           known.at - known.ended <=
                                           self._idle)))
        pins.sort(key=lambda pair: (pair[1].ends, -pair[0]))
        return [pin for _, pin in pins[:self._most]]


_PIN = re.compile(
    r'cookie=(?P<cookie>0x[0-9a-f]+),.*(?:nw|ipv6)_src=(?P<src>[0-9a-f.:]+),'
    r'(?:nw|ipv6)_dst=(?P<dst>[0-9a-f.:]+),(?:tcp|tp)_src=(?P<sport>\d+),'
    r'(?:tcp|tp)_dst=(?P<dport>\d+) actions=(?P<actions>.*)')
_LOADED = re.compile(
    r'(0x[0-9a-f]+)->(?:xreg[02567]|OXM_OF_PKT_REG[02567]\[\])')


def read_pins(lines: abc.Iterable[str]) -> abc.Iterator[Pin]:
    """Read pins of all kinds.

    :param lines: flows of PINS and HANDSHAKES, as ovs-ofctl shows them.
    """
    for line in lines:
        found = _PIN.search(line)
        if found is None:
            continue
        macs = []
        for number in _LOADED.findall(found['actions']):
            text = f'{int(number, 16):012x}'
            macs.append(':'.join(text[at:at + 2] for at in range(0, 12, 2)))
        if macs:
            yield Pin(Key(6 if ':' in found['src'] else 4, found['src'],
                          int(found['sport']), found['dst'],
                          int(found['dport'])), tuple(macs))


def waits(flow: str) -> bool:
    """Tell of a pin whether its distributor stands by.

    :param flow: as ovs-ofctl shows it.
    """
    found = _PIN.search(flow)
    return bool(found and int(found['cookie'], 16) & WAITS)


def get_timeout(flow: str) -> int:
    """Return the seconds for which a pin may be silent.

    :param flow: as ovs-ofctl shows it.
    """
    found = re.search(r'idle_timeout=(\d+)', flow)
    return int(found[1]) if found else sharing.FIN_TIMEOUT
