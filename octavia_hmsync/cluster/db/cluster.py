# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_cluster``: load balancers with several amphorae.

Their claims are in cluster_claim.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.Cluster.__table__
_LB = compat.LOAD_BALANCER
# A tenant may change these at any time without notice: the cluster's columns
# are as of its creation.
_OF_LOAD_BALANCER = {
    'cluster_name': sa.func.coalesce(sa.func.nullif(_LB.c.name, ''),
                                     _TABLE.c.cluster_name),
    'enabled': sa.func.coalesce(_LB.c.enabled, sa.false())}

# What a distributor looks at to choose a member.
FLOW = 'FLOW'
SOURCE_IP = 'SOURCE_IP'

# Managed by the plugin itself.
REFERENCE = 'reference'


@dataclasses.dataclass(frozen=True)
class New:
    """A cluster to add.

    :param desired_size: number of members to have.
    :param min_size: with fewer members it is in ERROR.
    :param distributor: the name of the distributor driver.
    :param affinity: FLOW or SOURCE_IP.
    :param peer_group_size: number of members that share their stick tables.
    :param cooldown: seconds between two changes of its size.
    :param standby: number of further members that wait without a slot.
    """

    id: str
    load_balancer_id: str
    cluster_name: str
    desired_size: int
    min_size: int
    distributor: str
    affinity: str = FLOW
    peer_group_size: int = 2
    cooldown: int = 0
    standby: int = 0
    enabled: bool = True
    cluster_type: str = REFERENCE


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A row; times by the database's clock, UTC.

    Its fields are the columns of ``hmsync_cluster``, and now, when it was
    read. size is the size in force. cluster_name and enabled are those of the
    load balancer; if Octavia has purged it, enabled is False.
    """

    id: str
    cluster_name: str
    desired_size: int
    min_size: int
    cooldown: int
    load_balancer_id: str
    distributor: str
    provisioning_status: str
    operating_status: str
    enabled: bool
    cluster_type: str
    affinity: str
    peer_group_size: int
    standby: int
    size: int
    resized_at: datetime.datetime | None
    version: int
    claimed_by: str | None
    claim_expires_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime
    now: datetime.datetime
    ports: str | None = None
    vip_moved_at: datetime.datetime | None = None
    vip_hold: int | None = None
    member_died_at: datetime.datetime | None = None
    build_hold: int | None = None
    is_failing_over: bool = False


def select(*conditions):
    """Return the query for clusters that fulfil all conditions.

    Its rows also have lb_status, the load balancer's status or None.
    """
    columns = [column for column in _TABLE.c
               if column.name not in _OF_LOAD_BALANCER]
    return (sa.select(
        *columns, *(column.label(name) for name, column
                    in _OF_LOAD_BALANCER.items()),
        _LB.c.provisioning_status.label('lb_status'),
        types.utcnow().label('now'))
        .outerjoin_from(_TABLE, _LB, _LB.c.id == _TABLE.c.load_balancer_id)
        .where(*conditions))


def from_row(row):
    """Return the Cluster that a row of select() is."""
    return rows.make(Cluster, row, enabled=bool(row.enabled),
                     is_failing_over=bool(row.is_failing_over))


def _get(engine, *conditions):
    row = rows.read_one(engine, select(*conditions))
    return row and from_row(row)


def get(engine, cluster_id):
    """Return a Cluster, or None if there is none with this id."""
    return _get(engine, _TABLE.c.id == cluster_id)


def get_by_load_balancer(engine, load_balancer_id):
    """Return the Cluster of a load balancer, or None if it has none."""
    return _get(engine, _TABLE.c.load_balancer_id == load_balancer_id)


def get_all(engine):
    """Return all Clusters, by name."""
    return [from_row(row) for row in rows.read(
        engine, select().order_by('cluster_name', _TABLE.c.id))]


def get_versions(engine):
    return dict(map(tuple, rows.read(
        engine, sa.select(_TABLE.c.id, _TABLE.c.version))))


def get_changed(engine, seconds):
    """Return the ids of clusters that changed in the last seconds, a set.

    Each change of what distributors are to do counts.
    """
    return {row.id for row in rows.read(engine, sa.select(_TABLE.c.id).where(
        _TABLE.c.updated_at >= types.utcnow_plus(-seconds)))}


@api.retry
def add(engine, new):
    """Add a cluster, in PENDING_CREATE, without members.

    :returns: False if the load balancer has a cluster.
    """
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                **dataclasses.asdict(new), version=0,
                size=new.desired_size,
                provisioning_status=compat.PENDING_CREATE,
                operating_status=compat.OFFLINE,
                created_at=types.utcnow(), updated_at=types.utcnow()))
        return True
    except db_exc.DBDuplicateEntry:
        return False


def raise_version(engine, cluster_id, version):
    """Raise the version of a cluster above that of a distributor.

    :param version: of the distributor: not known here, as after a restore of
                    an older database, or with another content.
    :returns: False if it is higher already, or the cluster is gone.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == cluster_id, _TABLE.c.version <= version,
        version=version + 1, updated_at=types.utcnow())


def touch(bind, cluster_id, *conditions, **values):
    """Begin a change of what distributors are to do: the next version.

    Must come first in a transaction: no other transaction changes members or
    VIPs of the cluster until it commits.

    :returns: False, without a change, if the cluster is gone.
    """
    return rows.change(
        bind, _TABLE, _TABLE.c.id == cluster_id, *conditions,
        version=_TABLE.c.version + 1, updated_at=types.utcnow(), **values)


@api.transaction
def mark(connection, cluster_id):
    """Make the manager look at a cluster, without a new version.

    Must come first in a transaction, as touch().

    :returns: False if the cluster is gone.
    """
    return rows.change(connection, _TABLE, _TABLE.c.id == cluster_id,
                       updated_at=types.utcnow())


def set_status(engine, cluster_id, provisioning_status=None,
               operating_status=None):
    """Record statuses; None leaves a status as it is.

    :returns: False if the cluster is gone.
    """
    return rows.change(engine, _TABLE, _TABLE.c.id == cluster_id,
                       updated_at=types.utcnow(), **_get_given(
                           provisioning_status=provisioning_status,
                           operating_status=operating_status))


def _get_given(**values):
    return {name: value for name, value in values.items()
            if value is not None}


@api.transaction
def set_operating_status(connection, cluster_id, status):
    """Record the operating status of a cluster.

    :param status: ONLINE, DEGRADED, ERROR or OFFLINE.
    :returns: False if the cluster has it already, or is gone. Of several
              callers only one gets True.
    """
    is_new = rows.change(
        connection, _TABLE, _TABLE.c.id == cluster_id,
        _TABLE.c.operating_status != status,
        operating_status=status, updated_at=types.utcnow())
    if is_new:
        news_repo.add_of_cluster(connection, news_repo.STATUS, cluster_id)
    return is_new


def set_sizes(engine, cluster_id, desired_size=None, min_size=None,
              cooldown=None, standby=None, cluster_type=None):
    """Record the sizes that a cluster should have; None leaves one as it is.

    Its manager brings it there, to desired_size after the cooldown.

    :param cluster_type: its manager from now on.
    :returns: False, without a change, if the cluster is gone, or min_size
              would exceed desired_size.
    """
    smaller = _TABLE.c.min_size if min_size is None else sa.literal(min_size)
    larger = (_TABLE.c.desired_size if desired_size is None
              else sa.literal(desired_size))
    return rows.change(
        engine, _TABLE, _TABLE.c.id == cluster_id, smaller <= larger,
        updated_at=types.utcnow(), **_get_given(
            desired_size=desired_size, min_size=min_size, cooldown=cooldown,
            standby=standby, cluster_type=cluster_type))


def ask_for_size(engine, cluster_id, before, size):
    """Record the desired_size that the manager of a cluster wants.

    :param before: the desired_size for which this was decided.
    :returns: False, without a change, if the cluster is gone or has this
              desired_size, if an operator has changed it meanwhile, or if the
              last change of its size is not done or is within the cooldown.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == cluster_id,
        _TABLE.c.desired_size == before, _TABLE.c.size == before,
        _TABLE.c.desired_size != size, _TABLE.c.min_size <= size,
        _is_cooldown_over(), desired_size=size, updated_at=types.utcnow())


def resize(engine, cluster_id, size):
    """Begin to bring a cluster to its desired_size.

    :param size: the desired_size for which this was decided.
    :returns: False if the cluster is gone, has another desired_size by now,
              has this size, or has min_size and is within its cooldown.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == cluster_id,
        _TABLE.c.desired_size == size, may_resize(), size=size,
        resized_at=types.utcnow(), updated_at=types.utcnow())


def may_resize():
    """Return whether a cluster is to be resized now, for a statement."""
    return sa.and_(_TABLE.c.size != _TABLE.c.desired_size, sa.or_(
        _is_cooldown_over(), _TABLE.c.size < _TABLE.c.min_size))


def _is_cooldown_over():
    return sa.or_(
        _TABLE.c.resized_at.is_(None), _TABLE.c.cooldown == 0,
        _TABLE.c.resized_at <= types.utcnow_plus(-_TABLE.c.cooldown))


def set_affinity(engine, cluster_id, affinity):
    """Change what distributors look at to choose a member.

    :returns: False if the cluster has this affinity, or is gone.
    """
    return touch(engine, cluster_id, _TABLE.c.affinity != affinity,
                 affinity=affinity)


def set_ports(engine, cluster_id, ports):
    """Change the TCP ports at which distributors check members.

    :param ports: numbers; empty for no checks.
    :returns: False if the cluster has these ports, or is gone.
    """
    text = ','.join(map(str, sorted(ports)))
    return touch(engine, cluster_id,
                 sa.or_(_TABLE.c.ports.is_(None),
                        _TABLE.c.ports != text), ports=text)


def hold_builds(engine, cluster_id, seconds):
    """Record that a member has died, and how long none is built after it."""
    return rows.change(
        engine, _TABLE, _TABLE.c.id == cluster_id, build_hold=int(seconds),
        member_died_at=types.utcnow(), updated_at=types.utcnow())


def end_hold(engine, cluster_id):
    """Let members be built; return False if they may be, or it is gone."""
    return rows.change(
        engine, _TABLE, _TABLE.c.id == cluster_id, _TABLE.c.build_hold > 0,
        build_hold=None, member_died_at=None, updated_at=types.utcnow())


@api.transaction
def delete(connection, cluster_id):
    """Delete a cluster with its members.

    Its VIPs stay until their distributors have forgotten them; see
    distributor_vip.get_left().

    :returns: False if the cluster is gone.
    """
    # First: from now on no other transaction adds a member.
    if not connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.id == cluster_id)).rowcount:
        return False
    table = models.ClusterMember.__table__
    is_of_cluster = table.c.cluster_id == cluster_id
    members = connection.execute(
        sa.select(table.c.id).where(is_of_cluster)).scalars().all()
    probe_repo.delete_of(
        connection, models.MemberProbe.__table__.c.member_id.in_(members))
    load_repo.delete_of(connection, members)
    connection.execute(sa.delete(table).where(is_of_cluster))
    return True
