# SPDX-License-Identifier: Apache-2.0

import types

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.distribution.ovs import documents
from tests.unit.cluster import distributors


class TestPinTimeout(distributors.DistributorTestCase):

    def test_told(self):
        """Distributors remember what can be there, and no longer."""
        self.cluster_id = self.add_cluster()
        self.vips.add(self.cluster_id)
        for seconds, expected in ((50, 60), (75, 75), (200, 200),
                                  # Those of before may be there still.
                                  (75, 200), (86400, 3600)):
            version = self.get_version(self.cluster_id)
            member_repo.raise_idle_timeout(self.engine, self.cluster_id,
                                           seconds)
            self.watch.run_once()
            self.assertEqual(expected, self.get_told())
            self.assertEqual(seconds != 75 or expected == 75,
                             version < self.get_version(self.cluster_id))

    def get_told(self):
        told, = {one.documents[self.cluster_id].pin_timeout
                 for one in self.fakes.values()
                 if self.cluster_id in one.documents}
        return told

    def test_choose(self):
        """By those who may have connections."""
        cluster_id = self.add_cluster(0)
        self.assertEqual(60, documents.choose_pin_timeout([], 3600))
        first = self.add_member(cluster_id)
        member_repo.raise_idle_timeout(self.engine, cluster_id, 300)
        self.add_member(cluster_id)
        self.assertEqual(300, self.choose(cluster_id))
        member_repo.raise_idle_timeout(self.engine, cluster_id, 80)
        member_repo.set_state(self.engine, first.id, (member_repo.ACTIVE,),
                              member_repo.DRAINING)
        self.assertEqual(300, self.choose(cluster_id))
        member_repo.set_state(self.engine, first.id, (member_repo.DRAINING,),
                              member_repo.FAILED)
        self.assertEqual(80, self.choose(cluster_id))

    def test_idle_timeout(self):
        def make(client=50000, connect=5000, member=50000, inspect=0):
            return types.SimpleNamespace(
                timeout_client_data=client, timeout_member_connect=connect,
                timeout_member_data=member, timeout_tcp_inspect=inspect)

        for expected, *listeners in (
                (0,), (75, make()), (3600, make(), make(client=3600000)),
                (3625, make(member=3600000)), (85, make(inspect=10000)),
                (76, make(inspect=1)),
                # Without end, or what Octavia says.
                (2 ** 31 - 1, make(), make(client=0)),
                (2 ** 31 - 1, make(member=None)),
                (2 ** 31 - 1, make(client=10 ** 15))):
            self.assertEqual(expected,
                             member_facts.get_idle_timeout(listeners))

    def choose(self, cluster_id):
        return documents.choose_pin_timeout(
            member_repo.get_of_cluster(self.engine, cluster_id), 3600)
