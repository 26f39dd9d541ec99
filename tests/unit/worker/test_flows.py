#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import pathlib

import fixtures
from taskflow import engines

from octavia_hmsync.amphora import agent_config
from octavia_hmsync.amphora import uploader
from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import claim as claim_repo
from octavia_hmsync.worker import flows
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes

KEY = 'S3cret'
STORE = {'generation': 1, 'slots': {'192.0.2.101:5555': 0},
         'admitted_to': None, 'not_admitted_to': None}


class TestSyncAmphoraeFlow(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.install_driver(self)
        self.conf = self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': KEY})
        pace = uploader.Uploader(concurrency=8)
        self.addCleanup(pace.close)
        self.flow = flows.get_sync_amphorae_flow(self.conf, self.engine, pace)

    def add(self, number):
        ids = self.add_amphorae(number)
        amphora_repo.add_missing(self.engine)
        return ids

    def load(self):
        return engines.load(self.flow, store=STORE)

    def test_requires_and_provides(self):
        self.assertEqual(set(STORE), self.flow.requires)
        self.assertEqual({'claim_owner', 'claimed', 'results'},
                         self.flow.provides)

    def test_run(self):
        ids = self.add(3)
        self.driver.broken.add(ids[0])
        engine = self.load()
        engine.run()
        self.assertEqual({'APPLIED': 2, 'UNREACHABLE': 1},
                         engine.storage.fetch('results'))
        self.assertEqual(set(ids[1:]), set(self.driver.files))
        self.assertEqual({None}, {
            row.claim_owner for row in self.rows(models.Amphora)})

    def test_nothing_due(self):
        engine = self.load()
        engine.run()
        self.assertEqual({}, engine.storage.fetch('results'))

    def test_nothing_secret_in_its_storage(self):
        """TaskFlow logs what goes through it, and a jobboard persists it."""
        log = self.useFixture(fixtures.FakeLogger(level=1))
        path = self.useFixture(fixtures.TempDir()).path
        ids = self.add(2)
        engine = engines.load(self.flow, store=STORE, backend={
            'connection': 'dir', 'path': path})
        engine.run()
        self.assertEqual(set(ids), set(self.driver.files))
        self.assertIn(KEY, ''.join(self.driver.files.values()))
        stored = [p.read_text() for p in pathlib.Path(path).rglob('*')
                  if p.is_file()]
        self.assertIn('192.0.2.101:5555', ''.join(stored))
        self.assertIn('ConfigureAmphorae', log.output)
        for text in (*stored, log.output):
            self.assertNotIn(KEY, text)

    def test_revert_releases_the_claims(self):
        ids = self.add(2)

        def render(*args):
            raise ValueError('no template')

        self.patch(agent_config, 'AgentConfigRenderer', render)
        self.assertRaises(ValueError, self.load().run)
        self.assertEqual({(None, None)}, {
            (row.claim_owner, row.result)
            for row in self.rows(models.Amphora)})
        self.assertEqual(len(ids), claim_repo.claim_due(
            self.engine, 1, 'another', 10, 60))

    def test_revert_of_a_claim_that_failed(self):
        self.patch(claim_repo, 'claim_due', self._fail)
        self.patch(claim_repo, 'release', self.fail)
        self.assertRaises(ZeroDivisionError, self.load().run)

    def _fail(self, *args):
        raise ZeroDivisionError()

    def test_no_status_of_octavia_is_touched(self):
        lb = self.records.add_load_balancer()
        self.records.add_amphora('192.0.2.1', lb)
        amphora_repo.add_missing(self.engine)
        self.driver.broken.update(
            row['id'] for row in self.records.rows('amphora'))
        tables = ('amphora', 'load_balancer', 'amphora_health')
        before = [self.records.rows(table) for table in tables]
        self.load().run()
        self.assertEqual(before, [self.records.rows(t) for t in tables])
