# SPDX-License-Identifier: Apache-2.0

"""What the project says of itself is the same everywhere."""

import configparser
import pathlib
import re
import subprocess
import tomllib

from oslotest import base
from packaging import requirements
from packaging import specifiers

from tests.unit import base as unit_base

TOP = pathlib.Path(__file__).resolve().parents[2]
NAME = 'octavia-hmsync'
# Everything is installed of these together, and of each alone.
REQUIREMENTS = ('requirements.txt', 'test-requirements.txt',
                'doc/requirements.txt')
PYTHON = 'Programming Language :: Python :: '


def read_metadata():
    """Return the metadata of setup.cfg, each value as it stands there."""
    parser = configparser.ConfigParser(delimiters='=', interpolation=None)
    parser.read(TOP / 'setup.cfg')
    return parser['metadata']


def read_urls():
    """Return {label: address} of the project's URLs."""
    lines = read_metadata()['project_urls'].strip().splitlines()
    return dict(re.split(r' *= *', line, maxsplit=1) for line in lines)


def read_requirements():
    """Return {file, or extra of setup.cfg: [(requirement, licence)]}."""
    parser = configparser.ConfigParser(delimiters='=', interpolation=None)
    parser.read(TOP / 'setup.cfg')
    texts = {file: (TOP / file).read_text() for file in REQUIREMENTS}
    found = {}
    for name, text in [*texts.items(), *parser['extras'].items()]:
        found[name] = []
        for line in text.splitlines():
            if line.strip() and not line.startswith('#'):
                wanted, _, licence = line.partition(' #')
                found[name].append((requirements.Requirement(wanted.strip()),
                                    licence.strip()))
    return found


class TestAddresses(base.BaseTestCase):

    def test_none_leads_nowhere(self):
        """Neither source nor documentation is published yet."""
        files = subprocess.run(
            [unit_base.need_program('git'), 'ls-files'], cwd=TOP, check=True,
            text=True, stdout=subprocess.PIPE).stdout.splitlines()
        found = [file for file in files
                 # Zuul runs where the source is at OpenDev.
                 if not file.startswith(('zuul.d/', 'tests/', 'playbooks/'))
                 and re.search(
                     rf'(opendev|docs\.openstack)\.org/(\w+/)*{NAME}',
                     (TOP / file).read_text(errors='replace'))]
        self.assertEqual([], found)
        self.assertEqual(['Issues'], list(read_urls()))

    def test_source_is_one_variable(self):
        """Of devstack, the element and each page that installs."""
        for file in ('README.rst', 'doc/source/install/packages.rst',
                     'doc/source/install/devstack.rst',
                     'doc/source/install/distributor-image.rst',
                     'elements/octavia-hmsync-distributor/environment.d/'
                     '10-octavia-hmsync-distributor.bash'):
            self.assertRegex((TOP / file).read_text(),
                             r'\$\{?OCTAVIA_HMSYNC_REPO')

    def test_contributors_are_told_the_same(self):
        self.assertIn(f'<{read_urls()["Issues"]}>',
                      (TOP / 'CONTRIBUTING.rst').read_text())


class TestPythons(base.BaseTestCase):
    """Those which are tested are promised, and no others."""

    def setUp(self):
        super().setUp()
        self.metadata = read_metadata()
        self.minors = sorted(
            int(line.split('3.')[1])
            for line in self.metadata['classifier'].splitlines()
            if re.fullmatch(rf'{PYTHON}3\.\d+', line.strip()))

    def test_classifiers(self):
        self.assertEqual([11, 12, 13], self.minors)

    def test_oldest(self):
        allowed = specifiers.SpecifierSet(self.metadata['python_requires'])
        self.assertEqual(self.minors[:1], [
            minor for minor in range(30) if f'3.{minor}' in allowed][:1])
        mypy = tomllib.loads((TOP / 'pyproject.toml').read_text())
        self.assertEqual(f'3.{self.minors[0]}',
                         mypy['tool']['mypy']['python_version'])


class TestRequirements(base.BaseTestCase):
    """What openstack/requirements checks of each line, without its list."""

    def setUp(self):
        super().setUp()
        self.lists = read_requirements()

    def test_each_has_a_lower_bound_and_a_licence(self):
        for name, found in self.lists.items():
            self.assertNotEqual([], found)
            self.assertEqual([], [
                (name, str(requirement)) for requirement, licence in found
                if not licence or '>=' not in {
                    s.operator for s in requirement.specifier}])

    def test_each_stands_once_or_says_the_same(self):
        """pip takes two bounds for one; who raises one misses the other."""
        for found in self.lists.values():
            names = [r.name.lower() for r, _ in found]
            self.assertEqual(sorted(set(names)), sorted(names))
        lines = {}
        for found in self.lists.values():
            for requirement, _ in found:
                lines.setdefault(requirement.name.lower(), set()).add(
                    str(requirement))
        self.assertEqual({}, {name: found for name, found in lines.items()
                              if len(found) > 1})

    def test_what_runs_is_no_requirement_of_the_tests(self):
        needed = {r.name for r, _ in self.lists['requirements.txt']}
        self.assertEqual(set(), needed & {
            r.name for r, _ in self.lists['test-requirements.txt']})
