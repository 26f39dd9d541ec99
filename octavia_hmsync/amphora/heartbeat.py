# SPDX-License-Identifier: Apache-2.0

"""What a heartbeat reports; pure, for messages of all amphorae so far."""

from collections import abc
import dataclasses

# Prefixes of the status of a member in haproxy or keepalived, and Octavia's
# name of that status.
_STATUSES = (('UP', 'ONLINE'), ('DOWN', 'ERROR'), ('DRAIN', 'DRAINING'),
             ('MAINT', 'OFFLINE'), ('no check', 'NO_MONITOR'))
# Status of a member that keepalived has not checked yet.
UNKNOWN = 'UNKNOWN'

# Higher is worse. A status that is missing here (no check, or unknown) is no
# worse than any other.
BADNESS = {'ERROR': 3, 'OFFLINE': 2, 'DRAINING': 1, 'DEGRADED': 1}


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """One heartbeat: ids of listeners, {id: operating_status} of members."""

    amphora_id: str
    listeners: frozenset[str]
    members: abc.Mapping[str, str]


def worst(*statuses: str) -> str:
    """Return the worst operating status, the last one of several."""
    return max(reversed(statuses),
               key=lambda status: BADNESS.get(status, 0))


def _translate(said: str) -> str:
    return next((status for begin, status in _STATUSES
                 if said.startswith(begin)), UNKNOWN)


def read(message: abc.Mapping) -> Heartbeat:
    """Read a message, as Octavia's health manager has unpacked it.

    A member of a pool that several listeners use is reported once for each;
    its worst status counts.

    :raises KeyError, TypeError, AttributeError: if it is no heartbeat.
    """
    listeners = message['listeners']
    # Before version 2 each listener had pools of its own.
    pools = ([message['pools']] if message.get('ver', 0) >= 2 else
             [each.get('pools', {}) for each in listeners.values()])
    members: dict[str, str] = {}
    for pool in (pool for some in pools for pool in some.values()):
        for member_id, said in pool['members'].items():
            members[member_id] = worst(
                members.get(member_id, UNKNOWN), _translate(said))
    return Heartbeat(message['id'], frozenset(listeners), members)
