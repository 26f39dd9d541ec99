# SPDX-License-Identifier: Apache-2.0

"""The amphorae that Octavia knows, to find instances and ports that leaked.

An instance or port has leaked if it has no amphora row, or a DELETED one.
"""

import dataclasses
import datetime
import functools

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import hold as hold_repo

_LB = compat.LOAD_BALANCER
_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH
_OURS = models.Amphora.__table__
_REPLACEMENT = models.ImageReplacement.__table__
_MEMBER = models.ClusterMember.__table__
_CLUSTER = models.Cluster.__table__
_VIP = models.DistributorVIP.__table__


@dataclasses.dataclass(frozen=True)
class Amphora:
    """A row, DELETED or not; unchanged_for: since it last changed."""

    id: str
    status: str | None
    compute_id: str | None
    vrrp_port_id: str | None
    load_balancer_id: str | None
    load_balancer_status: str | None
    unchanged_for: float
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class Known:
    """What Octavia and the plugin know at one moment.

    :param replaced: ids of amphorae of open replacements, and of clusters.
    :param clusters: ids of clusters, and of deleted clusters whose VIP a
                     distributor still has.
    """

    amphorae: dict[str, Amphora]
    replaced: frozenset[str]
    now: datetime.datetime
    clusters: frozenset[str] = frozenset()

    @functools.cached_property
    def compute_ids(self) -> frozenset[str | None]:
        """The instances of amphorae that are not DELETED."""
        return frozenset(each.compute_id for each in self.amphorae.values()
                         if each.status != compat.DELETED)

    @functools.cached_property
    def port_ids(self) -> frozenset[str | None]:
        """The VRRP ports of amphorae that are not DELETED."""
        return frozenset(each.vrrp_port_id for each in self.amphorae.values()
                         if each.status != compat.DELETED)


@dataclasses.dataclass(frozen=True)
class Heard:
    """How many amphorae of a load balancer Octavia hears.

    :param needed: number of amphorae that it needs, or has rows of.
    :param heard: number of these that sent a heartbeat recently.
    """

    id: str | None
    needed: int = 0
    heard: int = 0

    @property
    def is_served(self) -> bool:
        """Whether it needs no other than the known amphorae."""
        return self.id is not None and self.heard >= self.needed

    def describe(self) -> str:
        """Name it for an operator."""
        if self.id is None:
            return 'a load balancer that Octavia does not know'
        return (f'load balancer {self.id}, of which Octavia hears '
                f'{self.heard} of {self.needed} amphorae')


def get_heard(engine, load_balancer_id, vip_port_id, heartbeat_timeout):
    """Return the Heard of a load balancer.

    :param load_balancer_id: None if only its VIP is known.
    :param vip_port_id: the port of one of its VIPs.
    """
    with engine.connect() as connection:
        if load_balancer_id is None:
            load_balancer_id = connection.execute(sa.union(*(
                sa.select(table.c.load_balancer_id)
                .where(table.c.port_id == vip_port_id)
                for table in (compat.VIP, compat.ADDITIONAL_VIP)))).scalar()
        topology = connection.execute(
            sa.select(_LB.c.topology)
            .where(_LB.c.id == load_balancer_id,
                   _LB.c.provisioning_status != compat.DELETED)).first()
        if topology is None:
            return Heard(None)
        amphorae = connection.execute(
            sa.select(_HEALTH.c.last_update, _OURS.c.held_at,
                      types.utcnow().label('now'))
            .select_from(_AMPHORA)
            .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _AMPHORA.c.id)
            .outerjoin(_OURS, _OURS.c.amphora_id == _AMPHORA.c.id)
            .where(_AMPHORA.c.load_balancer_id == load_balancer_id,
                   _AMPHORA.c.status == compat.AMPHORA_ALLOCATED)).all()
        return Heard(
            load_balancer_id,
            max(compat.AMPHORAE_OF_TOPOLOGY.get(topology[0], 1),
                len(amphorae)),
            sum(row.last_update is not None and
                not hold_repo.is_last_update_ours(row) and
                (row.now - row.last_update).total_seconds() <=
                heartbeat_timeout for row in amphorae))


def get(engine, amphora_id=None):
    with engine.connect() as connection:
        return _read(connection, amphora_id)


def _read(connection, amphora_id):
    select = (sa.select(*_AMPHORA.c, _LB.c.provisioning_status)
              .outerjoin(_LB, _LB.c.id == _AMPHORA.c.load_balancer_id))
    if amphora_id is not None:
        select = select.where(_AMPHORA.c.id == amphora_id)
    # The time first, so that what began meanwhile counts as young.
    now = connection.execute(sa.select(types.utcnow())).scalar()
    amphorae = connection.execute(select).all()
    replaced = connection.execute(sa.union_all(
        sa.select(_REPLACEMENT.c.old_amphora_id,
                  _REPLACEMENT.c.new_amphora_id)
        .where(_REPLACEMENT.c.active_key.is_not(None)),
        sa.select(_MEMBER.c.amphora_id, sa.null()))).all()
    clusters = connection.execute(sa.union(
        sa.select(_CLUSTER.c.id), sa.select(_VIP.c.cluster_id))).scalars()
    return Known({row.id: _make(row, now) for row in amphorae},
                 frozenset(each for row in replaced for each in row if each),
                 now, frozenset(clusters))


def _make(row, now):
    changed = row.updated_at or row.created_at
    return rows.make(
        Amphora, row, load_balancer_status=row.provisioning_status,
        unchanged_for=(now - changed).total_seconds() if changed
        else float('inf'))


@api.retry
def begin_delete(engine, amphora):
    """Set an amphora to PENDING_DELETE, so that no service uses it.

    :returns: False, without a change, if it, or its load balancer, has changed
              since, or a replacement or a cluster uses it.
    """
    with engine.connect() as connection, connection.begin() as transaction:
        unchanged = (_AMPHORA.c.updated_at.is_(None)
                     if amphora.updated_at is None else
                     _AMPHORA.c.updated_at == amphora.updated_at)
        if rows.change(connection, _AMPHORA, _AMPHORA.c.id == amphora.id,
                       unchanged, _AMPHORA.c.status == amphora.status,
                       status=compat.PENDING_DELETE,
                       updated_at=types.utcnow()):
            known = _read(connection, amphora.id)
            now = known.amphorae[amphora.id]
            if (amphora.id not in known.replaced and
                    now.load_balancer_id == amphora.load_balancer_id and
                    now.load_balancer_status ==
                    amphora.load_balancer_status):
                return True
        transaction.rollback()
        return False


@api.transaction
def end_delete(connection, amphora_id):
    """Set an amphora to DELETED, after begin_delete()."""
    rows.change(connection, _AMPHORA, _AMPHORA.c.id == amphora_id,
                _AMPHORA.c.status == compat.PENDING_DELETE,
                status=compat.DELETED, updated_at=types.utcnow())
    connection.execute(sa.delete(_HEALTH).where(
        _HEALTH.c.amphora_id == amphora_id))
