# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_attempt``: failed attempts, by uploader and amphora.

Each uploader waits only after its own failures. The earliest time at which any
uploader should try an amphora is in the amphora's own row, for an index.
"""

import collections
import datetime

import sqlalchemy as sa

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.rules import reach

_TABLE = models.Attempt.__table__
_AMPHORA = models.Amphora.__table__
_UPLOADER = models.Uploader.__table__

# After more attempts in vain the amphora may have been down meanwhile: that
# another uploader reaches it now proves nothing about this one.
_FRESH = 2


def get_uploaders(connection):
    """Return all reach.Uploaders, by name."""
    return [reach.Uploader(
        row.name, (row.now - row.keepalive_at).total_seconds(),
        row.reached_at, row.failing_since, row.failures, row.overtaken)
        for row in connection.execute(
            sa.select(_UPLOADER, types.utcnow().label('now'))
            .order_by(_UPLOADER.c.name))]


def _waiting(number, *conditions):
    return sa.select(_TABLE.c.uploader).where(
        _TABLE.c.amphora_id == _AMPHORA.c.amphora_id,
        _TABLE.c.generation == number,
        _TABLE.c.next_attempt_at > types.utcnow(),
        *conditions).correlate(_AMPHORA)


def nobody_waits(number, uploaders):
    """Return the condition for amphorae for which no uploader waits."""
    return ~_waiting(number,
                     _TABLE.c.uploader.in_(list(uploaders))).exists()


def somebody_may_try(number, uploaders):
    """Return the condition for amphorae that one of the uploaders may try."""
    uploaders = list(uploaders)
    waiting = _waiting(number, _TABLE.c.uploader.in_(uploaders))
    return (waiting.with_only_columns(sa.func.count()).scalar_subquery() <
            len(uploaders))


def get_attempts(engine, number, amphora_ids):
    """Return {amphora id: [reach.Attempt]} at the newest generation."""
    attempts = collections.defaultdict(list)
    with engine.connect() as connection:
        for ids in rows.split(list(amphora_ids)):
            for row in connection.execute(sa.select(_TABLE).where(
                    _TABLE.c.amphora_id.in_(ids),
                    _TABLE.c.generation == number)):
                attempts[row.amphora_id].append(reach.Attempt(
                    row.uploader, row.attempts, row.is_unanswered,
                    row.first_tried_at))
    return dict(attempts)


def record(connection, number, name, outcomes, max_age):
    """Record attempts; return {failed amphora: when to retry, None: now}."""
    found = connection.execute(sa.select(_TABLE).where(
        _TABLE.c.amphora_id.in_([o.amphora_id for o in outcomes]))).all()
    tried = [o for o in outcomes if o.uploaded]
    failed = {o.amphora_id: o for o in tried
              if o.result != upload_result.APPLIED}
    reached = {o.amphora_id for o in tried if not o.is_unanswered}
    overtaken = [row for row in found if row.uploader != name and
                 row.amphora_id in reached and row.generation == number and
                 row.is_unanswered]
    _delete(connection, [row for row in found if row in overtaken or
                         row.amphora_id not in failed or
                         row.uploader == name])
    own = {row.amphora_id: row for row in found if row.uploader == name}
    times = _insert_failed(connection, number, name, failed.values(), own)
    if tried:
        _record_uploaders(connection, name, tried, reached, overtaken, own)
    if not failed:
        return {}
    active = {u.name for u in reach.get_active(get_uploaders(connection),
                                               max_age)}
    waits = {amphora_id: {name: at} for amphora_id, at in times.items()}
    for row in found:
        if (row.amphora_id in waits and row.uploader != name and
                row.generation == number and row not in overtaken):
            waits[row.amphora_id][row.uploader] = row.next_attempt_at
    return {amphora_id: reach.next_look(of_each, active)
            for amphora_id, of_each in waits.items()}


def _delete(connection, found):
    """Delete existing rows only: a missing one would lock a gap on MySQL."""
    by_uploader = collections.defaultdict(list)
    for row in found:
        by_uploader[row.uploader].append(row.amphora_id)
    for name, amphora_ids in sorted(by_uploader.items()):
        connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.amphora_id.in_(amphora_ids), _TABLE.c.uploader == name))


def _insert_failed(connection, number, name, failed, own):
    if not failed:
        return {}
    now = connection.execute(sa.select(types.utcnow())).scalar()
    values = []
    for outcome in failed:
        row = own.get(outcome.amphora_id)
        if row is not None and row.generation != number:
            row = None
        values.append({
            'amphora_id': outcome.amphora_id, 'uploader': name,
            'generation': number,
            'attempts': row.attempts + 1 if row else 1,
            'is_unanswered': outcome.is_unanswered and (
                row is None or row.is_unanswered),
            'first_tried_at': row.first_tried_at if row else
            now - datetime.timedelta(seconds=outcome.seconds),
            'next_attempt_at': now + datetime.timedelta(
                seconds=outcome.retry_after)})
    connection.execute(sa.insert(_TABLE), values)
    return {value['amphora_id']: value['next_attempt_at']
            for value in values}


def _record_uploaders(connection, name, tried, reached, overtaken, own):
    """Record which uploaders reach amphorae, in one order for all callers."""
    others = collections.Counter(row.uploader for row in overtaken
                                 if row.attempts <= _FRESH)
    for uploader in sorted({name, *others}):
        if uploader != name:
            rows.change(
                connection, _UPLOADER, _UPLOADER.c.name == uploader,
                overtaken=_UPLOADER.c.overtaken + others[uploader])
        elif reached:
            set_reached(connection, name)
        else:
            _set_failing(connection, name, max(o.seconds for o in tried),
                         sum(o.amphora_id not in own for o in tried))


def set_reached(connection, name):
    """Record that an amphora answered an uploader."""
    rows.change(connection, _UPLOADER, _UPLOADER.c.name == name,
                reached_at=types.utcnow(), failing_since=None, failures=0,
                overtaken=0)


def _set_failing(connection, name, seconds, failures):
    rows.change(
        connection, _UPLOADER, _UPLOADER.c.name == name,
        failing_since=sa.func.coalesce(_UPLOADER.c.failing_since,
                                       types.utcnow_plus(-seconds)),
        failures=_UPLOADER.c.failures + failures)


def look_again(connection, name):
    """Make all amphorae due, except after this uploader's own attempts."""
    tried = sa.select(_TABLE.c.amphora_id).where(
        _TABLE.c.amphora_id == _AMPHORA.c.amphora_id,
        _TABLE.c.uploader == name,
        _TABLE.c.generation == _AMPHORA.c.attempted_generation
    ).correlate(_AMPHORA).exists()
    connection.execute(
        sa.update(_AMPHORA)
        .where(_AMPHORA.c.next_attempt_at.is_not(None), ~tried)
        .values(next_attempt_at=None))


def forget_times(connection):
    """Make all amphorae due now."""
    connection.execute(
        sa.update(_AMPHORA).where(_AMPHORA.c.next_attempt_at.is_not(None))
        .values(next_attempt_at=None))


def forget_older(connection, number):
    """Make amphorae due now that wait after a failure with an older list."""
    connection.execute(
        sa.update(_AMPHORA)
        .where(_AMPHORA.c.next_attempt_at.is_not(None),
               _AMPHORA.c.attempted_generation < number)
        .values(next_attempt_at=None))


def retry_now(connection, amphora_ids=None):
    """End all waits, keep attempts; return ids that an uploader waited for."""
    condition = sa.and_(
        _TABLE.c.next_attempt_at > types.utcnow(),
        sa.true() if amphora_ids is None
        else _TABLE.c.amphora_id.in_(amphora_ids))
    waiting = set(connection.execute(
        sa.select(_TABLE.c.amphora_id).where(condition)).scalars())
    if waiting:
        connection.execute(sa.update(_TABLE).where(condition).values(
            next_attempt_at=types.utcnow()))
    return waiting


def get_waiting(engine):
    """Return the ids of the amphorae for which an uploader waits, a set."""
    return {row.amphora_id for row in rows.read(
        engine, sa.select(_TABLE.c.amphora_id).where(
            _TABLE.c.next_attempt_at > types.utcnow()))}


def forget(connection, name):
    """Delete the failed attempts of an uploader."""
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.uploader == name))


def delete_gone(connection, amphora_ids):
    """Delete the rows of amphorae that are deleted."""
    connection.execute(
        sa.delete(_TABLE).where(_TABLE.c.amphora_id.in_(amphora_ids)))
