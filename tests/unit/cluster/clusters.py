# SPDX-License-Identifier: Apache-2.0

"""Clusters whose members are simulated agents that speak TLS."""

import fixtures
from octavia.common import data_models
from oslo_config import fixture as config_fixture

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.members import trial
from octavia_hmsync.cluster.members import update
from octavia_hmsync import compat
from octavia_hmsync.conf import cluster as cluster_conf
from tests.cloud import ailing
from tests.cloud import records
from tests.db_cases import base
from tests.unit.amphora import test_agent
from tests.unit.amphora import test_agent_client
from tests.unit.db import sqlite

VIP = '192.0.2.55'


def make_load_balancer(*additional_vips):
    """Make one of a cluster, without amphorae and listeners."""
    return data_models.LoadBalancer(
        id=records.new_id(), project_id='demo', topology='ACTIVE_ACTIVE',
        enabled=True, vip=data_models.Vip(ip_address=VIP), additional_vips=[
            data_models.AdditionalVip(ip_address=address)
            for address in additional_vips])


def add_amphora(lb, amphora_id, lb_network_ip, vrrp_ip):
    """Add an amphora to it."""
    amphora = data_models.Amphora(
        id=amphora_id, lb_network_ip=lb_network_ip, status='ALLOCATED',
        role='IN_CLUSTER', vrrp_ip=vrrp_ip, load_balancer=lb,
        load_balancer_id=lb.id)
    lb.amphorae.append(amphora)
    return amphora


def add_listener(lb, listener_id, persistence=None, protocol='HTTP',
                 backends=('10.0.0.1',), connection_limit=-1, **values):
    """Add a listener with a pool to it."""
    pool = data_models.Pool(
        id=f'pool-of-{listener_id}', project_id='demo', protocol='HTTP',
        lb_algorithm='ROUND_ROBIN', enabled=True, session_persistence=(
            persistence and data_models.SessionPersistence(type=persistence)))
    pool.members = [data_models.Member(
        id=f'backend-{address}', ip_address=address, protocol_port=80,
        weight=1, enabled=True) for address in backends]
    listener = data_models.Listener(
        id=listener_id, project_id='demo', protocol=protocol,
        protocol_port=80 + len(lb.listeners), enabled=True, load_balancer=lb,
        peer_port=1025, default_pool=pool, pools=[pool],
        connection_limit=connection_limit, **values)
    lb.listeners.append(listener)
    lb.pools.append(pool)
    return listener


class Agent(test_agent.Simulated):
    """One that may have an ailment after all.

    .ail(ailment, path) has it ail from the first request on that has the
    path; .statuses are answers by path, or method and path, that it gives
    instead of its own, and .delays the seconds that it takes, .barriers what
    it waits at first.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._ails_at = None
        self._sick = None
        self.statuses = {}
        self.delays = {}
        self.barriers = {}

    def ail(self, ailment, path=''):
        self._sick, self._ails_at = ailment, path

    def _reply(self, tls, request_line):
        method, path, _body = self.requests[-1]
        if self._ails_at is not None and self._ails_at in path:
            self.ailment = self._sick
        if self.ailment == ailing.HANGS_IN_ANSWER:
            self._ended.wait()
            return
        for part, barrier in self.barriers.items():
            if part in path:
                barrier.wait(timeout=20)
        self._ended.wait(sum(seconds for part, seconds in self.delays.items()
                             if part in path))
        for part, status in self.statuses.items():
            if part in f'{method} {path}':
                tls.sendall(f'HTTP/1.1 {status} X\r\nContent-Length: 5\r\n'
                            f'\r\nouch\n'.encode())
                return
        super()._reply(tls, request_line)

    def asked(self, method='PUT'):
        """Return the paths of requests, below the version of the API."""
        return [path.removeprefix('/1.0/')
                for found, path, _body in self.requests if found == method]


class ClusterTestCase(sqlite.SqliteMixin, test_agent_client.
                      AgentClientTestCase, base.DatabaseTestCase):
    """A load balancer with a cluster; .lb is Octavia's data model of it.

    .applied has the clusters of which distributors were told.
    """

    update_timeout = 10

    def setUp(self):
        super().setUp()
        octavia_conf = self.useFixture(config_fixture.Config(compat.CONF))
        octavia_conf.config(group='certificates',
                            cert_manager='noop_cert_manager')
        for group, options in (
                ('haproxy_amphora', {
                    'bind_port': self.port,
                    'client_cert': self.certificates.client_path,
                    'server_ca':
                        self.certificates.server_authority.certificate_path}),
                ('controller_worker', {'amphora_driver': 'hmsync'}),
                (cluster_conf.GROUP, {
                    'update_timeout': self.update_timeout})):
            for name, value in options.items():
                self.conf.set_override(name, value, group=group)
        self.patch(trial, '_WATCH', 0)
        self.lb = make_load_balancer()
        self.applied = []
        self.apply = self.useFixture(fixtures.MockPatchObject(
            distributors.Distributors, 'apply', autospec=True,
            side_effect=lambda _self, cluster_id:
            self.applied.append(cluster_id))).mock
        self.agents = []

    def add_cluster(self, size, min_size=1, peer_group_size=2):
        self.cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            self.cluster_id, self.lb.id, 'web', size, min_size,
            'hmsync_ovs', peer_group_size=peer_group_size))
        for number in range(size):
            self.add_member(member_repo.ACTIVE, size)
        self.subject = update.Updater(self.conf, self.engine)

    def add_member(self, state, slots=0):
        """Add a member that is a simulated agent.

        :param slots: how many there are; without one for 0.
        """
        number = len(self.agents) + 1
        agent = self.useFixture(Agent(
            f'amphora-{number}', f'127.0.1.{number}', self.certificates,
            port=self.port))
        self.agents.append(agent)
        member = member_repo.add(self.engine, self.cluster_id,
                                 f'member-{number}', slots)
        member_repo.assign_amphora(self.engine, member.id, agent.amphora_id)
        member_repo.set_state(self.engine, member.id, (member_repo.BUILDING,),
                              state)
        add_amphora(self.lb, agent.amphora_id, agent.lb_network_ip,
                    f'192.0.2.{number}')
        return agent

    def add_listener(self, listener_id, **kwargs):
        return add_listener(self.lb, listener_id, **kwargs)

    def members(self):
        """The rows, by the id of the amphora."""
        return {member.amphora_id: member for member in
                member_repo.get_of_cluster(self.engine, self.cluster_id)}

    def states(self):
        return [self.members()[agent.amphora_id].state
                for agent in self.agents]

    def digests(self):
        return [self.members()[agent.amphora_id].config_digest
                for agent in self.agents]

    def configuration(self, agent):
        return agent.state.files[f'{self.lb.id}/haproxy'].decode()
