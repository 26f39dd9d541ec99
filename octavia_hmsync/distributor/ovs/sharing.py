# SPDX-License-Identifier: Apache-2.0

"""Pins, and what other distributors of a VIP are told of them. Pure.

Where two mappings differ, only its pin says whose a connection is, so the
distributor that takes the VIP over needs it. A packet that pins an established
connection goes to the other distributors, too, with the slot of the member in
its TTL. They pin that connection likewise, and send nothing. They are told
again when a connection goes on, INTERVAL later, so that they forget it no
sooner than this one does and a late one hears of all; and at its end. Of a
beginning that is pinned they are told as well: its next packet may come to
them.

    SHARED      learned: connections that the others have been told of
    SHARE       whether they are to be told
    COPY        tells them
    HEARD       what they tell
"""

from collections import abc

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import answers
from octavia_hmsync.distributor.ovs import openflow

PINS, HANDSHAKES = 20, 25
SHARED, SHARE, COPY, HEARD = 32, 34, 36, 38

# Registers: who gets the packet, and how it is pinned; whether the others are
# to be told; whether they have been.
_OUT = 2
OUT, PIN, IS_NEWS, IS_SHARED = f'xreg{_OUT}', 'reg7', 'reg8', 'reg9'
OUT_MAC = 'OXM_OF_PKT_REG2[0..47]'
# Of a pin that may be of one of several: the others. What else these are for
# does not matter to who has a pin.
MORE_REGISTERS = ('xreg5', 'xreg6', 'xreg7', 'xreg0')
MORE = tuple(f'OXM_OF_PKT_REG{name[-1]}[0..47]' for name in MORE_REGISTERS)
# Pinned by a beginning, by another packet; by this process, to one or several
# members, see recorder.py. The last is no pin.
UNPINNED, YOUNG, OLD, TOLD, DOUBTFUL, _NOTED = range(6)
# All tables with flows that are learned: Open vSwitch bounds each. With a
# limit in the action itself it would count all of them for each new one.
LEARNED = (PINS, HANDSHAKES, SHARED)

# Seconds. A handshake must be over by then, else a flood of beginnings
# would leave as many pins for as long as connections may be silent. They have
# a table of their own, because a flow that is learned anew with other actions
# keeps the timeouts that it had.
YOUNG_TIMEOUT = 60
# A client that has said all may still wait for an answer.
FIN_TIMEOUT = 120
# Seconds until the others are told again: less than FIN_TIMEOUT, so that
# they do not forget a client that only listens. What was told is forgotten at
# once of all: each by itself would be a change of a table for each connection.
INTERVAL = 60
# The same where it is not forgotten, as the process does not run.
LONGEST_INTERVAL = 300

# Flags of packets that end a connection; one may have both.
ENDS = {'+fin': 30, '+rst': 40}
# Actions for a packet that others are to hear of, whatever they know.
TELL = (f'set_field:1->{IS_NEWS}', f'resubmit(,{COPY})')
_PIN_PRIORITY = 10
# A slot is less.
_TTL = 255
_MAC_BITS = 0xffffffffffff
_PROTOCOLS = {4: 'tcp', 6: 'tcp6'}
# What of a packet is in a flow that is learned from it.
_SAME_PACKETS = {
    4: 'eth_type=0x800,NXM_OF_IP_SRC[],NXM_OF_IP_DST[]',
    6: 'eth_type=0x86dd,NXM_NX_IPV6_SRC[],NXM_NX_IPV6_DST[]'}


def to_number(mac: str) -> int:
    """Return a MAC address as OpenFlow has it in a register."""
    return int(mac.replace(':', ''), 16)


def get_pin_cookie(mac: str, kind: int = 0) -> int:
    """Return the cookie of the pins of a member.

    :param kind: YOUNG or OLD; of neither, it is part of both.
    """
    return kind << 48 | to_number(mac)


def match_sent(mac: str, table: int) -> openflow.Match:
    """Return what matches the flow of a table that sends to a member."""
    return openflow.Match(table, register=(_OUT, to_number(mac)))


def match_pins(mac: str, table: int = PINS) -> openflow.Match:
    """Return what matches all pins of a member.

    :param table: PINS or HANDSHAKES.
    """
    return openflow.Match(table, get_pin_cookie(mac), _MAC_BITS)


class Pins:
    """Learns pins.

    :param timeout: seconds for which a silent connection has one.
    :param is_scarce: whether beginnings are to be forgotten soon, unless
                      another packet follows.
    """

    def __init__(self, timeout: int, is_scarce: bool = False) -> None:
        self._timeout = timeout
        self.is_scarce = is_scarce

    def learn(self, family: int, mac: str, kind: int, grace: int = 0,
              ends: bool = False) -> str:
        """Return the action that pins a connection.

        :param family: 4 or 6.
        :param kind: YOUNG or OLD.
        :param grace: seconds that the pin lives longer.
        :param ends: whether this packet ends it.
        """
        table = HANDSHAKES if kind == YOUNG else PINS
        if kind == YOUNG and self.is_scarce:
            timeouts = f'hard_timeout={YOUNG_TIMEOUT}'
        else:
            # A repeated one keeps what is left of the time of the old pin.
            fin_timeout = min(self._timeout, FIN_TIMEOUT)
            idle_timeout = fin_timeout if ends else self._timeout + grace
            timeouts = (f'idle_timeout={idle_timeout},'
                        f'fin_idle_timeout={fin_timeout}')
        return self._make(family, mac, kind, table, timeouts,
                          f'load:{to_number(mac):#x}->{OUT_MAC},'
                          f'load:{kind}->NXM_NX_REG7[]')

    def note(self, family: int, mac: str) -> str:
        """Return the action that notes that the others are told.

        Where there is no room to note it, they are told by each packet that
        no cache knows the way of.
        """
        return self._make(family, mac, _NOTED, SHARED,
                          f'hard_timeout={LONGEST_INTERVAL}',
                          # Of this member.
                          'OXM_OF_PKT_REG2[],load:1->NXM_NX_REG9[]')

    def _make(self, family: int, mac: str, kind: int, table: int,
              options: str, loads: str) -> str:
        return (
            f'learn(table={table},priority={_PIN_PRIORITY},'
            f'cookie={get_pin_cookie(mac, kind):#x},'
            f'{options},{_SAME_PACKETS[family]},nw_proto=6,'
            f'NXM_OF_TCP_SRC[],NXM_OF_TCP_DST[],{loads})')


def make_flows(document: doc.Document, living: abc.Iterable[str], pins: Pins,
               ) -> abc.Iterator[openflow.Flow]:
    """Return flows that tell others, and believe them; none if there are none.

    :param living: MAC addresses of members that are not dead.
    """
    if not document.partners:
        return
    known = set(living)
    slots = {member.mac: member.slot for member in document.members
             if member.mac and member.mac in known}
    yield openflow.Flow(SHARE, 20, (f'{IS_SHARED}=1',), ())
    for family in sorted({answers.get_family(address)
                          for address in document.addresses}):
        tcp = _PROTOCOLS[family]
        for flag in ('+fin', '+rst'):
            ends = f'tcp_flags={flag}'
            yield openflow.Flow(SHARE, ENDS[flag], (tcp, ends), TELL)
            yield openflow.Flow(HEARD, ENDS[flag], (tcp, ends),
                                (f'resubmit(,{PINS})',
                                 f'resubmit(,{HANDSHAKES})'))
        for mac, slot in slots.items():
            is_out = f'{OUT}={to_number(mac):#x}'
            yield openflow.Flow(SHARE, 10, (tcp, is_out), (
                pins.note(family, mac), *TELL))
            yield openflow.Flow(
                COPY, 10, (tcp, f'{IS_NEWS}=1', is_out),
                tuple(f'clone(set_field:{_TTL - slot}->nw_ttl,'
                      f'set_field:{document.port.mac}->eth_src,'
                      f'set_field:{partner}->eth_dst,in_port)'
                      for partner in document.partners))
            yield openflow.Flow(
                HEARD, 20, (tcp, 'tcp_flags=+syn-ack',
                            f'nw_ttl={_TTL - slot}'),
                (pins.learn(family, mac, YOUNG, LONGEST_INTERVAL),))
            yield openflow.Flow(
                HEARD, 10, (tcp, f'nw_ttl={_TTL - slot}'),
                # Its packets, as it were.
                (f'resubmit(,{PINS})',
                 pins.learn(family, mac, OLD, LONGEST_INTERVAL)))


def make_hearing(document: doc.Document, here: abc.Sequence[str],
                 protocol: str, to_vip: str, table: int,
                 ) -> abc.Iterator[openflow.Flow]:
    """Return the flows by which others are heard.

    :param here: what matches frames for this distributor.
    :param protocol: tcp or tcp6.
    :param to_vip: what matches one address of the VIP.
    :param table: that sees a frame first.
    """
    for partner in document.partners:
        yield openflow.Flow(
            table, _HEARING, (*here, f'eth_src={partner}', protocol, to_vip),
            (f'resubmit(,{HEARD})',))


# Above all that forwards.
_HEARING = 600
