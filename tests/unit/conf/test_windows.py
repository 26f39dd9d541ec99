# SPDX-License-Identifier: Apache-2.0

import datetime

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.conf import windows
from octavia_hmsync import exceptions
from tests.unit import base

MONDAY = datetime.datetime(2026, 11, 23)
HOURS = st.integers(0, 23)
MINUTES = st.integers(0, 59)
NOW = st.datetimes(datetime.datetime(2026, 1, 1),
                   datetime.datetime(2027, 12, 31))
DAYS = st.sampled_from(['', 'Mon ', 'Sat,Sun ', 'Mon-Fri ', 'sat - tue ',
                        'Wednesday '])


@st.composite
def texts(draw):
    begin, end = draw(st.tuples(HOURS, MINUTES)), draw(
        st.tuples(HOURS, MINUTES))
    if begin == end:
        end = (24, 0)
    return (f'{draw(DAYS)}{begin[0]:02}:{begin[1]:02}-'
            f'{end[0]:02}:{end[1]:02}')


def at(day, time):
    """A time of the week of MONDAY."""
    hour, minute = map(int, time.split(':'))
    return MONDAY + datetime.timedelta(days=day, hours=hour, minutes=minute)


class TestParse(base.TestCase):

    def openings(self, text):
        return [(w.begin // 1440, w.begin % 1440, w.minutes)
                for w in windows.parse(text)]

    def test_examples(self):
        for text, expected in (
                ('', []), ('  ', []),
                ('Sat,Sun 01:00-05:00', [(5, 60, 240), (6, 60, 240)]),
                ('sunday 1:00 - 5:30', [(6, 60, 270)]),
                ('Sat-Mon 22:00-04:00',
                 [(0, 1320, 360), (5, 1320, 360), (6, 1320, 360)]),
                ('00:00-24:00', [(day, 0, 1440) for day in range(7)]),
                ('Mon 01:00-02:00; Tue 03:00-24:00',
                 [(0, 60, 60), (1, 180, 1260)]),
                ('Mon,Mon 01:00-02:00', [(0, 60, 60)])):
            self.assertEqual(expected, self.openings(text), text)

    def test_cannot_be_read(self):
        for text, words in (
                ('Saturday', 'days and time'),
                ('Sat 1-5', 'days and time'),
                ('Sat 01:00-05:00;', 'days and time'),
                ('Caturday 01:00-05:00', 'caturday is no day'),
                ('Sat, 01:00-05:00', 'nothing is no day'),
                ('Mon-Tue-Wed 01:00-05:00', 'mon-tue-wed are no days'),
                ('Sat 25:00-26:00', 'there is no 25:00'),
                ('Sat 01:00-05:60', 'there is no 05:60'),
                ('24:00-01:00', 'a day begins at 00:00')):
            e = self.assertRaises(exceptions.NotPossible, windows.parse, text)
            self.assertIn(words, str(e))
            self.assertIn('Sat,Sun 01:00-05:00', str(e))

    def test_never_opens(self):
        e = self.assertRaises(exceptions.NotPossible, windows.parse,
                              'Sat 05:00-05:00')
        self.assertIn("'Sat 05:00-05:00' never opens", str(e))

    @given(st.text(alphabet='montue satsun0123:-,; '))
    def test_anything(self, text):
        """It is read, or refused in one line."""
        try:
            windows.parse(text)
        except exceptions.NotPossible as e:
            self.assertNotIn('\n', str(e))


class TestOpen(base.TestCase):

    def test_examples(self):
        for text, time, is_open in (
                ('Sat,Sun 01:00-05:00', at(5, '00:59'), False),
                ('Sat,Sun 01:00-05:00', at(5, '01:00'), True),
                ('Sat,Sun 01:00-05:00', at(6, '04:59'), True),
                ('Sat,Sun 01:00-05:00', at(6, '05:00'), False),
                ('Sat,Sun 01:00-05:00', at(0, '02:00'), False),
                # Beyond midnight, and the end of the week.
                ('Sun 22:00-04:00', at(0, '03:59'), True),
                ('Sun 22:00-04:00', at(6, '03:59'), False),
                ('', at(3, '12:00'), True)):
            self.assertEqual(is_open, windows.is_open(windows.parse(text),
                                                      time), (text, time))

    def test_opening(self):
        for text, now, expected in (
                ('Sat 01:00-05:00', at(0, '12:30'), at(5, '01:00')),
                ('Sat 01:00-05:00', at(5, '02:00'), at(5, '02:00')),
                ('Sat 01:00-05:00', at(5, '05:00'), at(12, '01:00')),
                ('03:00-04:00', at(2, '12:00'), at(3, '03:00')),
                ('Mon 01:00-02:00', at(6, '23:59'), at(7, '01:00'))):
            self.assertEqual(expected, windows.get_opening(
                windows.parse(text), now), (text, now))

    @given(st.lists(texts(), min_size=1, max_size=3), NOW)
    def test_opening_is_the_first(self, parts, now):
        found = windows.parse('; '.join(parts))
        opening = windows.get_opening(found, now)
        self.assertTrue(windows.is_open(found, opening))
        self.assertLessEqual(now, opening)
        self.assertLessEqual(opening - now, datetime.timedelta(days=7))
        if opening > now:
            self.assertFalse(windows.is_open(found, now))
            self.assertFalse(windows.is_open(
                found, opening - datetime.timedelta(microseconds=1000)))
