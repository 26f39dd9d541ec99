# SPDX-License-Identifier: Apache-2.0

"""Each service of Octavia that reads the lines, with and without the package.

What oslo.config and Octavia do with a driver that is not there is theirs; the
installation pages give the order that follows from it.
"""

import os
import pathlib
import subprocess

import fixtures

from tests.cloud import controllers
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import virtualenv
from tests.cloud import waiting
from tests.functional import base

SERVICES = (controllers.Api, controllers.DriverAgent,
            controllers.HealthManager, controllers.Housekeeping,
            controllers.Worker)
# They have nothing of the plugin.
OTHERS = SERVICES[:2]
SKIPPED = "could not load configuration from 'hmsync'"
ENDED = 'ConfigFileValueError: Value for option driver'
TAKEN = '[hmsync] driver = {} is taken for octavia_hmsync'
NO_TABLES = 'The tables of octavia-hmsync are not in the database yet'


class TestServices(base.FunctionalTestCase):

    def start_all(self, kinds, host, options=None, bin_directory=None):
        return [self.cloud.add_service(kind, f'{host}-{kind.PROGRAM}',
                                       options, bin_directory)
                for kind in kinds]

    def make_venv(self):
        """Make an environment that has Octavia, and not the package.

        :returns: where its programs are.
        """
        venv = os.path.join(self.useFixture(fixtures.TempDir()).path, 'venv')
        virtualenv.make_linked(
            venv, ['octavia', 'PyMySQL'],
            [service.PROGRAM for service in SERVICES])
        return os.path.join(venv, 'bin')

    def assert_ended(self, services, name):
        waiting.wait_for(lambda: not any(s.running for s in services),
                         'end of each service')
        for service in services:
            log = service.log()
            self.assertIn(SKIPPED, log)
            (last,) = [line for line in log.splitlines() if ENDED in line][
                -1:]
            self.assertIn(f"but found '{name}'", last)
            self.assertNotIn(service.READY or 'no such line', log)

    def test_without_package(self):
        """All of them end: the package comes before the lines."""
        self.make_cloud(upgrade=False)
        bin_directory = self.make_venv()
        absent = subprocess.run(
            [os.path.join(bin_directory, 'python'), '-c',
             'import octavia, octavia_hmsync'],
            env=process.environment(self.cloud.directory), cwd='/',
            stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertIn("No module named 'octavia_hmsync'", absent.stderr)
        self.assert_ended(
            self.start_all(SERVICES, 'bare', bin_directory=bin_directory),
            'octavia_hmsync')

    def test_unknown_name(self):
        """No plugin can be asked for it: as without the package."""
        self.make_cloud(upgrade=False)
        self.assert_ended(self.start_all(
            SERVICES[1:2], 'unknown',
            {'hmsync': {'driver': 'octavia_hmsink'}}), 'octavia_hmsink')

    def test_own_files(self):
        """Lines where one service looks for them leave the others alone."""
        self.hmsync = False
        # What --config-file names has the last word.
        self.make_cloud(upgrade=False, options={
            'controller_worker': {'statistics_drivers': None}})
        for program in ('octavia-housekeeping', 'octavia-hmsync'):
            directory = pathlib.Path(self.cloud.directory, '.octavia',
                                     f'{program}.conf.d')
            directory.mkdir(parents=True)
            octavia_conf.write(directory / 'hmsync.conf', octavia_conf.HMSYNC)
        (keeper,) = self.start_all([controllers.Housekeeping], 'own')
        others = self.start_all(OTHERS, 'bare',
                                bin_directory=self.make_venv())
        self.cloud.wait_until_ready()
        self.wait_for(lambda: NO_TABLES in keeper.log(),
                      f'sign of the plugin in {keeper.name}')
        for service in others:
            self.assertNotIn(SKIPPED, service.log())
        # The command's own is read as well: the plugin is on there.
        result = self.cloud.command('octavia-hmsync', 'upgrade', 'check')
        self.assertRegex(result.stdout,
                         r'Check: Switched on +\|\n\| Result: Success')

    def test_misspelt(self):
        """The name of the package works, and is said to be wrong once."""
        self.make_cloud()
        services = self.start_all(
            SERVICES, 'misspelt', {'hmsync': {'driver': 'octavia-hmsync'}})
        group = self.start_all(
            SERVICES[1:2], 'group', {'hmsync': {'driver': 'hmsync'}})
        self.cloud.wait_until_ready()
        (manager,) = [s for s in services
                      if isinstance(s, controllers.HealthManager)]
        self.wait_until_published([manager.address])
        for service in services:
            self.wait_for(
                lambda: TAKEN.format('octavia-hmsync') in service.log(),
                f'what {service.name} has to say')
        self.assertEqual([1] * len(services), [
            service.log().count('is taken for octavia_hmsync')
            for service in services])
        self.assertIn(TAKEN.format('hmsync'), group[0].log())
        # One that knows its name has no more to say.
        result = self.cloud.command('octavia-hmsync', 'sync', 'status')
        self.assertEqual((0, ''), (result.returncode, result.stderr))
        result = self.cloud.command(
            'octavia-hmsync', 'sync', 'status',
            options={'hmsync': {'driver': 'octavia-hmsync'}})
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn(TAKEN.format('octavia-hmsync'), result.stderr)
        self.assertEqual(1, len(result.stderr.splitlines()))

    def test_unreadable_option(self):
        """Nor does an option of ours keep those down that have no use of it.

        test_lifecycle has the others.
        """
        self.make_cloud(upgrade=False)
        services = self.start_all(
            OTHERS, 'unreadable', {'hmsync': {'poll_interval': 'often'},
                                   'hmsync_network': {'api_timeout': 'x'}})
        self.cloud.wait_until_ready()
        for service in services:
            for option in ('[hmsync] poll_interval',
                           '[hmsync_network] api_timeout'):
                self.assertIn(f'{option} cannot be used', service.log())
