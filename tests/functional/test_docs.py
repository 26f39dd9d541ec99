# SPDX-License-Identifier: Apache-2.0

"""The documentation and the release notes build, without a warning."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from oslotest import base

TOP = pathlib.Path(__file__).resolve().parents[2]
PARTS = ('doc', 'etc', 'octavia_hmsync', 'releasenotes')


class TestDocs(base.BaseTestCase):
    """Of a copy, so that nothing is written into the source."""

    def setUp(self):
        super().setUp()
        directory = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        self.copy = directory / 'copy'
        for part in PARTS:
            shutil.copytree(
                TOP / part, self.copy / part,
                ignore=shutil.ignore_patterns('build', '__pycache__',
                                              'reno.cache'))
        self.env = {**os.environ,
                    'GIT_CEILING_DIRECTORIES': str(directory),
                    'GIT_CONFIG_GLOBAL': os.devnull,
                    'PYTHONPATH': str(TOP), 'LC_ALL': 'C.UTF-8'}

    def run_in_copy(self, *command):
        done = subprocess.run(
            command, cwd=self.copy, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        self.assertEqual(0, done.returncode, done.stdout)

    def make_repository(self):
        self.run_in_copy('git', 'init', '-q')
        self.run_in_copy('git', 'add', '.')
        self.run_in_copy('git', '-c', 'user.name=A', '-c', 'user.email=a@b',
                         'commit', '-q', '-m', 'All of it')

    def build(self, source):
        """Build HTML; returns what pages there are, by name."""
        self.run_in_copy(
            sys.executable, '-W', 'ignore', '-m', 'sphinx', '-q', '-W',
            '--keep-going', '-b', 'html', source, 'html')
        pages = self.copy / 'html'
        return {path.relative_to(pages).as_posix(): path.read_text()
                for path in pages.rglob('*.html')}

    def check(self, pages, *expected):
        """Check that pages have texts, without printing whole pages."""
        self.assertEqual([], [(name, text) for name, text in expected
                              if text not in pages[name]])

    def test_from_git(self):
        self.make_repository()
        self.check(
            self.build('doc/source'), ('index.html', 'docs.openstack.org'),
            ('index.html', 'octavia-hmsync.css'),
            ('index.html', 'var bugProject = "octavia";'),
            # What is made of the code.
            ('configuration/index.html', 'keepalive_interval'),
            ('cli/commands.html', 'health manager drain'),
            ('admin/metrics.html', 'octavia_hmsync_due_amphorae'),
            ('admin/metrics.html', 'id="octaviahmsyncnohousekeeping"'),
            ('admin/notifications.html', 'failover_guard.holding'),
            ('contributor/distributor-api.html',
             '/v1/vips/{vip_id}/transition'),
            ('contributor/index.html', 'synchronizer'))

    def test_without_git(self):
        """Only conf.py and the theme ask git: one page stands for all."""
        source = self.copy / 'doc/source'
        for page in source.rglob('*.rst'):
            page.unlink()
        (source / 'index.rst').write_text('Page\n====\n\nRead it.\n')
        self.check(self.build('doc/source'), ('index.html', 'Read it.'),
                   ('index.html', 'octavia-hmsync.css'))

    def test_release_notes(self):
        self.make_repository()
        self.check(self.build('releasenotes/source'),
                   ('unreleased.html', 'amphora_cluster'))
