# SPDX-License-Identifier: Apache-2.0

"""The outcome of a change that all members of a cluster are told: rules.

No I/O.
"""

from collections.abc import Mapping
import dataclasses

ACTIVE = 'ACTIVE'
STANDBY = 'STANDBY'
DRAINING = 'DRAINING'
# States of members that are told of a change. A BUILDING member is configured
# before it is registered, and a FAILED one never gets traffic again.
TOLD = frozenset((ACTIVE, STANDBY, DRAINING))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What follows.

    :param is_success: whether enough members have taken the change.
    :param to_drain: ids of members to drain.
    :param to_fail: ids of standbys that may not take a slot.
    """

    is_success: bool
    to_drain: tuple[str, ...] = ()
    to_fail: tuple[str, ...] = ()


def judge(states: Mapping[str, str], failures: Mapping[str, str],
          min_size: int) -> Verdict:
    """Judge a change.

    If too few have taken it, no member is drained: an old configuration is
    better than none, and Octavia shows ERROR.

    :param states: {id of a member: its state}, of all that were told.
    :param failures: {id of a member: why it did not take it}.
    :param min_size: the number of ACTIVE members that must take it.
    """
    took = [member_id for member_id, state in states.items()
            if state == ACTIVE and member_id not in failures]
    if len(took) < min_size:
        return Verdict(False)

    def find(state: str) -> tuple[str, ...]:
        return tuple(sorted(
            member_id for member_id in failures
            if states.get(member_id) == state))

    return Verdict(True, find(ACTIVE), find(STANDBY))
