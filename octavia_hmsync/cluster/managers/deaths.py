# SPDX-License-Identifier: Apache-2.0

"""How soon members are built where each of them dies: rules. No I/O.

Members may die of what they have in common, as of a configuration with which
haproxy crashes after a while. The next ones would die of it, too. So the
replacements of replacements wait, longer each time. Where a member has
outlived the death before, they wait for less: the trouble may be of one host,
and the next death, of another member, is no fault of theirs.
"""

from collections.abc import Iterable
import dataclasses

# Seconds, all of them: the first wait and the longest one, where no member has
# outlived the death before and where one has, and how long no member must have
# died after a wait for the next death to be a new trouble. Members take
# minutes to boot, and to be found dead.
_HOLDS = 60.0, 960.0
_OUTLIVED_HOLDS = 5.0, 240.0
_QUIET = 1800.0


@dataclasses.dataclass(frozen=True)
class Death:
    """The last time that a member died.

    :param age: seconds since then.
    :param hold: seconds, from then on, in which no member is built.
    """

    age: float
    hold: float

    @property
    def holds(self) -> bool:
        """Tell whether no member is built now."""
        return self.age < self.hold


def choose_hold(last: Death | None, dead: float,
                others: Iterable[float]) -> float | None:
    """Return for how many seconds no member is built after a death.

    :param last: the death before, or None.
    :param dead: the age of the member that has died, seconds.
    :param others: the ages of the members that serve.
    :returns: None if the death belongs to the one before.
    """
    if last is None or last.age > last.hold + _QUIET:
        return 0.0
    if dead > last.age:
        # It may have died of what the other one has died of.
        return None
    first, longest = (_OUTLIVED_HOLDS if any(age > last.age for age in others)
                      else _HOLDS)
    return min(max(first, 2 * last.hold), longest)
