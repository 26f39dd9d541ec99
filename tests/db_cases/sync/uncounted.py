# SPDX-License-Identifier: Apache-2.0

"""Heartbeats of members of clusters that have a listener in ERROR.

By Octavia's own functions for a heartbeat, which health managers call.
"""

import time

from octavia.amphorae.drivers.health import heartbeat_udp

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.sync.db import uncounted as uncounted_repo
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.sync import amphora_view

OLD = 1000


class UncountedCases(amphora_view.HeartbeatMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.begin()
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='ACTIVE')
        self.refused = self.records.add_listener(self.lb_id, 81)
        self.records.change('listener', self.refused,
                            provisioning_status='ERROR')

    def add_members(self):
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb_id))
        for amphora_id in (self.old, self.new):
            member_repo.add(self.engine, 'cluster1', amphora_id, 8)
            member_repo.assign_amphora(self.engine, amphora_id, amphora_id)

    def is_counted(self, *args, **kwargs):
        self.records.set_health(self.old, self.new, age=OLD)
        # As one heartbeat_interval later.
        self.driver._pid = None
        before = self.get_ages()
        self.beat(self.old, *args, **kwargs)
        after = self.get_ages()
        self.assertEqual(before[self.new], after[self.new])
        return after[self.old] != before[self.old]

    def get_ages(self):
        health = self.records.tables['amphora_health']
        with self.engine.connect() as connection:
            return {row.amphora_id: row.last_update
                    for row in connection.execute(health.select())}

    def test_new_listener_that_was_refused(self):
        """Octavia waits for a heartbeat with both of them."""
        self.assertFalse(self.is_counted())
        self.add_members()
        self.assertTrue(self.is_counted())
        # Its haproxy is gone, and nothing is wrong with another one's.
        self.assertFalse(self.is_counted(listeners=[]))
        self.assertFalse(self.is_counted(listeners=[self.refused]))
        self.assertTrue(self.is_counted(
            listeners=[self.listener_id, self.refused]))
        # A third one that is well is missing.
        third = self.records.add_listener(self.lb_id, 82)
        self.assertFalse(self.is_counted())
        self.records.change('listener', third, enabled=False)
        self.assertTrue(self.is_counted())
        self.records.change('listener', self.refused,
                            provisioning_status='ACTIVE')
        self.assertFalse(self.is_counted())

    def test_one_that_has_waited(self):
        """Octavia ignores it, whatever it reports."""
        self.add_members()
        self.records.set_health(self.old, age=OLD)
        before = self.get_ages()
        message = self.make_message(self.old)
        message['recv_time'] = time.time() - 60
        heartbeat_udp.update_stats(message)
        self.assertEqual(before, self.get_ages())

    def test_who_is_asked_for(self):
        self.assertEqual({}, uncounted_repo.get(self.engine))
        self.add_members()
        expected = uncounted_repo.Expected(frozenset([self.listener_id]), 2)
        self.assertEqual({self.old: expected, self.new: expected},
                         uncounted_repo.get(self.engine))
        self.records.change('listener', self.refused, enabled=False)
        self.assertEqual({}, uncounted_repo.get(self.engine))
