# SPDX-License-Identifier: Apache-2.0

"""Whether a housekeeper has a way to amphorae."""

import fixtures

from octavia_hmsync.sync.house_keeping import way
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.worker import scout
from tests.db_cases import base
from tests.unit.db import sqlite


class TestWay(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.reachable = {'192.0.2.1': None}
        self.uploaders = []
        self.answers = True
        self.asked = []
        self.now = 0
        for name, function in (
                ('get_reachable', lambda engine, name: self.reachable),
                ('get_all', lambda engine: self.uploaders)):
            self.useFixture(fixtures.MockPatchObject(way.uploader_repo, name,
                                                     function))
        self.subject = way.Way(self.conf, self.engine, self.probe,
                               lambda: self.now)

    def probe(self, ips):
        self.asked.append(ips)
        return self.answers

    def test_asks_once(self):
        for _ in range(3):
            self.assertTrue(self.subject.is_there())
        self.assertEqual([['192.0.2.1']], self.asked)
        self.assertEqual('', self.log.output)

    def test_doubt(self):
        """It asks again, not too often, and says so when it changes."""
        self.subject.is_there()
        self.answers = False
        self.subject.doubt()
        # What was found a moment ago holds.
        self.assertTrue(self.subject.is_there())
        self.now += scout.PROBE_INTERVAL
        for _ in range(3):
            self.assertFalse(self.subject.is_there())
        self.assertEqual(1, self.log.output.count('cannot reach the agents'))
        self.answers = True
        self.assertFalse(self.subject.is_there())
        self.now += scout.PROBE_INTERVAL
        self.assertTrue(self.subject.is_there())
        self.assertIn('can reach the agents of amphorae again',
                      self.log.output)
        self.assertEqual(3, len(self.asked))

    def test_nothing_to_ask(self):
        """Nobody was ever reached: the first one may be."""
        self.reachable = {}
        self.answers = False
        self.assertTrue(self.subject.is_there())

    def uploader(self, service, host, overtaken=0):
        return reach.Uploader(scout.get_name(service, host), 1, None, None,
                              overtaken, overtaken)

    def test_what_uploads_have_shown(self):
        """Others do it, if there are any that replace amphorae."""
        host = self.conf.host
        own = self.uploader(scout.HOUSEKEEPING, host, 9)
        for other, is_there in (
                (None, True),
                (self.uploader(scout.WORKER, 'other'), True),
                (self.uploader(scout.HOUSEKEEPING, 'other', 9), True),
                (self.uploader(scout.HOUSEKEEPING, 'other'), False)):
            self.uploaders = [each for each in (own, other) if each]
            self.assertEqual(is_there, self.subject.is_there(), other)
        self.uploaders = [self.uploader(scout.HOUSEKEEPING, host), other]
        self.assertTrue(self.subject.is_there())
