# SPDX-License-Identifier: Apache-2.0

"""What is said of the releases of Octavia in several places agrees."""

import configparser
import pathlib
import re

from oslotest import base
from packaging import version
import yaml

from tests.unit import test_project

TOP = pathlib.Path(__file__).resolve().parents[2]
# OpenStack's release, and its Octavia.
RELEASES = {'2025.1': 16, '2025.2': 17, '2026.1': 18, '2026.2': 19}
KINDS = ('unit', 'functional', 'soak')


def constraints(release):
    """Versions by the name of the distribution."""
    text = (TOP / 'constraints' / f'{release}.txt').read_text()
    return {name.lower().replace('_', '-'): version.Version(number)
            for name, number in re.findall(r'^([\w.-]+)==(\S+)$', text,
                                           re.MULTILINE)}


def zuul():
    """Jobs by name, and the project."""
    items = [item for path in (TOP / 'zuul.d').glob('*.yaml')
             for item in yaml.safe_load(path.read_text())]
    project, = [item['project'] for item in items if 'project' in item]
    return {item['job']['name']: item['job'] for item in items
            if 'job' in item}, project


class TestReleases(base.BaseTestCase):

    def test_octavia(self):
        self.assertEqual(RELEASES, {
            release: constraints(release)['octavia'].major
            for release in RELEASES})
        octavia, = [r for r, _ in test_project.read_requirements()[
            'requirements.txt'] if r.name == 'octavia']
        self.assertEqual(set(RELEASES.values()), {
            major for major in range(30) if f'{major}.0.0' in
            octavia.specifier} & set(range(max(RELEASES.values()) + 1)))

    def test_bounds_hold(self):
        """All that is required is what each release has."""
        for release in RELEASES:
            pinned = constraints(release)
            for file, lines in test_project.read_requirements().items():
                for wanted, _ in lines if not file.startswith('doc/') else ():
                    # Else pip takes the newest one, which no cloud of this
                    # release has.
                    self.assertIn(wanted.name.lower(), pinned, release)
                    self.assertIn(str(pinned[wanted.name.lower()]),
                                  wanted.specifier,
                                  f'{wanted.name} of {release}')

    def test_tox(self):
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(TOP / 'tox.ini')
        deps = tox['testenv']['deps']
        for release, major in RELEASES.items():
            self.assertIn(f'{release}: -c{{env:TOX_CONSTRAINTS_FILE:'
                          f'constraints/{release}.txt}}\n', deps)
            self.assertIn(
                f'{release}: octavia>={major}.0.0,<{major + 1}\n', deps)
        for kind in (*KINDS, 'constraints'):
            section, = [name for name in tox.sections()
                        if name.startswith(f'testenv:{kind}') and
                        '{' in name]
            self.assertEqual(set(RELEASES), set(
                re.findall(r'\d{4}\.\d', section)))

    def test_zuul(self):
        jobs, project = zuul()
        run = {name: {job for pipeline in pipelines for job in
                      project[pipeline]['jobs'] if isinstance(job, str)}
               for name, pipelines in (
                   ('unit', ['check']), ('functional', ['check']),
                   ('soak', ['periodic-weekly']))}
        for release in RELEASES:
            for kind in KINDS:
                name = f'octavia-hmsync-{kind}-{release.replace(".", "-")}'
                self.assertIn(name, run[kind])
                job = jobs[name]
                self.assertEqual(f'{kind}-{release}',
                                 job['vars']['tox_envlist'])
                self.assertEqual(f'stable/{release}',
                                 job['override-checkout'])
                self.assertIn('openstack/octavia', job['required-projects'])

    def test_told(self):
        for release, major in RELEASES.items():
            self.assertRegex(
                (TOP / 'README.rst').read_text(),
                rf'(?m)^{major}\.\d+\.\d+ +{re.escape(release)} ')
