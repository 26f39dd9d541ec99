# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_amphora``: which exist, and which have the newest list."""

import collections
import dataclasses

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.db import replaced as replaced_repo
from octavia_hmsync.sync.rules import adoption

_TABLE = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA


# Seconds; Octavia rotates certificates two weeks before they end, unless
# [house_keeping] cert_expiry_buffer says otherwise.
CERTIFICATE_ENDS_SOON = 3 * 86400


def with_agent():
    """Return the condition for amphorae with an agent to talk to.

    Any status but DELETED will do: an amphora in ERROR or FAILOVER_STOPPED
    still sends heartbeats, and only these can bring it back.
    """
    return sa.and_(_OCTAVIA.c.lb_network_ip.is_not(None),
                   _OCTAVIA.c.status.not_in(compat.DELETED_STATUSES))


def that_get_lists():
    """Return the condition for amphorae that get the list.

    They have an agent, and no replacement works on them; see the module
    replaced.
    """
    return sa.and_(with_agent(), replaced_repo.not_in_hand())


def behind(number):
    """Return the condition for amphorae that do not have a generation yet."""
    return sa.or_(_TABLE.c.generation.is_(None),
                  _TABLE.c.generation < number)


def admitted(admitted_to=None, not_admitted_to=None):
    """Return the condition for admitted, or not admitted, amphorae."""
    if admitted_to is not None:
        return _TABLE.c.admitted_generation == admitted_to
    if not_admitted_to is not None:
        return (sa.func.coalesce(_TABLE.c.admitted_generation, 0) !=
                not_admitted_to)
    return sa.true()


@api.retry
def add_missing(engine, amphora_ids=None):
    """Add rows for amphorae with an agent (all: slow); return how many."""
    select = _select_missing(with_agent())
    if amphora_ids is not None:
        select = select.where(_OCTAVIA.c.id.in_(amphora_ids))

    return _add(engine, select)


@api.retry
def add_building(engine):
    """Add a row for each amphora that is being built.

    So it is due as soon as it has an agent. Octavia has an index for these.
    """
    return _add(engine, _select_missing(
        _OCTAVIA.c.status.in_(compat.BUILDING_STATUSES)))


def _select_missing(condition):
    return (sa.select(_OCTAVIA.c.id)
            .outerjoin(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
            .where(condition, _TABLE.c.amphora_id.is_(None)))


def _add(engine, select):
    # Two statements instead of INSERT ... SELECT, which would lock Octavia's
    # rows on MySQL.
    missing = [{'amphora_id': row.id, 'attempts': 0, 'has_changed_list': False}
               for row in rows.read(engine, select)]
    if not missing:
        return 0
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE), missing)
        return len(missing)
    except db_exc.DBDuplicateEntry as e:
        # Another process adds the same rows: see what is left.
        raise db_exc.RetryRequest(e)


@dataclasses.dataclass(frozen=True)
class Counts:
    """Numbers of amphorae; due: without the newest list, for any reason."""

    amphorae: int
    due: int
    results: dict


def count(engine, number):
    """Return the Counts for the newest generation, 0 if there is none."""
    # outerjoin: an amphora without a row is behind, too.
    is_due = sa.func.coalesce(_TABLE.c.generation, -1) < number
    groups = rows.read(
        engine, sa.select(_TABLE.c.result, is_due.label('due'),
                          sa.func.count().label('amphorae'))
        .select_from(_OCTAVIA.outerjoin(
            _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
        .where(that_get_lists())
        .group_by(_TABLE.c.result, is_due))
    results: collections.Counter[str] = collections.Counter()
    for row in groups:
        if row.result:
            results[row.result] += row.amphorae
    return Counts(amphorae=sum(row.amphorae for row in groups),
                  due=sum(row.amphorae for row in groups if row.due),
                  results=dict(results))


def get_heard(engine, limit):
    """Return id and lb_network_ip of amphorae, heard last first."""
    health = compat.AMPHORA_HEALTH
    return rows.read(
        engine, sa.select(_OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip)
        .outerjoin(health, health.c.amphora_id == _OCTAVIA.c.id)
        .where(that_get_lists(),
               _OCTAVIA.c.status == compat.AMPHORA_ALLOCATED)
        .order_by(health.c.last_update.desc(), _OCTAVIA.c.id).limit(limit))


def get_ending_certificates(engine):
    """Return the ids of amphorae whose certificate ends soon, or has ended.

    Only of amphorae whose certificates Octavia rotates. No controller can
    talk to an agent after its certificate has ended.
    """
    return [row.id for row in rows.read(
        engine, sa.select(_OCTAVIA.c.id)
        .where(with_agent(), _OCTAVIA.c.status == compat.AMPHORA_ALLOCATED,
               _OCTAVIA.c.cert_expiration < types.utcnow_plus(
                   CERTIFICATE_ENDS_SOON))
        .order_by(_OCTAVIA.c.cert_expiration, _OCTAVIA.c.id))]


def get_first_certificate_end(engine):
    """Return when the first certificate of an amphora ends; UTC, or None."""
    end, = rows.read_one(
        engine, sa.select(sa.func.min(_OCTAVIA.c.cert_expiration))
        .where(with_agent(), _OCTAVIA.c.status == compat.AMPHORA_ALLOCATED))
    return end


def count_other_key(engine, key_digest):
    """Count amphorae not known to sign with a key; 0 without a key."""
    if key_digest is None:
        return 0
    # with_agent(): an amphora that is being replaced signs, too.
    return rows.read_one(
        engine, sa.select(sa.func.count())
        .select_from(_OCTAVIA.outerjoin(
            _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
        .where(with_agent(), sa.func.coalesce(
            _TABLE.c.key_digest, '') != key_digest))[0]


def count_adoptions(engine, members, settings):
    """Return a Counter of amphorae by their adoption.Adoption."""
    judged = doubt_repo.judge(
        doubt_repo.get_unproven(engine),
        heartbeat_repo.get_heartbeats(engine), members, settings)
    acknowledged = _TABLE.join(
        _OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
    with engine.connect() as connection:
        adopted = connection.execute(
            sa.select(sa.func.count()).select_from(acknowledged)
            .where(that_get_lists(),
                   _TABLE.c.adopted_at.is_not(None))).scalar()
        # Leave out amphorae that have adopted since judge() looked.
        unproven = connection.execute(
            sa.select(_TABLE.c.amphora_id).select_from(acknowledged)
            .where(that_get_lists(), _TABLE.c.adopted_at.is_(None))
        ).scalars().all() if judged else ()
    counts = collections.Counter(judged[amphora_id] for amphora_id in unproven
                                 if amphora_id in judged)
    counts[adoption.Adoption.ADOPTED] += adopted
    return counts


def get_rows(engine):
    """Return all amphorae with an agent, with or without a row here."""
    return rows.read(
        engine, sa.select(
            _OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip,
            _OCTAVIA.c.load_balancer_id,
            *[c for c in _TABLE.c if c is not _TABLE.c.amphora_id])
        .outerjoin(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
        .where(with_agent()).order_by(_OCTAVIA.c.id))


def get_page(engine, after, size):
    """Return a page of ids of Octavia's amphorae, in order."""
    return _read_page(engine, _OCTAVIA.c.id, after, size)


def get_own_page(engine, after, size):
    """Return a page of ids of amphorae with a row here, as get_page()."""
    return _read_page(engine, _TABLE.c.amphora_id, after, size)


def _read_page(engine, key, after, size):
    return [row[0] for row in rows.read(
        engine, sa.select(key).where(key > after).order_by(key).limit(size))]


def find_wanted(engine, amphora_ids):
    """Find which still get the list; some may be deleted or replaced."""
    return {row.id for row in rows.read(engine, sa.select(_OCTAVIA.c.id).where(
        _OCTAVIA.c.id.in_(list(amphora_ids)), that_get_lists()))}


def is_any_behind(engine, number):
    """Tell whether any amphora with a row here does not have a generation."""
    return rows.read_one(
        engine, sa.select(_TABLE.c.amphora_id)
        .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(behind(number), that_get_lists()).limit(1)) is not None


@api.retry
def delete_gone(engine, amphora_ids=None):
    """Delete the rows of deleted or purged amphorae; return how many."""
    select = (
        sa.select(_TABLE.c.amphora_id)
        .outerjoin(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(sa.or_(_OCTAVIA.c.id.is_(None),
                      _OCTAVIA.c.status.in_(compat.DELETED_STATUSES))))
    if amphora_ids is not None:
        select = select.where(_TABLE.c.amphora_id.in_(amphora_ids))
    gone = [row.amphora_id for row in rows.read(engine, select)]
    if not gone:
        return 0
    with engine.begin() as connection:
        previous_repo.delete(connection, gone)
        heartbeat_repo.delete_heartbeats(connection, gone)
        attempt_repo.delete_gone(connection, gone)
        return connection.execute(
            sa.delete(_TABLE).where(_TABLE.c.amphora_id.in_(gone))).rowcount
