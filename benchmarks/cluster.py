# SPDX-License-Identifier: Apache-2.0

"""Clusters: what members behind a distributor carry, and what a change breaks.

Real Open vSwitch (netdev) and real TCP, in network namespaces; no Neutron. A
member is a real haproxy in front of a server that answers so many requests in
a second and no more, so that it is what is slow, and not this machine.
"""

import argparse
import asyncio
import collections
from concurrent import futures
import contextlib
import json
import subprocess
import sys
import time
import uuid

import fixtures
import psutil

from benchmarks import front
from benchmarks import report
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import vips as vips_
from octavia_hmsync import exceptions
from tests.functional.distributor import fabric

RATE_COLUMNS = ['members', 'behind', 'requests_s', 'to_one', 'connections_s',
                'connections_to_one']
BROKEN_COLUMNS = ['way', 'event', 'open', 'broken', 'not_its_own', 'apply_ms']
VIPS_COLUMNS = ['vips', 'programmed_s', 'ms_each', 'vswitchd_cpu_ms',
                'vswitchd_mb', 'change_ms', 'again_s', 'again_cpu_s',
                'anew_s', 'anew_cpu_s']
TABLES = ('rates', 'broken', 'vips')

# Of members' listeners.
PORT = 8080
_SERVER_PORT = 8081
_AT_ONCE = 8
_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK'
_REQUEST = b'GET / HTTP/1.1\r\nHost: vip\r\n\r\n'
# In the order of the table.
ADD, DRAIN, KILL, KILL_DISTRIBUTOR, KILL_LATER = (
    'a member is added', 'one is drained', 'one is killed',
    'the distributor is killed', 'it is, after an addition')
PINS, NOT_SHARED, NO_PINS = (
    'hmsync', 'pins not shared', 'select group alone')
# What there is to be seen of each way.
_EVENTS = {PINS: (ADD, DRAIN, KILL, KILL_DISTRIBUTOR, KILL_LATER),
           NOT_SHARED: (KILL_LATER,), NO_PINS: (ADD, DRAIN, KILL)}


async def _serve(rate):
    """Answer so many requests per second, behind a haproxy."""
    following = 0.0

    async def answer(reader, writer):
        nonlocal following
        try:
            while await reader.readuntil(b'\r\n\r\n'):
                now = time.monotonic()
                following = max(now, following) + 1 / rate
                await asyncio.sleep(following - now)
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(
        answer, '127.0.0.1', _SERVER_PORT, backlog=1024)
    print('ready', flush=True)
    await server.serve_forever()


async def _load(address, seconds, clients, is_kept):
    """Ask as fast as the answers come.

    :returns: how many answers came in a second, without the first one.
    """
    answers = 0
    counts = False

    async def ask():
        nonlocal answers
        writer = None
        while True:
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(address,
                                                                   PORT)
                writer.write(_REQUEST)
                await reader.readuntil(b'\r\n\r\n')
                await reader.readexactly(2)
                answers += counts
            except (asyncio.IncompleteReadError, OSError):
                is_broken = True
            else:
                is_broken = False
            if is_broken or not is_kept:
                if writer:
                    # No TIME_WAIT: the ports of a client are few.
                    writer.transport.abort()
                writer = None

    tasks = [asyncio.create_task(ask()) for _number in range(clients)]
    await asyncio.sleep(1)
    counts = True
    await asyncio.sleep(seconds)
    counts = False
    for task in tasks:
        task.cancel()
    print(json.dumps(answers / seconds), flush=True)


class _Network(fixtures.Fixture):
    """A client, members, and network nodes with a distributor each."""

    def __init__(self, members, nodes=1):
        super().__init__()
        self._sizes = members, nodes

    def _setUp(self):
        members, nodes = self._sizes
        directory = self.useFixture(fixtures.TempDir()).path
        self.directory = directory
        self.nodes = [self.useFixture(fabric.Node(
            f'network{n}', n, directory)) for n in range(1, nodes + 1)]
        first = self.nodes[0]
        for number, other in enumerate(self.nodes[1:], 1):
            first.vswitch.link(other.vswitch, f'link{number}')
        self.client = self.useFixture(fabric.Host(
            'client', first.namespace, first.vswitch, 100, directory))
        self.members = [self.useFixture(fabric.Host(
            f'member{n}', first.namespace, first.vswitch, 10 + n, directory))
            for n in range(members)]
        self.vip = fabric.Vip(str(uuid.uuid4()), *self.nodes)


def _run(host, *words):
    return subprocess.Popen(
        host.namespace.wrap([sys.executable, '-m', 'benchmarks.cluster',
                             *map(str, words)]),
        stdout=subprocess.PIPE, text=True)


def ask(host, address, seconds, clients, is_kept):
    """Have a host ask as fast as the answers come.

    :param host: that has .namespace, an openvswitch.Namespace.
    :param is_kept: whether each of so many clients keeps its connection.
    :returns: answers in a second.
    """
    client = _run(host, 'load', address, seconds, clients, int(is_kept))
    return json.loads(client.communicate()[0])


def measure_rates(sizes=(1, 2, 4), rate=150, seconds=5, clients=64):
    """Measure what members carry, beside one that is asked by itself.

    :param sizes: how many members.
    :param rate: requests that each answers in a second.
    :returns: rows.
    """
    rows = []
    with _Network(max(sizes)) as network:
        vip = network.vip
        servers = []
        try:
            for host in network.members:
                host.take_vip()
                servers.append(_run(host, 'serve', rate))
                network.useFixture(front.Front(
                    host, PORT, network.directory,
                    f'127.0.0.1:{_SERVER_PORT}')).wait_until_ready()
            for server in servers:
                server.stdout.readline()
            # As one of a load balancer with SINGLE topology is asked.
            targets = [(1, 'nobody', network.members[0].address)]
            targets += [(size, 'a distributor', fabric.VIP) for size in sizes]
            for size, behind, address in targets:
                for slot, host in enumerate(network.members):
                    if address == fabric.VIP and slot < size:
                        vip.set(host, doc.ACTIVE, slot)
                    else:
                        vip.remove(host)
                vip.apply()
                figures = [ask(network.client, address, seconds, clients,
                               is_kept) for is_kept in (True, False)]
                rows.append({'members': size, 'behind': behind,
                             'requests_s': figures[0],
                             'connections_s': figures[1]})
        finally:
            for server in servers:
                server.kill()
                server.wait()
    for row in rows:
        row['to_one'] = row['requests_s'] / rows[0]['requests_s']
        row['connections_to_one'] = (row['connections_s'] /
                                     rows[0]['connections_s'])
    return rows


def measure_broken(connections=200, members=4,
                   ways=(PINS, NOT_SHARED, NO_PINS),
                   events=(ADD, DRAIN, KILL, KILL_DISTRIBUTOR, KILL_LATER)):
    """Open connections, change something, and count those that broke.

    :returns: rows.
    """
    rows = []
    for way in ways:
        for event in events:
            if event in _EVENTS[way]:
                rows.append(_measure_event(connections, members, way, event))
    return rows


def _measure_event(connections, members, way, event):
    with _Network(members + 1, 2) as network, fabric.Servers() as servers, \
            fabric.Clients(network.client) as clients:
        vip = network.vip
        for slot, host in enumerate(network.members):
            servers.serve(host)
            if slot < members:
                vip.set(host, doc.ACTIVE, slot)
        vip.shares = way == PINS
        vip.apply()
        opened = clients.open(connections, (fabric.VIP,))
        if event == KILL_LATER:
            # One half was there before, the other one has come since.
            clients.close(*opened[::2])
            vip.set(network.members[members], doc.ACTIVE, members)
            vip.apply()
            clients.open(connections - len(clients.connections),
                         (fabric.VIP,))
            opened = list(clients.connections)
        victim = network.members[0]
        if way == NO_PINS:
            # As if it had never heard of those of before.
            vip.states.clear()
        own = set()
        began = time.monotonic()
        match event:
            case _ if event == ADD:
                vip.set(network.members[members], doc.ACTIVE, members)
            case _ if event == DRAIN:
                vip.set(victim, doc.DRAINING)
            case _ if event == KILL:
                own = {one for one in opened if one.member == victim.name}
                victim.namespace.run('ip', 'link', 'set', 'eth0', 'down')
                vip.set(victim, doc.DEAD)
            case _:
                vip.version += 1
                vip.active = network.nodes[1]
        if event in (KILL_DISTRIBUTOR, KILL_LATER):
            # As if its node was gone: nothing of it is forwarded any more.
            first = network.nodes[0]
            first.vswitch.vsctl('del-br', vip.bridge)
            vip.apply(network.nodes[1])
            network.nodes[1].distributor.announce(vip.id)
        else:
            vip.apply()
        applied = time.monotonic() - began
        broken = clients.find_broken()
        for node in network.nodes:
            # Which announces nothing any more.
            node.distributor.remove(vip.id)
        return {'way': way, 'event': event, 'open': len(opened),
                'broken': len(broken),
                'not_its_own': len(set(broken) - own),
                'apply_ms': applied * 1000}


def measure_vips(number=1000, members=4, tell=lambda row: None):
    """Program VIPs, begin anew, and put them back once Open vSwitch has.

    :param tell: called with the row as far as it is known: it takes minutes.
    :returns: a row.
    """
    with _Network(members) as network, fixtures.TempDir() as directory:
        node, = network.nodes
        all_vips = []
        for _number in range(number):
            vip = fabric.Vip(str(uuid.uuid4()), node)
            # Nobody has to hear of it.
            vip.active = None
            for slot, host in enumerate(network.members):
                vip.set(host, doc.ACTIVE, slot)
            all_vips.append(vip)
        kept = store.Store(directory.path)
        vips = vips_.Vips(kept, node.distributor)
        row = collections.OrderedDict(vips=number)
        began, before = time.monotonic(), node.vswitch.get_cpu()
        with futures.ThreadPoolExecutor(_AT_ONCE) as executor:
            # As many as a housekeeper has told at once.
            list(executor.map(
                lambda vip: _put(vips, vip.id, vip.document(node)), all_vips))
        # Where ovs-vswitchd was too busy to answer.
        _restore(restore.Restorer(vips, 1), vips, node)
        row['programmed_s'] = time.monotonic() - began
        row['ms_each'] = row['programmed_s'] / number * 1000
        row['vswitchd_cpu_ms'] = (
            node.vswitch.get_cpu() - before) / number * 1000
        row['vswitchd_mb'] = psutil.Process(
            node.vswitch.vswitchd.pid).memory_info().rss / 2 ** 20
        tell(row)
        # What one change takes beside all the others.
        began = time.monotonic()
        for vip in all_vips[:20]:
            vip.set(network.members[0], doc.DRAINING)
            _put(vips, vip.id, vip.document(node))
        row['change_ms'] = (time.monotonic() - began) / len(
            all_vips[:20]) * 1000
        tell(row)
        # A process that begins anew finds all as it should be.
        kept.close()
        kept = store.Store(directory.path)
        vips = vips_.Vips(kept, node.make_distributor())
        restorer = restore.Restorer(vips, 1)
        row['again_s'], row['again_cpu_s'] = _restore(restorer, vips, node)
        tell(row)
        node.vswitch.vswitchd.stop()
        node.vswitch.start_vswitchd()
        row['anew_s'], row['anew_cpu_s'] = _restore(restorer, vips, node)
        kept.close()
        return row


def _put(vips, vip_id, document):
    with contextlib.suppress(exceptions.VswitchUnavailable):
        vips.put(vip_id, document)


def _get_cpu(node):
    """Return seconds of a processor, of this process and ovs-vswitchd."""
    own = sum(psutil.Process().cpu_times()[:4])
    return own + node.vswitch.get_cpu()


def _restore(restorer, vips, node):
    """Return seconds of the clock, and of a processor."""
    began, before = time.monotonic(), _get_cpu(node)
    restorer.run_once()
    while not all(vip.is_in_force for vip in vips.list_all()):
        restorer.run_once()
    return time.monotonic() - began, _get_cpu(node) - before


def _say(row):
    print(json.dumps(row), file=sys.stderr)


def main():
    if sys.argv[1:2] == ['serve']:
        asyncio.run(_serve(float(sys.argv[2])))
        return
    if sys.argv[1:2] == ['load']:
        asyncio.run(_load(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]),
                          sys.argv[5] == '1'))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--members', type=int, nargs='+', default=[1, 2, 4])
    parser.add_argument('--rate', type=int, default=150)
    parser.add_argument('--connections', type=int, default=400)
    parser.add_argument('--vips', type=int, default=1000)
    parser.add_argument('--tables', nargs='+', choices=TABLES,
                        default=TABLES)
    args = parser.parse_args()
    if 'rates' in args.tables:
        report.print_results('cluster, what it carries', RATE_COLUMNS,
                             measure_rates(args.members, args.rate))
    if 'broken' in args.tables:
        report.print_results('cluster, what a change breaks', BROKEN_COLUMNS,
                             measure_broken(args.connections))
    if 'vips' in args.tables:
        report.print_results('cluster, VIPs of one distributor', VIPS_COLUMNS,
                             [measure_vips(args.vips, tell=_say)])


if __name__ == '__main__':
    main()
