# SPDX-License-Identifier: Apache-2.0

"""Members of clusters that fall silent, and Octavia, which keeps out of it."""

import datetime
from unittest import mock

from octavia.db import models as lb_models
from octavia.db import repositories
from oslo_utils import timeutils
import sqlalchemy as sa
from sqlalchemy import orm

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_health as health_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import shown_status
from octavia_hmsync.cluster import member_watch
from octavia_hmsync.cluster import status_floor
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import guard
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.sync import amphora

TIMEOUT = 60
PROBE = TIMEOUT / 8
LONG = 10000


class _Cases(amphora.AmphoraCases):
    """A cluster, and a watch that looks at its members."""

    def setUp(self):
        super().setUp()
        # No process keeps health managers alive here.
        self.conf.set_override('offline_after', 3600, 'hmsync')
        self.now = 0.0
        self.lb = self.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb))
        self.watch = self.make_watch()

    def make_watch(self):
        return member_watch.MemberWatch(self.conf, self.engine,
                                        lambda: self.now)

    def add_members(self, number=1, age=TIMEOUT + 5, busy=True):
        ids = self.add_amphorae(number, load_balancer_id=self.lb,
                                role='IN_CLUSTER')
        for amphora_id in ids:
            self.records.set_health(amphora_id, age=age, busy=busy)
            member_repo.add(self.engine, 'cluster1', amphora_id, 8)
            member_repo.assign_amphora(self.engine, amphora_id, amphora_id)
            member_repo.set_state(self.engine, amphora_id, ('BUILDING',),
                                  'ACTIVE')
        return ids

    def health(self):
        return {row['amphora_id']: bool(row['busy'])
                for row in self.records.rows('amphora_health')}

    def delete_health(self, amphora_id):
        table = self.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(sa.delete(table).where(
                table.c.amphora_id == amphora_id))


class MemberSilenceCases(_Cases):

    def setUp(self):
        super().setUp()
        generation_repo.publish(self.engine, 1, dict(
            zip(amphora.LIST, range(2))), 'because', 'controller1')

    def add_members(self, number=1, has_list=True, **values):
        ids = super().add_members(number, **values)
        amphora.amphora_repo.add_missing(self.engine)
        if has_list:
            self.claim()
            for amphora_id in ids:
                self.record(amphora_id)
            self.make_older(models.Amphora, 'applied_at', LONG)
        return ids

    def listen(self, *numbers, seconds=LONG):
        """Have health managers at addresses of LIST for some time."""
        for number in numbers:
            host = f'hm{number}'
            hm_repo.register(self.engine, host, f'192.0.2.10{number}', 5555,
                             host, 20)
            self.make_older(models.HealthManager, 'online_since', seconds,
                            host=host)

    def look(self, times=6, watch=None):
        """Look, for most of a heartbeat_timeout; return the silent ones."""
        for _ in range(times):
            (watch or self.watch).run_once()
            self.now += PROBE
        return self.silent()

    def silent(self):
        """Ids of members, which are those of their amphorae here."""
        return {member_id for member_id, look in probe_repo.get_of_observer(
            self.engine, probe_repo.HEARTBEATS).items()
            if look.state == 'DOWN'}

    def beat(self, amphora_id, age=0):
        self.records.set_health(amphora_id, age=age, busy=True)

    def test_silent(self):
        self.listen(1, 2)
        silent, = self.add_members()
        self.add_members(age=1)
        # One that is none has Octavia to look after it.
        other, = self.add(1)
        self.records.set_health(other, age=TIMEOUT + 5)
        self.assertEqual(set(), self.look(1))
        self.assertEqual({silent}, self.look())
        before = self.rows(models.MemberProbe)
        self.assertIn('No heartbeat since', before[0].error)
        self.assertEqual({silent}, self.look(20))
        self.assertEqual(before, self.rows(models.MemberProbe))

    def test_what_distributors_do_does_not_change(self):
        """It says nothing of where connections go, nor of its state."""
        self.listen(1, 2)
        silent, = self.add_members()
        version = cluster_repo.get(self.engine, 'cluster1').version
        before = member_repo.get_by_amphora(self.engine, silent)
        self.look()
        after = member_repo.get_by_amphora(self.engine, silent)
        self.assertEqual((before.state, before.updated_at, version), (
            after.state, after.updated_at,
            cluster_repo.get(self.engine, 'cluster1').version))

    def test_heard_again(self):
        self.listen(1, 2)
        silent, = self.add_members()
        self.assertEqual({silent}, self.look())
        self.beat(silent)
        self.assertEqual(set(), self.look(1))

    def test_heard_by_one_whose_clock_is_behind(self):
        """Each heartbeat seems to be an old one, and is another one."""
        self.listen(1, 2)
        silent, = self.add_members()
        self.assertEqual({silent}, self.look())
        self.beat(silent, age=TIMEOUT + 2)
        self.assertEqual(set(), self.look(1))
        for age in (TIMEOUT + 1, TIMEOUT + 3, TIMEOUT + 2) * 8:
            self.beat(silent, age=age)
            self.assertEqual(set(), self.look(1))

    def test_nobody_could_hear_it(self):
        """For as long as that may be."""
        silent, = self.add_members()
        self.assertEqual(set(), self.look(10))
        # Octavia would be allowed to fail it over by now.
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Amphora).values(
                held_since=sa.text("'2020-01-01'"),
                held_at=sa.text("'2037-01-01'")))
        self.assertEqual(set(), self.look(10))
        # Those who come listen for a while first.
        self.listen(1, 2, seconds=1)
        self.assertEqual(set(), self.look(10))
        self.listen(1, 2)
        self.assertEqual({silent}, self.look())

    def test_nobody_can_hear_it_any_more(self):
        self.listen(1, 2)
        silent, = self.add_members()
        self.assertEqual({silent}, self.look())
        for host in ('hm1', 'hm2'):
            hm_repo.set_offline(self.engine, host, host)
        self.assertEqual(set(), self.look(1))

    def test_never_had_a_list(self):
        """Where it sends to is not known."""
        self.listen(1, 2)
        self.add_members(has_list=False)
        self.assertEqual(set(), self.look(10))

    def test_watch_that_has_just_begun(self):
        """As after a database that nobody could write to for a while."""
        self.listen(1, 2)
        self.add_members()
        self.assertEqual(set(), self.look(3))
        self.now += 10 * TIMEOUT
        self.assertEqual(set(), self.look(3))

    def test_another_watch_begins(self):
        """It takes none of that back."""
        self.listen(1, 2)
        silent, = self.add_members()
        self.assertEqual({silent}, self.look())
        self.assertEqual({silent}, self.look(1, self.make_watch()))

    def test_several_watches_at_once(self):
        self.listen(1, 2)
        ids = set(self.add_members(4))
        watches = [self.make_watch() for _ in range(4)]
        for _ in range(6):
            self.run_at_once([watch.run_once for watch in watches])
            self.now += PROBE
        self.assertEqual(ids, self.silent())

    def test_at_rest(self):
        """One statement, however many there are, and one for statuses."""
        self.add_members(4, age=1)
        cluster_repo.set_status(self.engine, 'cluster1',
                                operating_status='ONLINE')
        self.look(1)
        self.now += PROBE
        with self.count_statements() as statements:
            self.watch.run_once()
            self.watch.run_once()
        # What is shown is looked at each time.
        self.assertEqual(4, len(statements), statements)

    def test_those_that_are_taken_apart(self):
        self.listen(1, 2)
        gone, deleted = self.add_members(2)
        self.records.change('amphora', gone, load_balancer_id=None)
        self.records.set_status(deleted, 'PENDING_DELETE')
        self.assertEqual(set(), self.look(10))


class NoFailoverCases(_Cases):
    """Octavia's own code, and what may have become of a member's row."""

    def find_stale(self):
        """The ids of all whom Octavia would fail over now."""
        found = set()
        with orm.Session(self.engine) as session:
            repository = repositories.AmphoraHealthRepository()
            while stale := repository.get_stale_amphora(session):
                found.add(stale.amphora_id)
                session.commit()
        return found

    def beat(self, amphora_id):
        """As Octavia's listener records a heartbeat."""
        with orm.Session(self.engine) as session, session.begin():
            repositories.AmphoraHealthRepository().replace(
                session, amphora_id, last_update=timeutils.utcnow())

    def age(self, amphora_id):
        table = self.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(table).where(table.c.amphora_id == amphora_id)
                .values(last_update=timeutils.utcnow() -
                        datetime.timedelta(seconds=LONG)))

    def keep(self):
        """As each health manager does it."""
        return health_repo.keep_from_failover(
            self.engine, health_repo.scan(self.engine, 30).unmarked)

    def test_silent_for_ever(self):
        member, = self.add_members(age=LONG)
        other, = self.add_amphorae(1)
        self.records.set_health(other, age=LONG)
        self.assertEqual({other}, self.find_stale())
        self.assertEqual([], self.keep())
        self.assertEqual({member: True, other: True}, self.health())

    def test_heartbeats_leave_it(self):
        member, = self.add_members()
        self.beat(member)
        self.age(member)
        self.assertEqual(set(), self.find_stale())

    def test_row_lost(self):
        """Something of Octavia's has deleted it; a heartbeat comes first."""
        member, = self.add_members()
        self.delete_health(member)
        self.beat(member)
        self.assertEqual({member: False}, self.health())
        self.assertEqual([member], self.keep())
        self.age(member)
        self.assertEqual(set(), self.find_stale())
        self.assertEqual([], self.keep())

    def test_row_lost_and_nothing_heard(self):
        """It is there again before a heartbeat could make it."""
        member, = self.add_members()
        self.delete_health(member)
        self.assertEqual([member], self.keep())
        self.beat(member)
        self.age(member)
        self.assertEqual(set(), self.find_stale())

    def test_flow_of_octavia_undone(self):
        """It takes back that a row is busy."""
        member, = self.add_members(age=LONG)
        with orm.Session(self.engine) as session, session.begin():
            repositories.AmphoraHealthRepository().update(
                session, member, busy=False)
        self.assertEqual([member], self.keep())
        self.assertEqual(set(), self.find_stale())

    def test_never_without_the_plugin(self):
        """What somebody begins who lacks the plugin touches no row."""
        member, = self.add_members(age=LONG)
        before = self.health()
        for _ in range(3):
            self.assertEqual(set(), self.find_stale())
        self.assertEqual(before, self.health())

    def test_threshold(self):
        """They do not count towards failover_threshold, nor are stopped."""
        self.add_members(4, age=LONG)
        compat.CONF.set_override('failover_threshold', 1, 'health_manager')
        self.addCleanup(compat.CONF.clear_override, 'failover_threshold',
                        'health_manager')
        self.assertEqual(set(), self.find_stale())
        self.assertEqual({'ALLOCATED'}, {
            row['status'] for row in self.records.rows('amphora')})

    def test_stopped_and_failed_ones(self):
        """What Octavia did to them before changes nothing."""
        stopped, failed = self.add_members(2, age=LONG, busy=False)
        self.records.set_status(stopped, 'FAILOVER_STOPPED')
        self.records.set_status(failed, 'ERROR')
        self.assertEqual({stopped, failed}, set(self.keep()))
        self.assertEqual(set(), self.find_stale())

    def test_guard(self):
        """The guard holds nobody whom Octavia leaves alone."""
        member, = self.add_members(age=LONG)
        self.assertEqual(set(), guard.FailoverGuard(
            self.conf, self.engine).run_once())

    def test_those_that_are_taken_apart(self):
        """Nobody makes a row for what is about to be gone."""
        gone, deleted = self.add_members(2)
        self.records.change('amphora', gone, load_balancer_id=None)
        self.records.set_status(deleted, 'PENDING_DELETE')
        for amphora_id in (gone, deleted):
            self.delete_health(amphora_id)
        self.assertEqual([], self.keep())
        self.assertEqual({}, self.health())

    def test_at_once(self):
        """Heartbeats, and several who keep the rows right."""
        ids = self.add_members(4)
        for amphora_id in ids:
            self.delete_health(amphora_id)
        self.run_at_once([self.keep] * 3)
        self.assertEqual(dict.fromkeys(ids, True), self.health())

    def test_watch(self):
        """Each health manager does it, as often as it looks."""
        member, = self.add_members(busy=False)
        self.watch.run_once()
        self.assertEqual({member: True}, self.health())


class ShownStatusCases(_Cases):

    def show(self, cluster, shown, enabled=True):
        cluster_repo.set_status(self.engine, 'cluster1',
                                operating_status=cluster)
        self.records.change('load_balancer', self.lb, enabled=enabled,
                            operating_status=shown)

    def shown(self):
        row, = self.records.rows('load_balancer')
        return row['operating_status']

    def test_lower(self):
        for cluster, shown, expected in (
                ('ONLINE', 'ONLINE', 'ONLINE'),
                ('ONLINE', 'DEGRADED', 'DEGRADED'),
                ('DEGRADED', 'ONLINE', 'DEGRADED'),
                ('DEGRADED', 'DEGRADED', 'DEGRADED'),
                ('DEGRADED', 'ERROR', 'ERROR'),
                ('DEGRADED', 'OFFLINE', 'OFFLINE'),
                ('ERROR', 'ONLINE', 'ERROR'),
                ('ERROR', 'DEGRADED', 'ERROR'),
                # One that nobody has judged yet.
                ('OFFLINE', 'ONLINE', 'ONLINE')):
            self.show(cluster, shown)
            self.assertEqual(
                {} if shown == expected else {self.lb: expected},
                shown_status.lower(self.engine))
            self.assertEqual(expected, self.shown())

    def test_disabled(self):
        self.show('OFFLINE', 'ONLINE', enabled=False)
        self.assertEqual({self.lb: 'OFFLINE'},
                         shown_status.lower(self.engine))
        self.assertEqual({}, shown_status.lower(self.engine))
        # Somebody looks at the cluster after it was disabled.
        self.show('DEGRADED', 'OFFLINE', enabled=False)
        self.assertEqual({}, shown_status.lower(self.engine))

    def test_floor(self):
        statuses = ('ONLINE', 'DEGRADED', 'ERROR', 'OFFLINE')
        for cluster, expected in (
                ('ONLINE', statuses), ('OFFLINE', statuses),
                ('DEGRADED', ('DEGRADED', 'DEGRADED', 'ERROR', 'OFFLINE')),
                ('ERROR', ('ERROR', 'ERROR', 'ERROR', 'OFFLINE'))):
            self.assertEqual(expected, tuple(
                shown_status.floor(status, cluster) for status in statuses))

    def test_by_the_watch(self):
        for show_status, expected in ((False, 'ONLINE'), (True, 'DEGRADED')):
            self.show('DEGRADED', 'ONLINE')
            self.conf.set_override('show_status', show_status,
                                   'hmsync_cluster')
            self.watch.run_once()
            self.assertEqual(expected, self.shown())


class StatusFloorCases(ShownStatusCases):
    """What Octavia's listener writes, by Octavia's own code."""

    def setUp(self):
        super().setUp()
        self.floor = status_floor.StatusFloor()
        self.floor.register()
        self.addCleanup(self.floor.unregister)
        self.before = datetime.datetime(2020, 1, 1)

    def write(self, lb=None, **values):
        with orm.Session(self.engine) as session, session.begin():
            repositories.LoadBalancerRepository().update(
                session, lb or self.lb, **values)

    def row(self, lb=None):
        return next(row for row in self.records.rows('load_balancer')
                    if row['id'] == (lb or self.lb))

    def test_written(self):
        for cluster, shown, new, expected, is_changed in (
                ('DEGRADED', 'DEGRADED', 'ONLINE', 'DEGRADED', False),
                ('DEGRADED', 'ERROR', 'ONLINE', 'DEGRADED', True),
                ('DEGRADED', 'ONLINE', 'ERROR', 'ERROR', True),
                ('DEGRADED', 'ONLINE', 'OFFLINE', 'OFFLINE', True),
                ('DEGRADED', 'OFFLINE', 'ONLINE', 'DEGRADED', True),
                ('ERROR', 'ERROR', 'DEGRADED', 'ERROR', False),
                ('ERROR', 'ERROR', 'ONLINE', 'ERROR', False),
                ('OFFLINE', 'OFFLINE', 'ONLINE', 'ONLINE', True),
                ('ONLINE', 'DEGRADED', 'ONLINE', 'ONLINE', True)):
            self.show(cluster, shown)
            self.records.change('load_balancer', self.lb,
                                updated_at=self.before)
            self.write(operating_status=new)
            row = self.row()
            self.assertEqual(expected, row['operating_status'])
            self.assertEqual(is_changed, row['updated_at'] != self.before)

    def test_other_statements(self):
        self.show('ERROR', 'ERROR')
        self.write(operating_status='ONLINE', provisioning_status='ACTIVE')
        self.assertEqual('ONLINE', self.row()['operating_status'])
        self.show('ERROR', 'ERROR')
        self.write(name='other')
        self.assertEqual('other', self.row()['name'])
        listener = self.records.add_listener(self.lb)
        with orm.Session(self.engine) as session, session.begin():
            repositories.ListenerRepository().update(
                session, listener, operating_status='DEGRADED')
        self.assertEqual(['DEGRADED'], [
            row['operating_status'] for row in self.records.rows('listener')])

    def test_load_balancers_without_a_cluster(self):
        other = self.records.add_load_balancer()
        self.show('ERROR', 'ERROR')
        for status in ('DEGRADED', 'ONLINE'):
            self.write(other, operating_status=status)
            self.assertEqual(status, self.row(other)['operating_status'])

    def test_none_of_those_statements(self):
        """Also ones that Octavia does not have."""
        self.show('ERROR', 'ERROR')
        table = lb_models.LoadBalancer
        with orm.Session(self.engine) as session, session.begin():
            session.execute(sa.update(table).values(
                operating_status='ONLINE'))
            session.get(table, self.lb).description = 'other'
            session.execute(sa.select(table)).all()
        self.assertEqual('ONLINE', self.row()['operating_status'])

    def test_tables_that_are_not_there(self):
        """As before the plugin's tables are made."""
        self.show('ERROR', 'ERROR')
        with mock.patch.object(shown_status, 'select', autospec=True,
                               return_value=sa.text('SELECT * FROM none')):
            with self.assertLogs(status_floor.LOG.logger, 'WARNING') as logs:
                for status in ('DEGRADED', 'ONLINE'):
                    self.write(operating_status=status)
        self.assertEqual('ONLINE', self.row()['operating_status'])
        # Once.
        self.assertEqual(1, len(logs.output), logs.output)

    def test_off(self):
        self.floor.unregister()
        self.show('DEGRADED', 'DEGRADED')
        self.write(operating_status='ONLINE')
        self.assertEqual('ONLINE', self.row()['operating_status'])

    def test_twice(self):
        self.floor.register()
        self.show('DEGRADED', 'ERROR')
        with self.count_statements() as statements:
            self.write(operating_status='ONLINE')
        self.assertEqual(2, len(statements), statements)
