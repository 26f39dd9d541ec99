# SPDX-License-Identifier: Apache-2.0

"""Running octavia-hmsync in this process."""

import contextlib
import io
import json
import logging
import os

import fixtures

from octavia_hmsync.cmd import hmsync
from octavia_hmsync import compat
from octavia_hmsync.db import schema
from tests.cloud import octavia_conf
from tests.db_cases import base
from tests.unit.db import sqlite


class CommandTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):
    """octavia.conf names the database of the class."""

    def setUp(self):
        super().setUp()
        # A service that is up when a command is given is up when it is done.
        self.clock = self.stop_clock()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.conf_path = self.write_conf()
        root = logging.getLogger()
        self.addCleanup(setattr, root, 'handlers', list(root.handlers))
        self.addCleanup(compat.CONF.reset)

    def write_conf(self, **groups):
        path = os.path.join(self.directory, 'octavia.conf')
        octavia_conf.write(path, octavia_conf.merge({
            'DEFAULT': {'host': 'controller1'},
            'database': {'connection': self.database.connection}}, groups))
        return path

    def run_command(self, *argv, conf=True):
        """Run octavia-hmsync.

        :returns: (exit code, standard output, standard error).
        """
        compat.CONF.reset()
        if self.clock:
            # Commands have an order.
            self.clock.advance(0.01)
        out, err = io.StringIO(), io.StringIO()
        if conf:
            argv = ('--config-file', self.conf_path, *argv)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = hmsync.main(list(argv))
            except SystemExit as e:
                code = e.code or 0
        return code, out.getvalue(), err.getvalue()

    def run_ok(self, *argv, **kwargs):
        code, out, err = self.run_command(*argv, **kwargs)
        self.assertEqual((0, ''), (code, err), out)
        return out

    def run_json(self, *argv):
        return json.loads(self.run_ok(*argv, '-f', 'json'))

    def assertFails(self, words, *argv, **kwargs):
        code, out, err = self.run_command(*argv, **kwargs)
        self.assertEqual((1, ''), (code, out), err)
        self.assertIn(words, err)
        self.assertEqual(1, err.count('\n'), err)
        self.assertNotIn('Traceback', err)

    def drop_tables(self):
        """Take our tables away until the end of the test."""
        with self.engine.begin() as connection:
            for name in schema.sa.inspect(connection).get_table_names():
                if name.startswith('hmsync_'):
                    connection.execute(schema.sa.text(f'DROP TABLE {name}'))
        self.addCleanup(schema.upgrade, self.database.engine)
