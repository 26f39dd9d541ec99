# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_image_exclusion``: whom a rollout leaves alone."""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.image.db import rollout as rollout_repo

_TABLE = models.ImageExclusion.__table__
_TAG = compat.TAG

LOAD_BALANCER = 'LOAD_BALANCER'
PROJECT = 'PROJECT'
TAG = 'TAG'
FLAVOR = 'FLAVOR'
ZONE = 'ZONE'
KINDS = (LOAD_BALANCER, PROJECT, TAG, FLAVOR, ZONE)


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """Whom a rollout leaves alone.

    :param kind: by what: LOAD_BALANCER, PROJECT, TAG, FLAVOR or ZONE.
    :param value: an id, or the name of a tag or of an availability zone.
    :param reason: why, in the operator's words.
    :param created_at: since when, by the database's clock, UTC.
    :param expires_at: until when; None for as long as it is there.
    """

    kind: str
    value: str
    reason: str
    created_at: datetime.datetime
    expires_at: datetime.datetime | None


def _lasts():
    return sa.or_(_TABLE.c.expires_at.is_(None),
                  _TABLE.c.expires_at > types.utcnow())


def get_all(engine):
    """Return what is excluded now.

    :param engine: an SQLAlchemy engine.
    :returns: a list of Exclusion, by kind and value.
    """
    with engine.connect() as connection:
        return [Exclusion(row.kind, row.value, row.reason, row.created_at,
                          row.expires_at)
                for row in connection.execute(
                    sa.select(_TABLE).where(_lasts())
                    .order_by(_TABLE.c.kind, _TABLE.c.value)).all()]


def get_tagged(engine):
    """Return which load balancers are excluded by a tag now.

    :param engine: an SQLAlchemy engine.
    :returns: {id: their tags that are excluded, a list}.
    """
    tagged: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for row in connection.execute(
                sa.select(_TAG.c.resource_id, _TABLE.c.value)
                .join(_TABLE, _TABLE.c.value == _TAG.c.tag)
                .where(_TABLE.c.kind == TAG, _lasts())
                .order_by(_TAG.c.resource_id, _TABLE.c.value)).all():
            tagged.setdefault(row.resource_id, []).append(row.value)
    return tagged


@api.retry
def add(engine, exclusion_id, kind, value, reason, seconds=None):
    """Exclude somebody, in place of an exclusion that there may be.

    :param engine: an SQLAlchemy engine.
    :param exclusion_id: a new id.
    :param kind: one of KINDS.
    :param value: see Exclusion.
    :param reason: why.
    :param seconds: for how long; None for as long as it is there.
    """
    values = {'reason': reason, 'created_at': types.utcnow(),
              'expires_at': None if seconds is None
              else types.utcnow_plus(seconds)}
    try:
        with engine.begin() as connection:
            # What was chosen before is chosen anew, without it.
            rollout_repo.touch(connection)
            connection.execute(sa.delete(_TABLE).where(sa.not_(_lasts())))
            if not connection.execute(
                    sa.update(_TABLE)
                    .where(_TABLE.c.kind == kind, _TABLE.c.value == value)
                    .values(**values)).rowcount:
                connection.execute(sa.insert(_TABLE).values(
                    id=exclusion_id, kind=kind, value=value, **values))
    except db_exc.DBDuplicateEntry as e:
        # Somebody else was faster: this one comes after.
        raise db_exc.RetryRequest(e)


@api.retry
def remove(engine, kind, value):
    """Exclude somebody no more.

    :param engine: an SQLAlchemy engine.
    :param kind: one of KINDS.
    :param value: see Exclusion.
    :returns: False if there is no such exclusion.
    """
    with engine.begin() as connection:
        return connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.kind == kind, _TABLE.c.value == value,
            _lasts())).rowcount == 1
