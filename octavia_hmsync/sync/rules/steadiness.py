# SPDX-License-Identifier: Apache-2.0

"""For how long a reader has looked at the database without a gap.

After the database was out of reach all keepalives look old, because no service
could write one: see member.state_of(). After a jump of the database's clock,
too, until all services have written their next keepalive.
"""

import datetime
import math


class Steadiness:
    """Measures the time since the last gap.

    .clock_for: seconds for which the database's clock has not jumped.
    .jump: seconds by which it went ahead of the monotonic clock between the
    last two looks, less than 0 for back; 0.0 if the time that looks take may
    explain the difference.
    """

    def __init__(self) -> None:
        self.clock_for = math.inf
        self.jump = 0.0
        self._jumped_at = -math.inf
        self._since = 0.0
        self._looked_at = -math.inf
        # The database's clock minus the monotonic one: at least, at most.
        self._ahead: tuple[float, float] | None = None

    def note(self, began: float, ended: float, longest: float,
             database_time: datetime.datetime | None = None,
             tolerance: float = 0.0) -> float:
        """Record a look.

        :param longest: seconds between two looks above which there is a gap.
        :param tolerance: seconds by which that clock may drift between two
                          looks without a gap.
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
