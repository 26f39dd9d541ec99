# SPDX-License-Identifier: Apache-2.0

"""Something dies or hangs in each phase of a change of a cluster.

A member is added, removed or replaced, in several clusters at once, each of
which is stopped at another step; then the fault happens, and they go on. Each
cluster is whole afterwards by itself, nothing but what was asked for is
changed, no connection breaks but those of the member that had to go, and
nothing is left over.
"""

import collections
import contextlib
import datetime
import random
import sys
import threading
import time

from oslotest import base
import sqlalchemy as sa
from testtools import content

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import exceptions
from tests.cloud import cluster_faults as faults
from tests.cloud import cluster_world
from tests.cloud import clusters
from tests.cloud import machines
from tests.cloud import waiting

SIZE = 2
# As many as a housekeeper works on at once.
CLUSTERS = 4
OPEN = 12
# Seconds that a fault lasts, once it is time for what was stopped to go on.
LASTS = 5
WHOLE_AFTER = 300

# Where whoever does it is stopped; of two patterns the second one counts from
# the first one on. As many of a list as there are clusters make a round.
ADD = (
    'after member add$', 'after member assign_amphora$',
    'after POST .*/ports', 'before built .*-compute-create',
    'after built .*-compute-wait', 'after built .*-attach-port',
    'after built .*-post-vip-plug', 'after cluster lock$',
    'after member configure$', 'before tell distributors$',
    'after tell distributors$', 'after cluster unlock$')
REMOVE = (
    'after member drain$', 'after tell https',
    'before member set_state FAILED$', 'after member release_slot$',
    ('after member release_slot$', 'after tell distributors$'),
    'after set_going$', 'before DELETE .*/ports', 'before member delete$')
REPLACE = (
    'after member add$', 'before built .*-compute-create',
    'after built .*-attach-port', 'after cluster lock$',
    'after member configure$', 'before member take_over_slot$',
    'after member take_over_slot$', 'after tell https',
    'after tell distributors$', 'after cluster unlock$',
    ('after cluster unlock$', 'before DELETE .*/ports'),
    ('after cluster unlock$', 'before member delete$'))
ADD_HUNG = ('before POST .*/ports', *ADD[4::3])
# One step of each phase.
OF_ADD = (ADD[3], ADD[7], ADD[9], ADD[10])
OF_REMOVE = (REMOVE[0], REMOVE[3], REMOVE[5], REMOVE[7])
OF_REPLACE = (REPLACE[1], REPLACE[4], REPLACE[6], REPLACE[10])
# Of workers, whose steps are fewer.
CREATE = (
    'before tell distributors$', 'after member add$', 'after member build$',
    'after member configure$')
CREATE_REST = (
    'before member build$', 'before member configure$',
    ('after member configure$', 'before tell distributors$'),
    'before cluster unlock$')
FAILOVER = (
    'after member build$', 'after member configure$',
    ('after member configure$', 'after tell distributors$'),
    'before cluster unlock$')
DELETE = (
    'before tell distributors$', 'before member remove$',
    'after member remove$', 'before cluster delete$')


class Gates:
    """Stops what is done for clusters, each at its step, until open().

    :param steps: a steps.Steps.
    :param patterns: where, for each cluster; see ADD.
    :param ids: of the clusters; without, the first one that comes to a step
                is stopped there.
    """

    def __init__(self, steps, patterns, ids=None):
        self._steps = steps
        self._open = threading.Event()
        self._come = {pattern: threading.Event() for pattern in patterns}
        steps.clear()
        for pattern, whose in zip(patterns, ids or [None] * len(patterns)):
            self._watch(pattern, whose, (
                pattern,) if isinstance(pattern, str) else pattern)

    def _watch(self, case, whose, patterns):
        def happen(step):
            if len(patterns) > 1:
                self._watch(case, step.whose, patterns[1:])
                return
            self._come[case].set()
            waiting.happens(self._open)

        self._steps.at(patterns[0], happen, whose)

    def wait(self):
        """Return the steps that did not come."""
        with contextlib.suppress(waiting.WaitTimeout):
            waiting.wait_for(lambda: all(
                come.is_set() for come in self._come.values()), 'steps')
        return [pattern for pattern, come in self._come.items()
                if not come.is_set()]

    def open(self):
        self._open.set()


class KilledCase(base.BaseTestCase):

    TIMEOUT_SCALING_FACTOR = 4
    # Of processes that keep clusters; in housekeepers, where there are none.
    managers = 0
    # Faults of whoever makes the change.
    owners = (faults.KeeperKilled, faults.KeeperHung)

    def setUp(self):
        super().setUp()
        self.begun = time.monotonic()
        self.problems = []
        # Ports of clients whose connections may break.
        self.lost = set()
        self.cloud = self.useFixture(clusters.ClusterOctavia(
            workers=1, house_keepers=1 if self.managers else 2,
            cluster_managers=self.managers))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content(self.describe())))
        self.cloud.wait_until_ready()
        # The other one goes on when the first one hangs.
        self.keeper, self.other = (self.cloud.cluster_managers or
                                   self.cloud.house_keepers)
        self.other.stop()
        hosts = self.cloud.fabric.hosts
        self.members = [self.useFixture(machines.Member(
            self.cloud, 'member', host=hosts[0]))]
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=hosts[-1]))

    def say(self, text):
        print(f'{time.monotonic() - self.begun:7.1f} {text}',
              file=sys.__stderr__, flush=True)

    def note(self, problem):
        """Take note of what is wrong; other cases are to be seen, too."""
        self.say(f'  WRONG: {problem}')
        self.problems.append(problem)

    def describe(self):
        return '\n'.join(
            f'--- {child.name}\n{child.log_tail(300)}'
            for child in (*self.cloud.workers, self.keeper, self.other,
                          *self.cloud.distributors.values()))

    def begin_fleet(self):
        """Ask for all clusters; returns the load balancers."""
        return [cluster_world.make(self.cloud, self.members, wait=False,
                                   desired_size=SIZE)
                for _ in range(CLUSTERS)]

    def make_fleet(self):
        self.know_fleet(self.begin_fleet())

    def know_fleet(self, made):
        """Wait until all clusters are there, and serve."""
        lbs = [self.cloud.wait_until_active(each.id, 300) for each in made]
        by_lb = {row['load_balancer_id']: row['id']
                 for row in self.rows('hmsync_cluster')}
        self.fleet = {by_lb[lb.id]: lb for lb in lbs}
        self.ports = None
        self.wait_until_whole(SIZE)
        for lb in lbs:
            self.client.get(lb.vip_address)
        self.ports = self.count_ports()
        self.say(f'there are {CLUSTERS} clusters')

    # What is seen

    def rows(self, table, **where):
        with self.cloud.engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(
                f'SELECT * FROM {table}')).mappings()
                if where.items() <= row.items()]

    def count_ports(self):
        return collections.Counter(
            port.device_owner for port in
            self.cloud.connection.network.ports())

    def get_amphorae(self):
        return {row['amphora_id'] for row in self.rows(
            'hmsync_cluster_member')}

    def get_sessions(self):
        """Ports of clients, by the amphora that has them."""
        found = {}
        for lb in self.fleet.values():
            found.update(self.cloud.get_sessions(lb,
                                                 cluster_world.TCP_PORT))
        return found

    def find_unsettled(self, cluster_id, size):
        """Tell what a cluster lacks, or has too much; None without."""
        members = self.rows('hmsync_cluster_member', cluster_id=cluster_id)
        cluster, = self.rows('hmsync_cluster', id=cluster_id)
        found, = self.rows('load_balancer', id=cluster['load_balancer_id'])
        # The claim of who died as the last thing stays there, lapsed.
        owner = cluster['claimed_by'] and (
            cluster['claim_expires_at'] > datetime.datetime.now(
                datetime.UTC).replace(tzinfo=None))
        state = (found['provisioning_status'], cluster['operating_status'],
                 owner or None, *{
                     row['provisioning_status'] for row in self.rows(
                         'listener', load_balancer_id=found['id'])})
        slots = sorted((row['slot'], row['state']) for row in members
                       if row['slot'] is not None)
        if (state == ('ACTIVE', 'ONLINE', None, 'ACTIVE') and
                len(members) == size and
                slots == [(slot, 'ACTIVE') for slot in range(size)]):
            return None
        return f'{cluster_id}: {state}, {members}'

    def find_left(self, size):
        """Tell what there is too much of all clusters together."""
        expected = self.get_amphorae()
        instances = {booted.instance_name.removeprefix('amphora-')
                     for booted in list(self.cloud.compute.instances.values())
                     if booted.running}
        amphorae = {row['id'] for row in self.rows('amphora')
                    if row['status'] != 'DELETED'}
        ports = self.count_ports()
        if (instances == amphorae == expected and
                len(self.cloud.compute.instances) == size * CLUSTERS and
                (size > SIZE or self.ports in (None, ports))):
            return None
        return f'{instances}, {amphorae}, {expected}, {ports}, {self.ports}'

    def find_documents(self):
        """Tell which distributor has something else in force than rows."""
        expected = {cluster_id: {
            row['slot']: row['amphora_id'] for row in self.rows(
                'hmsync_cluster_member', cluster_id=cluster_id)}
            for cluster_id in self.fleet}
        active = collections.Counter()
        for each in self.cloud.distributors.values():
            for vip in each.ask('list_vips'):
                document = each.ask('get_vip', vip['id'])['document']
                active[vip['id']] += document['active']
                found = {member['slot']: member['id']
                         for member in document['members']
                         if member['state'] != 'DEAD'}
                if found != expected[vip['id']]:
                    return f'{each.host}: {document}, not {expected}'
        return None if active == dict.fromkeys(self.fleet, 1) else f'{active}'

    def wait_until(self, find, what, timeout=WHOLE_AFTER):
        found = ['']

        def is_none():
            try:
                found[0] = find()
            except (sa.exc.DBAPIError, exceptions.HMSyncException) as e:
                found[0] = repr(e)
            return found[0] is None

        self.cloud.wait_for(is_none, lambda: f'{what}: {found[0]}', timeout)

    def wait_until_whole(self, size):
        for cluster_id in self.fleet:
            self.wait_until(lambda: self.find_unsettled(cluster_id, size),
                            'whole cluster')
        self.wait_until(lambda: self.find_left(size), 'nothing left over', 60)
        self.wait_until(self.find_documents, 'told distributors', 60)

    # What is done

    def choose_distributor(self, _chance):
        """Return the active one of most clusters; for faults.Fault."""
        with self.cloud.engine.connect() as connection:
            names = connection.execute(sa.text(
                'SELECT name FROM hmsync_distributor_vip JOIN '
                'hmsync_distributor ON hmsync_distributor.id = '
                'distributor_id WHERE active')).scalars()
            (host, _), = collections.Counter(names).most_common(1)
        return self.cloud.distributors[host]

    def lose_pinned(self, host):
        """See World.lose_pinned(), of all clusters."""
        for cluster_id in self.fleet:
            self.lost |= cluster_world.get_pinned(self.cloud, host,
                                                  cluster_id)

    def lapse(self):
        """Let the minute pass after which claims lapse."""
        with self.cloud.engine.begin() as connection:
            connection.execute(sa.text(
                "UPDATE hmsync_cluster SET claim_expires_at = '2020-01-01' "
                'WHERE claim_expires_at IS NOT NULL'))

    def add(self, cluster_id):
        cluster_repo.set_sizes(self.cloud.engine, cluster_id,
                               desired_size=SIZE + 1, cooldown=0)

    def remove(self, cluster_id):
        cluster_repo.set_sizes(self.cloud.engine, cluster_id,
                               desired_size=SIZE, cooldown=0)

    def replace(self, cluster_id):
        member = next(each for each in member_repo.get_of_cluster(
            self.cloud.engine, cluster_id) if each.slot == 0)
        member_repo.set_order(self.cloud.engine, member.id,
                              member_repo.REPLACE)

    @contextlib.contextmanager
    def traffic(self, number, is_felt):
        """Have clients use all clusters; check what they saw.

        :param number: how many amphorae end with the connections that they
                       have; None where that is not known.
        :param is_felt: whether new connections may fail meanwhile.
        """
        vips = [lb.vip_address for lb in self.fleet.values()]
        held = [self.client.hold(vip, OPEN, port=cluster_world.TCP_PORT)
                for vip in vips]
        probes = [self.client.start_probe(vip, rate=5, timeout=10)
                  for vip in vips]
        for each in held:
            each.wait_until_open()
        before, sessions = self.get_amphorae(), self.get_sessions()
        self.lost = set()
        yield
        # Each is used meanwhile.
        time.sleep(3)
        gone = before - self.get_amphorae()
        if number not in (None, len(gone)):
            self.note(f'{gone} are gone, and {number} had to go')
        lost = self.lost.union(*(sessions[each] for each in gone))
        reports = [each.stop() for each in held]
        broken = {port: error for report in reports
                  for port, error in report.broken.items()
                  if port not in lost}
        opened = sum(len(report.opened) for report in reports)
        if broken or opened != OPEN * CLUSTERS:
            self.note(f'{opened} connections, broken {broken}')
        failed = [report for report in (each.stop() for each in probes)
                  if report.failed]
        if failed and not is_felt:
            self.note(f'new connections: {failed}')

    def do_round(self, kind, begin, patterns, size):
        """Have a fault happen amid a change of all clusters.

        :param kind: of faults.
        :param begin: add, remove or replace.
        :param patterns: for each cluster; see ADD.
        :param size: of each afterwards.
        """
        number = 0 if begin == self.add else CLUSTERS
        with self.traffic(number, kind.is_felt):
            fault, gates = self.stop_at(kind, patterns, self.fleet)
            for cluster_id in self.fleet:
                begin(cluster_id)
            self.strike(fault, gates, lambda: self.wait_until_whole(size))
        self.cloud.steps.clear()

    def stop_at(self, kind, patterns, ids=None):
        self.say(f'{kind.__name__}: {patterns}')
        return (kind(self, random.Random(0)),  # nosec B311
                Gates(self.cloud.steps, patterns, ids))

    def strike(self, fault, gates, wait):
        """Have a fault happen once all are at their steps.

        :param wait: returns once all is well.
        """
        missing = gates.wait()
        if missing:
            seen = collections.Counter(
                str(step) for step in self.cloud.steps.seen)
            self.note(f'{missing}: nobody has come to that; {seen}')
        fault.begin()
        began = time.monotonic()
        if not isinstance(fault, self.owners):
            gates.open()
            time.sleep(LASTS)
            fault.end()
        elif isinstance(fault, faults.Killed):
            self.lapse()
            fault.end()
            gates.open()
        else:
            self.go_on_without(fault, gates, wait)
        wait()
        self.say(f'  well after {time.monotonic() - began:.1f} s')

    def go_on_without(self, fault, gates, wait):
        """Another one goes on; then it comes back, amid what it was at.

        Its claims lapse after a minute.
        """
        if not self.other.running and isinstance(fault, faults.KeeperHung):
            self.other.start()
        wait()
        # It has its answer when it wakes up.
        gates.open()
        fault.end()
        time.sleep(LASTS)
        self.other.stop()


class TestSizes(KilledCase):
    """Who adds or removes a member dies, or hangs."""

    def test_killed(self):
        self.make_fleet()
        for n in range(0, len(ADD), CLUSTERS):
            self.do_round(faults.KeeperKilled, self.add,
                          ADD[n:n + CLUSTERS], SIZE + 1)
            n %= len(REMOVE)
            self.do_round(faults.KeeperKilled, self.remove,
                          REMOVE[n:n + CLUSTERS], SIZE)
        self.assertEqual([], self.problems)

    def test_hung(self):
        self.make_fleet()
        self.do_round(faults.KeeperHung, self.add, ADD_HUNG, SIZE + 1)
        self.do_round(faults.KeeperHung, self.remove, OF_REMOVE, SIZE)
        self.assertEqual([], self.problems)


class TestReplaced(KilledCase):
    """Who replaces a member dies, or hangs: as a process of its own."""

    managers = 2

    def test_killed(self):
        self.make_fleet()
        for n in range(0, len(REPLACE), CLUSTERS):
            self.do_round(faults.KeeperKilled, self.replace,
                          REPLACE[n:n + CLUSTERS], SIZE)
        self.do_round(faults.KeeperHung, self.replace, OF_REPLACE, SIZE)
        self.assertEqual([], self.problems)


class TestAround(KilledCase):
    """Something else dies, or hangs, while somebody changes clusters."""

    def test_distributors(self):
        self.check(faults.DistributorKilled, faults.DistributorHung)

    def test_vswitch(self):
        self.check(faults.VswitchKilled, faults.VswitchHung)

    def test_database(self):
        self.check(faults.DatabaseKilled, faults.DatabaseHung)

    def test_rabbitmq(self):
        self.check(faults.RabbitMQKilled, faults.RabbitMQHung)

    def test_controllers(self):
        self.check(faults.HealthManagerKilled, faults.HealthManagerHung,
                   faults.WorkerKilled, faults.WorkerHung)

    def check(self, *kinds):
        self.make_fleet()
        for kind in kinds:
            self.do_round(kind, self.add, OF_ADD, SIZE + 1)
            self.do_round(kind, self.replace, OF_REPLACE, SIZE + 1)
            self.do_round(kind, self.remove, OF_REMOVE, SIZE)
        self.assertEqual([], self.problems)


class TestWorker(KilledCase):
    """A worker dies, or hangs, that creates, replaces or deletes all."""

    owners = (faults.WorkerKilled, faults.WorkerHung)

    def test_worker(self):
        self.create(faults.WorkerKilled, CREATE)
        self.delete(faults.WorkerKilled)
        self.create(faults.WorkerHung, CREATE_REST)
        self.fail_over(faults.WorkerKilled)
        self.fail_over(faults.WorkerHung)
        self.delete(faults.WorkerHung)
        self.assertEqual([], self.problems)

    def create(self, kind, patterns):
        fault, gates = self.stop_at(kind, patterns)
        made = self.begin_fleet()
        self.strike(fault, gates, lambda: self.know_fleet(made))

    def fail_over(self, kind):
        """It ends half-way: those are new that were replaced before."""
        api = self.cloud.connection.load_balancer
        with self.traffic(None, kind.is_felt):
            fault, gates = self.stop_at(kind, FAILOVER, self.fleet)
            for lb in self.fleet.values():
                api.failover_load_balancer(lb.id)
            self.strike(fault, gates, lambda: self.wait_until_whole(SIZE))

    def delete(self, kind):
        fault, gates = self.stop_at(kind, DELETE, self.fleet)
        lbs = list(self.fleet.values())
        for lb in lbs:
            self.cloud.delete_cluster(lb, wait=False)
        self.strike(fault, gates, lambda: [
            self.cloud.wait_until_gone(lb) for lb in lbs])
        self.wait_until(self.find_any, 'nothing of all that')

    def find_any(self):
        rows = self.get_amphorae() or self.rows('hmsync_cluster')
        left = [port.name for port in self.cloud.connection.network.ports()
                if port.name.startswith('octavia')]
        if rows or left or self.cloud.compute.instances:
            return f'{rows}, {left}, {self.cloud.compute.instances}'
        return None
