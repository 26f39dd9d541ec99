# SPDX-License-Identifier: Apache-2.0

from concurrent import futures
import os
import subprocess
import sys

import fixtures
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.db_cases import migrations
from tests.functional.db import mariadb


class TestMigrations(mariadb.MariaDBMixin, migrations.MigrationCases):

    def setUp(self):
        super().setUp()
        self.home = self.useFixture(fixtures.TempDir()).path
        self.conf_path = os.path.join(self.home, 'octavia.conf')
        octavia_conf.write(self.conf_path, {
            'database': {'connection': self.database.connection}})

    def start(self, *command):
        child = subprocess.Popen(
            [*command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=process.environment(self.home))
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def test_two_controllers_upgrade_at_once(self):
        children = [self.start(
            sys.executable, '-m', 'octavia_hmsync.cmd.hmsync',
            '--config-file', self.conf_path, 'db', 'upgrade')
            for _ in range(3)]
        outputs = [child.communicate(timeout=240)[0] for child in children]
        self.assertEqual([0, 0, 0], [c.returncode for c in children],
                         outputs)
        done = [o for o in outputs if 'are now at revision' in o]
        self.assertEqual(1, len(done), outputs)
        self.check()

    def test_upgrade_that_does_not_end(self):
        self.patch(schema, '_LOCK_TIMEOUT', 1)
        with self.engine.connect() as connection:
            connection.execute(sa.text('SELECT GET_LOCK(:name, 1)'),
                               {'name': schema._LOCK_NAME})
            e = self.assertRaises(exceptions.DatabaseUnavailable,
                                  schema.upgrade, self.engine)
        self.assertIn('Another "octavia-hmsync db upgrade"', str(e))
        self.assertEqual((None, schema.head()), schema.upgrade(self.engine))

    def test_upgrade_that_takes_longer_than_a_client_waits(self):
        url = self.engine.url.update_query_dict({'read_timeout': '10'})
        impatient = api.create_engine(self.make_conf(
            database={'connection': url.render_as_string(False)}))
        self.addCleanup(impatient.dispose)
        with (futures.ThreadPoolExecutor(1) as executor,
              self.engine.connect() as connection):
            connection.execute(sa.text('SELECT GET_LOCK(:name, 1)'),
                               {'name': schema._LOCK_NAME})
            upgrade = executor.submit(schema.upgrade, impatient)
            done, _not_done = futures.wait([upgrade], 12)
            self.assertEqual(set(), done)
            connection.execute(sa.text('SELECT RELEASE_LOCK(:name)'),
                               {'name': schema._LOCK_NAME})
            self.assertEqual((None, schema.head()), upgrade.result(60))

    def test_octavia_db_manage_beside_our_tables(self):
        schema.upgrade(self.engine)
        child = self.start(
            process.program('octavia-db-manage'), '--config-file',
            self.conf_path, 'upgrade', 'head')
        output, _ = child.communicate(timeout=240)
        self.assertEqual(0, child.returncode, output)
        self.check()


class TestNextMigration(mariadb.MariaDBMixin, migrations.NextMigrationCases):
    pass
