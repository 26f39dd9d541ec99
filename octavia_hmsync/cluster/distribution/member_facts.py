# SPDX-License-Identifier: Apache-2.0

"""What distributors and controllers tell each other about members.

The ports at which distributors probe, and the number of open connections of
members that drain.
"""

from collections import abc
import math
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync import compat
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# The largest value of a column.
_MOST = 2 ** 31 - 1
# How often haproxy waits for a member of a pool: in the queue, and for it to
# take a connection, with three more tries.
_CONNECTS = 5
# Seconds by which clocks may differ, and in which a connection may begin.
_MARGIN = 2


def choose_ports(load_balancer: typing.Any,
                 without: str | None = None) -> set[int]:
    """Return the ports at which the members of a load balancer answer. Pure.

    Members of a disabled load balancer do not answer, and perhaps never did
    for a listener in ERROR. Security groups that the tenant has chosen for
    the VIP (``vip_sg_ids``) may not admit distributors.

    :param load_balancer: Octavia's data model of it.
    :param without: id of a listener that does not count.
    """
    return {listener.protocol_port for listener in load_balancer.listeners
            if load_balancer.enabled and listener.enabled and
            not load_balancer.vip.sg_ids and
            listener.provisioning_status != compat.ERROR and
            listener.id != without and
            listener.protocol not in compat.LVS_PROTOCOLS and
            not listener.allowed_cidrs}


def format_ports(ports: abc.Iterable[int]) -> str:
    """Return ports as rows have them."""
    return ','.join(map(str, sorted(ports)))


def parse_ports(text: str | None) -> set[int]:
    """Return the ports that a row has."""
    return {int(port) for port in (text or '').split(',') if port}


def get_idle_timeout(listeners: abc.Iterable[typing.Any]) -> int:
    """Return for how many seconds a connection may be silent at most. Pure.

    haproxy closes a connection that is silent on both sides for longer. A
    client waits for an answer through the queue, four attempts to connect to
    a member of the pool, and the answer of that member.

    :param listeners: Octavia's data models of them.
    """
    return max((_get_idle_timeout(listener) for listener in listeners),
               default=0)


def _get_idle_timeout(listener: typing.Any) -> int:
    own = (listener.timeout_client_data, listener.timeout_member_connect,
           listener.timeout_member_data)
    if not all(own):
        # Octavia's default, or without end.
        return _MOST
    client, connect, member = own
    longest = max(client, (listener.timeout_tcp_inspect or 0) +
                  _CONNECTS * connect + member)
    return int(min(math.ceil(longest / 1000), _MOST))


def record_ports(engine: typing.Any) -> int:
    """Correct the recorded ports at which distributors probe members.

    A process may have died before it did.

    :returns: the number of clusters that changed.
    """
    changed = [
        cluster_id for cluster_id, (recorded, ports)
        in facts_repo.get_ports(engine).items()
        if format_ports(ports) != (recorded or '') and
        cluster_repo.set_ports(engine, cluster_id, ports)]
    return len(changed)


def count_connections(
        engine: typing.Any, client_of: abc.Callable[[str], typing.Any],
        interval: float) -> dict[str, int | None]:
    """Record the number of open connections of members that drain.

    Heartbeats report it, but leave out connections from before a reload of
    haproxy, which an old haproxy process serves. For these, and for a silent
    member, the distributor reports the connections that it remembers: each
    that has had a packet since, until two minutes after its end, also those of
    which it knows no more than that the member may have them. 0 is recorded
    only when neither has any, and when a connection that was silent all the
    time would have timed out, see get_idle_timeout().

    :param client_of: returns the client for the URL of a distributor.
    :param interval: seconds between two heartbeats.
    :returns: {id of a member: the number}, None if not known.
    """
    rows = facts_repo.get_connections(engine, interval + _MARGIN)
    unsure = {row.cluster_id for row in rows.values() if not row.told}
    of_clusters = {cluster_id: _read_remembered(engine, client_of, cluster_id)
                   for cluster_id in unsure}
    counted: dict[str, int | None] = {}
    for member_id, row in rows.items():
        remembered = of_clusters.get(row.cluster_id)
        count = counted[member_id] = choose_count(
            row.told, None if remembered is None
            else remembered.get(row.amphora_id or '', 0),
            row.rest + interval + _MARGIN)
        changed: dict[str, typing.Any] = {}
        if count != row.recorded:
            changed['connections'] = count
        if row.since is not None and not row.is_recorded:
            changed['drained_at'] = row.since
        if changed:
            member_repo.record(engine, member_id, **changed)
    return counted


def choose_count(told: int | None, remembered: int | None,
                 rest: float) -> int | None:
    """Return the number of open connections of a draining member. Pure.

    :param told: the number in its heartbeat, of the present haproxy; None
                 without a heartbeat.
    :param remembered: the number that its distributor remembers; None if it
                       was not asked or did not tell.
    :param rest: seconds for which a silent connection may still be open.
    :returns: None if not known; 0 only if there is none for sure.
    """
    known = max(0, told or 0) or max(0, remembered or 0)
    if known:
        return min(known, _MOST)
    return None if None in (told, remembered) or rest > 0 else 0


def _read_remembered(
        engine: typing.Any, client_of: abc.Callable[[str], typing.Any],
        cluster_id: str) -> dict[str, int | None] | None:
    """Return remembered connections by amphora; None without an answer.

    :returns: also None for one of which they are not known yet.
    """
    for vip in vip_repo.get_of_cluster(engine, cluster_id):
        if vip.active and vip.status == distributor_repo.ONLINE:
            try:
                found = client_of(vip.url).get_statistics(cluster_id)
                return {one['id']: None if one['connections'] is None
                        else int(one['connections'])
                        for one in found['members']} if found else {}
            except exceptions.DistributorError as e:
                LOG.debug('Connections were not counted: %s', e)
            except (KeyError, TypeError, ValueError) as e:
                LOG.debug('Connections cannot be read: %r', e)
    return None
