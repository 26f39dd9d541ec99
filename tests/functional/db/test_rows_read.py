# SPDX-License-Identifier: Apache-2.0

"""How many rows the services read in a minute in which nothing happens.

``python -m tests.functional.db.test_rows_read`` prints the figures.
"""

import time
import unittest

import sqlalchemy as sa
from testtools import content

from octavia_hmsync import addresses as addr
from octavia_hmsync.cluster import member_watch
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync.health_manager import keepalive
from octavia_hmsync.sync.health_manager import observer
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.house_keeping import adoption_watch
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync.house_keeping import synchronizer
from tests.cloud import records
from tests.db_cases import base
from tests.functional.db import mariadb
from tests.unit import fakes

KEY = 'the key of all controllers'
HOUR = 3600
FEW, MANY = 100, 10000
# Seconds between two looks, the default of poll_interval.
POLL = 2
LIST = tuple(f'192.0.2.{n}:5555' for n in (101, 102, 103))

# Rows in a minute, for one process of each kind, however large the fleet.
LIMITS = {
    'planner': 1000, 'synchronizer': 13000, 'adoption watch': 1000,
    'failover guard': 8000, 'adoption observer': 4000, 'keepalive': 200,
    'controller list': 200, 'members of clusters': 600}
# Of each member of a cluster.
LIMIT_OF_MEMBER = 24

_ROWS = sa.text("SHOW SESSION STATUS WHERE variable_name LIKE "
                "'Handler_read_%' OR variable_name = 'Handler_icp_attempts'")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Listener:
    """Listens all the time."""

    def has_stopped(self):
        return False

    is_starting = is_stopping = has_stopped

    def is_listening(self):
        return True


class AddressDriver:

    def get(self):
        return '192.0.2.101'


class FleetAtRest(mariadb.OwnMariaDBMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.install_driver(self)
        self.conf = self.make_conf(
            DEFAULT={'host': 'hm1'},
            database={'connection': self.database.connection},
            controller_worker={'amphora_driver': fakes.DRIVER,
                               'statistics_drivers': ['stats_db', 'hmsync']},
            health_manager={'heartbeat_key': KEY})
        # Of one connection, whose session counts.
        self.engine = api.create_engine(self.conf, connections=1)
        self.addCleanup(self.engine.dispose)
        self.clock = Clock()

    # What there is

    def publish(self, number):
        """Have all generations up to a number, all of one list."""
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.Generation), [{
                'number': n, 'reason': 'because', 'wave': 0,
                'controller_ip_port_list': addr.join_list(LIST),
                'slots': '0, 1, 2', 'status': 'OPEN',
                'published_by': 'controller1',
                'published_at': records.utcnow()}
                for n in range(1, number + 1)])
            connection.execute(sa.update(models.Generation).values(
                published_at=types.utcnow_plus(-HOUR),
                completed_at=types.utcnow_plus(-HOUR)))

    def listen(self):
        for number, address in enumerate(LIST, 1):
            ip, port = address.split(':')
            hm_repo.register(
                self.engine, f'hm{number}', ip, int(port), f'hm{number}',
                HOUR, heartbeat_key.digest(KEY), is_observing=True)
            hm_repo.set_heard(self.engine, f'hm{number}', f'hm{number}')
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.HealthManager).values(
                online_since=types.utcnow_plus(-HOUR),
                keepalive_at=types.utcnow_plus(HOUR)))

    def fill(self, number, generation=1):
        """Have amphorae at rest, heard all the time."""
        self.empty()
        self.listen()
        self.publish(generation)
        ids = [records.new_id() for _ in range(number)]
        now = records.utcnow()
        for n in range(0, number, 1000):
            self.records.insert_all({
                'amphora': [records.amphora_row(i, '192.0.2.1')
                            for i in ids[n:n + 1000]],
                'amphora_health': [
                    {'amphora_id': i, 'busy': False,
                     'last_update': now.replace(year=now.year + 1)}
                    for i in ids[n:n + 1000]]})
            with self.engine.begin() as connection:
                connection.execute(sa.insert(models.Amphora), [{
                    'amphora_id': i, 'generation': generation,
                    'controller_ip_port_list': addr.join_list(LIST),
                    'attempts': 1, 'attempted_generation': generation,
                    'result': 'APPLIED', 'has_changed_list': False}
                    for i in ids[n:n + 1000]])
        self.change(applied_at=types.utcnow_plus(-HOUR),
                    adopted_at=types.utcnow_plus(-HOUR))
        self.analyze()
        return ids

    def change(self, ids=None, **values):
        update = sa.update(models.Amphora).values(**values)
        if ids is not None:
            update = update.where(models.Amphora.amphora_id.in_(ids))
        with self.engine.begin() as connection:
            connection.execute(update)

    def analyze(self):
        """Have the statistics that a server makes by itself, in time."""
        with self.engine.begin() as connection:
            for table in ('amphora', 'amphora_health', 'hmsync_amphora',
                          'hmsync_generation', 'hmsync_heartbeat',
                          'hmsync_image_replacement', 'hmsync_previous_list'):
                connection.execute(sa.text(f'ANALYZE TABLE {table}')).all()

    def replace(self, ids, open_):
        """Have a replacement of each, the first ones of which are open."""
        now = records.utcnow()
        for n in range(0, len(ids), 1000):
            with self.engine.begin() as connection:
                connection.execute(sa.insert(models.ImageReplacement), [{
                    'id': records.new_id(), 'load_balancer_id': i,
                    'active_key': i if n + m < open_ else None,
                    'mode': 'replace', 'canary': False, 'attempts': 1,
                    'state': 'RUNNING' if n + m < open_ else 'DONE',
                    'phase': 'SWITCH' if n + m < open_ else 'UNLOCK',
                    'old_amphora_id': i, 'new_amphora_id': records.new_id(),
                    'created_at': now}
                    for m, i in enumerate(ids[n:n + 1000])])
        self.analyze()

    def fail_for_ever(self, ids):
        self.driver.broken.update(ids)
        self.change(ids, next_attempt_at=types.utcnow_plus(HOUR),
                    result='UNREACHABLE', error='no route to host',
                    attempts=50)
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Generation).where(
                models.Generation.number == 2).values(completed_at=None))
        self.analyze()

    # What they do

    def services(self):
        """What runs, {name: (seconds between two calls, function)}."""
        sync = synchronizer.Synchronizer(self.conf, self.engine, self.engine,
                                         lambda: None)
        self.addCleanup(sync.stop)

        def synchronize():
            sync.run_once()
            sync._batches.wait()

        observes = observer.AdoptionObserver(self.conf, self.engine,
                                             'hm1', self.clock)
        hm1 = keepalive.Keepalive(
            self.conf, self.engine, AddressDriver(), Listener(), 'hm1')
        watch = adoption_watch.AdoptionWatch(self.conf, self.engine,
                                             self.clock)
        plans = planner.Planner(self.conf, self.engine, lambda: (),
                                self.clock)
        return {
            'planner': (POLL, plans.run_once),
            'synchronizer': (POLL, synchronize),
            'adoption watch': (POLL, watch.run_once),
            'failover guard': (POLL, guard.FailoverGuard(
                self.conf, self.engine, clock=self.clock).run_once),
            'adoption observer': (5, observes.observe_any),
            'members of clusters': (POLL, member_watch.MemberWatch(
                self.conf, self.engine, self.clock).run_once),
            'keepalive': (self.conf.hmsync.keepalive_interval, hm1.beat),
            'controller list': (
                POLL, lambda: generation_repo.get_last_good(self.engine)),
        }

    def rows_read(self):
        with self.engine.connect() as connection:
            return sum(int(value) for _, value in
                       connection.execute(_ROWS).all())

    def count(self, function):
        """Return the rows that a function reads."""
        # Counting counts as well.
        first, second = self.rows_read(), self.rows_read()
        function()
        return self.rows_read() - second - (second - first)

    def measure(self):
        """Return the rows that each service reads in a minute, a dict.

        When it has run for a minute.
        """
        measured = {}
        for name, (interval, function) in self.services().items():
            def run(interval=interval, function=function):
                for _ in range(round(60 / interval)):
                    self.clock.now += interval
                    function()

            run()
            measured[name] = self.count(run)
        return measured


class TestRowsRead(FleetAtRest):

    def check(self, prepare):
        """Compare a small with a large fleet."""
        for number in (FEW, MANY):
            prepare(number)
            measured = self.measure()
            if any(rows > LIMITS[name] for name, rows in measured.items()):
                # MariaDB plans by a few pages that it takes at random, anew
                # when many rows have changed; once in a while for the worse.
                self.analyze()
                measured = self.measure()
            for name, rows in measured.items():
                with self.subTest(name=name, amphorae=number):
                    self.assertLessEqual(rows, LIMITS[name])

    def test_at_rest(self):
        self.check(self.fill)

    def prepare_unreachable(self, number):
        ids = self.fill(number, 2)[:number // 100]
        self.change(ids, generation=1, attempted_generation=2)
        self.fail_for_ever(ids)

    def test_unreachable_for_ever(self):
        self.check(self.prepare_unreachable)

    def prepare_never_reached(self, number):
        ids = self.fill(number, 2)[:number // 100]
        self.change(ids, generation=None, attempted_generation=2,
                    controller_ip_port_list=None, applied_at=None,
                    adopted_at=None)
        self.fail_for_ever(ids)

    def test_never_reached(self):
        self.check(self.prepare_never_reached)

    def prepare_unproven(self, number):
        ids = self.fill(number)
        self.change(adopted_at=None)
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.PreviousList), [{
                'amphora_id': amphora_id, 'number': 1,
                'controller_ip_port_list': addr.join_list(LIST[:2])}
                for amphora_id in ids])
        self.analyze()
        return ids

    def test_unproven_for_ever(self):
        self.check(self.prepare_unproven)

    def prepare_replaced(self, number):
        """All were replaced once, and some are now, with a new list."""
        ids = self.fill(number, 2)
        self.change(ids[:3], generation=1)
        self.replace(ids, 3)

    def test_replaced(self):
        self.check(self.prepare_replaced)

    def test_many_generations(self):
        self.check(lambda number: self.fill(number, 1000))


class TestClustersAtRest(FleetAtRest):

    def make_clusters(self, ids, size=4):
        """Have amphorae be members of clusters, all of which are well."""
        clusters = [records.new_id() for _ in ids[::size]]
        now = records.utcnow()
        self.records.insert_all({'load_balancer': [
            records.load_balancer_row(i, 'ACTIVE_ACTIVE') for i in clusters]})
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.Cluster), [{
                'id': i, 'load_balancer_id': i, 'cluster_name': i,
                'desired_size': size, 'size': size, 'min_size': 2,
                'cooldown': 0,
                'distributor': 'hmsync_ovs', 'provisioning_status': 'ACTIVE',
                'operating_status': 'ONLINE', 'enabled': True,
                'cluster_type': 'reference', 'affinity': 'FLOW',
                'peer_group_size': 2, 'standby': 0, 'version': 1,
                'created_at': now, 'updated_at': now} for i in clusters])
            connection.execute(sa.insert(models.ClusterMember), [{
                'id': i, 'amphora_id': i, 'cluster_id': clusters[n // size],
                'slot': n % size, 'peer_group': n % size // 2,
                'state': 'ACTIVE', 'health': 'HEALTHY', 'idle_timeout': 50,
                'created_at': now, 'updated_at': now}
                for n, i in enumerate(ids)])
            health = self.records.tables['amphora_health']
            connection.execute(sa.update(health).values(busy=True))
        with self.engine.begin() as connection:
            for table in ('hmsync_cluster', 'hmsync_cluster_member',
                          'amphora_health', 'load_balancer'):
                connection.execute(sa.text(f'ANALYZE TABLE {table}')).all()

    def test_at_rest(self):
        """Each health manager has to look whether one is silent."""
        for number in (400, 4000):
            self.make_clusters(self.fill(number))
            interval, run_once = self.services()['members of clusters']

            def run():
                for _ in range(round(60 / interval)):
                    self.clock.now += interval
                    run_once()

            run()
            begun = time.process_time()
            rows = self.count(run)
            self.addDetail(f'{number} members', content.text_content(
                f'{rows} rows, {time.process_time() - begun:.3f} s'))
            self.assertLessEqual(rows, LIMIT_OF_MEMBER * number)


class Figures(FleetAtRest):
    """Prints a table, for benchmarks/README.rst."""

    # Not a test, for whoever looks for them.
    def print_table(self):
        subject = TestRowsRead
        for name, prepare in (
                ('at rest', self.fill),
                ('1 % unreachable',
                 lambda n: subject.prepare_unreachable(self, n)),
                ('1 % never reached',
                 lambda n: subject.prepare_never_reached(self, n)),
                ('all unproven',
                 lambda n: subject.prepare_unproven(self, n)),
                ('all replaced once',
                 lambda n: subject.prepare_replaced(self, n)),
                ('1000 generations', lambda n: self.fill(n, 1000))):
            for number in (FEW, MANY):
                prepare(number)
                print(f'{name}, {number} amphorae:')
                for service, rows in self.measure().items():
                    print(f'  {service:20} {rows:10}')


if __name__ == '__main__':
    suite = unittest.TestSuite([Figures('print_table')])
    unittest.TextTestRunner().run(suite)
