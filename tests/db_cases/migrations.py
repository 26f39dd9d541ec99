# SPDX-License-Identifier: Apache-2.0

"""Our schema comes from migrations, beside Octavia's."""

import pathlib
import shutil

from alembic import autogenerate
from alembic import migration
import fixtures
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from tests.cloud import installations
from tests.db_cases import base

OWN_TABLES = {*models.Base.metadata.tables, schema.VERSION_TABLE}


class SchemaCases(base.BareDatabaseTestCase):

    def check(self):
        with self.engine.connect() as connection:
            schema.check(connection)

    def upgrade_by_single_statements(self):
        """Upgrade, and be killed after each statement that changes a table.

        :returns: how often it was killed.
        """
        killed = 0
        while not self._upgrade_by_one_statement():
            self.assertRaises(exceptions.SchemaMissing, self.check)
            killed += 1
        return killed

    def _upgrade_by_one_statement(self):
        """End an upgrade at the second change that it makes.

        :returns: whether it made none but one.
        """
        done = []

        def before(conn, cursor, statement, parameters, context, many):
            if statement.lstrip().startswith(('ALTER', 'CREATE')):
                if done:
                    raise ZeroDivisionError()
                done.append(statement)

        sa.event.listen(self.engine, 'before_cursor_execute', before)
        try:
            schema.upgrade(self.engine)
        except ZeroDivisionError:
            return False
        finally:
            sa.event.remove(self.engine, 'before_cursor_execute', before)
        return True


class MigrationCases(SchemaCases):

    def test_from_nothing(self):
        before = self.tables()
        self.assertEqual((None, schema.head()), schema.upgrade(self.engine))
        self.assertEqual(OWN_TABLES, self.tables() - before)
        self.check()

    def test_again(self):
        schema.upgrade(self.engine)
        self.execute(
            'INSERT INTO hmsync_house_keeper '
            '(host, pinned_ip_port_list, keepalive_at) VALUES '
            "('controller1', '', '2026-01-01 00:00:00.000000')")
        self.assertEqual((schema.head(), schema.head()),
                         schema.upgrade(self.engine))
        with self.engine.connect() as connection:
            self.assertEqual(1, connection.execute(sa.text(
                'SELECT COUNT(*) FROM hmsync_house_keeper')).scalar())

    def test_migrations_and_models_agree(self):
        schema.upgrade(self.engine)
        self.assertAgree()

    def assertAgree(self):
        def is_ours(name, type_, parent_names):
            return type_ != 'table' or name in models.Base.metadata.tables

        with self.engine.connect() as connection:
            context = migration.MigrationContext.configure(connection, opts={
                'version_table': schema.VERSION_TABLE,
                'include_name': is_ours, 'compare_type': True})
            self.assertEqual([], autogenerate.compare_metadata(
                context, models.Base.metadata))

    def test_version_table_of_octavia_is_left_alone(self):
        if 'alembic_version' not in self.tables():
            self.execute(
                'CREATE TABLE alembic_version (version_num VARCHAR(32))',
                "INSERT INTO alembic_version VALUES ('octavias')")
        before = self.database.records.query('SELECT * FROM alembic_version')
        schema.upgrade(self.engine)
        self.assertEqual(before, self.database.records.query(
            'SELECT * FROM alembic_version'))

    def test_no_foreign_key_into_octavia(self):
        """One to amphora would block housekeeping's purge."""
        schema.upgrade(self.engine)
        with self.engine.connect() as connection:
            inspector = sa.inspect(connection)
            for table in OWN_TABLES:
                self.assertEqual([], inspector.get_foreign_keys(table))

    def test_not_there_yet(self):
        e = self.assertRaises(exceptions.SchemaMissing, self.check)
        self.assertIn('octavia-hmsync db upgrade', str(e))

    def test_newer(self):
        schema.upgrade(self.engine)
        self.execute(
            f"UPDATE {schema.VERSION_TABLE} SET version_num = 'abcd'")
        for function in (self.check, lambda: schema.upgrade(self.engine)):
            e = self.assertRaises(exceptions.SchemaNewer, function)
            self.assertIn('abcd', str(e))
        # And nothing has happened to it.
        self.assertRaises(exceptions.SchemaNewer, self.check)

    def test_older(self):
        """A release of this package that knows one revision more."""
        schema.upgrade(self.engine)
        self.patch(schema, 'head', lambda: '0099')
        e = self.assertRaises(exceptions.SchemaMissing, self.check)
        self.assertIn('needs 0099', str(e))
        self.assertIn('octavia-hmsync db upgrade', str(e))

    def test_database_that_is_not_octavias(self):
        """No table is made there, and no password told."""
        self.execute('ALTER TABLE amphora_health RENAME TO health')
        before = self.tables()
        e = self.assertRaises(exceptions.NotOctavia, schema.upgrade,
                              self.engine)
        self.assertIn('(it has no amphora_health)', str(e))
        self.assertIn(f'{self.engine.url.database} is not that of Octavia',
                      str(e))
        self.assertNotIn(f':{self.engine.url.password}@', str(e))
        self.assertNotIn('timeout', str(e))
        self.assertEqual(before, self.tables())
        self.execute('ALTER TABLE health RENAME TO amphora_health')
        self.assertEqual((None, schema.head()), schema.upgrade(self.engine))

    def test_upgrade_that_was_killed_half_way(self):
        """MySQL has no transactional DDL: some tables are there."""
        schema.upgrade(self.engine)
        self.execute('DROP TABLE hmsync_amphora',
                     f'DELETE FROM {schema.VERSION_TABLE}')
        self.assertRaises(exceptions.SchemaMissing, self.check)
        self.assertEqual((None, schema.head()), schema.upgrade(self.engine))
        self.assertLessEqual(OWN_TABLES, self.tables())

    def test_killed_at_any_statement(self):
        """The next one goes on from there."""
        self.assertGreater(self.upgrade_by_single_statements(), 40)
        self.check()
        self.assertAgree()

    def test_history(self):
        self.assertEqual(schema.head(), schema.history()[-1][0])
        self.assertEqual([('0001', 'Initial tables.')], schema.history())


class NextMigrationCases(SchemaCases):
    """Tables of this release, and a newer one that has a migration more."""

    def setUp(self):
        super().setUp()
        schema.upgrade(self.engine)
        keeper_repo.touch(self.engine, 'controller1', ('192.0.2.1:5555',))
        self.ours = schema.MIGRATION_PATH
        self.newer = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                                  'migration')
        shutil.copytree(self.ours, self.newer)
        installations.write_next_migration(self.newer)
        self.patch(schema, 'MIGRATION_PATH', self.newer)

    def assertUpgraded(self):
        self.check()
        with self.engine.connect() as connection:
            inspector = sa.inspect(connection)
            self.assertTrue(inspector.has_table('hmsync_next'))
            self.assertEqual(['ix_hmsync_house_keeper_hands'], [
                i['name'] for i in
                inspector.get_indexes('hmsync_house_keeper')])
            self.assertEqual(
                [('controller1', '192.0.2.1:5555', None, 2)],
                [tuple(row) for row in connection.execute(sa.text(
                    'SELECT host, pinned_ip_port_list, mood, hands '
                    'FROM hmsync_house_keeper'))])

    def test_upgrade(self):
        e = self.assertRaises(exceptions.SchemaMissing, self.check)
        self.assertIn('at revision 0001, this release needs 0002', str(e))
        self.assertEqual(('0001', '0002'), schema.upgrade(self.engine))
        self.assertUpgraded()
        self.assertEqual(['0001', '0002'], [r for r, _ in schema.history()])
        self.assertEqual(('0002', '0002'), schema.upgrade(self.engine))

    def test_killed_at_any_statement(self):
        self.assertEqual(3, self.upgrade_by_single_statements())
        self.assertUpgraded()

    def test_services_of_ours_run_on(self):
        """Controllers are upgraded one at a time, after the tables."""
        schema.upgrade(self.engine)
        self.patch(schema, 'MIGRATION_PATH', self.ours)
        for function in (self.check, lambda: schema.upgrade(self.engine)):
            e = self.assertRaises(exceptions.SchemaNewer, function)
            self.assertIn('at revision 0002', str(e))
        for host in ('controller1', 'controller2'):
            keeper_repo.touch(self.engine, host, ())
        self.assertEqual(['controller1', 'controller2'],
                         list(keeper_repo.get_up(self.engine, 60)))
