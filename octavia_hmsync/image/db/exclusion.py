# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_image_exclusion``: load balancers that rollouts skip."""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import rollout as rollout_repo

_TABLE = models.ImageExclusion.__table__
_LB = compat.LOAD_BALANCER
_TAG = compat.TAG

LOAD_BALANCER = 'LOAD_BALANCER'
PROJECT = 'PROJECT'
TAG = 'TAG'
FLAVOR = 'FLAVOR'
ZONE = 'ZONE'
KINDS = (LOAD_BALANCER, PROJECT, TAG, FLAVOR, ZONE)


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """Load balancers that rollouts skip.

    :param kind: LOAD_BALANCER, PROJECT, TAG, FLAVOR or ZONE.
    :param value: an id, or the name of a tag or of an availability zone.
    :param name: of what has an id, when it was excluded, or None.
    """

    kind: str
    value: str
    reason: str
    created_at: datetime.datetime
    expires_at: datetime.datetime | None
    name: str | None = None

    @property
    def label(self) -> str:
        """Its kind and name, for people."""
        return label(self.kind, self.value, self.name)


def label(kind: str, value: str, name: str | None) -> str:
    """Name load balancers that are excluded, for people."""
    what = kind.lower().replace('_', ' ')
    return f'{what} {name} ({value})' if name else f'{what} {value}'


def _lasts():
    return sa.or_(_TABLE.c.expires_at.is_(None),
                  _TABLE.c.expires_at > types.utcnow())


def get_all(engine):
    """Return the Exclusions in force, by kind and value."""
    return [rows.make(Exclusion, row) for row in rows.read(
        engine, sa.select(_TABLE).where(_lasts())
        .order_by(_TABLE.c.kind, _TABLE.c.value))]


def get_tagged(engine):
    """Return {id of a load balancer: its tags that are excluded now}."""
    tagged: dict[str, list[str]] = {}
    for row in rows.read(
            engine, sa.select(_TAG.c.resource_id, _TABLE.c.value)
            .join(_TABLE, _TABLE.c.value == _TAG.c.tag)
            .where(_TABLE.c.kind == TAG, _lasts())
            .order_by(_TAG.c.resource_id, _TABLE.c.value)):
        tagged.setdefault(row.resource_id, []).append(row.value)
    return tagged


def count(engine, kind, value):
    """Return how many load balancers an exclusion leaves alone now."""
    found = {
        LOAD_BALANCER: _LB.c.id == value,
        PROJECT: _LB.c.project_id == value,
        TAG: _LB.c.id.in_(sa.select(_TAG.c.resource_id)
                          .where(_TAG.c.tag == value)),
        FLAVOR: _LB.c.flavor_id == value,
        ZONE: _LB.c.availability_zone == value}[kind]
    wanted = inventory_repo.Wanted(providers=inventory_repo.PROVIDERS)
    return rows.read_one(engine, sa.select(sa.func.count()).select_from(_LB)
                         .where(found, *wanted.get_conditions()))[0]


@api.retry
def add(engine, exclusion_id, kind, value, reason, seconds=None, name=None):
    """Add or replace an exclusion, for some seconds or for ever."""
    values = {'name': name, 'reason': reason, 'created_at': types.utcnow(),
              'expires_at': None if seconds is None
              else types.utcnow_plus(seconds)}
    try:
        with engine.begin() as connection:
            # Invalidate decisions that may have chosen it.
            rollout_repo.touch(connection)
            connection.execute(sa.delete(_TABLE).where(sa.not_(_lasts())))
            if not rows.change(connection, _TABLE, _TABLE.c.kind == kind,
                               _TABLE.c.value == value, **values):
                connection.execute(sa.insert(_TABLE).values(
                    id=exclusion_id, kind=kind, value=value, **values))
    except db_exc.DBDuplicateEntry as e:
        # Another process was faster: replace its row.
        raise db_exc.RetryRequest(e)


def remove(engine, kind, value):
    """Remove an exclusion; False if there is none."""
    return rows.write(engine, sa.delete(_TABLE).where(
        _TABLE.c.kind == kind, _TABLE.c.value == value, _lasts())) == 1
