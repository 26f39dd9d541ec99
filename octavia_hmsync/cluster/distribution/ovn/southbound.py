# SPDX-License-Identifier: Apache-2.0

"""Reads the results of OVN's probes, from its southbound database."""

from collections import abc
import ipaddress

from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovn import connections

_STATES = {'online': probe_repo.UP, 'offline': probe_repo.DOWN}


def judge(statuses: abc.Iterable[str]) -> probe_repo.Result | None:
    """Return the Result of a member from the statuses of its ports. Pure.

    :param statuses: as OVN has them; empty if it has not probed yet.
    :returns: UP if one port answers; None if nothing is known.
    """
    states = {_STATES[status] for status in statuses if status in _STATES}
    if probe_repo.UP in states:
        return probe_repo.Result(probe_repo.UP)
    if states:
        return probe_repo.Result(
            probe_repo.DOWN, 'OVN gets no answer from any of its listeners')
    return None


class Southbound:
    """Reads the results of OVN's probes. Threads may share it."""

    def __init__(self, conf):
        self._conf = conf

    def read(self):
        """Return {(port, address): statuses} of all that OVN probes.

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
