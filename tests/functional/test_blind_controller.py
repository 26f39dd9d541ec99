# SPDX-License-Identifier: Apache-2.0

"""A controller that cannot reach amphorae, beside one that can."""

import json

from tests.functional import test_failover_guard

# Nobody listens there: refused at once.
NO_WAY = {'haproxy_amphora': {'bind_port': 1}}


class BlindControllerTestCase(test_failover_guard.GuardTestCase):

    def replace_all(self):
        """All health managers at new addresses, and the blind one alone.

        It drains the queue again and again.

        :returns: the blind one, and the new health managers.
        """
        cloud = self.make_cloud(amphorae=5, boot_numbers=(1,), options={
            'hmsync': {'retry_interval': 1}})
        old, = self.start(1)
        self.wait_until_synced([old.address])
        self.housekeeping.stop()
        blind = cloud.add_housekeeping('blind', NO_WAY)
        blind.wait_until_ready()
        old.kill_tree()
        new = [cloud.add_health_manager(cloud.address(n)) for n in (2, 3)]
        self.wait_until_published([m.address for m in new])
        self.wait_for(
            lambda: min(row.attempts for row in self.results().values()) > 2,
            'attempts in vain')
        return blind, new

    def wait_until_known(self):
        self.wait_for(lambda: self.blind_controllers() ==
                      ['octavia-housekeeping on blind'], 'who is blind', 45)

    def blind_controllers(self):
        return json.loads(self.cloud.command(
            'octavia-hmsync', 'sync', 'status', '-f', 'json').stdout
        )['blind_controllers']


class TestBlindController(BlindControllerTestCase):

    def test_the_other_one_reaches_them(self):
        _blind, new = self.replace_all()
        self.housekeeping.start()
        self.wait_until_synced([m.address for m in new])
        self.wait_until_known()
        self.assert_nothing_failed_over()
