# SPDX-License-Identifier: Apache-2.0

"""Waiting for something that another process does."""

import contextlib
import functools
import hashlib
import os
import time

# Seconds in which anything happens on a quiet machine of the kind that the
# tests were written on; what ends early ends the wait, so that there is no
# need to say less.
LIMIT = 240
# What the calculation below takes there.
_SECONDS = 0.03
_LARGEST = 5


class WaitTimeout(AssertionError):
    """What was waited for did not come in time."""


@functools.cache
def _get_slowness():
    """How many times longer than there a calculation takes."""
    began, digest = time.process_time(), b''
    for _ in range(60000):
        digest = hashlib.sha256(digest).digest()
    return max(1, (time.process_time() - began) / _SECONDS)


def get_factor():
    """How many times longer than on that machine everything takes now.

    By what runs beside the tests: that begins and ends while they wait.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(_get_slowness() * max(1, load), _LARGEST)


def happens(event, timeout=LIMIT):
    """Wait for a threading.Event, and return whether it came in time.

    :param timeout: as wait_for().
    """
    with contextlib.suppress(WaitTimeout):
        wait_for(event.is_set, 'event', timeout)
    return event.is_set()


def wait_for(condition, what, timeout=LIMIT, interval=0.1, processes=()):
    """Poll until condition() is true, and return its value.

    :param what: what is waited for, as the rest of "no ... within 5 s"; a
                 callable is asked at the time of the failure
    :param timeout: seconds on a quiet machine, see get_factor(); for what is
                    to happen sooner than all else, or not at all
    :param processes: child processes concerned; the wait ends at once when
                      one of them has ended, and the error shows their logs
    :raises WaitTimeout: with the tail of the logs of those processes
    """
    began, factor = time.monotonic(), 1
    while True:
        value = condition()
        if value:
            return value
        ended = [process for process in processes if not process.running]
        factor = max(factor, get_factor())
        late = time.monotonic() >= began + timeout * factor
        if late or ended:
            break
        time.sleep(interval)
    what = what() if callable(what) else what
    message = [f'no {what} within {timeout * factor:.0f} s' if late else
               f'no {what}: {ended[0].name} has ended']
    for process in ended or processes:
        message.append(f'--- {process.name}: end of {process.log_path}')
        message.append(process.log_tail())
    raise WaitTimeout('\n'.join(message))
