# SPDX-License-Identifier: Apache-2.0

"""The scripts of the devstack jobs, with commands that answer as told."""

import os
import pathlib
import stat
import subprocess

import fixtures
from oslotest import base

from tests.unit import base as unit_base

# Prints the next line of the file of a command, the last one for good. The
# line "exit 2" ends it with that code.
COMMAND = '''\
#!/bin/bash
echo "${{0##*/}} $*" >>{directory}/calls
for file in {directory}/answers/*; do
    if [[ "$*" == $(basename "$file")* ]]; then
        line=$(head -n 1 "$file")
        [[ $(wc -l <"$file") -lt 2 ]] || sed -i 1d "$file"
        [[ $line != exit* ]] || $line
        [[ -z $line ]] || tr ';' '\\n' <<<"$line"
    fi
done
'''


class CheckTestCase(base.BaseTestCase):

    SCRIPT: pathlib.Path

    def setUp(self):
        super().setUp()
        unit_base.need_program('bash')
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        (self.directory / 'answers').mkdir()
        (self.directory / 'openrc').touch()
        for name in ('openstack', 'octavia-hmsync', 'curl'):
            path = self.directory / name
            path.write_text(COMMAND.format(directory=self.directory))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def answer(self, command, *lines):
        """Have commands that begin so print a line each time.

        :param command: a pattern.
        """
        (self.directory / 'answers' / command).write_text(
            ''.join(f'{line}\n' for line in lines))

    def run_script(self, *argv, code=0, timeout=30):
        """Run it.

        :returns: what it printed.
        """
        done = subprocess.run(
            [self.SCRIPT, *argv], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={'PATH': f'{self.directory}:{os.environ["PATH"]}',
                 'TMPDIR': str(self.directory),
                 'HMSYNC_CHECK_DIR': str(self.directory / 'noted'),
                 'HMSYNC_CHECK_TIMEOUT': str(timeout),
                 'HMSYNC_CHECK_INTERVAL': '0',
                 'HMSYNC_CHECK_OPENRC': str(self.directory / 'openrc')})
        self.assertEqual(code, done.returncode, done.stdout)
        return done.stdout

    def calls(self, words):
        """Return the commands that have these words in them."""
        return [call for call in
                (self.directory / 'calls').read_text().splitlines()
                if words in call]
