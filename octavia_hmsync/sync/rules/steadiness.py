# SPDX-License-Identifier: Apache-2.0

"""For how long somebody has looked at the database without a gap.

Whoever was cut off from it finds all keepalives old, because nobody could
write them: see member.state_of(). So does whoever looks after the database's
clock jumped, until all have written their next ones.
"""

import datetime
import math


class Steadiness:
    """Keeps the time since the last gap.

    .clock_for is for how long the database's clock has not jumped, seconds;
    .jump is by how many seconds the database's clock went forward of the
    monotonic one since the look before, less than 0 for back, as it was seen
    at the last look; 0.0 for what the time that looks take may explain.
    """

    def __init__(self) -> None:
        self.clock_for = math.inf
        self.jump = 0.0
        self._jumped_at = -math.inf
        self._since = 0.0
        self._looked_at = -math.inf
        # What the database's clock can have been ahead of the monotonic one
        # by: at least, at most.
        self._ahead: tuple[float, float] | None = None

    def note(self, began: float, ended: float, longest: float,
             database_time: datetime.datetime | None = None,
             tolerance: float = 0.0) -> float:
        """Take note of a look.

        :param began: a monotonic time from before it, seconds.
        :param ended: one from after it.
        :param longest: seconds since the last look from which on it is a gap.
        :param database_time: what the database's clock said meanwhile, None
                              if that is not known.
        :param tolerance: seconds by which that clock may go astray from one
                          look to the next without being a gap.
        :returns: seconds since the last gap; 0.0 after one.
        """
        self.jump = self._find_jump(began, ended, database_time, tolerance)
        if self.jump:
            self._jumped_at = ended
        self.clock_for = ended - self._jumped_at
        if self.jump or ended - self._looked_at > longest:
            self._since = ended
        self._looked_at = ended
        return ended - self._since

    def _find_jump(self, began: float, ended: float,
                   database_time: datetime.datetime | None,
                   tolerance: float) -> float:
        if database_time is None:
            return 0.0
        time = (database_time - datetime.datetime.min).total_seconds()
        before, self._ahead = self._ahead, (time - ended, time - began)
        if before is None:
            return 0.0
        least, most = self._ahead[0] - before[1], self._ahead[1] - before[0]
        if least > tolerance:
            return least
        return most if most < -tolerance else 0.0
