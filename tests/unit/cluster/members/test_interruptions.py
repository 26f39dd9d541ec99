# SPDX-License-Identifier: Apache-2.0

"""What a process does that must not go on with a cluster: nothing."""

import fixtures

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.members import members
from octavia_hmsync.cluster import work as work_
from octavia_hmsync import exceptions
from tests.cloud import records
from tests.unit.cluster import cloud

OWNER = 'another'


class TestRemoval(cloud.CloudTestCase):
    """Nova refuses the first deletion, and meanwhile it is no longer ours."""

    def setUp(self):
        super().setUp()
        lb = self.create(size=3)
        self.cluster = self.get_cluster(lb)
        self.member = member_repo.get_of_cluster(self.engine,
                                                 self.cluster.id)[0]
        self.work = work_.Work(
            self.context, self.cluster.id,
            self.context.claims.claim(self.cluster.id).owner)

    def interrupt(self, function):
        """Call a function once Nova has refused; remove the member."""
        def rule(text):
            if text.startswith('delete instance'):
                self.cloud.rules.remove(rule)
                function()
                raise cloud.Refused(text)
        self.cloud.rules.append(rule)
        try:
            members.remove(self.work, self.member)
        finally:
            row = next(row for row in self.records.rows('amphora')
                       if row['id'] == self.member.amphora_id)
            self.assertEqual(3, len(self.cloud.instances))
            self.assertNotEqual('DELETED', row['status'])
            found = member_repo.get(self.engine, self.member.id)
            self.assertIsNone(found.error)
            self.assertEqual(self.member.slot, found.slot)

    def lose(self):
        self.lapse()
        claim_repo.claim(self.engine, self.cluster.id, OWNER, 60)
        with self.assertRaisesRegex(exceptions.Lost, ''):
            self.work.look()

    def test_lost(self):
        self.assertRaises(exceptions.Lost, self.interrupt, self.lose)

    def test_stopped(self):
        self.assertRaises(exceptions.Stopped, self.interrupt,
                          self.context.claims.stopping.set)

    def test_unwanted(self):
        def want_it_gone():
            cluster_repo.set_status(self.engine, self.cluster.id,
                                    'PENDING_DELETE')
            with self.assertRaisesRegex(exceptions.Unwanted, ''):
                self.work.look()
        self.assertRaises(exceptions.Unwanted, self.interrupt, want_it_gone)


class TestBuild(cloud.CloudTestCase):

    def test_lost(self):
        """Another process has given the member an amphora meanwhile."""
        lb = self.create(size=2)
        cluster = self.get_cluster(lb)
        member_id = records.new_id()
        member_repo.add(self.engine, cluster.id, member_id, size=3)
        work = work_.Work(self.context, cluster.id,
                          self.context.claims.claim(cluster.id).owner)
        self.useFixture(fixtures.MockPatchObject(
            member_repo, 'assign_amphora', lambda *_: False))
        self.assertRaises(exceptions.Lost, members.build, work, member_id)
