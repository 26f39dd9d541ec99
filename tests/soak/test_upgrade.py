# SPDX-License-Identifier: Apache-2.0

"""A cloud goes to another release and back, one service after the other."""

from tests.cloud import database
from tests.cloud import installations
from tests.functional import base
from tests.functional import test_mixed_releases as mixed


class UpgradeCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def check_upgrade(self, before, after):
        self.before = before
        cloud = self.make_cloud(amphorae=3, boot_numbers=(1, 2),
                                upgrade=False)
        cloud.upgrade_hmsync(self.before)
        self.managers = [
            cloud.add_health_manager(cloud.address(n), installation=before)
            for n in (1, 2)]
        self.keepers = [
            cloud.add_housekeeping(host, installation=before)
            for host in ('hk1', 'hk2')]
        cloud.wait_until_ready()
        self.wait_for(lambda: cloud.records.query(
            "SELECT COUNT(*) n FROM hmsync_amphora WHERE result = 'APPLIED'"
            ' AND generation = (SELECT MAX(number) FROM hmsync_generation)'
        ) == [{'n': 3}], 'upload to all')
        # The tables first, as doc/source/install/upgrade.rst has it.
        cloud.upgrade_hmsync(after)
        self.wait_until_synced([m.address for m in self.managers])
        self._go_to(after, 11)
        self._go_to(before, 12)
        for controller in cloud.controllers:
            self.assertNotIn('Traceback', controller.log())

    def _go_to(self, installation, number):
        for controller in (*self.managers, *self.keepers):
            controller.stop()
            controller.install(installation)
            controller.start()
            controller.wait_until_ready()
            self.assert_nothing_failed_over()
        # There is work for all of them, in a cloud that is all of one release
        # with rows of the other.
        manager = self.managers[0]
        manager.stop()
        manager.move(self.cloud.address(number))
        manager.start()
        self.wait_until_synced([m.address for m in self.managers])
        self.assert_nothing_failed_over()


class TestOctavia(mixed.OctaviaMixin, UpgradeCase):

    def test_upgrade(self):
        self.check_upgrade(self.find_other(), installations.OURS)


class TestPlugin(UpgradeCase):

    def test_upgrade(self):
        newer = self.useFixture(installations.NextPlugin()).installation
        self.check_upgrade(installations.OURS, newer)
        for installation, code in ((newer, 0), (installations.OURS, 1)):
            upgrade = self.cloud.command('octavia-hmsync', 'db', 'upgrade',
                                         installation=installation)
            self.assertEqual(code, upgrade.returncode, upgrade.stderr)
        self.assertIn('at revision 0002', upgrade.stderr)
