# SPDX-License-Identifier: Apache-2.0

"""Nodes that die, or are cut off, with distributors on Neutron's ML2/OVS."""

import contextlib
import socket
import time

from tests.cloud import cluster_world
from tests.cloud import machines
from tests.cloud import networking
from tests.functional.distributor import fabric
from tests.functional.distributor import raw
from tests.soak import test_cluster_dead

_NONE = '00:00:00:00:00:00'
_ARP, _REPLY = 0x806, 2
# Seconds: more than a distributor announces a VIP that it has got.
MISSED = 50


class NodeCase(test_cluster_dead.WorldCase):
    """Clients of the network, of another one behind a router, and outside."""

    network = 'ovs'
    size = 3

    def set_up(self):
        self.other = self.cloud.add_network(
            'other', '10.2.0.0/24', '10.2.0.1', router=self.cloud.router)[0]

    def make_world(self):
        super().make_world()
        self.address = self.world.lb.vip_address
        self.vip_id = self.world.cluster['id']
        routed, self.asker = (
            self.useFixture(machines.Client(self.cloud, name, network,
                                            host=self.hosts[-1]))
            for name, network in (('routed', self.other),
                                  ('asker', self.cloud.network)))
        routed.get(self.address)
        self.ways = (*self.ways, (routed, self.address))
        self.tap = self.useFixture(raw.Tap(self.asker))

    def get_document(self, distributor):
        return distributor.ask('get_vip', self.vip_id)['document']

    def find_answerers(self):
        """Return the MAC addresses of all that say that they have the VIP."""
        self.tap.send(raw.ethernet(
            self.asker.mac, raw.BROADCAST, _ARP, raw.arp(
                1, self.asker.mac, self.asker.address, _NONE, self.address)))
        return {frame[22:28].hex(':') for frame in self.tap.hear(seconds=1)
                if frame[12:14] == b'\x08\x06' and frame[21] == _REPLY and
                frame[28:32] == socket.inet_aton(self.address)}

    def wait_until_alone(self, distributor):
        """Wait until it answers for the VIP, and no other one does."""
        mac = self.get_document(distributor)['port']['mac']
        self.wait_for(lambda: self.find_answerers() == {mac},
                      f'answers of {distributor.host} alone')
        self.assertEqual([{mac}] * 10,
                         [self.find_answerers() for _ in range(10)])

    def wait_until_moved(self, distributor):
        self.wait_for(
            lambda: self.world.get_active_host() == distributor.host,
            f'VIP at {distributor.host}')
        self.say(f'  the VIP is at {distributor.host}')

    def wait_until_told(self):
        """Wait until both distributors have what rows have."""
        self.world.wait_until(self.world.find_wrong, 'what both are told',
                              test_cluster_dead.SETTLED_AFTER)


class TestSplitBrain(NodeCase):

    def test_split_brain(self):
        """The node of the active distributor loses its management network."""
        stale = self.cloud.get_active_distributor(self.world.lb)
        new, = set(self.cloud.distributors.values()) - {stale}
        self.wait_until_alone(stale)
        with contextlib.ExitStack() as cut:
            self.begin('the node that answers is cut off from controllers')
            cut.enter_context(self.cloud.without_management(stale.host))
            self.wait_until_moved(new)
            self.wait_until_alone(new)
            self.say('  the other one is quiet')
            self.assertTrue(self.has_left(stale))
            self.end()
            self.lose_member(stale)
            self.begin('controllers reach it again')
        self.wait_until_told()
        self.wait_until_alone(new)
        self.assertFalse(self.has_left(stale))
        self.end()
        self.lose_networks(new, stale)

    def lose_networks(self, stale, new):
        """It hears nothing of all that the new one says at first."""
        with contextlib.ExitStack() as cut:
            self.begin('the node that answers loses all of its networks')
            cut.enter_context(self.cloud.without_management(stale.host))
            with self.cloud.networking.chassis[stale.host].without_network():
                self.wait_until_moved(new)
                time.sleep(MISSED)
            self.wait_until_alone(new)
            self.assertTrue(self.has_left(stale))
            self.end(is_felt=True)

    def has_left(self, distributor):
        summary, = distributor.ask('list_vips')
        return summary['has_left']

    def lose_member(self, stale):
        """A member dies; some still send to the one that is cut off."""
        document = self.get_document(stale)
        believer = self.useFixture(machines.Client(
            self.cloud, 'believer', host=self.hosts[-1]))
        believer.namespace.run(
            'ip', 'neigh', 'replace', self.address, 'lladdr',
            document['port']['mac'], 'dev', 'eth0', 'nud', 'permanent')
        self.begin('a member dies, which the one that is cut off has too')
        self.world.held.append(believer.hold(
            self.address, test_cluster_dead.OPEN,
            port=cluster_world.TCP_PORT).wait_until_open())
        probe = believer.start_probe(self.address, rate=10, timeout=3)
        victim = self.world.get_member(0)
        macs = {member['id']: member['mac'] for member in document['members']}
        self.world.lose(victim)
        self.cloud.compute.by_amphora(victim).kill_tree()
        vswitch = self.cloud.networking.chassis[stale.host].vswitch
        self.wait_for(
            lambda: fabric.find_chosen(vswitch, self.vip_id, macs.values()) ==
            {mac for member_id, mac in macs.items() if member_id != victim},
            'mapping without the dead one')
        # The data path may have the way of before in its cache.
        time.sleep(1)
        since = time.time()
        self.end(is_felt=True)
        report = probe.stop()
        self.say(f'  by the one that is cut off: {report}')
        self.assertTrue(report.failed)
        after = [each for each in probe.requests if each.began > since]
        self.assertGreater(len(after), 50)
        self.assertEqual([], [each for each in after if each.error])


class TestDeadNode(NodeCase):
    """A compute node that has a distributor, too, dies with all that it has.

    Another one stands by.
    """

    nodes = (networking.COMPUTES[1], networking.NETWORK_NODES[0])
    # Of what is to live.
    hosts = networking.COMPUTES[:1] * 2

    def test_dead_node(self):
        dying, other = (self.cloud.distributors[host] for host in self.nodes)
        with self.only_at(self.hosts[0]):
            self.world.standby = 1
            self.world.order('cluster', 'set', self.world.lb.id, '--standby',
                             '1')
            self.wait_until_whole()
        if self.world.get_active_host() != dying.host:
            self.world.order('distributor', 'move', self.world.lb.id, '--to',
                             dying.host)
        self.wait_until_alone(dying)
        self.lose_node('the node of a member and the active distributor',
                       dying, other, 1)

        self.cloud.start_node(dying.host)
        self.wait_until_told()
        self.wait_until_alone(other)
        # One that serves, and one that stands by.
        with self.only_at(dying.host):
            self.resize(self.size + 2)
            self.wait_until_whole()
        self.lose_node('the node of a member, the standby, and the '
                       'distributor that stands by', dying, other, 2)

    @contextlib.contextmanager
    def only_at(self, host):
        """Have amphorae boot at one node meanwhile."""
        dead = self.cloud.compute.dead_hosts
        others = set(networking.COMPUTES) - {host}
        dead |= others
        try:
            yield
        finally:
            dead -= others

    def wait_until_whole(self):
        self.settle()
        self.world.wait_until(self.world.find_left, 'standby',
                              test_cluster_dead.SETTLED_AFTER)

    def lose_node(self, what, dying, other, number):
        """Cut its power.

        :param number: how many amphorae go with it.
        """
        lost = [each.instance_name.removeprefix('amphora-')
                for each in self.cloud.compute.get_instances(dying.host)]
        self.assertEqual(number, len(lost))
        self.begin(what)
        for amphora_id in lost:
            self.world.lose(amphora_id)
        self.assertTrue(self.world.lost)
        self.cloud.kill_node(dying.host)
        self.wait_until_moved(other)
        self.wait_until_alone(other)
        self.end(is_felt=True)
