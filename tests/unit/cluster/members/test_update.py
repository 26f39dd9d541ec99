# SPDX-License-Identifier: Apache-2.0

"""What all members of a cluster are told, and what comes of it."""

import collections
import datetime
import itertools
import threading
import time
import types
from unittest import mock

import fixtures
from octavia.certificates.manager import noop
from oslo_config import fixture as config_fixture
from oslo_db import exception as db_exc

from octavia_hmsync.amphora import agent as agents
from octavia_hmsync.amphora import telling
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.members import plans
from octavia_hmsync.cluster.members import trial
from octavia_hmsync.cluster.members import update
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from tests.cloud import ailing
from tests.cloud import records
from tests.unit.cluster import clusters


class TestUpdate(clusters.ClusterTestCase):

    def test_all_take_it(self):
        self.add_cluster(3)
        self.add_listener('l1')
        self.subject.update(self.lb)
        for agent in self.agents:
            self.assertEqual(
                [f'loadbalancer/{agent.amphora_id}/{self.lb.id}/haproxy',
                 f'loadbalancer/{self.lb.id}/reload'], agent.asked())
            self.assertIn('frontend l1', self.configuration(agent))
            self.assertIn(f'bind {clusters.VIP}:80',
                          self.configuration(agent))
        self.assertEqual(['ACTIVE'] * 3, self.states())
        self.assertEqual(1, len({*self.digests()}))
        self.assertEqual([], self.applied)

    def test_datagrams_where_ovn_distributes(self):
        """LVS serves the own address, too, which its agent counts."""
        self.add_cluster(2)
        listener = self.add_listener('l1', protocol='UDP')
        listener.default_pool.protocol = 'UDP'
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='controller_worker', distributor_driver='hmsync_ovn')
        self.subject.update(self.lb)
        for amphora, agent in zip(self.lb.amphorae, self.agents):
            text = agent.state.files['l1/udp_listener'].decode()
            self.assertEqual(
                [amphora.vrrp_ip, '80', clusters.VIP, '80'],
                text.partition('group {')[2].partition('}')[0].split())
        self.assertEqual(1, len({*self.digests()} - {None}))

    def test_without_listeners_nobody_is_asked(self):
        self.add_cluster(2)
        self.subject.update(self.lb)
        self.assertEqual([0, 0], [each.connections for each in self.agents])

    def test_digest_is_that_of_the_configuration(self):
        self.add_cluster(2)
        listener = self.add_listener('l1')
        self.subject.update(self.lb)
        before = self.digests()
        self.subject.update(self.lb)
        self.assertEqual(before, self.digests())
        listener.connection_limit = 7
        self.subject.update(self.lb)
        self.assertNotEqual(before, self.digests())
        listener.connection_limit = -1
        self.subject.update(self.lb)
        self.assertEqual(before, self.digests())

    def test_stick_tables_are_shared_in_groups(self):
        self.add_cluster(4)
        self.add_listener('l1', persistence='SOURCE_IP')
        self.subject.update(self.lb)
        addresses = [
            [line.split()[2] for line in
             self.configuration(agent).splitlines() if ' peer ' in line]
            for agent in self.agents]
        self.assertEqual(
            [['192.0.2.1:1025', '192.0.2.2:1025']] * 2 +
            [['192.0.2.3:1025', '192.0.2.4:1025']] * 2, addresses)
        self.assertIn('peers', self.configuration(self.agents[0]).partition(
            'stick-table')[2].splitlines()[0])

    def servers_of(self, agent):
        """Return what haproxy is told of each server."""
        return [line.strip() for line in
                self.configuration(agent).splitlines()
                if line.strip().startswith('server ')]

    def test_members_begin_with_different_servers(self):
        """Loaded anew at once, they would go through them in lockstep."""
        self.add_cluster(4)
        self.add_listener('l1', backends=('10.0.0.1', '10.0.0.2', '10.0.0.3'))
        self.subject.update(self.lb)
        one, two, three = (f'10.0.0.{n}:80' for n in (1, 2, 3))
        self.assertEqual(
            [[one, two, three], [two, three, one], [three, one, two],
             [one, two, three]],
            [[line.split()[2] for line in self.servers_of(agent)]
             for agent in self.agents])
        self.assertEqual(1, len({*self.digests()}))

    def test_order_of_servers_that_tells_who_gets_a_client(self):
        self.add_cluster(2)
        backends = ('10.0.0.1', '10.0.0.2')
        self.add_listener('l1', persistence='APP_COOKIE', backends=backends)
        self.add_listener('l2', backends=backends).default_pool.lb_algorithm \
            = 'SOURCE_IP'
        self.add_listener('l3', persistence='HTTP_COOKIE', backends=backends)
        self.subject.update(self.lb)
        one, two = map(self.servers_of, self.agents)
        self.assertEqual(one[:4], two[:4])
        self.assertEqual([one[5], one[4]], two[4:])

    def test_pools_that_remember_clients(self):
        """A client comes to those who know it, from the update on."""
        self.add_cluster(2)
        self.add_listener('l1', persistence='HTTP_COOKIE')
        self.subject.update(self.lb)
        self.assertEqual([], self.applied)
        self.add_listener('l2', persistence='APP_COOKIE')
        before = cluster_repo.get(self.engine, self.cluster_id)
        self.subject.update(self.lb)
        after = cluster_repo.get(self.engine, self.cluster_id)
        self.assertEqual(('FLOW', 'SOURCE_IP'),
                         (before.affinity, after.affinity))
        # One of them tells where members are looked at.
        self.assertEqual(before.version + 2, after.version)
        self.assertEqual([self.cluster_id], self.applied)
        # Once is enough, and nobody goes elsewhere when it is gone.
        self.lb.pools.clear()
        self.subject.update(self.lb)
        self.assertEqual([self.cluster_id], self.applied)
        self.assertEqual(
            after.version,
            cluster_repo.get(self.engine, self.cluster_id).version)

    def test_pools_that_remember_clients_and_no_distributor(self):
        """Members have it: housekeeping tells distributors later."""
        self.add_cluster(2)
        self.add_listener('l1', persistence='SOURCE_IP')
        before = cluster_repo.get(self.engine, self.cluster_id).version
        self.apply.side_effect = exceptions.NoDistributor('none')
        self.subject.update(self.lb)
        after = cluster_repo.get(self.engine, self.cluster_id)
        self.assertEqual('SOURCE_IP', after.affinity)
        # By which it is found.
        self.assertGreater(after.version, before)
        self.assertEqual(['ACTIVE'] * 2, self.states())
        self.assertTrue(all(self.digests()))

    def get_ports(self):
        return cluster_repo.get(self.engine, self.cluster_id).ports

    def test_members_are_looked_at_where_they_serve(self):
        self.add_cluster(2)
        listeners = [self.add_listener('l1'), self.add_listener('l2')]
        ports = sorted(one.protocol_port for one in listeners)
        self.subject.update(self.lb)
        self.assertEqual(','.join(map(str, ports)), self.get_ports())
        before = cluster_repo.get(self.engine, self.cluster_id).version
        self.subject.update(self.lb)
        self.assertEqual(before, cluster_repo.get(
            self.engine, self.cluster_id).version)
        self.subject.delete_listener(listeners[0])
        self.assertEqual(str(listeners[1].protocol_port), self.get_ports())
        self.assertEqual([], self.applied)
        # One that serves nobody from anywhere is no place to look at.
        self.lb.listeners.remove(listeners[0])
        listeners[1].enabled = False
        self.subject.update(self.lb)
        self.assertEqual('', self.get_ports())
        # Nobody is to be DOWN for it: distributors know before members.
        self.assertEqual([self.cluster_id], self.applied)

    def test_nobody_looks_at_members_of_a_disabled_one(self):
        """Their haproxy serves nobody, and is as it should be."""
        self.add_cluster(2)
        self.add_listener('l1')
        self.subject.update(self.lb)
        self.assertNotEqual('', self.get_ports())
        self.lb.enabled = False
        self.subject.update(self.lb)
        self.assertEqual(('', [self.cluster_id]),
                         (self.get_ports(), self.applied))

    def test_distribution_by_ports_that_nobody_looks_at(self):
        """OVN has them all; housekeeping finds out by the time."""
        self.add_cluster(2)
        listener = self.add_listener('l1')
        listener.enabled = False
        for change in (lambda: self.subject.update(self.lb),
                       lambda: self.subject.delete_listener(listener)):
            with self.engine.begin() as connection:
                connection.exec_driver_sql(
                    "UPDATE hmsync_cluster SET updated_at = '2020-01-01'")
            change()
            self.assertFalse(self.get_ports())
            self.assertEqual({self.cluster_id}, cluster_repo.get_changed(
                self.engine, 60))

    def test_eight_take_it_in_the_time_of_two(self):
        """One is first; of the others none answers before all are asked."""
        self.conf.set_override('update_timeout', 60, group='hmsync_cluster')
        self.add_cluster(8)
        self.add_listener('l1')
        for path in (f'/{self.lb.id}/haproxy', '/reload'):
            all_asked = threading.Barrier(len(self.agents) - 1)
            for agent in self.agents[1:]:
                agent.barriers[path] = all_asked
        self.subject.update(self.lb)
        self.assertEqual(['ACTIVE'] * 8, self.states())
        self.assertEqual(1, len({*self.digests()}))
        self.assertTrue(all(self.digests()))

    def test_who_does_not_take_it_gets_no_new_connections(self):
        self.conf.set_override('update_timeout', 4, group='hmsync_cluster')
        self.add_cluster(4)
        self.add_listener('l1')
        hangs, refuses, _dead, well = self.agents
        hangs.ail(ailing.HANGS_IN_ANSWER, '/haproxy')
        refuses.statuses['/haproxy'] = 400
        # Nobody listens there.
        self.lb.amphorae[2].lb_network_ip = '127.0.1.99'
        self.subject.update(self.lb)
        self.assertEqual(['DRAINING'] * 3 + ['ACTIVE'], self.states())
        self.assertEqual([None] * 3, self.digests()[:3])
        self.assertEqual([self.cluster_id], self.applied)
        errors = [self.members()[agent.amphora_id].error
                  for agent in self.agents]
        for error, words in zip(errors, (
                'did not answer within', 'answered 400 to PUT loadbalancer/',
                'cannot be reached'), strict=False):
            self.assertIn(words, error)
            self.assertNotIn('\n', error)
        self.assertIsNone(errors[3])
        self.assertIn('amphora amphora-2: its agent answered', errors[1])
        # They are told again, and nobody waits for them.
        refuses.statuses.clear()
        well.requests.clear()
        with mock.patch.object(telling, '_GRACE', 60):
            self.subject.update(self.lb)
        self.assertIn(f'loadbalancer/{self.lb.id}/reload', refuses.asked())
        self.assertEqual(['DRAINING'] * 3 + ['ACTIVE'], self.states())
        self.assertEqual(errors[1], self.members()['amphora-2'].error)

    def test_too_few_take_it(self):
        self.add_cluster(3, min_size=2)
        self.add_listener('l1')
        self.agents[0].statuses['/haproxy'] = 400
        self.agents[2].statuses['/reload'] = 500
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.subject.update, self.lb)
        self.assertIn('1 of 3 active members of cluster '
                      f'{self.cluster_id} have taken the change, and 2 must: '
                      f'amphora amphora-1: its agent answered 400 to',
                      str(e))
        self.assertIn('; amphora amphora-3: its agent answered 500', str(e))
        # An old configuration is better than none.
        self.assertEqual(['ACTIVE'] * 3, self.states())
        self.assertEqual([None, None], self.digests()[::2])
        self.assertEqual([], self.applied)
        self.assertIn('answered 400', self.members()['amphora-1'].error)
        self.subject.update_amphora(self.lb, self.lb.amphorae[1])
        self.agents[0].statuses.clear()
        self.agents[2].statuses.clear()
        self.subject.update(self.lb)
        self.assertIsNone(self.members()['amphora-1'].error)

    def test_who_is_told(self):
        self.add_cluster(1)
        self.add_listener('l1')
        agents = {state: self.add_member(state)
                  for state in member_repo.STATES if state != 'ACTIVE'}
        self.subject.update(self.lb)
        self.assertEqual({'STANDBY', 'DRAINING'},
                         {state for state, agent in agents.items()
                          if agent.requests})

    def test_one_that_stands_by_and_fails(self):
        self.add_cluster(1)
        self.add_listener('l1')
        self.add_member('STANDBY').statuses['/haproxy'] = 500
        self.subject.update(self.lb)
        self.assertEqual(['ACTIVE', 'FAILED'], self.states())
        self.assertEqual([], self.applied)

    def test_one_whose_amphora_is_gone(self):
        self.add_cluster(2)
        self.add_listener('l1')
        self.lb.amphorae[0].status = 'DELETED'
        self.subject.update(self.lb)
        self.assertEqual(['DRAINING', 'ACTIVE'], self.states())
        self.assertEqual([], self.agents[0].requests)

    def test_no_cluster(self):
        self.add_cluster(1)
        self.add_listener('l1')
        self.lb.id = 'another'
        e = self.assertRaises(exceptions.NotPossible, self.subject.update,
                              self.lb)
        self.assertIn('Load balancer another has no row of a cluster',
                      str(e))

    def test_members_that_wait_to_be_built(self):
        """What the last ones have died of may be over with a change."""
        self.add_cluster(1)
        self.add_listener('l1')
        for member in self.members().values():
            member_repo.unregister(self.engine, member.id)
        cluster_repo.hold_builds(self.engine, self.cluster_id, 960)
        self.assertRaises(exceptions.ClusterNotUpdated, self.subject.update,
                          self.lb)
        self.assertIsNone(cluster_repo.get(
            self.engine, self.cluster_id).build_hold)

    def test_one_that_drains_is_not_waited_for(self):
        self.add_cluster(1)
        self.add_listener('l1')
        self.add_member('DRAINING').ail(ailing.HANGS_IN_ANSWER)
        # It would be waited for for ten minutes.
        self.conf.set_override('update_timeout', 600, group='hmsync_cluster')
        self.subject.update(self.lb)
        self.assertEqual(['ACTIVE', 'DRAINING'], self.states())

    def test_distributors_that_do_not_answer(self):
        """Then nobody knows who gets new connections."""
        self.add_cluster(2)
        self.add_listener('l1')
        self.agents[1].statuses['/haproxy'] = 500
        self.apply.side_effect = exceptions.NoDistributor('none')
        self.assertRaises(exceptions.NoDistributor, self.subject.update,
                          self.lb)
        self.assertEqual(['ACTIVE', 'DRAINING'], self.states())

    def test_an_agent_that_restarts(self):
        """What was refused, or broke, is asked for again."""
        self.add_cluster(1)
        self.add_listener('l1')
        agent, = self.agents
        real = agent._serve

        def serve(connection, broken=[]):
            if len(broken) < 2:
                broken.append(connection.close())
            else:
                real(connection)

        self.useFixture(fixtures.MockPatchObject(agent, '_serve', serve))
        self.subject.update(self.lb)
        self.assertEqual(['ACTIVE'], self.states())


class TestOneFirst(clusters.ClusterTestCase):
    """Where one does not take a change, the others never see it."""

    def setUp(self):
        super().setUp()
        self.add_cluster(4)
        self.add_listener('l1')
        self.subject.update(self.lb)
        self.before = [self.configuration(agent) for agent in self.agents]
        self.known = self.digests()
        for agent in self.agents:
            agent.requests.clear()
        self.add_listener('l2')

    def assertRefused(self, *words):
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.subject.update, self.lb)
        for each in words:
            self.assertIn(each, str(e))
        self.assertEqual(1, len(str(e).splitlines()))
        return str(e)

    def assertAsBefore(self):
        self.assertEqual(self.before, [self.configuration(agent)
                                       for agent in self.agents])
        self.assertEqual((['ACTIVE'] * 4, self.known),
                         (self.states(), self.digests()))
        self.assertEqual([], self.applied)

    def test_agents_do_not_take_it(self):
        for agent in self.agents:
            agent.statuses['PUT /1.0/loadbalancer/amphora-'] = 400
        self.assertRefused('amphora amphora-1: its agent answered 400',
                           'amphora amphora-2: its agent answered 400',
                           'the other members have what they had')
        self.assertAsBefore()
        # Nothing was put back that had not changed.
        self.assertEqual([1, 1, 0, 0], [
            len(agent.asked()) for agent in self.agents])
        self.assertIn('answered 400', self.members()['amphora-1'].error)

    def skip_waits(self):
        """Let time pass only while a listener that is not UP is waited for."""
        self.conf.set_override('update_timeout', 600, group='hmsync_cluster')
        self.subject = update.Updater(self.conf, self.engine)
        skipped = []
        self.patch(trial, 'time', types.SimpleNamespace(
            monotonic=lambda: time.monotonic() + 601 * len(skipped),
            sleep=skipped.append))

    def test_haproxy_does_not_serve_it(self):
        """It has taken the configuration, and gets the one before again."""
        self.skip_waits()
        for agent in self.agents:
            agent.state.dead_listeners = {'l2'}
        said = self.assertRefused(
            'the agent of amphora amphora-1 has listener l2 as ERROR')
        self.assertNotIn('could not be restored', said)
        self.assertAsBefore()
        self.assertEqual(
            [f'loadbalancer/amphora-1/{self.lb.id}/haproxy',
             f'loadbalancer/{self.lb.id}/reload'] * 2,
            self.agents[0].asked())
        self.assertEqual([], self.agents[3].asked())

    def test_haproxy_ends(self):
        """It has checked the configuration, and dies of it later."""
        self.patch(trial, '_WATCH', 60)
        seen = collections.Counter()

        def count(subject):
            seen[subject.amphora_id] += 1
            return int(seen[subject.amphora_id] < 4)

        self.patch(agents.Agent, 'count_haproxies', count)
        said = self.assertRefused(
            'amphora amphora-1: its haproxy has ended with the configuration',
            'amphora amphora-2: its haproxy has ended')
        self.assertNotIn('could not be restored', said)
        self.assertAsBefore()
        self.assertEqual([], self.agents[3].asked())

    def hear(self, *heard):
        """Have heartbeats tell, one a second, of listeners each.

        :param heard: the last one is repeated; of all amphorae.
        """
        self.conf.set_override('heartbeat_interval', 1, 'health_manager')
        self.subject = update.Updater(self.conf, self.engine)
        ticks = itertools.count(step=0.25)
        self.patch(trial, 'time', types.SimpleNamespace(
            monotonic=lambda: next(ticks), sleep=lambda seconds: None))
        self.heard = {}

        def get(_engine, amphora_id):
            told = self.heard.setdefault(amphora_id, [])
            told.append(heard[min(len(told), len(heard) - 1)])
            return told[-1]

        self.patch(facts_repo, 'get_heard', get)

    @staticmethod
    def beat(number, *listeners):
        return facts_repo.Heard(datetime.datetime(2026, 1, 1, second=number),
                                frozenset(listeners))

    def test_haproxy_does_not_begin_with_it(self):
        """Its agent has all listeners, and heartbeats have not."""
        self.hear(*(self.beat(number, 'l1') for number in range(9)))
        said = self.assertRefused(
            'amphora amphora-1: its haproxy has the configuration and does '
            'not serve the listener l2', 'amphora amphora-2: its haproxy',
            'the other members have what they had')
        self.assertNotIn('could not be restored', said)
        self.assertAsBefore()
        self.assertEqual(['amphora-1', 'amphora-2'], list(self.heard))
        self.assertEqual([5, 5], [len(each) for each in self.heard.values()])

    def test_heartbeats_tell_of_it(self):
        self.hear(self.beat(0, 'l1'), self.beat(1, 'l1'), self.beat(1, 'l1'),
                  self.beat(2, 'l1', 'l2'))
        self.subject.update(self.lb)
        self.assertEqual(['amphora-1'], list(self.heard))
        self.assertEqual(4, len(self.heard['amphora-1']))
        self.assertEqual(1, len({*self.digests()}))
        # What they have told of is not waited for again.
        self.hear(self.beat(3, 'l1', 'l2'))
        self.lb.listeners[1].connection_limit = 7
        self.subject.update(self.lb)
        self.assertEqual([1], [len(each) for each in self.heard.values()])

    def test_heartbeats_that_tell_nothing(self):
        """The change is not held up, and it is no fault of the member."""
        for heard in ((facts_repo.Heard(None, frozenset()),),
                      (self.beat(1, 'l1'),), (self.beat(1, 'l1'), None),
                      (None,)):
            self.lb.listeners[-1].id = records.new_id()
            self.hear(*heard)
            self.subject.update(self.lb)
            self.assertEqual(1, len({*self.digests()}), heard)
        self.conf.set_override('statistics_drivers', ['other'],
                               'controller_worker')
        self.assertIsNone(self.subject._hear('amphora-1'))
        self.conf.clear_override('statistics_drivers', 'controller_worker')
        self.patch(facts_repo, 'get_heard', mock.Mock(
            side_effect=db_exc.DBConnectionError()))
        self.assertIsNone(self.subject._hear('amphora-1'))

    def test_refused_one_does_not_block_others(self):
        """Of a new listener that is in ERROR; served ones stay."""
        self.lb.listeners[1].provisioning_status = 'ERROR'
        self.lb.listeners[0].provisioning_status = 'ERROR'
        # Of a load balancer that was never made, each is needed.
        plans.leave_out_refused(self.conf, self.engine, self.lb)
        self.assertEqual(2, len(self.lb.listeners))
        self.records.insert_all({'listener_statistics': [{
            'listener_id': 'l1', 'amphora_id': 'amphora-1', 'bytes_in': 0,
            'bytes_out': 0, 'active_connections': 0, 'total_connections': 0,
            'request_errors': 0}]})
        both = self.lb.listeners
        for agent in self.agents:
            agent.statuses['PUT /1.0/loadbalancer/l2'] = 400
        self.subject.update(self.lb)
        self.assertEqual(['l1'], [each.id for each in self.lb.listeners])
        for agent in self.agents:
            self.assertNotIn('l2', self.configuration(agent))
            self.assertIn('frontend l1', self.configuration(agent))
        # Its owner has changed it.
        self.lb.listeners = both
        both[1].provisioning_status = 'PENDING_UPDATE'
        self.subject.update(self.lb)
        for agent in self.agents:
            self.assertIn('frontend l2', self.configuration(agent))
        # Without statistics it is unknown what was served.
        both[1].provisioning_status = 'ERROR'
        self.conf.set_override('statistics_drivers', ['other'],
                               'controller_worker')
        self.subject.update_amphora(self.lb, self.lb.amphorae[0])
        self.assertIn('frontend l2', self.configuration(self.agents[0]))

    def test_one_is_at_fault(self):
        """Another one takes it: the first one gets no new connections."""
        self.agents[0].statuses['PUT /1.0/loadbalancer/amphora-'] = 500
        self.subject.update(self.lb)
        self.assertEqual(['DRAINING'] + ['ACTIVE'] * 3, self.states())
        self.assertIn('answered 500', self.members()['amphora-1'].error)
        for agent in self.agents[1:]:
            self.assertIn('frontend l2', self.configuration(agent))

    def test_what_it_had_cannot_be_given_back(self):
        self.agents[0].statuses['/reload'] = 500
        self.agents[1].statuses['/reload'] = 500
        self.assertRefused('amphora amphora-1: its agent answered 500',
                           'could not be restored')
        # It may serve a part of either.
        self.assertEqual(['DRAINING', 'DRAINING', 'ACTIVE', 'ACTIVE'],
                         self.states())
        self.assertEqual([None, None], self.digests()[:2])
        self.assertEqual(self.before[2:], [
            self.configuration(agent) for agent in self.agents[2:]])

    def test_who_does_not_answer_is_passed_over(self):
        # Nobody listens there.
        self.lb.amphorae[0].lb_network_ip = '127.0.1.99'
        self.subject.update(self.lb)
        self.assertEqual(['DRAINING'] + ['ACTIVE'] * 3, self.states())

    def test_who_is_well_is_first(self):
        member_repo.set_health(
            self.engine, self.members()['amphora-1'].id, 'SUSPECT', 'silent')
        for agent in self.agents[1:3]:
            agent.statuses['PUT /1.0/loadbalancer/amphora-'] = 400
        self.assertRefused('amphora-2', 'amphora-3')
        self.assertEqual([], self.agents[0].requests)

    def test_the_only_one(self):
        for member in list(self.members().values())[1:]:
            member_repo.set_state(self.engine, member.id, ('ACTIVE',),
                                  'FAILED')
        self.agents[0].statuses['PUT /1.0/loadbalancer/amphora-'] = 400
        self.assertRefused('amphora-1: its agent answered 400')
        self.assertEqual('ACTIVE', self.states()[0])

    def test_first_listener(self):
        """One that had nothing has nothing again."""
        self.skip_waits()
        for agent in self.agents:
            agent.state.files.clear()
            agent.state.dead_listeners = {'l1', 'l2'}
        self.assertRefused('has listener l1 as ERROR')
        self.assertEqual([{}] * 4,
                         [agent.state.files for agent in self.agents])

    def test_datagrams(self):
        """What LVS had is given back, and what it had not is deleted."""
        udp = self.add_datagrams('udp')
        self.subject.update(self.lb)
        self.known = self.digests()
        self.before = [dict(agent.state.files) for agent in self.agents]
        self.assertIn(b'virtual_server', self.before[0]['udp/udp_listener'])
        udp.protocol_port = 5353
        self.add_datagrams('udp2')
        for agent in self.agents:
            agent.requests.clear()
            agent.statuses['PUT /1.0/loadbalancer/udp2/reload'] = 500
        self.assertNotIn('could not be restored',
                         self.assertRefused('answered 500'))
        self.assertEqual(self.before, [agent.state.files
                                       for agent in self.agents])
        self.assertEqual((['ACTIVE'] * 4, self.known),
                         (self.states(), self.digests()))
        # The other members were told nothing.
        self.assertEqual([True, True, False, False],
                         [bool(agent.asked()) for agent in self.agents])

    def add_datagrams(self, name):
        listener = self.add_listener(name, protocol='UDP')
        listener.default_pool.protocol = 'UDP'
        return listener

    def test_delete(self):
        for agent in self.agents:
            agent.statuses['PUT /1.0/loadbalancer/amphora-'] = 400
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.subject.delete_listener,
                              self.lb.listeners[0])
        self.assertIn('the other members have what they had', str(e))
        # Housekeeping has members looked at there again.
        self.applied.clear()
        self.assertAsBefore()


class TestSecrets(clusters.ClusterTestCase):

    def setUp(self):
        super().setUp()
        self.add_cluster(2)
        self.listener = self.add_listener(
            'l1', protocol='TERMINATED_HTTPS', tls_certificate_id='the ref')
        self.fetched = []
        real = noop.NoopCertManager.get_cert

        def get_cert(self_, context, ref, *args, **kwargs):
            self.fetched.append((context.project_id, ref))
            return real(self_, context, ref, *args, **kwargs)

        self.get_cert = self.useFixture(fixtures.MockPatchObject(
            noop.NoopCertManager, 'get_cert', autospec=True,
            side_effect=get_cert)).mock

    def test_they_are_fetched_once(self):
        self.subject.update(self.lb)
        self.assertEqual([('demo', 'the ref')], self.fetched)
        for agent in self.agents:
            pem, listed, haproxy, reload = agent.asked()
            self.assertIn(f'loadbalancer/{self.lb.id}/certificates/', pem)
            self.assertIn('/certificates/l1-', listed)
        # What an agent has it is not given again.
        for agent in self.agents:
            agent.requests.clear()
        self.subject.update(self.lb)
        for agent in self.agents:
            self.assertEqual(2, len(agent.asked()))

    def test_what_cannot_be_fetched(self):
        """Octavia's driver would leave the listener out, and go on."""
        self.add_listener('l2')
        self.get_cert.side_effect = ValueError('not\nthere')
        with mock.patch('octavia.db.repositories.ListenerRepository.update',
                        autospec=True) as update:
            e = self.assertRaises(exceptions.SecretsUnavailable,
                                  self.subject.update, self.lb)
        update.assert_not_called()
        self.assertIn('What listener l1 needs cannot be fetched', str(e))
        self.assertNotIn('\n', str(e))
        self.assertEqual([0, 0], [each.connections for each in self.agents])
        self.assertEqual(['ACTIVE', 'ACTIVE'], self.states())

    def test_what_only_octavia_cannot_use(self):
        """It is found out before anybody is told of it."""
        with mock.patch(
                'octavia.common.tls_utils.cert_parser.build_pem',
                autospec=True, side_effect=ValueError), mock.patch(
                'octavia.db.repositories.ListenerRepository.update',
                autospec=True), mock.patch(
                'octavia.db.api.session', autospec=True):
            e = self.assertRaises(exceptions.ClusterNotUpdated,
                                  self.subject.update, self.lb)
        self.assertIn('listener l1', str(e))
        self.assertEqual([[], []], [agent.asked() for agent in self.agents])

    def test_nothing_secret_is_said(self):
        for agent in self.agents:
            agent.statuses['.pem'] = 500
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.subject.update, self.lb)
        self.assertIn('answered 500 to PUT', str(e))
        self.assertNotIn('ouch', str(e))


class TestDelete(clusters.ClusterTestCase):

    def test_one_of_two(self):
        self.add_cluster(2)
        going = self.add_listener('l1', protocol='TERMINATED_HTTPS',
                                  tls_certificate_id='the ref')
        self.add_listener('l2')
        self.subject.update(self.lb)
        both = self.digests()
        self.subject.delete_listener(going)
        for agent in self.agents:
            self.assertNotIn('frontend l1', self.configuration(agent))
            self.assertIn('frontend l2', self.configuration(agent))
            # As Octavia names it, and by what is in it.
            self.assertEqual(2, len(agent.asked('DELETE')))
            told = [method for method, _path, _body in agent.requests
                    if method != 'GET']
            self.assertEqual(['DELETE'] * 2, told[-2:])
        self.assertNotEqual(both, self.digests())
        after = self.digests()
        # Octavia deletes its row then.
        self.lb.listeners.remove(going)
        self.subject.update(self.lb)
        self.assertEqual(after, self.digests())

    def test_the_last_one(self):
        self.add_cluster(2)
        listener = self.add_listener('l1')
        self.subject.update(self.lb)
        self.subject.delete_listener(listener)
        for agent in self.agents:
            self.assertEqual([f'listeners/{self.lb.id}'],
                             agent.asked('DELETE'))
            self.assertEqual({}, agent.state.files)
        self.assertEqual([listener], self.lb.listeners)

    def test_one_does_not(self):
        self.add_cluster(2)
        listener = self.add_listener('l1')
        self.agents[1].statuses['/listeners/'] = 500
        self.subject.delete_listener(listener)
        self.assertEqual(['ACTIVE', 'DRAINING'], self.states())


class TestOthers(clusters.ClusterTestCase):

    def test_act(self):
        self.add_cluster(2)
        self.add_listener('l1')
        self.subject.update(self.lb)
        for function in ('start', 'reload'):
            for agent in self.agents:
                agent.requests.clear()
            self.subject.act(self.lb, function)
            for agent in self.agents:
                self.assertEqual(
                    [('PUT', f'/1.0/loadbalancer/{self.lb.id}/{function}',
                      '')], agent.requests)
            self.subject.act_on(self.lb, self.lb.amphorae[0], function)
            self.assertEqual([2, 1], [len(agent.requests)
                                      for agent in self.agents])
        self.agents[0].statuses['/reload'] = 500
        self.assertRaises(exceptions.ClusterNotUpdated, self.subject.act_on,
                          self.lb, self.lb.amphorae[0], 'reload')

    def test_certificate_of_an_agent(self):
        self.add_cluster(1)
        self.agents[0].statuses['/certificate'] = 500
        e = self.assertRaises(
            exceptions.ClusterNotUpdated, self.subject.tell_amphora,
            self.lb.amphorae[0], 'upload_cert_amp', b'SECRET')
        self.assertNotIn('ouch', str(e))
        self.agents[0].statuses['/certificate'] = 202
        self.subject.tell_amphora(self.lb.amphorae[0], 'upload_cert_amp',
                                  b'SECRET')
        self.assertEqual(('PUT', '/1.0/certificate', 'SECRET'),
                         self.agents[0].requests[-1])
        self.assertEqual(['ACTIVE'], self.states())

    def test_a_network_that_one_does_not_take(self):
        self.add_cluster(2)
        self.agents[0].statuses['/plug/network'] = 500
        port = mock.MagicMock(fixed_ips=[], mac_address='fa:16:3e:00:00:09',
                              vnic_type='normal')
        port.network.mtu = 1450

        def tell(number):
            self.subject.tell_member(self.lb.amphorae[number],
                                     'post_network_plug', port, {})

        tell(0)
        self.assertEqual(['DRAINING', 'ACTIVE'], self.states())
        self.assertEqual([self.cluster_id], self.applied)
        # It is plugged already.
        self.agents[1].statuses['/plug/network'] = 409
        tell(1)
        # Nobody is left.
        self.agents[1].statuses['/plug/network'] = 500
        self.assertRaises(exceptions.ClusterNotUpdated, tell, 1)
        self.assertEqual(['DRAINING', 'ACTIVE'], self.states())
        self.add_member('BUILDING').statuses['/plug/network'] = 500
        tell(2)
        self.assertEqual('FAILED', self.states()[2])
