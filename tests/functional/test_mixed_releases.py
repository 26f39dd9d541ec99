# SPDX-License-Identifier: Apache-2.0

"""Controllers of two releases beside each other, as during an upgrade."""

import pathlib

from tests.cloud import ailing
from tests.cloud import database
from tests.cloud import installations
from tests.functional import base
from tests.functional import test_jobboard


class OctaviaMixin:
    """This plugin with another release of Octavia.

    tools/test.sh has an environment of the oldest and one of the newest.
    """

    def find_other(self):
        found = installations.with_other_octavia()
        if not found:
            self.skipTest('No environment below .tox has this plugin with '
                          'another Octavia: "tox -e unit-2025.1" makes one.')
        return found


class ControllersCase(base.FunctionalTestCase):
    """A health manager and a housekeeper of each release."""

    make_database = database.MariaDBDatabase

    def _start(self):
        other = self.find_other()
        cloud = self.make_cloud(amphorae=1)
        # What health managers say of it tells which list it uses.
        self.listening = cloud.add_load_balancer(
            [f'{cloud.address(n)}:5555' for n in (1, 2)], listener=True)[0]
        self.managers = [
            cloud.add_health_manager(cloud.address(1)),
            cloud.add_health_manager(cloud.address(2), installation=other)]
        self.keepers = [cloud.add_housekeeping('ours'),
                        cloud.add_housekeeping('other', installation=other)]
        cloud.wait_until_ready()

    def _leave_to(self, keeper):
        """Let a housekeeper be the only one."""
        for other in self.keepers:
            if other is not keeper:
                other.stop()
        if not keeper.running:
            keeper.start()
            keeper.wait_until_ready()

    def _published_by(self):
        return self.cloud.records.query(
            'SELECT published_by FROM hmsync_generation '
            'ORDER BY number DESC LIMIT 1')[0]['published_by']

    def _configurations(self):
        return {i: pathlib.Path(agent.conf_path).read_text()
                for i, agent in self.cloud.amphorae.items()}

    def check_controllers(self):
        self._start()
        self.wait_until_synced([m.address for m in self.managers])
        for number, keeper in enumerate(self.keepers):
            self._leave_to(keeper)
            self._replace(self.managers[number], 11 + number)
            self.assertEqual(keeper.host, self._published_by())
            self.wait_for(
                lambda: self.results()[self.listening.amphora_id].adopted_at,
                lambda: f'adoption: {self.results()}')
            # The other one renders and uploads the same.
            configurations = self._configurations()
            self._leave_to(self.keepers[1 - number])
            self.make_due()
            self.wait_until_applied()
            self.assertEqual(configurations, self._configurations())
        self.assert_nothing_failed_over()
        self._check_that_only_a_dead_one_is_failed_over()
        for controller in self.cloud.controllers:
            self.assertNotIn('Traceback', controller.log())

    def _replace(self, manager, number):
        """Move a health manager to another address."""
        manager.stop()
        manager.move(self.cloud.address(number))
        manager.start()
        manager.wait_until_ready()
        self.wait_until_synced([m.address for m in self.managers])

    def _check_that_only_a_dead_one_is_failed_over(self):
        self.listening.kill_tree()
        self.wait_for(self.cloud.failovers_begun, 'failover of the dead one')
        self.watch(3, {self.listening.amphora_id})


class JobsCase(test_jobboard.JobboardCase):
    """What the housekeeper of a release posts, the worker of another runs."""

    def check_jobs(self, posts, runs):
        self.make_jobboard_cloud({'hmsync': {'batch_size': 2}})
        amphorae = self.add(6, ailing.SLOW, delay=0.5)
        worker = self.cloud.add_worker(
            'worker', self.jobboard_options, installation=runs)
        self.workers = [worker]
        self.cloud.add_health_manager(self.cloud.address(1))
        self.cloud.wait_until_ready()
        keeper = self.cloud.add_housekeeping(
            options=self.jobboard_options, installation=posts)
        self.wait_until_published([f'{self.cloud.address(1)}:5555'])

        def has_helped():
            # Housekeeping does itself what no worker begins soon.
            if self.are_applied() and not self.configured_by(worker):
                self.make_due()
            return self.configured_by(worker)

        self.wait_for(has_helped, 'work of the worker', 120)
        self.wait_until_applied(self.ids(amphorae))
        self.wait_until_tidy()
        for process in (worker, keeper):
            self.assertNotIn('Traceback', process.log())


class TestOctavia(OctaviaMixin, ControllersCase):

    def test_controllers(self):
        self.check_controllers()
