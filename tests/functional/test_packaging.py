# SPDX-License-Identifier: Apache-2.0

"""The wheel and the sdist, next to Octavia in an otherwise empty environment.

Nothing of this environment is on the path there: a file that is not packed,
or a requirement that only the tests' environment happens to have, is missed.
"""

import configparser
from importlib import metadata
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import fixtures
from packaging import requirements
import testtools

from octavia_hmsync.db import models
from tests.cloud import isolation
from tests.cloud import virtualenv
from tests.unit import test_project

TOP = pathlib.Path(__file__).resolve().parents[2]
DATA = 'share/octavia-hmsync'
_TIMEOUT = 600
# The tag from which the package is built.
VERSION = '1.0.0'
EXTRAS = ('ovn', 'distributor')

_OCTAVIA_TABLES = ('amphora', 'amphora_health', 'load_balancer')
# Those to which it adds rows.
_LOOK_UP_TABLES = ('amphora_roles', 'lb_topology')

# What git has and an sdist leaves out, and the other way round.
_ONLY_IN_GIT = {'.gitignore'}
_ONLY_IN_SDIST = {'AUTHORS', 'ChangeLog', 'PKG-INFO'}

# Runs in the other environment. Alembic runs the module env, as db upgrade.
_PROBE = """
import importlib
from importlib import metadata
import json
import pkgutil

import octavia_hmsync

modules = [
    module.name for module in pkgutil.walk_packages(
        octavia_hmsync.__path__, 'octavia_hmsync.')
    if module.name != 'octavia_hmsync.db.migration.env']
for module in modules:
    importlib.import_module(module)
distribution = metadata.distribution('octavia-hmsync')
for entry_point in distribution.entry_points:
    assert callable(entry_point.load()), entry_point
print(json.dumps({
    'package': octavia_hmsync.__file__,
    'files': [str(file) for file in distribution.files],
    'entry_points': len(distribution.entry_points),
    'modules': modules}))
"""


# As a service of Octavia begins.
_SERVICE = """
import logging
from octavia.common import service
from oslo_config import cfg
service.prepare_service(['octavia-worker', '--config-file', 'octavia.conf'])
cfg.CONF.log_opt_values(logging.getLogger(), logging.DEBUG)
print(cfg.CONF.hmsync.address_driver)
"""


def run(*command, **options):
    """Run a command to its end, where an index can be reached.

    :returns: what it wrote to stdout.
    :raises AssertionError: if it failed, with all that it wrote.
    """
    done = subprocess.run(
        [str(c) for c in isolation.outside(*command)],
        stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT,
        **options)
    assert done.returncode == 0, (
        f'{command} ended with {done.returncode}:\n{done.stdout}'
        f'{done.stderr}')
    return done.stdout


def environment(**variables):
    """This process's, without what would bring its packages along."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith('PYTHON')} | {
                'PYTHONDONTWRITEBYTECODE': '1', **variables}


def copy_tree(directory):
    """Copy what belongs to the tree under test, with a history of its own.

    :param directory: an empty one.
    :returns: the copy, a git clone; the tree itself need not be one.
    """
    git = ('git', '-c', 'user.name=test', '-c', 'user.email=test@localhost',
           f'--git-dir={directory}/repository', f'--work-tree={TOP}')
    run(*git, 'init', '-q')
    run(*git, 'add', '-A', cwd=TOP)
    run(*git, 'commit', '-q', '-m', 'All')
    run('git', 'clone', '-q', directory / 'repository', directory / 'tree')
    # As a release has it: an annotated tag.
    run('git', '-C', directory / 'tree', '-c', 'user.name=test',
        '-c', 'user.email=test@localhost', 'tag', '-m', VERSION, VERSION)
    return directory / 'tree'


class TestPackaging(testtools.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.directory = pathlib.Path(temporary.name)
        cls.tree = copy_tree(cls.directory)
        cls.files = set(run('git', '-C', cls.tree, 'ls-files').splitlines())
        # Both from the tree; pip makes its wheel from the sdist.
        run(sys.executable, '-m', 'build', '--sdist', '--wheel', '--outdir',
            cls.directory / 'dist', cls.tree, env=environment())
        (cls.sdist,) = (cls.directory / 'dist').glob('*.tar.gz')
        (cls.wheel,) = (cls.directory / 'dist').glob('*.whl')
        cls.version = cls.wheel.name.split('-')[1]
        cls.venv = cls.directory / 'venv'
        virtualenv.make_linked(cls.venv, cls.read_requirements(*EXTRAS))

    @classmethod
    def read_requirements(cls, *extras):
        """Return what the wheel requires with some of its extras."""
        (packed,) = metadata.distributions(path=[str(cls.wheel)])
        wanted = [requirements.Requirement(line) for line in packed.requires]
        return [f'{each.name}{each.specifier}' for each in wanted
                if not each.marker or any(
                    each.marker.evaluate({'extra': e}) for e in extras)]

    @staticmethod
    def read_list(name):
        """Return what a list of etc/requirements requires."""
        lines = (TOP / f'etc/requirements/{name}.txt').read_text()
        return [line.partition('#')[0].strip() for line in lines.splitlines()
                if line.partition('#')[0].strip()]

    def pip(self, *arguments, venv=None, **variables):
        return run(sys.executable, '-m', 'pip', '--python',
                   (venv or self.venv) / 'bin' / 'python', *arguments, '-q',
                   env=environment(**variables))

    def make_venv(self, name):
        """Make an environment of one list, with the package in it."""
        venv = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        virtualenv.make_linked(venv, self.read_list(name))
        self.pip('install', '--no-deps', self.wheel, venv=venv)
        return venv

    def start(self, venv, program, *arguments):
        """Return (exit code, stdout, stderr) of a program there."""
        done = subprocess.run(
            [venv / 'bin' / program, *arguments], text=True, cwd=venv,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT,
            env=environment(HOME=str(venv)))
        return done.returncode, done.stdout, done.stderr

    def test_tag(self):
        """A tag is all that a release needs."""
        self.assertEqual(VERSION, self.version)
        with tarfile.open(self.sdist) as archive:
            (log,) = [m for m in archive if m.name.endswith('/ChangeLog')]
            self.assertIn(f'\n{VERSION}\n-----\n',
                          archive.extractfile(log).read().decode())

    def test_line_of_the_pages(self):
        """What it requires is linked already."""
        for page in ('README.rst', 'doc/source/install/packages.rst'):
            self.assertIn('$ pip install ./octavia-hmsync\n',
                          (TOP / page).read_text())
        self.pip('install', '--no-deps', self.tree)
        self.assertEqual(f'octavia-hmsync {VERSION}', self.run_installed(
            'octavia-hmsync', '--version').strip())
        self.pip('uninstall', '--yes', 'octavia-hmsync')

    def test_distributor(self):
        """Network nodes get no Octavia, and are told so in one line."""
        venv = self.make_venv('distributor')
        self.assertEqual(
            (0, f'{VERSION}\n', ''),
            self.start(venv, 'octavia-hmsync-distributor', '--version'))
        for argument in ('--help', '--version'):
            code, out, err = self.start(venv, 'octavia-hmsync', argument)
            self.assertEqual((1, '', 1), (code, out, err.count('\n')), err)
            self.assertIn('needs cliff, which is not installed here', err)

    def test_client(self):
        """Tenants get image clone, without Octavia."""
        venv = self.make_venv('client')
        code, out, err = self.start(
            venv, 'octavia-hmsync', 'image', 'clone', 'create', '--help')
        self.assertEqual((0, ''), (code, err))
        self.assertIn('--without-floating-ip', out)
        code, out, err = self.start(
            venv, 'octavia-hmsync', 'image', 'clone', 'list')
        self.assertEqual((1, '', 1), (code, out, err.count('\n')), err)
        self.assertIn('No credentials of OpenStack can be used', err)
        code, out, err = self.start(venv, 'octavia-hmsync', 'sync', 'status')
        self.assertEqual((1, '', 1), (code, out, err.count('\n')), err)
        self.assertIn('Octavia is not installed in this environment', err)

    def test_beside_packages_of_a_distribution(self):
        """As install/distributions.rst has it: a directory and a variable.

        The other environment stands for the Python of a system. Four
        libraries come beside those that each Octavia requires.
        """
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        system, target = directory / 'system', directory / 'octavia-hmsync'
        virtualenv.make_linked(system, ['octavia', 'PyMySQL', 'ovsdbapp',
                                        'pyroute2', 'rich'])
        run(sys.executable, '-m', 'pip', 'install', '-q', '--no-deps',
            '--target', target, self.wheel, env=environment())
        (directory / 'octavia.conf').write_text(
            '[DEFAULT]\nconfig_source = hmsync\n'
            f'[database]\nconnection = sqlite:///{directory}/octavia.db\n'
            '[hmsync]\ndriver = octavia_hmsync\n')

        def start(*arguments, **variables):
            return subprocess.run(
                [system / 'bin/python', *arguments], text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, timeout=_TIMEOUT, cwd=directory,
                env=environment(HOME=str(directory), **variables))

        # Without the variable a service ends.
        self.assertIn("but found 'octavia_hmsync'",
                      start('-c', _SERVICE).stderr)
        # It logs, too.
        found = start('-c', _SERVICE, PYTHONPATH=str(target))
        self.assertEqual('bind_ip', found.stdout.split()[-1], found.stderr)
        # All of it can be imported, and the command runs.
        found = start('-c', _PROBE, PYTHONPATH=str(target))
        self.assertEqual(0, found.returncode, found.stderr)
        probe = json.loads(found.stdout)
        self.assertEqual(str(target / 'octavia_hmsync/__init__.py'),
                         probe['package'])
        shown = start(target / 'bin/octavia-hmsync', '--version',
                      PYTHONPATH=str(target))
        self.assertEqual((0, f'octavia-hmsync {self.version}\n'),
                         (shown.returncode, shown.stdout), shown.stderr)

    def run_installed(self, command, *arguments):
        """Run a command of the other environment, in an empty directory."""
        directory = self.useFixture(fixtures.TempDir()).path
        return run(self.venv / 'bin' / command, *arguments, cwd=directory,
                   env=environment(HOME=directory))

    def packed(self, folder):
        return {f for f in self.files if f.startswith(f'{folder}/')}

    def test_sdist(self):
        with tarfile.open(self.sdist) as archive:
            found = {member.name.partition('/')[2]
                     for member in archive.getmembers() if member.isfile()}
        found = {f for f in found if not f.startswith(
            'octavia_hmsync.egg-info/')}
        self.assertEqual((self.files - _ONLY_IN_GIT) | _ONLY_IN_SDIST, found)

    def test_addresses(self):
        """What an index shows beside the package."""
        (packed,) = metadata.distributions(path=[str(self.wheel)])
        self.assertEqual(
            test_project.read_urls(),
            dict(line.split(', ', 1) for line in
                 packed.metadata.get_all('Project-URL')
                 if not line.startswith('Home')))
        self.assertEqual(test_project.read_metadata()['python_requires'],
                         packed.metadata['Requires-Python'])

    def test_wheel_of_the_sdist(self):
        """It is the same wheel, which the next test installs."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        run(sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps',
            '--wheel-dir', directory, self.sdist, env=environment())
        (made,) = directory.iterdir()
        self.assertEqual(self.wheel.name, made.name)
        # Only what differs is worth printing.
        self.assertEqual(set(), self.read_checksums(self.wheel) ^
                         self.read_checksums(made))

    @staticmethod
    def read_checksums(wheel):
        """Return those of all files.

        But RECORD, which has them, and pbr.json, which tells of git.
        """
        with zipfile.ZipFile(wheel) as archive:
            return {(each.filename, each.CRC) for each in archive.infolist()
                    if not each.filename.endswith(
                        ('.dist-info/RECORD', '.dist-info/pbr.json'))}

    def test_wheel_installed(self):
        """Install the package, look at it and use it, and take it away."""
        # No more than it: what it requires has been linked.
        self.pip('install', '--no-deps', self.wheel)
        self.pip('check')
        self.check_files()
        self.check_sample()
        self.check_commands()
        self.pip('uninstall', '--yes', 'octavia-hmsync')
        self.assertEqual([], [
            path for path in self.venv.rglob('*')
            if path.is_file() and 'hmsync' in str(path.relative_to(
                self.venv))])

    def check_files(self):
        found = json.loads(self.run_installed('python', '-c', _PROBE))
        self.assertThat(found['package'],
                        testtools.matchers.StartsWith(str(self.venv)))
        installed = {
            os.path.normpath(f).replace(f'../../../{DATA}/', 'etc/')
            for f in found['files'] if '__pycache__' not in f}
        record = {f for f in installed if '.dist-info/' in f}
        setup = configparser.ConfigParser(delimiters='=')
        setup.read(self.tree / 'setup.cfg')
        entry_points = {
            group: lines.strip().splitlines()
            for group, lines in setup['entry_points'].items()}
        self.assertEqual(
            self.packed('octavia_hmsync') | self.packed('etc') |
            {f'../../../bin/{line.split()[0]}'
             for line in entry_points['console_scripts']},
            installed - record)
        self.assertIn('LICENSE', {os.path.basename(f) for f in record})
        modules = {f for f in self.packed('octavia_hmsync')
                   if f.endswith('.py')}
        # Without the topmost, which is no module of itself, and env.
        self.assertEqual(len(modules) - 2, len(found['modules']))
        self.assertEqual(sum(map(len, entry_points.values())),
                         found['entry_points'])

    def check_sample(self):
        """The sample file and what made it are there, and agree."""
        data = self.venv / DATA
        generated = self.directory / 'generated'
        self.run_installed(
            'python', '-m', 'oslo_config.generator', '--config-file',
            data / 'config' / 'octavia-hmsync-config-generator.conf',
            '--output-file', generated)
        self.assertEqual(
            generated.read_text(),
            (data / 'octavia' / 'octavia-hmsync.conf.sample').read_text())

    def check_commands(self):
        self.assertEqual(f'octavia-hmsync {self.version}', self.run_installed(
            'octavia-hmsync', '--version').strip())
        self.assertIn('db upgrade',
                      self.run_installed('octavia-hmsync', 'help'))
        conf, database = self.directory / 'conf', self.directory / 'db'
        database.unlink(missing_ok=True)
        conf.write_text(f'[database]\nconnection = sqlite:///{database}\n'
                        f'pool_timeout =\n')
        connection = sqlite3.connect(database)
        self.addCleanup(connection.close)
        # Those by which it knows Octavia's database.
        for name in _OCTAVIA_TABLES:
            connection.execute(f'CREATE TABLE {name} (id VARCHAR(36))')
        for name in _LOOK_UP_TABLES:
            connection.execute(f'CREATE TABLE {name} (name VARCHAR(36), '
                               'description VARCHAR(255))')
        connection.commit()
        self.run_installed('octavia-hmsync', '--config-file', conf,
                           'db', 'upgrade')
        self.assertEqual(
            {*models.Base.metadata.tables, 'hmsync_alembic_version',
             *_OCTAVIA_TABLES, *_LOOK_UP_TABLES},
            {name for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'")})
