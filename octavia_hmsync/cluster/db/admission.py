# SPDX-License-Identifier: Apache-2.0

"""What the security groups of clusters are to admit, from Octavia's rows."""

import collections
import dataclasses

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models

_CLUSTER = models.Cluster.__table__
_LB = compat.LOAD_BALANCER
_LISTENER = compat.LISTENER
_CIDR = compat.LISTENER_CIDR
# Nobody changes load balancers, or listeners, with these statuses.
_AT_REST = (compat.ACTIVE, compat.ERROR)


@dataclasses.dataclass(frozen=True)
class Listener:
    """A listener, as far as security groups are concerned.

    :param peer_port: where its amphorae exchange stick tables.
    :param cidrs: of clients; nothing for all clients.
    """

    protocol: str
    port: int
    peer_port: int | None
    cidrs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Admission:
    """A cluster, as far as security groups are concerned.

    :param addresses: of the load balancer.
    :param groups: ids of the security groups that the tenant has chosen.
    """

    load_balancer_id: str
    addresses: tuple[str, ...]
    groups: tuple[str, ...]
    listeners: tuple[Listener, ...]


def get_all(engine):
    """Return {id of a cluster: its Admission}.

    Without load balancers that somebody changes now.
    """
    with engine.connect() as connection:
        clusters = connection.execute(
            sa.select(_CLUSTER.c.id, _CLUSTER.c.load_balancer_id)
            .join_from(_CLUSTER, _LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
            .where(_LB.c.provisioning_status.in_(_AT_REST))).all()
        addresses = _collect(connection, compat.VIP.c.ip_address)
        more = _collect(connection, compat.ADDITIONAL_VIP.c.ip_address)
        groups = _collect(connection, compat.VIP_SECURITY_GROUP.c.sg_id)
        listeners = _get_listeners(connection)
    return {row.id: Admission(
        row.load_balancer_id,
        (*addresses[row.load_balancer_id], *more[row.load_balancer_id]),
        tuple(groups[row.load_balancer_id]),
        tuple(listeners[row.load_balancer_id])) for row in clusters}


def _collect(connection, column):
    """Return {id of a load balancer: values of a column}."""
    table, found = column.table, collections.defaultdict(list)
    for load_balancer_id, value in connection.execute(
            sa.select(table.c.load_balancer_id, column)
            .join_from(table, _CLUSTER, _CLUSTER.c.load_balancer_id ==
                       table.c.load_balancer_id)
            .where(column.is_not(None)).order_by(column)):
        found[load_balancer_id].append(value)
    return found


def _get_listeners(connection):
    cidrs = collections.defaultdict(list)
    for row in connection.execute(sa.select(
            _CIDR.c.listener_id, _CIDR.c.cidr).order_by(_CIDR.c.cidr)):
        cidrs[row.listener_id].append(row.cidr)
    found = collections.defaultdict(list)
    for row in connection.execute(
            sa.select(_LISTENER.c.id, _LISTENER.c.load_balancer_id,
                      _LISTENER.c.protocol, _LISTENER.c.protocol_port,
                      _LISTENER.c.peer_port)
            .join_from(_LISTENER, _CLUSTER, _CLUSTER.c.load_balancer_id ==
                       _LISTENER.c.load_balancer_id)
            .where(_LISTENER.c.provisioning_status.in_(_AT_REST))
            .order_by(_LISTENER.c.protocol_port)):
        found[row.load_balancer_id].append(Listener(
            row.protocol, row.protocol_port, row.peer_port,
            tuple(cidrs[row.id])))
    return found
