# SPDX-License-Identifier: Apache-2.0

"""Rates from what heartbeats have counted."""

import datetime

from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.rules import load
from tests.unit import base

START = datetime.datetime(2026, 1, 1)


def counted(seconds, connections, traffic):
    return load_repo.Counted(START + datetime.timedelta(seconds=seconds),
                             connections, traffic)


class TestRates(base.TestCase):

    def test_rates(self):
        self.assertEqual(load.Rates(5.0, 200.0), load.find_rates(
            counted(0, 100, 1000), counted(20, 200, 5000)))
        self.assertEqual(load.Rates(0.0, 0.0), load.find_rates(
            counted(0, 100, 1000), counted(20, 100, 1000)))

    def test_not_known(self):
        now = counted(20, 100, 1000)
        for before in (None, now,
                       # A listener was deleted.
                       counted(0, 101, 900), counted(0, 90, 1001),
                       # Another health manager has another clock.
                       counted(21, 90, 900)):
            self.assertIsNone(load.find_rates(before, now), before)

    def test_due(self):
        now = counted(20, 100, 1000)
        self.assertTrue(load.is_due(None, now))
        for seconds, expected in ((10, True), (10.5, False), (20, False),
                                  (30, False)):
            self.assertEqual(expected, load.is_due(
                counted(seconds, 1, 1), now))
