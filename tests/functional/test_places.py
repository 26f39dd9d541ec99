# SPDX-License-Identifier: Apache-2.0

"""The tests run wherever a clone lies, and in what is no clone."""

import configparser
import os
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile
import venv

from oslotest import base

TOP = pathlib.Path(__file__).resolve().parents[2]
# That have to do with files, processes or git, and are quick.
TESTS = ('tests.unit.test_shell', 'tests.unit.test_project',
         'tests.unit.test_test_script',
         'tests.unit.test_release_notes', 'tests.unit.test_documentation',
         'tests.unit.metrics.test_files',
         'tests.unit.devstack.test_plugin.TestMultinode',
         'tests.unit.devstack.test_move_health_managers')


def environment(python):
    """Return the environment in which tox would run the tests.

    :param python: of a virtual environment.
    """
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(TOP / 'tox.ini')
    lines = parser['testenv']['setenv'].strip().splitlines()
    values = dict(line.split('=', 1) for line in lines
                  if not line.startswith('#'))
    return {name: value for name, value in os.environ.items()
            if name != 'PYTHON' and not name.startswith('OS_')} | {
                name: value for name, value in values.items()
                if '{' not in value} | {
                'PATH': f'{python.parent}{os.pathsep}{os.environ["PATH"]}'}


class TestPlaces(base.BaseTestCase):

    def copy(self, *names):
        """Copy what the tests need, without .git.

        :param names: of the folders that it goes to.
        """
        directory = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()), *names)
        shutil.copytree(TOP, directory, ignore=shutil.ignore_patterns(
            '.git', '.tox', '.stestr', '.hypothesis', '.mypy_cache', 'build',
            '__pycache__', 'reno.cache', '*.egg-info'))
        return directory

    def make_environment(self, directory):
        """Make one with the packages of this one, but for ours."""
        path = directory / '.tox/ci'
        venv.create(path, symlinks=True)
        site = pathlib.Path(sysconfig.get_path(
            'purelib', 'venv', vars={'base': str(path)}))
        (site / 'others.pth').write_text(
            f'{directory}\n{sysconfig.get_path("purelib")}\n')
        return path / 'bin/python'

    def check(self, directory):
        python = self.make_environment(directory)
        done = subprocess.run(
            [python, '-W', 'ignore', '-m', 'stestr', 'run', '--serial',
             *TESTS], cwd=directory, env=environment(python), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=280)
        self.assertEqual(0, done.returncode, done.stdout[-5000:])
        self.assertIn(' - Failed: 0\n', done.stdout)
        self.assertNotIn(' - Passed: 0\n', done.stdout)

    def test_blanks(self):
        self.check(self.copy('with blanks', 'octavia hmsync'))

    def test_symbolic_link(self):
        """With the name that a clone has by itself."""
        copy = self.copy('copy')
        link = copy.parent / 'octavia-hmsync'
        link.symlink_to(copy)
        self.check(link)
