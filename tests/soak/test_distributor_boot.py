# SPDX-License-Identifier: Apache-2.0

"""Distributors that housekeeping boots, in a whole Octavia on OVN."""

import time

from oslotest import base
import sqlalchemy as sa
from testtools import content

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from tests.cloud import clusters
from tests.cloud import machines

NUMBER = 40


class TestBoot(base.BaseTestCase):
    """Instances have Open vSwitch and the real process; networks are real."""

    # Seconds until a distributor has booted, and until it has what is new.
    boot_timeout = 180
    timeout = 120

    def make_cloud(self):
        return clusters.BootedClusterOctavia(workers=1)

    def check_instances(self, names):
        """Look into those that have a VIP."""

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(self.make_cloud())
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content(self.describe())))
        self.cloud.wait_until_ready()
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member-{host}',
                                            host=host))
            for host in self.cloud.fabric.hosts]
        self.client = self.useFixture(machines.Client(self.cloud, 'client'))
        self.outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))

    def describe(self):
        return '\n'.join((
            *(f'--- {child.name}\n{child.log_tail(60)}'
              for child in (*self.cloud.workers, *self.cloud.house_keepers,
                            *self.cloud.compute.instances.values())),
            *map(str, booted_repo.get_all(self.cloud.engine)),
            *map(str, distributor_repo.get_all(self.cloud.engine)),
            *map(str, vip_repo.get_all(self.cloud.engine))))

    def get_online(self):
        return {row.name for row in
                distributor_repo.get_all(self.cloud.engine)
                if row.status == distributor_repo.ONLINE}

    def wait_for_two(self, without=frozenset()):
        """Wait until there are two that answer, and nothing of others.

        :returns: their names, a set.
        """
        def find():
            found = booted_repo.get_all(self.cloud.engine)
            names = {one.compute_id for one in found
                     if one.state == booted_repo.READY}
            if (len(found) == len(names) == 2 and not names & without and
                    self.get_online() == names and
                    names <= self.cloud.compute.instances.keys() and
                    not without & self.cloud.compute.instances.keys()):
                return names

        return self.cloud.wait_for(find, 'two distributors',
                                   self.boot_timeout)

    def wait_until_on(self, names):
        """Wait until exactly these have the VIP.

        :returns: the name of the active one.
        """
        def find():
            vips = vip_repo.get_all(self.cloud.engine)
            if {vip.distributor_name for vip in vips} == names and all(
                    vip.applied_version for vip in vips):
                return next((vip.distributor_name for vip in vips
                             if vip.active and vip.applied_active), None)

        return self.cloud.wait_for(find, f'the VIP on {names}', self.timeout)

    def count_ports(self, name):
        return len([port for port in self.cloud.connection.network.ports()
                    if port.name.startswith(name)])

    def assert_served(self):
        """All members answer, and no connection has ended."""
        names = {each.name for each in self.members}
        for client, address in self.ways:
            self.cloud.wait_for(
                lambda: names == {client.get(address) for _ in range(16)},
                f'{names} for {client.name}', self.timeout)
        # Each is used meanwhile.
        time.sleep(3)
        for held in self.held:
            report = held.report()
            self.assertEqual((NUMBER, set()),
                             (len(report.opened), set(report.broken)), report)

    def test_life(self):
        first = self.wait_for_two()
        cluster = self.cloud.add_cluster('web', self.members)
        active = self.wait_until_on(first)
        self.ways = (
            (self.client, cluster.vip_address),
            (self.outside, self.cloud.add_floating_ip(cluster.vip_port_id)))
        self.held = []
        self.assert_served()
        self.check_instances(first)
        self.held = [client.hold(address, NUMBER).wait_until_open()
                     for client, address in self.ways]

        # One dies: the other one has the VIP at once, and later a new one
        # comes.
        self.cloud.compute.instances[active].kill_tree()
        self.assert_served()
        self.cloud.wait_for(lambda: self.get_online() == first - {active},
                            'news of the dead')
        self.let_five_minutes_pass(active)
        second = self.wait_for_two({active})
        self.assertEqual(first - {active}, first & second)
        active = self.wait_until_on(second)
        self.assert_served()

        # An operator has the active one go, and its VIP with it.
        self.cloud.command('octavia-hmsync', 'distributor', 'instance',
                           'delete', active)
        third = self.wait_for_two({active})
        self.wait_until_on(third)
        self.assert_served()

        # The next load balancer waits for none to boot.
        self.cloud.delete_cluster(cluster)
        self.assertEqual(0, self.count_ports('octavia-lb-distributor-'))
        self.assertEqual(third, self.wait_for_two())
        self.assertEqual(third, self.cloud.compute.instances.keys())

        # None are wanted any more.
        housekeeping = self.cloud.housekeeping
        housekeeping.stop()
        housekeeping.options['hmsync_cluster']['distributor_instances'] = 0
        housekeeping.start()
        for name in third:
            self.cloud.command('octavia-hmsync', 'distributor', 'instance',
                               'delete', name)
        self.cloud.wait_for(
            lambda: not booted_repo.get_all(self.cloud.engine),
            'end of the last one', self.timeout)
        self.assertEqual({}, self.cloud.compute.instances)
        self.assertEqual(0, self.count_ports('octavia-hmsync-distributor-'))

    def let_five_minutes_pass(self, name):
        """Have it not have answered for as long as nobody waits for."""
        with self.cloud.engine.begin() as connection:
            connection.execute(sa.text(
                'UPDATE hmsync_distributor SET last_seen = '
                'last_seen - INTERVAL 6 MINUTE WHERE name = :name'),
                {'name': name})
