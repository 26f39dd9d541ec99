# SPDX-License-Identifier: Apache-2.0

import pathlib

import fixtures
from taskflow import engines

from octavia_hmsync.amphora import uploader
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.worker import batch
from octavia_hmsync.sync.worker import runner
from octavia_hmsync.sync.worker import scout
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes

KEY = 'S3cret'
SLOTS = {'192.0.2.101:5555': 0}


class TestSyncAmphoraeFlow(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.install_driver(self)
        conf = self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': KEY})
        pace = uploader.Uploader(concurrency=8)
        self.addCleanup(pace.close)
        generation_repo.publish(self.engine, 1, SLOTS, 'because', 'here')
        self.work = batch.Batch(
            conf, self.engine, generation_repo.get_newest(self.engine),
            'batch',
            scout.Scout(conf, self.engine, scout.HOUSEKEEPING))
        self.flow = runner.get_sync_amphorae_flow(self.work, pace)

    def claim(self, number):
        ids = self.add_amphorae(number)
        amphora_repo.add_missing(self.engine)
        self.assertTrue(self.work.claim(100))
        return ids

    def test_requires_and_provides(self):
        self.assertEqual(set(), self.flow.requires)
        self.assertEqual({'results'}, self.flow.provides)

    def test_run(self):
        ids = self.claim(3)
        self.driver.broken.add(ids[0])
        engine = engines.load(self.flow)
        engine.run()
        self.assertEqual({'APPLIED': 2, 'UNREACHABLE': 1},
                         engine.storage.fetch('results'))
        self.assertEqual(set(ids[1:]), set(self.driver.files))
        self.assertEqual({None}, {
            row.claim_owner for row in self.rows(models.Amphora)})

    def test_nothing_secret_in_its_storage(self):
        """TaskFlow logs what goes through it, and a jobboard persists it."""
        log = self.useFixture(fixtures.FakeLogger(level=1))
        # Commands that ran in this process have kept it silent.
        flow_log = self.useFixture(fixtures.FakeLogger('taskflow', level=1))
        path = self.useFixture(fixtures.TempDir()).path
        ids = self.claim(2)
        engine = engines.load(self.flow, backend={'connection': 'dir',
                                                  'path': path})
        engine.run()
        self.assertEqual(set(ids), set(self.driver.files))
        self.assertIn(KEY, ''.join(self.driver.files.values()))
        stored = [p.read_text() for p in pathlib.Path(path).rglob('*')
                  if p.is_file()]
        self.assertIn('APPLIED', ''.join(stored))
        self.assertIn('ConfigureAmphorae', flow_log.output)
        for text in (*stored, log.output, flow_log.output):
            self.assertNotIn(KEY, text)

    def test_no_status_of_octavia_is_touched(self):
        lb = self.records.add_load_balancer()
        self.driver.broken.add(self.records.add_amphora('192.0.2.1', lb))
        tables = ('amphora', 'load_balancer', 'amphora_health')
        before = [self.records.rows(table) for table in tables]
        self.claim(0)
        engines.load(self.flow).run()
        self.assertEqual(before, [self.records.rows(t) for t in tables])
