# SPDX-License-Identifier: Apache-2.0

"""Octavia's own failover, and members of clusters that are silent.

Its real loop, with compute and network drivers that do nothing: a failover
that begins is seen in the database.
"""

from tests.functional import test_cluster_health

TIMEOUT = test_cluster_health.TIMEOUT
# It looks for the first time one heartbeat_timeout after its start.
LONG_ENOUGH = 2.5 * TIMEOUT


class TestOctaviasFailover(test_cluster_health.SilenceCase):

    def setUp(self):
        super().setUp()
        self.lb, *self.managers = self.make_members()
        self.wait_until_busy()
        self.dead, self.well = sorted(self.cloud.amphora_ids)

    def add_other(self):
        """Add one of no cluster, silent for long; returns its id."""
        amphora_id = self.cloud.records.add_amphora(
            self.cloud.address(90), self.cloud.records.add_load_balancer())
        self.cloud.records.set_health(amphora_id, age=10 * TIMEOUT)
        return amphora_id

    def go_on_without(self, manager):
        """Have a health manager be Octavia's alone, from its next start."""
        manager.options['DEFAULT'].pop('config_source')
        manager.options['controller_worker']['statistics_drivers'] = 'stats_db'
        manager.options['health_manager']['controller_ip_port_list'] = [
            each.address for each in self.managers]

    def check_others_alone(self, manager, other):
        """Check that it looks for who is silent, and leaves members alone."""
        manager.wait_until_ready()
        self.wait_for(lambda: other in self.cloud.failovers_begun(),
                      'failover of one of no cluster')
        deadline = 2 * TIMEOUT
        self.watch_members(self.lb, deadline, set(), {self.dead})

    def assertUntouched(self, lb):
        rows = {row['id']: row for row in self.cloud.records.rows('amphora')}
        self.assertEqual({'ALLOCATED'}, {
            rows[each]['status'] for each in self.cloud.amphora_ids})
        self.assertEqual(lb, rows[self.dead]['load_balancer_id'])
        self.assertEqual(dict.fromkeys(self.cloud.amphora_ids, True), {
            key: value for key, value in self.busy().items()
            if key in self.cloud.amphora_ids})
        self.assertEqual('ACTIVE', {
            row['id']: row['provisioning_status'] for row in
            self.cloud.records.rows('load_balancer')}[lb])

    def test_switched_off(self):
        """Members fall silent while nobody has the plugin, at each start."""
        for manager in self.managers:
            manager.stop()
            self.go_on_without(manager)
        self.cloud.amphorae[self.dead].kill_tree()
        for manager in self.managers:
            other = self.add_other()
            manager.start()
            self.check_others_alone(manager, other)
            manager.stop()

    def test_starts_and_stops(self):
        """Again and again, while one is silent, killed and in good order."""
        self.cloud.amphorae[self.dead].kill_tree()
        one, other = self.managers
        other.stop()
        for end in (one.stop, one.kill_tree, one.stop):
            end()
            one.start()
            one.wait_until_ready()
            self.watch_members(self.lb, 1.5 * TIMEOUT, set(), {self.dead})
        self.wait_until_silent({self.dead})
        self.watch_members(self.lb, LONG_ENOUGH, {self.dead})
