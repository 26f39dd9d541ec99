# SPDX-License-Identifier: Apache-2.0

"""How long the update of a listener takes with several members, beside one.

``real`` members are amphora agents with their haproxy and keepalived, which
share the processors of this machine; ``simulated`` ones speak TLS and take
their time for each request without one, as agents in machines of their own
do.
"""

import argparse
import os
import statistics
import time

import fixtures
from oslo_config import fixture as config_fixture
import sqlalchemy as sa
from sqlalchemy import pool

from benchmarks import report
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.members import newcomer
from octavia_hmsync.cluster.members import update
from octavia_hmsync import compat
from octavia_hmsync.db import schema
from tests.cloud import certificates
from tests.cloud.compute import fabric
from tests.cloud import database
from tests.cloud import members
from tests.cloud import network
from tests.cloud import records
from tests.unit import base
from tests.unit.cluster import clusters

COLUMNS = ['agents', 'members', 'updates', 'median_s', 'slowest_s', 'to_one',
           'cpu_ms']

REAL, SIMULATED = 'real', 'simulated'
_VIP = '198.51.100.5'


class _Cluster:
    """A load balancer with members that serve a listener."""

    def __init__(self, site, size):
        self._site = site
        self.lb = clusters.make_load_balancer()
        self.lb.vip.ip_address = _VIP
        self._cluster_id = records.new_id()
        self._size = size
        cluster_repo.add(site.engine, cluster_repo.New(
            self._cluster_id, self.lb.id, 'web', size, 1, 'hmsync_ovs'))
        self.listener = clusters.add_listener(
            self.lb, records.new_id(), connection_limit=1000)

    def add(self, member_id, amphora_id, lb_network_ip, vrrp_ip):
        engine = self._site.engine
        amphora = clusters.add_amphora(self.lb, amphora_id, lb_network_ip,
                                       vrrp_ip)
        member_repo.add(engine, self._cluster_id, member_id, self._size)
        member_repo.assign_amphora(engine, member_id, amphora_id)
        return amphora

    def serve(self):
        for member in self.get_members():
            member_repo.set_state(self._site.engine, member.id,
                                  (member_repo.BUILDING,), member_repo.ACTIVE)

    def get_members(self):
        return member_repo.get_of_cluster(self._site.engine,
                                          self._cluster_id)

    def change(self):
        """Have the listener be another one."""
        self.listener.connection_limit += 1


class _Site(fixtures.Fixture):
    """What is there beside members."""

    def _setUp(self):
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        made = self.useFixture(database.MariaDBDatabase())
        schema.upgrade(made.engine)
        # In the namespace of controllers, too.
        self.engine = sa.create_engine(made.engine.url.update_query_dict(
            {'unix_socket': made.server.socket_path}), poolclass=pool.NullPool)
        self.addCleanup(self.engine.dispose)
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='certificates', cert_manager='noop_cert_manager')
        self.conf = base.TestCase.make_conf(
            None, haproxy_amphora={
                'bind_port': members.PORT,
                'client_cert': self.certificates.client_path,
                'server_ca':
                    self.certificates.server_authority.certificate_path},
            hmsync_cluster={'update_timeout': 60},
            controller_worker={'amphora_driver': 'hmsync'})
        # Nobody has to be told of it.
        self.useFixture(fixtures.MockPatchObject(
            distributors.Distributors, 'apply', lambda *_args: None))

    def measure(self, cluster, updates, call):
        """Change a listener so often, and have all members take it.

        :param call: calls a function where agents can be asked.
        :returns: seconds that each took, and those of a processor.
        """
        updater = update.Updater(self.conf, self.engine)
        took = []
        cpu = 0.0
        for _ in range(updates + 1):
            cluster.change()
            digests = {m.config_digest for m in cluster.get_members()}
            began, before = time.monotonic(), time.process_time()
            call(updater.update, cluster.lb)
            took.append(time.monotonic() - began)
            cpu += time.process_time() - before
            after = cluster.get_members()
            if ({m.state for m in after} != {member_repo.ACTIVE} or
                    {m.config_digest for m in after} & digests):
                raise RuntimeError(f'not all have taken it: {after}')
        # The first one imports what it needs.
        return took[1:], cpu


def _boot(site, sizes):
    """Boot real members.

    :returns: a _Cluster for each size, and how to ask their agents.
    """
    where = site.useFixture(fabric.Fabric(site.directory))
    controller = where.add_host('controller', 'management',
                                'fa:16:3e:00:01:ff', members.CONTROLLER)
    made, number = [], 0
    for size in sizes:
        cluster = _Cluster(site, size)
        made.append(cluster)
        booted = []
        for _ in range(size):
            number += 1
            member = site.useFixture(members.Member(
                number, records.new_id(), where, controller,
                site.certificates, site.conf, site.directory))
            booted.append((member, cluster.add(
                f'member{number}', member.amphora_id, member.lb_network_ip,
                member.vrrp_ip)))
        for slot, (member, amphora) in enumerate(booted):
            member.plug_vip(_VIP)
            controller.call(
                newcomer.Newcomer(site.conf, site.engine).configure,
                cluster.lb, amphora, slot, members.Network())
        cluster.serve()
    return made, controller.call


def _simulate(site, sizes, answer_after):
    made, number = [], 0
    port = network.free_port()
    site.conf.set_override('bind_port', port, group='haproxy_amphora')
    for size in sizes:
        cluster = _Cluster(site, size)
        made.append(cluster)
        for _ in range(size):
            number += 1
            agent = site.useFixture(clusters.Agent(
                f'amphora-{number}', f'127.0.1.{number}', site.certificates,
                port=port))
            agent.delays[''] = answer_after
            cluster.add(f'member{number}', agent.amphora_id,
                        agent.lb_network_ip, f'198.51.100.{100 + number}')
        cluster.serve()
    return made, lambda function, *args: function(*args)


def measure(kind, sizes=(1, 8), updates=10, answer_after=0.2):
    """Update the listener of a cluster of each size.

    :param kind: REAL or SIMULATED.
    :param answer_after: seconds that a simulated agent takes for a request.
    :returns: a row for each size.
    """
    with _Site() as site:
        made, call = (_boot(site, sizes) if kind == REAL else
                      _simulate(site, sizes, answer_after))
        rows = []
        for cluster in made:
            took, cpu = site.measure(cluster, updates, call)
            rows.append({
                'agents': kind, 'members': len(cluster.get_members()),
                'updates': updates, 'median_s': statistics.median(took),
                'slowest_s': max(took), 'cpu_ms': cpu / updates * 1000})
    for row in rows:
        row['to_one'] = row['median_s'] / rows[0]['median_s']
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--members', type=int, nargs='+', default=[1, 8])
    parser.add_argument('--updates', type=int, default=10)
    parser.add_argument('--answer-after', type=float, default=0.2)
    parser.add_argument('--agents', nargs='+', choices=(REAL, SIMULATED),
                        default=(SIMULATED, REAL))
    args = parser.parse_args()
    report.print_results('update of a listener', COLUMNS, [
        row for kind in args.agents for row in measure(
            kind, args.members, args.updates, args.answer_after)])


if __name__ == '__main__':
    main()
