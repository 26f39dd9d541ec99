# SPDX-License-Identifier: Apache-2.0

"""Amphorae without listeners, of which only last_update tells."""

import fixtures

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.house_keeping import adoption_watch
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import adoption as rules
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes
from tests.unit.sync.rules import cases

INTERVAL = 10
POLL_INTERVAL = 2
ENOUGH_TIME = 100


class TestAdoptionWatch(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.now = 1000.0
        self.number = 0
        self.beats = 0
        self.notifier = fakes.Notifier()
        self.subject = self.make()

    def make(self, **hmsync):
        return adoption_watch.AdoptionWatch(
            self.make_conf(hmsync=hmsync), self.engine,
            clock=lambda: self.now, notifier=self.notifier)

    def add(self, number=1):
        ids = self.add_amphorae(number)
        for amphora_id in ids:
            self.beat(amphora_id)
        amphora_repo.add_missing(self.engine)
        return ids

    def beat(self, amphora_id):
        """Have it heard; what counts is that the value changes."""
        self.beats += 1
        self.records.set_health(amphora_id, age=100000 - 10 * self.beats)

    def listen(self, *numbers):
        for n in numbers:
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}', 20, is_observing=True)
            hm_repo.set_heard(self.engine, f'hm{n}', f'instance-{n}')

    def stop_listening(self, *numbers):
        for n in numbers:
            hm_repo.set_offline(self.engine, f'hm{n}', f'instance-{n}')

    def upload(self, numbers, *amphora_ids, age=30):
        """Publish a list, and have amphorae acknowledge it."""
        self.number += 1
        addresses = cases.addresses(*numbers)
        generation_repo.publish(
            self.engine, self.number, dict(zip(addresses, range(100))),
            'because', 'controller1')
        claim_repo.claim_due(self.engine, self.number, 'batch', 1000, 120)
        outcome_repo.record(self.engine, self.number, 'batch', [
            outcome_repo.Outcome(amphora_id, 'APPLIED', addresses[:5])
            for amphora_id in amphora_ids])
        claim_repo.release(self.engine, 'batch')
        for amphora_id in amphora_ids:
            self.make_older(models.Amphora, 'applied_at', age,
                            amphora_id=amphora_id)

    def adopt(self):
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine))

    def known(self, old, new, age=30, number=1):
        """Amphorae that used one list, and acknowledged another one."""
        ids = self.add(number)
        self.upload(old, *ids)
        self.adopt()
        self.upload(new, *ids, age=age)
        return ids[0] if number == 1 else ids

    def row(self, amphora_id):
        return next(r for r in self.rows(models.Amphora)
                    if r.amphora_id == amphora_id)

    def look(self, seconds=POLL_INTERVAL):
        self.now += seconds
        return self.subject.run_once()

    def run_for(self, seconds, *heard, interval=INTERVAL):
        """Look again and again, with heartbeats in between.

        :returns: how many amphorae were found to have adopted.
        """
        found, until, next_beat = 0, self.now + seconds, self.now + interval
        while self.now < until:
            if self.now + POLL_INTERVAL > next_beat:
                next_beat += interval
                for amphora_id in heard:
                    self.beat(amphora_id)
            found += self.look()
        return found

    def assertAdopted(self, amphora_id, seconds=ENOUGH_TIME, **kwargs):
        self.assertEqual(1, self.run_for(seconds, amphora_id, **kwargs))
        row = self.row(amphora_id)
        self.assertIsNotNone(row.adopted_at)
        self.assertIsNone(row.adopted_via)

    def assertNotAdopted(self, amphora_id, seconds=ENOUGH_TIME, **kwargs):
        self.assertEqual(0, self.run_for(seconds, amphora_id, **kwargs))
        self.assertIsNone(self.row(amphora_id).adopted_at)

    def test_nobody_in_doubt(self):
        self.add()
        self.assertEqual(0, self.run_for(20))

    def test_nobody_listens_at_the_old_list(self):
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4)
        self.assertAdopted(amphora_id)

    def test_not_heard(self):
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4)
        self.assertEqual(0, self.run_for(ENOUGH_TIME))
        self.assertAdopted(amphora_id)

    def test_in_time(self):
        amphora_id = self.known((1, 2), (3, 4), age=20)
        self.listen(3, 4)
        self.assertAdopted(amphora_id, rules.time_to_wait(60) - 20)

    def test_somebody_listens_at_the_old_list(self):
        """It may be heard there."""
        amphora_id = self.known((1, 2), (1, 3))
        self.listen(1, 2, 3)
        self.assertNotAdopted(amphora_id)

    def test_heard_too_regularly_for_the_old_list(self):
        """The turn of 2 would leave a gap; it leaves none."""
        amphora_id = self.known((1, 2), (1, 3))
        self.listen(1, 3)
        self.assertAdopted(amphora_id)

    def test_heard_as_with_the_old_list(self):
        amphora_id = self.known((1, 2), (1, 3))
        self.listen(1, 3)
        self.assertNotAdopted(amphora_id, interval=2 * INTERVAL)

    def test_before_it_has_had_time(self):
        amphora_id = self.known((1, 2), (3, 4), age=5)
        self.listen(3, 4)
        self.assertEqual(0, self.run_for(12, amphora_id, interval=2))

    def test_one_that_dies_while_it_is_watched(self):
        """It may have heard the amphora before."""
        amphora_id = self.known((1,), (3, 4))
        self.listen(1, 3, 4)
        self.look()
        self.beat(amphora_id)
        self.stop_listening(1)
        self.assertNotAdopted(amphora_id)

    def test_health_manager_hears_before_it_registers(self):
        """It listens before its first keepalive, if only by a second."""
        amphora_id = self.known((1,), (3, 4))
        self.listen(3, 4)
        self.look()
        self.beat(amphora_id)
        self.look()
        self.listen(1)
        self.assertNotAdopted(amphora_id)

    def test_pinned_may_be_heard(self):
        """Without the plugin nobody tells whether somebody listens."""
        amphora_id = self.known((1,), (3, 4))
        self.listen(3, 4)
        keeper_repo.touch(self.engine, 'controller1', cases.addresses(1))
        self.assertNotAdopted(amphora_id)

    def test_pinned_one_that_says_that_it_is_gone(self):
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(1, 3, 4)
        keeper_repo.touch(self.engine, 'controller1', cases.addresses(1))
        self.stop_listening(1)
        self.assertAdopted(amphora_id)

    def test_failover_guard_is_no_heartbeat(self):
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4)
        self.make_older(models.Amphora, 'held_at', -1000)
        self.assertNotAdopted(amphora_id)
        # It is heard at last.
        self.make_older(models.Amphora, 'held_at', 1000000)
        self.assertAdopted(amphora_id)

    def test_failover_guard_takes_its_hands_off(self):
        """What it wrote last is no heartbeat either."""
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4)
        self.look()
        self.beat(amphora_id)
        self.make_older(models.Amphora, 'held_at', -1000)
        self.look()
        self.make_older(models.Amphora, 'held_at', 1000000)
        self.assertEqual(0, self.run_for(ENOUGH_TIME))

    def test_health_row_that_goes_is_no_heartbeat(self):
        """A failover deletes it."""
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4)
        self.look()
        health = self.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(health.delete())
        self.assertEqual(0, self.run_for(ENOUGH_TIME))
        self.assertIsNone(self.row(amphora_id).adopted_at)

    def test_another_upload_begins_another_watch(self):
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4, 5)
        self.look()
        self.beat(amphora_id)
        self.upload((3, 5), amphora_id)
        self.assertEqual(0, self.run_for(ENOUGH_TIME))

    def test_another_upload_may_have_arrived(self):
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4, 5)
        self.number += 1
        claim_repo.claim_due(self.engine, self.number, 'batch', 1, 120)
        self.assertNotAdopted(amphora_id)
        outcome_repo.record(self.engine, self.number, 'batch', [
            outcome_repo.Outcome(amphora_id, 'UNREACHABLE',
                                 cases.addresses(3, 5), 'it hangs', 0)])
        self.assertNotAdopted(amphora_id)

    def test_others_see_it(self):
        """One with listeners is left to those that hear it."""
        amphora_id = self.known((1, 2), (3, 4))
        self.listen(3, 4)
        heartbeat_repo.note_heartbeat(self.engine, amphora_id,
                                      cases.address(3))
        self.assertNotAdopted(amphora_id)

    def test_long_ago(self):
        """Those that nothing tells of are not watched for ever."""
        amphora_id = self.known((1, 2), (3, 4), age=400)
        self.listen(3, 4)
        self.assertNotAdopted(amphora_id)

    def test_several(self):
        ids = self.known((1, 2), (3, 4), number=3)
        self.listen(3, 4)
        self.assertEqual(2, self.run_for(ENOUGH_TIME, *ids[:2]))
        self.assertIsNone(self.row(ids[2]).adopted_at)

    # The list that it has is not known

    def test_first_contact(self):
        amphora_id, = self.add()
        self.upload((1, 2))
        self.upload((3, 4), amphora_id)
        self.listen(3, 4)
        self.assertAdopted(amphora_id)

    def test_first_contact_and_an_address_of_then_is_alive(self):
        amphora_id, = self.add()
        self.upload((1, 2))
        self.upload((2, 3), amphora_id)
        self.listen(2, 3)
        self.assertNotAdopted(amphora_id)

    def test_first_contact_with_the_first_list(self):
        """It may have booted with a part of it."""
        amphora_id, = self.add()
        self.upload((1, 2), amphora_id)
        self.listen(1, 2)
        self.assertNotAdopted(amphora_id)

    def test_first_contact_when_each_has_a_subset(self):
        """It booted with the subset of whoever built it."""
        amphora_id, = self.add()
        self.upload((1, 2))
        self.upload(range(3, 13), amphora_id)
        self.listen(*range(3, 13))
        self.assertNotAdopted(amphora_id)

    def test_later_lists_are_ruled_out_one_by_one(self):
        amphora_id, = self.add()
        self.upload((1, 2))
        self.upload((2, 3), amphora_id)
        self.upload((4,), amphora_id)
        self.listen(3, 4)
        self.assertNotAdopted(amphora_id, interval=2 * INTERVAL)
        unproven, = doubt_repo.get_unproven(self.engine)
        self.assertEqual((cases.addresses(2, 3),), unproven.doubt.previous)
        # A new watch: 3 listened in this one.
        self.stop_listening(3)
        self.subject = self.make()
        self.assertAdopted(amphora_id)

    # Those that have not adopted

    def test_named_once(self):
        self.listen(1, 2, 3)
        amphora_id = self.known((1, 2), (1, 3), age=190)
        heartbeat_repo.note_heartbeat(self.engine, amphora_id,
                                      cases.address(2))
        for _ in range(3):
            self.look()
        # Nor does another one, or the same after a restart, say it again.
        self.subject = self.make()
        self.look()
        self.assertEqual(1, self.log.output.count(amphora_id))
        self.assertIn('1 amphorae acknowledge', self.log.output)
        self.assertEqual([payloads.AmphoraNotAdopted((amphora_id,))],
                         self.notifier.sent)

    def test_not_named_as_long_as_it_may_show(self):
        amphora_id = self.known((1, 2), (1, 3), age=170)
        heartbeat_repo.note_heartbeat(self.engine, amphora_id,
                                      cases.address(2))
        self.look()
        self.assertNotIn(amphora_id, self.log.output)

    def test_not_named_without_a_sign(self):
        amphora_id = self.known((1, 2), (1, 3), age=190)
        self.look()
        self.assertNotIn(amphora_id, self.log.output)

    def test_not_named_because_others_cannot_be_seen(self):
        """It is heard where it should be; 3 has no plugin.

        The operator would fail over amphorae that are well.
        """
        keeper_repo.touch(self.engine, 'controller1', cases.addresses(3))
        amphora_id = self.known((1, 2), (1, 2, 3), age=190)
        self.listen(1, 2)
        for number in (1, 2):
            heartbeat_repo.note_heartbeat(self.engine, amphora_id,
                                          cases.address(number))
        self.look()
        self.assertNotIn(amphora_id, self.log.output)

    def test_named_as_it_is_not_heard_where_it_should_be(self):
        amphora_id = self.known((1, 2), (1, 2, 3), age=190)
        self.listen(1, 2, 3)
        for number in (1, 2):
            heartbeat_repo.note_heartbeat(self.engine, amphora_id,
                                          cases.address(number))
        self.look()
        self.assertIn(amphora_id, self.log.output)
