# SPDX-License-Identifier: Apache-2.0

"""Claiming due amphorae, and giving claims back."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import attempt as attempt_repo

_TABLE = models.Amphora.__table__
_ATTEMPT = models.Attempt.__table__

_OCTAVIA = compat.AMPHORA
_LOAD_BALANCER = compat.LOAD_BALANCER


@dataclasses.dataclass(frozen=True)
class ClaimedAmphora:
    """A due amphora that a batch works on.

    :param addresses: the list that its agent last acknowledged, or None.
    :param attempts: failed attempts of this uploader with the newest
                     generation.
    :param claimed_for: seconds until the claim lapses.
    :param has_failed: whether the last recorded attempt failed; unlike result
                       this survives a claim that lapsed.
    """

    id: str
    lb_network_ip: str
    topology: str | None
    role: str | None
    addresses: tuple | None
    result: str | None
    attempts: int
    claimed_for: float
    load_balancer_id: str | None = None
    has_failed: bool = False
    key_digest: str | None = None


# Batches that begin at once try to claim the same amphorae. One of them
# succeeds, and the others look again.
_CLAIM_TRIES = 10


def claim_due(engine, number, owner, limit, expiry, admitted_to=None,
              not_admitted_to=None, uploader=None):
    """Claim amphorae that are behind a generation and may be tried now.

    :param owner: a new id, of this batch alone, 36 characters at most.
    :param admitted_to: see amphora.admitted(), like not_admitted_to.
    """
    conditions = _is_due_for(uploader, number, admitted_to, not_admitted_to)
    for _ in range(_CLAIM_TRIES):
        due = _find_due(engine, limit, conditions)
        claimed = _claim(engine, number, owner, due, expiry,
                         uploader) if due else []
        if claimed or not due:
            return claimed
    return []


def _get_ranges(number):
    """Return conditions for amphorae that are behind and do not wait.

    Each is a range of one index, without the amphorae that wait.
    """
    at_once = _TABLE.c.next_attempt_at.is_(None)
    return (sa.and_(at_once, _TABLE.c.generation.is_(None)),
            sa.and_(at_once, _TABLE.c.generation < number),
            sa.and_(_TABLE.c.next_attempt_at <= types.utcnow(),
                    amphora_repo.behind(number)))


def _may_be_claimed(admitted_to, not_admitted_to):
    return sa.and_(amphora_repo.that_get_lists(), claims.is_free(_TABLE),
                   amphora_repo.admitted(admitted_to, not_admitted_to))


def _is_due(number, admitted_to, not_admitted_to):
    return sa.and_(sa.or_(*_get_ranges(number)),
                   _may_be_claimed(admitted_to, not_admitted_to))


def _is_due_for(uploader, *which):
    conditions = [_is_due(*which)]
    if uploader is not None:
        conditions.append(attempt_repo.nobody_waits(which[0], [uploader]))
    return conditions


def _find_due(engine, limit, conditions):
    # Amphorae that failed come last, because they take long.
    return [row.amphora_id for row in rows.read(
        engine, sa.select(_TABLE.c.amphora_id)
        .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(*conditions)
        .order_by(sa.case((_TABLE.c.result == upload_result.APPLIED, 0),
                          (_TABLE.c.result.is_(None), 0), else_=1))
        .limit(limit))]


def is_due(engine, number, admitted_to=None, not_admitted_to=None,
           uploader=None):
    """Tell whether claim_due() would find any; it has the same parameters."""
    condition = _may_be_claimed(admitted_to, not_admitted_to)
    if uploader is not None:
        condition = sa.and_(condition, attempt_repo.nobody_waits(
            number, [uploader]))
    # Three queries: for one condition MariaDB reads all that are behind.
    looks = [sa.select(_TABLE.c.amphora_id)
             .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
             .where(part, condition).limit(1).subquery()
             for part in _get_ranges(number)]
    return rows.read_one(engine, sa.union_all(
        *map(sa.select, looks)).limit(1)) is not None


def count_due(engine, number, admitted_to=None, not_admitted_to=None,
              condition=None):
    """Count the amphorae that could be claimed now.

    :param number: see claim_due(), like the next two.
    :param condition: called with number for another condition, such as
                      attempt.somebody_may_try().
    """
    conditions = [_is_due(number, admitted_to, not_admitted_to)]
    if condition is not None:
        conditions.append(condition(number))
    return rows.read_one(
        engine, sa.select(sa.func.count()).select_from(_TABLE)
        .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(*conditions))[0]


@api.transaction
def _claim(connection, number, owner, amphora_ids, expiry, uploader):
    # One transaction: another connection may lead to another node of Galera,
    # which does not have the claims yet.
    count = connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.amphora_id.in_(amphora_ids),
               claims.is_free(_TABLE), amphora_repo.behind(number))
        .ordered_values(
            # The batch of a lapsed claim may have uploaded another list
            # before it died, so the recorded result is void.
            (_TABLE.c.result, sa.case(
                (_TABLE.c.claim_owner.is_not(None), None),
                else_=_TABLE.c.result)),
            (_TABLE.c.claim_owner, owner),
            (_TABLE.c.claim_expires_at, types.utcnow_plus(expiry)))
    ).rowcount
    claimed = _get_claimed(connection, number, owner,
                           uploader) if count else []
    if len(claimed) < count:
        # The other amphorae have lost their agents since _find_due().
        connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.claim_owner == owner,
                   _TABLE.c.amphora_id.not_in([a.id for a in claimed]))
            .values(claim_owner=None, claim_expires_at=None))
    return claimed


def _get_claimed(connection, number, owner, uploader):
    found = connection.execute(
        sa.select(_OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip,
                  _LOAD_BALANCER.c.topology, _OCTAVIA.c.role,
                  _TABLE.c.controller_ip_port_list, _TABLE.c.result,
                  sa.func.coalesce(_ATTEMPT.c.attempts, 0).label('attempts'),
                  _TABLE.c.claim_expires_at, _TABLE.c.error,
                  _OCTAVIA.c.load_balancer_id, _TABLE.c.key_digest,
                  types.utcnow().label('now'))
        .join(_TABLE, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .outerjoin(_LOAD_BALANCER,
                   _LOAD_BALANCER.c.id == _OCTAVIA.c.load_balancer_id)
        .outerjoin(_ATTEMPT, sa.and_(
            _ATTEMPT.c.amphora_id == _TABLE.c.amphora_id,
            _ATTEMPT.c.uploader == uploader,
            _ATTEMPT.c.generation == number))
        .where(_TABLE.c.claim_owner == owner,
               amphora_repo.that_get_lists())).all()
    return [rows.make(
        ClaimedAmphora, row,
        addresses=None if row.controller_ip_port_list is None
        else addr.split_list(row.controller_ip_port_list),
        claimed_for=(row.claim_expires_at - row.now).total_seconds(),
        has_failed=row.error is not None) for row in found]


def release(engine, owner):
    """Release the amphorae that a batch claimed and did not finish."""
    # It is not known which list their agents have: leave no result.
    _release(engine, _TABLE.c.claim_owner == owner, result=None)


def give_back(engine, owner):
    """Release the amphorae that a batch claimed and did not upload to."""
    _release(engine, _TABLE.c.claim_owner == owner)


def release_all(engine, prefix):
    """Release amphorae of batches with a prefix; return how many."""
    return _release(
        engine, _TABLE.c.claim_owner.startswith(prefix, autoescape=True),
        result=None)


def _release(engine, condition, **values):
    return rows.write(engine, sa.update(_TABLE).where(condition).values(
        claim_owner=None, claim_expires_at=None, **values))


@api.transaction
def retry_now(connection):
    """Make failed amphorae due now; return how many."""
    waiting = set(connection.execute(
        sa.select(_TABLE.c.amphora_id)
        .where(_TABLE.c.next_attempt_at.is_not(None))).scalars())
    attempt_repo.forget_times(connection)
    return len(waiting | attempt_repo.retry_now(connection))


@api.transaction
def upload_again(connection, amphora_ids):
    """Make amphorae due again unless a batch has them; return how many."""
    return sum(_upload_again(connection, ids)
               for ids in rows.split(amphora_ids))


def _upload_again(connection, amphora_ids):
    attempt_repo.retry_now(connection, amphora_ids)
    return connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.amphora_id.in_(amphora_ids), claims.is_free(_TABLE))
        .values(generation=None, result=None, next_attempt_at=None)).rowcount
