# SPDX-License-Identifier: Apache-2.0

"""What a new connection costs two distributors before and after a change.

Real Open vSwitch (netdev), raw frames: each connection is a SYN, an ACK and a
FIN, 10 ms apart, from an address and port that never come again. All that
members get is looked at: whether it came, and whether all three came to one
member, which others may have got some of, too. Members are taken for such as
bear that, unless --learn is given.
"""

import argparse
import collections
import contextlib
import select
import socket
import struct
import threading
import time

import fixtures
import psutil

from benchmarks import report
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import proof
from octavia_hmsync import exceptions
from tests.functional.distributor import fabric
from tests.functional.distributor import raw

COLUMNS = ['rate', 'event', 'when', 'open', 'lost', 'sent', 'passed',
           'split', 'cpu_ms', 'to_rest', 'other_ms', 'flows', 'pins', 'mb']

REST, ADD, DRAIN, REPLACE, AFFINITY = (
    'rest', 'add', 'drain', 'replace', 'affinity')
EVENTS = (ADD, DRAIN, REPLACE, AFFINITY)

_ID = '11111111-1111-4111-8111-1111111111{:02x}'
_OTHER_ID = '22222222-2222-4222-8222-222222222222'
_MEMBERS = 4
_TICK = 0.01
_SYN, _ACK, _FIN = 0x02, 0x10, 0x11
_STEPS = (_SYN, _ACK, _FIN)
_AT = 14 + 20
_KEPT_PORTS = 50000
# Seconds: longer than any change lasts.
_LONG = 2 * 3600
# Seconds for which a connection may be silent, where changes come to their end
# by themselves.
_SHORT = 30


def make_frame(client, port_mac, source, port, flags):
    """Return a TCP frame for the VIP, without checksums."""
    return b''.join((
        raw.mac(port_mac), raw.mac(client.mac), b'\x08\x00',
        struct.pack('!BBHHHBBH', 0x45, 0, 40, 1, 0, 64, 6, 0), source,
        socket.inet_aton(fabric.VIP),
        struct.pack('!HHIIBBHHH', port, fabric.PORT, 1, 1, 0x50, flags, 1000,
                    0, 0)))


class Load:
    """New connections, at a steady rate, by a thread; also old ones.

    :param host: who sends.
    :param mac: of the VIP.
    :ivar sent: how many connections began.
    :ivar kept: how many stay open.
    """

    def __init__(self, host, mac):
        self.host, self.mac = host, mac
        self.rate = 0
        self.sent = 0
        self.kept = 0
        self._ends = False
        self._tap = raw.Tap(host)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._tap.setUp()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ends = True
        self._thread.join()
        self._tap.cleanUp()

    def keep(self, count):
        """Open connections; each says something once in 8 s from now on."""
        for number in range(self.kept, self.kept + count):
            for flags in (_SYN, _ACK):
                self._send(*self.get_kept(number), flags)
            if number % 20 == 0:
                time.sleep(_TICK)
        self.kept += count

    @staticmethod
    def get_kept(number):
        """Return address and port of an open connection."""
        return (socket.inet_aton(f'198.19.{number >> 8}.{number & 255}'),
                _KEPT_PORTS)

    def _send(self, source, port, flags):
        with contextlib.suppress(OSError):
            self._tap.send(make_frame(self.host, self.mac, source, port,
                                      flags))

    def _run(self):
        due, turns = 0.0, 0.0
        recent = collections.deque([[], []], maxlen=2)
        number = turn = 0
        following = time.monotonic()
        while not self._ends:
            due += self.rate * _TICK
            new = []
            while due >= 1:
                due -= 1
                number += 1
                new.append((struct.pack(
                    '!BBH', 198, 18, number * 40503 & 0xffff),
                    1024 + number * 7919 % 60000))
            for flags, some in zip(_STEPS, (new, *reversed(recent))):
                for source, port in some:
                    self._send(source, port, flags)
            self.sent += len(new)
            recent.append(new)
            turns += self.kept * _TICK / 8
            while turns >= 1:
                turns -= 1
                turn = (turn + 1) % self.kept
                self._send(*self.get_kept(turn), _ACK)
            following += _TICK
            left = following - time.monotonic()
            if left > 0:
                time.sleep(left)
            else:
                following = time.monotonic()


class Members(fixtures.Fixture):
    """What members get, by a thread.

    :param hosts: of them.
    """

    def __init__(self, hosts):
        super().__init__()
        self._hosts = hosts
        self.reset()

    def reset(self):
        """Forget what came."""
        # By address and port: who got something, and which flags.
        self.came = collections.defaultdict(list)

    def _setUp(self):
        self._ends = False
        self._poll = select.poll()
        self._sockets = {}
        for host in self._hosts:
            tap = self.useFixture(raw.Tap(host))
            # Nobody else is to get what is for it.
            tap.send(raw.ethernet(host.mac, raw.BROADCAST, 0x88b5, bytes(46)))
            self._sockets[tap._socket.fileno()] = (
                tap._socket, host.name, raw.mac(host.mac))
            tap._socket.setblocking(False)
            self._poll.register(tap._socket, select.POLLIN)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.addCleanup(self._stop)

    def _stop(self):
        self._ends = True
        self._thread.join()

    def _run(self):
        while not self._ends:
            for number, _ in self._poll.poll(200):
                one, name, mac = self._sockets[number]
                with contextlib.suppress(BlockingIOError):
                    while True:
                        frame = one.recv(2048)
                        if frame[:6] == mac and frame[12:14] == b'\x08\0':
                            self.came[frame[26:30] + frame[34:36]].append(
                                (name, frame[_AT + 13]))


class Other:
    """The VIP of another tenant on the same node: how long a SYN takes."""

    def __init__(self, client, mac, member):
        self._client, self._mac = client, mac
        self._sender, self._hearer = raw.Tap(client), raw.Tap(member)
        self._port = 1024

    def __enter__(self):
        self._sender.setUp()
        self._hearer.setUp()
        return self

    def __exit__(self, *_):
        self._sender.cleanUp()
        self._hearer.cleanUp()

    def measure(self):
        """Return the seconds of one SYN, a second if it does not come."""
        self._port += 1
        frame = make_frame(self._client, self._mac,
                           socket.inet_aton(self._client.address),
                           self._port, _SYN)
        began = time.monotonic()
        self._sender.send(frame)
        self._hearer.hear(lambda got: got[26:38] == frame[26:38], 1)
        return time.monotonic() - began


class Network(fixtures.Fixture):
    """A client, members, and two network nodes.

    :param learns: whether connections are remembered one by one.
    :param max_pins: as [hmsync_distributor] has it; None for its default.
    """

    def __init__(self, learns=False, max_pins=None):
        super().__init__()
        self._learns = learns
        self._options = {'max_pins': max_pins} if max_pins else {}

    def _setUp(self):
        self.useFixture(fixtures.MockPatchObject(
            proof, 'prove', lambda _line, _document, macs: proof.Proof(
                frozenset(() if self._learns else macs))))
        directory = self.useFixture(fixtures.TempDir()).path
        self.nodes = [self.useFixture(fabric.Node(
            f'network{n}', n, directory)) for n in (1, 2)]
        for node in self.nodes:
            if self._options:
                node.distributor = node.make_distributor(**self._options)
            node.distributor.start()
            self.addCleanup(node.distributor.stop)
        first = self.nodes[0]
        first.vswitch.link(self.nodes[1].vswitch, 'network2')

        def host(name, number, tag=1):
            return self.useFixture(fabric.Host(
                name, first.namespace, first.vswitch, number, directory, tag))

        self.client = host('client', 100)
        self.members = [host(f'm{n}', 10 + n) for n in range(_MEMBERS + 1)]
        for member in self.members:
            # What comes is looked at, and by nobody else.
            member.namespace.run('ip', 'link', 'set', 'eth0', 'arp', 'off')
        self.came = self.useFixture(Members(self.members))
        self.vips = 0
        self._ends = threading.Event()
        thread = threading.Thread(target=self._measure_loads, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._ends.set)
        # Of another tenant.
        self.other_client, self.other_member = (
            host('client-o', 100, 2), host('m0-o', 10, 2))
        self.other = fabric.Vip(_OTHER_ID, first, tag=2,
                                addresses=(fabric.VIP,))
        self.other.set(self.other_member, doc.ACTIVE, 0)
        self.other.apply()

    def _measure_loads(self):
        """Do what a distributor does each restore_interval."""
        while not self._ends.wait(2):
            for node in self.nodes:
                # It may be started anew just now.
                with contextlib.suppress(exceptions.VswitchUnavailable):
                    node.distributor.measure_load()

    def make_vip(self, pin_timeout=None):
        self.vips += 1
        vip = fabric.Vip(_ID.format(self.vips), *self.nodes,
                         addresses=(fabric.VIP,))
        vip.pin_timeout = pin_timeout or vip.pin_timeout
        for slot, member in enumerate(self.members[:_MEMBERS]):
            vip.set(member, doc.ACTIVE, slot, slot // 2)
        vip.apply()
        return vip

    def remove(self, vip):
        for node in self.nodes:
            node.distributor.remove(vip.id)

    def get_cpu(self):
        """Return seconds of a processor, of both nodes."""
        return sum(node.vswitch.get_cpu() for node in self.nodes)

    def count_flows(self):
        """Return the flows of the data path of the first node."""
        text = self.nodes[0].vswitch.appctl('upcall/show')
        return int(text.partition('(current ')[2].partition(')')[0])

    def get_memory(self):
        return psutil.Process(
            self.nodes[0].vswitch.vswitchd.pid).memory_info().rss / 1e6


def change(vip, members, event):
    """Have a VIP change."""
    if event == ADD:
        vip.set(members[_MEMBERS], doc.ACTIVE, _MEMBERS, _MEMBERS // 2)
    elif event == DRAIN:
        vip.set(members[0], doc.DRAINING)
    elif event == REPLACE:
        vip.set(members[0], doc.DRAINING)
        vip.members[255] = vip.members.pop(0)
        vip.set(members[_MEMBERS], doc.ACTIVE, 0)
    else:
        vip.affinity = doc.SOURCE_IP
        vip.version += 1
    vip.apply()


def measure(rate, event, kept=0, seconds=8.0, settle=10.0, max_idle=None,
            learns=False, waits=False, max_pins=None):
    """Measure at rest, some time after a change, and when that is over.

    :param rate: new connections in a second.
    :param event: ADD, DRAIN, REPLACE or AFFINITY.
    :param kept: connections that are open all the time.
    :param seconds: of each of them.
    :param settle: seconds before each of them.
    :param max_idle: of Open vSwitch, milliseconds; None for its own.
    :param learns: whether connections are remembered one by one.
    :param waits: whether to wait until the change is over; else the clock is
                  put forward, which is too much for open connections that are
                  late.
    :param max_pins: as of Network.
    :returns: rows.
    """
    rows = []
    with Network(learns, max_pins) as network:
        for node in network.nodes if max_idle else ():
            node.vswitch.vsctl('set', 'Open_vSwitch', '.',
                               f'other_config:max-idle={max_idle}')
        vip = network.make_vip(_SHORT if waits else None)
        with Load(network.client, vip.get_mac(network.nodes[0])) as load, \
                Other(network.other_client,
                      network.other.get_mac(network.nodes[0]),
                      network.other_member) as other:
            load.keep(kept)
            # Each has said something.
            time.sleep(settle if kept else 0)
            owners = get_owners(network, load)
            load.rate = rate
            for when in ('before', 'after', 'over'):
                if when == 'after':
                    change(vip, network.members, event)
                elif when == 'over':
                    _end(vip, waits)
                time.sleep(settle)
                rows.append({'rate': rate, 'event': event, 'when': when,
                             **_look(network, vip, load, other, seconds,
                                     rate, owners)})
        network.remove(vip)
    for row in rows:
        row['to_rest'] = row['cpu_ms'] / rows[0]['cpu_ms'] if (
            rows[0]['cpu_ms']) else None
    return rows


def _end(vip, waits):
    """Have a change come to its end."""
    if not waits:
        vip.now += _LONG
        vip.apply()
        return
    while (vip.states[vip.active]['base'] !=
           vip.states[vip.active]['current']):
        time.sleep(1)
        vip.now = time.time()
        vip.apply()


def get_owners(network, load):
    """Return who has the open connections, by address and port."""
    owners = {}
    for number in range(load.kept):
        address, port = load.get_kept(number)
        key = address + struct.pack('!H', port)
        names = {name for name, _ in network.came.came.get(key, ())}
        if len(names) == 1:
            owners[key], = names
    return owners


def _look(network, vip, load, other, seconds, rate, owners):
    network.came.reset()
    cpu, sent, times = network.get_cpu(), load.sent, []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        times.append(other.measure())
        time.sleep(0.05)
    sent, cpu = load.sent - sent, network.get_cpu() - cpu
    flows = network.count_flows()
    load.rate = 0
    # What is on its way comes.
    time.sleep(1)
    counted = count(network, owners, sent, cpu)
    load.rate = rate
    return {**counted, 'other_ms': sorted(times)[len(times) // 2] * 1000,
            'flows': flows, 'pins': vip.count_pins(),
            'mb': network.get_memory()}


def count(network, owners, sent, cpu):
    """Return what became of connections, as far as it came.

    :param owners: what get_owners() returned.
    :param sent: how many have begun.
    :param cpu: seconds of a processor that they took.
    """
    came = dict(network.came.came)
    begun = {key: got for key, got in came.items()
             if any(flags == _SYN for _, flags in got)}
    lost = sum(owner not in {name for name, _ in came[key]}
               for key, owner in owners.items() if key in came)
    return {'open': len(owners), 'lost': lost, 'sent': sent,
            'begun': len(begun),
            'passed': len(begun) / sent if sent else None,
            'split': sum(not any(
                {flags for _, flags in got} == {
                    flags for name, flags in got if name == each}
                for each in {name for name, _ in got})
                for got in begun.values()),
            'cpu_ms': cpu / len(begun) * 1000 if begun else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rates', type=int, nargs='+', default=[100, 1000])
    parser.add_argument('--events', nargs='+', choices=EVENTS,
                        default=list(EVENTS))
    parser.add_argument('--open', type=int, default=0)
    parser.add_argument('--seconds', type=float, default=8)
    parser.add_argument('--settle', type=float, default=10)
    parser.add_argument('--max-idle', type=int)
    parser.add_argument('--wait', action='store_true')
    parser.add_argument('--learn', action='store_true')
    parser.add_argument('--max-pins', type=int)
    args = parser.parse_args()
    report.print_results('connections over a change', COLUMNS, [
        row for rate in args.rates for event in args.events
        for row in measure(rate, event, args.open, args.seconds,
                           args.settle, args.max_idle, args.learn,
                           args.wait, args.max_pins)])


if __name__ == '__main__':
    main()
