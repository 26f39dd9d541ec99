# SPDX-License-Identifier: Apache-2.0

"""Octavia's failover commands for clusters, under traffic: they replace."""

import contextlib
import threading

from openstack import exceptions
import sqlalchemy as sa
from testtools import content

from tests.cloud import cluster_world
from tests.cloud import machines
from tests.functional import clusters

SIZE = 3
OPEN = 60
# Seconds for which connections of one that was replaced go on.
DRAIN = 40
SECONDS = 400


class _Looks(threading.Thread):
    """What is seen of a cluster all the time; a set of each.

    .serving has numbers of members that new connections go to, .building of
    those that are built at once, .provisioning and .operating the statuses
    that Octavia's API shows, .failing ids of amphorae that it shows in ERROR.
    """

    def __init__(self, cloud, load_balancer):
        super().__init__(daemon=True)
        self._engine = cloud.engine
        self._id = load_balancer.id
        self._ended = threading.Event()
        self.serving, self.building = set(), set()
        self.provisioning, self.operating = set(), set()
        self.failing = set()

    def run(self):
        with self._engine.connect() as connection:
            while not self._ended.wait(0.1):
                self._look(connection)
                connection.rollback()

    def _look(self, connection):
        states = connection.execute(sa.text(
            'SELECT state, slot FROM hmsync_cluster_member')).all()
        self.serving.add(sum(slot is not None and state == 'ACTIVE'
                             for state, slot in states))
        self.building.add(sum(state == 'BUILDING' for state, _ in states))
        provisioning, operating = connection.execute(sa.text(
            'SELECT provisioning_status, operating_status FROM '
            'load_balancer WHERE id = :id'), {'id': self._id}).one()
        self.provisioning.add(provisioning)
        self.operating.add(operating)
        self.failing.update(connection.execute(sa.text(
            "SELECT id FROM amphora WHERE status = 'ERROR'")).scalars())

    def stop(self):
        self._ended.set()
        self.join()


class TestFailovers(clusters.ClusterTestCase):

    options = {'hmsync_cluster': {'drain_timeout': DRAIN, 'standby': 1}}

    def setUp(self):
        super().setUp()
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content('\n'.join(
                f'--- {child.name}\n{child.log_tail(150)}' for child in (
                    *self.cloud.workers, *self.cloud.house_keepers)))))
        self.lb = cluster_world.make(self.cloud, self.members,
                                     desired_size=SIZE, min_size=2)
        self.wait_until_settled(set())
        self.before = self.get_members()
        self.instances = set(self.cloud.compute.instances)

    def wait_until_settled(self, gone):
        """Wait until the cluster is whole, without some amphorae.

        :param gone: their ids.
        """
        def is_settled():
            rows = self.rows('hmsync_cluster_member')
            found = self.api.get_load_balancer(self.lb.id)
            return (sorted(row['state'] for row in rows) ==
                    ['ACTIVE'] * SIZE + ['STANDBY'] and
                    not gone & {row['amphora_id'] for row in rows} and
                    len(self.cloud.compute.instances) == SIZE + 1 and
                    (found.provisioning_status, found.operating_status) ==
                    ('ACTIVE', 'ONLINE'))

        self.cloud.wait_for(
            is_settled, lambda: f'whole cluster without {gone}: '
            f'{self.rows("hmsync_cluster_member")}, '
            f'{self.rows("hmsync_cluster")}', SECONDS)

    def begin(self):
        """Begin to use it, and to watch it."""
        port = cluster_world.TCP_PORT
        self.held = self.client.hold(self.lb.vip_address, OPEN,
                                     port=port).wait_until_open()
        self.sessions = self.cloud.get_sessions(self.lb, port)
        self.assertEqual({*self.before.values()}, {*self.sessions})
        self.assertTrue(all(self.sessions.values()), self.sessions)
        self.probe = self.client.start_probe(self.lb.vip_address,
                                             timeout=machines.PATIENCE)
        self.looks = _Looks(self.cloud, self.lb)
        self.looks.start()
        self.addCleanup(self.looks.stop)

    def wait_until_taken_over(self, gone):
        """Wait until others have the slots of some; they still have theirs."""
        self.cloud.wait_for(
            lambda: len(self.get_members()) == SIZE and
            not gone & {*self.get_members().values()},
            lambda: f'others than {gone}: '
            f'{self.rows("hmsync_cluster_member")}', SECONDS)

    def finish(self, gone):
        """Check that it was noticed by nobody whom it does not concern.

        :param gone: ids of the amphorae that were replaced.
        """
        self.wait_until_settled(gone)
        self.looks.stop()
        report = self.probe.stop()
        self.assertEqual(0, report.failed, report)
        lost = set().union(*(self.sessions[each] for each in gone))
        # Those that end do so when their amphora does.
        self.cloud.wait_for(lambda: lost <= set(self.held.report().broken),
                            'end of connections of amphorae that are gone')
        self.assertEqual(lost, set(self.held.stop().broken))
        # Not one less than there are to be, at any time.
        self.assertEqual({SIZE}, self.looks.serving)
        self.assertLessEqual(self.looks.building, {0, 1})
        self.assertEqual({'ONLINE'}, self.looks.operating)
        # Each in its slot, but those that were replaced.
        self.assertEqual(
            {slot: amphora_id for slot, amphora_id in self.before.items()
             if amphora_id not in gone},
            {slot: amphora_id for slot, amphora_id in
             self.get_members().items() if amphora_id in
             self.before.values()})
        self.assertEqual({'ALLOCATED'}, {
            each.status for each in
            self.api.amphorae(loadbalancer_id=self.lb.id)})
        self.assertServes(self.lb)
        self.cloud.delete_cluster(self.lb)
        self.assertNothingLeft()

    def test_members(self):
        """openstack loadbalancer amphora failover --wait, for two of three."""
        gone = {self.before[0], self.before[2]}
        self.begin()
        for amphora_id in gone:
            self.fail_over(amphora_id)
            self.cloud.wait_until_active(self.lb.id)
            self.assertNotIn(amphora_id, self.get_members().values())
        self.finish(gone)
        self.assertEqual({'ACTIVE', 'PENDING_UPDATE'},
                         self.looks.provisioning)
        self.assertEqual(set(), self.looks.failing)

    def fail_over(self, amphora_id):
        """Have one be failed over, as soon as Octavia accepts that."""
        def is_accepted():
            with contextlib.suppress(exceptions.ConflictException):
                self.api.failover_amphora(amphora_id)
                return True

        self.cloud.wait_for(is_accepted, f'failover of {amphora_id}')

    def test_load_balancer(self):
        """openstack loadbalancer failover: all, one after the other."""
        gone = {*self.before.values()}
        self.begin()
        self.api.failover_load_balancer(self.lb.id)
        self.wait_until_taken_over(gone)
        # It is done when the last one is replaced, whoever drains.
        self.cloud.wait_until_active(self.lb.id)
        self.finish(gone)
        self.assertEqual({'ACTIVE', 'PENDING_UPDATE'},
                         self.looks.provisioning)
        self.assertEqual(set(), self.looks.failing)
        # The one that stands by is another one, too.
        self.assertFalse(self.instances & set(self.cloud.compute.instances))
