# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.metrics import reading
from tests.unit import base


class TestDatabaseReading(base.TestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.takes = 0
        self.error = None
        self.subject = reading.DatabaseReading(self.read, 10,
                                               lambda: self.now)

    def read(self):
        self.now += self.takes
        if self.error:
            raise self.error
        return [reading.gauge('amphorae', 'All.', 7)]

    def values(self):
        return {sample.name.removeprefix(reading.PREFIX): sample.value
                for family in self.subject.collect()
                for sample in family.samples}

    def test_nothing_before_the_first_reading(self):
        self.assertEqual({'database_up': 0}, self.values())

    def test_read(self):
        self.subject.run_once()
        values = self.values()
        self.assertGreater(values.pop('database_read_timestamp_seconds'), 1e9)
        self.assertEqual({'database_up': 1, 'amphorae': 7}, values)

    def test_old_figures_are_not_served_as_new(self):
        """Neither after a failure, nor while a reading hangs."""
        self.subject.run_once()
        self.error = ZeroDivisionError()
        self.assertRaises(ZeroDivisionError, self.subject.run_once)
        self.assertEqual({'database_up': 0}, self.values())
        self.error = None
        self.subject.run_once()
        self.now += 41
        self.assertEqual({'database_up': 0}, self.values())

    def test_reading_that_takes_long_is_good_for_longer(self):
        self.takes = 20
        self.subject.run_once()
        self.now += 200
        self.assertEqual(7, self.values()['amphorae'])
        self.now += 100
        self.assertEqual({'database_up': 0}, self.values())
