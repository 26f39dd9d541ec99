# SPDX-License-Identifier: Apache-2.0

"""Members of a cluster, in namespaces, without the rest of an Octavia.

Their agents, haproxies and keepaliveds are real. Management is
192.0.2.128/25, the network of the VIP 198.51.100.0/24.
"""

import asyncio
import json
import os
import types

import fixtures

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import exceptions
from tests.cloud.compute import instance
from tests.cloud import octavia_conf
from tests.cloud import waiting

PORT = 9443
CERTIFICATES = '/etc/octavia/certs'
SUBNET = {'cidr': '198.51.100.0/24', 'gateway_ip': None, 'host_routes': []}
CONTROLLER = '192.0.2.129/25'


class Network:
    """As much of a network driver as a newcomer needs."""

    @staticmethod
    def get_network_configs(_load_balancer, amphora):
        return {amphora.id: types.SimpleNamespace(to_dict=lambda recurse: {
            'vip_subnet': SUBNET, 'additional_vip_data': [],
            'vrrp_port': {'mac_address': 'fa:16:3e:00:00:01'}})}


class Member(fixtures.Fixture):
    """An amphora that is booted, has its VIP plugged, and serves nothing.

    :param number: from 1.
    :param where: a fabric.Fabric.
    :param controller: the namespace of one that may ask its agent.
    :param conf: with the certificates of that one.
    """

    def __init__(self, number, amphora_id, where, controller, certificates,
                 conf, directory):
        super().__init__()
        self.amphora_id = amphora_id
        self.lb_network_ip = f'192.0.2.{130 + number}'
        self.vrrp_ip = f'198.51.100.{100 + number}'
        self.mac = f'fa:16:3e:00:00:{number:02}'
        self._number = number
        self._fabric = where
        self._controller = controller
        self._certificates = certificates
        self._client = agent_client.RestAgentClient(conf)
        self._directory = directory

    def _setUp(self):
        files = {'/etc/octavia/amphora-agent.conf': self._make_conf()}
        for name, path in (
                ('server.pem', self._certificates.server_path(
                    self.amphora_id)),
                ('client_ca.pem',
                 self._certificates.client_authority.certificate_path)):
            with open(path) as source:
                files[f'{CERTIFICATES}/{name}'] = source.read()
        self.instance = self.useFixture(instance.Instance(
            f'amphora-{self.amphora_id}', self.amphora_id, instance.Image(),
            files, self._directory))
        self._fabric.plug(self.instance, 'management',
                          f'fa:16:3e:00:01:{self._number:02}', 'eth0')
        self._fabric.plug(self.instance, 'tenant', self.mac, 'eth1')
        self.instance.boot(f'{self.lb_network_ip}/25', 1450)

    def _make_conf(self):
        path = os.path.join(self._directory, f'agent-{self._number}.conf')
        octavia_conf.write(path, {
            'health_manager': {'controller_ip_port_list': [],
                               'heartbeat_interval': 5,
                               'heartbeat_key': 'key'},
            'amphora_agent': {
                'amphora_id': self.amphora_id,
                'agent_server_cert': f'{CERTIFICATES}/server.pem',
                'agent_server_ca': f'{CERTIFICATES}/client_ca.pem'},
            'haproxy_amphora': {'bind_port': PORT},
            'controller_worker': {
                'loadbalancer_topology': 'ACTIVE_STANDBY'}})
        with open(path) as conf:
            return conf.read()

    def plug_vip(self, vip):
        """Wait for its agent, and have it take its interface."""
        body = json.dumps({
            'mac_address': self.mac, 'mtu': 1450, 'vrrp_ip': self.vrrp_ip,
            'is_sriov': False, 'subnet_cidr': SUBNET['cidr'],
            'gateway': None, 'host_routes': [], 'additional_vips': []})

        def plug():
            try:
                status, said = self._controller.call(
                    asyncio.run, self._client.ask(
                        self.amphora_id, self.lb_network_ip, 'POST',
                        f'plug/vip/{vip}', body))
            except exceptions.AgentUnreachable:
                return False
            if status not in (202, 409):
                raise RuntimeError(f'{status}: {said}')
            return True

        waiting.wait_for(plug, 'answer of the agent',
                         processes=[self.instance])
