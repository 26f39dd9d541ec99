# SPDX-License-Identifier: Apache-2.0

"""What the metadata and the imports of the package promise."""

import ast
import configparser
import functools
from importlib import metadata
import pathlib
import re
import subprocess
import sys
import unittest

import fixtures
from oslotest import base

from tests.unit import base as unit_base

TOP = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = 'octavia_hmsync'
TEST_DIRECTORIES = ('tests', 'tools', 'benchmarks')

# What lies in the package and in each slice, highest first. A module may
# import what is in lower rows, and what carries its own name there.
LAYERS = {
    '': (
        ('cmd',),
        ('services',),
        ('cluster',),
        ('image', 'network'),
        ('sync',),
        # The kernel: what knows no slice.
        ('live_options', 'metrics'),
        ('crew', 'held'),
        ('amphora', 'cli', 'periodic'),
        ('compute',),
        ('cloud', 'db', 'notifications'),
        ('conf',),
        ('addresses', 'compat', 'watched_flow'),
        ('distributor',),
        ('exceptions', 'version'),
    ),
    'sync': (
        ('cli', 'house_keeping'),
        ('build_zone', 'controller_list', 'figures', 'health_manager',
         'worker'),
        ('db', 'heartbeat_key', 'payloads'),
        ('rules',),
    ),
    'image': (
        ('cli', 'replacer'),
        ('recovery', 'replace', 'rollout'),
        ('figures', 'preflight'),
        ('inventory', 'whereabouts'),
        ('causes',),
        ('outdated',),
        ('clone', 'db', 'payloads', 'phases', 'target'),
    ),
    'cluster': (
        ('cli', 'keeping'),
        ('worker',),
        ('api', 'instances', 'members'),
        ('distribution',),
        ('work',),
        ('figures', 'image_replacement', 'managers', 'member_watch',
         'rules', 'status_floor'),
        ('db', 'payloads'),
    ),
}
# What runs on network nodes is for clusters alone.
ONLY_FOR = {'distributor': ('cluster', 'cmd')}

# What tools/draw_dashboard.py draws with, and what the plugin is measured
# beside in benchmarks; tox.ini has them for that alone. tempest has a virtual
# environment of its own.
NOT_TESTED = {'matplotlib', 'httpx', 'os_ken', 'tempest', 'tooz'}

# Runs before a statement, as where some modules are not installed.
WITHOUT = '''
import sys
class Refuses:
    def find_spec(self, name, *args):
        if name in {refused!r}:
            raise ModuleNotFoundError(name + ' is not installed', name=name)
sys.meta_path.insert(0, Refuses())
'''


@functools.cache
def modules():
    """Return (dotted name, syntax tree) of each module of the package."""
    found = []
    for path in sorted((TOP / PACKAGE).rglob('*.py')):
        parts = path.relative_to(TOP).with_suffix('').parts
        if parts[-1] == '__init__':
            parts = parts[:-1]
        found.append(('.'.join(parts),
                      ast.parse(path.read_text(), str(path))))
    return found


def imports(tree):
    """Yield (line, dotted name) of each import, also those in functions.

    ``from a import b`` yields ``a.b``, since b may be a module. A name that
    is passed to import_module() counts as well. Relative imports do not
    occur: hacking refuses them (H304).
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, '%s.%s' % (node.module, alias.name)
        elif (isinstance(node, ast.Call) and node.args and
                isinstance(node.args[0], ast.Constant) and
                ast.unparse(node.func).endswith(
                    ('import_module', '__import__'))):
            yield node.lineno, node.args[0].value


def layer(module, top=''):
    """The name of a module in the table of layers; '' outside of the top.

    :param top: '' or a slice.
    """
    parts = module.split('.')[1:]
    if top:
        parts = parts[1:] if parts[:1] == [top] else []
    return (parts + [''])[0]


def get_ranks(top):
    return {name: len(LAYERS[top]) - row
            for row, names in enumerate(LAYERS[top]) for name in names}


def entry_points():
    parser = configparser.ConfigParser(delimiters=('=',))
    parser.optionxform = str
    parser.read(TOP / 'setup.cfg')
    for group, lines in parser['entry_points'].items():
        for line in lines.strip().splitlines():
            name, value = (part.strip() for part in line.split('=', 1))
            yield metadata.EntryPoint(name=name, value=value, group=group)


def requirements(file='requirements.txt'):
    return get_names((TOP / file).read_text())


def get_names(text):
    """Yield the name of each requirement in a text."""
    for line in text.splitlines():
        match = re.match(r'[A-Za-z0-9._-]+', line.strip())
        if match:
            yield normalized(match.group())


def extras():
    """Return {extra: names of its requirements}."""
    parser = configparser.ConfigParser(delimiters=('=',))
    parser.read(TOP / 'setup.cfg')
    return {name: set(get_names(text))
            for name, text in parser['extras'].items()}


def normalized(distribution):
    return re.sub(r'[-_.]+', '-', distribution).lower()


class TestEntryPoints(base.BaseTestCase):

    def test_each_loads(self):
        found = list(entry_points())
        self.assertNotEqual([], found)
        for entry_point in found:
            self.assertTrue(callable(entry_point.load()), entry_point)

    def test_installed_metadata_agrees(self):
        installed = {(e.group, e.name, e.value)
                     for e in metadata.distribution(
                         'octavia-hmsync').entry_points}
        self.assertEqual(
            {(e.group, e.name, e.value) for e in entry_points()}, installed)


class TestRequirements(base.BaseTestCase):
    """Each part requires what its modules import, and nothing else."""

    def setUp(self):
        super().setUp()
        self.modules = dict(modules())
        self.distributions = metadata.packages_distributions()

    def find(self, *starts, without=()):
        """Return what modules import, and those that they import, and so on.

        :param starts: prefixes of modules, below the package.
        :param without: prefixes of those that are left alone.
        :returns: names of distributions.
        """
        def chosen(prefixes):
            return {name for name in self.modules for prefix in prefixes
                    if f'{name}.'.startswith(f'{PACKAGE}.{prefix}')}

        left_alone = chosen(without)
        pending, seen, found = chosen(starts) - left_alone, set(), set()
        while pending:
            module = pending.pop()
            seen.add(module)
            for _, name in imports(self.modules[module]):
                top = name.partition('.')[0]
                if top == PACKAGE:
                    pending |= ({name, name.rpartition('.')[0]} &
                                self.modules.keys()) - seen - left_alone
                elif top not in sys.stdlib_module_names:
                    self.assertIn(top, self.distributions, module)
                    found |= {normalized(each)
                              for each in self.distributions[top]}
        return found

    def test_each_extra(self):
        ovn = 'cluster.distribution.ovn.'
        controller = set(requirements()) - {'pbr'}
        self.assertEqual(self.find('', without=(
            'cmd.distributor.', 'distributor.', ovn)) | self.find(
                'distributor.client.'), controller)
        hosts = {name: {*requirements(f'etc/requirements/{name}.txt')} -
                 {'pbr'} for name in ('distributor', 'client')}
        self.assertEqual(
            {'distributor': self.find('cmd.distributor.', 'distributor.ovs.'),
             'client': self.find('cmd.hmsync.', 'image.cli.clone.')}, hosts)
        self.assertEqual({'distributor': hosts['distributor'] - controller,
                          'ovn': {'ovs', 'ovsdbapp'}}, extras())
        self.assertEqual(set(), self.find(ovn) - controller -
                         extras()['ovn'])

    def load(self, refused, statement):
        """Run a statement where some modules are not installed."""
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c',
             WITHOUT.format(refused=refused) + statement], text=True, cwd=TOP,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((0, ''), (done.returncode, done.stdout))

    def test_distributor_without_the_rest(self):
        self.load(
            ('octavia', 'openstack', 'keystoneauth1', 'sqlalchemy', 'oslo_db',
             'oslo_messaging', 'alembic', 'taskflow', 'cliff', 'psutil',
             'rich', 'prometheus_client', 'packaging', 'tenacity'),
            'import octavia_hmsync.cmd.distributor\n'
            'import octavia_hmsync.distributor.ovs.openvswitch\n')

    def test_ovn_is_named_where_it_is_missing(self):
        """With distributors nothing of it is needed."""
        self.load((), (
            'sys.modules["ovs"] = sys.modules["ovsdbapp"] = None\n'
            'from octavia_hmsync import exceptions\n'
            'from octavia_hmsync.cluster.distribution.ovs import '
            'floating_ips\n'
            'from oslo_config import cfg\n'
            'conf = cfg.ConfigOpts()\n'
            'conf([], default_config_files=[])\n'
            'assert floating_ips.find(conf) == {}\n'
            'try:\n'
            '    import octavia_hmsync.cluster.distribution.ovn.nat\n'
            'except exceptions.InvalidConfiguration as e:\n'
            '    assert "install octavia-hmsync[ovn]" in str(e)\n'
            'else:\n    raise AssertionError()\n'))

    def test_controller_without_the_rest(self):
        """Also without OVN's libraries: they are imported where it is used."""
        self.load(('flask', 'gunicorn', 'werkzeug', 'ovs', 'ovsdbapp'), (
            'from importlib import metadata\n'
            'for each in metadata.distribution("octavia-hmsync").entry_points:'
            '\n    if "distributor:" not in each.value and '
            '".distributor." not in each.value:\n        each.load()\n'))

    def test_each_import_of_the_tests_is_required(self):
        distributions = metadata.packages_distributions()
        named = {*requirements(), *requirements('test-requirements.txt'),
                 *set().union(*extras().values())}
        own = {PACKAGE, *TEST_DIRECTORIES, *(
            path.stem for directory in ('tools', 'tests/cloud/site')
            for path in (TOP / directory).glob('*.py'))}
        tops = {name.split('.')[0]
                for directory in TEST_DIRECTORIES
                for path in (TOP / directory).rglob('*.py')
                for _, name in imports(ast.parse(path.read_text()))}
        found = {top: {normalized(d) for d in distributions.get(top, ())}
                 for top in tops - own - NOT_TESTED -
                 sys.stdlib_module_names}
        self.assertIn('testtools', found)
        self.assertEqual({}, {top: names for top, names in found.items()
                              if not names & named})


class TestImports(base.BaseTestCase):

    def test_only_compat_imports_private_octavia(self):
        wrong = ['%s:%d imports %s' % (module, line, name)
                 for module, tree in modules() if layer(module) != 'compat'
                 for line, name in imports(tree)
                 if name.split('.')[0] == 'octavia']
        self.assertEqual([], wrong)

    def test_each_module_is_in_a_layer(self):
        for top in LAYERS:
            names = {layer(module, top) for module, _ in modules()} - {''}
            self.assertEqual(set(get_ranks(top)), names, top)

    def test_imports_run_downwards(self):
        wrong = []
        for module, tree in modules():
            for line, name in imports(tree):
                if name.split('.')[0] == PACKAGE:
                    wrong += [f'{module}:{line} imports {name}'
                              for top in LAYERS
                              if not self._allowed(top, module, name)]
        self.assertEqual([], wrong)

    @staticmethod
    def _allowed(top, module, name):
        importer, imported = layer(module, top), layer(name, top)
        if importer == imported or '' in (importer, imported):
            return True
        ranks = get_ranks(top)
        return (importer in ONLY_FOR.get(imported, (importer,)) and
                ranks.get(imported, 99) < ranks[importer])


class TestOldestOctavia(base.BaseTestCase):
    """Unit tests that "tox -e ci-2025.1" runs, by what they import."""

    def find(self, *arguments):
        target = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'list')
        subprocess.run(
            [sys.executable, 'tools/list_octavia_tests.py', *arguments,
             target], cwd=TOP, check=True)
        return target.read_text().splitlines()

    def test_found(self):
        lines = self.find()
        modules = {
            '.'.join(path.relative_to(TOP).with_suffix('').parts)
            for path in (TOP / 'tests/unit').rglob('test_*.py')}
        chosen = {name for name in modules if any(
            re.match(line, f'{name}.TestCase.test') for line in lines)}
        self.assertEqual(len(chosen), len(lines))
        # One of Octavia itself, of a module that uses compat, and of a
        # program that imports such a module.
        for name in ('compat.test_compat', 'services.test_lifecycle'):
            self.assertIn(f'tests.unit.{name}', chosen)
        # amphora.agent_client has a test of its name, image.recovery.serving
        # has none.
        self.assertNotIn('tests.unit.sync.worker.test_batch', chosen)
        self.assertIn('tests.unit.image.recovery.test_restorable', chosen)
        self.assertLess(len(chosen), len(modules) / 2)

    def test_compat(self):
        """Those of what depends on the release where nothing of it changed."""
        lines = self.find('--compat')
        self.assertIn(r'^tests\.unit\.compat\.test_compat\.', lines)
        self.assertLess(len(lines), len(self.find()) / 10)


class TestListed(base.BaseTestCase):
    """Tests that "tox -e ci" leaves out, that it runs not always, or once."""

    def test_each_is_there(self):
        for kind, lists in {'functional': ('long', 'harness'),
                            'unit': ('repeated',)}.items():
            directory = TOP / 'tests' / kind
            names = [
                f'{".".join(path.relative_to(TOP).with_suffix("").parts)}.'
                f'{each.name}.{test}'
                for path in directory.rglob('*.py')
                for each in ast.parse(path.read_text()).body
                if isinstance(each, ast.ClassDef)
                for test in ('', *(method.name for method in each.body
                                   if isinstance(method, ast.FunctionDef)))]
            self.assertEqual([], [
                line for file in lists
                for line in (directory / f'{file}.txt').read_text().split()
                if not any(re.match(line, name) for name in names)])


class TestPrograms(base.BaseTestCase):
    """A unit test that needs a program of the system is skipped without it."""

    def test_skipped(self):
        e = self.assertRaises(unittest.SkipTest, unit_base.need_program,
                              'octavia-hmsync-no-such-program')
        self.assertEqual('octavia-hmsync-no-such-program is not installed; '
                         'see bindep.txt', str(e))
        self.assertTrue(pathlib.Path(unit_base.need_program('sh')).exists())

    def test_each_unit_test_asks(self):
        """None names one where it starts it."""
        wrong = []
        for path in sorted((TOP / 'tests/unit').rglob('*.py')):
            for call in ast.walk(ast.parse(path.read_text())):
                if (isinstance(call, ast.Call) and call.args and
                        ast.unparse(call.func).startswith('subprocess.') and
                        isinstance(call.args[0], ast.List) and
                        isinstance(call.args[0].elts[0], ast.Constant)):
                    wrong.append(f'{path}:{call.lineno}')
        self.assertEqual([], wrong)
