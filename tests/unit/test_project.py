# SPDX-License-Identifier: Apache-2.0

"""What the project says of itself is the same everywhere."""

import configparser
import pathlib
import re
import tomllib

from oslotest import base
from packaging import requirements
from packaging import specifiers
import yaml

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


def read_requirements(file):
    """Yield (requirement, licence) of each line."""
    for line in (TOP / file).read_text().splitlines():
        if line.strip() and not line.startswith('#'):
            text, _, licence = line.partition(' #')
            yield requirements.Requirement(text), licence.strip()


class TestAddresses(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.urls = read_urls()

    def test_labels(self):
        """Those of Octavia."""
        self.assertEqual(
            {'Documentation', 'Source', 'Issues', 'Release Notes'},
            set(self.urls))
        self.assertEqual(self.urls['Documentation'],
                         read_metadata()['home_page'])

    def test_each_is_of_this_project(self):
        for url in self.urls.values():
            self.assertTrue(url.startswith('https://'), url)
            self.assertIn(NAME, url)

    def test_contributors_are_told_the_same(self):
        text = (TOP / 'CONTRIBUTING.rst').read_text()
        for label in ('Source', 'Issues'):
            self.assertRegex(text, rf'{re.escape(self.urls[label])}[>;]')

    def test_source_is_what_devstack_and_zuul_clone(self):
        source = self.urls['Source']
        self.assertIn(
            f'enable_plugin {NAME} {source}\n',
            (TOP / 'doc/source/install/devstack.rst').read_text())
        used = {variables['devstack_plugins'][NAME]
                for item in yaml.safe_load(
                    (TOP / 'zuul.d/jobs.yaml').read_text())
                for variables in item['job'].get('host-vars', {}).values()}
        self.assertEqual({source}, used)


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

    def test_each_has_a_lower_bound_and_a_licence(self):
        for file in REQUIREMENTS:
            found = list(read_requirements(file))
            self.assertNotEqual([], found)
            self.assertEqual([], [
                (file, str(requirement)) for requirement, licence in found
                if not licence or '>=' not in {
                    s.operator for s in requirement.specifier}])

    def test_each_stands_once_or_says_the_same(self):
        """pip takes two bounds for one; who raises one misses the other."""
        for file in REQUIREMENTS:
            names = [r.name.lower() for r, _ in read_requirements(file)]
            self.assertEqual(sorted(set(names)), sorted(names))
        lines = {}
        for file in REQUIREMENTS:
            for requirement, _ in read_requirements(file):
                lines.setdefault(requirement.name.lower(), set()).add(
                    str(requirement))
        self.assertEqual({}, {name: found for name, found in lines.items()
                              if len(found) > 1})

    def test_what_runs_is_no_requirement_of_the_tests(self):
        needed = {r.name for r, _ in read_requirements('requirements.txt')}
        self.assertEqual(set(), needed & {
            r.name for r, _ in read_requirements('test-requirements.txt')})
