# SPDX-License-Identifier: Apache-2.0

"""The way of a packet through the bridge of a VIP. Pure.

Frames come from the patch port. Frames for the VIP go back there, from the
distributor's own MAC address to that of a member. All others end here, but
answers to probes of members (probe_flows.py) and what others say of the VIP's
addresses (claims.py), which the process gets: nothing is ever sent anywhere
else.

    CLASSIFY        what is for the VIP; what all members are to know
    TCP             whether it begins a connection
    PINS            learned or told: the member of one connection (in OUT)
    HANDSHAKES      learned: the same, of connections that just began
    PINNED          where that is the way
    SHARED to HEARD what other distributors are told of that, see sharing.py
    PICK            by the base first, then by the mappings after it; by the
                    current one alone where no other matters
    AFTER           between two of them
    DECIDE          by all of them: who gets it
    BEGIN           who gets what begins, which is pinned
    DOUBLE          to each member that may have it
    OUTPUT          to the member; counts its packets
    ADVERTISE       second half of answering a neighbour solicitation
    CLAIMS, NEWS    who says that an address of the VIP were its own

A beginning of a connection never takes the way of an old pin: that is one of
before, with the same addresses and ports. It is replaced. That of a handshake
it takes, unless that member is to get no more: it was sent before, and may
have been answered.

A packet of an established connection that mappings do not agree about goes to
all members that they lead to, with a mark, its DSCP. Who does not know the
connection answers with a RST that has the same mark, and drops that itself,
see cluster/members/silent_vip.py. So nothing is remembered: after a learned
flow ovs-vswitchd translates all that is in its cache anew. It is done so where
members are proven to do that, see proof.py; connections of others are pinned.
"""

from collections import abc
import enum

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import answers
from octavia_hmsync.distributor.ovs import claims
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import probe_flows
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import transition as transitions

CLASSIFY, TCP, PINNED, PICK = 0, 10, 30, 40
PINS, HANDSHAKES = sharing.PINS, sharing.HANDSHAKES
AFTER, DECIDE, BEGIN, OUTPUT, DOUBLE, ADVERTISE = 50, 60, 65, 70, 75, 80

# Groups, those between come after the base; those of slots that stand for
# several targets have a multiple on top.
CURRENT, BASE = 1, 2
PEERS = 0x10000

# Registers: who has the slot in the base and now; who gets the packet, and
# how it is pinned; whether it begins a connection.
IN_BASE, IN_CURRENT, KIND = 'xreg0', 'xreg1', 'reg6'
OUT, PIN, MORE = sharing.OUT, sharing.PIN, sharing.MORE
ESTABLISHED, BEGINNING, NOT_TCP = 0, 1, 2
UNPINNED, YOUNG, OLD = sharing.UNPINNED, sharing.YOUNG, sharing.OLD
TOLD, DOUBTFUL = sharing.TOLD, sharing.DOUBTFUL
# A bit for each member that a mapping leads to. Clusters have no more than 64,
# and some that drain.
WHO, _BITS = 'xxreg3', 128
# Of what goes to several members.
_MARKED = f'set_field:{doc.MARK}->ip_dscp'
# The cache has flows of its own for what ends.
_ENDINGS: tuple[list[str], ...] = (
    [], ['tcp_flags=+fin'], ['tcp_flags=+rst'])
# So that the cache has a flow for each connection, and tells who has it.
_EACH = ('move:NXM_OF_TCP_SRC[]->NXM_NX_REG10[0..15]',
         'move:NXM_OF_TCP_DST[]->NXM_NX_REG10[16..31]')

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
    RETURNING: as ENOUGH, but the next packet makes another pin, since the
    first one keeps the time of another connection with the same port if that
    began while room was scarce.
    """

    ENOUGH = 0
    RETURNING = 1
    SCARCE = 2
    NONE = 3


def compile_vip(document: doc.Document,
                transition: transitions.Transition, in_port: int,
                pins_all: bool = False, room: Room = Room.ENOUGH,
                max_copied: int | None = None) -> openflow.Program:
    """Return what the bridge of a VIP has to do.

    :param in_port: OpenFlow port of the patch port.
    :param pins_all: whether each connection that begins is pinned, also one
                     that base and current mapping agree about.
    :param max_copied: packets in a second that all members get, of errors and
                       of fragments each; None for any number.
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
        self._unproven = sorted(transition.unproven)
        # Whether packets go to several members.
        self._doubles = transition.doubles
        self._numbers = {mac: number % _BITS for number, mac
                         in enumerate(sorted(transition.macs))}
        self._in_port = in_port
        self._pins = sharing.Pins(
            transitions.get_pin_timeout(document) + transitions.MARGIN,
            room in (Room.SCARCE, Room.NONE))
        self._room = room
        # Whether the pin of a beginning is followed by another one.
        self._is_followed = room is not Room.ENOUGH
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

    def _bit(self, *macs: str) -> int:
        """Return the bits of members in WHO."""
        bits = 0
        for mac in macs:
            bits |= 1 << self._numbers[mac]
        return bits

    def _clear(self, *macs: str) -> abc.Iterator[str]:
        if macs:
            yield f'set_field:0/{self._bit(*macs):#x}->{WHO}'

    def _make_groups(self) -> abc.Iterator[openflow.Group]:
        current = (CURRENT, self._transition.current, IN_CURRENT, DECIDE)
        formers = () if self._by_current else self._transition.formers
        yield from self._make_group(*current)
        for number, chosen in enumerate(formers):
            yield from self._make_group(
                BASE + number, chosen, None if number else IN_BASE,
                AFTER + number)

    def _make_group(self, number: int, chosen: mapping.Mapping,
                    register: str | None, table: int
                    ) -> abc.Iterator[openflow.Group]:
        fields = _FIELDS[chosen.affinity]
        buckets: list[tuple[int, tuple[str, ...]]] = []
        for slot, targets in chosen.slots:
            ways = tuple(
                (target.slot, self._note(target.mac, register, table))
                for target in targets)
            if not ways:
                # Its member is dead.
                buckets.append((slot, (_resubmit(table),)))
            elif len(ways) > 1:
                peers = PEERS * number + slot
                yield openflow.Group(peers, fields, ways)
                buckets.append((slot, (f'group:{peers}',)))
            else:
                buckets.append((slot, ways[0][1]))
        yield openflow.Group(number, fields, tuple(buckets))

    def _note(self, mac: str, register: str | None,
              table: int) -> tuple[str, ...]:
        bit = self._bit(mac)
        return (*((_load(mac, register),) if register else ()),
                *(() if self._by_current else
                  (f'set_field:{bit:#x}/{bit:#x}->{WHO}',)),
                _resubmit(table))

    def _classify(self) -> None:
        # Own frames, frames without a sender, and other VLANs.
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
        self._flows += probe_flows.make_flows(
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
        use to members without the first one. As one packet becomes
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
                      *(_EACH if self._doubles else ()),
                      f'set_field:{BEGINNING}->{KIND}', _resubmit(PINS),
                      _resubmit(HANDSHAKES), _resubmit(PICK))
            self._add(TCP, 10, [match], _resubmit(PINS),
                      _resubmit(HANDSHAKES), _resubmit(PINNED))
        for mac in self._living:
            self._add(PINNED, 20, [f'{PIN}={OLD}', _is(OUT, mac)],
                      *self._share(),
                      _resubmit(OUTPUT))
            self._add(PINNED, 20, [f'{PIN}={TOLD}', _is(OUT, mac)],
                      _resubmit(OUTPUT))
            self._follow_young(mac)
        for match in self._match_tcp():
            # Each of several may have it.
            self._add(PINNED, 20, [match, f'{PIN}={DOUBTFUL}'], _MARKED,
                      _resubmit(OUTPUT), *(
                          action for register in MORE for action in (
                              f'move:{register}->{sharing.OUT_MAC}',
                              _resubmit(OUTPUT))))
        self._add(PINNED, 0, [], _resubmit(PICK))

    def _follow_young(self, mac: str) -> None:
        is_young = [f'{PIN}={YOUNG}', _is(OUT, mac)]
        if self._doubles and not (
                self._unproven or self._is_followed) and (
                mac in self._transition.macs.difference(
                    self._transition.current.macs
                    if self._transition.is_full else ())):
            # A first packet with the same port goes to another member. What
            # is to be learned of it comes late where the cache knows its way,
            # and is wrong if that was the one of before the change. A member
            # that is to get its own alone would get all of it; a pin that may
            # be for a minute has to be followed by another one.
            bit = self._bit(mac)
            self._add(PINNED, 20, is_young, *self._share(),
                      f'set_field:{bit:#x}/{bit:#x}->{WHO}', _resubmit(PICK))
            return
        if not self._is_followed:
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
        if not (self._unproven or self._pins_all or
                self._transition.is_full):
            self._add(PICK, 10, [f'{KIND}={BEGINNING}'], f'group:{CURRENT}')
        self._add(PICK, 0, [], f'group:{BASE}')
        last = len(self._transition.formers) - 1
        for number in range(last):
            self._add(AFTER + number, 0, [], f'group:{BASE + number + 1}')
        # A packet would end in an empty group.
        self._add(AFTER + last, 0, [], f'group:{CURRENT}'
                  if self._transition.current.slots else _resubmit(DECIDE))

    def _decide_by_current(self) -> None:
        for pin in (YOUNG, OLD, TOLD, DOUBTFUL):
            self._add(DECIDE, 30, [f'{KIND}={BEGINNING}', f'{PIN}={pin}'],
                      _resubmit(BEGIN))
        for mac in sorted(self._transition.current.macs):
            self._add(DECIDE, 10, [_is(IN_CURRENT, mac)], *self._send(mac))
        self._begin_all()

    def _begin_all(self) -> None:
        """Pin all that comes to BEGIN."""
        for family, match in zip(self._families, self._match_tcp()):
            for mac in sorted(self._transition.current.macs):
                self._add(BEGIN, 10, [match, _is(IN_CURRENT, mac)],
                          *self._begin(family, mac))

    def _decide_by_both(self) -> None:
        base, current = self._transition.base, self._transition.current
        for pin in (YOUNG, OLD, TOLD, DOUBTFUL):
            self._add(DECIDE, 95, [f'{KIND}={BEGINNING}', f'{PIN}={pin}'],
                      _resubmit(BEGIN))
        for mac in sorted(current.macs):
            alone = [_is(IN_CURRENT, mac), f'{WHO}={self._bit(mac):#x}']
            self._add(DECIDE, 90, [f'{KIND}={ESTABLISHED}', *alone],
                      *self._send(mac))
            if not self._pins_all:
                # Of others all is pinned but what the base leads to.
                self._add(DECIDE, 90, [
                    f'{KIND}={BEGINNING}', *alone,
                    *([_is(IN_BASE, mac)] if mac in self._unproven else ())],
                    *self._send(mac))
        if self._pins_all or self._transition.is_full:
            self._add(DECIDE, 80, [f'{KIND}={BEGINNING}'], _resubmit(BEGIN))
        else:
            for mac in self._unproven:
                bit = self._bit(mac)
                self._add(DECIDE, 80, [f'{KIND}={BEGINNING}',
                                       f'{WHO}={bit:#x}/{bit:#x}'],
                          _resubmit(BEGIN))
            for mac in (sorted(base.macs & current.macs)
                        if self._room is Room.NONE else ()):
                self._add(BEGIN, 20, [f'{PIN}={UNPINNED}',
                                      _is(IN_BASE, mac)], *self._send(mac))
                # Its next packet may have been pinned before it is sent again,
                # or before Open vSwitch looks at it again in its cache.
                for pin in (OLD, TOLD):
                    self._add(BEGIN, 20, [f'{PIN}={pin}', _is(OUT, mac),
                                          _is(IN_BASE, mac)],
                              *self._send(mac))
        self._begin_all()
        for mac in sorted(base.macs):
            self._keep(mac)
        for mac in sorted(self._transition.proven & self._transition.macs):
            bit = self._bit(mac)
            for family, match in zip(self._families, self._match_tcp()):
                # Who had it by the base is dead.
                if not self._doubles:
                    self._pin_old(DECIDE, family, mac, [
                        match, f'{KIND}={ESTABLISHED}', f'{IN_BASE}=0',
                        f'{WHO}={bit:#x}/{bit:#x}'], _load(mac, OUT),
                        *self._share(), _resubmit(OUTPUT))
                    continue
                for number, flags in enumerate(_ENDINGS):
                    self._add(DECIDE, 15 + number, [
                        match, f'{KIND}={ESTABLISHED}', f'{IN_BASE}=0',
                        f'{WHO}={bit:#x}/{bit:#x}', *flags], *_EACH, _MARKED,
                        *self._clear(*self._unproven),
                        _resubmit(DOUBLE))
            self._add(DOUBLE, 10, [f'{WHO}={bit:#x}/{bit:#x}'],
                      *self._send(mac), *self._clear(mac),
                      _resubmit(DOUBLE))
        for mac in sorted(current.macs):
            self._add(DECIDE, 10, [_is(IN_CURRENT, mac)], *self._send(mac))

    def _keep(self, mac: str) -> None:
        """Send on what may be of a member of the base, or is for certain."""
        bits = self._bit(*self._unproven)
        for family, match in zip(self._families, self._match_tcp()):
            is_one = [match, f'{KIND}={ESTABLISHED}', _is(IN_BASE, mac)]
            pin = (_load(mac, OUT), *self._share(), _resubmit(OUTPUT))
            if mac in self._unproven or not self._doubles:
                self._pin_old(DECIDE, family, mac, is_one, *pin)
                continue
            bit, other = self._bit(mac), (1 << _BITS) - 1 & ~bits
            if bits:
                # All others pin what begins.
                self._pin_old(DECIDE, family, mac, [
                    *is_one, f'{WHO}={bit:#x}/{other:#x}'], *pin, above=20)
            for number, flags in enumerate(_ENDINGS):
                self._add(DECIDE, 20 + number, [*is_one, *flags], *_EACH,
                          _MARKED, *self._send(mac),
                          *self._clear(mac, *self._unproven),
                          _resubmit(DOUBLE))

    def _pin_old(self, table: int, family: int, mac: str, match: list[str],
                 *send: str, above: int = 0) -> None:
        """Pin an established connection, by a packet that may end it."""
        self._add(table, above + 20, match,
                  self._pins.learn(family, mac, OLD), *send)
        for flag, priority in sharing.ENDS.items():
            self._add(table, above + priority, [*match, f'tcp_flags={flag}'],
                      self._pins.learn(family, mac, OLD, ends=True), *send)

    def _begin(self, family: int, mac: str) -> tuple[str, ...]:
        """Pin a connection that begins, and say so."""
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
