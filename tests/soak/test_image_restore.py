# SPDX-License-Identifier: Apache-2.0

"""Load balancers that stock failover left, brought back."""

import json
import threading

from oslotest import base

from tests.cloud.compute import hypervisor
from tests.cloud import machines
from tests.cloud import octavia
from tests.cloud import waiting


class RestoreTestCase(base.BaseTestCase):

    def start(self, topology):
        self.cloud = self.useFixture(octavia.Octavia(workers=1))
        self.cloud.wait_until_ready()
        self.api = self.cloud.connection.load_balancer
        member = self.useFixture(machines.Member(self.cloud, 'member'))
        self.client = self.useFixture(machines.Client(self.cloud, 'client'))
        self.lb = self.cloud.add_load_balancer('web', topology, [member])
        self.wait_for_heartbeats()

    def wait_for_heartbeats(self):
        self.cloud.wait_for(
            lambda: self.api.get_load_balancer(
                self.lb.id).operating_status == 'ONLINE', 'heartbeats')

    def refuse_builds(self):
        def refuse(**_arguments):
            raise hypervisor.Refusal('ComputeBuildException', 'no valid host')
        self.cloud.compute.before['build'] = refuse

    def wait_for_status(self, status, timeout=120):
        self.cloud.wait_for(
            lambda: self.api.get_load_balancer(
                self.lb.id).provisioning_status == status, status, timeout)

    def amphorae(self):
        """The status of each, by id."""
        return {each.id: each.status for each in self.api.amphorae(
            loadbalancer_id=self.lb.id)}

    def busy(self):
        with self.cloud.engine.connect() as connection:
            return {row.amphora_id for row in connection.execute(
                octavia.sa.text('SELECT amphora_id FROM amphora_health '
                                'WHERE busy'))}

    def restore(self, *argv):
        """Return what was proven: {(amphora, check): result}."""
        found = json.loads(self.cloud.command(
            'octavia-hmsync', 'image', 'restore', self.lb.id, '-f', 'json',
            *argv))
        return {(row['amphora_id'], row['check']): row['result']
                for row in found}

    def assertRefused(self, words, *argv):
        before = self.amphorae()
        error = self.assertRaises(RuntimeError, self.restore, *argv)
        self.assertIn('failed with 1', str(error))
        self.assertIn('is left as it is', str(error))
        self.assertIn(words, str(error))
        self.assertEqual(before, self.amphorae())


class TestSingle(RestoreTestCase):

    def test_restore(self):
        self.start('SINGLE')
        amphora_id, = self.amphorae()
        probe = self.client.start_probe(self.lb.vip_address)

        # What cannot be built anew: the old one serves, in ERROR.
        self.refuse_builds()
        self.api.failover_amphora(amphora_id)
        self.wait_for_status('ERROR')
        self.assertEqual({amphora_id: 'ERROR'}, self.amphorae())
        self.assertEqual({amphora_id}, self.busy())
        found = self.restore('--dry-run')
        self.assertEqual({amphora_id: 'ERROR'}, self.amphorae())
        self.assertEqual({'Success'}, set(found.values()), found)
        self.assertEqual(found, self.restore())
        self.assertEqual({amphora_id: 'ALLOCATED'}, self.amphorae())
        self.assertEqual(set(), self.busy())
        self.wait_for_status('ACTIVE')

        # A worker that dies while the compute service builds.
        begun, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def wait(**_arguments):
            begun.set()
            waiting.happens(go_on)
            raise hypervisor.Refusal('ComputeBuildException', 'too late')
        self.cloud.compute.before['build'] = wait
        self.api.failover_amphora(amphora_id)
        self.assertTrue(waiting.happens(begun))
        worker, = self.cloud.workers
        worker.kill_tree()
        go_on.set()
        new_id, = self.amphorae().keys() - {amphora_id}
        self.assertEqual({amphora_id: 'PENDING_DELETE',
                          new_id: 'PENDING_CREATE'}, self.amphorae())
        self.assertRefused('A worker may still work on it')
        found = self.restore('--older-than', '0.01')
        self.assertEqual({(new_id, 'Outcome')}, {
            key for key, result in found.items() if result != 'Success'})
        self.assertEqual({amphora_id: 'ALLOCATED'}, self.amphorae())
        self.wait_for_status('ACTIVE')
        report = probe.stop()
        self.assertEqual(0, report.failed, report)

        # Nothing that serves is a leak, nor is what was taken from it.
        self.assertEqual(['NOT_CHECKED'], [
            row['outcome'] for row in json.loads(self.cloud.command(
                'octavia-hmsync', 'image', 'leaks', '--older-than', '0.01',
                '-f', 'json'))])

        # Octavia takes it for what it was: it can be changed, and failed
        # over. What is dead is not restored.
        worker.start()
        self.cloud.wait_until_ready()
        self.api.update_load_balancer(self.lb.id, name='web2')
        self.cloud.wait_until_active(self.lb.id)
        self.refuse_builds()
        self.cloud.compute.by_amphora(amphora_id).kill_tree()
        self.api.failover_amphora(amphora_id)
        self.wait_for_status('ERROR')
        self.assertRefused('No amphora that answers holds its VIP')


class TestPair(RestoreTestCase):
    """A pair of which one died while nothing could be built."""

    def holder(self):
        """The amphora that has the VIP."""
        def find():
            for amphora_id in self.amphorae():
                found = self.cloud.compute.by_amphora(
                    amphora_id).run_inside('ip', '-o', 'address')
                if f' {self.lb.vip_address}/' in found.stdout:
                    return amphora_id
            return None
        return self.cloud.wait_for(find, 'holder of the VIP')

    def test_one_died(self):
        self.start('ACTIVE_STANDBY')
        dead = self.holder()
        (alive,) = self.amphorae().keys() - {dead}
        self.refuse_builds()
        self.cloud.compute.by_amphora(dead).kill_tree()
        # By a health manager.
        self.wait_for_status('ERROR')
        self.assertEqual('ERROR', self.amphorae()[dead])
        found = self.restore()
        self.assertEqual('Warning', found[dead, 'Outcome'])
        self.assertEqual('Success', found[alive, 'Outcome'])
        self.assertEqual('Failure', found[dead, 'Agent'])
        self.assertEqual({dead: 'ERROR', alive: 'ALLOCATED'},
                         self.amphorae())
        self.wait_for_status('ACTIVE')
        self.assertEqual('member', self.client.get(self.lb.vip_address))

        # What it says to do next.
        del self.cloud.compute.before['build']
        probe = self.client.start_probe(self.lb.vip_address)
        self.api.failover_amphora(dead)
        self.cloud.wait_until_active(self.lb.id)
        self.assertEqual(['ALLOCATED'] * 2, list(self.amphorae().values()))
        self.assertNotIn(dead, self.amphorae())
        self.assertIn(alive, self.amphorae())
        self.assertEqual(alive, self.holder())
        self.assertEqual(0, probe.stop().failed)
