# SPDX-License-Identifier: Apache-2.0

"""Whether Open vSwitch loses packets, and may have lost looks among them.

A distributor that carries much traffic drops what ovs-vswitchd is too busy
for. That is no sign against members, nor that another one would see more.
"""

from collections import abc
import math

# Shares of the interval between two looks: how long a loss counts, and what
# was read.
_COUNTS = 5
_FRESH = 0.4


class Losses:
    """Reads that when there is doubt. One thread may use it.

    :param count: returns how many packets were lost so far, None if unknown.
    :param interval: seconds between two looks at a member.
    :param clock: seconds.
    """

    def __init__(self, count: abc.Callable[[], int | None], interval: float,
                 clock: abc.Callable[[], float]) -> None:
        self._count = count
        self._interval = interval
        self._clock = clock
        self._before: int | None = None
        self._read_at = self._lost_at = -math.inf

    def are_recent(self) -> bool:
        """Tell whether packets were lost a moment ago.

        The first doubt for a while knows nothing to compare with: it takes a
        second one to call a member DOWN.
        """
        now = self._clock()
        age = now - self._read_at
        if age > _FRESH * self._interval:
            number = self._count()
            if (number is not None and self._before is not None and
                    number > self._before and
                    age <= _COUNTS * self._interval):
                self._lost_at = now
            self._before, self._read_at = number, now
        return now - self._lost_at <= _COUNTS * self._interval
