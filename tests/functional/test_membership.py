# SPDX-License-Identifier: Apache-2.0

"""Changes of the health managers reach every amphora."""

from octavia_hmsync.sync.rules import member
from tests.cloud import database
from tests.functional import base


class MembershipCases:
    """Real health managers, housekeeper and agents; one cloud, many changes.

    Starting the processes takes longer than the changes do.
    """

    def test_every_change_reaches_every_amphora(self):
        cloud = self.make_cloud(amphorae=3)
        one, two, three = self.start(1, 2, 3)
        self.wait_until_synced([one.address, two.address, three.address])

        # Killed hard: no goodbye, found by its silence.
        one.kill_tree()
        self.wait_until_synced([two.address, three.address])
        self.assertEqual(member.ONLINE, self.members()[one.host].status)

        # A new one at a new address.
        four = self.start(4, housekeeping=False)[0]
        self.wait_until_synced([two.address, three.address, four.address])

        # The same host at another address: the row is replaced in place.
        hosts = set(self.members())
        old_address = two.address
        two.stop()
        two.move(cloud.address(5))
        two.start()
        self.wait_until_synced([two.address, three.address, four.address])
        self.assertNotIn(old_address, self.published())
        self.assertEqual(hosts, set(self.members()))

        # All of them gone at once, others at new addresses.
        new = [cloud.add_health_manager(cloud.address(n))
               for n in (11, 12, 13)]
        for manager in (two, three, four):
            manager.kill_tree()
        cloud.wait_until_ready()
        self.wait_until_synced([m.address for m in new])
        self.assert_nothing_failed_over()

        # The list is the same for everybody who asks.
        status = cloud.command('octavia-hmsync', 'sync', 'status', '-f',
                               'value', '-c', 'due', '-c', 'applied')
        self.assertEqual(['0', '3'], status.stdout.split())


class TestMembership(MembershipCases, base.FunctionalTestCase):
    make_database = database.MariaDBDatabase
