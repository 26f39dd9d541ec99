# SPDX-License-Identifier: Apache-2.0

"""Recording how attempts at claimed amphorae ended."""

import collections
import dataclasses

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import adoption

_TABLE = models.Amphora.__table__
_GENERATION = models.Generation.__table__


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How an attempt at one amphora ended.

    :param result: one of upload_result.ALL.
    :param error: one line for the operator, None when APPLIED.
    :param retry_after: seconds until the next attempt, None when APPLIED.
    :param uploaded: False if the amphora had this very list already.
    :param is_unanswered: whether no answer came from its address, not even an
                          error.
    """

    amphora_id: str
    result: str
    addresses: tuple
    error: str | None = None
    retry_after: float | None = None
    uploaded: bool = True
    is_unanswered: bool = False
    seconds: float = 0.0


@api.retry
def record(engine, number, owner, outcomes, key_digest=None, uploader=None,
           max_age=0):
    """Record how the attempts of a batch ended, and release the claims.

    :param uploader: name of the uploader; None to record nothing about what
                     it reaches.
    :returns: the ids of the recorded amphorae, a set; without amphorae that
              are deleted, or that another batch took over after the claim
              lapsed.
    """
    ids = {outcome.amphora_id for outcome in outcomes}
    acknowledged = [o.amphora_id for o in outcomes if _is_acknowledged(o)]
    claimed = previous_repo.get_claimed(
        engine, owner, acknowledged) if acknowledged else {}
    try:
        with engine.begin() as connection:
            if _record(connection, number, owner, outcomes, claimed,
                       key_digest) == len(ids):
                _record_reach(connection, number, uploader, outcomes, max_age)
                return ids
            # Roll back: after a commit it would not be known which amphorae
            # still had the claim.
            raise _NotAllClaimed()
    except _NotAllClaimed:
        with engine.begin() as connection:
            ids &= set(connection.execute(
                sa.select(_TABLE.c.amphora_id)
                .where(_TABLE.c.claim_owner == owner).with_for_update()
            ).scalars())
            outcomes = [o for o in outcomes if o.amphora_id in ids]
            _record(connection, number, owner, outcomes, claimed, key_digest)
            _record_reach(connection, number, uploader, outcomes, max_age)
        return ids


class _NotAllClaimed(Exception):
    """Rolls the transaction back."""


def _is_acknowledged(outcome):
    return outcome.result == upload_result.APPLIED and outcome.uploaded


def _record(connection, number, owner, outcomes, claimed, key_digest):
    groups = collections.defaultdict(list)
    previous = {}
    for outcome in outcomes:
        is_other = False
        if _is_acknowledged(outcome):
            use = _get_use(claimed, outcome.amphora_id)
            is_other = not use.is_of(outcome.addresses, key_digest)
            if is_other:
                previous[outcome.amphora_id] = adoption.after_acknowledged(
                    use, outcome.addresses, number, key_digest)
        groups[(outcome.result, outcome.uploaded, is_other)].append(outcome)
    recorded = 0
    for (result, uploaded, is_other), group in groups.items():
        recorded += connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.amphora_id.in_(o.amphora_id for o in group),
                   _TABLE.c.claim_owner == owner)
            # MySQL evaluates SET in order, and some values use the old values
            # of other columns.
            .ordered_values(*_values(number, result, uploaded, is_other,
                                     group, key_digest))).rowcount
    if recorded == len(outcomes):
        # Otherwise the caller rolls back.
        previous_repo.replace(connection, {
            amphora_id: known.rows for amphora_id, known in claimed.items()},
            previous)
    return recorded


def _get_use(claimed, amphora_id):
    if amphora_id in claimed:
        return claimed[amphora_id].use
    # Another batch has it, or it is gone; if not, nothing is known about it.
    return adoption.Use(None, (), is_certain=False)


def _record_reach(connection, number, uploader, outcomes, max_age):
    """Record which amphorae the uploader reached, and when to retry others."""
    if uploader is None:
        return
    times = attempt_repo.record(connection, number, uploader, outcomes,
                                max_age)
    if times:
        if number < _get_newest(connection):
            # A newer list was published meanwhile: try it at once.
            times = dict.fromkeys(times)
        connection.execute(
            sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(times))
            .values(next_attempt_at=_of_each(
                [o for o in outcomes if o.amphora_id in times],
                lambda o: times[o.amphora_id],
                _TABLE.c.next_attempt_at.type)))


def _get_newest(connection):
    # Locked, so that a publication comes before or after this transaction.
    return connection.execute(
        sa.select(_GENERATION.c.number).order_by(_GENERATION.c.number.desc())
        .limit(1).with_for_update(read=True)).scalar() or 0


def _of_each(outcomes, get, type_):
    """Return an expression for a value that differs by amphora.

    So one statement is enough for all amphorae, though each may have its own
    list and its own error.
    """
    values = {outcome.amphora_id: get(outcome) for outcome in outcomes}
    if len(set(values.values())) == 1:
        return sa.literal(next(iter(values.values())), type_)
    return sa.case({amphora_id: sa.literal(value, type_)
                    for amphora_id, value in values.items()},
                   value=_TABLE.c.amphora_id)


def _values(number, result, uploaded, is_other, outcomes, key_digest):
    values, error = [], None
    if uploaded:
        values += [
            (_TABLE.c.attempts, sa.case(
                (_TABLE.c.attempted_generation == number,
                 _TABLE.c.attempts + 1), else_=1)),
            (_TABLE.c.attempted_generation, number)]
    if result == upload_result.APPLIED:
        values += [(_TABLE.c.generation, number),
                   (_TABLE.c.next_attempt_at, None)]
        if uploaded:
            values.append((_TABLE.c.applied_at, types.utcnow()))
        if is_other:
            values += [
                (_TABLE.c.controller_ip_port_list, _of_each(
                    outcomes, lambda o: addr.join_list(o.addresses),
                    _TABLE.c.controller_ip_port_list.type)),
                (_TABLE.c.previous_key_digest, sa.case(
                    (_TABLE.c.key_digest == key_digest,
                     _TABLE.c.previous_key_digest),
                    else_=_TABLE.c.key_digest)),
                (_TABLE.c.key_digest, key_digest),
                (_TABLE.c.adopted_at, None), (_TABLE.c.adopted_via, None),
                (_TABLE.c.not_adopted_at, None)]
    else:
        values.append((_TABLE.c.next_attempt_at, types.utcnow_plus(_of_each(
            outcomes, lambda o: float(o.retry_after), sa.Float()))))
        error = _of_each(outcomes, lambda o: types.storable(o.error),
                         _TABLE.c.error.type)
    return values + [(_TABLE.c.result, result),
                     (_TABLE.c.error, error),
                     (_TABLE.c.claim_owner, None),
                     (_TABLE.c.claim_expires_at, None)]
