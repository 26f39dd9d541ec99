# SPDX-License-Identifier: Apache-2.0

"""Two controllers, one of which cannot reach amphorae."""

import fixtures

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import uploader
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.worker import runner
from octavia_hmsync.sync.worker import scout
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes

ADDRESS = '192.0.2.101:5555'
GOOD, BLIND = 'good', 'blind'


class Clientele:
    """Agents, as far as a controller has a way to them.

    :param amphora_ids: those that answer; .uploads has what they were sent.
    """

    def __init__(self, amphora_ids):
        self.amphora_ids = set(amphora_ids)
        self.is_reachable = True
        self.uploads = []
        self.probes = 0

    async def upload(self, upload):
        self.uploads.append(upload.amphora_id)
        if self.is_reachable and upload.amphora_id in self.amphora_ids:
            return agent_client.Answer('APPLIED')
        return agent_client.Answer('UNREACHABLE', 'Connection refused',
                                   is_unanswered=True)

    def probe(self, ips):
        self.probes += 1
        return self.is_reachable and bool(ips)


class Controller:
    """An uploader with a clientele, and a clock of its own."""

    def __init__(self, test, host, clientele):
        self.clientele = clientele
        self.now = 0
        conf = test.make_conf(
            DEFAULT={'host': host}, health_manager={'heartbeat_key': 'key'},
            controller_worker={'amphora_driver': fakes.DRIVER},
            hmsync={'batch_size': 50})
        self.scout = scout.Scout(conf, test.engine, scout.HOUSEKEEPING,
                                 lambda: self.now, clientele.probe)
        pace = uploader.Uploader(64)
        test.addCleanup(pace.close)
        self.runner = runner.BatchRunner(conf, test.engine, pace, self.scout)
        self._test = test

    def run(self):
        """Run one batch."""
        self._test.patch(agent_client, 'create_client',
                         lambda conf: self.clientele)
        if not self.runner.is_due():
            return {}
        return self.runner.run()

    def drain(self):
        """Run batches as fast as they come, until there is none."""
        results = []
        while ended := self.run():
            results.append(ended)
        return results


class TestBlindController(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.ids = self.add_amphorae(60)
        amphora_repo.add_missing(self.engine)
        self.controllers = {host: Controller(self, host, Clientele(self.ids))
                            for host in (GOOD, BLIND)}
        self.good, self.blind = self.controllers.values()
        self.blind.clientele.is_reachable = False
        for each in (self.good, self.blind):
            each.run()
        self.number = 0
        self.publish()

    def publish(self):
        self.number += 1
        generation_repo.publish(self.engine, self.number, {ADDRESS: 0},
                                'because', 'here')

    def upload_again(self):
        """Have another list for everybody."""
        self.number += 1
        generation_repo.publish(
            self.engine, self.number,
            {f'192.0.2.{100 + self.number}:5555': 0}, 'because', 'here')

    def is_blind(self):
        return [u.name for u in reach.get_blind(
            uploader_repo.get_all(self.engine), 20)]

    def count_warnings(self, text='cannot reach the agents'):
        return self.log.output.count(text)

    def test_the_blind_one_drains_the_queue_first(self):
        """Nothing of what it finds holds up the other one."""
        self.assertTrue(self.blind.drain())
        self.assertEqual(60, len(set(self.blind.clientele.uploads)))
        self.assertEqual(0, self.count_warnings())
        # Each is tried by the other at once.
        self.assertEqual({'APPLIED': 8}, self.good.run())
        self.assertEqual(52, sum(r['APPLIED'] for r in self.good.drain()))
        self.assertEqual([], self.rows(models.Attempt))
        self.blind.run()
        self.assertEqual(['octavia-housekeeping on blind'], self.is_blind())
        self.assertEqual(1, self.count_warnings())

    def test_it_says_so_once_and_leaves_the_work_to_the_other(self):
        self.blind.run()
        self.good.drain()
        self.blind.run()
        tried = len(self.blind.clientele.uploads)
        self.assertEqual(8, tried)
        for _ in range(3):
            self.upload_again()
            self.assertEqual([], self.blind.drain())
            self.assertEqual(60, sum(
                r['APPLIED'] for r in self.good.drain()))
        self.assertEqual(tried, len(self.blind.clientele.uploads))
        self.assertEqual(1, self.count_warnings())
        self.assertIn('TCP 9443 of amphorae', self.log.output)

    def test_works_again(self):
        self.blind.run()
        self.good.drain()
        self.blind.run()
        self.blind.clientele.is_reachable = True
        self.upload_again()
        self.blind.now += scout.PROBE_INTERVAL - 1
        self.assertEqual({}, self.blind.run())
        self.blind.now += 1
        self.assertEqual({'APPLIED': 50}, self.blind.run())
        self.assertEqual([], self.is_blind())
        self.assertIn('can reach the agents of amphorae again',
                      self.log.output)

    def test_it_was_alone_for_long(self):
        """What it found then is too old; the way to others tells."""
        self.make_older(models.Uploader, 'keepalive_at', 21,
                        name=self.good.scout.name)
        for _ in range(4):
            self.assertTrue(self.blind.drain())
            claim_repo.retry_now(self.engine)
        self.assertEqual(0, self.count_warnings())
        self.good.now += 100
        self.good.drain()
        self.blind.run()
        self.assertEqual([], self.is_blind())
        self.blind.now += scout.PROBE_INTERVAL
        self.blind.run()
        self.assertEqual([self.blind.scout.name], self.is_blind())
        self.assertEqual(1, self.count_warnings())

    def test_the_other_one_ends(self):
        """Then it does what it can."""
        self.blind.run()
        self.good.drain()
        self.assertEqual({}, self.blind.run())
        self.upload_again()
        self.make_older(models.Uploader, 'keepalive_at', 21,
                        name=self.good.scout.name)
        self.blind.clientele.is_reachable = True
        self.assertEqual({'APPLIED': 50}, self.blind.run())

    def test_nobody_reaches_anybody(self):
        """Nobody is to blame, and it is tried all the same."""
        self.good.clientele.is_reachable = False
        self.blind.drain()
        self.good.drain()
        self.assertEqual([], self.is_blind())
        for each in (self.good, self.blind):
            self.assertEqual(60, len(each.clientele.uploads))
        self.assertEqual(0, self.count_warnings())
        # Both wait, and the index says so.
        self.assertEqual(60, sum(row.next_attempt_at is not None
                                 for row in self.rows(models.Amphora)))

    def test_dead_ones_alone_blind_nobody(self):
        """At rest nobody tries anything else; the way is looked for."""
        dead = self.ids[:10]
        self.blind.clientele.is_reachable = True
        for each in (self.good, self.blind):
            each.clientele.amphora_ids -= set(dead)
        self.good.drain()
        self.blind.drain()
        self.assertEqual(20, sum(amphora_id in dead for each in
                                 (self.good, self.blind)
                                 for amphora_id in each.clientele.uploads))
        for each in (self.good, self.blind):
            each.now += scout.PROBE_INTERVAL
            each.run()
        for uploader_ in uploader_repo.get_all(self.engine):
            self.assertIsNone(uploader_.failing_since)
            self.assertTrue(reach.is_trusted(uploader_))
        self.assertEqual([], self.is_blind())

    def test_one_batch_at_a_time_until_somebody_answered(self):
        """A black hole holds up no more than these."""
        with self.blind.scout.allowance(50) as first:
            with self.blind.scout.allowance(50) as second:
                self.assertEqual((8, 0), (first, second))
            self.assertFalse(self.blind.scout.may_claim())
        with self.blind.scout.allowance(50) as third:
            self.assertEqual(8, third)

    def test_alone_it_need_not_begin_slowly(self):
        self.make_older(models.Uploader, 'keepalive_at', 21,
                        name=self.blind.scout.name)
        self.assertEqual({'APPLIED': 50}, self.good.run())

    def test_the_table_was_emptied(self):
        self.empty()
        self.assertEqual({}, self.good.run())
        self.assertEqual([self.good.scout.name], [
            u.name for u in uploader_repo.get_all(self.engine)])
