# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_cluster_news``: events of clusters to notify of.

A row is written in the transaction of the event. So no event is missed, and
none is announced that did not happen. The housekeeper that deletes a row sends
the notification, so none is sent twice.
"""

import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_TABLE = models.ClusterNews.__table__
_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__

CREATED = 'cluster.created'
STATUS = 'cluster.status'
VIP_MOVED = 'cluster.vip_moved'
MEMBER_ADDED = 'cluster_member.added'
MEMBER_DRAINED = 'cluster_member.drained'
MEMBER_DEAD = 'cluster_member.dead'
MEMBER_REPLACED = 'cluster_member.replaced'
DISTRIBUTOR_UP = 'distributor.up'
DISTRIBUTOR_DOWN = 'distributor.down'

# While a cluster is built or deleted, its members' events are not announced.
_UNTOLD = (compat.PENDING_CREATE, compat.PENDING_DELETE)


@dataclasses.dataclass(frozen=True)
class News:
    """An event.

    :param id: of the row.
    :param kind: one of the constants above.
    :param body: the facts.
    """

    id: int
    kind: str
    body: dict[str, Any]


def add(connection, kind, **body):
    """Record an event of this transaction.

    :param connection: an SQLAlchemy connection, in a transaction.
    :param kind: one of the constants above.
    :param body: the facts; plain values.
    """
    connection.execute(sa.insert(_TABLE).values(
        kind=kind, body=json.dumps(body), created_at=types.utcnow()))


def add_of_cluster(connection, kind, cluster_id, **body):
    """Record an event, with the facts of its cluster."""
    row = connection.execute(
        sa.select(_CLUSTER).where(_CLUSTER.c.id == cluster_id)).first()
    if row is None or (row.provisioning_status in _UNTOLD and
                       kind != CREATED):
        return
    body = {'cluster_id': cluster_id,
            'load_balancer_id': row.load_balancer_id, **body}
    if kind in (CREATED, STATUS):
        body.update(
            status=row.operating_status, desired_size=row.desired_size,
            min_size=row.min_size, active=connection.execute(
                sa.select(sa.func.count()).select_from(_MEMBER)
                .where(_MEMBER.c.cluster_id == cluster_id,
                       _MEMBER.c.state == 'ACTIVE',
                       _MEMBER.c.slot.is_not(None))).scalar())
    add(connection, kind, **body)


@api.retry
def take(engine, limit):
    """Delete and return News that the caller has to announce, oldest first."""
    with engine.begin() as connection:
        rows = connection.execute(
            sa.select(_TABLE).order_by(_TABLE.c.id).limit(limit)).all()
        return [
            News(row.id, row.kind, json.loads(row.body)) for row in rows
            # Skip rows that another housekeeper took meanwhile.
            if connection.execute(
                sa.delete(_TABLE).where(_TABLE.c.id == row.id)).rowcount]


@api.retry
def forget(engine, max_age):
    """Delete old news, as they pile up without notifications.

    :param max_age: seconds.
    """
    with engine.begin() as connection:
        return connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.created_at < types.utcnow_plus(-max_age))).rowcount
