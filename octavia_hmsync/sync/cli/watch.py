# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync sync watch."""

import math
import time

from cliff import command
from oslo_utils import timeutils
from rich import console
from rich import live
from rich import progress_bar
from rich import table
from rich import text as rich_text

from octavia_hmsync.cli import base
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import progress


class _Lines:
    """For pipes and logs: a line for each change.

    :param stream: where to write.
    """

    def __init__(self, stream):
        self._stream = stream
        self._said = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return False

    def show(self, parts, problems):
        """Show what has changed.

        :param parts: a list of (Part, rate).
        :param problems: a list of lines.
        """
        said = {progress.name_part(part): progress.describe_part(part, rate)
                for part, rate in parts}
        said.update(dict.fromkeys(problems, ''))
        for subject, text in said.items():
            if self._said.get(subject) != text:
                line = f'{subject}: {text}' if text else subject
                self._stream.write(f'{timeutils.utcnow():%Y-%m-%dT%H:%M:%S} '
                                   f'{line}\n')
        self._stream.flush()
        self._said = said


class _Bars:
    """For terminals: a bar for each generation, redrawn in its place.

    :param terminal: a rich Console.
    """

    def __init__(self, terminal):
        self._live = live.Live(console=terminal, auto_refresh=False)
        # The last state of each generation; which are still shown.
        self._parts = {}
        self._current = set()

    def __enter__(self):
        self._live.start()
        return self

    def __exit__(self, *exc_info):
        self._live.stop()
        return False

    def show(self, parts, problems):
        """Show the progress.

        :param parts: a list of (Part, rate).
        :param problems: a list of lines.
        """
        if parts:
            self._current = {part.generation.number for part, _rate in parts}
        self._parts.update({part.generation.number: (part, rate)
                            for part, rate in parts})
        bars = table.Table.grid(padding=(0, 1))
        for number, (part, rate) in sorted(self._parts.items()):
            text = progress.describe_part(part, rate)
            if number not in self._current:
                text = f'{part.progress.done} amphorae, then another came'
            bars.add_row(
                progress.name_part(part), progress_bar.ProgressBar(
                    total=max(part.progress.amphorae, 1),
                    completed=part.progress.done, width=30), text)
        # In a str, rich would interpret brackets as markup.
        self._live.update(
            console.Group(bars, *map(rich_text.Text, problems)), refresh=True)


class Watch(base.DatabaseMixin, command.Command):
    """Show how far the amphorae are with their list, until all have it.

    A bar for each generation on a terminal, a line for each change
    otherwise; with what is stuck, and why. While canaries try a list, that
    one and the last good one are shown. Fails after --timeout.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--interval', type=base.positive_seconds,
                            default=2, metavar='<seconds>',
                            help='time between two looks (default: 2)')
        parser.add_argument('--timeout', type=base.positive_seconds,
                            metavar='<seconds>',
                            help='give up after so long')
        parser.add_argument('--follow', action='store_true',
                            help='go on when all amphorae have their list')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        deadline = time.monotonic() + (parsed_args.timeout or math.inf)
        rates = progress.Rates()
        stream = self.app.stdout
        seen = progress.look(conf, engine)
        terminal = console.Console(file=stream)
        # A dumb terminal cannot redraw: rich would draw only at the end.
        with (_Bars(terminal) if stream.isatty() and
              not terminal.is_dumb_terminal else _Lines(stream)) as display:
            while True:
                self._show(display, rates, conf, seen)
                if seen and seen.is_complete and not parsed_args.follow:
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    raise exceptions.NotPossible(
                        f'After {parsed_args.timeout:g} s not every amphora '
                        f'has the newest list: see above for what keeps '
                        f'them, or "octavia-hmsync amphora list".')
                time.sleep(min(parsed_args.interval, left))
                seen = self._look_again(conf, engine, display)
        stream.write(f'Every amphora has generation '
                     f'{seen.parts[0].generation.number}.\n')

    def _look_again(self, conf, engine, display):
        try:
            return progress.look(conf, engine)
        except base.REPORTED_ERRORS as e:
            if not api.is_database_error(e):
                raise
            display.show([], [base.describe(e)])
            return None

    def _show(self, display, rates, conf, seen):
        if seen is None:
            return
        now = time.monotonic()
        display.show(
            [(part, rates.note(now, part.generation.number,
                               part.progress.done)) for part in seen.parts],
            progress.describe_problems(seen, conf.hmsync.offline_after))
