# SPDX-License-Identifier: Apache-2.0

"""Rollouts on a whole Octavia, by two housekeepers."""

import time

from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.cloud.compute import bad_images
from tests.cloud import waiting
from tests.functional import fleets


class RolloutTestCase(fleets.FleetTestCase):

    def command(self, *arguments):
        return self.cloud.command('octavia-hmsync', 'image', *arguments)

    def start(self, *arguments):
        """Start a rollout; returns its id."""
        self.command('rollout', 'start', *arguments)
        return rollout_repo.get_active(self.cloud.engine).id

    def rows(self, rollout_id):
        return replace_repo.get_of_rollout(self.cloud.engine, rollout_id)

    def wait_until(self, rollout_id, state, timeout=waiting.LIMIT):
        def reached():
            found = rollout_repo.get(self.cloud.engine, rollout_id)
            return found if found.state == state else None
        return self.cloud.wait_for(
            reached, lambda: f'{state} rollout: '
            f'{rollout_repo.get(self.cloud.engine, rollout_id)}', timeout)

    def images(self):
        return [next(iter(self.amphorae(lb).values()))['image_id']
                for lb in self.fleet]


class TestRollout(RolloutTestCase):

    house_keepers = 2
    topologies = ('SINGLE',) * 4

    def test_bad_image_and_a_good_one(self):
        before = [self.look_at(lb) for lb in self.fleet]
        bad = self.cloud.add_image('bad', like=bad_images.fails_with_vip())
        everybody = {lb.name: lb for lb in self.fleet}
        with self.under_probes(everybody):
            found = self.wait_until(self.start(
                '--canaries', '1', '--parallel', '3', '--max-failures', '1'),
                'HALTED')
        self.assertIn('as ERROR', self.rows(found.id)[0].reason)
        row, = self.rows(found.id)
        self.assertEqual(('FAILED', True), (row.state, row.canary))
        for lb, was in zip(self.fleet, before, strict=True):
            self.cloud.wait_for(lambda: self.look_at(lb) == was,
                                lambda: f'{was}: {self.look_at(lb)}')
        self.assertNothingLeft('bad')
        self.drop(bad)
        self.check_good(everybody)
        self.assertEqual([], self.errors)

    def check_good(self, everybody):
        """One is excluded, one the canary, and two at once follow it."""
        good = self.cloud.add_image('good')
        excluded = self.fleet[0]
        self.command('exclusion', 'add', '--reason', 'not now',
                     'load-balancer', excluded.id)
        with self.under_probes(everybody):
            rollout_id = self.start('--canaries', '1', '--parallel', '2')
            self.cloud.wait_for(lambda: self.rows(rollout_id), 'canary')
            # What has begun comes to its end, and nothing else begins.
            self.command('rollout', 'pause')
            begun = [row.id for row in self.rows(rollout_id)]
            for each in begun:
                self.wait_until_ended(each)
            self.assertEqual(begun,
                             [row.id for row in self.rows(rollout_id)])
            self.command('rollout', 'resume')
            self.wait_until(rollout_id, 'DONE', 200)
        # On a busy machine heartbeats may be late, and it is tried again.
        rows = [row for row in self.rows(rollout_id)
                if row.state != 'SKIPPED']
        self.assertEqual([('DONE', True), ('DONE', False), ('DONE', False)],
                         [(row.state, row.canary) for row in rows])
        # Both at once.
        self.assertLess(rows[2].started_at, rows[1].finished_at)
        self.assertNotIn(excluded.id, {row.load_balancer_id for row in rows})
        self.assertEqual([good.id] * 3, self.images()[1:])
        self.assertNotEqual(good.id, self.images()[0])
        for lb in self.fleet:
            self.assertSane(lb.name, lb)
        self.assertNothingLeft('good')

    def test_window(self):
        """Nothing begins outside of it."""
        self.cloud.add_image('second')
        with self.cloud.engine.connect() as connection:
            day = connection.exec_driver_sql(
                "SELECT LEFT(DAYNAME(UTC_TIMESTAMP() + INTERVAL 3 DAY), 3)"
            ).scalar()
        rollout_id = self.start('--windows', f'{day} 01:00-05:00')
        seen = len(self.cloud.steps.seen)
        # It looks each second.
        time.sleep(8)
        self.assertEqual([], self.rows(rollout_id))
        self.assertEqual(seen, len(self.cloud.steps.seen))
        self.command('rollout', 'cancel')
        self.wait_until(rollout_id, 'CANCELLED')


class TestWayBack(RolloutTestCase):

    topologies = ('SINGLE',) * 2

    def test_late_failure_and_undo(self):
        """What does not stay well stops it; what it has brought goes back."""
        old, = {image for image in self.images()}
        worse = self.cloud.add_image('worse')
        rollout_id = self.start('--parallel', '1', '--watch-time', '90')
        self.cloud.wait_for(lambda: self.rows(rollout_id) and
                            self.rows(rollout_id)[0].state == 'DONE',
                            'canary that is done', 200)
        canary, = self.rows(rollout_id)
        self.cloud.connection.load_balancer.failover_load_balancer(
            canary.load_balancer_id)
        found = self.wait_until(rollout_id, 'HALTED', 200)
        self.assertIn('1 failed: ', found.reason)
        row, = self.rows(rollout_id)
        # By when it is looked at, the new one is there, or the old one gone.
        self.assertRegex(row.reason, 'failed over again|is gone')
        self.cloud.wait_until_active(canary.load_balancer_id)
        self.assertEqual(1, self.images().count(worse.id))
        error = self.assertRaises(RuntimeError, self.command, 'rollout',
                                  'undo')
        self.assertIn('still the newest image', str(error))
        self.drop(worse)
        self.command('rollout', 'undo', '--watch-time', '5')
        undo_id = rollout_repo.get_active(self.cloud.engine).id
        self.wait_until(undo_id, 'DONE', 200)
        self.assertEqual([canary.load_balancer_id],
                         [row.load_balancer_id for row in self.rows(undo_id)])
        self.assertEqual([old] * 2, self.images())

    def test_cancelled(self):
        """What runs goes back, and serves all the time."""
        before = [self.look_at(lb) for lb in self.fleet]
        self.cloud.add_image('second')
        with self.under_probes({lb.name: lb for lb in self.fleet}):
            rollout_id = self.start('--canaries', '0', '--parallel', '2')
            self.cloud.wait_for(lambda: [
                row for row in self.rows(rollout_id)
                if row.phase in ('PROVE', 'PROVE_SWITCHED')],
                'one that is proven', 200)
            self.command('rollout', 'cancel', '--reason', 'a customer calls')
            for row in self.rows(rollout_id):
                self.cloud.wait_for(lambda row=row: replace_repo.get(
                    self.cloud.engine, row.id).finished_at, 'end', 200)
        rows = self.rows(rollout_id)
        self.assertIn('CANCELLED', {row.state for row in rows})
        for row in rows:
            self.assertIn((row.state, row.reason), (
                ('CANCELLED', 'a customer calls'), ('DONE', None)))
        cancelled = {row.load_balancer_id for row in rows
                     if row.state == 'CANCELLED'}
        for lb, was in zip(self.fleet, before, strict=True):
            if lb.id in cancelled:
                self.cloud.wait_for(lambda: self.look_at(lb) == was,
                                    lambda: f'{was}: {self.look_at(lb)}')
        self.assertEqual([], self.errors)
