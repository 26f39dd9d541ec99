# SPDX-License-Identifier: Apache-2.0

"""Announcing several times."""

import queue
import threading
from unittest import mock

from oslotest import base

from octavia_hmsync.distributor.ovs import announcer
from octavia_hmsync import exceptions

TIMEOUT = 20


class TestAnnouncer(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.sent = queue.Queue()
        self.failures = []
        self.subject = announcer.Announcer(self.send)
        self.addCleanup(self.subject.close)

    def send(self, key, *args):
        self.sent.put((key, *args))
        if self.failures:
            raise self.failures.pop()

    def test_several_times_whatever_fails(self):
        self.failures = [KeyError('x'), exceptions.VswitchUnavailable('y')]
        with mock.patch.object(announcer, 'DELAYS', (0, 0.01, 0.02)):
            self.subject.start('vip', 1)
        self.assertEqual([('vip', 1)] * 3, [
            self.sent.get(timeout=TIMEOUT) for _ in range(3)])

    def test_begun_again(self):
        """What was begun before is not said any more."""
        with mock.patch.object(announcer, 'DELAYS', (0, 3600)):
            self.subject.start('vip', 1)
            self.assertEqual(('vip', 1), self.sent.get(timeout=TIMEOUT))
        with mock.patch.object(announcer, 'DELAYS', (0, 0.1)):
            self.subject.start('vip', 2)
        self.assertEqual([('vip', 2)] * 2, [
            self.sent.get(timeout=TIMEOUT) for _ in range(2)])

    def test_closed(self):
        """It waits for what is being sent, and says nothing after that."""
        begun, go_on = queue.Queue(), threading.Event()

        def send(key):
            begun.put(threading.current_thread())
            self.assertTrue(go_on.wait(TIMEOUT))
            self.sent.put(key)

        subject = announcer.Announcer(send)
        with mock.patch.object(announcer, 'DELAYS', (0, 0.1)):
            subject.start('vip')
        thread = begun.get(timeout=TIMEOUT)
        threading.Timer(0.2, go_on.set).start()
        subject.close()
        self.assertEqual('vip', self.sent.get_nowait())
        self.assertFalse(thread.is_alive())
        self.assertTrue(self.sent.empty())
