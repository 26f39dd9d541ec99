# SPDX-License-Identifier: Apache-2.0

"""Two housekeepers, real clients: nobody listens where one of them looks."""

import collections

import fixtures

from octavia_hmsync import compat
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync.house_keeping import synchronizer
from tests.cloud import ailing
from tests.cloud import certificates
from tests.cloud import network
from tests.cloud import waiting
from tests.db_cases import base
from tests.unit.db import sqlite

AMPHORAE = 12


class TestTwoHousekeepers(sqlite.SqliteMixin, base.DatabaseTestCase):

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

    def make(self, host, port):
        conf = self.make_conf(
            DEFAULT={'host': host},
            controller_worker={'amphora_driver': compat.REST_DRIVER},
            haproxy_amphora={
                'bind_port': port,
                'client_cert': self.certificates.client_path,
                'server_ca':
                    self.certificates.server_authority.certificate_path},
            health_manager={'heartbeat_key': 'the key'},
            hmsync={'retry_interval': 1, 'retry_interval_max': 600})
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
