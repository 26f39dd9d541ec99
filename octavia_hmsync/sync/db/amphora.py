# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_amphora``: which there are, and how far they are."""

import collections
import dataclasses

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
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
    """Amphorae that have an agent to talk to.

    Whatever their status but DELETED: one in ERROR or FAILOVER_STOPPED still
    sends heartbeats, and only these can bring it back.
    """
    return sa.and_(_OCTAVIA.c.lb_network_ip.is_not(None),
                   _OCTAVIA.c.status.not_in(compat.DELETED_STATUSES))


def that_get_lists():
    """Amphorae that are to have the list: with an agent, and in service.

    While a replacement has one in hand it is left alone, and nothing waits
    for it; see the module replaced.
    """
    return sa.and_(with_agent(), replaced_repo.not_in_hand())


def behind(number):
    """Amphorae that were not brought to a generation yet."""
    return sa.or_(_TABLE.c.generation.is_(None),
                  _TABLE.c.generation < number)


def admitted(admitted_to=None, not_admitted_to=None):
    """Amphorae that were admitted to a generation, or those that were not.

    :param admitted_to: only those that were admitted to this generation.
    :param not_admitted_to: only those that were not admitted to this one.
    """
    if admitted_to is not None:
        return _TABLE.c.admitted_generation == admitted_to
    if not_admitted_to is not None:
        return (sa.func.coalesce(_TABLE.c.admitted_generation, 0) !=
                not_admitted_to)
    return sa.true()


@api.retry
def add_missing(engine, amphora_ids=None):
    """Give each amphora with an agent a row, so that it can be claimed.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: only these; by default all, which reads every row of
                        both tables.
    :returns: how many were added.
    """
    select = _select_missing(with_agent())
    if amphora_ids is not None:
        select = select.where(_OCTAVIA.c.id.in_(amphora_ids))
    # Two statements instead of INSERT ... SELECT, which would lock Octavia's
    # rows on MySQL.
    with engine.connect() as connection:
        missing = connection.execute(select).scalars().all()
    return _add(engine, missing)


@api.retry
def add_building(engine):
    """Give each amphora that is being built a row, before it has an agent.

    So it is due as soon as it has one. Octavia has an index for these.

    :param engine: an SQLAlchemy engine.
    :returns: how many were added.
    """
    with engine.connect() as connection:
        missing = connection.execute(_select_missing(
            _OCTAVIA.c.status.in_(compat.BUILDING_STATUSES))).scalars().all()
    return _add(engine, missing)


def _select_missing(condition):
    return (sa.select(_OCTAVIA.c.id)
            .outerjoin(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
            .where(condition, _TABLE.c.amphora_id.is_(None)))


def _add(engine, missing):
    if not missing:
        return 0
    rows = [{'amphora_id': amphora_id, 'attempts': 0,
             'has_changed_list': False}
            for amphora_id in missing]
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE), rows)
        return len(rows)
    except db_exc.DBDuplicateEntry as e:
        # Another one adds the same ones: see what it leaves.
        raise db_exc.RetryRequest(e)


@dataclasses.dataclass(frozen=True)
class Counts:
    """How many amphorae there are, and how far they are.

    :param amphorae: those that are to have the list.
    :param due: those that are not at the newest generation, for any reason.
    :param results: how many had each result at the last attempt.
    """

    amphorae: int
    due: int
    results: dict


def count(engine, number):
    """Count the amphorae.

    :param engine: an SQLAlchemy engine.
    :param number: the newest generation, 0 if there is none.
    :returns: Counts.
    """
    # outerjoin: an amphora without a row of ours is behind as well.
    is_due = sa.func.coalesce(_TABLE.c.generation, -1) < number
    with engine.connect() as connection:
        rows = connection.execute(
            sa.select(_TABLE.c.result, is_due.label('due'),
                      sa.func.count().label('amphorae'))
            .select_from(_OCTAVIA.outerjoin(
                _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
            .where(that_get_lists())
            .group_by(_TABLE.c.result, is_due)).all()
    results: collections.Counter[str] = collections.Counter()
    for row in rows:
        if row.result:
            results[row.result] += row.amphorae
    return Counts(amphorae=sum(row.amphorae for row in rows),
                  due=sum(row.amphorae for row in rows if row.due),
                  results=dict(results))


def get_ending_certificates(engine):
    """Return the ids of amphorae whose certificate ends soon, or has ended.

    Of those that Octavia rotates the certificates of. With one that has ended
    nobody can tell an agent anything.
    """
    with engine.connect() as connection:
        return list(connection.execute(
            sa.select(_OCTAVIA.c.id)
            .where(with_agent(), _OCTAVIA.c.status == compat.AMPHORA_ALLOCATED,
                   _OCTAVIA.c.cert_expiration < types.utcnow_plus(
                       CERTIFICATE_ENDS_SOON))
            .order_by(_OCTAVIA.c.cert_expiration, _OCTAVIA.c.id)).scalars())


def count_other_key(engine, key_digest):
    """Count the amphorae that are not known to sign with a key.

    Also those that a replacement has in hand: what they send is signed, too.

    :param engine: an SQLAlchemy engine.
    :param key_digest: digest of the key; None for no particular one.
    :returns: how many.
    """
    if key_digest is None:
        return 0
    with engine.connect() as connection:
        return connection.execute(
            sa.select(sa.func.count())
            .select_from(_OCTAVIA.outerjoin(
                _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
            .where(with_agent(), sa.func.coalesce(
                _TABLE.c.key_digest, '') != key_digest)).scalar()


def count_adoptions(engine, members, settings):
    """Count the amphorae by whether they use the list that they acknowledged.

    :param engine: an SQLAlchemy engine.
    :param members: all registered health managers, a list of Member.
    :param settings: timing.Settings.
    :returns: a Counter by adoption.Adoption.
    """
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
        # One that adopts meanwhile is among the others by now.
        unproven = connection.execute(
            sa.select(_TABLE.c.amphora_id).select_from(acknowledged)
            .where(that_get_lists(), _TABLE.c.adopted_at.is_(None))
        ).scalars().all() if judged else ()
    counts = collections.Counter(judged[amphora_id] for amphora_id in unproven
                                 if amphora_id in judged)
    counts[adoption.Adoption.ADOPTED] += adopted
    return counts


def get_rows(engine):
    """Return all amphorae with an agent, with or without a row of ours."""
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip,
                      _OCTAVIA.c.load_balancer_id,
                      *[c for c in _TABLE.c if c is not
                        _TABLE.c.amphora_id])
            .outerjoin(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
            .where(with_agent()).order_by(_OCTAVIA.c.id)).all()


def get_page(engine, after, size):
    """Return some of Octavia's amphorae, by their ids.

    :param engine: an SQLAlchemy engine.
    :param after: the last id of the page before, '' for the first page.
    :param size: how many at most; fewer on the last page.
    :returns: ids, a list.
    """
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_OCTAVIA.c.id).where(_OCTAVIA.c.id > after)
            .order_by(_OCTAVIA.c.id).limit(size)).scalars().all()


def get_own_page(engine, after, size):
    """Return some of those that have a row of ours, as get_page()."""
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_TABLE.c.amphora_id)
            .where(_TABLE.c.amphora_id > after)
            .order_by(_TABLE.c.amphora_id).limit(size)).scalars().all()


def find_wanted(engine, amphora_ids):
    """Find those that are still to have the list.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: ids; some may be deleted by now, or in the hand of a
                        replacement.
    :returns: a set of ids.
    """
    with engine.connect() as connection:
        return set(connection.execute(
            sa.select(_OCTAVIA.c.id).where(
                _OCTAVIA.c.id.in_(list(amphora_ids)), that_get_lists())
        ).scalars())


def is_any_behind(engine, number):
    """Tell whether one that is to have the list is not at a generation.

    Of those that have a row.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    """
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_TABLE.c.amphora_id)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .where(behind(number), that_get_lists()).limit(1)
        ).first() is not None


@api.retry
def delete_gone(engine, amphora_ids=None):
    """Delete the rows of amphorae that are deleted or purged.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: look at these only.
    :returns: how many were deleted.
    """
    select = (
        sa.select(_TABLE.c.amphora_id)
        .outerjoin(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(sa.or_(_OCTAVIA.c.id.is_(None),
                      _OCTAVIA.c.status.in_(compat.DELETED_STATUSES))))
    if amphora_ids is not None:
        select = select.where(_TABLE.c.amphora_id.in_(amphora_ids))
    with engine.connect() as connection:
        gone = connection.execute(select).scalars().all()
        # Rare enough for a look at all to be the time for it.
        orphans = (previous_repo.find_orphans(connection)
                   if amphora_ids is None else [])
    if not gone and not orphans:
        return 0
    with engine.begin() as connection:
        previous_repo.delete(connection, [*gone, *orphans])
        heartbeat_repo.delete_heartbeats(connection, gone)
        attempt_repo.delete_gone(connection, gone)
        return connection.execute(
            sa.delete(_TABLE).where(_TABLE.c.amphora_id.in_(gone))).rowcount
