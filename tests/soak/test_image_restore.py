#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A pair of which one died while nothing could be built."""

from tests.functional import test_image_restore


class TestPair(test_image_restore.RestoreTestCase):

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
