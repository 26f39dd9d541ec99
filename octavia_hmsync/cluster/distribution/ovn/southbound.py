# SPDX-License-Identifier: Apache-2.0

"""Reads what OVN sees of members, from its southbound database."""

from collections import abc
import ipaddress

from octavia_hmsync.cluster.db import member_sight as sight_repo
from octavia_hmsync.cluster.distribution.ovn import connections

_STATES = {'online': sight_repo.UP, 'offline': sight_repo.DOWN}


def judge(statuses: abc.Iterable[str]) -> sight_repo.Look | None:
    """Return the Look at a member from the statuses of its ports. Pure.

    :param statuses: as OVN has them; empty if it has not looked yet.
    :returns: UP if one port answers; None if nothing is known.
    """
    states = {_STATES[status] for status in statuses if status in _STATES}
    if sight_repo.UP in states:
        return sight_repo.Look(sight_repo.UP)
    if states:
        return sight_repo.Look(
            sight_repo.DOWN, 'OVN gets no answer from any of its listeners')
    return None


class Southbound:
    """Reads OVN's looks. Threads may share it."""

    def __init__(self, conf):
        self._conf = conf

    def read(self):
        """Return {(port, address): statuses} of all that OVN looks at.

        :raises DistributorUnreachable: if the database does not answer.
        """
        api = connections.connect(self._conf, connections.SOUTHBOUND)
        if not connections.is_connected(api):
            raise connections.unreachable(
                connections.SOUTHBOUND, connections.get_remote(
                    self._conf, connections.SOUTHBOUND),
                'the connection is lost')
        found: dict[tuple[str, str], list[str]] = {}
        with api.ovsdb_connection.lock:
            for row in api.tables['Service_Monitor'].rows.values():
                key = row.logical_port, str(ipaddress.ip_address(row.ip))
                found.setdefault(key, []).extend(row.status)
        return found
