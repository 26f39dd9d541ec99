# SPDX-License-Identifier: Apache-2.0

"""What bash completes, with the script that octavia-hmsync prints."""

import os
import subprocess
import sys

from octavia_hmsync.cli import host_names
from octavia_hmsync.db.repositories import health_manager as hm_repo
from tests.unit import base as unit_base
from tests.unit.cli import base

FORMATS = ['csv', 'json', 'table', 'value', 'yaml']


class TestCompletion(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.script = self.run_ok('complete', '--name', 'octavia-hmsync',
                                  conf=False)

    def complete(self, *words):
        """Press <TAB> at the end of the last word.

        :returns: what bash would offer.
        """
        env = {**os.environ, 'PATH': os.pathsep.join(
            (os.path.dirname(sys.executable), os.environ['PATH']))}
        done = subprocess.run(
            [unit_base.need_program('bash'), '-c', self.script +
             'COMP_WORDS=(octavia-hmsync "$@") COMP_CWORD=$#\n'
             '_octavia_hmsync\n'
             '((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"',
             'bash', *words], capture_output=True, text=True, env=env,
            cwd=self.directory)
        self.assertEqual('', done.stderr)
        return done.stdout.splitlines()

    def test_shellcheck(self):
        done = subprocess.run(
            [unit_base.need_program('shellcheck'), '-s', 'bash', '-'],
            input=self.script, capture_output=True, text=True)
        self.assertEqual((0, ''), (done.returncode, done.stdout))

    def test_commands(self):
        self.assertEqual(['pause'], self.complete('sync', 'pa'))
        self.assertEqual(['amphora'], self.complete('a'))
        self.assertEqual(['show'], self.complete('network', 'port', 's'))
        self.assertEqual(['delete'], self.complete('network', 'd'))
        self.assertEqual(['manager'], self.complete('help', 'health', ''))
        self.assertEqual([], self.complete('nothing', ''))

    def test_behind_options(self):
        for leading in (['--config-file', '/x'], ['--config-file=/x'],
                        ['--config-file', '=', '/x'], ['--debug'], ['-q'],
                        ['--config-dir', '/y', '--config-file', 'health']):
            self.assertEqual(
                ['delete', 'drain', 'list', 'resume', 'show'],
                self.complete(*leading, 'health', 'manager', ''))
        self.assertEqual(['drain'], self.complete(
            'health', '--config-file', '/x', 'manager', 'dr'))

    def test_options(self):
        self.assertEqual(['--wait'], self.complete(
            'health', 'manager', 'drain', '--w'))
        for words in ([], ['amphora'], ['amphora', 'list']):
            self.assertEqual(['--config-file', '--config-dir'],
                             self.complete(*words, '--config'))

    def test_choices(self):
        self.assertEqual(['UNREACHABLE', 'UNSUPPORTED'], self.complete(
            'amphora', 'list', '--result', 'UN'))
        self.assertEqual(['UNSUPPORTED'], self.complete(
            'amphora', 'list', '--result', '=', 'UNS'))
        self.assertEqual(sorted(['APPLIED', 'REJECTED', 'UNREACHABLE',
                                 'UNSUPPORTED']), sorted(self.complete(
                                     'amphora', 'list', '--result', '=')))
        for option in ('-f', '--format'):
            self.assertEqual(FORMATS, self.complete(
                'health', 'manager', 'list', option, ''))

    def test_files(self):
        for name in ('a b.conf', 'a.d', 'octavia.conf'):
            path = os.path.join(self.directory, name)
            if name.endswith('.d'):
                os.mkdir(path)
            else:
                open(path, 'a').close()
        self.assertEqual(['a b.conf', 'a.d'], sorted(
            self.complete('--config-file', 'a')))
        self.assertEqual(['a.d'], self.complete('sync', '--config-dir', 'a'))
        self.assertEqual([f'{self.directory}/octavia.conf'], self.complete(
            '--log-file', f'{self.directory}/oct'))
        # And nowhere else.
        for words in (['amphora', 'show', 'o'], ['sync', 'pause', '--for', ''],
                      ['sync', 'status', '']):
            self.assertEqual([], self.complete(*words))

    def test_hosts(self):
        for number, host in enumerate(('hm1', 'hm2', '$(touch pwned)'), 1):
            hm_repo.register(self.engine, host, f'192.0.2.{number}', 5555,
                             'a', 20)
        conf = ('--config-file', self.conf_path)
        every = ['$(touch pwned)', 'hm1', 'hm2']
        for words in (['drain', '--dry-run', ''], ['delete', 'hm1', '']):
            self.assertEqual(every, self.complete(
                *conf, 'health', 'manager', *words))
        self.assertEqual(['hm1', 'hm2'], self.complete(
            *conf, 'network', 'port', 'delete', 'hm'))
        self.assertEqual(['hm2'], self.complete(
            'amphora', 'list', *conf, '--health-manager', 'hm2'))
        self.assertEqual([], self.complete(*conf, 'health', 'manager',
                                           'drain', 'hm1', ''))
        # The shell takes nothing of the database for its own.
        self.assertFalse(os.path.exists(f'{self.directory}/pwned'))

    def test_hosts_that_cannot_be_read(self):
        def complete(path=self.conf_path):
            return self.complete('--config-file', path, 'health', 'manager',
                                 'drain', '')

        self.assertEqual([], complete('/nonexistent.conf'))
        for database in (
                {}, {'connection': 'mysql+pymysql://x:y@127.0.0.1:1/octavia'},
                {'connection': self.database.connection,
                 'connection_recycle_time': 'soon'}):
            self.write_conf(database=database)
            self.assertEqual([], complete(), database)
        self.write_conf()
        self.drop_tables()
        self.assertEqual([], complete())

    def test_hosts_do_not_wait_for_octavia(self):
        """It takes seconds to load."""
        done = subprocess.run(
            [sys.executable, '-c',
             'import sys\n'
             'from octavia_hmsync.cmd import hmsync\n'
             'code = hmsync.main(["complete", "--hosts"])\n'
             'print([m for m in sys.modules if m.startswith("octavia.")])\n'],
            capture_output=True, text=True, cwd=self.directory)
        self.assertEqual(('[]\n', ''), (done.stdout, done.stderr))

    def test_database_that_does_not_answer(self):
        """Nobody waits at a prompt for as long as a service does."""
        self.write_conf(database={
            'connection': 'mysql+pymysql://x:y@127.0.0.1:1/octavia'})
        seen = []

        def create_engine(conf):
            seen.append(conf.database.connection)
            raise OSError()

        self.patch(host_names.api, 'create_engine', create_engine)
        self.assertEqual([], host_names.get_all(
            [f'--config-file={self.conf_path}']))
        for name in ('connect', 'read', 'write'):
            self.assertIn(f'{name}_timeout=2', seen[0])
