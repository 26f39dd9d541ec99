# SPDX-License-Identifier: Apache-2.0

"""Compute hosts that an operator holds, and what the guard does then."""

import datetime
import itertools

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import view as view_repo
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync import payloads
from tests.cloud import records
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.sync import amphora
from tests.unit import fakes

TIMEOUT = 60
HOST = 'host1'


class HostHoldCases(amphora.AmphoraCases):

    def setUp(self):
        super().setUp()
        self.notifier = fakes.Notifier()
        self.guard = guard.FailoverGuard(
            self.conf, self.engine, self.notifier,
            clock=itertools.count(0, 10).__next__)
        # A health manager has listened at the list of all, all the time.
        generation_repo.publish(self.engine, 1, dict(
            zip(amphora.LIST, range(2))), 'because', 'controller1')
        for number in (1, 2):
            hm_repo.register(self.engine, f'hm{number}',
                             f'192.0.2.10{number}', 5555, f'hm{number}', 20)
        self.make_older(models.HealthManager, 'online_since', 10000)

    def add_of(self, *ages, topology='ACTIVE_STANDBY'):
        """Add a load balancer; returns ids of amphorae, silent for so long."""
        lb_id = self.records.add_load_balancer(topology)
        ids = [self.records.add_amphora(f'192.0.2.{number}', lb_id)
               for number, _ in enumerate(ages, 1)]
        amphora.amphora_repo.add_missing(self.engine)
        self.claim()
        for amphora_id, age in zip(ids, ages, strict=True):
            self.record(amphora_id)
            self.records.set_health(amphora_id, age=age)
        self.make_older(models.Amphora, 'applied_at', 10000)
        return ids

    def hold(self, *amphora_ids, host=HOST, seconds=3600):
        host_hold_repo.begin(
            self.engine, host, records.utcnow().replace(microsecond=0) +
            datetime.timedelta(seconds=seconds), amphora_ids)

    def end(self):
        """Time passes until the hold has ended."""
        self.make_older(models.HostHold, 'ends_at', 3601)

    def get(self):
        return set(host_hold_repo.get_all(self.engine))

    # Rows

    def test_rows(self):
        self.assertEqual(set(), self.get())
        self.assertFalse(host_hold_repo.end(self.engine, HOST))
        self.hold()
        self.hold(host='host2')
        self.hold(seconds=7200)
        self.assertEqual({HOST, 'host2'}, self.get())
        ends_at = host_hold_repo.get_all(self.engine)
        self.assertLess(ends_at['host2'] + datetime.timedelta(seconds=3000),
                        ends_at[HOST])
        self.assertTrue(host_hold_repo.end(self.engine, HOST))
        self.assertFalse(host_hold_repo.end(self.engine, HOST))
        self.assertEqual({'host2'}, self.get())

    def test_it_ends_by_itself(self):
        self.hold()
        self.end()
        self.assertEqual(set(), self.get())
        self.assertFalse(host_hold_repo.end(self.engine, HOST))
        self.hold(host='host2')
        self.assertEqual(1, len(self.rows(models.HostHold)))

    def test_several_at_once(self):
        ids = self.add(3)
        self.run_at_once([lambda: self.hold(*ids)] * 4)
        self.assertEqual({HOST}, self.get())
        self.assertEqual([HOST] * 3, [
            row.held_host for row in self.rows(models.Amphora)])

    def test_time_that_is_left(self):
        self.assertAlmostEqual(60, host_hold_repo.get_seconds(
            self.engine, records.utcnow() + datetime.timedelta(seconds=60)),
            delta=10)

    # The guard

    def test_served_from_elsewhere(self):
        silent, _other = self.add_of(TIMEOUT + 1, 1)
        self.assertEqual(set(), self.guard.run_once())
        self.hold(silent)
        self.assertEqual({silent}, self.guard.run_once())
        self.assertLess(self.records.health_ages()[silent], TIMEOUT / 2)
        self.assertEqual([payloads.FailoverGuardHolding(
            (silent,), None, HOST)], self.notifier.take())
        # An operator wants it so: no alert.
        self.assertEqual(0, hold_repo.count_held(self.engine, TIMEOUT))

    def test_for_as_long_as_the_hold_lasts(self):
        silent, _other = self.add_of(TIMEOUT + 1, 1)
        self.hold(silent)
        self.guard.run_once()
        # Much longer than failover_hold_max.
        self.make_older(models.Amphora, 'held_since', 3000)
        self.make_older(models.Amphora, 'held_at', TIMEOUT)
        self.records.set_health(silent, age=TIMEOUT)
        self.assertEqual({silent}, self.guard.run_once())
        self.end()
        self.make_older(models.Amphora, 'held_at', TIMEOUT)
        self.records.set_health(silent, age=TIMEOUT)
        self.assertEqual(set(), self.guard.run_once())

    def test_released(self):
        silent, _other = self.add_of(TIMEOUT + 1, 1)
        self.hold(silent)
        host_hold_repo.end(self.engine, HOST)
        self.assertEqual(set(), self.guard.run_once())

    def test_the_other_one_dies(self):
        silent, other = self.add_of(TIMEOUT + 1, 1)
        self.hold(silent)
        self.guard.run_once()
        self.notifier.take()
        self.records.set_health(silent, other, age=TIMEOUT / 2 + 1)
        self.make_older(models.Amphora, 'held_at', TIMEOUT / 2 + 1)
        self.assertEqual(set(), self.guard.run_once())

    def test_not_served_from_elsewhere(self):
        single, = self.add_of(TIMEOUT + 1, topology='SINGLE')
        one, two = self.add_of(TIMEOUT + 1, 1)
        silent, other = self.add_of(TIMEOUT + 1, 1)
        self.records.set_status(other, 'ERROR')
        self.hold(single, one, two, silent)
        self.assertEqual(set(), self.guard.run_once())

    def test_heard_again(self):
        silent, _other = self.add_of(TIMEOUT + 1, 1)
        self.hold(silent)
        self.guard.run_once()
        self.notifier.take()
        self.records.set_health(silent, age=-2)
        self.guard.run_once()
        self.assertEqual([payloads.FailoverGuardReleased((silent,))],
                         self.notifier.take())

    def test_moved(self):
        """Who is there, the newest order says."""
        silent, _other = self.add_of(TIMEOUT + 1, 1)
        self.hold(silent)
        self.hold()
        self.assertEqual(set(), self.guard.run_once())

    # Clusters

    def test_members(self):
        one, two = self.add_of(1, 1, topology='ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(1))
        for name, amphora_id in (('a', one), ('b', two)):
            member_repo.add(self.engine, 'cluster1', name, 4)
            member_repo.assign_amphora(self.engine, name, amphora_id)
        for held in ([], [one]):
            self.hold(*held)
            self.assertEqual(frozenset(held), view_repo.read(
                self.engine, 'cluster1', 20).held)
