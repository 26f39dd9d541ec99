# SPDX-License-Identifier: Apache-2.0

"""Whether Open vSwitch loses packets, and perhaps probes among them.

With much traffic Open vSwitch drops packets while ovs-vswitchd is too busy.
That says nothing about members, nor that another distributor would see more.
"""

from collections import abc
import math

# In shares of the interval between two probes: how long a loss counts, and how
# long a reading.
_COUNTS = 5
_FRESH = 0.4


class Losses:
    """Reads the losses when there is doubt. For one thread only.

    :param count: returns how many packets were lost so far, None if unknown.
    :param interval: seconds between two probes of a member.
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

        The first doubt after a while has no earlier reading to compare with:
        only a second doubt can make a member DOWN.
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
