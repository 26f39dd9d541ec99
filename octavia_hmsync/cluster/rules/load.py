# SPDX-License-Identifier: Apache-2.0

"""Rates, from what the heartbeats of an amphora have counted."""

import dataclasses
import datetime

# Seconds between the heartbeats that are compared, at least: with heartbeats
# in each second rates would be those of single clients.
INTERVAL = 10.0


@dataclasses.dataclass(frozen=True)
class Counted:
    """What the heartbeats have counted until one of them.

    :param at: when it came, UTC.
    :param connections: clients' connections so far.
    :param traffic: bytes to and from clients so far.
    """

    at: datetime.datetime
    connections: int
    traffic: int


@dataclasses.dataclass(frozen=True)
class Rates:
    """Averages since the heartbeat before.

    :param connections: new connections, for each second.
    :param traffic: bytes, for each second.
    """

    connections: float
    traffic: float


def is_due(before: Counted | None, now: Counted) -> bool:
    """Tell whether a heartbeat is to be compared with the next one."""
    return before is None or (
        (now.at - before.at).total_seconds() >= INTERVAL)


def find_rates(before: Counted | None, now: Counted) -> Rates | None:
    """Return the rates between two heartbeats.

    :returns: None if there is only one, or if a listener was deleted
              meanwhile, with all that it had counted.
    """
    if before is None:
        return None
    seconds = (now.at - before.at).total_seconds()
    connections = now.connections - before.connections
    traffic = now.traffic - before.traffic
    if seconds <= 0 or connections < 0 or traffic < 0:
        return None
    return Rates(connections / seconds, traffic / seconds)
