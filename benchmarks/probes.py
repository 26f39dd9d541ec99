# SPDX-License-Identifier: Apache-2.0

"""What it takes to look at members: processors, and how soon one is DOWN.

Bridges are those of a distributor, on a real Open vSwitch; four hosts are the
members of all VIPs, and their kernels answer. Members of the table are looks
in a second.
"""

import argparse
import collections
import contextlib
import itertools
import os
import socket
import time
import uuid

import fixtures
import psutil

from benchmarks import report
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import probe_results as results_
from octavia_hmsync.distributor import prober as prober_
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import vips as vips_
from tests.cloud import waiting
from tests.functional.distributor import fabric

COLUMNS = ['vips', 'members', 'prober_cpu_pct', 'vswitchd_cpu_pct',
           'vswitchd_idle_pct', 'up', 'false_down', 'told_s', 'lines_kb']

_MEMBERS = 4
# Seconds until all have been seen, at most.
_PATIENCE = 60


def _cpu_of(process):
    times = process.cpu_times()
    return times.user + times.system


def _addresses(number):
    return [f'10.0.{64 + number // 100 + block}.{number % 100 + 1}'
            for block in (0, 64)]


def _mac(number):
    return f'fa:16:3e:01:{number // 256:02x}:{number % 256:02x}'


class _Site(fixtures.Fixture):
    """A node with VIPs, whose members serve."""

    def __init__(self, number):
        super().__init__()
        self._number = number

    def _setUp(self):
        directory = self._directory = self.useFixture(
            fixtures.TempDir()).path
        self.node = self.useFixture(fabric.Node('network1', 1, directory))
        self.hosts = [self.useFixture(fabric.Host(
            f'm{number}', self.node.namespace, self.node.vswitch,
            10 + number, directory)) for number in range(_MEMBERS)]
        kept = store.Store(os.path.join(directory, 'state'), timeout=0)
        self.addCleanup(kept.close)
        self.vips = vips_.Vips(kept, self.node.distributor)
        for host in self.hosts:
            self._serve(host)
        for number in range(self._number):
            self._put(number)

    def _serve(self, host):
        run = host.namespace.run
        run('sysctl', '-w', 'net.ipv4.conf.all.arp_ignore=1',
            'net.ipv4.conf.all.arp_announce=2')
        lines = ['route add 10.0.0.0/16 dev eth0']
        for number in range(self._number):
            vip, own = _addresses(number)
            # Hosts of one kernel have too few neighbours in all; an amphora
            # has one distributor or two.
            lines += [f'address add {vip}/32 dev lo',
                      f'neighbour add {own} lladdr {_mac(number)} '
                      f'dev eth0 nud permanent']
        path = os.path.join(self._directory, f'{host.name}.batch')
        with open(path, 'w') as batch:
            batch.write('\n'.join((*lines, '')))
        run('ip', '-batch', path)
        server = host.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.bind(('', fabric.PORT))
        server.listen(1024)
        self.addCleanup(server.close)

    def _put(self, number):
        vip, own = _addresses(number)
        vip_id = str(uuid.uuid4())
        self.vips.put(vip_id, doc.parse({
            'version': 1, 'active': True, 'algorithm': 'HASH',
            'affinity': 'FLOW', 'addresses': [vip],
            'port': {'id': str(uuid.uuid4()), 'mtu': 1450,
                     'mac': _mac(number)},
            'pin_timeout': 3600, 'members': [
                {'id': str(uuid.uuid4()), 'slot': slot, 'peer_group': 0,
                 'mac': host.mac, 'state': 'ACTIVE'}
                for slot, host in enumerate(self.hosts)],
            'probe': {'addresses': [own], 'ports': [fabric.PORT]}}))
        self.node.vswitch.vsctl(
            'set', 'Port', fabric.openvswitch.bridges.Names.of(vip_id).peer,
            'tag=1')


def measure(vips, seconds=20, settle=10):
    """Look at the members of VIPs for a while.

    :param settle: seconds until it is at rest.
    :returns: a row.
    """
    with _Site(vips) as site:
        vswitchd = psutil.Process(site.node.vswitch.vswitchd.pid)
        ourselves = psutil.Process()
        time.sleep(settle / 2)
        idle = _measure(vswitchd, seconds)
        results = results_.Results()
        before = ourselves.memory_info().rss
        subject = prober_.Prober(site.vips, results, 1, 2)
        subject.start()
        # Where they are never all seen, the table says how many are.
        with contextlib.suppress(waiting.WaitTimeout):
            waiting.wait_for(
                lambda: _count_states(results)['UP'] == vips * _MEMBERS,
                'result of all', _PATIENCE)
        time.sleep(settle)
        grown = ourselves.memory_info().rss - before
        cpu = _cpu_of(ourselves)
        running = _measure(vswitchd, seconds)
        used = (_cpu_of(ourselves) - cpu) / seconds * 100
        states = _count_states(results)
        told = _kill(site, results)
        subject.stop(10)
        return collections.OrderedDict(
            vips=vips, members=vips * _MEMBERS, prober_cpu_pct=used,
            vswitchd_cpu_pct=running, vswitchd_idle_pct=idle,
            up=states['UP'], false_down=states['DOWN'], told_s=told,
            lines_kb=grown / 1024)


def _measure(process, seconds):
    before = _cpu_of(process)
    time.sleep(seconds)
    return (_cpu_of(process) - before) / seconds * 100


def _count_states(results):
    return collections.Counter(one.state for one in
                               results.read(None, 0, 0).results)


def _kill(site, results):
    """Have a host die, and return when the last VIP has been told."""
    number = len(site.vips.list_probed())
    news = results.read(None, 0, 0)
    site.hosts[0].namespace.run('ip', 'link', 'set', 'eth0', 'down')
    began = time.monotonic()
    down, sequence = set(), news.sequence
    while time.monotonic() - began < 30 and len(down) < number:
        news = results.read(news.run, sequence, 1)
        sequence = news.sequence
        down |= {one.vip_id for one in itertools.chain(news.results)
                 if one.state == 'DOWN'}
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--vips', type=int, nargs='+', default=[25, 250])
    parser.add_argument('--seconds', type=int, default=20)
    args = parser.parse_args()
    report.print_results('looks at members', COLUMNS, [
        measure(vips, args.seconds) for vips in args.vips])


if __name__ == '__main__':
    main()
