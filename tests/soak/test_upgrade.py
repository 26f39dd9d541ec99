# SPDX-License-Identifier: Apache-2.0

"""A cloud goes to another release and back, one service after the other.

And the two releases of the plugin beside each other for longer.
"""

from tests.cloud import database
from tests.cloud import installations
from tests.functional import base
from tests.functional import test_mixed_releases as mixed


class UpgradeCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def check_upgrade(self):
        self.other = self.find_other()
        cloud = self.make_cloud(amphorae=3, boot_numbers=(1, 2),
                                upgrade=False)
        cloud.upgrade_hmsync(self.other)
        self.managers = [
            cloud.add_health_manager(cloud.address(n),
                                     installation=self.other)
            for n in (1, 2)]
        self.keepers = [
            cloud.add_housekeeping(host, installation=self.other)
            for host in ('hk1', 'hk2')]
        cloud.wait_until_ready(base.START_TIMEOUT)
        # By hand: our code cannot read older tables.
        self.wait_for(lambda: cloud.records.query(
            "SELECT COUNT(*) n FROM hmsync_amphora WHERE result = 'APPLIED'"
            ' AND generation = (SELECT MAX(number) FROM hmsync_generation)'
        ) == [{'n': 3}], 'upload to all')
        # The tables first, as doc/source/install/upgrade.rst has it.
        cloud.upgrade_hmsync()
        self.wait_until_synced([m.address for m in self.managers])
        self._go_to(installations.OURS, 11)
        self._go_to(self.other, 12)
        for controller in cloud.controllers:
            self.assertNotIn('Traceback', controller.log())

    def _go_to(self, installation, number):
        for controller in (*self.managers, *self.keepers):
            controller.stop()
            controller.install(installation)
            controller.start()
            controller.wait_until_ready(base.START_TIMEOUT)
            self.assert_nothing_failed_over()
        # There is work for all of them, in a cloud that is all of one release
        # with rows of the other.
        manager = self.managers[0]
        manager.stop()
        manager.move(self.cloud.address(number))
        manager.start()
        self.wait_until_synced([m.address for m in self.managers])
        self.assert_nothing_failed_over()


class TestControllers(mixed.PluginMixin, mixed.ControllersCase):

    def test_controllers(self):
        self.check_controllers()


class TestOctavia(mixed.OctaviaMixin, UpgradeCase):

    def test_upgrade(self):
        self.check_upgrade()


class TestPlugin(mixed.PluginMixin, UpgradeCase):

    def test_upgrade(self):
        self.check_upgrade()
        refused = self.cloud.command('octavia-hmsync', 'db', 'upgrade',
                                     installation=self.other)
        self.assertNotEqual(0, refused.returncode)
        self.assertIn('0007', refused.stderr)
