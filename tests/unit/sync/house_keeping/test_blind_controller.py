# SPDX-License-Identifier: Apache-2.0

"""Housekeepers with real clients, of which one cannot upload."""

import collections
import datetime
import os
import shutil
from unittest import mock

import fixtures
from oslo_db import exception as db_exc
from oslo_utils import fixture
import testtools

from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync.house_keeping import synchronizer
from tests.cloud import ailing
from tests.cloud import certificates
from tests.cloud import network
from tests.cloud import waiting
from tests.db_cases import base
from tests.unit.db import sqlite

AMPHORAE = 12


class _TestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.certificates = self.useFixture(certificates.Certificates(
            self.useFixture(fixtures.TempDir()).path))
        self.port = network.free_port()
        self.ids = []
        for n in range(1, AMPHORAE + 1):
            amphora_id = self.records.add_amphora(f'127.0.1.{n}')
            self.records.set_health(amphora_id, age=45)
            self.useFixture(ailing.AilingAmphora(
                amphora_id, f'127.0.1.{n}', self.certificates,
                ailing.HEALTHY, port=self.port))
            self.ids.append(amphora_id)

    def make(self, host, port, **haproxy):
        conf = self.make_conf(
            DEFAULT={'host': host},
            controller_worker={'amphora_driver': compat.REST_DRIVER},
            haproxy_amphora={
                'bind_port': port,
                'client_cert': self.certificates.client_path,
                'server_ca':
                    self.certificates.server_authority.certificate_path,
                **haproxy},
            health_manager={'heartbeat_key': 'the key'},
            hmsync={'retry_interval': 1})
        subject = synchronizer.Synchronizer(conf, self.engine, self.engine,
                                            lambda: None)
        self.addCleanup(subject.stop)
        return subject

    def run_until(self, subject, is_enough):
        """Run as the periodic thread does, until the results are enough."""
        results = collections.Counter()

        def has_enough():
            results.update(subject.run_once())
            return is_enough(results)

        waiting.wait_for(has_enough, lambda: f'more than {results}')
        return results

    def count_behind(self):
        return amphora_repo.count(self.engine, 1).due


class TestTwoHousekeepers(_TestCase):
    """Nobody listens where one of them looks."""

    def test_all_health_managers_were_replaced(self):
        """The blind one tries again and again before the other one starts."""
        generation_repo.publish(self.engine, 1, {'192.0.2.1:5555': 0},
                                'all are new', 'here')
        blind = self.make('blind', 1)
        self.run_until(blind,
                       lambda results: results['UNREACHABLE'] >= 2 * AMPHORAE)
        # Nobody is given up for what it found.
        self.records.set_health(*self.ids, age=45)
        self.assertEqual(set(self.ids),
                         guard.FailoverGuard(self.conf,
                                             self.engine).run_once())
        good = self.make('good', self.port)
        self.assertEqual({'APPLIED': AMPHORAE}, self.run_until(
            good, lambda results: results.total() >= AMPHORAE))
        self.assertEqual(0, self.count_behind())


class TestWhyItUploadsNothing(_TestCase):
    """It is in the row of the housekeeper until uploads are possible again."""

    def setUp(self):
        super().setUp()
        generation_repo.publish(self.engine, 1, {'192.0.2.1:5555': 0},
                                'all are new', 'here')

    def work(self, subject):
        """Pass as the threads of the service do.

        :returns: what the row of the housekeeper says then.
        """
        try:
            subject.work()
            subject._batches.wait()
            subject.work()
        except exceptions.HMSyncException:
            pass
        keeper = planner.Planner(self.conf, self.engine, lambda: (),
                                 get_problem=lambda: subject.problem)
        keeper.run_once()
        problem, = keeper_repo.get_up(self.engine, 60).values()
        return problem

    def assertUploads(self, subject):
        waiting.wait_for(lambda: self.work(subject) is None and
                         not self.count_behind(), 'all have their list')

    def test_files_that_are_not_there(self):
        for option in ('client_cert', 'server_ca'):
            path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'x')
            subject = self.make('hk', self.port, **{option: path})
            self.assertIn(f'[haproxy_amphora] {option} = {path} cannot be '
                          f'used', self.work(subject))
        self.assertEqual(AMPHORAE, self.count_behind())
        shutil.copy(
            self.certificates.server_authority.certificate_path, path)
        self.assertUploads(subject)

    def test_certificate_that_has_ended(self):
        subject = self.make('hk', self.port)
        time = self.useFixture(fixture.TimeFixture())
        time.advance_time_delta(datetime.timedelta(days=60))
        self.assertRegex(
            self.work(subject), r'client_cert = \S+ is valid from \S+ \S+ to '
                                r'\S+ \S+ UTC only: .*Renew it')
        time.advance_time_delta(datetime.timedelta(days=-60))
        self.assertUploads(subject)

    def test_authority_of_others(self):
        others = self.certificates.client_authority.certificate_path
        subject = self.make('hk', self.port, server_ca=others)
        waiting.wait_for(lambda: 'server_ca does not vouch' in (
            self.work(subject) or ''), 'it says so')

    def test_no_way_to_any(self):
        subject = self.make('hk', 1)
        waiting.wait_for(
            lambda: 'No agent of an amphora answers here: check the route '
                    'from here to TCP 1 of amphorae' in (
                        self.work(subject) or ''), 'it says so')

    def test_no_way_to_the_only_ones(self):
        """Of one amphora or two, all that there are."""
        ids = sorted(row.id for row in amphora_repo.get_rows(self.engine))
        for amphora_id in ids[2:]:
            self.records.change('amphora', amphora_id, status='DELETED')
        subject = self.make('hk', 1)
        waiting.wait_for(
            lambda: 'No agent of an amphora answers here' in (
                self.work(subject) or ''), 'it says so')

    def test_one_of_two_does_not_answer(self):
        """It may be dead."""
        ids = sorted(row.id for row in amphora_repo.get_rows(self.engine))
        for amphora_id in ids[2:]:
            self.records.change('amphora', amphora_id, status='DELETED')
        subject = self.make('hk', 1)
        scout = subject._scout
        self.records.change('amphora', ids[0], status='DELETED')
        waiting.wait_for(lambda: self.work(subject), 'it says so')
        self.records.change('amphora', ids[0], status='ALLOCATED')
        self.assertEqual(1, scout._own.failures)
        self.assertIsNone(scout.find_problem())

    def test_another_key(self):
        subject = self.make('hk', self.port)
        hm_repo.register(self.engine, 'hm', '192.0.2.1', 5555, 'i', 20,
                         heartbeat_key.digest('another'))
        self.assertIn('no health manager that is up listens with the '
                      '[health_manager] heartbeat_key', self.work(subject))

    def test_database(self):
        subject = self.make('hk', self.port)
        self.patch(subject, 'run_once', mock.Mock(
            spec=subject.run_once,
            side_effect=db_exc.DBConnectionError(Exception('gone away'))))
        with testtools.ExpectedException(db_exc.DBConnectionError):
            subject.work()
        self.assertIn('The database cannot be used: gone away',
                      subject.problem)
