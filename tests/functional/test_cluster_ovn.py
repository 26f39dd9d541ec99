# SPDX-License-Identifier: Apache-2.0

"""The load balancers of clusters in real databases of OVN, with ovn-northd.

No packet is sent: that is in tests.soak.test_ovn_load_balancer.
"""

import threading

import fixtures

from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovn import balancers
from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.cluster.distribution.ovn import nat
from octavia_hmsync.cluster.distribution.ovn import northbound
from octavia_hmsync.cluster.distribution.ovn import probes as southbound
from octavia_hmsync import exceptions
from tests.cloud import ovn
from tests.cloud import process
from tests.cloud import waiting
from tests.unit.cluster.distribution.ovn import fakes

TIMEOUT = 60


class TestNorthbound(fakes.OVNTestCase):
    """A switch with a VIP and members, a router, another switch."""

    def setUp(self):
        super().setUp()
        self.central = self.useFixture(
            ovn.Central(self.useFixture(fixtures.TempDir()).path))
        for name in ('nb', 'sb'):
            self.conf.set_override(f'ovn_{name}_connection',
                                   [self.central.connection(name)],
                                   group='ovn')
        self.patch(connections, 'TIMEOUT', TIMEOUT)
        self.addCleanup(connections.disconnect)
        self.northbound = northbound.Northbound(self.conf)
        self.subject = self.one_more()
        self.southbound = southbound.Southbound(self.conf)
        self.make_watches()
        self.add_switch(fakes.SWITCH)
        self.add_router('neutron-r', fakes.SWITCH, '192.0.2.1/24')
        self.cluster_id = self.add_cluster()
        self.vip_port_id = self.subject._get(self.cluster_id)[1].port_id
        self.nb('lsp-add', fakes.SWITCH, self.vip_port_id, '--',
                'lsp-set-type', self.vip_port_id, 'virtual')
        self.plug()

    def nb(self, *arguments):
        return process.run(
            'ovn-nbctl', f'--db={self.central.connection("nb")}',
            *arguments).strip()

    def add_switch(self, name):
        self.nb('ls-add', name)

    def add_router(self, router, switch, network, owner='network:x'):
        port = f'{router}-{switch}'
        self.nb('--may-exist', 'lr-add', router, '--', 'lrp-add', router,
                f'lrp-{port}', f'0a:00:00:00:00:{len(port):02x}', network,
                '--', 'lsp-add', switch, port, '--', 'lsp-set-type', port,
                'router', '--', 'lsp-set-options', port,
                f'router-port=lrp-{port}', '--', 'set',
                'Logical_Switch_Port', port,
                f'external_ids:neutron\\:device_owner="{owner}"')

    def plug(self):
        """Have OVN know what Neutron would tell it."""
        for port_id, addresses in self.fake.addresses.items():
            cidrs = ' '.join(f'{one}/24' for one in addresses)
            self.nb('--may-exist', 'lsp-add', fakes.SWITCH, port_id, '--',
                    'set', 'Logical_Switch_Port', port_id,
                    f'external_ids:neutron\\:cidrs="{cidrs}"')

    def add(self):
        """Add the VIP, whose port Neutron makes meanwhile."""
        network = self.ports.get_network(fakes.NETWORK)
        self.ports.ensure_source(self.cluster_id, network, {})
        self.plug()
        return self.subject.add(self.cluster_id)

    def get_lists(self):
        return {table: {
            name for name in self.nb(
                '--bare', '--no-headings', '--columns=name', 'find', table,
                'load_balancer!=[]').split()}
                for table in ('Logical_Switch', 'Logical_Router')}

    def get_state(self):
        return self.northbound.list().get(self.cluster_id)

    def test_life(self):
        self.assertEqual({}, self.add().problems)
        state = self.get_state()
        self.assertEqual((self.get_version(self.cluster_id), 2),
                         (state.version, state.rows))
        vips = self.nb('get', 'Load_Balancer',
                       f'octavia-hmsync-{self.cluster_id}', 'vips')
        self.assertIn('"192.0.2.5:80"="192.0.2.10:80,192.0.2.11:80"', vips)
        self.assertEqual({'Logical_Switch': {fakes.SWITCH},
                          'Logical_Router': {'neutron-r'}}, self.get_lists())
        # Again nothing is written.
        change = self.northbound.get_change()
        self.subject.apply(self.cluster_id)
        self.assertEqual(change, self.northbound.get_change())

        # Members come and go; each is looked at as long as it is there.
        third = self.add_member(self.cluster_id)
        self.plug()
        self.subject.apply(self.cluster_id)
        self.set_state(third, 'DRAINING')
        self.subject.apply(self.cluster_id)
        self.assertNotIn('192.0.2.12', self.nb(
            'get', 'Load_Balancer', f'octavia-hmsync-{self.cluster_id}',
            'vips'))
        seen = waiting.wait_for(
            lambda: (found := self.southbound.read()) and
            len(found) == 3 and found, 'monitors of ovn-northd')
        self.assertEqual(
            {('192.0.2.10', 80), ('192.0.2.11', 80), ('192.0.2.12', 80)},
            {(self.fake.addresses[port_id][0], port)
             for port_id, port in seen})

        self.assertEqual({}, self.subject.remove(self.cluster_id))
        self.assertIsNone(self.get_state())
        self.assertEqual('', self.nb('--bare', 'list', 'Load_Balancer'))
        self.assertEqual({'Logical_Switch': set(), 'Logical_Router': set()},
                         self.get_lists())
        self.assertEqual('', self.nb('--bare', 'list',
                                     'Load_Balancer_Health_Check'))

    def test_routers_and_switches_are_followed(self):
        self.add()
        self.look()
        self.assertEqual(0, self.look().told)
        self.add_switch('neutron-other')
        self.add_router('neutron-r', 'neutron-other', '10.2.0.1/24')
        self.add_switch('neutron-outside')
        self.add_router('neutron-r', 'neutron-outside', '203.0.113.7/24',
                        'network:router_gateway')
        self.wait_for_lists({fakes.SWITCH, 'neutron-other'}, {'neutron-r'})
        # The floating address.
        self.nb('set', 'Logical_Switch_Port', self.vip_port_id,
                'external_ids:neutron\\:port_fip="203.0.113.9"')
        waiting.wait_for(
            lambda: self.look() and '"203.0.113.9:80"' in self.nb(
                'get', 'Load_Balancer',
                f'octavia-hmsync-{self.cluster_id}', 'vips'),
            'floating address')
        # The router leaves.
        self.nb('lsp-del', f'neutron-r-{fakes.SWITCH}', '--', 'lrp-del',
                f'lrp-neutron-r-{fakes.SWITCH}')
        self.wait_for_lists({fakes.SWITCH}, set())
        self.assertIn('No router', self.get_row(self.cluster_id).error)
        self.add_router('neutron-r', fakes.SWITCH, '192.0.2.1/24')
        self.wait_for_lists({fakes.SWITCH, 'neutron-other'}, {'neutron-r'})
        self.assertIsNone(self.get_row(self.cluster_id).error)

    def wait_for_lists(self, switches, routers):
        waiting.wait_for(
            lambda: self.look() and self.get_lists() == {
                'Logical_Switch': switches, 'Logical_Router': routers},
            f'{switches} {routers}')

    def test_where_it_cannot_work(self):
        """Nothing is left in OVN but what was there."""
        port = f'neutron-r-{fakes.SWITCH}'
        switch = self.nb('--bare', '--columns=_uuid', 'find',
                         'Logical_Switch', f'name={fakes.SWITCH}')
        self.nb('set', 'Logical_Switch', switch, 'name=elsewhere')
        self.assert_impossible('ovn_nb_connection that is Neutron')
        self.nb('set', 'Logical_Switch', switch, f'name={fakes.SWITCH}')
        self.nb('lsp-del', port)
        self.assert_impossible('No router is in the subnet')
        self.nb('lrp-del', f'lrp-{port}')
        self.add_router('neutron-r', fakes.SWITCH, '198.51.100.1/24')
        self.assert_impossible('No router is in the subnet')
        self.nb('lsp-del', port, '--', 'lrp-del', f'lrp-{port}')
        self.add_router('neutron-r', fakes.SWITCH, '192.0.2.1/24')
        # As when somebody binds it to a host.
        self.own_vip()
        self.assert_impossible('has its address for itself')
        self.nb('lsp-set-type', self.vip_port_id, 'virtual')
        self.assertEqual({}, self.add().problems)

        # The same, later: traffic of others goes on, and it is told.
        self.look()
        self.own_vip()
        waiting.wait_for(
            lambda: self.look() and 'has its address for itself' in (
                self.get_row(self.cluster_id).error or ''), 'problem')
        self.assertEqual(2, self.get_state().rows)
        self.nb('lsp-set-type', self.vip_port_id, 'virtual')
        waiting.wait_for(
            lambda: self.look() and
            self.get_row(self.cluster_id).error is None, 'its end')

    def own_vip(self):
        """Have the VIP's port answer for it by itself."""
        self.nb('lsp-set-type', self.vip_port_id, '', '--',
                'lsp-set-addresses', self.vip_port_id,
                '0a:00:00:00:99:01 192.0.2.5')

    def assert_impossible(self, words):
        waiting.wait_for(lambda: words in self.get_refusal(), words)
        self.assertEqual('', self.nb('--bare', 'list', 'Load_Balancer'))

    def get_refusal(self):
        # What was changed a moment ago may not be known yet.
        try:
            self.subject.add(self.cluster_id)
        except exceptions.NotPossible as e:
            return str(e)
        finally:
            self.northbound.remove(self.cluster_id)
        return ''

    def test_somebody_deletes_it(self):
        self.add()
        self.look()
        self.nb('lb-del', f'octavia-hmsync-{self.cluster_id}')
        waiting.wait_for(lambda: self.look().told, 'repair')
        self.assertEqual(2, self.get_state().rows)

    def test_two_at_once(self):
        """Each with a connection of its own."""
        self.add()
        self.nb('lb-del', f'octavia-hmsync-{self.cluster_id}')
        others = [threading.Thread(target=self.subject.apply,
                                   args=(self.cluster_id,))
                  for _ in range(4)]
        for each in others:
            each.start()
        for each in others:
            each.join()
        self.assertEqual(2, self.get_state().rows)
        # As two processes may have made one each.
        uuid = self.nb('create', 'Load_Balancer', 'name=twice',
                       f'external_ids:octavia-hmsync\\:cluster='
                       f'{self.cluster_id}')
        self.assertTrue(uuid)
        waiting.wait_for(lambda: self.look() and self.get_state().rows == 2,
                         'the end of one')

    def test_database_that_is_away(self):
        self.add()
        server = self.central.children['ovn-nb']
        server.kill_tree()
        waiting.wait_for(self.is_away, 'loss of the connection')
        self.add_member(self.cluster_id)
        e = self.assertRaises(exceptions.NoDistributor, self.subject.apply,
                              self.cluster_id)
        self.assertIn('ovn_nb_connection', str(e))
        self.assertIn('ovn', self.look().problems)
        server.start()
        self.plug_when_back()
        waiting.wait_for(
            lambda: not self.look().problems and
            self.get_row(self.cluster_id).applied_version ==
            self.get_version(self.cluster_id), 'all that it missed')

    def is_away(self):
        try:
            self.northbound.list()
        except exceptions.DistributorUnreachable:
            return True
        return False

    def plug_when_back(self):
        waiting.wait_for(lambda: not self.is_away(), 'a connection')
        self.plug()

    def test_distributed_floating_ips(self):
        """By a question of its own, which copies nothing."""
        self.assertEqual({}, nat.find_distributed(self.conf))
        self.nb('lr-nat-add', 'neutron-r', 'dnat_and_snat', '203.0.113.8',
                '192.0.2.10')
        self.nb('lr-nat-add', 'neutron-r', 'dnat_and_snat', '203.0.113.9',
                '192.0.2.5', self.vip_port_id, '0a:00:00:00:99:09')
        self.assertEqual({self.vip_port_id: '203.0.113.9'},
                         nat.find_distributed(self.conf))
        # Frozen, it answers nothing.
        server = self.central.children['ovn-nb']
        server.pause()
        e = self.assertRaises(exceptions.DistributorUnreachable,
                              nat.find_distributed, self.conf, 1)
        server.resume()
        self.assertIn('ovn_nb_connection', str(e))
        self.assertIn('timed out', str(e))

    def test_never_there(self):
        self.patch(connections, 'TIMEOUT', 1)
        for remote in ('unix:/nowhere', 'tcp:127.0.0.1:1', 'nonsense'):
            self.conf.set_override('ovn_nb_connection', [remote],
                                   group='ovn')
            e = self.assertRaises(exceptions.DistributorUnreachable,
                                  self.northbound.list)
            self.assertIn(remote, str(e))
            e = self.assertRaises(exceptions.DistributorUnreachable,
                                  nat.find_distributed, self.conf)
            self.assertIn(remote, str(e))

    def test_probes(self):
        """What ovn-controller would write of members."""
        self.add()
        self.look()
        waiting.wait_for(lambda: len(self.southbound.read()) == 2,
                         'monitors of ovn-northd')
        self.set_monitors('offline')
        self.addCleanup(self.probes.stop, 10)
        self.probes.run_once()
        waiting.wait_for(lambda: {
            probe.state for probe in probe_repo.get_of_cluster(
                self.engine, self.cluster_id)} == {'DOWN'}, 'probes')
        self.assertEqual(balancers.NAME, self.get_row(
            self.cluster_id).distributor_name)
        # New connections are not refused; nothing but an answer changes that.
        waiting.wait_for(lambda: self.get_state().open == {80}, 'open port')
        self.assertEqual('[]', self.get_checks())
        self.add_member(self.cluster_id)
        self.plug()
        self.subject.apply(self.cluster_id)
        self.assertEqual('[]', self.get_checks())
        waiting.wait_for(lambda: len(self.southbound.read()) == 3,
                         'monitors of ovn-northd')
        self.set_monitors('online')
        waiting.wait_for(lambda: not self.get_state().open, 'closed port')
        self.assertNotEqual('[]', self.get_checks())
        self.assertFalse(self.northbound.set_open(self.cluster_id, ()))

    def set_monitors(self, status):
        # Of a port that is at no node, ovn-northd says that it is offline.
        for table, value in (('Port_Binding', 'up=true'),
                             ('Service_Monitor', f'status={status}')):
            sbctl = 'ovn-sbctl', f'--db={self.central.connection("sb")}'
            for uuid in process.run(*sbctl, '--bare', '--columns=_uuid',
                                    'list', table).split():
                process.run(*sbctl, 'set', table, uuid, value)

    def get_checks(self):
        return self.nb('get', 'Load_Balancer',
                       f'octavia-hmsync-{self.cluster_id}', 'health_check')
