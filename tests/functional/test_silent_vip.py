# SPDX-License-Identifier: Apache-2.0

"""A member carries traffic for its VIPs, and no neighbour ever hears of it.

With a real agent, haproxy and keepalived. The client stands for a distributor
and knows where to send what is for the VIPs.
"""

import sys
import types

import fixtures
from oslo_config import fixture as config_fixture

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.members import newcomer
from octavia_hmsync import compat
from tests.cloud import neighbours
from tests.cloud import process
from tests.cloud import records
from tests.cloud import waiting
from tests.db_cases import base
from tests.functional import test_image_agent
from tests.unit.cluster import clusters
from tests.unit.db import sqlite

INTERFACE = test_image_agent.INTERFACE
VIPS = test_image_agent.VIPS
CLIENT_MAC = 'fa:16:3e:00:02:01'
CLIENT = '192.0.2.99'
CLIENT_IPV6 = '2001:db8::99'
BACKEND = '192.0.2.98'
_SERVER = """
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'well')

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
"""


def _describe(subnet):
    return {'cidr': subnet.cidr, 'gateway_ip': subnet.gateway,
            'host_routes': [
                {'destination': destination, 'nexthop': nexthop}
                for destination, nexthop in subnet.host_routes]}


class Network:
    """As much of a network driver as a newcomer needs."""

    @staticmethod
    def get_network_configs(_load_balancer, amphora):
        (_vip, subnet), *additional = INTERFACE.vips
        config = {'vip_subnet': _describe(subnet), 'vrrp_port': {
            'mac_address': INTERFACE.mac}, 'additional_vip_data': [
            {'ip_address': address, 'subnet': _describe(other)}
            for address, other in additional]}
        return {amphora.id: types.SimpleNamespace(
            to_dict=lambda recurse: config)}


class SilentVipTestCase(sqlite.SqliteMixin, test_image_agent.
                        RealAgentTestCase, base.DatabaseTestCase):

    def setUp(self):
        self.disk = self.useFixture(
            fixtures.TempDir(rootdir='/dev/shm')).path  # nosec B108
        super().setUp()
        self.neighbour = self.fabric.add_host(
            'client', 'tenant', CLIENT_MAC, f'{CLIENT}/24',
            f'{CLIENT_IPV6}/64')
        self.heard = self.useFixture(neighbours.Listener(
            self.fabric.namespace, INTERFACE.mac))

    def ask(self):
        """Ask for each VIP three times.

        :returns: how many answers each got.
        """
        return [self.neighbour.call(
            neighbours.count_answers, 'eth0', vip,
            CLIENT_IPV6 if ':' in vip else CLIENT, CLIENT_MAC)
            for vip in VIPS]


class TestStockAmphora(SilentVipTestCase):
    """The same questions are answered by one that is no member."""

    def test_it_answers(self):
        self.plug_vip()
        self.assertEqual([3, 3, 3], self.ask())
        waiting.wait_for(lambda: self.heard.about(VIPS[0]),
                         'answer that was heard')


class TestMember(SilentVipTestCase):
    """It is booted as one of a pair."""

    topology = 'ACTIVE_STANDBY'

    def setUp(self):
        super().setUp()
        backend = self.fabric.add_host('backend', 'tenant',
                                       'fa:16:3e:00:02:02', f'{BACKEND}/24')
        self.useFixture(process.ChildProcess(
            'http', backend.wrap([sys.executable, '-ISc', _SERVER]),
            self.directory))
        self.lb = clusters.make_load_balancer(*VIPS[1:])
        self.lb.vip.ip_address = VIPS[0]
        # Twice as many files as connections; a machine may have few.
        clusters.add_listener(self.lb, records.new_id(), backends=[BACKEND],
                              connection_limit=1000)
        self.amphora = clusters.add_amphora(
            self.lb, self.amphora_id, self.agent.lb_network_ip,
            INTERFACE.vrrp_ip)
        cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            cluster_id, self.lb.id, 'web', 1, 1, 'hmsync_ovs'))
        member_repo.add(self.engine, cluster_id, 'member', 1)
        member_repo.assign_amphora(self.engine, 'member', self.amphora_id)
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='certificates', cert_manager='noop_cert_manager')
        for group, options in (
                ('hmsync_cluster', {'update_timeout': 60}),
                ('haproxy_amphora', {
                    'bind_port': test_image_agent.PORT,
                    'client_cert': self.certificates.client_path,
                    'server_ca':
                        self.certificates.server_authority
                        .certificate_path})):
            for name, value in options.items():
                self.conf.set_override(name, value, group=group)
        for vip in VIPS:
            self.neighbour.run('ip', 'neighbour', 'replace', vip, 'lladdr',
                               INTERFACE.mac, 'nud', 'permanent', 'dev',
                               'eth0')
        self.plug_vip()
        self.newcomer = newcomer.Newcomer(self.conf, self.engine)
        self.configure()

    def configure(self):
        self.call(self.newcomer.configure, self.lb, self.amphora, 0,
                  Network())

    def get(self, vip):
        return self.neighbour.run(
            'curl', '-sS', '--max-time', '3',
            f'http://[{vip}]/' if ':' in vip else f'http://{vip}/',
            check=False).stdout

    def wait_until_it_serves(self):
        waiting.wait_for(
            lambda: [self.get(vip) for vip in VIPS] == ['well'] * 3,
            'answer at each VIP', processes=[self.instance])

    def assertSilent(self):
        """It serves all VIPs, and nobody has ever heard of it."""
        self.wait_until_it_serves()
        self.assertIn('dscp 0x37 tcp flags == rst drop',
                      self.instance.run_inside(
                          'nft', 'list', 'table', 'inet', 'hmsync').stdout)
        self.assertEqual([0, 0, 0], self.ask())
        for vip in VIPS:
            self.assertEqual([], self.heard.about(vip))
        self.assertEqual(['lo'] * 3, [
            self.call(self.agent.get_interface, vip) for vip in VIPS])

    def routes(self):
        """What is for packets from the VIPs."""
        return [sorted(self.instance.run_inside(
            'ip', family, *what).stdout.splitlines())
            for family in ('-4', '-6')
            for what in (('rule',), ('route', 'show', 'table', '1'))]

    def test_whatever_happens_to_it(self):
        self.assertSilent()
        # It does talk, in its own name.
        self.assertTrue(self.heard.about(INTERFACE.vrrp_ip))
        expected = self.routes()
        self.assertIn(f'from {VIPS[0]} lookup 1', str(expected[0]))
        self.assertIn(f'dev eth1 proto keepalived scope link src {VIPS[0]}',
                      str(expected[1]))

        # A member is added whose subnet is that of the VIP.
        self.call(self.agent.take_vip, INTERFACE)
        self.assertSilent()
        self.assertEqual(expected, self.routes())

        self.call(self.agent.reload_keepalived)
        self.assertSilent()
        self.instance.systemctl('stop', 'octavia-keepalived')
        for vip in VIPS:
            waiting.wait_for(lambda vip=vip: not self.instance.run_inside(
                'ip', '-o', 'address', 'show', 'to', vip).stdout,
                f'end of {vip}', processes=[self.instance])
        self.instance.systemctl('start', 'octavia-keepalived')
        self.assertSilent()
        self.assertEqual(expected, self.routes())
        self.configure()
        self.assertSilent()

        self.instance.restart()
        self.boot()
        self.assertSilent()
        self.assertEqual(expected, self.routes())
        self.call(self.agent.take_vip, INTERFACE)
        self.assertSilent()

        # Nobody would have answered whatever it is: but for this they do.
        self.instance.run_inside('sysctl', '-q', '-w',
                                 'net.ipv4.conf.all.arp_ignore=0')
        self.instance.run_inside('ip', 'address', 'add', f'{VIPS[2]}/128',
                                 'dev', 'eth1', 'nodad')
        self.assertEqual([3, 3, 3], self.ask())
