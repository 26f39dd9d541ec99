# SPDX-License-Identifier: Apache-2.0

"""Where amphorae were heard."""

import time

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from tests.db_cases.sync import doubt


class HeartbeatCases(doubt.AdoptionCases):

    def note(self, address=doubt.HERE, seconds_ago=0.0):
        heartbeat_repo.note_heartbeat(self.engine, self.amphora_id, address,
                                      seconds_ago)

    def heard(self):
        return heartbeat_repo.get_heartbeats(self.engine).get(
            self.amphora_id, {})

    def test_nothing_noted(self):
        self.upload(doubt.A)
        self.assertEqual({}, self.heard())

    def test_noted(self):
        self.upload(doubt.A)
        self.make_older(models.Amphora, 'applied_at', 100)
        began = time.monotonic()
        self.note(doubt.HERE, 30)
        self.note(doubt.THERE)
        heard = self.heard()
        self.assertEqual({doubt.HERE, doubt.THERE}, set(heard))
        self.assertAge(30, heard[doubt.HERE], began)
        self.assertAge(0, heard[doubt.THERE], began)

    def test_last_one_counts(self):
        self.upload(doubt.A)
        self.make_older(models.Amphora, 'applied_at', 100)
        self.note(doubt.HERE, 30)
        began = time.monotonic()
        self.note(doubt.HERE)
        self.assertAge(0, self.heard()[doubt.HERE], began)
        self.assertEqual(1, len(self.rows(models.Heartbeat)))

    def test_of_an_earlier_upload(self):
        self.upload(doubt.A)
        self.note(doubt.HERE)
        self.make_older(models.Heartbeat, 'heard_at', 10)
        self.make_older(models.Amphora, 'applied_at', 20)
        self.assertEqual({doubt.HERE}, set(self.heard()))
        self.upload(doubt.B)
        self.assertEqual({}, self.heard())

    def test_nothing_is_left_of_one_that_has_adopted(self):
        self.upload(doubt.A)
        self.note(doubt.HERE)
        other, = self.add(1)
        heartbeat_repo.note_heartbeat(self.engine, other, doubt.HERE)
        self.adopt()
        self.assertEqual([other], [
            row.amphora_id for row in self.rows(models.Heartbeat)])

    def test_noted_by_another_process_meanwhile(self):
        """It does not know yet that the amphora has adopted."""
        self.upload(doubt.A)
        self.adopt()
        self.note(doubt.HERE)
        self.assertEqual({}, self.heard())

    def test_two_processes_at_once(self):
        self.upload(doubt.A)
        self.make_older(models.Amphora, 'applied_at', 100)
        self.run_at_once([self.note] * 4)
        self.assertEqual({doubt.HERE}, set(self.heard()))

    def test_delete_gone(self):
        self.upload(doubt.A)
        kept, = self.add(1)
        for amphora_id in (self.amphora_id, kept):
            heartbeat_repo.note_heartbeat(self.engine, amphora_id, doubt.HERE)
        self.records.set_status(self.amphora_id, 'DELETED')
        self.assertEqual(1, amphora_repo.delete_gone(self.engine))
        self.assertEqual([kept], [
            row.amphora_id for row in self.rows(models.Heartbeat)])

    def test_addresses_of_all_kinds(self):
        self.upload(doubt.A)
        self.make_older(models.Amphora, 'applied_at', 100)
        longest = addr.format_address(
            '2001:db8:1111:2222:3333:4444:5555:6666', 65535)
        self.note(longest)
        self.assertEqual({longest}, set(self.heard()))
