# SPDX-License-Identifier: Apache-2.0

"""bashate and shellcheck have nothing to say about the shell scripts."""

import pathlib
import subprocess
import sys

from oslotest import base

from tests.unit import base as unit_base

TOP = pathlib.Path(__file__).resolve().parents[2]

DIRECTORIES = ('devstack', 'etc', 'playbooks', 'tests', 'tools')
# Without a name that tells.
OTHERS = ('.ci/run', 'devstack/settings')
# E005: a file without #! that is not called *.sh, as devstack/settings is
NOT_CHECKED = 'E005'


class TestShell(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.scripts = sorted(
            str(path.relative_to(TOP)) for name in DIRECTORIES
            for path in (TOP / name).rglob('*.sh'))
        self.scripts += OTHERS

    def check(self, *command):
        done = subprocess.run([*command, *self.scripts], cwd=TOP, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual((0, ''), (done.returncode, done.stdout))

    def test_finds_the_scripts(self):
        for name in ('devstack/plugin.sh', 'tools/test.sh',
                     'playbooks/move-health-managers/check.sh'):
            self.assertIn(name, self.scripts)

    def test_shellcheck(self):
        """Of the package shellcheck; see bindep.txt."""
        self.check(unit_base.need_program('shellcheck'))

    def test_bashate(self):
        unit_base.need_program('bash')
        self.check(sys.executable, '-m', 'bashate.bashate',
                   '--ignore', NOT_CHECKED)
