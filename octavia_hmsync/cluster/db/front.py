# SPDX-License-Identifier: Apache-2.0

"""The front ends of clusters, from Octavia's rows."""

import collections
import dataclasses

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_AMPHORA = compat.AMPHORA
_LB = compat.LOAD_BALANCER
_LISTENER = compat.LISTENER
# Of load balancers that are neither just built nor deleted.
_MADE = (compat.ACTIVE, compat.PENDING_UPDATE, compat.ERROR)


@dataclasses.dataclass(frozen=True)
class FrontEnd:
    """The port of a member for clients' connections."""

    member_id: str
    slot: int | None
    state: str
    port_id: str


@dataclasses.dataclass(frozen=True)
class Front:
    """A FrontEnd with its cluster, and the addresses that it must have.

    :param addresses: of the load balancer.
    """

    cluster_id: str
    member_id: str
    state: str
    port_id: str
    addresses: tuple[str, ...]


def get_vip_ports(engine):
    """Return {id of a cluster: id of the port of its VIP}.

    Without load balancers that are just built or deleted.
    """
    return dict(map(tuple, rows.read(
        engine, sa.select(_CLUSTER.c.id, compat.VIP.c.port_id)
        .join_from(_CLUSTER, compat.VIP, compat.VIP.c.load_balancer_id ==
                   _CLUSTER.c.load_balancer_id)
        .join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
        .where(compat.VIP.c.port_id.is_not(None),
               _LB.c.provisioning_status.in_(_MADE)))))


def get_subnets(engine):
    """Return {id of a cluster: ids of the subnets of its addresses}.

    Without load balancers that are just built or deleted.
    """
    found = collections.defaultdict(set)
    for table in (compat.VIP, compat.ADDITIONAL_VIP):
        for cluster_id, subnet_id in rows.read(
                engine, sa.select(_CLUSTER.c.id, table.c.subnet_id)
                .join_from(_CLUSTER, table, table.c.load_balancer_id ==
                           _CLUSTER.c.load_balancer_id)
                .join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
                .where(table.c.subnet_id.is_not(None),
                       _LB.c.provisioning_status.in_(_MADE))):
            found[cluster_id].add(subnet_id)
    return dict(found)


def get_all(engine):
    """Return the Fronts of all clusters.

    Without load balancers that are just built or deleted.
    """
    addresses = collections.defaultdict(list)
    is_made = _LB.c.provisioning_status.in_(_MADE)
    with engine.connect() as connection:
        for table in (compat.VIP, compat.ADDITIONAL_VIP):
            for row in connection.execute(
                    sa.select(_CLUSTER.c.id, table.c.ip_address)
                    .join_from(_CLUSTER, table, table.c.load_balancer_id ==
                               _CLUSTER.c.load_balancer_id)
                    .where(table.c.ip_address.is_not(None))
                    .order_by(table.c.ip_address)):
                addresses[row.id].append(row.ip_address)
        return [Front(row.cluster_id, row.id, row.state, row.vrrp_port_id,
                      tuple(addresses[row.cluster_id]))
                for row in connection.execute(
                    sa.select(_MEMBER.c.id, _MEMBER.c.cluster_id,
                              _MEMBER.c.state, _AMPHORA.c.vrrp_port_id)
                    .join_from(_MEMBER, _AMPHORA,
                               _AMPHORA.c.id == _MEMBER.c.amphora_id)
                    .join(_CLUSTER, _CLUSTER.c.id == _MEMBER.c.cluster_id)
                    .join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
                    .where(_AMPHORA.c.vrrp_port_id.is_not(None), is_made)
                    .order_by(_MEMBER.c.cluster_id, _MEMBER.c.id))]


def get_of_cluster(engine, cluster_id):
    """Return the FrontEnds of a cluster, those with a slot first, by slot."""
    return [rows.make(FrontEnd, row) for row in rows.read(
        engine, sa.select(
            _MEMBER.c.id.label('member_id'), _MEMBER.c.slot, _MEMBER.c.state,
            _AMPHORA.c.vrrp_port_id.label('port_id'))
        .join_from(_MEMBER, _AMPHORA, _AMPHORA.c.id == _MEMBER.c.amphora_id)
        .where(_MEMBER.c.cluster_id == cluster_id,
               _AMPHORA.c.vrrp_port_id.is_not(None))
        .order_by(_MEMBER.c.slot.is_(None), _MEMBER.c.slot, _MEMBER.c.id))]


def get_own_addresses(engine, cluster_id):
    """Return {id of an amphora: its own address} in the network of the VIP."""
    return dict(map(tuple, rows.read(
        engine, sa.select(_AMPHORA.c.id, _AMPHORA.c.vrrp_ip)
        .join_from(_MEMBER, _AMPHORA, _AMPHORA.c.id == _MEMBER.c.amphora_id)
        .where(_MEMBER.c.cluster_id == cluster_id,
               _AMPHORA.c.vrrp_ip.is_not(None)))))


def get_probers(engine):
    """Return {id of a load balancer: addresses of its distributors}.

    Only of clusters whose distributors check members.
    """
    vips = models.DistributorVIP.__table__
    found = collections.defaultdict(set)
    for row in rows.read(
            engine, sa.select(_CLUSTER.c.load_balancer_id, vips.c.addresses)
            .join_from(_CLUSTER, vips, vips.c.cluster_id == _CLUSTER.c.id)
            .where(_CLUSTER.c.ports != '', vips.c.addresses != '')):
        found[row.load_balancer_id].update(row.addresses.split(','))
    return dict(found)


def get_listener_ports(engine, among=None):
    """Return {id of a cluster: frozenset of ports of its listeners}.

    Without listeners that are about to come or go, and without those of UDP
    and SCTP, at which OVN would check members by TCP.

    :param among: ids of clusters to look at; None for all.
    """
    found = collections.defaultdict(set)
    conditions = [] if among is None else [
        _CLUSTER.c.id.in_(sorted(among))]
    for row in rows.read(
            engine, sa.select(_CLUSTER.c.id, _LISTENER.c.protocol_port)
            .join_from(_CLUSTER, _LISTENER, _LISTENER.c.load_balancer_id ==
                       _CLUSTER.c.load_balancer_id)
            .join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
            .where(_LB.c.enabled, _LISTENER.c.enabled,
                   _LISTENER.c.protocol.not_in(compat.LVS_PROTOCOLS),
                   _LISTENER.c.provisioning_status.in_(
                       (compat.ACTIVE, compat.PENDING_UPDATE)),
                   *conditions)):
        found[row.id].add(row.protocol_port)
    return {key: frozenset(ports) for key, ports in found.items()}
