# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_distributor_vip``: VIPs of clusters on distributors.

Distributors are told which of them is active. So a change makes a new version
of the cluster, in the same transaction.
"""

import dataclasses
import datetime
import uuid

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import turn
from octavia_hmsync.db import types

_TABLE = models.DistributorVIP.__table__
_CLUSTER = models.Cluster.__table__
_DISTRIBUTOR = models.Distributor.__table__


@dataclasses.dataclass(frozen=True)
class VIP:
    """A row with its distributor; times by the database's clock, UTC.

    :param distributor_name: the host of the distributor.
    :param status: ONLINE or OFFLINE, of the distributor.
    :param active: whether the distributor is to answer ARP.
    :param applied_version: the version in force there; None before the first,
                            0 if the distributor has lost it.
    :param applied_active: whether it answers ARP with that; None before the
                           first version, or if its port was switched off.
    :param applied_at: since when, or None.
    :param error: why it has no newer version, or None.
    :param addresses: of that port, separated by commas; None if not known.
    """

    id: str
    cluster_id: str
    distributor_id: str
    distributor_name: str
    url: str
    status: str
    port_id: str | None
    mac: str | None
    mtu: int | None
    active: bool
    applied_version: int | None
    applied_active: bool | None
    applied_at: datetime.datetime | None
    error: str | None
    addresses: str | None = None


def _read(bind, *conditions):
    return [rows.make(VIP, row, active=bool(row.active))
            for row in rows.read(bind, sa.select(
                _TABLE, _DISTRIBUTOR.c.name.label('distributor_name'),
                _DISTRIBUTOR.c.url, _DISTRIBUTOR.c.status)
                .join_from(_TABLE, _DISTRIBUTOR,
                           _DISTRIBUTOR.c.id == _TABLE.c.distributor_id)
                .where(*conditions)
                .order_by(_TABLE.c.cluster_id, _TABLE.c.active.is_(None),
                          _DISTRIBUTOR.c.name, _TABLE.c.id))]


def get_of_cluster(engine, cluster_id):
    """Return the VIPs of a cluster, the active one first."""
    return _read(engine, _TABLE.c.cluster_id == cluster_id)


def get_of_distributor(engine, distributor_id):
    return _read(engine, _TABLE.c.distributor_id == distributor_id)


def get_all(engine):
    """Return all VIPs, those of a cluster together, the active one first."""
    return _read(engine)


def get_of_clusters(engine, cluster_ids):
    """Return the VIPs of some clusters, as get_all() does."""
    return _read(engine, _TABLE.c.cluster_id.in_(sorted(cluster_ids)))


def get_behind(engine, among=None):
    """Return VIPs whose distributor does not have the newest version.

    :param among: ids of clusters to look at; None for all.
    :returns: only VIPs with a port, and of a cluster that still exists.
    """
    whose = [] if among is None else [
        _TABLE.c.cluster_id.in_(sorted(among))]
    return _read(
        engine, _TABLE.c.port_id.is_not(None), *whose, sa.exists().where(
            _CLUSTER.c.id == _TABLE.c.cluster_id,
            sa.or_(_TABLE.c.applied_version.is_(None),
                   _TABLE.c.applied_version != _CLUSTER.c.version)))


def get_left(engine):
    """Return VIPs of deleted clusters, which distributors must forget yet."""
    return _read(engine, ~sa.exists().where(
        _CLUSTER.c.id == _TABLE.c.cluster_id))


@api.retry
def add(engine, cluster_id, distributor_id):
    """Ensure the row of a cluster's VIP on a distributor, not yet active.

    :returns: the VIP; None if the cluster, or the distributor, is gone.
    """
    where = (_TABLE.c.cluster_id == cluster_id,
             _TABLE.c.distributor_id == distributor_id)
    found = _read(engine, *where)
    if found:
        return found[0]
    try:
        with engine.begin() as connection:
            turn.take(connection, distributor_repo.TURN)
            if not (cluster_repo.touch(connection, cluster_id) and
                    connection.execute(
                        sa.select(_DISTRIBUTOR.c.id)
                        .where(_DISTRIBUTOR.c.id == distributor_id)).first()):
                connection.rollback()
                return None
            connection.execute(sa.insert(_TABLE).values(
                id=_make_id(cluster_id, distributor_id),
                cluster_id=cluster_id, distributor_id=distributor_id))
            return _read(connection, *where)[0]
    except db_exc.DBDuplicateEntry as e:
        # Another process added it at the same time.
        raise db_exc.RetryRequest(e)


def _make_id(cluster_id, distributor_id):
    # The same for every process, and each time that the row is made.
    return str(uuid.uuid5(uuid.NAMESPACE_OID,
                          f'{cluster_id} {distributor_id}'))


@api.retry
def set_port(engine, vip_id, port_id, mac, mtu=None, addresses=None):
    """Record the port of a VIP.

    :param addresses: of the port; None if not known.
    :returns: False if the VIP, or its cluster, is gone.
    """
    values = {'port_id': port_id, 'mac': mac, 'mtu': mtu,
              'addresses': None if addresses is None
              else ','.join(addresses)}
    row = rows.read_one(engine, sa.select(_TABLE).where(
        _TABLE.c.id == vip_id))
    if row is None:
        return False
    if all(getattr(row, name) == value for name, value in values.items()):
        return True
    with engine.begin() as connection:
        # A VIP never changes its cluster.
        if cluster_repo.touch(connection, row.cluster_id) and rows.change(
                connection, _TABLE, _TABLE.c.id == vip_id, **values):
            return True
        connection.rollback()
        return False


def count_active(engine):
    """Return {id of a distributor: how many VIPs are active there}."""
    return dict(map(tuple, rows.read(
        engine, sa.select(_TABLE.c.distributor_id, sa.func.count())
        .where(_TABLE.c.active.is_(sa.true()))
        .group_by(_TABLE.c.distributor_id))))


@api.transaction
def set_active(connection, cluster_id, distributor_id, version=None,
               hold=None):
    """Make one of a cluster's distributors the only active one.

    :param version: the version of the cluster for which this was decided;
                    None for any.
    :param hold: seconds for which probes do not move the VIP again; None
                 leaves that as it is, as for an operator's order.
    :returns: False if it is active already, or does not have the VIP, or the
              cluster has another version by now.
    """
    is_of_cluster = _TABLE.c.cluster_id == cluster_id
    conditions = [] if version is None else [_CLUSTER.c.version == version]
    moved = {} if hold is None else {
        'vip_moved_at': types.utcnow(), 'vip_hold': int(hold)}
    if cluster_repo.touch(connection, cluster_id, *conditions, **moved):
        before = {vip.distributor_id: vip
                  for vip in _read(connection, is_of_cluster)}
        connection.execute(
            sa.update(_TABLE)
            .where(is_of_cluster, _TABLE.c.active.is_not(None),
                   _TABLE.c.distributor_id != distributor_id)
            .values(active=None))
        if rows.change(
                connection, _TABLE, is_of_cluster,
                _TABLE.c.active.is_(None),
                _TABLE.c.distributor_id == distributor_id, active=True):
            _tell_move(connection, before, distributor_id)
            return True
    connection.rollback()
    return False


def _tell_move(connection, vips, distributor_id):
    """Record the news that a VIP moved.

    :param vips: {id of the distributor: VIP}, as they were before.
    """
    before = next((vip for vip in vips.values() if vip.active), None)
    if before is not None:
        news_repo.add_of_cluster(
            connection, news_repo.VIP_MOVED, before.cluster_id,
            distributor=vips[distributor_id].distributor_name,
            previous_distributor=before.distributor_name,
            reason=before.error)


def record_applied(engine, vip_id, version, is_active=False):
    """Record which version is in force on a distributor.

    :param is_active: whether the distributor answers ARP with it.
    :returns: False, without a change, if a newer version is recorded, or the
              VIP is gone.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == vip_id,
        sa.or_(_TABLE.c.applied_version.is_(None),
               _TABLE.c.applied_version <= version),
        applied_version=version, applied_active=is_active,
        applied_at=types.utcnow(), error=None)


def forget_applied(engine, vip_id, version):
    """Record that a distributor has lost its version: it has 0.

    :param version: the recorded version.
    :returns: False if another version is recorded, or the VIP is gone.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == vip_id,
        _TABLE.c.applied_version == version,
        applied_version=0, applied_at=None)


def forget_active(engine, vip_id, version):
    """Record that a distributor cannot answer ARP, as its port is off.

    As forget_applied().
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == vip_id,
        _TABLE.c.applied_version == version, applied_active=None)


def record_error(engine, vip_id, error, version=None):
    """Record why a distributor has no newer version.

    :param version: the version that it did not take; None for any.
    :returns: False if it has taken that by now, or the VIP is gone.
    """
    conditions = [] if version is None else [
        sa.or_(_TABLE.c.applied_version.is_(None),
               _TABLE.c.applied_version < version)]
    return rows.change(engine, _TABLE, _TABLE.c.id == vip_id, *conditions,
                       error=error)


@api.transaction
def delete(connection, vip_id):
    """Delete the row of a VIP that its distributor has forgotten.

    :returns: False if it is gone.
    """
    row = connection.execute(
        sa.select(_TABLE.c.cluster_id, _TABLE.c.distributor_id)
        .where(_TABLE.c.id == vip_id)).first()
    if row is None or not connection.execute(
            sa.delete(_TABLE).where(_TABLE.c.id == vip_id)).rowcount:
        return False
    member, probe = (models.ClusterMember.__table__,
                     models.MemberProbe.__table__)
    # The distributor no longer checks the members of that cluster.
    probe_repo.delete_of(
        connection, probe.c.distributor_id == row.distributor_id,
        probe.c.member_id.in_(
            connection.execute(
                sa.select(member.c.id)
                .where(member.c.cluster_id == row.cluster_id))
            .scalars().all()))
    return True
