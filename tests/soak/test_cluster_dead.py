# SPDX-License-Identifier: Apache-2.0

"""Members that die or lie, managers and distributors that are apart.

Each case ends with a whole cluster, nothing left over, and no broken
connection but those that it names.
"""

import random
import sys
import time

from octavia.amphorae.backends.health_daemon import status_message
from oslotest import base
from testtools import content

from tests.cloud import cluster_faults as faults
from tests.cloud import cluster_world
from tests.cloud import clusters
from tests.cloud import hostile_member
from tests.cloud import machines
from tests.cloud import networking
from tests.cloud import process
from tests.functional.distributor import raw

SILENCE = 20
OPEN = 40
SETTLED_AFTER = 300
_ARP = 0x806
_TAKEN = 8765
_HOLDER = """
import socket, sys, time

held = socket.create_server(('', int(sys.argv[1])))
print('holds', flush=True)
time.sleep(3600)
"""


class WorldCase(base.BaseTestCase):
    """One cluster on a whole Octavia, with clients near and far."""

    TIMEOUT_SCALING_FACTOR = 4
    # A kind of networking.KINDS, and its nodes that have a distributor.
    network = 'ovn'
    nodes = networking.NETWORK_NODES
    size = 4
    house_keepers = 1
    update_timeout = 60
    heartbeat_interval = 1

    def setUp(self):
        super().setUp()
        self.begun = time.monotonic()
        self.cloud = self.useFixture(clusters.ClusterOctavia(
            workers=1, house_keepers=self.house_keepers,
            network=self.network, nodes=self.nodes, options={
                'health_manager': {
                    'heartbeat_interval': self.heartbeat_interval,
                    'heartbeat_timeout': SILENCE},
                'hmsync_cluster': {'drain_timeout': 3600,
                                   'update_timeout': self.update_timeout}}))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content(self.describe())))
        self.cloud.wait_until_ready()
        self.set_up()
        self.api = self.cloud.connection.load_balancer
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member{number}',
                                            host=host))
            for number, host in enumerate(self.hosts)]
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=self.hosts[0]))
        self.outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))
        self.make_world()

    @property
    def hosts(self):
        """The hosts of members of the pool; clients are at the first one."""
        return self.cloud.fabric.hosts

    def set_up(self):
        """What is to be different before there is a cluster."""

    def make_world(self):
        lb = cluster_world.make(self.cloud, self.members,
                                desired_size=self.size, min_size=1)
        self.world = cluster_world.World(self.cloud, lb, (self.size,), 0)
        self.settle()
        self.world.start()
        self.addCleanup(self.world.stop)
        self.ways = ((self.client, lb.vip_address),
                     (self.outside, self.cloud.add_floating_ip(
                         lb.vip_port_id)))
        for client, address in self.ways:
            client.get(address)
        self.say('there is a cluster')

    def say(self, text):
        print(f'{time.monotonic() - self.begun:7.1f} {text}',
              file=sys.__stderr__, flush=True)

    def describe(self):
        return '\n'.join(
            f'--- {child.name}\n{child.log_tail(300)}'
            for child in (*self.cloud.workers, *self.cloud.house_keepers,
                          *self.cloud.distributors.values(),
                          *self.cloud.health_managers))

    def settle(self):
        self.world.wait_until(self.world.find_unsettled, 'well cluster',
                              SETTLED_AFTER)

    def wait_for(self, condition, what, timeout=60):
        self.cloud.wait_for(
            condition, lambda: f'{what}: {self.world.cluster}, '
            f'{self.world.members}', timeout)

    def wait_until_status(self, status):
        self.wait_for(lambda: self.world.cluster[
            'operating_status'] == status, status)

    def get_member(self, amphora_id):
        """Return the row of a member; None if it is gone."""
        return next((row for row in self.world.members
                     if row['amphora_id'] == amphora_id), None)

    def get_state(self, amphora_id):
        return (self.get_member(amphora_id) or {}).get('state')

    def has_slot(self, amphora_id):
        return (self.get_member(amphora_id) or {}).get('slot') is not None

    def begin(self, what):
        """Begin a case: clients open connections, and ask."""
        self.say(what)
        self.case, self.case_begun = what, time.monotonic()
        self.world.hold(self.ways, OPEN, cluster_world.TCP_PORT)
        self.assertEqual(len(self.ways) * OPEN, len(self.world.opened))
        self.probes = [client.start_probe(address, rate=10, timeout=10)
                       for client, address in self.ways]

    def end(self, is_felt=False):
        """End a case: it is whole again, and no client minded.

        :param is_felt: whether new connections may have failed.
        """
        self.settle()
        settled = time.monotonic() - self.case_begun
        time.sleep(3)
        broken = self.world.broken
        reports = [probe.stop() for probe in self.probes]
        self.say(f'  well after {settled:.1f} s; {len(broken)} broken, '
                 f'{len(self.world.lost)} were lost; '
                 f'{[(each.failed, each.dark) for each in reports]}')
        self.assertEqual({}, {
            port: error for port, error in broken.items()
            if port not in self.world.lost}, self.case)
        if not is_felt:
            self.assertEqual({0}, {each.failed for each in reports},
                             (self.case, reports))
        self.world.release()
        self.assertEqual([], self.world.violations)
        self.world.wait_until(self.world.find_left, 'nothing left over',
                              SETTLED_AFTER)
        for client, address in self.ways:
            self.assertEqual({each.name for each in self.members},
                             {client.get(address) for _ in range(8)})

    def resize(self, size):
        self.world.size = size
        self.world.order('cluster', 'set', self.world.lb.id, '--desired',
                         str(size), '--cooldown', '0')

    def do(self, fault):
        """Have a fault be there from now on."""
        fault = fault(self.world, random.Random(0))  # nosec B311
        fault.begin()
        self.say(f'  {fault.name}')
        return fault


class TestMembers(WorldCase):

    def test_dead(self):
        """Half die at once; one forwards nothing; one lives by forgery."""
        self.begin('half of them die at once')
        self.do(faults.HalfOfMembersKilled)
        self.wait_until_status('DEGRADED')
        self.end(is_felt=True)

        self.begin('one answers its agent, and forwards nothing')
        before = self.world.get_serving()
        self.do(faults.MemberForwardsNothing)
        victim, = before - self.world.get_serving()
        self.wait_for(lambda: self.get_member(victim) is None,
                      'end of the one that forwards nothing', 120)
        self.end(is_felt=True)

        self.check_forged()

    def check_forged(self):
        """Heartbeats of a dead one by another one: it is only drained."""
        self.begin('one dies, and another one sends its heartbeats')
        victim, forger = (self.world.get_member(slot) for slot in (0, 1))
        manager = self.cloud.health_managers[0]
        hostile = self.useFixture(hostile_member.HostileMember(
            'forger', self.cloud.compute.by_amphora(forger).wrap,
            self.cloud.directory, [self.make_heartbeat(victim)], interval=2,
            addresses=[[manager.bind_ip, int(manager.bind_port)]]))
        instances = set(self.cloud.compute.instances)
        self.world.lose(victim)
        self.cloud.compute.by_amphora(victim).kill_tree()
        self.wait_for(lambda: self.get_state(victim) == 'DRAINING',
                      'drained one')
        self.wait_until_status('DEGRADED')
        time.sleep(2 * SILENCE)
        self.assertEqual('SUSPECT', self.get_member(victim)['health'])
        self.assertEqual(instances, set(self.cloud.compute.instances))
        hostile.stop()
        self.wait_for(lambda: self.get_member(victim) is None,
                      'end of the dead one', 120)
        self.end(is_felt=True)

    def make_heartbeat(self, amphora_id):
        stats = {'tx': 0, 'rx': 0, 'conns': 0, 'totconns': 0, 'ereq': 0}
        return status_message.wrap_envelope({
            'id': amphora_id, 'seq': 1, 'pools': {}, 'ver': 3, 'listeners': {
                each.id: {'status': 'OPEN', 'stats': stats}
                for each in self.api.listeners(
                    load_balancer_id=self.world.lb.id)}},
            self.cloud.heartbeat_key)

    def test_hostile(self):
        """One says that the VIP is its own, and that it is another one."""
        hostile, other = (self.world.get_member(slot) for slot in (0, 1))
        instance = self.cloud.compute.by_amphora(hostile)
        own_mac, other_mac = (
            self.get_member(each)['mac'] for each in (hostile, other))
        vip = self.world.lb.vip_address
        active = self.cloud.get_active_distributor(self.world.lb)
        vip_id, = (each['id'] for each in active.ask('list_vips'))
        distributor_mac = active.ask('get_vip', vip_id)['document']['port'][
            'mac']

        self.begin('one spoofs the MAC addresses of others')
        self.run_hostile(instance, [
            raw.ethernet(mac, raw.BROADCAST, _ARP, raw.arp(
                2, mac, vip, raw.BROADCAST, vip))
            for mac in (other_mac, distributor_mac)], 10)
        self.assertEqual({}, self.world.broken)
        self.end()

        self.begin('one says that it has the VIP')
        # Of the same load balancer.
        self.world.lost = self.world.opened
        self.run_hostile(instance, [raw.ethernet(
            own_mac, raw.BROADCAST, _ARP, raw.arp(
                2, own_mac, vip, raw.BROADCAST, vip))], 10)
        self.say(f'  {len(self.world.broken)} broken')
        found = active.ask('get_statistics', vip_id)
        self.assertGreater(found['claims'], 10)
        # It is found, and whoever believed it learns whose the VIP is.
        self.wait_for(lambda: self.get_member(hostile)['health'] == 'SUSPECT',
                      'sign against it')
        self.assertIn('says that', self.get_member(hostile)['error'] or '')
        self.world.order('cluster', 'member', 'replace', hostile)
        # It goes when it has no connection.
        self.wait_for(lambda: not self.has_slot(hostile),
                      'another one in its slot', 240)
        self.end(is_felt=True)

    def run_hostile(self, instance, frames, seconds):
        hostile = self.useFixture(hostile_member.HostileMember(
            'hostile', lambda command: instance.command_inside(*command),
            self.cloud.directory, frames, interface='eth1'))
        time.sleep(seconds)
        self.assertTrue(hostile.running, hostile.log_tail())
        # What enters a process namespace hears nobody who is outside.
        hostile.kill_tree()


class TestConfiguration(WorldCase):

    size = 3
    update_timeout = 20
    # Of one each second several are late where a machine is busy.
    heartbeat_interval = 3

    def test_listener_without_its_port(self):
        """haproxy takes the listener, and cannot begin with it."""
        self.begin('something else has the port')
        holders = [self.useFixture(process.ChildProcess(
            f'holder{number}', self.cloud.compute.by_amphora(
                amphora_id).command_inside(
                    sys.executable, '-ISc', _HOLDER, str(_TAKEN)),
            self.cloud.directory))
            for number, amphora_id in enumerate(self.world.get_serving())]
        self.assertEqual(self.size, len(holders))
        for holder in holders:
            self.wait_for(lambda one=holder: 'holds' in one.log(),
                          'a port that is taken')
        made = self.add_listener()
        self.wait_for(lambda: self.api.get_listener(
            made.id).provisioning_status == 'ERROR', 'refused listener', 120)
        workers = '\n'.join(each.log() for each in self.cloud.workers)
        self.assertRegex(workers, 'stays as it is, .*its haproxy has the '
                                  'configuration and does not serve the '
                                  f'listener {made.id}')
        for holder in holders:
            holder.stop()
        self.api.delete_listener(made.id)
        self.cloud.wait_until_active(self.world.lb.id)
        begun = time.monotonic()
        self.add_listener()
        self.cloud.wait_until_active(self.world.lb.id)
        self.say(f'  a listener takes {time.monotonic() - begun:.1f} s')
        for client, address in self.ways:
            client.get(address, port=_TAKEN)
        # A haproxy that tries to begin with it takes no new connections for
        # a second, and the distributors send it none then.
        self.end(is_felt=True)

    def add_listener(self):
        return self.api.create_listener(
            load_balancer_id=self.world.lb.id, protocol='HTTP',
            protocol_port=_TAKEN, default_pool_id=next(iter(
                self.api.pools(loadbalancer_id=self.world.lb.id))).id)

    def test_configuration(self):
        """One takes no configuration for ever."""
        self.begin('one takes no configuration')
        victim = self.world.get_member(1)
        instance = self.cloud.compute.by_amphora(victim)
        instance.run('ip', 'route', 'add', 'blackhole',
                     f'{self.cloud.addresses[0]}/32')
        self.assertNotEqual('refused', self.world.update())
        self.cloud.wait_until_active(self.world.lb.id)
        self.wait_for(lambda: self.get_state(victim) == 'DRAINING',
                      'drained one')
        self.wait_until_status('DEGRADED')
        before = set(self.cloud.compute.instances)
        time.sleep(150)
        # It is told again and again; what it has goes on.
        self.assertEqual('DRAINING', self.get_state(victim))
        self.assertEqual(before, set(self.cloud.compute.instances))
        self.assertEqual({}, self.world.broken)
        # Others change it when nobody tells that one.
        self.wait_for(lambda: self.world.update() != 'refused', 'a change')
        self.cloud.wait_until_active(self.world.lb.id)
        # With one that stands by, it is replaced.
        self.world.standby = 1
        self.world.order('cluster', 'set', self.world.lb.id, '--standby', '1')
        self.wait_for(lambda: not self.has_slot(victim),
                      'another one in its slot', 300)
        self.end()


class TestManagers(WorldCase):
    """Two at once, whose clocks are ten minutes apart; nothing comes twice."""

    size = 2
    house_keepers = 2

    def set_up(self):
        first, second = self.cloud.house_keepers
        distributor = min(self.cloud.distributors.values(),
                          key=lambda each: each.host)
        for child, seconds in ((first, 300), (second, -300),
                               (distributor, 300)):
            child.stop()
            process.turn_clock(child, seconds)
            child.start()
        self.cloud.wait_until_ready()
        distributor.wait_until_ready()
        self.built = []
        self.failed = 0
        self.cloud.compute.before['build'] = (
            lambda name, **_: self.built.append(name))

    def test_managers(self):
        self.begin('a member more')
        self.resize(3)
        self.end()
        self.assert_built(1)

        self.begin('one is replaced')
        member = self.world.get_member(0)
        self.world.order('cluster', 'member', 'replace', member)
        # It goes when it has no connection.
        self.wait_for(lambda: not self.has_slot(member),
                      'another one in its slot', 240)
        self.end()
        self.assert_built(1)

        self.begin('one dies')
        self.do(faults.MemberKilled)
        self.wait_until_status('DEGRADED')
        self.end(is_felt=True)
        self.assert_built(1)

        self.begin('a member less')
        self.resize(2)
        self.end()
        self.assert_built(0)

        self.begin('nothing')
        time.sleep(2 * SILENCE)
        self.end()
        self.assert_built(0)

    def assert_built(self, number):
        """Check how many amphorae were asked for since the last time.

        One that is not booted in time on a busy machine is asked for again.
        """
        failed = sum('BuildFailed' in line and 'tried again' in line
                     for child in self.cloud.house_keepers
                     for line in child.log().splitlines())
        self.assertEqual(number, len(self.built) - failed + self.failed,
                         self.built)
        self.failed = failed
        self.built.clear()

    def make_world(self):
        super().make_world()
        self.assert_built(2)


class TestApart(WorldCase):
    """Distributors, nodes and controllers do not reach each other."""

    size = 2

    def test_one_node(self):
        """Who sees fewer members than another one gives the VIP away."""
        self.begin('the active one does not reach one compute node')
        active = self.world.get_active_host()
        nodes = self.cloud.networking.chassis
        far = nodes[self.cloud.fabric.hosts[1]]
        there = {row['amphora_id'] for row in self.world.members
                 if self.cloud.compute.by_amphora(
                     row['amphora_id']).host == far.host}
        self.assertEqual(1, len(there))
        with nodes[active].cut_off(far):
            self.wait_for(lambda: {row['amphora_id'] for row in
                                   self.world.members
                                   if row['state'] == 'DRAINING'} == there,
                          'members there that drain')
            self.wait_for(lambda: self.world.get_active_host() not in (
                None, active), 'another active one', 90)
            self.settle()
        # Whoever asked there until it drained waited.
        self.end(is_felt=True)
        self.assertNotEqual(active, self.world.get_active_host())

    def test_apart(self):
        self.begin('no distributor is reached')
        for host in self.cloud.distributors:
            self.cloud.set_link(host, 'down')
        self.resize(3)
        time.sleep(2 * SILENCE)
        # What it is to do waits, and all goes on as it was.
        self.assertEqual(2, len(self.world.get_serving()))
        for host in self.cloud.distributors:
            self.cloud.set_link(host, 'up')
        self.end()

        self.begin('the active one is not reached')
        active = self.world.get_active_host()
        self.cloud.set_link(active, 'down')
        self.wait_for(lambda: self.world.get_active_host() not in (
            None, active), 'another active one')
        self.resize(2)
        time.sleep(SILENCE)
        self.cloud.set_link(active, 'up')
        # Both answer for the VIP until its port is off.
        self.end(is_felt=True)


class TestAwayAndBack(WorldCase):
    """The VIP goes to another node and comes back, and knows it each time."""

    size = 3
    # Connections of each client that show that none is sent astray.
    LOOKS = 60

    def look(self, what):
        """Have each client connect many times."""
        for client, address in self.ways:
            begun = time.monotonic()
            # The first one may meet who had the VIP before.
            self.wait_for(lambda one=client, at=address: self.ask(one, at),
                          f'{what}: answer for {client.name}')
            self.say(f'  {what}: {client.name} is answered after '
                     f'{time.monotonic() - begun:.1f} s')
            self.assertEqual(self.LOOKS, sum(
                self.ask(client, address) for _ in range(self.LOOKS)),
                (what, client.name))

    @staticmethod
    def ask(client, address):
        """Tell whether a new connection is answered, at its first try."""
        return client.namespace.run(
            'curl', '-sS', '--max-time', '2', f'http://{address}/',
            check=False).returncode == 0

    def test_away_and_back(self):
        self.begin('the active one is not reached, and a member dies')
        first = self.world.get_active_host()
        self.cloud.set_link(first, 'down')
        self.wait_for(lambda: self.world.get_active_host() not in (
            None, first), 'another active one')
        second = self.world.get_active_host()
        dead = self.do(faults.MemberKilled).name.split()[-1]
        self.wait_for(lambda: self.get_state(dead) in (None, 'FAILED') and
                      self.world.cluster['operating_status'] == 'ONLINE',
                      'cluster without the dead one', SETTLED_AFTER)
        # The first one still means it.
        self.look('away')

        self.say('  that node dies, and the first one is reached again')
        self.world.lose_pinned(second)
        self.cloud.kill_node(second)
        self.cloud.set_link(first, 'up')
        self.wait_for(lambda: self.world.get_active_host() == first,
                      'the first one is active again', 120)
        self.look('back')
        node = self.cloud.networking.chassis[second]
        node.vswitch.start()
        node.controller.start()
        self.cloud.distributors[second].start()
        self.end(is_felt=True)
