# SPDX-License-Identifier: Apache-2.0

"""What amphorae say while one of them is replaced.

By Octavia's own functions for a heartbeat, which health managers call.
"""

import itertools
import time

from octavia.amphorae.drivers.health import heartbeat_udp
from octavia.statistics import stats_base
from sqlalchemy import orm
from stevedore import extension

from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.sync.db import amphora_view as view_repo
from octavia_hmsync.sync.health_manager import statistics
from tests.cloud import records
from tests.db_cases import base

LONG = 1000


class HeartbeatMixin:
    """A load balancer of two amphorae whose heartbeats Octavia hears."""

    def begin(self):
        self.patch(compat, 'CONF', self.conf)
        self.patch(compat, 'service_name', lambda: 'health_manager')
        self.patch(heartbeat_udp.db_api, 'get_session',
                   lambda: orm.Session(self.engine))
        self.driver = statistics.AdoptionStatisticsDriver()
        self.patch(stats_base, '_STATS_HANDLERS',
                   extension.ExtensionManager.make_test_instance([
                       extension.Extension('hmsync', None, None,
                                           self.driver)]))
        self.lb_id = self.records.add_load_balancer()
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='PENDING_UPDATE')
        self.listener_id = self.records.add_listener(self.lb_id)
        self.pool_id = self.records.add_pool(self.lb_id)
        self.member_id = self.records.add_member(self.pool_id)
        self.old, self.new = self.add_amphorae(
            2, load_balancer_id=self.lb_id)
        self.seq = itertools.count()

    def replace(self, phase='PROVE'):
        """Have a replacement of it run, in a phase."""
        replace_repo.add(self.engine, replace_repo.New(
            records.new_id(), self.lb_id, 'replace', 'image'))
        claimed, = claims_repo.claim(self.engine, 'one', 1, LONG)
        claims_repo.set_phase(self.engine, claimed.id, 'one', LONG, phase)
        # As a look some time later.
        self.driver._pid = None
        return claimed.id

    def make_message(self, amphora_id, status='UP', listeners=None):
        """Return a heartbeat, as Octavia has unpacked it."""
        ids = [self.listener_id] if listeners is None else listeners
        return {'id': amphora_id, 'seq': next(self.seq), 'ver': 3,
                'recv_time': time.time(), 'listeners': {
                    listener_id: {'status': 'OPEN', 'stats': {
                        'tx': 0, 'rx': 0, 'conns': 0, 'totconns': 0,
                        'ereq': 0}} for listener_id in ids},
                'pools': {f'{self.pool_id}:{listener_id}': {
                    'status': 'UP' if status == 'UP' else 'DOWN',
                    'members': {self.member_id: status}}
                    for listener_id in ids}}

    def beat(self, *args, **keywords):
        """Have Octavia hear a heartbeat, as a health manager does it."""
        message = self.make_message(*args, **keywords)
        heartbeat_udp.UpdateHealthDb().update_health(message, '192.0.2.1')
        heartbeat_udp.update_stats(message)

    def get_row(self):
        """Return the status that Octavia has of the member."""
        return evidence_repo.read(self.engine, self.lb_id).members[
            self.member_id]

    def get_views(self):
        """Return (amphora id, status of the member) of what was said."""
        return [(view.amphora_id, view.members.get(self.member_id))
                for view in self.get_all()]

    def get_all(self):
        return view_repo.get(self.engine, self.lb_id, records.utcnow(
        ).replace(year=2000))


class AmphoraViewCases(HeartbeatMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.begin()

    def test_each_has_its_own_view(self):
        """The row has that of the last one, in whatever order they come."""
        self.replace()
        expected = []
        for one, two in itertools.product((self.old, self.new), repeat=2):
            for amphora_id in (one, two):
                status = 'UP' if amphora_id == self.old else 'DOWN'
                self.beat(amphora_id, status)
                expected.append((amphora_id, 'ONLINE' if status == 'UP'
                                 else 'ERROR'))
                self.assertEqual(expected[-1][1], self.get_row())
        self.assertEqual(expected, self.get_views())

    def test_in_two_processes(self):
        """Which of them writes the row last is chance."""
        self.replace()
        old, new = (self.make_message(self.old),
                    self.make_message(self.new, 'DOWN'))
        update = heartbeat_udp.UpdateHealthDb().update_health
        for first, second in ((old, new), (new, old)):
            heartbeat_udp.update_stats(second)
            update(first, '192.0.2.1')
            heartbeat_udp.update_stats(first)
            update(second, '192.0.2.1')
        self.assertEqual([(self.new, 'ERROR'), (self.old, 'ONLINE'),
                          (self.old, 'ONLINE'), (self.new, 'ERROR')],
                         self.get_views())

    def test_listeners(self):
        """Also of a heartbeat of which Octavia's drivers are told nothing."""
        self.replace()
        for listeners in ([self.listener_id], [], ['another']):
            self.beat(self.new, listeners=listeners)
        self.assertEqual([[self.listener_id], [], ['another']], [
            sorted(view.listeners) for view in self.get_all()])

    def test_phases(self):
        """Nothing is written when nobody looks at it."""
        self.beat(self.new)
        self.assertEqual([], self.get_views())
        for phase, number in ((None, 1), ('LOCK', 1), ('BUILD', 1),
                              ('PROVE', 1), ('SWITCH', 1),
                              ('PROVE_SWITCHED', 1), ('DELETE_OLD', 0),
                              ('UNLOCK', 0), ('BACK', 1), ('ASK', 1),
                              ('FAILOVER', 1), ('ORDER', 1)):
            replacement_id = self.replace(phase)
            self.beat(self.new)
            with self.subTest(phase=phase):
                self.assertEqual(number, len(self.get_views()))
            claims_repo.finish(self.engine, replacement_id, 'one', 'DONE')
            # It goes when the replacement ends.
            self.assertEqual([], self.get_views())
        self.driver._pid = None
        self.beat(self.new)
        self.assertEqual([], self.get_views())

    def test_of_others(self):
        """Another one's heartbeats, and end, are no matter."""
        replacement_id = self.replace()
        other, = self.add_amphorae(
            1, load_balancer_id=self.records.add_load_balancer())
        self.beat(other)
        self.beat(self.old)
        self.assertEqual(1, len(self.rows(models.AmphoraView)))
        claims_repo.finish(self.engine, replacement_id, 'another', 'DONE')
        self.assertEqual(1, len(self.get_views()))

    def test_late(self):
        """What is recorded as the replacement ends goes some time later."""
        replacement_id = self.replace()
        self.beat(self.old)
        claims_repo.finish(self.engine, replacement_id, 'one', 'DONE')
        self.beat(self.old)
        self.assertEqual(1, len(self.get_views()))
        view_repo.delete_old(self.engine)
        self.assertEqual(1, len(self.get_views()))
        self.make_older(models.AmphoraView, 'seen_at',
                        view_repo.RETENTION + 1)
        view_repo.delete_old(self.engine)
        self.assertEqual([], self.rows(models.AmphoraView))

    def test_since(self):
        self.replace()
        self.beat(self.old)
        self.make_older(models.AmphoraView, 'seen_at', LONG)
        self.beat(self.new)
        since = self.get_all()[-1].seen_at
        self.assertEqual([self.new], [
            view.amphora_id for view in view_repo.get(
                self.engine, self.lb_id, since)])

    def test_a_thousand_members(self):
        self.replace()
        members = {records.new_id(): 'UP' for _ in range(1000)}
        message = self.make_message(self.new)
        message['pools'] = {'pool:listener': {'status': 'UP',
                                              'members': members}}
        heartbeat_udp.update_stats(message)
        view, = self.get_all()
        self.assertEqual(dict.fromkeys(members, 'ONLINE'), view.members)

    def test_without_an_end(self):
        self.replace()
        message = self.make_message(self.new)
        message['pools'] = {'pool:listener': {'status': 'UP', 'members': {
            f'{number:036}': 'UP' for number in range(25000)}}}
        heartbeat_udp.update_stats(message)
        self.assertEqual([], self.get_all())

    def test_at_rest(self):
        """One statement, a few times in an interval; nothing is written."""
        now = 0.0
        one = statistics.ViewRecorder(self.conf, self.engine, lambda: now)
        with self.count_statements() as statements:
            for now in range(0, 100):
                one.note(self.make_message(self.old))
        interval = self.conf.health_manager.heartbeat_interval
        self.assertLessEqual(len(statements), 4 * 100 / interval)
        self.assertEqual({'SELECT'}, {text.split()[0] for text in statements})
