# SPDX-License-Identifier: Apache-2.0

"""What distributors are told, and tell, of members beside their traffic.

At which ports they look, and how many connections of one that drains are
open.
"""

from collections import abc
import math
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import look as look_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# What a column bears.
_MOST = 2 ** 31 - 1
# Seconds for which clocks may be apart, and a connection may begin.
_MARGIN = 2
# How often haproxy waits for a member of a pool: in the queue, and for it to
# take a connection, with three more tries.
_CONNECTS = 5


def choose_ports(load_balancer: typing.Any,
                 without: str | None = None) -> set[int]:
    """Return the ports at which the members of a load balancer answer. Pure.

    :param load_balancer: Octavia's data model; of one that is disabled they
                          answer nobody, and at a listener in ERROR perhaps
                          never did. Where the owner has chosen the security
                          groups of the VIP (``vip_sg_ids``), these say who
                          may connect, and may not admit distributors.
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


def record_ports(engine: typing.Any) -> int:
    """Record at which ports members are looked at, where that is wrong.

    Somebody may have died before he did, or been of a release of before.

    :param engine: an SQLAlchemy engine.
    :returns: of how many clusters.
    """
    changed = [
        cluster_id for cluster_id, (recorded, ports)
        in look_repo.get_ports(engine).items()
        if format_ports(ports) != (recorded or '') and
        cluster_repo.set_ports(engine, cluster_id, ports)]
    return len(changed)


def record_addresses(engine: typing.Any, ports: typing.Any) -> None:
    """Record the addresses of ports of distributors that nobody has asked for.

    :param engine: an SQLAlchemy engine.
    :param ports: a ports.Ports.
    :raises CloudUnavailable, CloudRefused: if Neutron does not tell.
    """
    for vip in vip_repo.get_all(engine):
        if vip.port_id and vip.addresses is None:
            addresses = ports.get_addresses(vip.port_id)
            if addresses is not None:
                vip_repo.set_port(engine, vip.id, vip.port_id, vip.mac,
                                  vip.mtu, addresses)


def count_connections(
        engine: typing.Any, client_of: abc.Callable[[str], typing.Any],
        interval: float) -> dict[str, int | None]:
    """Record how many connections of members that drain are open.

    Their own heartbeats tell, but not of those that began before haproxy was
    loaded anew, which a process of its own goes on with. Of these, and of
    those of a silent member, its distributor knows the ones that it remembers
    one by one, for two minutes after their end: each that had a packet since.
    Nobody says that none is open as long as it has some of a member, or one
    may be that was silent all the time, see get_idle_timeout().

    :param engine: an SQLAlchemy engine.
    :param client_of: called with the URL of a distributor for its client.
    :param interval: seconds between two heartbeats.
    :returns: {id of a member: how many}, None if nobody knows.
    """
    rows = look_repo.get_connections(engine, interval + _MARGIN)
    unsure = {row.cluster_id for row in rows.values() if not row.told}
    pins = {cluster_id: _read_pins(engine, client_of, cluster_id)
            for cluster_id in unsure}
    counted: dict[str, int | None] = {}
    for member_id, row in rows.items():
        remembered = pins.get(row.cluster_id)
        count = counted[member_id] = choose_count(
            row.told, None if remembered is None
            else remembered.get(row.amphora_id or '', 0),
            row.rest + interval + _MARGIN)
        if count != row.recorded:
            member_repo.record(engine, member_id, connections=count)
    return counted


def choose_count(told: int | None, remembered: int | None,
                 rest: float) -> int | None:
    """Return how many connections of a member that drains are open. Pure.

    :param told: how many its heartbeat has, of this haproxy; None if none.
    :param remembered: how many its distributor has; None if nobody asked it,
                       or it does not tell.
    :param rest: seconds for which there may be one of which nobody has heard.
    :returns: None if nobody knows; 0 only if there is none for sure.
    """
    # An amphora's own word, or a distributor's.
    known = max(0, told or 0) or max(0, remembered or 0)
    if known:
        return min(known, _MOST)
    return None if None in (told, remembered) or rest > 0 else 0


def get_idle_timeout(listeners: abc.Iterable[typing.Any]) -> int:
    """Return for how many seconds a connection may be silent at most. Pure.

    haproxy ends one of which nothing is heard from either side for longer. A
    client who has asked for something waits until it was tried at four
    members of the pool, after a turn in the queue, and one of them answered.

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
    return min(math.ceil(longest / 1000), _MOST)


def _read_pins(engine: typing.Any, client_of: abc.Callable[[str], typing.Any],
               cluster_id: str) -> dict[str, int] | None:
    """Return what is remembered, by amphora; None if nobody tells."""
    for vip in vip_repo.get_of_cluster(engine, cluster_id):
        if vip.active and vip.status == distributor_repo.ONLINE:
            try:
                found = client_of(vip.url).get_statistics(cluster_id)
                return {one['id']: int(one['pins'])
                        for one in found['members']} if found else {}
            except exceptions.DistributorError as e:
                LOG.debug('Connections were not counted: %s', e)
            except (KeyError, TypeError, ValueError) as e:
                LOG.debug('Connections cannot be read: %r', e)
    return None
