# SPDX-License-Identifier: Apache-2.0

"""A quarter of an hour of changes and faults under a steady load.

As changes.py: real Open vSwitch (netdev), raw frames, two distributors. Every
few seconds something happens to the cluster, its distributors or Open
vSwitch, in the same order again and again. What a new connection costs, and
what becomes of it, should be alike in the first and in the last part.
"""

import argparse
import itertools
import time

from benchmarks import changes
from benchmarks import report
from octavia_hmsync.distributor import document as doc

COLUMNS = ['from_s', 'to_s', 'steps', 'open', 'lost', 'sent', 'passed',
           'split', 'cpu_ms', 'to_first', 'other_ms', 'flows', 'pins', 'mb']

# Seconds; as Octavia's time-outs have it for a cluster.
_PIN_TIMEOUT = 75


class Schedule:
    """What happens, one after the other.

    :param network: a changes.Network.
    :param load: a changes.Load.
    :ivar owners: who has the connections that are open all the time; without
                  those of members that died.
    :ivar cpu: seconds of processes that have ended.
    """

    def __init__(self, network, load):
        self._network, self._load = network, load
        self.vip = network.make_vip(_PIN_TIMEOUT)
        self.owners = {}
        self.cpu = 0
        self._steps = itertools.cycle((
            self._add, self._move, self._die, self._change_affinity,
            self._restart_process, self._come_back, self._drain,
            self._restart_vswitchd, self._undrain, self._move,
            self._change_affinity, self._remove))

    def step(self):
        """Have the next thing happen."""
        next(self._steps)()
        self.follow()

    def follow(self):
        """Do what controllers do all the time."""
        self.vip.now = time.time()
        self.vip.apply()
        self.vip.share(*(node for node in self._network.nodes
                         if node is not self.vip.active))

    def _set(self, number, *state):
        self.vip.set(self._network.members[number], *state)

    def _add(self):
        self._set(4, doc.ACTIVE, 4, 2)

    def _remove(self):
        self._set(4, doc.DEAD)
        self._forget_dead(4)
        self.follow()
        self.vip.remove(self._network.members[4])

    def _die(self):
        self._set(1, doc.DEAD)
        self._forget_dead(1)

    def _forget_dead(self, number):
        name = self._network.members[number].name
        self.owners = {key: owner for key, owner in self.owners.items()
                       if owner != name}

    def _come_back(self):
        self._set(1, doc.ACTIVE)

    def _drain(self):
        self._set(0, doc.DRAINING)

    def _undrain(self):
        self._set(0, doc.ACTIVE)

    def _change_affinity(self):
        self.vip.affinity = (doc.FLOW if self.vip.affinity == doc.SOURCE_IP
                             else doc.SOURCE_IP)
        self.vip.version += 1

    def _move(self):
        self.vip.active = next(node for node in self._network.nodes
                               if node is not self.vip.active)
        self.vip.version += 1
        self.follow()
        self._load.mac = self.vip.get_mac(self.vip.active)

    def _restart_process(self):
        node = self.vip.active
        node.distributor.stop()
        node.distributor = node.make_distributor()
        node.distributor.start()

    def _restart_vswitchd(self):
        # Of the one that stands by: its partner carries all.
        node = next(node for node in self._network.nodes
                    if node is not self.vip.active)
        before = self._network.get_cpu()
        node.vswitch.vswitchd.stop()
        node.vswitch.start_vswitchd()
        self.cpu += before - self._network.get_cpu()


def measure(minutes=15, rate=60, kept=200, parts=3, pause=12):
    """Have things happen, and measure.

    :param minutes: how long.
    :param rate: new connections in a second.
    :param kept: how many connections are open all the time.
    :param parts: into how many the time is divided.
    :param pause: seconds between two things that happen.
    :returns: a row for each part.
    """
    rows = []
    with changes.Network() as network:
        other_load = changes.Other(
            network.other_client, network.other.get_mac(network.nodes[0]),
            network.other_member)
        with changes.Load(network.client, None) as load, other_load as other:
            schedule = Schedule(network, load)
            load.mac = schedule.vip.get_mac(network.nodes[0])
            load.keep(kept)
            time.sleep(1)
            schedule.owners = changes.get_owners(network, load)
            load.rate = rate
            began = time.monotonic()
            for part in range(parts):
                rows.append(_measure_part(
                    network, load, other, schedule, began,
                    began + (part + 1) * 60 * minutes / parts, pause))
        for node in network.nodes:
            node.distributor.stop()
        network.remove(schedule.vip)
    for row in rows:
        row['to_first'] = row['cpu_ms'] / rows[0]['cpu_ms']
    return rows


def _measure_part(network, load, other, schedule, began, ends, pause):
    begins, first = time.monotonic(), load.sent
    cpu = network.get_cpu() + schedule.cpu
    times, row = [], dict.fromkeys(('steps', 'lost', 'begun', 'split'), 0)
    while time.monotonic() < ends:
        network.came.reset()
        schedule.step()
        row['steps'] += 1
        until = time.monotonic() + pause
        while time.monotonic() < until:
            schedule.follow()
            times.append(other.measure())
            time.sleep(1)
        counted = changes.count(network, schedule.owners, 0, 0)
        for name in ('lost', 'begun', 'split'):
            row[name] += counted[name]
    cpu = network.get_cpu() + schedule.cpu - cpu
    sent = load.sent - first
    return {**row, 'from_s': round(begins - began),
            'to_s': round(time.monotonic() - began),
            'open': len(schedule.owners), 'sent': sent,
            'passed': row['begun'] / sent, 'cpu_ms': cpu / sent * 1000,
            'other_ms': sorted(times)[len(times) // 2] * 1000,
            'flows': network.count_flows(),
            'pins': schedule.vip.count_pins(), 'mb': network.get_memory()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--minutes', type=float, default=15)
    parser.add_argument('--rate', type=int, default=60)
    parser.add_argument('--open', type=int, default=200)
    args = parser.parse_args()
    report.print_results('faults under load', COLUMNS, measure(
        args.minutes, args.rate, args.open))


if __name__ == '__main__':
    main()
