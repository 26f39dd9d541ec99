# SPDX-License-Identifier: Apache-2.0

"""Who uses a list, and who only acknowledged it, to the end."""

import json

from octavia_hmsync.sync.rules import adoption
from tests.functional import test_adoption


class TestAdoption(test_adoption.AdoptionTestCase):

    def not_adopted(self):
        result = self.cloud.command('octavia-hmsync', 'amphora', 'list',
                                    '--not-adopted', '-f', 'json')
        self.assertEqual(0, result.returncode, result.stderr)
        return [row['id'] for row in json.loads(result.stdout)]

    def status(self):
        result = self.cloud.command('octavia-hmsync', 'sync', 'status',
                                    '-f', 'json')
        self.assertEqual(0, result.returncode, result.stderr)
        return json.loads(result.stdout)

    def test_adoption(self):
        cloud = self.make_cloud(options={
            'health_manager': {'stats_update_threads': 2}})
        boot = [f'{cloud.address(n)}:5555' for n in (1, 2)]
        new = cloud.add_load_balancer(boot, listener=True)[0]
        old = cloud.add_load_balancer(boot, listener=True, old_image=True)[0]
        idle = cloud.add_load_balancer(boot)[0]
        self.start(1, 2)
        self.wait_until_published(boot)
        self.wait_until_applied()
        # Where nothing is known of what it has, it must show all of its
        # list; what it booted with is this one.
        for agent in (new, old):
            self.wait_until_adoption(agent, adoption.Adoption.ADOPTED)
            self.assertIn(self.row(agent).adopted_via, boot)

        # One more address: only a heartbeat there proves anything.
        three = self.start(3, housekeeping=False)[0]
        self.wait_until_published([*boot, three.address])
        self.wait_until_applied()
        self.wait_until_adoption(new, adoption.Adoption.ADOPTED)
        self.assertEqual(three.address, self.row(new).adopted_via)
        self.assertIsNotNone(self.row(new).adopted_at)
        # It acknowledged like the others, and is never counted as adopted.
        self.assertIsNot(adoption.Adoption.ADOPTED, self.adoption(old))
        self.wait_until_adoption(old, adoption.Adoption.NOT_ADOPTED)
        self.assertIsNone(self.row(old).adopted_at)
        # An amphora without listeners tells nobody which list it uses.
        self.wait_until_adoption(idle, adoption.Adoption.UNPROVEN)
        self.assertEqual([old.amphora_id], self.not_adopted())
        status = self.status()
        self.assertEqual((3, 1, 0, 1, 1), (
            status['applied'], status['adopted'], status['pending'],
            status['not_adopted'], status['unproven']))
        self.wait_for(lambda: 'go on with an old one' in
                      self.housekeeping.log(), 'name of it in the log')
        self.assertIn(old.amphora_id, self.housekeeping.log())
        # Until its agent restarts.
        old.stop()
        old.start()
        self.wait_until_adoption(old, adoption.Adoption.ADOPTED)
        self.assertEqual(three.address, self.row(old).adopted_via)
        self.assertEqual([], self.not_adopted())
