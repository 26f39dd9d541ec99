# SPDX-License-Identifier: Apache-2.0

"""The plugin's tables are taken away."""

import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.db import lookup
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync.services.cli import purge
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

OWN_TABLES = sorted({*models.Base.metadata.tables, schema.VERSION_TABLE})


class PurgeCases(base.BareDatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.before = self.tables()

    def test_all_of_ours_and_no_other(self):
        self.execute('CREATE TABLE hmsyncs (n INTEGER)')
        before = self.tables()
        schema.upgrade(self.engine)
        # Of a release that is newer than this one.
        self.execute('CREATE TABLE hmsync_new (n INTEGER)')
        amphora_id = self.database.records.add_amphora('192.0.2.1')
        ours = sorted([*OWN_TABLES, 'hmsync_new'])
        self.assertEqual(ours, purge.get_tables(self.engine))
        self.assertEqual(ours, purge.drop_tables(self.engine))
        self.assertEqual(before, self.tables())
        self.assertEqual([amphora_id], [
            row['id'] for row in self.database.records.rows('amphora')])

    def test_again(self):
        schema.upgrade(self.engine)
        purge.drop_tables(self.engine)
        self.assertEqual([], purge.get_tables(self.engine))
        self.assertEqual([], purge.drop_tables(self.engine))
        self.assertEqual([], purge.get_alive(self.engine, 20))
        self.assertEqual((None, schema.head()), schema.upgrade(self.engine))
        self.assertEqual(OWN_TABLES, purge.get_tables(self.engine))

    def test_killed_half_way(self):
        """MySQL has no transactional DDL; the next one goes on from there."""
        schema.upgrade(self.engine)
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'a', 20)
        dropped = []

        def before(conn, cursor, statement, *args):
            if statement.lstrip().startswith('DROP'):
                if len(dropped) == 3:
                    raise ZeroDivisionError()
                dropped.append(statement)

        sa.event.listen(self.engine, 'before_cursor_execute', before)
        self.assertRaises(ZeroDivisionError, purge.drop_tables, self.engine)
        sa.event.remove(self.engine, 'before_cursor_execute', before)
        if self.engine.dialect.name == 'mysql':
            # Whoever looks meanwhile sees that there is nothing to use.
            left = purge.get_tables(self.engine)
            self.assertEqual(len(OWN_TABLES) - 3, len(left))
            self.assertNotIn(schema.VERSION_TABLE, left)
        purge.drop_tables(self.engine)
        self.assertEqual(self.before, self.tables())

    def test_rows(self):
        schema.upgrade(self.engine)
        keeper_repo.touch(self.engine, 'keeper1', ())
        self.assertEqual(2, purge.count_rows(self.engine, OWN_TABLES))
        self.assertEqual(0, purge.count_rows(self.engine,
                                             ['hmsync_amphora']))

    def age(self, model, seconds):
        with self.engine.begin() as connection:
            connection.execute(sa.update(model.__table__).values(
                keepalive_at=types.utcnow_plus(-seconds)))

    def alive(self):
        return purge.get_alive(self.engine, 20)

    def test_who_is_alive(self):
        schema.upgrade(self.engine)
        self.assertEqual([], self.alive())
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'a', 20)
        hm_repo.register(self.engine, 'hm2', '192.0.2.2', 5555, 'b', 20)
        hm_repo.change_status(self.engine, 'hm2', 'ONLINE', 'DRAINING')
        keeper_repo.touch(self.engine, 'keeper1', ())
        self.assertEqual(
            ['octavia-health-manager on hm1', 'octavia-health-manager on hm2',
             'octavia-housekeeping on keeper1'], self.alive())
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.age(models.HouseKeeper, 21)
        self.assertEqual(['octavia-health-manager on hm2'], self.alive())
        self.age(models.HealthManager, 21)
        self.assertEqual([], self.alive())

    def test_tables_of_the_first_release(self):
        schema.upgrade(self.engine)
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'a', 20)
        self.execute('ALTER TABLE hmsync_health_manager DROP COLUMN announced',
                     'DROP TABLE hmsync_house_keeper')
        self.assertEqual(['octavia-health-manager on hm1'], self.alive())

    def test_clusters(self):
        self.assertEqual(0, purge.count(self.engine, models.Cluster))
        schema.upgrade(self.engine)
        self.assertEqual(0, purge.count(self.engine, models.Cluster))
        cluster_repo.add(self.engine, cluster_calls.new())
        self.assertEqual(1, purge.count(self.engine, models.Cluster))


class LookupCases(base.BareDatabaseTestCase):
    """Rows that load balancers of clusters refer to."""

    def names(self):
        return {row['name']: row['description'] for table in
                ('lb_topology', 'amphora_roles')
                for row in self.database.records.query(
                    f'SELECT name, description FROM {table}')}

    def find(self, function):
        with self.engine.connect() as connection:
            return function(connection)

    def test_they_come_and_go(self):
        before = self.names()
        self.assertEqual(
            ['lb_topology ACTIVE_ACTIVE', 'amphora_roles IN_CLUSTER'],
            self.find(lookup.find_missing))
        for _ in range(2):
            schema.upgrade(self.engine)
            self.assertEqual(
                {**before, 'ACTIVE_ACTIVE': 'octavia-hmsync',
                 'IN_CLUSTER': 'octavia-hmsync'}, self.names())
        self.assertEqual([], self.find(lookup.find_missing))
        self.assertEqual([], self.find(lookup.find_others))
        for _ in range(2):
            self.assertEqual([], lookup.remove(self.engine))
            self.assertEqual(before, self.names())

    def test_one_that_somebody_took_away(self):
        schema.upgrade(self.engine)
        self.execute("DELETE FROM amphora_roles WHERE name = 'IN_CLUSTER'")
        self.assertEqual(['amphora_roles IN_CLUSTER'],
                         self.find(lookup.find_missing))
        schema.upgrade(self.engine)
        self.assertEqual([], self.find(lookup.find_missing))

    def test_those_of_somebody_else(self):
        self.execute(
            "INSERT INTO lb_topology (name, description) VALUES "
            "('ACTIVE_ACTIVE', 'mine')",
            "INSERT INTO amphora_roles (name) VALUES ('IN_CLUSTER')")
        before = self.names()
        schema.upgrade(self.engine)
        self.assertEqual(
            ['lb_topology ACTIVE_ACTIVE (mine)',
             'amphora_roles IN_CLUSTER (not described)'],
            self.find(lookup.find_others))
        self.assertEqual([], lookup.remove(self.engine))
        self.assertEqual(before, self.names())

    def test_used_ones_stay(self):
        schema.upgrade(self.engine)
        records = self.database.records
        lb_id = records.add_load_balancer('ACTIVE_ACTIVE')
        records.add_amphora('192.0.2.1', lb_id, 'IN_CLUSTER')
        kept = lookup.remove(self.engine)
        self.assertEqual(
            ['lb_topology ACTIVE_ACTIVE', 'amphora_roles IN_CLUSTER'], kept)
        self.assertEqual([], self.find(lookup.find_missing))
        records.change('load_balancer', lb_id, topology='SINGLE')
        self.assertEqual(['amphora_roles IN_CLUSTER'],
                         lookup.remove(self.engine))
