# SPDX-License-Identifier: Apache-2.0

"""Bars on a terminal, lines in a pipe."""

import dataclasses
import io
import re

import fixtures

from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from tests.unit import base

WAY = re.compile(r'\x1b\[[0-9;?]*[A-Za-z]')


class Terminal(io.StringIO):

    def isatty(self):
        return True


class TestDisplay(base.TestCase):

    def see(self, *shown, stream=None):
        """Show some states on a terminal of 80 columns."""
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        terminal = stream or Terminal()
        with progress.Display(terminal) as display:
            for bars, known in shown:
                display.show(bars, known)
        # Without what moves the cursor.
        return WAY.sub('', terminal.getvalue())

    def test_bars(self):
        bar = progress.Bar('rollout of today', 28, 229, 'load balancers',
                           ('2 running', '1 failed'), 12 / 3600, 15600)
        text = self.see(([bar], {'web': 'BUILD', 'It is night.': ''}))
        self.assertRegex(text, r'rollout of today +[━╺]+ +28 of 229')
        self.assertIn('web: BUILD', text)
        self.assertIn('It is night.\n', text)
        self.assertIn('28 of 229 load balancers, 12.0 per hour, 4 h 20 min '
                      'left, 2 running, 1 failed', bar.describe(0))
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_nothing_is_seen_meanwhile(self):
        """The bars stay as they were."""
        text = self.see(([progress.Bar('drain', 1, 3)], ()),
                        (None, ['no database']))
        self.assertRegex(text, '1 of 3 *\nno database')

    def test_brackets(self):
        """They are no markup, whatever the operator or the tenant wrote."""
        problems = ['Check [database] connection.', '(see [/docs])',
                    'https://[2001:db8::1]:9443']
        text = self.see(([progress.Bar('[red]web', 1, 3, '[/]')], problems))
        for problem in (*problems, '[red]web', '[/]'):
            self.assertIn(problem, text)

    def test_lines(self):
        """In a pipe, and on a terminal that cannot be redrawn."""
        bar = progress.Bar('drain', 1, 3, 'amphorae')
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'dumb'))
        for stream in (io.StringIO(), Terminal()):
            faster = dataclasses.replace(bar, per_second=5)
            text = self.see(([bar], ['slow']), ([faster], ['slow']),
                            ([bar], {'web': 'BUILD'}),
                            ([bar], {'web': 'PROVE'}), stream=stream)
            self.assertEqual(
                ['drain: 1 of 3 amphorae', 'slow', 'web: BUILD',
                 'web: PROVE'],
                [line.partition(' ')[2] for line in text.splitlines()])
            self.assertRegex(text, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d ')


class _App:

    def __init__(self):
        self.stdout, self.stderr = io.StringIO(), io.StringIO()


class TestWatch(base.TestCase):

    def test_error_of_a_look(self):
        app, looks = _App(), iter((OSError('away'), None))

        def look():
            error = next(looks)
            if error:
                raise error
            return 'here'

        with progress.Watch(app, 0.001, None, explain=str) as watch:
            watch.follow(look, lambda found: found == 'here', '')
        self.assertIn(' away\n', app.stdout.getvalue())
        looks = iter((OSError('away'),))
        with progress.Watch(app, 1, None) as watch:
            self.assertRaises(OSError, watch.follow, look, bool, '')

    def test_it_does_not_end(self):
        with progress.Watch(_App(), 1, 0) as watch:
            for given_up in ('too long', lambda found: f'too {found}'):
                e = self.assertRaises(
                    exceptions.NotPossible, watch.follow, lambda: 'long',
                    lambda found: False, given_up)
                self.assertEqual('too long', str(e))


class TestWords(base.TestCase):

    def test_rate(self):
        rates = progress.Rates()
        self.assertEqual(0, rates.note(0, 1, 100))
        self.assertEqual(10, rates.note(2, 1, 120))
        # Another thing has its own.
        self.assertEqual(0, rates.note(2, 2, 0))
        # What is long past does not count.
        self.assertEqual(1, rates.note(102, 1, 220))
        self.assertEqual(0, rates.note(112, 1, 220))
        # Amphorae that are deleted.
        self.assertEqual(0, rates.note(114, 1, 200))

    def test_times(self):
        for seconds, text in ((0.2, '1 s'), (119, '119 s'), (121, '3 min'),
                              (15600, '4 h 20 min'), (90000, '1 d 1 h'),
                              (86460, '1 d 1 min')):
            self.assertEqual(text, progress.describe_time(seconds))
        for rate, text in ((8, '8.0 per second'), (0.5, '30.0 per minute'),
                           (0.001, '3.6 per hour'), (0.0001, '0.4 per hour')):
            self.assertEqual(text, progress.describe_rate(rate))

    def test_left(self):
        bar = progress.Bar('x', 10, 30, 'amphorae')
        self.assertEqual('10 of 30 amphorae, 2.0 per second, 10 s left',
                         bar.describe(2))
        self.assertEqual('10 of 30 amphorae', bar.describe())
        self.assertEqual('30 of 30', progress.Bar('x', 30, 30).describe(2))
        # Its own rate counts.
        bar = dataclasses.replace(bar, per_second=0.0, facts=('1 failed',))
        self.assertEqual('10 of 30 amphorae, 1 failed', bar.describe(2))

    def test_many(self):
        self.assertEqual(['a', 'b'], progress.name_some('ab', 2, 'it'))
        self.assertEqual([*'abcde', 'and 95 more: see "it".'],
                         progress.name_some('abcdefg', 100, 'it'))
