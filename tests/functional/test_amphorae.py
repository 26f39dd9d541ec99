# SPDX-License-Identifier: Apache-2.0

"""All kinds of amphorae, healthy and ailing."""

from octavia_hmsync.amphora import upload_result
from tests.cloud import ailing
from tests.cloud import database
from tests.functional import base


class AmphoraCases:

    def test_unreachable_and_back(self):
        cloud = self.make_cloud(amphorae=3, options={
            'hmsync': {'retry_interval': 1},
            # One of them is really gone for a while.
            'health_manager': {'heartbeat_timeout': 300}})
        one, two = self.start(1, 2)
        self.wait_until_synced([one.address, two.address])
        absent, *others = sorted(cloud.amphora_ids)
        cloud.amphorae[absent].stop()

        three = self.start(3, housekeeping=False)[0]
        addresses = {one.address, two.address, three.address}
        self.wait_until_published(addresses)
        self.wait_until_applied(others)
        self.wait_for(lambda: self.results()[absent].result ==
                      upload_result.UNREACHABLE, 'failed upload')
        row = self.results()[absent]
        self.assertIn('cannot be reached', row.error)
        self.assertIn(row.lb_network_ip, row.error)
        self.assertEqual(1, self.due())

        cloud.amphorae[absent].start()
        self.wait_until_applied()
        self.wait_for(lambda: set(cloud.amphorae[absent].configured_list()) ==
                      addresses, 'new list in the agent')
        self.assertIsNone(self.results()[absent].error)
        self.assertEqual(0, self.due())
        self.assert_nothing_failed_over()


class TestAmphora(AmphoraCases, base.FunctionalTestCase):
    make_database = database.MariaDBDatabase


class TestKinds(base.FunctionalTestCase):
    """Every kind of load balancer, every ailment, in one cloud."""

    make_database = database.MariaDBDatabase

    RESULTS = {
        ailing.REFUSES: (upload_result.UNREACHABLE, 'cannot be reached'),
        ailing.BLACK_HOLE: (upload_result.UNREACHABLE, 'did not answer'),
        ailing.HANGS: (upload_result.UNREACHABLE, 'did not answer'),
        ailing.HANGS_IN_ANSWER: (upload_result.UNREACHABLE, 'did not answer'),
        ailing.NOT_FOUND: (upload_result.UNSUPPORTED, 'too old'),
        ailing.SERVER_ERROR: (upload_result.REJECTED, 'answered 500'),
        ailing.RESETS: (upload_result.UNREACHABLE, 'agent at'),
        ailing.IMPOSTOR: (upload_result.UNREACHABLE,
                          'certificate of another amphora'),
    }

    def test_kinds_and_ailments(self):
        # One of each: SINGLE, ACTIVE_STANDBY, with and without a flavor.
        cloud = self.make_cloud(amphorae=6, options={
            'hmsync': {'upload_timeout': 15},
            # After this time Octavia takes FAILOVER_STOPPED back by itself.
            'health_manager': {'heartbeat_timeout': 300}})
        cloud.add_lone_amphora([f'{cloud.address(1)}:5555'])
        ailments = {
            cloud.add_ailing_amphora(ailment).amphora_id: expected
            for ailment, expected in self.RESULTS.items()}
        statuses = {amphora_id: status for amphora_id, status in zip(
            sorted(cloud.amphora_ids),
            ('ERROR', 'FAILOVER_STOPPED', 'BOOTING'))}
        for amphora_id, status in statuses.items():
            cloud.records.set_status(amphora_id, status)

        managers = self.start(1, 2)
        addresses = {m.address for m in managers}
        self.wait_until_published(addresses)
        self.wait_until_applied()
        # Those that hang hold up nobody: they are still being waited for.
        hanging = [i for i, (_result, text) in ailments.items()
                   if text == 'did not answer']
        self.assertEqual([None] * 3,
                         [self.results()[i].result for i in hanging])
        for agent in cloud.amphorae.values():
            self.assertEqual(addresses, set(agent.configured_list()))

        self.wait_for(lambda: not [
            i for i in ailments if self.results()[i].result is None],
            'result of every ailing amphora')
        results = self.results()
        for amphora_id, (result, text) in ailments.items():
            row = results[amphora_id]
            self.assertEqual(result, row.result, row.error)
            self.assertIn(text, row.error)
            self.assertIsNone(row.generation)
        self.assertEqual(len(ailments), self.due())

        # The topology is that of the load balancer, never a default.
        topologies = {row['id']: row['topology'] for row in
                      cloud.records.rows('load_balancer')}
        checked = set()
        for row in cloud.records.rows('amphora'):
            if row['id'] in cloud.amphorae:
                expected = topologies.get(row['load_balancer_id'], 'SINGLE')
                self.assertEqual(
                    expected, cloud.amphorae[row['id']].configured_option(
                        'controller_worker', 'loadbalancer_topology'))
                checked.add(expected)
        self.assertEqual({'SINGLE', 'ACTIVE_STANDBY'}, checked)

        # No status of Octavia's was touched by any of it.
        for row in cloud.records.rows('amphora'):
            self.assertEqual(statuses.get(row['id'], 'ALLOCATED'),
                             row['status'])
        self.assertEqual({'ACTIVE'}, {
            row['provisioning_status']
            for row in cloud.records.rows('load_balancer')})
        # The key is in no log and in no table of ours.
        self.assertNotIn(cloud.heartbeat_key, self.housekeeping.log())
        self.assertNotIn(cloud.heartbeat_key, str(self.results()))

        # Born with an old list while the others are done.
        late = cloud.add_load_balancer([f'{cloud.address(9)}:5555'])[0]
        late.wait_until_ready()
        self.wait_until_applied({late.amphora_id})
        self.wait_for(lambda: set(late.configured_list()) == addresses,
                      'new list in the late agent')
