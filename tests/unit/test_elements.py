# SPDX-License-Identifier: Apache-2.0

"""The elements of diskimage-builder, as far as no image has to be built."""

import json
import pathlib
import re
import subprocess

from oslotest import base
import yaml

from octavia_hmsync.distributor import conf as distributor_conf
from tests.unit import base as unit_base

TOP = pathlib.Path(__file__).resolve().parents[2]
ELEMENT = TOP / 'elements/octavia-hmsync-distributor'
HOOKS = ('install.d', 'post-install.d')


class TestElement(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.scripts = [path for name in HOOKS
                        for path in sorted((ELEMENT / name).iterdir())]

    def read_all(self):
        return {str(path.relative_to(ELEMENT)): path.read_text()
                for path in ELEMENT.rglob('*') if path.is_file()}

    def test_scripts(self):
        """As diskimage-builder's own lint has them."""
        self.assertEqual(3, len(self.scripts))
        for path in self.scripts:
            self.assertTrue(path.stat().st_mode & 0o100, path)
            self.assertRegex(path.name, r'^\d\d-[a-z-]+$')
            text = path.read_text()
            self.assertTrue(text.startswith('#!/bin/bash\n'), path)
            for word in ('set -eu\n', 'set -o pipefail\n', 'DIB_DEBUG_TRACE'):
                self.assertIn(word, text)
        for path in (ELEMENT / 'environment.d').iterdir():
            self.assertFalse(path.stat().st_mode & 0o111, path)

    def test_shellcheck(self):
        done = subprocess.run(
            [unit_base.need_program('shellcheck'), *self.scripts], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((0, ''), (done.returncode, done.stdout))

    def test_each_package_has_a_name_everywhere(self):
        packages = yaml.safe_load(
            (ELEMENT / 'package-installs.yaml').read_text())
        names = json.loads((ELEMENT / 'pkg-map').read_text())
        tables = [names['default'], *names['family'].values()]
        for table in tables:
            self.assertEqual({'network-config', 'openvswitch', 'iproute',
                              'python-venv'}, set(table))
            self.assertLessEqual(set(table), set(packages))
        # Its cloud-init brings netplan.
        self.assertEqual({'ubuntu': {'network-config': ''}}, names['distro'])

    def test_dependencies(self):
        dependencies = (ELEMENT / 'element-deps').read_text().split()
        self.assertEqual(sorted(dependencies), dependencies)
        for name, needs in (
                ('package-installs.yaml', 'package-installs'),
                ('pkg-map', 'pkg-map'), ('svc-map', 'svc-map'),
                ('static', 'install-static'),
                ('source-repository-octavia-hmsync', 'source-repositories')):
            self.assertTrue((ELEMENT / name).exists(), name)
            self.assertIn(needs, dependencies)

    def test_source(self):
        line = (ELEMENT / 'source-repository-octavia-hmsync').read_text()
        name, kind, place, url = line.rstrip('\n').split(' ')
        self.assertTrue(line.endswith('\n'))
        self.assertEqual(('octavia-hmsync', 'git'), (name, kind))
        install = self.scripts[0].read_text()
        self.assertIn(f'SOURCE={place}\n', install)
        # What it takes from there is there.
        wanted = 'etc/requirements/distributor.txt'
        self.assertIn(f'"$SOURCE/{wanted}"', install)
        path = 'etc/systemd/octavia-hmsync-distributor.service'
        for file in (wanted, path):
            self.assertTrue((TOP / file).is_file())
        self.assertIn(path.replace('octavia-hmsync-distributor.service',
                                   '$PROGRAM.service'), install)
        environment, = (ELEMENT / 'environment.d').iterdir()
        release = re.search('DIB_HMSYNC_RELEASE:-([0-9.]+)',
                            environment.read_text())[1]
        self.assertTrue((TOP / f'constraints/{release}.txt').is_file())
        self.assertIn(f'Default: {release}\n',
                      (ELEMENT / 'README.rst').read_text())

    def test_program(self):
        """The unit starts what is installed, with what is read."""
        unit = (TOP / 'etc/systemd/octavia-hmsync-distributor.service'
                ).read_text()
        program, _, place = re.search(
            'ExecStart=(.*)', unit)[1].partition(' --config-file ')
        self.assertEqual(f'/usr/bin/{distributor_conf.PROG}', program)
        self.assertEqual(distributor_conf.CONFIG_FILE, place)
        self.assertIn(f'PROGRAM={distributor_conf.PROG}\n',
                      self.scripts[0].read_text())
        drop_in = (ELEMENT / f'static/etc/systemd/system/'
                   f'{distributor_conf.PROG}.service.d/instance.conf')
        self.assertIn('After=cloud-init.service', drop_in.read_text())

    def test_no_secrets(self):
        for name, text in self.read_all().items():
            self.assertNotRegex(text, r'BEGIN [A-Z ]*(KEY|CERTIFICATE)', name)
            self.assertNotRegex(
                name, r'\.(pem|key|crt)$|etc/octavia-hmsync/')
