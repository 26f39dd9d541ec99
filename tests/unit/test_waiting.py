# SPDX-License-Identifier: Apache-2.0

"""How long tests wait."""

import os
import threading
import time
from unittest import mock

from oslotest import base

from tests.cloud import waiting


class TestFactor(base.BaseTestCase):

    def get_factor(self, seconds=0.001, load=0.0):
        """Ask on a machine that computes so long, with such a load."""
        with mock.patch.object(time, 'process_time', spec=time.process_time,
                               side_effect=[0, seconds]), mock.patch.object(
                os, 'getloadavg', spec=os.getloadavg,
                return_value=(load, 0, 0)), mock.patch.object(
                os, 'cpu_count', spec=os.cpu_count, return_value=2):
            waiting._get_slowness.cache_clear()
            self.addCleanup(waiting._get_slowness.cache_clear)
            return waiting.get_factor()

    def test_factor(self):
        self.assertEqual(1, self.get_factor())
        self.assertAlmostEqual(2, self.get_factor(0.06))
        self.assertEqual(3, self.get_factor(load=6))
        self.assertAlmostEqual(3, self.get_factor(0.045, load=4))
        self.assertEqual(5, self.get_factor(0.3, load=40))

    def test_limits(self):
        """A load that comes later counts, and goes on counting."""
        clock = iter([0, 100, 240, 599, 600])
        asked = []
        with mock.patch.object(time, 'monotonic', spec=time.monotonic,
                               side_effect=clock), mock.patch.object(
                time, 'sleep', spec=time.sleep), mock.patch.object(
                waiting, 'get_factor', spec=waiting.get_factor,
                side_effect=[1, 2.5, 1, 2]):
            e = self.assertRaises(waiting.WaitTimeout, waiting.wait_for,
                                  lambda: asked.append(1), 'rain')
        self.assertEqual('no rain within 600 s', str(e))
        self.assertEqual(4, len(asked))

    def test_event(self):
        event = threading.Event()
        self.assertFalse(waiting.happens(event, 0))
        event.set()
        self.assertTrue(waiting.happens(event, 0))
