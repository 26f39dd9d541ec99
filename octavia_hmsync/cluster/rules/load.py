# SPDX-License-Identifier: Apache-2.0

"""Rates, from what the heartbeats of an amphora have counted."""

from collections.abc import Iterable
import dataclasses

from octavia_hmsync.cluster.db import member_load as load_repo

# Seconds between the heartbeats that are compared, at least: with heartbeats
# in each second rates would be those of single clients.
INTERVAL = 10.0


@dataclasses.dataclass(frozen=True)
class Rates:
    """Averages since the heartbeat before.

    :param connections: new connections, for each second.
    :param traffic: bytes, for each second.
    """

    connections: float
    traffic: float


def is_due(before: load_repo.Counted | None, now: load_repo.Counted) -> bool:
    """Tell whether a heartbeat is to be compared with the next one."""
    return before is None or (
        (now.at - before.at).total_seconds() >= INTERVAL)


def find_rates(before: load_repo.Counted | None,
               now: load_repo.Counted) -> Rates | None:
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


def find_measured(sums: Iterable[load_repo.Sum]
                  ) -> list[tuple[load_repo.Sum, Rates | None]]:
    """Return what is to be recorded now, with its rates."""
    return [(each, find_rates(each.before, each.now)) for each in sums
            if is_due(each.before, each.now)]
