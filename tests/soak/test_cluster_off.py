# SPDX-License-Identifier: Apache-2.0

"""Octavia without the plugin where there are clusters: roll-back.rst.

Traffic goes on, a dead member gets nothing new and is not replaced, and
changes are refused. When the plugin is on again, all becomes whole.
"""

import subprocess
import sys
import time

from openstack import exceptions
import sqlalchemy as sa

from tests.cloud import machines
from tests.cloud import octavia_conf
from tests.functional import clusters

SILENCE = 20
OPEN = 40
SIZE = 3


class TestOff(clusters.ClusterTestCase):

    options = {'health_manager': {'heartbeat_timeout': SILENCE},
               'hmsync_cluster': {'drain_timeout': 3600}}

    def say(self, text):
        print(f'{time.monotonic() - self.begun:7.1f} {text}',
              file=sys.__stderr__, flush=True)

    def restart(self, lines):
        """Have all controllers run with other lines, one after the other."""
        for child in sorted(self.cloud.controllers, key=lambda each:
                            each not in self.cloud.house_keepers):
            self.before.setdefault(child, child.options)
            child.options = octavia_conf.merge(self.before[child], lines)
            self.assertTrue(child.stop(), child.name)
            child.start()
        self.cloud.wait_until_ready()

    def get_amphorae(self):
        with self.cloud.engine.connect() as connection:
            return set(connection.execute(sa.text(
                "SELECT id FROM amphora WHERE status = 'ALLOCATED'"
            )).scalars())

    def test_off(self):
        self.begun, self.before = time.monotonic(), {}
        lb = self.cloud.add_cluster('web', self.members, desired_size=SIZE)
        self.wait_until_whole(lb, SIZE)
        held = self.client.hold(lb.vip_address, OPEN)
        probe = self.client.start_probe(lb.vip_address, rate=20,
                                        timeout=machines.PATIENCE)
        self.say('off')
        self.cloud.hmsync = False
        self.restart({
            'DEFAULT': {'config_source': None},
            'controller_worker': {'statistics_drivers': None},
            'api_settings': {'enabled_provider_drivers': None},
            'hmsync': dict.fromkeys(octavia_conf.HMSYNC['hmsync']),
            'health_manager': {'controller_ip_port_list': [
                each.address for each in self.cloud.health_managers]}})
        time.sleep(2 * SILENCE)
        report = probe.stop()
        self.say(f'  {report}')
        self.assertEqual(0, report.failed, report)
        self.assertEqual({}, held.report().broken)

        members, amphorae = self.get_members(), self.get_amphorae()
        dead = members[1]
        theirs = self.cloud.get_sessions(lb)[dead]
        self.cloud.compute.by_amphora(dead).kill_tree()
        time.sleep(2 * SILENCE)
        probe = self.client.start_probe(lb.vip_address, rate=20,
                                        timeout=machines.PATIENCE)
        time.sleep(SILENCE)
        report = probe.stop()
        self.say(f'  one is dead: {report}')
        self.assertEqual(0, report.failed, report)
        self.assertEqual((members, amphorae),
                         (self.get_members(), self.get_amphorae()))
        for change in (
                lambda: self.api.update_load_balancer(lb.id, name='other'),
                lambda: self.api.create_listener(
                    load_balancer_id=lb.id, protocol='TCP',
                    protocol_port=81),
                lambda: self.api.delete_load_balancer(lb.id, cascade=True)):
            e = self.assertRaises(exceptions.HttpException, change)
            self.assertIn('is not enabled', str(e))
        command, how = self.cloud.make_command('octavia-hmsync', 'upgrade',
                                               'check')
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=120, **how)
        self.assertNotEqual(0, done.returncode, done.stdout)
        self.assertRegex(done.stdout, r'Check: Clusters *\|\n\| *Result: '
                                      r'Failure')

        self.say('on again')
        self.cloud.hmsync = True
        self.restart({})
        self.cloud.wait_until_replaced(lb, dead)
        self.wait_until_whole(lb, SIZE)
        self.assertServes(lb)
        self.assertLessEqual(set(held.report().broken), theirs)
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()
