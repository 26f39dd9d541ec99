# SPDX-License-Identifier: Apache-2.0

"""A new member serves, or is not one."""

import ipaddress
from unittest import mock

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.members import newcomer
from octavia_hmsync.cluster.members import update
from octavia_hmsync import exceptions
from tests.cloud import ailing
from tests.unit.cluster import clusters

SUBNET = {'cidr': '192.0.2.0/24', 'gateway_ip': '192.0.2.1',
          'host_routes': []}
CONFIG = {'vip_subnet': SUBNET, 'additional_vip_data': [],
          'vrrp_port': {'mac_address': 'fa:16:3e:00:00:01'}}


class TestNewcomer(clusters.ClusterTestCase):

    update_timeout = 30

    def setUp(self):
        super().setUp()
        self.add_cluster(2)
        self.network = mock.Mock(spec_set=['get_network_configs'])
        self.network.get_network_configs.side_effect = (
            lambda _lb, amphora: {amphora.id: mock.Mock(
                spec_set=['to_dict'], **{'to_dict.return_value': CONFIG})})
        self.agent = self.add_member(member_repo.BUILDING)
        self.agent.state.addresses = frozenset(
            [ipaddress.ip_address('192.0.2.3')])

    def configure(self, slot=None):
        work = mock.Mock(spec_set=['conf', 'engine', 'network'],
                         conf=self.conf, engine=self.engine,
                         network=self.network)
        update.configure(work, self.lb, self.lb.amphorae[2], slot)

    def assertFails(self, words, slot=None):
        e = self.assertRaises(exceptions.BuildFailed, self.configure, slot)
        self.assertIn(words, str(e))
        self.assertNotIn('\n', str(e))
        self.assertIsNone(self.members()['amphora-3'].config_digest)

    def test_it_serves(self):
        self.add_listener('l1')
        self.subject.update(self.lb)
        self.configure(2)
        self.assertEqual(
            ['vrrp/upload', 'vrrp/start',
             f'loadbalancer/amphora-3/{self.lb.id}/haproxy',
             f'loadbalancer/{self.lb.id}/reload'], self.agent.asked())
        keepalived = self.agent.state.files['keepalived'].decode()
        self.assertIn(f'{clusters.VIP}/32 dev lo', keepalived)
        self.assertIn('192.0.2.0/24 dev eth1', keepalived)
        # It is as current as the others are.
        self.assertEqual(1, len({*self.digests()}))
        self.assertEqual('BUILDING', self.states()[2])

    def test_one_that_has_missed_nothing(self):
        """It goes on as it is: no haproxy ends connections."""
        self.add_listener('l1')
        member_repo.take_slot(self.engine,
                              self.members()['amphora-3'].id, 2)
        self.configure(2)
        for state in (member_repo.ACTIVE, member_repo.DRAINING):
            member_repo.set_state(
                self.engine, self.members()['amphora-3'].id,
                (member_repo.BUILDING, member_repo.ACTIVE), state)
            self.agent.requests.clear()
            self.configure(2)
            self.assertEqual([], self.agent.asked())
        # A change, or what it has is not in force.
        self.add_listener('l2')
        self.configure(2)
        self.assertIn(f'loadbalancer/{self.lb.id}/reload',
                      self.agent.asked())
        self.agent.requests.clear()
        member_repo.record(self.engine, self.members()['amphora-3'].id,
                           config_digest=None)
        self.configure(2)
        self.assertIn(f'loadbalancer/{self.lb.id}/reload',
                      self.agent.asked())

    def test_without_listeners(self):
        self.configure(2)
        self.assertEqual(['vrrp/upload', 'vrrp/start'], self.agent.asked())

    def test_those_of_its_group_know_it(self):
        self.add_listener('l1', persistence='SOURCE_IP')
        self.subject.update(self.lb)
        # In the place of the second one.
        self.configure(1)
        peers = [line.split()[2] for line in self.configuration(
            self.agents[0]).splitlines() if ' peer ' in line]
        self.assertEqual(['192.0.2.1:1025', '192.0.2.3:1025'], peers)
        self.assertEqual(peers, [
            line.split()[2] for line in self.configuration(
                self.agent).splitlines() if ' peer ' in line])
        self.assertIn('192.0.2.2', self.configuration(self.agents[1]))

    def test_one_of_its_group_is_dead(self):
        self.add_listener('l1', persistence='SOURCE_IP')
        self.lb.amphorae[0].lb_network_ip = '127.0.1.99'
        self.configure(1)
        self.assertEqual('ACTIVE', self.states()[0])

    def test_nobody_is_told_of_one_that_stands_by(self):
        self.add_listener('l1', persistence='SOURCE_IP')
        self.configure()
        self.assertEqual([[], []], [agent.requests
                                    for agent in self.agents[:2]])
        self.assertEqual(1, self.configuration(self.agent).count(' peer '))

    def test_it_refuses(self):
        self.add_listener('l1')
        for path in ('/reload', '/haproxy', '/details', 'vrrp/start',
                     'vrrp/upload'):
            self.agent.statuses = {path: 500}
            self.assertFails('its agent answered 500 to')

    def test_it_hangs(self):
        self.conf.set_override('update_timeout', 2, group='hmsync_cluster')
        self.agent.ail(ailing.HANGS_IN_ANSWER, 'vrrp/start')
        self.assertFails('did not answer within')

    def test_what_is_not_there(self):
        self.conf.set_override('update_timeout', 2, group='hmsync_cluster')
        self.add_listener('l1')
        with mock.patch('tests.fleet.routes._get_listeners', autospec=True,
                        return_value=[]):
            self.assertFails('the agent of amphora amphora-3 has listener l1 '
                             'as none of its own')
        self.agent.state.addresses = frozenset(map(
            ipaddress.ip_address, ('192.0.2.3', clusters.VIP)))
        self.assertFails(f'keepalived of amphora amphora-3 has '
                         f'{clusters.VIP} at eth1')
        self.agent.state.addresses = frozenset()
        self.assertFails('its agent has no interface with 192.0.2.3')

    def test_neutron_is_down(self):
        self.network.get_network_configs.side_effect = KeyError
        self.assertFails('the network service does not show its networks '
                         '(KeyError)')

    def test_listeners_that_are_not_to_be_served(self):
        self.add_listener('l1').enabled = False
        self.configure(2)
        self.lb.listeners[0].enabled = True
        self.lb.enabled = False
        self.configure(2)
        self.assertNotIn('frontend', self.configuration(self.agent))

    def test_it_is_not_to_be_used(self):
        member = self.members()['amphora-3']
        member_repo.set_state(self.engine, member.id, ('BUILDING',),
                              'FAILED', error='a network')
        self.assertFails('Amphora amphora-3 is not to be used: a network.')
        member_repo.delete(self.engine, member.id)
        e = self.assertRaises(exceptions.BuildFailed, self.configure)
        self.assertIn('is no member of its cluster', str(e))

    def test_share_tables(self):
        self.add_listener('l1', persistence='SOURCE_IP')
        work = mock.Mock(spec_set=['conf', 'engine'], conf=self.conf,
                         engine=self.engine)
        newcomer.Newcomer(work.conf, work.engine).share_tables(
            self.lb, 'amphora-3', 0)
        self.assertIn('192.0.2.3:1025', self.configuration(self.agents[1]))
        self.assertEqual([], self.agents[0].requests)

    def test_one_that_stood_by(self):
        """A haproxy that is reloaded does not ask others what they know."""
        self.add_listener('l1', persistence='SOURCE_IP')
        cluster_repo.set_affinity(self.engine, self.cluster_id, 'SOURCE_IP')
        self.subject.update(self.lb)
        self.configure()
        member_id = self.members()['amphora-3'].id
        member_repo.set_state(self.engine, member_id, ('BUILDING',),
                              'STANDBY')
        self.assertTrue(member_repo.take_over_slot(
            self.engine, member_id, self.members()['amphora-2'].id,
            config_digest=member_repo.ALONE))
        # It has no part in a change that all are told, whatever it says.
        for statuses in ({}, {'/haproxy': 500}):
            self.agent.statuses = statuses
            self.subject.update(self.lb)
            self.assertEqual(member_repo.ALONE,
                             self.members()['amphora-3'].config_digest)
            member_repo.set_state(self.engine, member_id, ('DRAINING',),
                                  'ACTIVE')
        self.agent.statuses = {}
        self.agent.requests.clear()
        for path in ('stop', 'start'):
            self.agent.statuses = {f'/{path}': 500}
            self.assertRaises(exceptions.BuildFailed, self.configure, 1)
        self.agent.statuses = {}
        self.agent.requests.clear()
        version = self.version()
        self.configure(1)
        self.assertEqual(
            [f'loadbalancer/{self.lb.id}/stop',
             f'loadbalancer/{self.lb.id}/start'], self.agent.asked()[-2:])
        self.assertTrue(self.members()['amphora-3'].is_configured)
        self.assertLess(version, self.version())
        # From now on it has clients.
        self.add_listener('l2')
        self.configure(1)
        self.assertEqual(f'loadbalancer/{self.lb.id}/reload',
                         self.agent.asked()[-1])

    def test_one_that_stood_by_and_has_clients(self):
        self.add_listener('l1', persistence='SOURCE_IP')
        cluster_repo.set_affinity(self.engine, self.cluster_id, 'SOURCE_IP')
        self.configure()
        member_id = self.members()['amphora-3'].id
        member_repo.take_over_slot(
            self.engine, member_id, self.members()['amphora-2'].id,
            config_digest=member_repo.ALONE)
        member_repo.unregister(self.engine, self.members()['amphora-1'].id)
        self.configure(1)
        self.assertEqual(f'loadbalancer/{self.lb.id}/reload',
                         self.agent.asked()[-1])
        self.assertTrue(self.members()['amphora-3'].is_configured)

    def version(self):
        return cluster_repo.get(self.engine, self.cluster_id).version

    def test_several_newcomers(self):
        """Those who came before are told of the one that came last."""
        self.add_listener('l1', persistence='SOURCE_IP')
        early = self.add_member(member_repo.BUILDING, 4)
        late = self.add_member(member_repo.BUILDING, 4)
        for agent, amphora in ((early, self.lb.amphorae[3]),
                               (late, self.lb.amphorae[4])):
            agent.state.addresses = frozenset(
                [ipaddress.ip_address(amphora.vrrp_ip)])
        subject = newcomer.Newcomer(self.conf, self.engine)
        subject.configure(self.lb, self.lb.amphorae[3], 2, self.network)
        self.assertEqual([], late.requests)
        early.requests.clear()
        subject.configure(self.lb, self.lb.amphorae[4], 3, self.network)
        self.assertIn('192.0.2.5:1025', self.configuration(early))
        self.assertEqual(2, len(early.asked()))

    def test_there_is_no_cluster(self):
        self.lb.id = 'another'
        self.assertRaises(exceptions.NotPossible, newcomer.Newcomer(
            self.conf, self.engine).share_tables, self.lb, 'amphora-3', 0)
