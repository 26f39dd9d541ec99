# SPDX-License-Identifier: Apache-2.0

"""Follows replacements, with a line for each change."""

import math
import time

from oslo_utils import timeutils

from octavia_hmsync.cli import base
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo

INTERVAL = 2


def add_arguments(parser, timeout_help='give up after so long'):
    """Add the arguments --interval and --timeout."""
    parser.add_argument('--interval', type=base.positive_seconds,
                        default=INTERVAL, metavar='<seconds>',
                        help=f'time between two looks (default: {INTERVAL})')
    parser.add_argument('--timeout', type=base.positive_seconds,
                        metavar='<seconds>', help=timeout_help)


class Changes:
    """Looks repeatedly, and writes what has changed.

    :param app: the application of cmd.hmsync.
    :param interval: seconds between two looks.
    :param timeout: seconds until it gives up, None for never.
    :param farewell: the message after Ctrl-C.
    """

    def __init__(self, app, interval, timeout, farewell):
        self._app = app
        self._interval = interval
        self._deadline = time.monotonic() + (timeout or math.inf)
        self._farewell = farewell
        self._said = {}

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if exc_type is KeyboardInterrupt:
            self._app.stderr.write(f'{self._farewell}\n')
        return False

    def follow(self, look, show, given_up):
        """Look until it has ended.

        :param look: called without arguments, returns the present state.
        :param show: called with that; returns whether it has ended well.
        :param given_up: the message at the timeout.
        :raises NotPossible: with that message.
        """
        while True:
            found = self._look(look)
            if found and show(found):
                return
            if not self._wait():
                raise exceptions.NotPossible(given_up)

    def _look(self, function):
        """Look once.

        :param function: called without arguments, returns the state.
        :returns: None, and reports it once, if the database cannot be used.
        """
        try:
            return function()
        except base.REPORTED_ERRORS as e:
            if not api.is_database_error(e):
                raise
            self.show({base.describe(e): ''})
            return None

    def show(self, known):
        """Write what has changed since the last call.

        :param known: {subject: text}; the text is empty if the subject says
                      everything.
        """
        for subject, text in known.items():
            if self._said.get(subject) != text:
                line = f'{subject}: {text}' if text else subject
                self._app.stdout.write(
                    f'{timeutils.utcnow():%Y-%m-%dT%H:%M:%S} {line}\n')
        self._app.stdout.flush()
        self._said = known

    def _wait(self):
        """Wait for the next look; returns False at the timeout."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(self._interval, left))
        return True


def describe(replacement):
    """Return the progress of a replacement, in one line.

    :param replacement: an image.db.replacement.Replacement.
    """
    state = replacement.state
    if state == replace_repo.RUNNING and replacement.phase:
        state = replacement.phase
        if replacement.new_amphora_id:
            state = (f'{state}, amphora {replacement.new_amphora_id} for '
                     f'{replacement.old_amphora_id}')
    return join(state, replacement.reason)


def join(state, reason):
    """Put a state and its reason, if any, in one line."""
    return f'{state} ({reason})' if reason else state


def check_that_somebody_is_up(engine, max_age):
    """Refuse to begin if no housekeeper could do the work.

    :param max_age: ``[hmsync] offline_after``, seconds.
    :raises NotPossible: if no housekeeper is there to replace amphorae.
    """
    if not keeper_repo.get_up(engine, max_age):
        raise exceptions.NotPossible(
            f'No octavia-housekeeping has given a sign of life for {max_age} '
            f's, so that no amphora would be replaced: start one, or see its '
            f'log, and run the command again.')


def describe_nobody(max_age):
    """Report in one line that no housekeeper is there to replace amphorae.

    :param max_age: ``[hmsync] offline_after``, seconds.
    """
    return (f'No octavia-housekeeping has given a sign of life for {max_age} '
            f's: no amphora is replaced.')
