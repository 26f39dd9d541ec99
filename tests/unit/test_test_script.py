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
import os, subprocess, sys
if '--version' in sys.argv:
    sys.exit()
def option(name):
    return sys.argv[sys.argv.index(name) + 1]
environment = option('-e')
if environment == '{broken}':
    sys.exit(1)
if '--notest' in sys.argv:
    sys.exit()
if '-x' in sys.argv:
    name, commands = option('-x').split('=', 1)
    assert name == 'testenv:%s.commands' % environment
    python, *how = commands.split()
    sys.exit(subprocess.run(['{python}', *how]).returncode)
directory = os.path.join('.tox', environment)
os.makedirs(directory, exist_ok=True)
sys.exit(subprocess.run(
    ['{python}', 'tools/run_beside.py', directory] +
    ['--checks'] * (environment == 'ci')).returncode)
"""
TOX_INI = """[testenv:pep8]
commands = {check}

[testenv:mypy]
commands = true
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
        # Others may do so at the same time.
        try:
            pathlib.Path(__file__).with_name('ran').mkdir()
        except FileExistsError:
            return
        self.fail()
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
        for name in ('test.sh', 'common.sh', 'count_tests.py',
                     'changed.sh', 'run_beside.py'):
            (self.directory / 'tools').mkdir(exist_ok=True)
            shutil.copy(TOP / 'tools' / name, self.directory / 'tools')
        (self.directory / '.stestr.conf').write_text(
            '[DEFAULT]\ntest_path=./tests\ntop_dir=./\n')
        self.write('tests/__init__.py', '')
        for kind in ('unit', 'functional'):
            self.write(f'tests/{kind}/__init__.py', '')
            self.write(f'tests/{kind}/test_it.py', TESTS)
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
            python=self.python, broken=broken))
        self.write('tox.ini', TOX_INI.format(check=check))
        done = subprocess.run(
            [unit_base.need_program('bash'),
             self.directory / 'tools/test.sh'],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300,
            env={**os.environ, 'PYTHON': str(self.python),
                 'PATH': f'{os.path.dirname(sys.executable)}{os.pathsep}'
                         f'{os.environ["PATH"]}',
                 'OS_UNIT_CONCURRENCY': '1', 'OS_FUNCTIONAL_CONCURRENCY': '1'})
        return done.returncode, done.stdout.rpartition('\n\n')[
            2].splitlines()

    def add_test(self, text):
        with (self.directory / 'tests/unit/test_it.py').open('a') as module:
            module.write(text)

    def test_all_ran(self):
        self.assertEqual((0, ['4 passed, 0 failed, 4 skipped']),
                         self.run_script())

    def test_failed_once(self):
        self.add_test(FAILS_ONCE)
        self.assertEqual(
            (0, ['FLAKY tests.unit.test_it.Test.test_fails_once',
                 '6 passed, 0 failed, 4 skipped']), self.run_script())
        (self.directory / 'tests/unit/ran').rmdir()
        self.add_test(FAILS)
        self.assertEqual(
            (1, ['FLAKY tests.unit.test_it.Test.test_fails_once',
                 *['FAILED tests.unit.test_it.Test.test_fails'] * 2,
                 '6 passed, 2 failed, 4 skipped']), self.run_script())

    def test_check_failed(self):
        """Also where all that else failed passes when it is run alone."""
        self.add_test(FAILS_ONCE)
        self.assertEqual(
            (1, ['FLAKY tests.unit.test_it.Test.test_fails_once',
                 'FAILED false of ci', '6 passed, 0 failed, 4 skipped']),
            self.run_script(check='false'))

    def test_died(self):
        """The others of its process have not run: that is no chance."""
        self.add_test(DIES)
        status, lines = self.run_script()
        self.assertEqual(1, status)
        self.assertIn('FAILED tests.unit.test_it.Test.test_dies', lines)

    def test_too_many_failed(self):
        """They are not run again."""
        for number in range(11):
            self.add_test(FAILS_ONCE.replace(
                'fails_once', f'fails_{number}').replace(
                "'ran'", f"'ran{number}'"))
            self.add_test(FAILS.replace('_fails', f'_never_passes_{number}'))
        status, lines = self.run_script()
        self.assertEqual(1, status)
        self.assertEqual('15 passed, 33 failed, 4 skipped', lines[-1])
        self.assertEqual(['FAILED'] * 33, [line.split()[0]
                                           for line in lines[:-1]])

    def test_some_did_not_run(self):
        status, lines = self.run_script('ci-2025.1')
        self.assertEqual(1, status)
        self.assertEqual('FAILED set-up of ci-2025.1', lines[0])
        self.assertIn('2 of 4 runs', lines[1])
        self.assertEqual('2 passed, 0 failed, 2 skipped', lines[2])


class TestChanged(base.BaseTestCase):
    """tools/changed.sh, in a clone and in what it came from."""

    def setUp(self):
        super().setUp()
        self.git = unit_base.need_program('git')
        self.bash = unit_base.need_program('bash')
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.main = self.top / 'main'
        (self.main / 'tools').mkdir(parents=True)
        shutil.copy(TOP / 'tools/changed.sh', self.main / 'tools')
        self.run_git(self.main, 'init', '-q')
        self.commit(self.main, 'README.rst', day=1)

    def run_git(self, directory, *arguments, **variables):
        subprocess.run(
            [self.git, '-C', directory, '-c', 'user.name=A', '-c',
             'user.email=a@b', *arguments], check=True,
            stdin=subprocess.DEVNULL, env={**os.environ, **variables})

    def commit(self, directory, name, day):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{day}')
        self.run_git(directory, 'add', '.')
        self.run_git(directory, 'commit', '-q', '-m', name,
                     GIT_COMMITTER_DATE=f'2026-01-0{day}T12:00:00Z')

    def has_changed(self, directory, what='harness', **variables):
        return not subprocess.run(
            [self.bash, directory / 'tools/changed.sh', what],
            env={**os.environ, 'HARNESS': '', 'COMPAT': '', **variables}
        ).returncode

    def test_branch(self):
        self.commit(self.main, 'tests/cloud/cloud.py', day=2)
        clone = self.top / 'clone'
        self.run_git(self.top, 'clone', '-q', self.main, clone)
        self.run_git(clone, 'checkout', '-q', '-b', 'change')
        self.commit(clone, 'octavia_hmsync/conf/opts.py', day=2)
        self.assertFalse(self.has_changed(clone))
        self.assertTrue(self.has_changed(clone, HARNESS='yes'))
        # What others have changed since is none of its business.
        self.commit(self.main, 'benchmarks/keeper.py', day=2)
        self.run_git(clone, 'fetch', '-q')
        self.assertFalse(self.has_changed(clone))
        (clone / 'tests/cloud/cloud.py').write_text('not committed')
        self.assertTrue(self.has_changed(clone))
        self.commit(clone, 'tools/demo.py', day=4)
        self.commit(clone, 'octavia_hmsync/conf/opts.py', day=5)
        self.assertTrue(self.has_changed(clone))
        self.assertFalse(self.has_changed(clone, HARNESS='no'))

    def test_compat(self):
        clone = self.top / 'clone'
        self.run_git(self.top, 'clone', '-q', self.main, clone)
        self.run_git(clone, 'checkout', '-q', '-b', 'change')
        self.commit(clone, 'tests/cloud/cloud.py', day=2)
        self.assertFalse(self.has_changed(clone, 'compat'))
        self.assertTrue(self.has_changed(clone, 'compat', COMPAT='yes'))
        self.commit(clone, 'octavia_hmsync/compat/changes.py', day=3)
        self.assertTrue(self.has_changed(clone, 'compat'))
        self.assertFalse(self.has_changed(clone, 'compat', COMPAT='no'))

    def test_main_branch(self):
        # Young, with nothing of a day before.
        self.assertTrue(self.has_changed(self.main))
        self.commit(self.main, 'tests/cloud/cloud.py', day=3)
        self.assertTrue(self.has_changed(self.main))
        self.commit(self.main, 'README.rst', day=5)
        self.assertFalse(self.has_changed(self.main))

    def test_without_git(self):
        shutil.rmtree(self.main / '.git')
        self.assertTrue(self.has_changed(self.main))
