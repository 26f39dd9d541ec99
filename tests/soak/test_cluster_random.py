# SPDX-License-Identifier: Apache-2.0

"""Faults under traffic, for as long as OCTAVIA_HMSYNC_SOAK says.

TestRandom: whatever happens, there are never two members in a slot, no
connection breaks but those of a member that died or hung, a cluster that is
too small is said to be so, it becomes whole by itself, and nothing is left
over. The faults are those of a seed, which is printed; OCTAVIA_HMSYNC_SEED has
them again.

TestTenant: what tenants may delete or change in Neutron, each in turn, alone.

TestSchedule: something every few seconds, in the same order again and again,
and nothing is waited for in between. No part is worse than the one before.
"""

import itertools
import os
import random
import sys
import time

from oslotest import base
from testtools import content

from tests.cloud import cluster_faults
from tests.cloud import cluster_world
from tests.cloud import clusters
from tests.cloud import machines

LENGTH = float(os.environ.get('OCTAVIA_HMSYNC_SOAK', 600))
SEED = int(os.environ.get('OCTAVIA_HMSYNC_SEED', 0)) or (
    random.SystemRandom().randrange(1, 1000000))
# Names of kinds, to have only these.
ONLY = os.environ.get('OCTAVIA_HMSYNC_FAULTS', '').split()

SIZES = (3, 2, 4)
STANDBY = 1
NUMBER = 40
# Seconds that something lasts at most, and one time in four: the claim of who
# hangs for so long has lapsed.
LASTS, LASTS_LONG = 30, 90
# Seconds within which all is well again. A claim lapses after 60, and each
# amphora takes its time to boot; what failed is tried later and later.
SETTLED_AFTER = 480

# Of TestSchedule: into how many parts its time is divided, seconds from one
# thing to the next, new connections in a second of each client.
PARTS = 3
PAUSE = 12
RATE = 30


class FaultsTestCase(base.BaseTestCase):

    # What begins before the end is waited for.
    TIMEOUT_SCALING_FACTOR = 3 + LENGTH / 600

    def setUp(self):
        super().setUp()
        self.begun = time.monotonic()
        self.chance = random.Random(SEED)  # nosec B311
        self.kinds = []
        self.say(f'seed {SEED}')
        self.cloud = self.useFixture(clusters.ClusterOctavia(
            workers=1, house_keepers=2, options={'hmsync_cluster': {
                'drain_timeout': 3600, 'standby': STANDBY,
                # Changes come to their end, too.
                'pin_timeout': 60}}))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content(self.describe())))
        self.cloud.wait_until_ready()
        hosts = self.cloud.fabric.hosts
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member-{host}',
                                            host=host)) for host in hosts]
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=hosts[0]))
        self.outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))

    def say(self, text):
        print(f'{time.monotonic() - self.begun:7.1f} {text}',
              file=sys.__stderr__, flush=True)

    def describe(self):
        self.say(f'seed {SEED} failed')
        return '\n'.join(
            f'--- {child.name}\n{child.log_tail(400)}'
            for child in (*self.cloud.workers,
                          *self.cloud.distributors.values(),
                          *self.cloud.house_keepers,
                          *self.cloud.health_managers))

    def make_cluster(self):
        lb = cluster_world.make(self.cloud, self.members,
                                desired_size=SIZES[0], min_size=min(SIZES))
        world = cluster_world.World(self.cloud, lb, SIZES, STANDBY)
        world.wait_until(world.find_left, 'whole cluster', SETTLED_AFTER)
        world.wait_until(world.find_unsettled, 'well cluster', SETTLED_AFTER)
        world.start()
        self.addCleanup(world.stop)
        return world

    def get_ways(self, world):
        """Return clients, each with the address that it uses."""
        ways = ((self.client, world.lb.vip_address),
                (self.outside, self.cloud.add_floating_ip(
                    world.lb.vip_port_id)))
        for client, address in ways:
            client.get(address)
        return ways

    def begin(self):
        """Return a World, and what get_ways() returns."""
        world = self.make_cluster()
        self.say('there is a cluster')
        ways = self.get_ways(world)
        self.ports = world.count_ports()
        return world, ways

    def end(self, world):
        self.cloud.delete_cluster(world.lb)
        self.assertEqual({}, self.cloud.compute.instances)

    def shuffle(self, kinds):
        """Return those of the kinds that are asked for, in any order."""
        found = [kind for kind in kinds if not ONLY or kind.__name__ in ONLY]
        self.chance.shuffle(found)
        return found

    def do_round(self, world, ways, faults, longest):
        """Have faults happen under traffic, and wait until all is well.

        :param longest: seconds that they last at most.
        """
        world.hold(ways, NUMBER, cluster_world.TCP_PORT)
        self.assertEqual(2 * NUMBER, len(world.opened))
        probes = [client.start_probe(address, rate=10, timeout=10)
                  for client, address in ways]
        for fault in faults:
            fault.begin()
            self.say(fault.name)
            time.sleep(self.chance.uniform(0, 3))
        lasts = self.chance.uniform(1, longest)
        time.sleep(lasts)
        for fault in reversed(faults):
            fault.end()
        ended = time.monotonic()
        if {fault.group for fault in faults} == {'controller', 'tenant'}:
            world.restore()
        world.wait_until(world.find_unsettled, 'well cluster', SETTLED_AFTER)
        settled = time.monotonic() - ended
        # Who is taken for one without connections is deleted within that.
        time.sleep(10)
        since = time.time()
        world.wait_until(lambda: world.find_unused(since), 'connections',
                         2 * cluster_world.BROKEN_AFTER)
        self.check_connections(world, faults, probes)
        world.release()
        world.wait_until(world.find_left, 'cluster without anything left',
                         SETTLED_AFTER)
        self.check_whole(world)
        self.say(f'  lasted {lasts:.1f} s, well {settled:.1f} s later, '
                 f'whole {time.monotonic() - ended:.1f} s later')

    def check_connections(self, world, faults, probes):
        names = [fault.name for fault in faults]
        broken = world.broken
        reports = [probe.stop() for probe in probes]
        seen = [(report.requests, report.failed, report.dark)
                for report in reports]
        self.say(f'  {len(broken)} broken, {len(world.lost)} were of members '
                 f'that died; requests, failed, dark: {seen}')
        self.assertEqual({}, {
            port: error for port, error in broken.items()
            if port not in world.lost}, names)
        if not any(fault.is_felt for fault in faults):
            self.assertEqual([0, 0], [report.failed for report in reports],
                             (names, reports))
        self.assertEqual([], world.violations, names)

    def check_whole(self, world):
        world.wait_until(world.find_wrong, 'documents', 60)
        world.wait_until(lambda: world.find_ports(self.ports), 'ports', 60)
        for each in self.cloud.distributors.values():
            self.assertNotIn('is its own address', each.log())


class TestRandom(FaultsTestCase):

    def test_random(self):
        world, ways = self.begin()
        end = time.monotonic() + LENGTH
        rounds = 0
        while time.monotonic() < end:
            rounds += 1
            self.do_round(world, ways, self.choose(world), self.chance.choice(
                (LASTS, LASTS, LASTS, LASTS_LONG)))
        self.say(f'{rounds} rounds')
        self.end(world)

    def draw(self):
        """Return a kind; each comes before one comes again."""
        self.kinds = self.kinds or self.shuffle(cluster_faults.KINDS)
        return self.kinds.pop()

    def choose(self, world):
        """Return one fault, or two that happen at once."""
        first, second = self.draw(), self.draw()
        if cluster_faults.may_be_together(first, second):
            return [first(world, self.chance), second(world, self.chance)]
        self.kinds.append(second)
        return [first(world, self.chance)]


class TestTenant(FaultsTestCase):

    def test_each_in_turn(self):
        world, ways = self.begin()
        for kind in self.shuffle(cluster_faults.OF_TENANTS):
            fault = kind(world, self.chance)
            self.do_round(world, ways, [fault], 1)
            # Who has to look after it is told of it.
            named = fault.name.split()[-1]
            self.assertTrue([
                line for each in self.cloud.house_keepers
                for line in each.log().splitlines()
                if named in line and ' WARNING ' in line], fault.name)
        self.end(world)


class TestSchedule(FaultsTestCase):

    KINDS = (
        cluster_faults.Grown, cluster_faults.Updated, cluster_faults.Moved,
        cluster_faults.MemberKilled, cluster_faults.Updated,
        cluster_faults.KeeperKilled, cluster_faults.Replaced,
        cluster_faults.DistributorKilled, cluster_faults.Updated,
        cluster_faults.HealthManagerKilled, cluster_faults.Drained,
        cluster_faults.VswitchKilled, cluster_faults.Shrunk,
        cluster_faults.Updated)

    def test_schedule(self):
        world = self.make_cluster()
        world.keeper = self.cloud.house_keepers[0]
        ways = self.get_ways(world)
        self.say('there is a cluster')
        kinds, parts = itertools.cycle(self.KINDS), []
        for _ in range(PARTS):
            parts.append(self.do_part(world, ways, kinds))
            self.say(f'  {parts[-1]}')
        # It has the size that it began with, whatever came last.
        cluster_faults.Resized(world, self.chance).end()
        world.wait_until(world.find_unsettled, 'well cluster', SETTLED_AFTER)
        world.wait_until(world.find_left, 'cluster without anything left',
                         SETTLED_AFTER)
        self.assertEqual([], world.violations)
        # Killed members and switches take a few with them.
        self.assertEqual([], [part for part in parts
                              if part['failed'] > part['requests'] / 100])
        if LENGTH / PARTS >= len(self.KINDS) * PAUSE:
            # The same things happened in each part.
            self.assertLessEqual(parts[-1]['cpu_ms'],
                                 1.5 * parts[0]['cpu_ms'])

    def do_part(self, world, ways, kinds):
        """Have things happen; return what clients saw, and what it cost."""
        world.hold(ways, NUMBER, cluster_world.TCP_PORT)
        probes = [client.start_probe(address, rate=RATE, timeout=10)
                  for client, address in ways]
        self.cpu = {}
        end, names = time.monotonic() + LENGTH / PARTS, []
        while time.monotonic() < end:
            fault = next(kinds)(world, self.chance)
            fault.begin()
            time.sleep(PAUSE)
            fault.end()
            self.count_cpu()
            names.append(fault.name)
            self.say(fault.name)
        reports = [probe.stop() for probe in probes]
        # With the second when that was, as what happened then is printed.
        ended = {request.port: time.monotonic() - self.begun - (
            time.time() - request.began - request.duration)
            for each in world.held for request in each.requests
            if request.error and request.port}
        broken = {port: (round(ended[port], 1), error)
                  for port, error in world.broken.items()
                  if port not in world.lost}
        part = {'requests': sum(report.requests for report in reports),
                'failed': sum(report.failed for report in reports),
                'dark': [report.dark for report in reports],
                'lost': len(world.lost), 'broken': len(broken)}
        part['cpu_ms'] = 1000 * sum(
            last - first for first, last in self.cpu.values()
        ) / part['requests']
        self.assertEqual({}, broken, names)
        world.release()
        return part

    def count_cpu(self):
        """Note the seconds of a processor of each ovs-vswitchd."""
        for node in self.cloud.networking.chassis.values():
            pid, seconds = node.vswitch.vswitchd.pid, node.vswitch.get_cpu()
            first, _ = self.cpu.get(pid, (seconds, None))
            self.cpu[pid] = (first, seconds)
