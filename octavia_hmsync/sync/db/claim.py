# SPDX-License-Identifier: Apache-2.0

"""Claiming due amphorae, and giving claims back."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import attempt as attempt_repo

_TABLE = models.Amphora.__table__
_ATTEMPT = models.Attempt.__table__
_GENERATION = models.Generation.__table__
_OCTAVIA = compat.AMPHORA
_LOAD_BALANCER = compat.LOAD_BALANCER

# Amphorae in one statement.
_AT_ONCE = 500


@dataclasses.dataclass(frozen=True)
class ClaimedAmphora:
    """A due amphora that a batch works on.

    :param id: the amphora's id.
    :param lb_network_ip: address of its agent.
    :param topology: topology of its load balancer, None if it has none.
    :param role: its role, or None.
    :param addresses: the list that its agent last acknowledged, or None.
    :param result: how the last attempt ended, or None.
    :param attempts: how often the uploader has tried it in vain with the
                     newest generation.
    :param claimed_for: seconds until the claim lapses.
    :param load_balancer_id: id of its load balancer, or None.
    :param has_failed: whether the last attempt that was recorded failed;
                       other than result this outlives a claim that lapsed.
    :param key_digest: digest of the key with which it signs, None if that is
                       not known.
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


# Batches that begin at once go for the same amphorae; one of them gets them,
# and the others look again.
_CLAIM_TRIES = 10


def claim_due(engine, number, owner, limit, expiry, admitted_to=None,
              not_admitted_to=None, uploader=None):
    """Claim amphorae that are behind a generation and may be tried now.

    :param engine: an SQLAlchemy engine.
    :param number: the newest generation.
    :param owner: a new id, of this batch alone, 36 characters at most.
    :param limit: how many at most.
    :param expiry: seconds after which the claim lapses.
    :param admitted_to: only those that were admitted to this generation.
    :param not_admitted_to: only those that were not.
    :param uploader: name of the uploader: not those that it waits for.
    :returns: what was claimed, a list of ClaimedAmphora, empty if none was
              due.
    """
    conditions = _is_due_for(uploader, number, admitted_to, not_admitted_to)
    for _ in range(_CLAIM_TRIES):
        due = _find_due(engine, limit, conditions)
        claimed = _claim(engine, number, owner, due, expiry,
                         uploader) if due else []
        if claimed or not due:
            return claimed
    return []


def _unclaimed():
    return sa.or_(_TABLE.c.claim_expires_at.is_(None),
                  _TABLE.c.claim_expires_at <= types.utcnow())


def _get_ranges(number):
    """Return conditions for those behind that do not wait.

    Each is a range of one index, in which those that wait are not read.
    """
    at_once = _TABLE.c.next_attempt_at.is_(None)
    return (sa.and_(at_once, _TABLE.c.generation.is_(None)),
            sa.and_(at_once, _TABLE.c.generation < number),
            sa.and_(_TABLE.c.next_attempt_at <= types.utcnow(),
                    amphora_repo.behind(number)))


def _may_be_claimed(admitted_to, not_admitted_to):
    return sa.and_(amphora_repo.that_get_lists(), _unclaimed(),
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
    with engine.connect() as connection:
        # Those that failed come last: they are the ones that take long.
        return connection.execute(
            sa.select(_TABLE.c.amphora_id)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .where(*conditions)
            .order_by(sa.case((_TABLE.c.result == upload_result.APPLIED, 0),
                              (_TABLE.c.result.is_(None), 0), else_=1))
            .limit(limit)).scalars().all()


def is_due(engine, number, admitted_to=None, not_admitted_to=None,
           uploader=None):
    """Tell whether claim_due() would find any.

    :param engine: an SQLAlchemy engine.
    :param number: see claim_due().
    :param admitted_to: likewise.
    :param not_admitted_to: likewise.
    :param uploader: likewise.
    """
    condition = _may_be_claimed(admitted_to, not_admitted_to)
    if uploader is not None:
        condition = sa.and_(condition, attempt_repo.nobody_waits(
            number, [uploader]))
    # One by one: MariaDB reads all that are behind for the three together.
    looks = [sa.select(_TABLE.c.amphora_id)
             .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
             .where(part, condition).limit(1).subquery()
             for part in _get_ranges(number)]
    with engine.connect() as connection:
        return connection.execute(sa.union_all(*map(sa.select, looks))
                                  .limit(1)).first() is not None


def count_due(engine, number, admitted_to=None, not_admitted_to=None,
              condition=None):
    """Count the amphorae that could be claimed now.

    :param engine: an SQLAlchemy engine.
    :param number: see claim_due().
    :param admitted_to: likewise.
    :param not_admitted_to: likewise.
    :param condition: called with number for another condition, such as
                      attempt.somebody_may_try().
    :returns: how many amphorae could be claimed now.
    """
    conditions = [_is_due(number, admitted_to, not_admitted_to)]
    if condition is not None:
        conditions.append(condition(number))
    with engine.connect() as connection:
        return connection.execute(
            sa.select(sa.func.count()).select_from(_TABLE)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .where(*conditions)).scalar()


@api.retry
def _claim(engine, number, owner, amphora_ids, expiry, uploader):
    """Claim, and read what was claimed in the same transaction.

    Another connection may lead to another node of Galera, which does not know
    of the claims yet.
    """
    with engine.begin() as connection:
        count = connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.amphora_id.in_(amphora_ids), _unclaimed(),
                   amphora_repo.behind(number))
            .ordered_values(
                # A claim that lapsed: its batch may have uploaded another
                # list before it died, so what was recorded is void.
                (_TABLE.c.result, sa.case(
                    (_TABLE.c.claim_owner.is_not(None), None),
                    else_=_TABLE.c.result)),
                (_TABLE.c.claim_owner, owner),
                (_TABLE.c.claim_expires_at, types.utcnow_plus(expiry)))
        ).rowcount
        claimed = _get_claimed(connection, number, owner,
                               uploader) if count else []
        if len(claimed) < count:
            # Their agents are gone since they were found.
            connection.execute(
                sa.update(_TABLE)
                .where(_TABLE.c.claim_owner == owner,
                       _TABLE.c.amphora_id.not_in([a.id for a in claimed]))
                .values(claim_owner=None, claim_expires_at=None))
    return claimed


def _get_claimed(connection, number, owner, uploader):
    rows = connection.execute(
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
    return [ClaimedAmphora(
        row.id, row.lb_network_ip, row.topology, row.role,
        None if row.controller_ip_port_list is None
        else addr.split_list(row.controller_ip_port_list),
        row.result, row.attempts,
        (row.claim_expires_at - row.now).total_seconds(),
        row.load_balancer_id, row.error is not None, row.key_digest)
        for row in rows]


@api.retry
def release(engine, owner):
    """Give back what a batch claimed and did not finish.

    What their agents have by now is not known, so they have no result.

    :param engine: an SQLAlchemy engine.
    :param owner: the batch.
    """
    _release(engine, _TABLE.c.claim_owner == owner, result=None)


@api.retry
def give_back(engine, owner):
    """Give back what a batch claimed and did not begin with.

    :param engine: an SQLAlchemy engine.
    :param owner: the batch.
    """
    _release(engine, _TABLE.c.claim_owner == owner)


@api.retry
def release_all(engine, prefix):
    """Give back what batches claimed that did not come to their end.

    What their agents have by now is not known, so they have no result.

    :param engine: an SQLAlchemy engine.
    :param prefix: what the owners of these batches begin with.
    :returns: how many amphorae were given back.
    """
    return _release(
        engine, _TABLE.c.claim_owner.startswith(prefix, autoescape=True),
        result=None)


def _release(engine, condition, **values):
    with engine.begin() as connection:
        return connection.execute(
            sa.update(_TABLE).where(condition)
            .values(claim_owner=None, claim_expires_at=None, **values)
        ).rowcount


@api.retry
def retry_now(engine):
    """Have amphorae whose last attempt failed tried now.

    :param engine: an SQLAlchemy engine.
    :returns: how many there are.
    """
    with engine.begin() as connection:
        waiting = set(connection.execute(
            sa.select(_TABLE.c.amphora_id)
            .where(_TABLE.c.next_attempt_at.is_not(None))).scalars())
        attempt_repo.forget_times(connection)
        return len(waiting | attempt_repo.retry_now(connection))


@api.retry
def upload_again(engine, amphora_ids):
    """Have amphorae uploaded to once more, whatever they have.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: their ids; those that a batch works on are left
                        alone.
    :returns: how many there are.
    """
    with engine.begin() as connection:
        return sum(_upload_again(connection, amphora_ids[n:n + _AT_ONCE])
                   for n in range(0, len(amphora_ids), _AT_ONCE))


def _upload_again(connection, amphora_ids):
    attempt_repo.retry_now(connection, amphora_ids)
    return connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.amphora_id.in_(amphora_ids), _unclaimed())
        .values(generation=None, result=None, next_attempt_at=None)).rowcount
