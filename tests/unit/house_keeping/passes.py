#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
