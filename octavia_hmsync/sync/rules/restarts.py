# SPDX-License-Identifier: Apache-2.0

"""For how long a health manager that is gone may be about to listen again.

Most of a start is over before the plugin runs: Octavia's imports take seconds,
many on a busy host. So the rule also considers how long recent restarts took.
"""

from collections import abc
import math

from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing

# Most times restart_grace to wait for a health manager.
_LONGEST_GRACE = 3


def grace(member: mem.Member, others: abc.Iterable[mem.Member],
          gone_for: float, settings: timing.Settings) -> float:
    """Return for how many seconds a member that is gone may be restarting.

    Longer while its new process starts, or if recent restarts took longer;
    but limited, because a process may start again and again and never listen.

    :param member: a Member that does not listen.
    :param others: all Members, with or without this one.
    :param gone_for: seconds since its last keepalive or goodbye.
    :returns: less than 0 if there is no sign of a restart.
    """
    shortest = settings.restart_grace
    longest = _LONGEST_GRACE * shortest
    if _is_starting(member, settings):
        return longest
    took = max((seconds for seconds in _find_took(member, others, gone_for)
                # A far longer time was no restart, but an outage.
                if 0 < seconds <= longest), default=0.0)
    if member.status == mem.OFFLINE:
        return max(shortest, min(2 * took, longest))
    return min(2 * took, longest) if took else -math.inf


def _is_starting(member: mem.Member, settings: timing.Settings) -> bool:
    return member.starting_age is not None and not mem.is_silent(
        member.starting_age, settings.offline_after)


def _find_took(member: mem.Member, others: abc.Iterable[mem.Member],
               gone_for: float) -> abc.Iterator[float]:
    """Yield how many seconds comparable restarts took.

    Its own last restart, and those of others that came back since it left.
    """
    # Without a goodbye its process may have died instead.
    if member.status == mem.OFFLINE and member.restart_took is not None:
        yield member.restart_took
    for other in others:
        if (other.host != member.host and other.restart_took is not None and
                other.online_for <= gone_for):
            yield other.restart_took
