# SPDX-License-Identifier: Apache-2.0

"""Our schema comes from migrations, beside Octavia's."""

from alembic import autogenerate
from alembic import command
from alembic import migration
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.db import scripts
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base

OWN_TABLES = {*models.Base.metadata.tables, schema.VERSION_TABLE}


class MigrationCases(base.BareDatabaseTestCase):
    def check(self):
        with self.engine.connect() as connection:
            schema.check(connection)

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

    def upgrade_to(self, revision):
        with self.engine.connect() as connection:
            command.upgrade(scripts.make_config(
                schema.MIGRATION_PATH, connection), revision)
            connection.commit()

    def rows(self, model):
        with self.engine.connect() as connection:
            return connection.execute(sa.select(model.__table__)).all()

    def make_rows_of_0001(self):
        """What a release without adoption has left."""
        self.upgrade_to('0001')
        time = "'2026-01-01 00:00:00.000000'"
        self.execute(
            'INSERT INTO hmsync_health_manager (host, ip_address, port, '
            'status, instance, online_since, keepalive_at) VALUES '
            f"('hm1', '192.0.2.1', 5555, 'ONLINE', 'one', {time}, {time})",
            'INSERT INTO hmsync_generation (number, controller_ip_port_list, '
            'slots, reason, published_by, published_at) VALUES '
            f"(1, '192.0.2.1:5555', '0', 'because', 'here', {time})",
            'INSERT INTO hmsync_amphora (amphora_id, generation, '
            'controller_ip_port_list, applied_at, attempts, result) VALUES '
            f"('amphora', 1, '192.0.2.1:5555', {time}, 1, 'APPLIED')")

    def assertRowsOf0001(self):
        """Check that they mean what they meant."""
        generation = generation_repo.get_newest(self.engine)
        self.assertEqual(
            (1, ('192.0.2.1:5555',), trial.OPEN, 0),
            (generation.number, generation.addresses, generation.status,
             generation.wave))
        self.assertEqual(generation,
                         generation_repo.get_last_good(self.engine))
        self.assertEqual({}, generation_repo.get_suspects(self.engine))
        row, = self.rows(models.Amphora)
        self.assertEqual((1, 'APPLIED', None, None),
                         (row.generation, row.result, row.adopted_at,
                          row.admitted_generation))
        # It may be using any list.
        unproven, = doubt_repo.get_unproven(self.engine)
        self.assertEqual((adoption.Unknown(),), unproven.doubt.previous)
        member, = hm_repo.get_all(self.engine)
        self.assertIsNone(member.is_heard)

    def test_from_0001(self):
        self.make_rows_of_0001()
        self.assertRaises(exceptions.SchemaMissing, self.check)
        self.assertEqual(('0001', schema.head()),
                         schema.upgrade(self.engine))
        self.check()
        self.assertRowsOf0001()

    def test_from_0001_killed_at_any_statement(self):
        """MySQL has no transactional DDL; the next one goes on from there."""
        self.make_rows_of_0001()
        killed = 0
        while not self._upgrade_by_one_statement():
            self.assertRaises(exceptions.SchemaMissing, self.check)
            killed += 1
        self.assertGreater(killed, 8)
        self.check()
        self.assertRowsOf0001()

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

    def test_housekeeper_of_0001_still_publishes(self):
        """Controllers are upgraded one at a time, after the tables."""
        self.upgrade_to('head')
        self.execute(
            'INSERT INTO hmsync_generation (number, controller_ip_port_list, '
            'slots, reason, published_by, published_at) VALUES '
            "(1, '192.0.2.1:5555', '0', 'because', 'here', "
            "'2026-01-01 00:00:00.000000')",
            'INSERT INTO hmsync_health_manager (host, ip_address, port, '
            'status, instance, online_since, keepalive_at) VALUES '
            "('hm1', '192.0.2.1', 5555, 'ONLINE', 'one', "
            "'2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000')")
        self.assertEqual(trial.OPEN,
                         generation_repo.get_newest(self.engine).status)
        self.assertEqual(1, len(hm_repo.get_all(self.engine)))

    def test_previous_lists_of_0005(self):
        """No list is lost that an amphora may be using."""
        self.upgrade_to('0005')
        self.execute(
            'INSERT INTO hmsync_amphora (amphora_id, generation, '
            'controller_ip_port_list, previous_ip_port_lists, applied_at, '
            'attempts, result) VALUES '
            "('amphora', 4, '192.0.2.1:5555', "
            "'?2\n192.0.2.2:5555, 192.0.2.3:5555\n192.0.2.4:5555', "
            "'2026-01-01 00:00:00.000000', 1, 'APPLIED')")
        schema.upgrade(self.engine)
        unproven, = doubt_repo.get_unproven(self.engine)
        self.assertEqual(
            (adoption.Unknown(2), ('192.0.2.2:5555', '192.0.2.3:5555'),
             ('192.0.2.4:5555',)), unproven.doubt.previous)

    def test_history(self):
        self.assertEqual(schema.head(), schema.history()[-1][0])
        self.assertEqual(('0001', 'Initial tables.'), schema.history()[0])
