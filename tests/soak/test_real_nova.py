# SPDX-License-Identifier: Apache-2.0

"""Amphorae as operators have them, by Nova, libvirt and os-vif."""

import json

from tests.cloud import networking
from tests.cloud import nova_cloud
from tests.functional import real


class TestNova(real.RealTestCase):

    def get_hosts(self):
        """Return {host: amphorae}, as the operator is told."""
        return {row['name']: row['amphorae'] for row in json.loads(
            self.cloud.command('octavia-hmsync', 'host', 'list', '-f',
                               'json'))}

    def test_host_is_drained(self):
        """A health manager moves; then the host is left, unnoticed."""
        cloud = self.make_cloud(nova_cloud.NovaOctavia)
        load_balancer = self.add_load_balancer('single')
        (amphora_id, amphora), = self.get_machines(load_balancer).items()
        self.assert_answers(load_balancer)
        self.wait_until_online(load_balancer)
        probe = self.client.start_probe(load_balancer.vip_address, rate=5,
                                        timeout=10)
        self.wait_until_adopted(amphora_id, self.move_health_manager())

        other, = set(networking.COMPUTES) - {amphora.host}
        self.assertEqual({amphora.host: 1, other: 0}, self.get_hosts())
        api = cloud.connection.compute
        service, = api.services(host=amphora.host, binary='nova-compute')
        api.disable_service(service)
        cloud.command('octavia-hmsync', 'host', 'drain', amphora.host,
                      '--wait')
        self.assertEqual({amphora.host: 0, other: 1}, self.get_hosts())
        (_, came), = self.get_machines(load_balancer).items()
        self.assertEqual(other, came.host)
        self.assert_answers(load_balancer)
        report = probe.stop()
        self.assertTrue(report.requests)
        self.assertEqual(0, report.failed, report)
