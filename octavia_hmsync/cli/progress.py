# SPDX-License-Identifier: Apache-2.0

"""Follows what takes time: how far it is, how fast, how long yet.

On a terminal there is a bar for each thing that is followed, redrawn in its
place; in a pipe or a log there is a line for each change.
"""

import collections
from collections import abc
import dataclasses
import math
import time

from oslo_utils import timeutils

from octavia_hmsync.cli import plain
from octavia_hmsync import exceptions

INTERVAL = 2
# How many things of one kind are named.
NAMED = 5
# Seconds over which a rate is taken.
_RATE_PERIOD = 10
# A terminal of 80 columns has room for the words beside it.
_WIDTH = 20


@dataclasses.dataclass(frozen=True)
class Bar:
    """How far one thing is.

    :param name: what it is; begins the line.
    :param done: how many are done.
    :param total: of how many; None if that is unknown.
    :param unit: what is counted, in the plural.
    :param facts: more about it, each some words.
    :param per_second: how many become done, 0 if unknown; None: take it from
                       what is seen.
    :param left: seconds until all are done; None: take it from the rate.
    """

    name: str
    done: int
    total: int | None
    unit: str = ''
    facts: tuple[str, ...] = ()
    per_second: float | None = None
    left: float | None = None

    def describe(self, rate=None):
        """Return it in one line, without its name.

        :param rate: how many become done per second, as seen; None: do not
                     tell how fast it is, which always changes.
        """
        words = [f'{self.done} of {self.total} {self.unit}'
                 if self.total is not None else f'{self.done} {self.unit}']
        if rate is not None and (self.total is None or
                                 self.done < self.total):
            rate = rate if self.per_second is None else self.per_second
            left = self.left
            if left is None and rate and self.total is not None:
                left = (self.total - self.done) / rate
            if rate:
                words.append(describe_rate(rate))
            if left:
                words.append(f'{describe_time(left)} left')
        return ', '.join([*(word.rstrip() for word in words), *self.facts])


def describe_rate(per_second):
    """Put a rate in words, by the unit in which it is a number above 1."""
    for seconds, unit in ((1, 'second'), (60, 'minute'), (3600, 'hour')):
        if per_second * seconds >= 1:
            break
    return f'{per_second * seconds:.1f} per {unit}'


def describe_time(seconds):
    """Put a duration in words: the two largest units, rounded up."""
    seconds = math.ceil(seconds)
    if seconds < 120:
        return f'{seconds} s'
    minutes = -(-seconds // 60)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f'{number} {unit}' for number, unit in (
        (days, 'd'), (hours, 'h'), (minutes, 'min')) if number]
    return ' '.join(parts[:2])


def name_some(lines, number, where):
    """Return the first lines, and how many of all there are beside."""
    shown = list(lines)[:NAMED]
    if number > len(shown):
        shown.append(f'and {number - len(shown)} more: see "{where}".')
    return shown


class Rates:
    """How many become done per second, of each thing, as seen lately."""

    def __init__(self):
        self._seen = collections.defaultdict(collections.deque)

    def note(self, now, name, done):
        """Record how many are done; return how many per second, or 0.0."""
        seen = self._seen[name]
        seen.append((now, done))
        while len(seen) > 2 and now - seen[1][0] >= _RATE_PERIOD:
            seen.popleft()
        then, before = seen[0]
        return max(0.0, (done - before) / (now - then)) if now > then else 0.0


class _Lines:
    """For pipes and logs: a line for each change."""

    def __init__(self, stream):
        self._stream = stream
        self._said = {}

    def start(self):
        """Do nothing; as stop()."""

    stop = start

    def show(self, bars, known):
        """Show what has changed; see Display.show()."""
        texts = {bar.name: text for bar, text in bars or ()} | known
        # A pace that keeps changing is no news.
        said = {bar.name: bar.describe() for bar, _ in bars or ()} | known
        for subject, text in texts.items():
            if self._said.get(subject) != said[subject]:
                line = f'{subject}: {text}' if text else subject
                self._stream.write(f'{timeutils.utcnow():%Y-%m-%dT%H:%M:%S} '
                                   f'{line}\n')
        self._stream.flush()
        self._said = said


class _Bars:
    """For terminals: bars, redrawn in their place."""

    def __init__(self, terminal):
        from rich import live

        self._live = live.Live(console=terminal, auto_refresh=False)
        self.start, self.stop = self._live.start, self._live.stop
        self._bars: list[tuple[Bar, str]] = []

    def show(self, bars, known):
        """Draw anew; see Display.show()."""
        from rich import console
        from rich import progress_bar
        from rich import table
        from rich import text as rich_text

        if bars is not None:
            self._bars = bars
        grid = table.Table.grid(padding=(0, 1))
        for bar, text in self._bars:
            # In a str, rich would interpret brackets as markup.
            grid.add_row(rich_text.Text(bar.name), progress_bar.ProgressBar(
                total=max(bar.total or 0, bar.done, 1), completed=bar.done,
                width=_WIDTH), rich_text.Text(text))
        self._live.update(console.Group(grid, *(
            rich_text.Text(f'{subject}: {text}' if text else subject)
            for subject, text in known.items())), refresh=True)


class Display:
    """Shows progress on a stream, as that permits."""

    def __init__(self, stream):
        # Imported late: most commands do not follow anything.
        from rich import console

        terminal = console.Console(file=stream)
        # A dumb terminal cannot redraw: rich would draw only at the end.
        self._shown = (_Bars(terminal) if stream.isatty() and
                       not terminal.is_dumb_terminal else _Lines(stream))
        self._rates = Rates()

    def __enter__(self):
        self._shown.start()
        return self

    def __exit__(self, *exc_info):
        self._shown.stop()
        return False

    def show(self, bars, known=()):
        """Show the present state.

        :param bars: a list of Bar; None if nothing could be seen, and those
                     of before stay.
        :param known: {subject: text} or lines; the text is empty if the
                      subject says everything.
        """
        now = time.monotonic()
        self._shown.show(bars and [
            (bar, bar.describe(self._rates.note(now, bar.name, bar.done)))
            for bar in bars],
            dict(known) if isinstance(known, abc.Mapping)
            else dict.fromkeys(known, ''))


class Watch(Display):
    """Looks repeatedly, and shows how far things are.

    :param app: the application of cmd.hmsync.
    :param timeout: seconds until it gives up, None for never.
    :param farewell: the message after Ctrl-C, or ''.
    :param explain: called with an exception of a look; returns a line if
                    that passes, None to raise it.
    """

    def __init__(self, app, interval, timeout, farewell='',
                 explain=lambda error: None, stream=None):
        super().__init__(stream or app.stdout)
        self._app = app
        self._interval = interval
        self._deadline = time.monotonic() + (
            math.inf if timeout is None else timeout)
        self._farewell = farewell
        self._explain = explain

    def __exit__(self, exc_type, exc_value, traceback):
        super().__exit__(exc_type, exc_value, traceback)
        if exc_type is KeyboardInterrupt and self._farewell:
            self._app.stderr.write(f'{self._farewell}\n')
        return False

    def follow(self, look, show, given_up):
        """Look until it has ended.

        :param look: called without arguments, returns the present state.
        :param show: called with that; shows it, and returns whether it has
                     ended well.
        :param given_up: the message at the timeout, or a function that
                         returns it, called with the last state or None.
        :raises NotPossible: with that message.
        """
        while True:
            found = self._look(look)
            if found is not None and show(found):
                return
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise exceptions.NotPossible(
                    given_up(found) if callable(given_up) else given_up)
            time.sleep(min(self._interval, left))

    def _look(self, function):
        """Look once; returns None, and reports why, if it cannot."""
        try:
            return function()
        except Exception as e:
            line = self._explain(e)
            if line is None:
                raise
            self.show(None, [line])
            return None


def add_arguments(parser, timeout_help='give up after so long'):
    """Add the arguments --interval and --timeout."""
    parser.add_argument('--interval', type=plain.positive_seconds,
                        default=INTERVAL, metavar='<seconds>',
                        help=f'time between two looks (default: {INTERVAL})')
    parser.add_argument('--timeout', type=plain.positive_seconds,
                        metavar='<seconds>', help=timeout_help)
