# SPDX-License-Identifier: Apache-2.0

"""Builds and deletions of clusters that end half-way."""

import threading

from tests.cloud.compute import hypervisor
from tests.cloud import machines
from tests.cloud import waiting
from tests.functional import clusters


class Room:
    """What a compute service has room for.

    :param compute: a hypervisor.Hypervisor.
    :param quota: how many instances may be asked for.
    :param hosts: for how many of them there is a host.
    """

    def __init__(self, compute, quota, hosts=99):
        self._compute = compute
        self._lock = threading.Lock()
        self._quota = quota
        self._hosts = hosts
        self._placed = set()
        compute.before.update(build=self._ask, get=self._place)

    def grow(self, number):
        """Have room for more."""
        with self._lock:
            self._quota += number
            self._hosts += number

    def _ask(self, **_):
        with self._lock:
            if self._quota:
                self._quota -= 1
                return
        raise hypervisor.Refusal('ComputeBuildException', 'Quota exceeded')

    def _place(self, compute_id):
        with self._lock:
            asked = self._compute.instances.get(compute_id)
            if asked is None or compute_id in self._placed:
                return
            if self._hosts:
                self._hosts -= 1
                self._placed.add(compute_id)
                return
        # As Nova does where no host is left that a server group allows.
        asked.state, asked.fault = 'ERROR', 'No valid host was found.'


class TestFaults(clusters.ClusterTestCase):

    def at(self, call, number, action):
        """Have something done at a call of the compute service.

        :param call: build, delete, ...
        :param number: the how-manieth of them, from 1.
        :param action: called without arguments, once.
        :returns: a threading.Event, set when it was done.
        """
        happened, lock = threading.Event(), threading.Lock()
        count = [0]

        def before(**_):
            with lock:
                count[0] += 1
                if count[0] != number:
                    return
            try:
                action()
            finally:
                happened.set()

        self.cloud.compute.before[call] = before
        self.addCleanup(self.cloud.compute.before.pop, call, None)
        return happened

    def kill_worker(self):
        self.cloud.workers[0].kill_tree()

    def test_quota(self):
        """One too many, and no host for one: it is ACTIVE, and whole later."""
        room = Room(self.cloud.compute, 3, hosts=2)
        lb = self.cloud.add_cluster('web', self.members, desired_size=4,
                                    min_size=2)
        self.assertEqual(2, len(self.get_members()))
        self.assertServes(lb)
        room.grow(4)
        self.wait_until_whole(lb, 4)
        self.assertServes(lb)
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()

    def fail_to_build(self):
        """Have one of eight not come to three; it is never ACTIVE."""
        lb = self.cloud.add_cluster('web', self.members, desired_size=8,
                                    min_size=3, wait=False)
        seen = set()

        def failed():
            status = self.api.get_load_balancer(lb.id).provisioning_status
            seen.add(status)
            return status == 'ERROR'

        self.cloud.wait_for(failed, 'ERROR', 240)
        self.assertNotIn('ACTIVE', seen)
        # Of a load balancer in ERROR there is its address.
        self.assertEqual({}, self.cloud.compute.instances)
        self.assertEqual([], self.rows('hmsync_cluster_member'))
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()

    def test_quota_of_eight(self):
        """Never ACTIVE with too few; deleted while the rest is built."""
        room = Room(self.cloud.compute, 2)
        self.fail_to_build()

        room.grow(3)
        lb = self.cloud.add_cluster('web', self.members, desired_size=8,
                                    min_size=3)
        self.assertEqual(3, len(self.get_members()))
        self.assertServes(lb)
        self.cloud.wait_for(
            lambda: self.api.get_load_balancer(
                lb.id).operating_status == 'DEGRADED', 'DEGRADED')
        room.grow(3)
        self.cloud.wait_for(lambda: len(self.cloud.compute.instances) > 3,
                            'one more', 120)
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()

    def test_hosts_of_eight(self):
        """Nova takes all of them, and has a host for some."""
        Room(self.cloud.compute, 99, hosts=2)
        self.fail_to_build()
        Room(self.cloud.compute, 99, hosts=3)
        lb = self.cloud.add_cluster('web', self.members, desired_size=8,
                                    min_size=3)
        self.assertEqual(3, len(self.get_members()))
        self.assertServes(lb)
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()

    def test_worker_killed(self):
        """In the middle of a build, and of a deletion: another goes on."""
        happened = self.at('build', 2, self.kill_worker)
        lb = self.cloud.add_cluster('web', self.members, wait=False)
        self.assertTrue(waiting.happens(happened))
        self.wait_until_whole(lb, 2)
        self.assertServes(lb)

        self.cloud.workers[0].start()
        self.cloud.wait_until_ready()
        happened = self.at('delete', 1, self.kill_worker)
        self.cloud.delete_cluster(lb, wait=False)
        self.assertTrue(waiting.happens(happened))
        self.cloud.wait_until_gone(lb)
        self.assertNothingLeft()


class TestReplace(clusters.ClusterTestCase):

    def test_ordered(self):
        """Octavia's command for one amphora, under traffic."""
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        before = self.get_members()
        held = self.client.hold(lb.vip_address, 40).wait_until_open()
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        self.api.failover_amphora(before[1])
        self.cloud.wait_for(
            lambda: self.get_members().get(1) not in (None, before[1]),
            'another amphora', 240)
        self.wait_until_whole(lb, 2)
        self.assertEqual(before[0], self.get_members()[0])
        report, kept = probe.stop(), held.stop()
        self.assertEqual(0, report.failed, report)
        # Those of the one that is gone ended with it, no others.
        self.assertLess(len(kept.broken), 40, kept)
        self.assertServes(lb)
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()
