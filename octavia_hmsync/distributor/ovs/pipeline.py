# SPDX-License-Identifier: Apache-2.0

"""The way of a packet through the bridge of a VIP. Pure.

Frames come from the patch port, and those that are for the VIP go back there,
from the distributor's own MAC address to that of a member. All others end
here, but answers to looks at members (looks.py) and what others say of the
VIP's addresses (claims.py), which the process gets: nothing is ever sent
anywhere else.

    CLASSIFY        what is for the VIP; what all members are to know
    TCP             whether it begins a connection
    PINS            learned: the member of one connection (in OUT)
    HANDSHAKES      learned: the same, of those that have just begun
    PINNED          where that is the way
    SHARED to HEARD what other distributors are told of that, see sharing.py
    PICK            by the base first, then by the current mapping, or by the
                    latter alone if they are the same
    AFTER_BASE      between the two
    DECIDE          which of the two; whether the connection is to be pinned
    OUTPUT          to the member; counts its packets
    ADVERTISE       second half of answering a neighbour solicitation
    CLAIMS, NEWS    who says that an address of the VIP were its own

A beginning of a connection never takes the way of an old pin: that is one of
before, with the same addresses and ports. It is replaced. That of a handshake
it takes, unless that member is to get no more: it was sent before, and may
have been answered.
"""

from collections import abc
import enum

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import answers
from octavia_hmsync.distributor.ovs import claims
from octavia_hmsync.distributor.ovs import looks
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import transition as transitions

CLASSIFY, TCP, PINNED, PICK = 0, 10, 30, 40
PINS, HANDSHAKES = sharing.PINS, sharing.HANDSHAKES
AFTER_BASE, DECIDE, OUTPUT, ADVERTISE = 50, 60, 70, 80

# Groups; those of slots that stand for several targets come on top.
CURRENT, BASE = 1, 2
CURRENT_PEERS, BASE_PEERS = 0x10000, 0x20000

# Registers: who has the slot in the base and now; who gets the packet, and
# how it is pinned; whether it begins a connection.
IN_BASE, IN_CURRENT, KIND = 'xreg0', 'xreg1', 'reg6'
OUT, PIN = sharing.OUT, sharing.PIN
ESTABLISHED, BEGINNING, NOT_TCP = 0, 1, 2
UNPINNED, YOUNG, OLD = sharing.UNPINNED, sharing.YOUNG, sharing.OLD

_SOURCE_FIELDS = ('ip_src', 'ipv6_src')
_FIELDS = {
    doc.SOURCE_IP: _SOURCE_FIELDS,
    # Each applies where a packet has it.
    doc.FLOW: (*_SOURCE_FIELDS, 'tcp_src', 'udp_src', 'sctp_src')}
# Of ICMP and ICMPv6: unreachable, time exceeded, parameter problem; too big.
_ERRORS = {4: (3, 11, 12), 6: (1, 2, 3, 4)}
_ECHO = {4: 8, 6: 128}
# Meters, so that a flood of either leaves room for the other.
_ERROR, _FRAGMENT = 0, 1


class Room(enum.Enum):
    """For how many more pins there is room.

    ENOUGH: a pin of a beginning is for good, so that a connection costs one
    change of a table. SCARCE, as in a flood of beginnings: it is for a minute,
    and the next packet makes another one. NONE: what begins goes by the base
    as long as who it leads to gets new connections, and needs no pin.
    """

    ENOUGH = 0
    SCARCE = 1
    NONE = 2


def compile_vip(document: doc.Document,
                transition: transitions.Transition, in_port: int,
                pins_all: bool = False, room: Room = Room.ENOUGH,
                max_copied: int | None = None) -> openflow.Program:
    """Return what the bridge of a VIP has to do.

    :param document: the VIP document.
    :param transition: where it stands.
    :param in_port: OpenFlow port of the patch port.
    :param pins_all: whether each connection that begins is pinned, also one
                     that base and current mapping agree about.
    :param room: for how many pins there is room.
    :param max_copied: packets in a second that all members get, of errors and
                       of fragments each; None for any number.
    :returns: a Program.
    """
    return _Compiler(document, transition, in_port, pins_all, room,
                     max_copied).compile()


def _load(mac: str, register: str) -> str:
    return f'set_field:{sharing.to_number(mac):#x}->{register}'


def _is(register: str, mac: str) -> str:
    return f'{register}={sharing.to_number(mac):#x}'


def _resubmit(table: int) -> str:
    return f'resubmit(,{table})'


class _Compiler:

    def __init__(self, document: doc.Document,
                 transition: transitions.Transition, in_port: int,
                 pins_all: bool, room: Room,
                 max_copied: int | None) -> None:
        self._document = document
        self._transition = transition
        self._pins_all = pins_all
        self._by_current = transition.is_over and not pins_all
        self._in_port = in_port
        self._pins = sharing.Pins(
            transitions.get_pin_timeout(document) + transitions.MARGIN,
            room is not Room.ENOUGH)
        self._room = room
        self._meters = () if max_copied is None else tuple(
            openflow.Meter(kind, max_copied) for kind in (_ERROR, _FRAGMENT))
        self._mac = document.port.mac
        self._living = sorted(mapping.get_living(document))
        # Of the addresses of the VIP.
        self._families = sorted({answers.get_family(address)
                                 for address in document.addresses})
        self._flows: list[openflow.Flow] = []

    def compile(self) -> openflow.Program:
        self._classify()
        self._follow_pins()
        self._pick()
        if self._by_current:
            self._decide_by_current()
        else:
            self._decide_by_both()
        self._output()
        self._flows.extend(sharing.make_flows(self._document, self._living,
                                              self._pins))
        return openflow.Program(tuple(self._make_groups()),
                                tuple(self._flows), self._meters)

    def _add(self, table: int, priority: int, match: abc.Iterable[str],
             *actions: str) -> None:
        self._flows.append(openflow.Flow(table, priority, tuple(match),
                                         actions))

    def _make_groups(self) -> abc.Iterator[openflow.Group]:
        kinds = [(CURRENT, CURRENT_PEERS, self._transition.current,
                  IN_CURRENT, DECIDE)]
        if not self._by_current:
            kinds.append((BASE, BASE_PEERS, self._transition.base, IN_BASE,
                          AFTER_BASE))
        for number, peers, chosen, register, table in kinds:
            fields = _FIELDS[chosen.affinity]
            buckets: list[tuple[int, tuple[str, ...]]] = []
            for slot, targets in chosen.slots:
                ways = tuple(
                    (target.slot, (_load(target.mac, register),
                                   _resubmit(table))) for target in targets)
                if len(ways) > 1:
                    yield openflow.Group(peers + slot, fields, ways)
                    buckets.append((slot, (f'group:{peers + slot}',)))
                else:
                    buckets.append((slot, ways[0][1]))
            yield openflow.Group(number, fields, tuple(buckets))

    def _classify(self) -> None:
        # Own frames, those of nobody, and whatever is in another VLAN.
        self._add(CLASSIFY, 900, [f'eth_src={self._mac}'])
        self._add(CLASSIFY, 900,
                  ['eth_src=01:00:00:00:00:00/01:00:00:00:00:00'])
        self._add(CLASSIFY, 900, ['vlan_tci=0x1000/0x1000'])
        for address in self._document.addresses:
            for flow in answers.make_flows(
                    address, self._mac, self._in_port, CLASSIFY, ADVERTISE,
                    self._document.active):
                self._flows.append(flow)
            self._classify_traffic(address)
        self._flows += looks.make_flows(
            self._document, self._in_port, self._living, CLASSIFY, ADVERTISE)
        self._flows += claims.make_flows()

    def _classify_traffic(self, address: str) -> None:
        family = answers.get_family(address)
        suffix = '' if family == 4 else '6'
        here = [f'in_port={self._in_port}', f'eth_dst={self._mac}']
        to_vip = ('nw_dst=' if family == 4 else 'ipv6_dst=') + address
        icmp = f'icmp{suffix}'
        for number in _ERRORS[family]:
            self._add(CLASSIFY, 500, [*here, icmp, to_vip,
                                      f'icmp_type={number}'],
                      *self._copy(_ERROR))
        self._add(CLASSIFY, 400, [*here, 'ip' if family == 4 else 'ipv6',
                                  'nw_frag=later', to_vip],
                  *self._copy(_FRAGMENT))
        self._flows.extend(sharing.make_hearing(
            self._document, here, f'tcp{suffix}', to_vip, CLASSIFY))
        self._add(CLASSIFY, 300, [*here, f'tcp{suffix}', to_vip],
                  _resubmit(TCP))
        other = (f'set_field:{NOT_TCP}->{KIND}', _resubmit(PICK))
        for match in (f'udp{suffix}', f'sctp{suffix}'):
            self._add(CLASSIFY, 300, [*here, match, to_vip], *other)
        self._add(CLASSIFY, 300, [*here, icmp, to_vip,
                                  f'icmp_type={_ECHO[family]}'], *other)

    def _copy(self, kind: int) -> abc.Iterator[str]:
        """Return what sends a packet to all members.

        Whose it is, only a member knows. A fragment without ports is of no
        use to those that have not got the first one. As one packet becomes
        many, there is a limit.
        """
        yield from (meter.action for meter in self._meters
                    if meter.kind == kind)
        yield f'set_field:{self._mac}->eth_src'
        for mac in self._living:
            yield f'set_field:{mac}->eth_dst'
            yield 'in_port'

    def _follow_pins(self) -> None:
        for match in self._match_tcp():
            self._add(TCP, 20, [match, 'tcp_flags=+syn-ack'],
                      f'set_field:{BEGINNING}->{KIND}', _resubmit(PINS),
                      _resubmit(HANDSHAKES), _resubmit(PICK))
            self._add(TCP, 10, [match], _resubmit(PINS),
                      _resubmit(HANDSHAKES), _resubmit(PINNED))
        for mac in self._living:
            self._add(PINNED, 20, [f'{PIN}={OLD}', _is(OUT, mac)],
                      *self._share(),
                      _resubmit(OUTPUT))
            self._follow_young(mac)
        self._add(PINNED, 0, [], _resubmit(PICK))

    def _follow_young(self, mac: str) -> None:
        is_young = [f'{PIN}={YOUNG}', _is(OUT, mac)]
        if not self._pins.is_scarce:
            self._add(PINNED, 20, is_young, *self._share(),
                      _resubmit(OUTPUT))
            return
        for family, match in zip(self._families, self._match_tcp()):
            self._pin_old(PINNED, family, mac, [match, *is_young],
                          *self._share(), _resubmit(OUTPUT))

    def _match_tcp(self) -> list[str]:
        return [{4: 'tcp', 6: 'tcp6'}[family] for family in self._families]

    def _pick(self) -> None:
        for mac in sorted(self._transition.current.macs):
            self._add(PICK, 20, [f'{KIND}={BEGINNING}', f'{PIN}={YOUNG}',
                                 _is(OUT, mac)], _resubmit(OUTPUT))
        if self._by_current:
            self._add(PICK, 0, [], f'group:{CURRENT}')
            return
        self._add(PICK, 10, [f'{KIND}={NOT_TCP}'], f'group:{CURRENT}')
        self._add(PICK, 0, [], f'group:{BASE}')
        # With nobody to choose from it would end there.
        self._add(AFTER_BASE, 0, [], f'group:{CURRENT}'
                  if self._transition.current.slots else _resubmit(DECIDE))

    def _decide_by_current(self) -> None:
        for mac in sorted(self._transition.current.macs):
            for family, match in zip(self._families, self._match_tcp()):
                for pin in (YOUNG, OLD):
                    self._add(DECIDE, 30, [
                        match, f'{KIND}={BEGINNING}', f'{PIN}={pin}',
                        _is(IN_CURRENT, mac)],
                        *self._begin(family, mac))
            self._add(DECIDE, 10, [_is(IN_CURRENT, mac)], *self._send(mac))

    def _decide_by_both(self) -> None:
        base, current = self._transition.base, self._transition.current
        for mac in sorted(base.macs & current.macs):
            both = [_is(IN_BASE, mac), _is(IN_CURRENT, mac)]
            self._add(DECIDE, 50, [f'{KIND}={ESTABLISHED}', *both],
                      *self._send(mac))
            if not self._pins_all:
                self._add(DECIDE, 50, [f'{KIND}={BEGINNING}',
                                       f'{PIN}={UNPINNED}',
                                       *(both[:1] if self._room is Room.NONE
                                         else both)],
                          *self._send(mac))
        for family, match in zip(self._families, self._match_tcp()):
            for mac in sorted(base.macs):
                self._pin_old(DECIDE, family, mac, [
                    match, f'{KIND}={ESTABLISHED}', _is(IN_BASE, mac)],
                    _load(mac, OUT), *self._share(), _resubmit(OUTPUT))
            for mac in sorted(current.macs):
                self._add(DECIDE, 30, [match, f'{KIND}={BEGINNING}',
                                       _is(IN_CURRENT, mac)],
                          *self._begin(family, mac))
        for mac in sorted(current.macs):
            self._add(DECIDE, 10, [f'{KIND}={NOT_TCP}',
                                   _is(IN_CURRENT, mac)], *self._send(mac))

    def _pin_old(self, table: int, family: int, mac: str, match: list[str],
                 *send: str) -> None:
        """Pin one that is established, by a packet that may end it."""
        self._add(table, 20, match, self._pins.learn(family, mac, OLD), *send)
        for flag, priority in sharing.ENDS.items():
            self._add(table, priority, [*match, f'tcp_flags={flag}'],
                      self._pins.learn(family, mac, OLD, ends=True), *send)

    def _begin(self, family: int, mac: str) -> tuple[str, ...]:
        """Pin one that begins, and say so."""
        tell: tuple[str, ...] = ()
        if self._document.partners:
            # A pin that is for good is told of once.
            tell = (*(() if self._pins.is_scarce else
                      (self._pins.note(family, mac),)), *sharing.TELL)
        return (self._pins.learn(family, mac, YOUNG), _load(mac, OUT), *tell,
                _resubmit(OUTPUT))

    def _send(self, mac: str) -> tuple[str, ...]:
        return _load(mac, OUT), _resubmit(OUTPUT)

    def _share(self) -> tuple[str, ...]:
        return ((_resubmit(sharing.SHARED), _resubmit(sharing.SHARE))
                if self._document.partners else ())

    def _output(self) -> None:
        for mac in self._living:
            self._add(OUTPUT, 10, [_is(OUT, mac)],
                      f'set_field:{self._mac}->eth_src',
                      f'set_field:{mac}->eth_dst', 'in_port')
