# SPDX-License-Identifier: Apache-2.0

"""Waiting for something that another process does."""

import time


class WaitTimeout(AssertionError):
    """What was waited for did not come in time."""


def wait_for(condition, what, timeout, interval=0.1, processes=()):
    """Poll until condition() is true, and return its value.

    :param what: what is waited for, as the rest of "no ... within 5 s"; a
                 callable is asked at the time of the failure
    :param processes: child processes concerned; the wait ends at once when
                      one of them has ended, and the error shows their logs
    :raises WaitTimeout: with the tail of the logs of those processes
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        ended = [process for process in processes if not process.running]
        late = time.monotonic() >= deadline
        if late or ended:
            break
        time.sleep(interval)
    what = what() if callable(what) else what
    message = [f'no {what} within {timeout} s' if late else
               f'no {what}: {ended[0].name} has ended']
    for process in ended or processes:
        message.append(f'--- {process.name}: end of {process.log_path}')
        message.append(process.log_tail())
    raise WaitTimeout('\n'.join(message))
