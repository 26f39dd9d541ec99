# SPDX-License-Identifier: Apache-2.0

import asyncio
import contextlib
import threading
import time

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.amphora import uploader
from tests.unit import base


class Client:
    """Notes what is under way; each upload ends when it is told to."""

    def __init__(self):
        self.begun = []
        self.at_once = 0
        self.most_at_once = 0
        self.hanging = set()
        self.gate = threading.Event()

    async def upload(self, upload):
        self.begun.append((time.monotonic(), upload))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.01)
        while upload in self.hanging and not self.gate.is_set():
            await asyncio.sleep(0.01)
        self.at_once -= 1
        return agent_client.Answer(upload_result.REJECTED,
                                   f'answer of {upload}')


class Broken:
    async def upload(self, upload):
        raise ZeroDivisionError()


class TestUploader(base.TestCase):

    def setUp(self):
        super().setUp()
        self.client = Client()
        self.all_begun = threading.Event()

    def make(self, *args, **kwargs):
        subject = uploader.Uploader(*args, **kwargs)
        self.addCleanup(subject.close)
        self.addCleanup(self.client.gate.set)
        return subject

    def start(self, subject, uploads, may_begin=lambda: True, client=None):
        return subject.upload_all(client or self.client, uploads, may_begin,
                                  self.all_begun.set)

    def run_all(self, *args, **kwargs):
        return [(upload, answer.error)
                for chunk in self.start(*args, **kwargs)
                for upload, answer in chunk]

    def test_each_is_answered_once(self):
        answers = self.run_all(self.make(8), range(50))
        self.assertEqual([(n, f'answer of {n}') for n in range(50)],
                         sorted(answers))
        self.assertTrue(self.all_begun.is_set())

    def test_nothing_to_do(self):
        self.assertEqual([], self.run_all(self.make(8), []))
        self.assertTrue(self.all_begun.is_set())

    def test_places_are_those_of_all_batches(self):
        subject = self.make(4)
        threads = [threading.Thread(target=self.run_all, args=(
            subject, range(20 * n, 20 * n + 20))) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(60, len(self.client.begun))
        self.assertEqual(4, self.client.most_at_once)

    def test_those_that_hang_leave_places_to_others(self):
        subject = self.make(4)
        self.client.hanging = {0, 1, 2}
        chunks = self.start(subject, range(10))
        ended = []
        while len(ended) < 7:
            ended += next(chunks)
        self.assertTrue(self.all_begun.is_set())
        self.assertEqual(20, len(self.run_all(subject, range(100, 120))))
        self.client.gate.set()
        for chunk in chunks:
            ended += chunk
        self.assertEqual(set(range(10)), {upload for upload, _ in ended})

    def test_what_is_told_of_it(self):
        ended = []
        subject = self.make(4, on_ended=lambda *args: ended.append(args))
        self.client.hanging = {0}
        chunks = self.start(subject, range(3))
        next(chunks)
        while subject.in_flight > 1:
            time.sleep(0.01)
        self.assertEqual([1, 2], sorted(
            int(answer.error[-1]) for answer, _seconds in ended))
        self.client.gate.set()
        for _chunk in chunks:
            pass
        self.assertEqual(0, subject.in_flight)
        self.assertEqual({f'answer of {n}' for n in range(3)},
                         {answer.error for answer, _seconds in ended})
        self.assertGreater(min(seconds for _, seconds in ended), 0.009)

    def test_rate(self):
        """That of all batches together."""
        subject = self.make(100, get_rate=lambda: 100)
        other = threading.Thread(target=self.run_all,
                                 args=(subject, range(20)))
        other.start()
        self.run_all(subject, range(20, 40))
        other.join()
        times = sorted(begun for begun, _upload in self.client.begun)
        self.assertEqual(40, len(times))
        self.assertGreater(times[-1] - times[0], 0.38)

    def test_no_more_are_begun_than_may(self):
        turns = iter([True, True, True, False])
        answers = self.run_all(self.make(1), range(10),
                               lambda: next(turns))
        self.assertEqual([0, 1, 2], [upload for upload, _ in answers])
        self.assertTrue(self.all_begun.is_set())
        # The place of the one that was not begun is free again.
        self.assertEqual(2, len(self.run_all(self.make(1), range(2))))

    def test_client_that_is_broken(self):
        subject = self.make(4)
        self.assertRaises(ZeroDivisionError, self.run_all, subject, range(9),
                          client=Broken())
        self.assertTrue(self.all_begun.is_set())
        self.assertEqual(0, subject.in_flight)
        self.assertEqual(9, len(self.run_all(subject, range(9))))

    def test_whoever_stops_listening_waits_for_what_is_under_way(self):
        subject = self.make(2)
        self.client.hanging = {1}
        may_begin = threading.Event()
        may_begin.set()
        with contextlib.closing(self.start(subject, range(1000),
                                           may_begin.is_set)) as chunks:
            next(chunks)
            may_begin.clear()
            threading.Timer(0.2, self.client.gate.set).start()
        self.assertEqual(0, self.client.at_once)
        self.assertLess(len(self.client.begun), 1000)
