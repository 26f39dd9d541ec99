# SPDX-License-Identifier: Apache-2.0

"""Passes of a synchronizer, one after the other, until nothing is to do."""

import collections


def run_until_idle(subject, passes=200):
    """Run as the periodic thread does, until a pass finds nothing.

    It waits for batches and for no time, so that a busy machine only makes
    it slower.

    :param subject: a synchronizer.Synchronizer.
    :param passes: after how many to give up.
    :returns: how many amphorae had each result, a Counter.
    :raises AssertionError: if it never comes to an end.
    """
    results = collections.Counter()
    for _ in range(passes):
        results.update(subject.run_once())
        subject._batches.wait()
        # One that did something, or failed, has the thread look again; the
        # next pass collects it.
        if not any(batch.exception() or batch.result()
                   for batch in list(subject._batches._running)):
            return results
    raise AssertionError('it never comes to an end')
