# SPDX-License-Identifier: Apache-2.0

"""Agents that answer late, and housekeepers that die while they wait."""

import time

import psutil

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.sync.rules import member
from tests.cloud import ailing
from tests.cloud import database
from tests.functional import base


class RecordingAmphora(ailing.AilingAmphora):
    """Remembers from when to when it was busy with each upload."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.busy = []

    def _reply(self, tls, request_line):
        begun = time.monotonic()
        try:
            super()._reply(tls, request_line)
        finally:
            self.busy.append((begun, time.monotonic()))

    def overlaps(self):
        """Pairs of uploads that it was busy with at once."""
        busy = sorted(self.busy)
        return [(one, two) for one, two in zip(busy, busy[1:])
                if two[0] < one[1]]


class HostileAgentCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def add(self, count, ailment, **kwargs):
        self.patch(ailing, 'AilingAmphora', RecordingAmphora)
        return [self.cloud.add_ailing_amphora(ailment, **kwargs)
                for _ in range(count)]

    def ids(self, amphorae):
        return {amphora.amphora_id for amphora in amphorae}


class TestLateAnswer(HostileAgentCase):

    def test_answers_after_thirty_seconds(self):
        """It is UNREACHABLE after upload_timeout, and delays nobody."""
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1,), options={
            'health_manager': {'heartbeat_timeout': 60},
            'hmsync': {'upload_timeout': 25, 'retry_interval': 2}})
        late = self.add(1, ailing.SLOW, delay=30)[0]
        self.start(1)
        self.wait_until_published([f'{cloud.address(1)}:5555'])
        self.wait_until_applied(cloud.amphora_ids)
        # The others have it while this one is still being waited for.
        self.assertIsNone(self.results()[late.amphora_id].result)
        self.wait_for(lambda: self.results()[late.amphora_id].result ==
                      upload_result.UNREACHABLE, 'time-out')
        self.assertIn('did not answer within 25 s',
                      self.results()[late.amphora_id].error)
        # It is tried again, and taken as soon as it answers in time.
        late.ailment = ailing.HEALTHY
        self.wait_until_applied({late.amphora_id})
        self.assert_nothing_failed_over()


class TestStrangeAnswers(HostileAgentCase):

    def test_those_without_end_delay_nobody(self):
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1,), options={
            'health_manager': {'heartbeat_timeout': 60},
            'hmsync': {'upload_timeout': 30, 'canary_size': 0}})
        strange = [self.add(1, ailment)[0] for ailment in (
            ailing.ONE_BYTE_RECORDS, ailing.ENDLESS_CONTINUE,
            ailing.ENDLESS_HEADERS, ailing.ENDLESS_HANDSHAKE)]
        self.start(1)
        self.wait_until_published([f'{cloud.address(1)}:5555'])
        self.wait_until_applied(cloud.amphora_ids)
        for amphora in strange:
            self.wait_for(lambda a=amphora: self.results()[
                a.amphora_id].result == upload_result.UNREACHABLE,
                f'end of an upload to one with {amphora.ailment}')
            self.assertIn('gave a strange answer',
                          self.results()[amphora.amphora_id].error)
        self.assert_nothing_failed_over()


class TestKilledHousekeeper(HostileAgentCase):

    def test_killed_in_the_middle_of_a_batch(self):
        """Its claims lapse after claim_expiry, and another one takes over.

        Nobody is left behind, and nobody is configured by two at once.
        """
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1,), options={
            'hmsync': {'upload_timeout': 5, 'upload_concurrency': 2,
                       'batch_size': 6, 'claim_expiry': 21}})
        slow = self.add(14, ailing.SLOW, delay=2)
        self.start(1)
        self.wait_for(lambda: sum(a.uploads for a in slow) >= 3,
                      'uploads that are under way')
        self.housekeeping.kill_tree()
        begun = self.ids(a for a in slow if a.uploads)
        unfinished = {i for i, row in self.results().items()
                      if row.claim_owner}
        self.assertTrue(unfinished)
        other = cloud.add_housekeeping(host='other')
        other.wait_until_ready()
        # What it had not claimed goes on at once.
        rest = cloud.amphora_ids | self.ids(slow) - begun - unfinished
        self.wait_until_applied(rest)
        self.wait_until_applied(cloud.amphora_ids | self.ids(slow))
        self.assertEqual(0, self.due())
        for amphora in slow:
            self.assertEqual([], amphora.overlaps())
        # Whoever had been claimed has no more than one upload too many.
        self.assertLessEqual(max(a.uploads for a in slow), 2)
        self.assert_nothing_failed_over()


class TestSimultaneousStart(HostileAgentCase):

    def test_everything_starts_in_the_same_second(self):
        """Two housekeepers, three health managers, tables just made."""
        cloud = self.make_cloud(amphorae=2)
        healthy = self.add(20, ailing.HEALTHY)
        for n in (1, 2, 3):
            cloud.add_health_manager(cloud.address(n))
        keepers = [cloud.add_housekeeping(host=f'hk{n}') for n in (1, 2)]
        cloud.wait_until_ready()
        addresses = {f'{cloud.address(n)}:5555' for n in (1, 2, 3)}
        self.wait_until_published(addresses)
        self.wait_until_applied(cloud.amphora_ids | self.ids(healthy))
        # Each number is published by one of them.
        for number in range(1, self.newest().number + 1):
            published = [keeper for keeper in keepers
                         if f'Published generation {number}:' in keeper.log()]
            self.assertEqual(1, len(published), number)
        self.assertLessEqual(self.newest().number, 3)
        # And no amphora is uploaded to more often than that, by anybody.
        for amphora in healthy:
            self.assertLessEqual(amphora.uploads, self.newest().number)
            self.assertEqual([], amphora.overlaps())
        self.assertEqual(0, self.due())
        self.wait_for(lambda: self.members().keys() == {'hm1', 'hm2', 'hm3'},
                      'all three')
        self.assert_nothing_failed_over()


class TestListener(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def test_listener_is_killed(self):
        """The rest of the health manager lives on, and begins failovers."""
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1, 2))
        one, two = self.start(1, 2)
        self.wait_until_synced([one.address, two.address])
        listener = psutil.Process(one.pid).children()[0]
        self.assertIn(one.bind_port, [c.laddr.port for c in
                                      listener.net_connections('udp')])
        listener.kill()
        self.wait_until_synced([two.address])
        self.assertTrue(one.running)
        self.assertEqual(member.OFFLINE, self.members()[one.host].status)
        time.sleep(12)
        self.assert_nothing_failed_over()
        self.assertEqual(cloud.amphora_ids, set(self.results()))
