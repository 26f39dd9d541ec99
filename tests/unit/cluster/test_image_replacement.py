# SPDX-License-Identifier: Apache-2.0

"""A replacement of a cluster's members, with the manager and its flows."""

import collections
import dataclasses
import datetime
import itertools
import json
import types
from unittest import mock

import fixtures
from oslo_utils import timeutils

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster import image_replacement as ordered
from octavia_hmsync.cluster.rules import places
from octavia_hmsync import compat
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image.preflight import run as preflight
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import work as image_work
from octavia_hmsync.image import target
from octavia_hmsync.sync.db import zone_drain as drain_repo
from tests.unit.cluster import cloud
from tests.unit.image.replace import attempts

OLD, NEW = 'image-old', 'image-new'


class TestImageUpgrade(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        groups.register(compat.CONF)
        for patched, name, new in (
                (image_work.agent_client, 'RestAgentClient', mock.Mock()),
                (attempt.preflight, 'judge',
                 lambda *args: preflight.Verdict()),
                (attempt.target, 'Targets', lambda conf:
                    types.SimpleNamespace(
                        get=lambda tag: target.Target(NEW))),
                (ordered.whole_prover, 'WholeProver', mock.Mock()),
                (image_work.Work, 'pause', lambda work, *args: (
                    work.check(), self.keep(1)))):
            self.useFixture(fixtures.MockPatchObject(patched, name, new))

    def replace(self, lb, name='one', rollout_id=None, **cause):
        """Have it replaced, as a housekeeper does; returns its row."""
        replace_repo.add(self.engine, replace_repo.New(
            name, lb, 'replace', NEW, compat.TOPOLOGY_ACTIVE_ACTIVE,
            **cause))
        claimed, = claims_repo.claim(self.engine, 'me', 1, 60)
        claimed = dataclasses.replace(claimed, rollout_id=rollout_id)
        work = attempts.make_work(compat.CONF, self.engine, claimed, 'me')
        outcome = ordered.Ordered(work, inventory.Inventory(
            compat.CONF, self.engine)).run()
        claims_repo.finish(self.engine, name, 'me', outcome.state,
                           outcome.reason)
        return replace_repo.get(self.engine, name)

    def make(self, size=3):
        lb = self.create(size=size)
        for member in self.get_members(lb):
            self.records.change('amphora', member.amphora_id, image_id=OLD)
            self.make_older(cloud.models.ClusterMember, 'created_at', 60,
                            id=member.id)
        return lb, {member.amphora_id for member in self.get_members(lb)}

    def test_all(self):
        lb, before = self.make()
        row = self.replace(lb)
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.keep()
        self.assertWhole(lb, 3)
        self.assertFalse(before & {member.amphora_id
                                   for member in self.get_members(lb)})
        self.assertEqual(3, len(self.cloud.instances))

    def test_it_grows_meanwhile(self):
        """As by "resize": the replacement waits, and new ones are new."""
        lb, before = self.make(2)
        cluster = self.get_cluster(lb)
        cluster_repo.set_sizes(self.engine, cluster.id, desired_size=4)
        # The manager has begun, and not yet built.
        self.assertTrue(cluster_repo.resize(self.engine, cluster.id, 4))
        with self.assertLogs('octavia_hmsync', 'WARNING') as logs:
            row = self.replace(lb)
        self.assertIn('waits for a change of its cluster', logs.output[0])
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.keep()
        self.assertWhole(lb, 4)
        self.assertFalse(before & {member.amphora_id
                                   for member in self.get_members(lb)})
        self.assertEqual(4, len(self.cloud.instances))

    def test_it_is_changed_meanwhile(self):
        """Its manager, or its owner, has it locked for a moment."""
        lb, before = self.make(2)
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        waits = []

        def pause(work, *args):
            waits.append(self.rows(cloud.models.ImageReplacement)[0].reason)
            self.records.change('load_balancer', lb,
                                provisioning_status='ACTIVE')
            self.keep(1)
        self.patch(image_work.Work, 'pause', pause)
        row = self.replace(lb)
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertEqual('It waits for a change of its cluster.', waits[0])
        self.assertIsNone(waits[-1])
        self.assertFalse(before & {member.amphora_id
                                   for member in self.get_members(lb)})

    def test_it_cannot_grow(self):
        """It is not waited for without an end, nor by a rollout."""
        lb, before = self.make(2)
        cluster = self.get_cluster(lb)
        cluster_repo.set_sizes(self.engine, cluster.id, desired_size=3)
        self.assertTrue(cluster_repo.resize(self.engine, cluster.id, 3))
        self.cloud.refuse('build amphora', 99)
        clock = itertools.count(0, 600)
        self.patch(ordered, 'time', types.SimpleNamespace(
            monotonic=lambda: next(clock)))
        row = self.replace(lb)
        self.assertEqual(('SKIPPED', 'in the way: NOT_WHOLE'),
                         (row.state, row.reason))
        self.patch(image_work.Work, 'pause', None)
        self.assertEqual('SKIPPED', self.replace(
            lb, 'two', rollout_id='rollout').state)
        self.assertEqual(before, {
            member.amphora_id for member in self.get_members(lb)
            if member.state == member_repo.ACTIVE})

    def test_nothing_can_be_built(self):
        """The first one is told; all serve on, and no order is left."""
        lb, before = self.make(2)
        self.cloud.refuse('build amphora', 99)
        row = self.replace(lb)
        self.assertEqual('FAILED', row.state)
        for words in ('could not be replaced, and serves on: ',
                      'An amphora could not be built'):
            self.assertIn(words, row.reason)
        self.assertWhole(lb, 2)
        members = self.get_members(lb)
        self.assertEqual(before, {member.amphora_id for member in members})
        self.assertEqual([None, None], [m.ordered for m in members])
        self.assertEqual(2, len(self.cloud.instances))

    def count_zones(self, lb):
        return dict(collections.Counter(
            self.cloud.zones[f'amphora-{member.amphora_id}']
            for member in self.get_members(lb)))

    def test_a_zone_is_drained_and_released(self):
        """One after the other leaves; then as few as needed come back."""
        self.patch(places, 'FAILURES', places.Failures())
        self.add_zone('spread')
        self.records.change(
            'availability_zone_profile', self.records.rows(
                'availability_zone_profile')[0]['id'],
            availability_zone_data=json.dumps({
                places.KEY: ['az1', 'az2', 'az3']}))
        lb = self.add_load_balancer()
        self.records.change('load_balancer', lb, availability_zone='spread')
        cloud.worker.Worker(compat.CONF).create(lb, {
            'cluster_desired_size': 4, 'cluster_min_size': 3})
        before = {m.amphora_id: m.zone for m in self.get_members(lb)}
        drain_repo.begin(self.engine, 'az1', timeutils.utcnow() +
                         datetime.timedelta(hours=1), False)
        row = self.replace(lb, cause='ZONE', cause_value='az1')
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.keep()
        self.assertWhole(lb, 4)
        self.assertEqual({'az2': 2, 'az3': 2}, self.count_zones(lb))
        self.assertEqual(
            {each for each, zone in before.items() if zone != 'az1'},
            before.keys() & {m.amphora_id for m in self.get_members(lb)})

        drain_repo.end(self.engine, 'az1')
        before = {m.amphora_id for m in self.get_members(lb)}
        row = self.replace(lb, 'two', cause='BALANCE')
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.keep()
        self.assertWhole(lb, 4)
        self.assertEqual([1, 1, 2], sorted(self.count_zones(lb).values()))
        self.assertEqual(3, len(before & {
            m.amphora_id for m in self.get_members(lb)}))

    def test_without_a_list_of_zones(self):
        """It leaves for the zone that the drain names, where Nova chose."""
        lb, _before = self.make(2)
        drain_repo.begin(self.engine, 'az1', timeutils.utcnow() +
                         datetime.timedelta(hours=1), False, 'az2')
        self.assertEqual('DONE', self.replace(lb, forced=True).state)
        self.keep()
        self.assertEqual({'az2': 2}, self.count_zones(lb))

    def test_a_zone_that_cannot_be_balanced(self):
        """What comes to a fuller zone is told, and no other one moves."""
        self.patch(places, 'FAILURES', places.Failures())
        self.add_zone('spread')
        self.records.change(
            'availability_zone_profile', self.records.rows(
                'availability_zone_profile')[0]['id'],
            availability_zone_data=json.dumps({places.KEY: ['az1', 'az2']}))
        lb = self.add_load_balancer()
        self.records.change('load_balancer', lb, availability_zone='spread')
        self.cloud.lost = {'az1'}
        cloud.worker.Worker(compat.CONF).create(lb, {
            'cluster_desired_size': 3, 'cluster_min_size': 2})
        before = {m.amphora_id for m in self.get_members(lb)}
        row = self.replace(lb, cause='BALANCE')
        self.assertEqual('FAILED', row.state)
        self.assertIn('came to zone az2, which has more amphorae than others',
                      row.reason)
        self.keep()
        self.assertWhole(lb, 3)
        self.assertEqual(2, len(before & {
            m.amphora_id for m in self.get_members(lb)}))

    def test_standby(self):
        """One that waits is replaced, too."""
        lb, before = self.make(2)
        cluster = self.get_cluster(lb)
        cloud.cluster_repo.set_sizes(self.engine, cluster.id, standby=1)
        self.keep()
        spare = next(member for member in self.get_members(lb)
                     if member.state == member_repo.STANDBY)
        self.records.change('amphora', spare.amphora_id, image_id=OLD)
        self.make_older(cloud.models.ClusterMember, 'created_at', 60,
                        id=spare.id)
        self.assertEqual('DONE', self.replace(lb).state)
        self.keep()
        members = self.get_members(lb)
        self.assertEqual(['ACTIVE', 'ACTIVE', 'STANDBY'],
                         [member.state for member in members])
        self.assertFalse((before | {spare.amphora_id}) & {
            member.amphora_id for member in members})
