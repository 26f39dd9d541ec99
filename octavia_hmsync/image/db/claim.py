# SPDX-License-Identifier: Apache-2.0

"""The claims of rows of ``hmsync_image_replacement``.

A row is claimed while it is RUNNING. When a claim lapses, another housekeeper
goes on with the row in its phase.
"""

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import news as news_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import amphora_view as view_repo

_TABLE = models.ImageReplacement.__table__
CLAIMS = claims.Claims(_TABLE, _TABLE.c.id, _TABLE.c.claim_owner,
                       _TABLE.c.state == replace_repo.RUNNING)
renew, release = CLAIMS.hold, CLAIMS.release


@api.retry
def begin(engine, rollout_id, version, chosen, owner, expiry):
    """Begin the replacements that were chosen for a rollout, and claim them.

    Load balancers with an open replacement are skipped.

    :returns: the ids of the replacements that began; None, without a change,
              if the rollout has changed.
    """
    try:
        with engine.begin() as connection:
            if not rollout_repo.take(connection, rollout_id, version):
                return None
            open_ = _get_open_of(connection,
                                 [new.load_balancer_id for new in chosen])
            begun = [new for new in chosen
                     if new.load_balancer_id not in open_]
            for new in begun:
                connection.execute(sa.insert(_TABLE).values(
                    **replace_repo.make_values(new),
                    **CLAIMS.make(owner, expiry),
                    rollout_id=rollout_id, state=replace_repo.RUNNING,
                    attempts=1, started_at=types.utcnow()))
            ids = [new.id for new in begun]
            news_repo.add_replacements(connection, _TABLE.c.id.in_(ids),
                                       is_start=True)
            return ids
    except db_exc.DBDuplicateEntry as e:
        # An operator ordered one of them at the same time.
        raise db_exc.RetryRequest(e)


def _get_open_of(connection, load_balancer_ids):
    found = set()
    for ids in rows.split(load_balancer_ids):
        found.update(connection.execute(sa.select(_TABLE.c.active_key).where(
            _TABLE.c.active_key.in_(ids))).scalars())
    return found


def _may_be_claimed():
    """Return the condition for rows that may begin, or have no owner."""
    return sa.or_(
        sa.and_(_TABLE.c.state == replace_repo.WAITING,
                sa.or_(_TABLE.c.not_before.is_(None),
                       _TABLE.c.not_before <= types.utcnow())),
        sa.and_(_TABLE.c.state == replace_repo.RUNNING,
                CLAIMS.is_free()))


def claim(engine, owner, limit, expiry):
    """Claim replacements that wait, and those with a lapsed claim.

    :returns: a list of Replacement, those with a lapsed claim first; empty if
              there is nothing to claim, or others claim it now.
    """
    # RUNNING first: it may hold the lock of its load balancer.
    ids = [row.id for row in rows.read(
        engine, sa.select(_TABLE.c.id).where(_may_be_claimed())
        .order_by(sa.case((_TABLE.c.state == replace_repo.RUNNING, 0),
                          else_=1), _TABLE.c.created_at, _TABLE.c.id)
        .limit(limit))]
    return _claim(engine, ids, owner, expiry) if ids else []


@api.transaction
def _claim(connection, ids, owner, expiry):
    # One transaction: another connection may lead to another node of Galera.
    claimed = connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.id.in_(ids), _may_be_claimed())
        .values(state=replace_repo.RUNNING, attempts=_TABLE.c.attempts + 1,
                started_at=sa.func.coalesce(_TABLE.c.started_at,
                                            types.utcnow()),
                **CLAIMS.make(owner, expiry))).rowcount
    if not claimed:
        return []
    news_repo.add_replacements(
        connection, _TABLE.c.claim_owner == owner, _TABLE.c.attempts == 1,
        is_start=True)
    return replace_repo.read(
        connection, replace_repo.select(_TABLE.c.claim_owner == owner)
        .order_by(_TABLE.c.created_at, _TABLE.c.id))


def set_phase(engine, replacement_id, owner, expiry, phase, **values):
    """Record the phase that begins, and renew the claim.

    :param values: changed old_amphora_id or new_amphora_id, may be None;
                   reason if it takes its time.
    :returns: False if another owner has claimed it.
    """
    return CLAIMS.hold(engine, replacement_id, owner, expiry,
                       phase=phase, **values)


@api.transaction
def finish(connection, replacement_id, owner, state, reason=None, wait=None):
    """Record how a replacement ended.

    :param state: DONE, FAILED, REFUSED, SKIPPED or CANCELLED.
    :param wait: if SKIPPED, seconds until the next replacement of this load
                 balancer may begin.
    :returns: False if another owner has claimed it.
    """
    rollout_repo.touch(connection, sa.select(_TABLE.c.rollout_id).where(
        CLAIMS.is_of(replacement_id, owner)).scalar_subquery())
    view_repo.delete_of(connection, connection.execute(
        sa.select(_TABLE.c.load_balancer_id).where(
            CLAIMS.is_of(replacement_id, owner))).scalars().all())
    is_ended = CLAIMS.change(
        connection, replacement_id, owner, state=state, reason=reason,
        active_key=None, finished_at=types.utcnow(), **CLAIMS.none,
        not_before=None if wait is None else types.utcnow_plus(wait))
    if is_ended:
        news_repo.add_replacements(connection,
                                   _TABLE.c.id == replacement_id)
    return is_ended
