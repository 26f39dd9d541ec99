# SPDX-License-Identifier: Apache-2.0

"""Clusters at rest: what a look of whoever keeps them costs.

MariaDB; each cluster has four members, seen by two distributors and by health
managers. Then one member dies: what is read beside that for all the others.
And what a real octavia-housekeeping does in a while in which nothing happens,
with two real distributors that forward nothing.
"""

import argparse
import collections
import os
import secrets
import time
import uuid

import fixtures
import psutil
import sqlalchemy as sa

from benchmarks import report
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovs import documents
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync.cluster.keeping import keeper
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync.distributor import store
from tests.cloud import certificates
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import distributor
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import records as records_
from tests.cloud import waiting

COLUMNS = ['clusters', 'probe', 'due', 'statements', 'rows_read', 'ms',
           'cpu_ms']
PROCESS_COLUMNS = ['clusters', 'seconds', 'statements', 'rows_read', 'cpu_s',
                   'database_cpu_s', 'memory_mb']
TABLES = ('looks', 'process')
ALL, REST, DEATH = 'at all', 'at rest', 'one is seen DOWN'
MEMBERS = 4
_HOUR = 3600
_DISTRIBUTORS = ('127.0.3.1', '127.0.3.2')
_VIP = '198.51.100.1'


class _Fill:
    """Makes clusters that are as they should be, and have been for long.

    :param database: a database.Database.
    :param urls: of distributors, by name.
    """

    def __init__(self, database, urls):
        self._database = database
        self._urls = urls
        self.members = []

    def fill(self, number):
        records = self._database.records
        distributors = distributor_repo.sync(self._database.engine,
                                             'hmsync_ovs', self._urls)
        observers = [*(row.id for row in distributors),
                     probe_repo.HEARTBEATS]
        clusters, members, probes, vips = [], [], [], []
        now = types.utcnow_plus(-_HOUR)
        rows = {'load_balancer': [], 'vip': [], 'amphora': []}
        for n in range(number):
            cluster_id = str(uuid.uuid4())
            lb = records_.new_id()
            rows['load_balancer'].append({
                **records_.load_balancer_row(lb, 'ACTIVE_ACTIVE'),
                'provider': 'amphora_cluster'})
            rows['vip'].append({**records_.vip_row(lb), 'ip_address': _VIP})
            clusters.append({
                'id': cluster_id, 'cluster_name': f'cluster{n}',
                'desired_size': MEMBERS, 'size': MEMBERS, 'min_size': 2,
                'cooldown': 60, 'load_balancer_id': lb, 'ports': '',
                'distributor': 'hmsync_ovs', 'provisioning_status': 'ACTIVE',
                'operating_status': 'ONLINE', 'enabled': True,
                'cluster_type': 'reference', 'affinity': 'FLOW',
                'peer_group_size': 2, 'standby': 0, 'version': 1})
            for place, row in enumerate(distributors):
                vips.append({
                    'id': str(uuid.uuid4()), 'cluster_id': cluster_id,
                    'distributor_id': row.id, 'port_id': str(uuid.uuid4()),
                    'mac': cluster_ports.make_mac(cluster_id, row.name),
                    'mtu': 1450, 'addresses': f'198.51.100.{200 + place}',
                    # Each of them answers for half of the clusters.
                    'active': True if place == n % 2 else None,
                    'applied_version': 1, 'applied_active': place == n % 2})
            for slot in range(MEMBERS):
                member_id = str(uuid.uuid4())
                amphora_id = records_.new_id()
                rows['amphora'].append(records_.amphora_row(
                    amphora_id, '192.0.2.1', lb, None))
                self.members.append(member_id)
                members.append({
                    'id': member_id, 'cluster_id': cluster_id,
                    'amphora_id': amphora_id, 'slot': slot,
                    'peer_group': slot // 2, 'state': 'ACTIVE',
                    'mac': cluster_ports.make_mac(cluster_id, member_id),
                    'config_digest': '1', 'idle_timeout': 60})
                probes += [{'member_id': member_id, 'distributor_id': who,
                            'state': 'UP'} for who in observers]
        records.insert_all(rows)
        with self._database.engine.begin() as connection:
            for model, many, times in (
                    (models.Cluster, clusters, ('created_at', 'updated_at')),
                    (models.ClusterMember, members,
                     ('created_at', 'updated_at')),
                    (models.DistributorVIP, vips, ('applied_at',)),
                    (models.MemberProbe, probes, ('changed_at',))):
                connection.execute(
                    sa.insert(model.__table__).values(
                        dict.fromkeys(times, now)), many)
            # As a server does by itself, in time.
            for name in ('load_balancer', 'amphora', *(
                    model.__tablename__ for model in (
                        models.Cluster, models.ClusterMember,
                        models.DistributorVIP, models.MemberProbe))):
                connection.execute(sa.text(f'ANALYZE TABLE {name}')).all()


def _count(engine, like):
    with engine.connect() as connection:
        return sum(int(row[1]) for row in connection.execute(sa.text(
            f"SHOW GLOBAL STATUS LIKE '{like}'")))


def _count_reads(engine):
    return _count(engine, 'Handler_read%')


def measure(number, looks=20):
    """Look so often at so many clusters.

    :returns: rows: a look at all of them, one of whoever has looked before,
              and the same with one member that somebody sees DOWN.
    """
    with database.MariaDBDatabase() as made:
        schema.upgrade(made.engine)
        filler = _Fill(made, {name: f'https://{name}:9444'
                              for name in _DISTRIBUTORS})
        filler.fill(number)
        # Whose connections are kept, as those of a service.
        engine = sa.create_engine(made.engine.url)
        try:
            return _measure_all(engine, number, looks, filler.members[0])
        finally:
            engine.dispose()


def _measure_all(engine, number, looks, member_id):
    rounds = keeper.Rounds(engine)
    rounds.look()
    rows = [_measure(engine, number, looks, *what) for what in (
        (ALL, lambda: due_repo.get_due(engine)), (REST, rounds.look))]
    probe_repo.record(engine, probe_repo.HEARTBEATS, {
        member_id: probe_repo.Result('DOWN', 'silent')})
    return [*rows, _measure(engine, number, looks, DEATH, rounds.look)]


def _measure(engine, number, looks, name, look):
    statements = []

    def note(*args):
        statements.append(args[2])

    sa.event.listen(engine, 'before_cursor_execute', note)
    due = look()
    sa.event.remove(engine, 'before_cursor_execute', note)
    reads = _count_reads(engine)
    # What counting reads itself.
    own = _count_reads(engine) - reads
    reads = _count_reads(engine)
    began, cpu = time.monotonic(), time.process_time()
    for _ in range(looks):
        look()
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    return {'clusters': number, 'probe': name, 'due': len(due),
            'statements': len(statements),
            'rows_read': (_count_reads(engine) - reads - own) // looks,
            'ms': took / looks * 1000, 'cpu_ms': cpu / looks * 1000}


class _Site(fixtures.Fixture):
    """A housekeeper with clusters, and distributors that know them."""

    def __init__(self, number):
        super().__init__()
        self._number = number

    def _setUp(self):
        self._directory = self.useFixture(fixtures.TempDir()).path
        self._certificates = self.useFixture(certificates.Certificates(
            self._directory))
        self._database = self.useFixture(database.MariaDBDatabase())
        self.engine = self._database.engine
        self.server = self._database.server
        schema.upgrade(self.engine)
        self._distributors = [distributor.Distributor(
            name, name, network.free_port(), self._certificates,
            self._directory, self._directory,
            options={'state_path': os.path.join(self._directory, name)})
            for name in _DISTRIBUTORS]
        self._urls = {each.host: each.url for each in self._distributors}
        _Fill(self._database, self._urls).fill(self._number)
        self._remember()
        for each in self._distributors:
            self.useFixture(each)
        for each in self._distributors:
            each.wait_until_ready()
        self.housekeeper = self.useFixture(controllers.Housekeeping(
            'controller1', self._options(), self._directory,
            self._directory))
        waiting.wait_for(
            lambda: {row.status for row in distributor_repo.get_all(
                self.engine)} == {distributor_repo.ONLINE},
            lambda: f'looks: {self.housekeeper.log_tail()}', 120,
            processes=[self.housekeeper, *self._distributors])

    def _remember(self):
        """Have distributors have what they were told before they began."""
        members, vips = (collections.defaultdict(list) for _ in range(2))
        for many, found in ((members, member_repo.get_all(self.engine)),
                            (vips, vip_repo.get_all(self.engine))):
            for one in found:
                many[one.cluster_id].append(one)
        stores = {each.host: store.Store(each.options['state_path'])
                  for each in self._distributors}
        for cluster in cluster_repo.get_all(self.engine):
            own = vips[cluster.id]
            for vip in own:
                stores[vip.distributor_name].save(cluster.id, store.Vip(
                    documents.make(cluster, members[cluster.id], [_VIP], vip,
                                   _HOUR, own), None))
        for kept in stores.values():
            kept.close()

    def _options(self):
        return octavia_conf.merge(
            octavia_conf.controller(
                self._database.connection, self._certificates,
                secrets.token_hex(16), 9443),
            octavia_conf.HMSYNC, {
                # Those of production.
                'hmsync': {'keepalive_interval': 5, 'offline_after': 20,
                           'poll_interval': 2},
                'controller_worker': {'distributor_driver': 'hmsync_ovs'},
                'hmsync_cluster': {'distributors': [
                    f'{name}={url}' for name, url in self._urls.items()]}})


def measure_process(number, seconds=60, settle=20):
    """Have a housekeeper look after so many clusters for a while.

    :param settle: seconds after its first looks.
    :returns: a row.
    """
    with _Site(number) as site:
        time.sleep(settle)

        def read():
            return {'statements': _count(site.engine, 'Questions'),
                    'rows_read': _count_reads(site.engine),
                    'cpu_s': report.cpu_seconds(site.housekeeper.pid),
                    'database_cpu_s': report.cpu_seconds(site.server.pid)}

        before = read()
        time.sleep(seconds)
        after = read()
        row = {'clusters': number, 'seconds': seconds, **{
            name: after[name] - value for name, value in before.items()}}
        changed = {(each.version, each.operating_status)
                   for each in cluster_repo.get_all(site.engine)}
        if changed != {(1, 'ONLINE')}:
            raise RuntimeError(f'They were not at rest: {changed} '
                               f'{site.housekeeper.log_tail()}')
        row['memory_mb'] = psutil.Process(
            site.housekeeper.pid).memory_info().rss / 2 ** 20
        row['log'] = site.housekeeper.log()
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--clusters', type=int, nargs='+',
                        default=[10, 100, 1000])
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--tables', nargs='+', choices=TABLES,
                        default=TABLES)
    args = parser.parse_args()
    if 'looks' in args.tables:
        report.print_results('clusters at rest', COLUMNS, [
            row for number in args.clusters for row in measure(number)])
    if 'process' in args.tables:
        rows = [measure_process(number, args.seconds)
                for number in args.clusters]
        for row in rows:
            del row['log']
        report.print_results('a housekeeper with clusters at rest',
                             PROCESS_COLUMNS, rows)


if __name__ == '__main__':
    main()
