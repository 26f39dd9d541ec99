# SPDX-License-Identifier: Apache-2.0

"""A replacement of a cluster's members, with the manager and its flows."""

import types
from unittest import mock

import fixtures

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster import image_replacement as ordered
from octavia_hmsync import compat
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image.preflight import run as preflight
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import work as image_work
from octavia_hmsync.image import target
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

    def replace(self, lb):
        """Have it replaced, as a housekeeper does; returns its row."""
        replace_repo.add(self.engine, replace_repo.New(
            'one', lb, 'replace', NEW, compat.TOPOLOGY_ACTIVE_ACTIVE))
        claimed, = claims_repo.claim(self.engine, 'me', 1, 60)
        work = attempts.make_work(compat.CONF, self.engine, claimed, 'me')
        outcome = ordered.Ordered(work, inventory.Inventory(
            compat.CONF, self.engine)).run()
        claims_repo.finish(self.engine, 'one', 'me', outcome.state,
                           outcome.reason)
        return replace_repo.get(self.engine, 'one')

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
