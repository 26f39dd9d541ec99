# SPDX-License-Identifier: Apache-2.0

"""Which listeners an amphora is to serve: those that Octavia gives it."""

import itertools
from unittest import mock

from octavia.amphorae.backends.agent.api_server import util as agent_util
from octavia.common import data_models
from octavia.common.jinja.haproxy.combined_listeners import jinja_cfg

from octavia_hmsync.amphora import listeners
from octavia_hmsync import compat
from tests.cloud import records
from tests.unit import base


class TestServed(base.TestCase):

    def _render(self, is_enabled, enabled):
        """Return what an agent lists of what Octavia would upload to it."""
        load_balancer = data_models.LoadBalancer(
            id=records.new_id(), name='lb', project_id='demo',
            enabled=is_enabled, topology='SINGLE', pools=[],
            vip=data_models.Vip(ip_address='192.0.2.5'), additional_vips=[],
            amphorae=[data_models.Amphora(
                id=records.new_id(), vrrp_ip='192.0.2.6', status='ALLOCATED',
                role='STANDALONE')])
        load_balancer.listeners = [data_models.Listener(
            id=listener_id, enabled=itself, protocol='HTTP',
            protocol_port=80 + number, load_balancer=load_balancer,
            load_balancer_id=load_balancer.id, connection_limit=-1,
            provisioning_status='ACTIVE', insert_headers={}, pools=[],
            l7policies=[], sni_containers=[], allowed_cidrs=[],
            timeout_client_data=1, timeout_member_connect=1,
            timeout_member_data=1, timeout_tcp_inspect=0)
            for number, (listener_id, itself) in enumerate(enabled.items())]
        text = jinja_cfg.JinjaTemplater(
            base_amp_path='/tmp', base_crt_dir='/tmp').build_config(
                host_amphora=load_balancer.amphorae[0],
                listeners=load_balancer.listeners, tls_certs={},
                haproxy_versions=['2', '8'], amp_details={'cpu_count': 1})
        with mock.patch('builtins.open', mock.mock_open(read_data=text)):
            return sorted(agent_util.parse_haproxy_file(load_balancer.id)[1])

    def test_as_octavia_renders_it(self):
        """A load balancer or a listener that is disabled, in each way."""
        ids = sorted(records.new_id() for _ in range(2))
        for is_enabled, *each in itertools.product((True, False), repeat=3):
            enabled = dict(zip(ids, each))
            with self.subTest(is_enabled=is_enabled, each=each):
                found = listeners.find_served(is_enabled, enabled)
                self.assertEqual(self._render(is_enabled, enabled), found)
                self.assertEqual([], list(listeners.find_missing(
                    'amphora', found, dict.fromkeys(found, compat.ACTIVE))))
