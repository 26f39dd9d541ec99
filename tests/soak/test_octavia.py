# SPDX-License-Identifier: Apache-2.0

"""The whole Octavia of tests/cloud: that it is one."""

import contextlib
import os

from oslotest import base
import psutil

from tests.cloud import machines
from tests.cloud import octavia


class TestOctavia(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(octavia.Octavia())
        self.cloud.wait_until_ready()
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member{number}'))
            for number in (1, 2)]
        self.client = self.useFixture(machines.Client(self.cloud, 'client'))

    def answers(self, address):
        return {self.client.get(address) for _ in range(4)}

    def test_load_balancers(self):
        api = self.cloud.connection.load_balancer
        made = [self.cloud.add_load_balancer(topology, topology, self.members)
                for topology in ('SINGLE', 'ACTIVE_STANDBY')]
        for each in made:
            self.assertEqual({'member1', 'member2'},
                             self.answers(each.vip_address))
        # Their heartbeats arrive, with what haproxy says of members.
        self.cloud.wait_for(
            lambda: {'ONLINE'} == {
                api.get_load_balancer(each.id).operating_status
                for each in made}, 'load balancers ONLINE')
        self.assertEqual(3, len(self.cloud.compute.instances))

        # A pair outlives one; stock health managers build another one.
        pair = made[1]
        old = {each.id for each in api.amphorae(loadbalancer_id=pair.id)}
        self.cloud.compute.by_amphora(sorted(old)[0]).kill_tree()
        self.cloud.wait_for(
            lambda: sorted(old)[0] not in {
                each.id for each in api.amphorae(loadbalancer_id=pair.id)},
            'failover', 120)
        self.cloud.wait_until_active(pair.id)
        self.assertEqual({'member1', 'member2'},
                         self.answers(pair.vip_address))

        for each in made:
            api.delete_load_balancer(each.id, cascade=True)
        self.cloud.wait_for(lambda: not list(api.load_balancers()),
                            'end of the load balancers')
        self.assertEqual({}, self.cloud.compute.instances)
        self.assertEqual([], [
            port.name for port in self.cloud.connection.network.ports()
            if port.name.startswith('octavia-')])

    def test_nothing_is_left(self):
        self.cloud.add_load_balancer('one', members=self.members)
        instance, = self.cloud.compute.instances.values()
        # What the agent makes goes with the instance.
        self.assertTrue(os.listdir(os.path.join(instance.directory, 'tmp')))
        pids = {child.pid for child in psutil.Process().children(True)}
        directory = self.cloud.directory
        self.doCleanups()
        self.assertFalse(os.path.exists(directory))
        left = []
        for pid in pids:
            # One that has ended is none that is left.
            with contextlib.suppress(psutil.Error):
                command = ' '.join(psutil.Process(pid).cmdline())
                if directory in command:
                    left.append(command)
        self.assertEqual([], left)
