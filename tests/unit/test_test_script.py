# SPDX-License-Identifier: Apache-2.0

"""tools/test.sh counts all runs of tests, and tells chance from failure."""

import os
import pathlib
import shutil
import subprocess
import sys

import fixtures
from oslotest import base

from tests.unit import base as unit_base

TOP = pathlib.Path(__file__).resolve().parents[2]

# Does for each environment what the real one would, with a test or two; that
# of the oldest Octavia has no checks.
TOX = """#!{python}
import json, subprocess, sys
if '--version' in sys.argv:
    sys.exit()
def option(name):
    return sys.argv[sys.argv.index(name) + 1]
environment = option('-e')
if environment == '{broken}':
    sys.exit(1)
if '-x' in sys.argv:
    name, commands = option('-x').split('=', 1)
    assert name == 'testenv:%s.commands' % environment
    python, *how = commands.split()
    sys.exit(subprocess.run(['{python}', *how]).returncode)
ran = []
def run(*command):
    ran.append(dict(command=command, retcode=subprocess.run(
        ['{python}', '-m', *command] if command[0] == 'stestr'
        else command).returncode))
if environment == 'ci':
    run('{check}')
for _ in range(2):
    run('stestr', 'run')
failed = any(each['retcode'] for each in ran)
with open(option('--result-json'), 'w') as report:
    json.dump(dict(testenvs=dict([(environment, dict(
        result=dict(success=not failed), test=ran, setup=[]))])), report)
sys.exit(failed)
"""
TESTS = """import pathlib
import unittest


class Test(unittest.TestCase):

    def test_passes(self):
        pass

    @unittest.skip('for a reason')
    def test_skipped(self):
        pass
"""
FAILS = """
    def test_fails(self):
        self.fail()
"""
FAILS_ONCE = """
    def test_fails_once(self):
        here = pathlib.Path(__file__).with_name('ran')
        had_run = here.exists()
        here.touch()
        self.assertTrue(had_run)
"""
DIES = """
    def test_dies(self):
        import os
        os._exit(3)
"""


class TestTestScript(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        for name in ('test.sh', 'common.sh', 'count_tests.py'):
            (self.directory / 'tools').mkdir(exist_ok=True)
            shutil.copy(TOP / 'tools' / name, self.directory / 'tools')
        (self.directory / '.stestr.conf').write_text(
            '[DEFAULT]\ntest_path=./tests\ntop_dir=./\n')
        self.write('tests/__init__.py', '')
        self.write('tests/test_it.py', TESTS)
        self.write('.tox/test-sh/bin/bindep', '#!/bin/sh\n')
        # stestr cannot start one with a blank in its path, as that of the
        # real one may have.
        self.python = self.write(
            '.tox/ci/bin/python',
            f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_script(self, broken='', check='true'):
        """Run it.

        :param broken: an environment that tox cannot make.
        :param check: the program that is run before the tests.
        :returns: its exit status, and its last lines: all that it prints
                  after the last test, where one failed.
        """
        self.write('.tox/test-sh/bin/tox', TOX.format(
            python=self.python, broken=broken, check=check))
        done = subprocess.run(
            [unit_base.need_program('bash'),
             self.directory / 'tools/test.sh'],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300,
            env={**os.environ, 'PYTHON': str(self.python)})
        return done.returncode, done.stdout.rpartition('\n\n')[
            2].splitlines()

    def add_test(self, text):
        with (self.directory / 'tests/test_it.py').open('a') as module:
            module.write(text)

    def test_all_ran(self):
        self.assertEqual((0, ['4 passed, 0 failed, 4 skipped']),
                         self.run_script())

    def test_failed_once(self):
        self.add_test(FAILS_ONCE)
        self.assertEqual(
            (0, ['FLAKY tests.test_it.Test.test_fails_once',
                 '8 passed, 0 failed, 4 skipped']), self.run_script())
        (self.directory / 'tests/ran').unlink()
        self.add_test(FAILS)
        self.assertEqual(
            (1, ['FLAKY tests.test_it.Test.test_fails_once',
                 *['FAILED tests.test_it.Test.test_fails'] * 4,
                 '8 passed, 4 failed, 4 skipped']), self.run_script())

    def test_check_failed(self):
        """Also where all that else failed passes when it is run alone."""
        self.add_test(FAILS_ONCE)
        self.assertEqual(
            (1, ['FLAKY tests.test_it.Test.test_fails_once',
                 'FAILED false of ci', '8 passed, 0 failed, 4 skipped']),
            self.run_script(check='false'))

    def test_died(self):
        """The others of its process have not run: that is no chance."""
        self.add_test(DIES)
        status, lines = self.run_script()
        self.assertEqual(1, status)
        self.assertIn('FAILED tests.test_it.Test.test_dies', lines)

    def test_too_many_failed(self):
        """They are not run again."""
        for number in range(6):
            self.add_test(FAILS_ONCE.replace(
                'fails_once', f'fails_{number}').replace(
                "'ran'", f"'ran{number}'"))
            self.add_test(FAILS.replace('_fails', f'_never_passes_{number}'))
        status, lines = self.run_script()
        self.assertEqual(1, status)
        self.assertEqual('22 passed, 30 failed, 4 skipped', lines[-1])
        self.assertEqual(['FAILED'] * 30, [line.split()[0]
                                           for line in lines[:-1]])

    def test_some_did_not_run(self):
        status, lines = self.run_script('ci-2025.1')
        self.assertEqual(1, status)
        self.assertEqual('FAILED set-up of ci-2025.1', lines[0])
        self.assertIn('2 of 4 runs', lines[1])
        self.assertEqual('2 passed, 0 failed, 2 skipped', lines[2])
