# SPDX-License-Identifier: Apache-2.0

"""What a command imports, of which its start consists."""

import re
import subprocess
import sys

from octavia import opts

from octavia_hmsync.conf import octavia as octavia_conf
from tests.unit.cli import base

# What takes long, and what commands need that ask nothing but the database.
_CLIENTS = {'eventlet', 'keystoneauth1', 'keystonemiddleware', 'openstack',
            'oslo_messaging', 'ovs', 'ovsdbapp', 'pyroute2', 'requests',
            'taskflow'}
_OCTAVIA = {'octavia', 'octavia.amphorae',
            'octavia.amphorae.driver_exceptions',
            'octavia.amphorae.driver_exceptions.exceptions', 'octavia.common',
            'octavia.common.constants', 'octavia.common.exceptions',
            'octavia.i18n'}
_RUN = '''
import sys
from octavia_hmsync.cmd import hmsync
try:
    code = hmsync.main()
except SystemExit as e:
    code = e.code
print(*sys.modules, file=sys.stderr)
sys.exit(code)
'''


class TestStart(base.CommandTestCase):

    def get_imported(self, *argv):
        """Run a command; returns the modules that are imported then."""
        done = subprocess.run([sys.executable, '-W', 'ignore', '-c', _RUN,
                               '--config-file', self.conf_path, *argv],
                              capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        return set(done.stderr.split())

    def test_without_a_database(self):
        for argv in (['--help'], ['--version'], ['help'], ['complete']):
            self.assertEqual(set(), {
                'octavia', 'sqlalchemy', 'oslo_config', *_CLIENTS} &
                self.get_imported(*argv), argv)

    def test_database(self):
        # oslo.log itself imports eventlet, where there is an older one.
        logs = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', 'import sys\n'
             'from oslo_log import log\nprint(*sys.modules)'],
            capture_output=True, check=True, text=True).stdout
        clients = _CLIENTS - set(logs.split())
        for argv in (['help', 'image', 'replace'],
                     ['sync', 'status'], ['amphora', 'list'],
                     ['cluster', 'list'], ['distributor', 'list'],
                     ['image', 'rollout', 'list']):
            imported = self.get_imported(*argv)
            self.assertEqual(set(), clients & imported, argv)
            self.assertEqual(set(), {
                name for name in imported if name.split('.')[0] == 'octavia'
            } - _OCTAVIA, argv)

    def test_octavia(self):
        imported = self.get_imported('image', 'list')
        self.assertIn('octavia.common.config', imported)
        self.assertEqual(set(), {
            name for name in imported if name.split('.')[0] == 'dns'})

    def test_only_its_own_module(self):
        imported = self.get_imported('cluster', 'list')
        self.assertEqual(
            {'octavia_hmsync.cluster.cli.cluster',
             'octavia_hmsync.cluster.cli.common'},
            {name for name in imported if
             re.match(r'octavia_hmsync\.[a-z]+\.cli\.', name)})

    def test_options(self):
        """They are what Octavia has of that name."""
        theirs = {(group, opt.name): opt for group, opts in opts.list_opts()
                  for opt in opts}
        for group, ours in octavia_conf.OPTS.items():
            for one in ours:
                other = theirs[group or 'DEFAULT', one.name]
                self.assertEqual(
                    (type(one), one.default, one.secret),
                    (type(other), other.default, other.secret), one.name)
