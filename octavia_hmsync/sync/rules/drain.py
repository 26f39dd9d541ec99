# SPDX-License-Identifier: Apache-2.0

"""Whether an amphora still sends to a health manager that drains."""

from collections import abc
import enum

from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import timing


class Standing(enum.Enum):
    """What is known of an amphora and a draining address; for people."""

    # Its list holds the address, or is not known.
    HAS_IT = 'does not have the new list yet'
    # Its agent acknowledged a list without it, and may need a moment.
    MAY_SEND = 'was not seen to use its new list yet'
    SENDS = 'has the new list and does not use it'
    GONE = 'no longer sends'


def judge(address: str, addresses: abc.Collection[str] | None,
          doubt: adoption.Doubt | None, heard_ago: float | None,
          settings: timing.Settings) -> Standing:
    """Judge one amphora.

    :param doubt: None if the amphora was seen to use that list.
    :param heard_ago: seconds since the draining health manager noted a
                      heartbeat that the new list rules out, or None.
    """
    if addresses is None or address in addresses:
        return Standing.HAS_IT
    if doubt is None:
        return Standing.GONE
    if not doubt.unknown and not any(
            address in other for other in doubt.others):
        return Standing.GONE
    interval = settings.heartbeat_interval
    longest = max([settings.max_list_length,
                   *map(len, doubt.others)])
    turn = adoption.time_for_round(longest, interval)
    if heard_ago is not None and heard_ago <= turn:
        return Standing.SENDS
    return Standing.MAY_SEND if doubt.age <= turn else Standing.GONE
