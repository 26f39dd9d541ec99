# SPDX-License-Identifier: Apache-2.0

"""For how long a health manager that is gone may be about to listen again.

Most of a start is over before the plugin has a say in it: Octavia's own
imports, which take seconds, and many on a busy host. So a list also goes by
what restarts took of late.
"""

from collections import abc
import math

from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing

# How many times restart_grace a health manager is waited for at most.
_LONGEST_GRACE = 3


def grace(member: mem.Member, others: abc.Iterable[mem.Member],
          gone_for: float, settings: timing.Settings) -> float:
    """Return for how long a member that is gone may be restarting.

    For longer while its process starts, and where restarts take longer. A
    process that starts again and again, and never listens, has its end, too.

    :param member: a Member that does not listen.
    :param others: all Members, it may be among them.
    :param gone_for: seconds since its last keepalive or goodbye.
    :param settings: timing.Settings.
    :returns: seconds; less than 0 if there is no sign of a restart.
    """
    shortest = settings.restart_grace
    longest = _LONGEST_GRACE * shortest
    if _is_starting(member, settings):
        return longest
    took = max((seconds for seconds in _find_took(member, others, gone_for)
                # What took far longer was none.
                if 0 < seconds <= longest), default=0.0)
    if member.status == mem.OFFLINE:
        return max(shortest, min(2 * took, longest))
    return min(2 * took, longest) if took else -math.inf


def _is_starting(member: mem.Member, settings: timing.Settings) -> bool:
    return member.starting_age is not None and not mem.is_silent(
        member.starting_age, settings.offline_after)


def _find_took(member: mem.Member, others: abc.Iterable[mem.Member],
               gone_for: float) -> abc.Iterator[float]:
    """Find how long restarts took that say something of a member's.

    Those of others that are back since it left; and its own last one, if it
    said goodbye: without that its silence may be a death as well.

    :returns: seconds of each.
    """
    if member.status == mem.OFFLINE and member.restart_took is not None:
        yield member.restart_took
    for other in others:
        if (other.host != member.host and other.restart_took is not None and
                other.online_for <= gone_for):
            yield other.restart_took
