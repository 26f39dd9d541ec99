# SPDX-License-Identifier: Apache-2.0

"""What OVN sees of members, in its southbound database."""

from collections import abc
import ipaddress

from octavia_hmsync.cluster.db import member_sight as sight_repo
from octavia_hmsync.cluster.distribution.ovn import connections

_STATES = {'online': sight_repo.UP, 'offline': sight_repo.DOWN}


def judge(statuses: abc.Iterable[str]) -> sight_repo.Look | None:
    """Tell what is seen of a member whose ports are looked at. Pure.

    :param statuses: of its ports, as OVN has them; empty for one that it has
                     not looked at yet.
    :returns: UP if one answers; None where nothing is known.
    """
    states = {_STATES[status] for status in statuses if status in _STATES}
    if sight_repo.UP in states:
        return sight_repo.Look(sight_repo.UP)
    if states:
        return sight_repo.Look(
            sight_repo.DOWN, 'OVN gets no answer from any of its listeners')
    return None


class Southbound:
    """Reads OVN's looks. Threads may share it.

    :param conf: a parsed oslo.config object with our options registered.
    """

    def __init__(self, conf):
        self._conf = conf

    def read(self):
        """Return {(port, address): statuses} of all that is looked at.

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
