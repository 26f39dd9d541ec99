# SPDX-License-Identifier: Apache-2.0

"""Recording what came of the attempts at claimed amphorae."""

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

# Fits a row of MySQL's TEXT in any character set, and a terminal.
_ERROR_LENGTH = 1000


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How an attempt at one amphora ended.

    :param amphora_id: the amphora's id.
    :param result: one of upload_result.ALL.
    :param addresses: the list that was uploaded.
    :param error: one line for the operator, None when APPLIED.
    :param retry_after: seconds until the next attempt, None when APPLIED.
    :param uploaded: False if the amphora had this very list already.
    :param is_unanswered: whether nobody answered at its address, not even
                          with an error.
    :param seconds: how long the attempt took.
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
    """Record how the attempts of a batch ended, and give the claims back.

    :param engine: an SQLAlchemy engine.
    :param number: the generation that was attempted.
    :param owner: the batch that claimed them.
    :param outcomes: a list of Outcome.
    :param key_digest: digest of the heartbeat key that was uploaded.
    :param uploader: name of the uploader; None if nothing is to be known of
                     whom it reaches.
    :param max_age: ``[hmsync] offline_after``, seconds.
    :returns: the ids of those that were recorded, a set; not of one that is
              deleted, or whose claim had lapsed and that another batch took
              over.
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
            # From here on it could not be told which ones they were.
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
    """Undoes what was recorded."""


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
            # MySQL evaluates SET in order, and some of them look at the old
            # values of others.
            .ordered_values(*_values(number, result, uploaded, is_other,
                                     group, key_digest))).rowcount
    if recorded == len(outcomes):
        # Otherwise it is undone.
        previous_repo.replace(connection, {
            amphora_id: known.rows for amphora_id, known in claimed.items()},
            previous)
    return recorded


def _get_use(claimed, amphora_id):
    if amphora_id in claimed:
        return claimed[amphora_id].use
    # Of another batch meanwhile, or gone; if not, nothing is known of it.
    return adoption.Use(None, (), is_certain=False)


def _record_reach(connection, number, uploader, outcomes, max_age):
    """Note whom the uploader reached; what failed waits for the others."""
    if uploader is None:
        return
    times = attempt_repo.record(connection, number, uploader, outcomes,
                                max_age)
    if times:
        if number < _get_newest(connection):
            # A list that was published meanwhile waits for nobody.
            times = dict.fromkeys(times)
        connection.execute(
            sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(times))
            .values(next_attempt_at=_of_each(
                [o for o in outcomes if o.amphora_id in times],
                lambda o: times[o.amphora_id],
                _TABLE.c.next_attempt_at.type)))


def _get_newest(connection):
    # Locked: whoever publishes comes before, or after all of this.
    return connection.execute(
        sa.select(_GENERATION.c.number).order_by(_GENERATION.c.number.desc())
        .limit(1).with_for_update(read=True)).scalar() or 0


def _of_each(outcomes, get, type_):
    """Return an expression for a value that each amphora has its own of.

    One statement for all: with a list of its own for each amphora, and an
    error for each that fails, there would be one for every amphora.
    """
    values = {outcome.amphora_id: get(outcome) for outcome in outcomes}
    if len(set(values.values())) == 1:
        return sa.literal(next(iter(values.values())), type_)
    return sa.case({amphora_id: sa.literal(value, type_)
                    for amphora_id, value in values.items()},
                   value=_TABLE.c.amphora_id)


def storable(text):
    """Make a text that a column of any character set takes.

    Part of it can come from an agent, and one character that MySQL refuses
    would void the whole batch; a terminal may print it as well.
    """
    return ''.join(c if c.isascii() and c.isprintable() else '?'
                   for c in text)[:_ERROR_LENGTH]


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
                (_TABLE.c.previous_ip_port_lists, None),
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
        error = _of_each(outcomes, lambda o: storable(o.error),
                         _TABLE.c.error.type)
    return values + [(_TABLE.c.result, result),
                     (_TABLE.c.error, error),
                     (_TABLE.c.claim_owner, None),
                     (_TABLE.c.claim_expires_at, None)]
