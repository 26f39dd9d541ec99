# SPDX-License-Identifier: Apache-2.0

"""Clusters as real health managers see them, with all their processes."""

import itertools
import socket
import threading
import time

from octavia.amphorae.backends.health_daemon import status_message
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.db import models
from tests.cloud import database
from tests.cloud import records
from tests.functional import base

TIMEOUT = 10
# Each has as many processes for what heartbeats say, as with more cores.
POOL = 3
CLUSTERS = 6
MEMBERS = 4
POLLS = 200


class _Heartbeats(threading.Thread):
    """Signed heartbeats of amphorae that are nothing else.

    :param cloud: a Cloud.
    :param senders: [(id of an amphora, ids of its listeners)].
    :param addresses: where to, (host, port), in turn.
    """

    def __init__(self, cloud, senders, addresses):
        super().__init__(daemon=True)
        self._key = cloud.heartbeat_key
        self._senders = senders
        self._addresses = itertools.cycle(addresses)
        self._ended = threading.Event()
        self.quiet = set()
        self.sent = 0

    def run(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while not self._ended.wait(0.02):
                for amphora_id, listeners in self._senders:
                    if amphora_id not in self.quiet:
                        self._send(sock, amphora_id, listeners)

    def _send(self, sock, amphora_id, listeners):
        stats = {'tx': 0, 'rx': 0, 'conns': 0, 'totconns': 0, 'ereq': 0}
        sock.sendto(status_message.wrap_envelope({
            'id': amphora_id, 'seq': self.sent, 'pools': {}, 'ver': 3,
            'listeners': {each: {'status': 'OPEN', 'stats': stats}
                          for each in listeners}}, self._key),
                    next(self._addresses))
        self.sent += 1
        self._ended.wait(0.02)

    def stop(self):
        self._ended.set()
        self.join()


class ClusterHealthCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def add_cluster(self, number, size=MEMBERS):
        """Add rows of a cluster; returns the ids of it and its members."""
        lb = self.cloud.records.add_load_balancer('ACTIVE_ACTIVE')
        listener = self.cloud.records.add_listener(lb)
        cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            cluster_id, lb, f'cluster{number}', size, 2, 'hmsync_ovs'))
        amphorae = [self.add_member(cluster_id, lb, 10 * number + each, size)
                    for each in range(size)]
        return lb, cluster_id, [(each, [listener]) for each in amphorae]

    def add_member(self, cluster_id, lb, number, size):
        amphora_id = self.cloud.records.add_amphora(
            self.cloud.network.address(100 + number), lb, 'IN_CLUSTER')
        self.cloud.records.set_health(amphora_id, busy=True)
        member_repo.add(self.engine, cluster_id, amphora_id, size)
        member_repo.assign_amphora(self.engine, amphora_id, amphora_id)
        member_repo.set_state(self.engine, amphora_id, ('BUILDING',),
                              'ACTIVE')
        return amphora_id

    def beat(self, senders, *managers):
        heartbeats = _Heartbeats(self.cloud, senders, [
            (each.bind_ip, each.bind_port) for each in managers])
        heartbeats.start()
        self.addCleanup(heartbeats.stop)
        return heartbeats


class TestStatus(ClusterHealthCase):
    """What the Octavia API shows of a load balancer is in its row."""

    def setUp(self):
        super().setUp()
        self.make_cloud(options={'health_manager': {
            'health_update_threads': POOL, 'stats_update_threads': POOL}})
        self.clusters = [self.add_cluster(number)
                         for number in range(CLUSTERS)]
        self.other = self.cloud.records.add_load_balancer()
        listener = self.cloud.records.add_listener(self.other)
        amphora_id = self.cloud.records.add_amphora(
            self.cloud.address(90), self.other)
        self.connection = self.engine.connect()
        self.addCleanup(self.connection.close)
        self.senders = [sender for _, _, senders in self.clusters
                        for sender in senders] + [(amphora_id, [listener])]

    def read(self):
        """{id of a load balancer: (operating_status, updated_at)}."""
        return {row['id']: (row['operating_status'], row['updated_at'])
                for row in self.cloud.records.rows('load_balancer')}

    def set_status(self, cluster_id, status):
        cluster_repo.set_status(self.engine, cluster_id,
                                operating_status=status)

    def wait_until_shown(self, lb, status):
        self.wait_for(lambda: self.read()[lb][0] == status,
                      lambda: f'{status} of {lb}: {self.read()[lb]}', 60)

    def wait_until_shown_on(self, lb, status):
        """Wait until a status stays: one may still write what it read."""
        self.wait_for(
            lambda: set(self.poll([lb], POLLS // 4)[0]) == {status},
            f'{status} that stays', 60)

    def poll(self, lbs, polls=POLLS):
        """Look often; returns all statuses seen, and those of updated_at."""
        table, seen = self.cloud.records.tables['load_balancer'], []
        for _ in range(polls):
            with self.connection.begin():
                seen += self.connection.execute(
                    sa.select(table.c.operating_status, table.c.updated_at)
                    .where(table.c.id.in_(lbs))).all()
            time.sleep(0.02)
        return [status for status, _ in seen], {at for _, at in seen}

    def start_manager(self, show_status):
        manager = self.cloud.add_health_manager(
            self.cloud.address(1), host='hm',
            options={'hmsync_cluster': {'show_status': show_status}})
        manager.wait_until_ready()
        return manager

    def test_shown(self):
        manager = self.start_manager(True)
        heartbeats = self.beat(self.senders, manager)
        degraded = [lb for lb, _, _ in self.clusters[:-2]]
        for _, cluster_id, _ in self.clusters[:-2]:
            self.set_status(cluster_id, 'DEGRADED')
        (failed, failed_id, failed_senders), (well, well_id, _) = (
            self.clusters[-2:])
        self.set_status(failed_id, 'ERROR')
        self.set_status(well_id, 'ONLINE')
        for lb in degraded:
            self.wait_until_shown(lb, 'DEGRADED')
        self.wait_until_shown(failed, 'ERROR')
        # Nobody of the last one is heard; another one is heard as before.
        heartbeats.quiet.update(sender for sender, _ in failed_senders)
        before = heartbeats.sent
        statuses, changes = self.poll(degraded)
        self.assertEqual({'DEGRADED'}, set(statuses))
        self.assertGreater(heartbeats.sent, before + 100)
        # Each time at most once, when it was set.
        self.assertLessEqual(len(changes), len(degraded))
        self.assertEqual('ERROR', self.read()[failed][0])
        self.assertEqual('ONLINE', self.read()[well][0])
        self.assertEqual('ONLINE', self.read()[self.other][0])
        self._others_and_back(degraded[0], self.clusters[0][1])
        self.assertNotIn('Traceback', manager.log())

    def _others_and_back(self, lb, cluster_id):
        # One that is well again is shown so by the next heartbeat.
        self.set_status(cluster_id, 'ONLINE')
        self.wait_until_shown(lb, 'ONLINE')
        # Below the minimum, and disabled.
        self.set_status(cluster_id, 'ERROR')
        self.wait_until_shown_on(lb, 'ERROR')
        self.cloud.records.change('load_balancer', lb, enabled=False)
        self.set_status(cluster_id, 'OFFLINE')
        self.wait_until_shown_on(lb, 'OFFLINE')

    def test_without(self):
        """Why it is done: with the option off they are ONLINE."""
        manager = self.start_manager(False)
        self.beat(self.senders, manager)
        for _ in range(5):
            for lb, cluster_id, _ in self.clusters:
                self.set_status(cluster_id, 'DEGRADED')
                self.cloud.records.change('load_balancer', lb,
                                          operating_status='DEGRADED')
            for lb, _, _ in self.clusters:
                self.wait_until_shown(lb, 'ONLINE')


class SilenceCase(ClusterHealthCase):
    """Real agents, as members of a cluster, with the list that they have."""

    def make_members(self, count=2):
        """Have amphorae of the cloud be a cluster."""
        # Whoever looks after clusters would find one that is half made.
        self.make_cloud(amphorae=count, options={
            'hmsync_cluster': {'keep_in_housekeeping': False}})
        manager, other = self.start(1, 2)
        self.wait_until_synced([manager.address, other.address])
        # Rows that Octavia has made itself.
        self.assertEqual({False}, set(self.busy().values()))
        lb = self.cloud.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            cluster_id, lb, 'cluster', count, 1, 'hmsync_ovs'))
        for amphora_id in self.cloud.amphora_ids:
            self.cloud.records.change('amphora', amphora_id,
                                      load_balancer_id=lb, role='IN_CLUSTER')
            member_repo.add(self.engine, cluster_id, amphora_id, count)
            member_repo.assign_amphora(self.engine, amphora_id, amphora_id)
            member_repo.set_state(self.engine, amphora_id, ('BUILDING',),
                                  'ACTIVE')
        return lb, manager, other

    def silent(self):
        return {member_id for member_id, look in probe_repo.get_of_observer(
            self.engine, probe_repo.HEARTBEATS).items()
            if look.state == probe_repo.DOWN}

    def busy(self):
        return {row['amphora_id']: bool(row['busy'])
                for row in self.cloud.records.rows('amphora_health')}

    def wait_until_silent(self, expected, timeout=4 * TIMEOUT):
        self.wait_for(lambda: self.silent() == set(expected),
                      lambda: f'{expected} alone silent: {self.silent()}',
                      timeout)

    def wait_until_busy(self):
        self.wait_for(lambda: self.busy() == dict.fromkeys(
            self.cloud.amphora_ids, True),
            lambda: f'all of them busy: {self.busy()}', 20)

    def assertUntouched(self, lb):
        statuses = {row['id']: row for row in
                    self.cloud.records.rows('load_balancer')}
        self.assertEqual('ACTIVE', statuses[lb]['provisioning_status'])
        self.assertEqual({'ALLOCATED'}, {
            row['status'] for row in self.cloud.records.rows('amphora')})
        self.assertEqual(dict.fromkeys(self.cloud.amphora_ids, True),
                         self.busy())

    def watch_members(self, lb, seconds, silent, becoming_so=frozenset()):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.assertEqual(silent, self.silent() - becoming_so)
            self.assertUntouched(lb)
            time.sleep(0.5)


class TestSilence(SilenceCase):

    def test_silent_and_nothing_else(self):
        """Octavia does nothing, whatever becomes of their rows."""
        lb, manager, other = self.make_members()
        self.wait_until_busy()
        self._lose_rows()
        dead, well = sorted(self.cloud.amphora_ids)
        self.cloud.amphorae[dead].kill_tree()
        self.wait_until_silent({dead})
        cluster, = self.cloud.records.query('SELECT id FROM hmsync_cluster')
        text = (f'Amphora {dead}, a member of the cluster {cluster["id"]}, is '
                f'silent')
        self.assertEqual(1, sum(each.log().count(text)
                                for each in (manager, other)))
        self.assertUntouched(lb)
        self.watch_members(lb, TIMEOUT, {dead})
        self.cloud.amphorae[dead].start()
        self.wait_until_silent(set())
        self.assertUntouched(lb)

    def _lose_rows(self):
        table = self.cloud.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(sa.delete(table))
        self.wait_until_busy()
        with self.engine.begin() as connection:
            connection.execute(sa.update(table).values(busy=False))
        self.wait_until_busy()

    def test_no_health_manager(self):
        """An outage of theirs, and their start, speak against nobody."""
        lb, manager, other = self.make_members()
        self.wait_until_busy()
        for each in (manager, other):
            each.kill_tree()
        time.sleep(1.5 * TIMEOUT)
        manager.start()
        manager.wait_until_ready()
        self.watch_members(lb, 1.5 * TIMEOUT, set())
        # It says so of no one, also not of those that it holds back.
        self.assertNotIn('is silent', manager.log())
        with self.engine.connect() as connection:
            held = connection.execute(
                sa.select(models.Amphora.held_since)).scalars().all()
        self.assertEqual([None] * len(held), held)
