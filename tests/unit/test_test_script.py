#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""tools/test.sh counts all runs of tests, and misses those that were not."""

import os
import pathlib
import shutil
import subprocess
import sys

import fixtures
from oslotest import base

from tests.unit import base as unit_base

TOP = pathlib.Path(__file__).resolve().parents[2]

# Does for each environment what the real one would, with a test or two.
TOX = """#!/bin/sh
while [ "$1" != -e ]; do
    [ "$1" = --version ] && exit
    shift
done
[ "{broken}" != "$2" ] || exit 1
"{python}" -m stestr run; exec "{python}" -m stestr run
"""
TESTS = """import unittest


class Test(unittest.TestCase):

    def test_passes(self):
        pass

    @unittest.skip('for a reason')
    def test_skipped(self):
        pass
"""


class TestTestScript(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        for name in ('test.sh', 'common.sh'):
            (self.directory / 'tools').mkdir(exist_ok=True)
            shutil.copy(TOP / 'tools' / name, self.directory / 'tools')
        (self.directory / '.stestr.conf').write_text(
            '[DEFAULT]\ntest_path=./here\ntop_dir=./\n')
        (self.directory / 'here').mkdir()
        self.write('here/__init__.py', '')
        self.write('here/test_it.py', TESTS)
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

    def run_script(self, broken=''):
        """Run it where one environment of tox cannot be made.

        :returns: its exit status, and the last two lines that it prints.
        """
        self.write('.tox/test-sh/bin/tox', TOX.format(
            python=self.python, broken=broken))
        done = subprocess.run(
            [unit_base.need_program('bash'),
             self.directory / 'tools/test.sh'],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300,
            env={**os.environ, 'PYTHON': str(self.python)})
        return done.returncode, done.stdout.splitlines()[-2:]

    def test_all_ran(self):
        status, lines = self.run_script()
        self.assertEqual((0, '4 passed, 0 failed, 4 skipped'),
                         (status, lines[-1]))

    def test_failed(self):
        with (self.directory / 'here/test_it.py').open('a') as module:
            module.write("""
    def test_fails(self):
        self.fail()
""")
        status, lines = self.run_script()
        self.assertEqual(1, status)
        self.assertEqual(['FAILED here.test_it.Test.test_fails',
                          '4 passed, 4 failed, 4 skipped'], lines)

    def test_some_did_not(self):
        status, lines = self.run_script('ci-2025.1')
        self.assertEqual(1, status)
        self.assertIn('2 of 4 runs', lines[0])
        self.assertEqual('2 passed, 0 failed, 2 skipped', lines[1])
