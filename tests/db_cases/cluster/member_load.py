# SPDX-License-Identifier: Apache-2.0

"""The load of members, from Octavia's statistics."""

import datetime

import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.rules import load
from octavia_hmsync.db import models
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

CLUSTER = 'cluster1'
FOLLOWER = 'by_connections'
_TABLE = models.MemberLoad.__table__


class LoadCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.heard_at = datetime.datetime(2026, 1, 1)
        self.amphorae = {}
        for number, manager in ((1, FOLLOWER), (2, 'reference')):
            cluster_repo.add(self.engine, cluster_calls.new(
                number, cluster_type=manager))
        for member_id, cluster_id in (('a', CLUSTER), ('b', CLUSTER),
                                      ('c', 'cluster2')):
            self.amphorae[member_id] = records.new_id()
            member_repo.add(self.engine, cluster_id, member_id, 4)
            member_repo.assign_amphora(self.engine, member_id,
                                       self.amphorae[member_id])

    def hear(self, member_id, total, traffic, active=3, seconds=10):
        """Have a heartbeat come, of two listeners."""
        amphora_id = self.amphorae[member_id]
        heard_at = self.heard_at + datetime.timedelta(seconds=seconds)
        for table, column in (('listener_statistics', 'amphora_id'),
                              ('amphora_health', 'amphora_id')):
            with self.engine.begin() as connection:
                connection.execute(sa.text(
                    f'DELETE FROM {table} WHERE {column} = :id'),
                    {'id': amphora_id})
        self.records.insert_all({
            'amphora_health': [{'amphora_id': amphora_id, 'busy': False,
                                'last_update': heard_at}],
            'listener_statistics': [
                {'listener_id': records.new_id(), 'amphora_id': amphora_id,
                 'bytes_in': traffic // 4, 'bytes_out': traffic // 4,
                 'active_connections': active,
                 'total_connections': total // 2, 'request_errors': 0}
                for _ in range(2)]})

    def measure(self):
        return load_repo.record(self.engine, load.find_measured(
            load_repo.scan(self.engine, [FOLLOWER])))

    def get(self, cluster_id=CLUSTER):
        return {member_id: (one.connections, one.connection_rate,
                            one.byte_rate, one.heard_at)
                for member_id, one in load_repo.get_of_cluster(
                    self.engine, cluster_id).items()}

    def count_rows(self):
        with self.engine.connect() as connection:
            return connection.execute(
                sa.select(sa.func.count()).select_from(_TABLE)).scalar()

    def test_rates(self):
        self.assertEqual((0, {}), (self.measure(), self.get()))
        self.hear('a', 100, 2 ** 40, seconds=0)
        self.hear('c', 100, 1000, seconds=0)
        self.assertEqual((1, {}), (self.measure(), self.get()))
        # Nothing new, and too soon.
        self.assertEqual(0, self.measure())
        self.hear('a', 150, 2 ** 40, seconds=5)
        self.assertEqual((0, {}), (self.measure(), self.get()))
        self.hear('a', 200, 2 ** 40 + 800, active=7, seconds=20)
        self.assertEqual(1, self.measure())
        heard_at = self.heard_at + datetime.timedelta(seconds=20)
        self.assertEqual({'a': (14, 5.0, 40.0, heard_at)}, self.get())
        self.assertEqual({}, self.get('cluster2'))

    def test_a_listener_is_deleted(self):
        """Its counts go, and the next heartbeat tells rates again."""
        for seconds, total, expected in ((0, 100, None), (10, 200, 10.0),
                                         (20, 50, None), (30, 60, 1.0)):
            self.hear('a', total, 0, seconds=seconds)
            self.measure()
            found = self.get().get('a')
            self.assertEqual(expected, found and found[1])

    def test_at_once(self):
        """Only one of several processes records it."""
        for seconds in (0, 10):
            for member_id in 'ab':
                self.hear(member_id, seconds, 0, seconds=seconds)
            self.assertEqual(2, sum(self.run_at_once([self.measure] * 4)))
        self.assertEqual([1.0, 1.0], [one[1] for one in self.get().values()])

    def test_left_behind(self):
        for member_id in 'ab':
            self.hear(member_id, 100, 100)
        self.measure()
        self.assertEqual(2, self.count_rows())
        member_repo.set_state(self.engine, 'a', member_repo.STATES,
                              'DRAINING')
        self.assertTrue(member_repo.delete(self.engine, 'a'))
        self.assertEqual(1, self.count_rows())
        self.assertTrue(cluster_repo.delete(self.engine, CLUSTER))
        self.assertEqual(0, self.count_rows())
        self.assertEqual(0, self.measure())

    def test_gone_meanwhile(self):
        """A member that is deleted while it is measured leaves no row."""
        self.hear('a', 100, 100)
        due = [(each, None)
               for each in load_repo.scan(self.engine, [FOLLOWER])]
        cluster_repo.delete(self.engine, CLUSTER)
        self.assertEqual(0, load_repo.record(self.engine, due))
        self.assertEqual(0, self.count_rows())
