# SPDX-License-Identifier: Apache-2.0

"""A switch that does what a Program says, as far as tests need it."""

import collections
import hashlib
import re

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import sharing

SYN, ACK, FIN, RST = 'syn', 'ack', 'fin', 'rst'
_PROTOCOLS = {'tcp': (4, 6), 'tcp6': (6, 6), 'udp': (4, 17), 'udp6': (6, 17),
              'sctp': (4, 132), 'sctp6': (6, 132), 'icmp': (4, 1),
              'icmp6': (6, 58), 'ip': (4, None), 'ipv6': (6, None),
              'arp': ('arp', None)}
_NAMES = {'nw_src': 'src', 'nw_dst': 'dst', 'ipv6_src': 'src',
          'ipv6_dst': 'dst', 'arp_tpa': 'dst', 'arp_spa': 'src'}
_COPIED = {'NXM_OF_IP_SRC[]': 'src', 'NXM_OF_IP_DST[]': 'dst',
           'NXM_NX_IPV6_SRC[]': 'src', 'NXM_NX_IPV6_DST[]': 'dst',
           'OXM_OF_PKT_REG2[]': 'xreg2',
           'NXM_OF_TCP_SRC[]': 'tcp_src', 'NXM_OF_TCP_DST[]': 'tcp_dst'}
_REGISTERS = {'OXM_OF_PKT_REG2[0..47]': 'xreg2', 'NXM_NX_REG7[]': 'reg7',
              'NXM_NX_REG9[]': 'reg9'}

_MOVED = dict(zip(sharing.MORE, sharing.MORE_REGISTERS))

Learned = collections.namedtuple(
    'Learned', 'table match values cookie idle hard fin_idle')


def packet(src, port, dst='10.0.0.5', flags=(ACK,), proto=6, frag='no',
           eth_dst='fa:16:3e:00:00:99', eth_src='52:54:00:00:00:01',
           **fields):
    """A packet, as a dict."""
    return {'in_port': 1, 'eth_src': eth_src, 'eth_dst': eth_dst,
            'vlan': False, 'family': 6 if ':' in dst else 4, 'proto': proto,
            'src': src, 'dst': dst, 'frag': frag, 'flags': set(flags),
            'tcp_src': port if frag != 'later' else 0,
            'tcp_dst': 80 if frag != 'later' else 0, **fields}


class Switch:
    """Has a Program, and what flows have learned.

    :param limit: of flows in each table that are learned
    :ivar sent: MAC addresses to which the last packet went
    :ivar are_marked: of each of them, whether it had the mark
    :ivar metered: whether the last packet was counted by a meter
    :ivar told: frames of the last packet for other distributors
    """

    def __init__(self, now=0.0, limit=1000):
        self.program = None
        self._limit = limit
        self.pins = {sharing.PINS: {}, sharing.HANDSHAKES: {},
                     sharing.SHARED: {}}
        self.now = now
        self.sent, self.told = [], []

    def install(self, program, living):
        """Replace the program; pins of others than the living are gone."""
        self.program = program
        self._tables = collections.defaultdict(list)
        for flow in program.flows:
            self._tables[flow.table].append(flow)
        for flows in self._tables.values():
            flows.sort(key=lambda flow: -flow.priority)
        self._groups = {group.id: group for group in program.groups}
        macs = {sharing.to_number(mac) for mac in living}
        for pins in self.pins.values():
            for key, (pin, used, idle) in list(pins.items()):
                if pin.values.get('reg7') == sharing.DOUBTFUL:
                    del pins[key]
                    self._keep_living(pin, macs, used, idle)
                elif pin.values.get('xreg2') not in macs:
                    del pins[key]

    def _keep_living(self, pin, macs, used, idle):
        """What the distributor makes of one that may be of several."""
        registers = ('xreg2', *sharing.MORE_REGISTERS)
        left = [pin.values[one] for one in registers
                if pin.values.get(one) in macs]
        if left:
            values = dict(zip(registers, left))
            values['reg7'] = (sharing.TOLD if len(left) == 1
                              else sharing.DOUBTFUL)
            self.pins[sharing.PINS][tuple(sorted(pin.match.items()))] = (
                pin._replace(values=values), used, idle)

    def receive(self, frame, learns=True):
        """Take a packet.

        :param learns: False for one that the data path knows the way of: what
                       is to be learned of it is returned, to be passed to
                       learn() later
        :returns: a list of Learned
        """
        self.sent, self.told, self._learned = [], [], []
        self.are_marked = []
        self.metered = False
        self._run(dict(frame), pipeline.CLASSIFY)
        if not learns:
            return self._learned
        self.learn(self._learned)
        return []

    def take(self, pins, timeout):
        """Have the pins of a recorder."""
        for pin in pins:
            key = pin.key
            match = {'family': key.family, 'src': key.source,
                     'tcp_src': key.port, 'dst': key.target,
                     'tcp_dst': key.target_port, 'proto': 6}
            values = dict(zip(('xreg2', *sharing.MORE_REGISTERS),
                              map(sharing.to_number, pin.macs)))
            values['reg7'] = (sharing.TOLD if len(pin.macs) == 1
                              else sharing.DOUBTFUL)
            name = tuple(sorted(match.items()))
            if name not in self.pins[sharing.PINS]:
                # One that a packet has made is more than that.
                self.pins[sharing.PINS][name] = (
                    Learned(sharing.PINS, match, values, 0, timeout, None,
                            None), self.now, timeout)

    def get_taken(self):
        """What take() was given, as far as it is there; taken away."""
        taken = []
        for name, (pin, _, _) in list(self.pins[sharing.PINS].items()):
            if pin.values['reg7'] in (sharing.TOLD, sharing.DOUBTFUL):
                match = pin.match
                taken.append(recorder.Pin(recorder.Key(
                    match['family'], match['src'], match['tcp_src'],
                    match['dst'], match['tcp_dst']), tuple(
                        _to_mac(pin.values[register]) for register in
                        ('xreg2', *sharing.MORE_REGISTERS)
                        if register in pin.values)))
        return taken

    def forget_taken(self):
        for name, (pin, _, _) in list(self.pins[sharing.PINS].items()):
            if pin.values['reg7'] in (sharing.TOLD, sharing.DOUBTFUL):
                del self.pins[sharing.PINS][name]

    def learn(self, learned):
        for one in learned:
            pins = self.pins[one.table]
            key = tuple(sorted(one.match.items()))
            if key in pins:
                # As Open vSwitch does: timeouts stay.
                before, _, idle = pins[key]
                pins[key] = (one._replace(hard=before.hard), self.now, idle)
            elif len(pins) < self._limit:
                pins[key] = (one, self.now, one.idle)

    def expire(self):
        for pins in self.pins.values():
            for key, (pin, used, idle) in list(pins.items()):
                if self.now - used >= (pin.hard or idle):
                    del pins[key]

    def _run(self, frame, table):
        if table in self.pins:
            key = self._find_pin(frame, table)
            if key:
                pin, used, idle = self.pins[table][key]
                frame.update(pin.values)
                if pin.fin_idle and frame['flags'] & {FIN, RST}:
                    idle = min(idle, pin.fin_idle)
                self.pins[table][key] = (
                    pin, used if pin.hard else self.now, idle)
            return
        for flow in self._tables[table]:
            if all(_matches(term, frame) for term in flow.match):
                for action in flow.actions:
                    self._do(action, frame)
                return

    def _find_pin(self, frame, table):
        return next((key for key in self.pins[table] if all(
            frame.get(name) == value for name, value in key)), None)

    def _do(self, action, frame):
        if action.startswith('clone('):
            *fields, last = action[6:-1].split(',')
            assert last == 'in_port'
            one = dict(frame)
            for field in fields:
                self._do(field, one)
            self.told.append({name: value for name, value in one.items()
                              if 'reg' not in name})
        elif action.startswith('meter:'):
            self.metered = True
        elif action == 'in_port':
            self.sent.append(frame['eth_dst'])
            self.are_marked.append(frame.get('ip_dscp') == doc.MARK)
        elif action.startswith('resubmit(,'):
            self._run(frame, int(action[10:-1]))
        elif action.startswith('group:'):
            self._select(self._groups[int(action[6:])], frame)
        elif action.startswith('learn('):
            self._learned.append(_parse_learn(action, frame))
        elif action.startswith('set_field:'):
            value, name = action[10:].split('->')
            if 'reg' in name or name in ('nw_ttl', 'ip_dscp'):
                number, _, mask = value.partition('/')
                mask = int(mask or '-1', 0)
                value = (frame.get(name, 0) & ~mask) | (int(number, 0) & mask)
            frame[name] = value
        elif action.startswith('move:'):
            source, target = action[5:].split('->')
            if target in _REGISTERS:
                frame[_REGISTERS[target]] = frame.get(_MOVED[source], 0)
        else:
            raise AssertionError(action)

    def _select(self, group, frame):
        fields = {'ip_src': 'src', 'ipv6_src': 'src'}
        ported = frame['frag'] != 'later' and frame['proto'] in (6, 17, 132)
        values = {name: frame[fields.get(name, 'tcp_src')]
                  for name in group.fields if name in fields or ported}
        chosen = max(group.buckets, default=None, key=lambda bucket: (
            hashlib.md5(f'{sorted(values.items())} {bucket[0]}'.encode(),
                        usedforsecurity=False).digest()))
        # What a bucket does to a packet is not seen after the group.
        one = dict(frame)
        for action in chosen[1] if chosen else ():
            self._do(action, one)


def _to_mac(number):
    text = f'{number:012x}'
    return ':'.join(text[at:at + 2] for at in range(0, 12, 2))


def _matches(term, frame):
    name, _, value = term.partition('=')
    if name in _PROTOCOLS:
        family, proto = _PROTOCOLS[name]
        return frame['family'] == family and proto in (None, frame['proto'])
    if term == 'tcp_flags=+syn-ack':
        return SYN in frame['flags'] and ACK not in frame['flags']
    if name == 'tcp_flags':
        return value[1:] in frame['flags']
    if name == 'vlan_tci':
        return frame['vlan']
    if name == 'eth_src' and '/' in value:
        return int(frame['eth_src'][:2], 16) & 1 == 1
    if name == 'nw_frag':
        return frame['frag'] == value
    if 'reg' in name or name in ('in_port', 'nw_ttl'):
        number, _, mask = value.partition('/')
        return frame.get(name, 0) & int(mask or '-1', 0) == int(number, 0)
    return str(frame.get(_NAMES.get(name, name))) == value


def _parse_learn(action, frame):
    options, match, values = {}, {'family': frame['family']}, {}
    for term in re.split(r',(?![^(]*\))', action[6:-1]):
        name, _, value = term.partition('=')
        if term in _COPIED:
            match[_COPIED[term]] = frame[_COPIED[term]]
        elif name == 'nw_proto':
            match['proto'] = int(value)
        elif term.startswith('load:'):
            loaded, register = term[5:].split('->')
            values[_REGISTERS[register]] = int(loaded, 0)
        else:
            options[name] = int(value, 0)
    assert options.pop('eth_type') == {4: 0x800, 6: 0x86dd}[frame['family']]
    options.pop('priority')
    learned = Learned(options.pop('table'), match, values,
                      options.pop('cookie', 0),
                      options.pop('idle_timeout', None),
                      options.pop('hard_timeout', None),
                      options.pop('fin_idle_timeout', None))
    # A limit, above all: each one would cost as much as there are.
    assert not options, options
    return learned
