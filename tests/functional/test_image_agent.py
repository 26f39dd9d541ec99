# SPDX-License-Identifier: Apache-2.0

"""What replacements ask of agents: simulated ones and real ones agree."""

import asyncio
import json
import os

import fixtures

from octavia_hmsync.amphora import agent
from octavia_hmsync.amphora import agent_client
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud.compute import fabric
from tests.cloud.compute import instance
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import records
from tests.cloud import waiting
from tests.fleet import client as fleet_client
from tests.unit import base

PORT = 9443
KEY = 'the key'
CERTIFICATES = '/etc/octavia/certs'
SUBNET = agent.Subnet('192.0.2.0/24', '192.0.2.1',
                      (('203.0.113.0/24', '192.0.2.9'),))
IPV6 = agent.Subnet('2001:db8::/64', '2001:db8::1')
# Of members in the VIP's network.
OTHER = agent.Subnet('198.51.100.0/24', None)
INTERFACE = agent.VipInterface(
    'fa:16:3e:00:00:01', '192.0.2.6', 1450,
    (('192.0.2.5', SUBNET), ('192.0.2.7', SUBNET), ('2001:db8::5', IPV6)),
    (('192.0.2.6', SUBNET), ('2001:db8::6', IPV6), ('198.51.100.6', OTHER)))
VIPS = [address for address, _subnet in INTERFACE.vips]
OWN = [address for address, _subnet in INTERFACE.fixed_ips]


class AgentTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self.amphora_id = records.new_id()

    def prepare(self, lb_network_ip):
        self.client = agent_client.RestAgentClient(self.make_conf(
            controller_worker={'amphora_driver': compat.REST_DRIVER},
            haproxy_amphora={
                'bind_port': PORT,
                'client_cert': self.certificates.client_path,
                'server_ca':
                    self.certificates.server_authority.certificate_path},
            hmsync={'upload_timeout': 60}))
        self.agent = agent.Agent(self.client, self.amphora_id, lb_network_ip)

    def call(self, function, *args):
        """Call a function where there is a way to the agent."""
        return function(*args)

    def plug_vip(self):
        """Have it take the interface of the VIP, as Octavia does first."""
        (vip, subnet), *additional = INTERFACE.vips
        status, said = self.call(asyncio.run, self.client.ask(
            self.amphora_id, self.agent.lb_network_ip, 'POST',
            f'plug/vip/{vip}', json.dumps({
                'mac_address': INTERFACE.mac, 'mtu': INTERFACE.mtu,
                'vrrp_ip': INTERFACE.vrrp_ip, 'is_sriov': False,
                **subnet.describe(), 'additional_vips': [
                    {'ip_address': address, **other.describe()}
                    for address, other in additional]})))
        self.assertEqual(202, status, said)

    def plug_more(self):
        """Have it take the other addresses of the VIP's port, for members.

        As Octavia does when members in other subnets of its network come
        (post_network_plug), but for the additional VIPs, which Octavia 19
        leaves out there.
        """
        (vip, subnet), *additional = INTERFACE.vips
        common = {'mac_address': INTERFACE.mac, 'mtu': INTERFACE.mtu,
                  'is_sriov': False}
        status, said = self.call(asyncio.run, self.client.ask(
            self.amphora_id, self.agent.lb_network_ip, 'POST',
            'plug/network', json.dumps({
                **common, 'fixed_ips': [
                    {'ip_address': address, **other.describe()}
                    for address, other in INTERFACE.fixed_ips],
                'vip_net_info': {
                    **common, 'vip': vip, 'vrrp_ip': INTERFACE.vrrp_ip,
                    **subnet.describe(), 'additional_vips': [
                        {'ip_address': address, **other.describe()}
                        for address, other in additional]}})))
        self.assertEqual(202, status, said)

    def held(self):
        return [address for address in
                (*VIPS, *OWN, '192.0.2.77', '2001:db8::77')
                if self.call(self.agent.holds, address)]

    def assertRefused(self, words, function, *args):
        e = self.assertRaises(exceptions.AgentRefused, self.call, function,
                              *args)
        self.assertIn(f'amphora {self.amphora_id} at '
                      f'{self.agent.lb_network_ip} answered {words}', str(e))


class ContractCases:
    """The same cases for both; a subclass makes the amphora."""

    def test_it_does_as_it_is_told(self):
        self.plug_vip()
        self.assertEqual([*VIPS, INTERFACE.vrrp_ip], self.held())
        self.plug_more()
        self.assertEqual([*VIPS, *OWN], self.held())
        for _ in range(2):
            self.call(self.agent.release_vip, INTERFACE)
            self.assertEqual(OWN, self.held())
        for _ in range(2):
            self.call(self.agent.take_vip, INTERFACE)
            self.assertEqual([*VIPS, *OWN], self.held())

        self.assertEqual({}, self.call(self.agent.get_listeners))
        self.assertIsNone(self.call(self.agent.get_haproxy, 'nobody'))
        self.assertRefused('400 to GET interface/nonsense', self.agent.holds,
                           'nonsense')
        self.assertRefused(
            '400 to POST plug/network', self.agent.take_vip,
            agent.VipInterface(INTERFACE.mac, 'nonsense', 1450,
                               INTERFACE.vips, (('nonsense', SUBNET),)))
        self.assertRefused('404 to PUT loadbalancer/nobody/start',
                           self.agent.advertise, 'nobody')
        self.assertRefused('500 to PUT config', self.agent.configure,
                           'nonsense\n')
        self.call(self.agent.configure, '[amphora_agent]\n')
        self.assertEqual([*VIPS, *OWN], self.held())
        # It is another one that is meant.
        other = agent.Agent(self.client, records.new_id(),
                            self.agent.lb_network_ip)
        self.assertRaises(exceptions.AgentUnreachable, self.call,
                          other.release_vip, INTERFACE)
        self.assertEqual([*VIPS, *OWN], self.held())


class TestSimulatedAgent(ContractCases, AgentTestCase):

    def setUp(self):
        super().setUp()
        address = self.useFixture(network.LoopbackNetwork()).address(100)
        self.prepare(address)
        self.useFixture(fleet_client.Fleet(
            [{'id': self.amphora_id, 'lb_network_ip': address,
              'listener_id': None, 'controller_ip_port_list': []}],
            self.certificates, KEY, self.directory, heartbeat_interval=0,
            port=PORT))


class RealAgentTestCase(AgentTestCase):
    """An amphora in namespaces, with an interface for its VIPs."""

    topology = 'SINGLE'
    # Of the instance, see there.
    disk = None

    def setUp(self):
        super().setUp()
        self.prepare('192.0.2.130')
        self.fabric = where = self.useFixture(fabric.Fabric(self.directory))
        self.controller = where.add_host('controller', 'management',
                                         'fa:16:3e:00:01:01', '192.0.2.129/25')
        paths = {'server.pem': self.certificates.server_path(self.amphora_id),
                 'client_ca.pem':
                     self.certificates.client_authority.certificate_path}
        files = {'/etc/octavia/amphora-agent.conf':
                 self.agent_conf(self.topology)}
        for name, path in paths.items():
            with open(path) as source:
                files[f'{CERTIFICATES}/{name}'] = source.read()
        self.instance = self.useFixture(instance.Instance(
            f'amphora-{self.amphora_id}', self.amphora_id, instance.Image(),
            files, self.directory, self.disk))
        self.boot()

    def boot(self):
        """Plug it, and wait for its agent."""
        self.fabric.plug(self.instance, 'management', 'fa:16:3e:00:01:02',
                         'eth0')
        self.fabric.plug(self.instance, 'tenant', INTERFACE.mac, 'eth1')
        self.instance.boot('192.0.2.130/25', 1450)
        waiting.wait_for(self._answers, 'answer of the agent',
                         processes=[self.instance])

    def _answers(self):
        try:
            self.call(self.agent.get_listeners)
            return True
        except exceptions.AgentUnreachable:
            return False

    def call(self, function, *args):
        return self.controller.call(function, *args)

    def agent_conf(self, topology):
        path = os.path.join(self.directory, 'agent.conf')
        octavia_conf.write(path, {
            'health_manager': {'controller_ip_port_list': [],
                               'heartbeat_interval': 1, 'heartbeat_key': KEY},
            'amphora_agent': {
                'amphora_id': self.amphora_id,
                'agent_server_cert': f'{CERTIFICATES}/server.pem',
                'agent_server_ca': f'{CERTIFICATES}/client_ca.pem'},
            'haproxy_amphora': {'bind_port': PORT},
            'controller_worker': {'loadbalancer_topology': topology}})
        with open(path) as conf:
            return conf.read()


class TestRealAgent(ContractCases, RealAgentTestCase):
    pass


class TestRealAgentThatWaits(RealAgentTestCase):
    """It is booted as one of a pair, which leaves the VIP to keepalived."""

    topology = 'ACTIVE_STANDBY'

    def test_take(self):
        self.plug_vip()
        self.assertEqual([INTERFACE.vrrp_ip], self.held())
        self.call(self.agent.configure, self.agent_conf('SINGLE'))
        self.assertEqual([INTERFACE.vrrp_ip], self.held())
        self.call(self.agent.take_vip, INTERFACE)
        self.assertEqual([*VIPS, *OWN], self.held())
