# SPDX-License-Identifier: Apache-2.0

"""The statistics driver: where Octavia tells of each heartbeat."""

import os
import time

from octavia.common import data_models
from oslo_config import cfg
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.compat import heartbeats
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.health_manager import observer
from octavia_hmsync.sync.health_manager import start
from octavia_hmsync.sync.health_manager import statistics
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import octavia_opts

OLD = ('192.0.2.2:5555',)
NEW = ('192.0.2.1:5555', '192.0.2.2:5555')


class TestStatisticsDriver(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.conf.set_override('host', 'hm1')
        self.patch(compat, 'CONF', self.conf)
        self.service = 'health_manager'
        self.patch(compat, 'service_name', lambda: self.service)
        self.driver = statistics.AdoptionStatisticsDriver()
        self.register()

    def register(self, instance_id=start.ID):
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, instance_id,
                         20, is_observing=True)

    def add_in_doubt(self):
        """Add an amphora that a heartbeat here shows to have adopted."""
        amphora_id, = self.add_amphorae(1)
        amphora_repo.add_missing(self.engine)
        for number, addresses in enumerate((OLD, NEW), 1):
            claim_repo.claim_due(self.engine, number, 'batch', 1, 120)
            outcome_repo.record(self.engine, number, 'batch', [
                outcome_repo.Outcome(amphora_id, 'APPLIED', addresses)])
            if addresses is OLD:
                doubt_repo.set_adopted(
                    self.engine, doubt_repo.get_unproven(self.engine))
        self.make_older(models.Amphora, 'applied_at', 30)
        return amphora_id

    def stats(self, *amphora_ids, received_time=None, listeners=2):
        return [data_models.ListenerStatistics(
            listener_id=f'listener-{n}', amphora_id=amphora_id,
            received_time=received_time)
            for amphora_id in amphora_ids for n in range(listeners)]

    def is_adopted(self):
        return any(row.adopted_at for row in self.rows(models.Amphora))

    def is_heard(self):
        return hm_repo.get_all(self.engine)[0].is_heard

    def test_what_octavia_loads(self):
        """By the name in statistics_drivers, as update_stats() calls it."""
        self.assertIsInstance(self.driver, heartbeats.StatsDriverMixin)
        self.driver.update_stats([], deltas=True)

    def test_heartbeat(self):
        amphora_id = self.add_in_doubt()
        self.driver.update_stats(
            self.stats(amphora_id, received_time=time.time()), deltas=True)
        self.assertTrue(self.is_adopted())
        self.assertTrue(self.is_heard())

    def test_without_the_time_it_arrived(self):
        amphora_id = self.add_in_doubt()
        self.driver.update_stats(self.stats(amphora_id))
        self.assertTrue(self.is_adopted())

    def test_arrived_too_early(self):
        """It was processed late; then it may be meant for the old list."""
        amphora_id = self.add_in_doubt()
        self.driver.update_stats(
            self.stats(amphora_id, received_time=time.time() - 25))
        self.assertFalse(self.is_adopted())

    def test_clock_that_was_set_back(self):
        amphora_id = self.add_in_doubt()
        self.make_older(models.Amphora, 'applied_at', 10)
        self.driver.update_stats(
            self.stats(amphora_id, received_time=time.time() + 3600))
        self.assertFalse(self.is_adopted())

    def test_amphora_without_listeners(self):
        """Nobody knows whose heartbeat it was, but there was one."""
        amphora_id = self.add_in_doubt()
        self.driver.update_stats(self.stats(amphora_id, listeners=0))
        self.assertFalse(self.is_adopted())
        self.assertTrue(self.is_heard())

    def test_statistics_of_a_provider_driver(self):
        self.add_in_doubt()
        self.driver.update_stats(self.stats(None))
        self.assertFalse(self.is_adopted())

    def assertNothingDone(self, amphora_id):
        self.driver.update_stats(self.stats(amphora_id))
        self.assertFalse(self.is_adopted())
        self.assertFalse(self.is_heard())

    def test_row_of_another_process(self):
        amphora_id = self.add_in_doubt()
        self.register('another')
        self.assertNothingDone(amphora_id)

    def test_not_a_health_manager(self):
        """The driver-agent and the API load statistics drivers as well."""
        amphora_id = self.add_in_doubt()
        for self.service in (None, 'worker', 'house_keeping'):
            self.assertNothingDone(amphora_id)

    def test_plugin_is_off(self):
        conf = cfg.ConfigOpts()
        octavia_opts.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        self.patch(compat, 'CONF', conf)
        self.assertNothingDone(self.add_in_doubt())

    def test_after_a_fork(self):
        """No connection may pass one."""
        amphora_id = self.add_in_doubt()
        self.driver.update_stats([])
        before = self.driver._observer
        child = os.fork()
        if not child:
            code = 1
            try:
                self.driver.update_stats(self.stats(amphora_id))
                after = self.driver._observer
                code = int(after is before or
                           after._engine is before._engine or
                           not self.is_adopted())
            finally:
                os._exit(code)
        self.assertEqual(0, os.waitstatus_to_exitcode(
            os.waitpid(child, 0)[1]))
        self.driver.update_stats(self.stats(amphora_id))
        self.assertIs(before, self.driver._observer)
        self.assertTrue(self.is_adopted())

    # Whatever happens, Octavia is told nothing

    def test_database_that_is_down(self):
        self.conf.set_override('connection', 'sqlite:////nowhere/at.all',
                               'database')
        with self.assertNoLogs(statistics.LOG.logger, 'INFO'):
            for _ in range(3):
                self.driver.update_stats(self.stats('amphora'))

    def test_database_url_that_cannot_be_used(self):
        self.conf.set_override('connection', 'nonsense', 'database')
        with self.assertNoLogs(statistics.LOG.logger, 'INFO'):
            self.driver.update_stats(self.stats('amphora'))

    def test_tables_that_are_not_there_yet(self):
        amphora_id = self.add_in_doubt()
        with self.engine.begin() as connection:
            connection.execute(sa.text(
                'ALTER TABLE hmsync_heartbeat RENAME TO elsewhere'))
        self.addCleanup(self._bring_back)
        with self.assertNoLogs(statistics.LOG.logger, 'INFO'):
            self.driver.update_stats(self.stats(amphora_id))
        self.assertFalse(self.is_adopted())

    def _bring_back(self):
        with self.database.engine.begin() as connection:
            connection.execute(sa.text(
                'ALTER TABLE elsewhere RENAME TO hmsync_heartbeat'))

    def test_unexpected_problem_is_said_once(self):
        error = ZeroDivisionError('first')

        def observe(*args):
            if error:
                raise error

        self.patch(observer.AdoptionObserver, 'observe_any', observe)
        with self.assertLogs(statistics.LOG.logger) as logs:
            for error in (ZeroDivisionError('first'),
                          ZeroDivisionError('first'),
                          ZeroDivisionError('second'), None,
                          ZeroDivisionError('second')):
                for _ in range(3):
                    self.driver.update_stats(self.stats('amphora'))
        self.assertEqual(3, len(logs.output), logs.output)
        for line, what in zip(logs.output, ('first', 'second', 'second')):
            self.assertIn('octavia-hmsync', line)
            self.assertIn(f'ZeroDivisionError: {what}', line)
