# SPDX-License-Identifier: Apache-2.0

"""Which lists each amphora may be using."""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member as mem

_TABLE = models.Amphora.__table__
_HEALTH = compat.AMPHORA_HEALTH


@dataclasses.dataclass(frozen=True)
class Unproven:
    """An amphora that acknowledged a list and was not seen to use it yet.

    :param applied_at: when its agent acknowledged, by the database's clock.
    :param last_update: when it was last heard, by Octavia's row, or None;
                        used only as a value that changes.
    :param is_held: whether the failover guard wrote last_update.
    :param is_certain: False while another upload is under way, or may have
                       arrived: then nothing is recorded.
    :param is_named: whether a notification said that it keeps another list.
    """

    amphora_id: str
    doubt: adoption.Doubt
    applied_at: datetime.datetime
    last_update: datetime.datetime | None
    is_held: bool
    is_certain: bool
    is_named: bool = False
    key_digest: str | None = None


def get_unproven(engine, max_age=None, min_age=None, amphora_id=None,
                 limit=None, amphora_ids=None):
    """Return Unproven ones that acknowledged max_age to min_age ago."""
    select = (
        sa.select(_TABLE.c.amphora_id, _TABLE.c.controller_ip_port_list,
                  _TABLE.c.applied_at, _TABLE.c.held_at, _TABLE.c.result,
                  _TABLE.c.claim_owner, _TABLE.c.not_adopted_at,
                  _TABLE.c.key_digest, _HEALTH.c.last_update,
                  types.utcnow().label('now'))
        .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
        .where(_TABLE.c.adopted_at.is_(None),
               _TABLE.c.applied_at.is_not(None)))
    if max_age is not None:
        select = select.where(
            _TABLE.c.applied_at > types.utcnow_plus(-max_age))
    if min_age is not None:
        select = select.where(
            _TABLE.c.applied_at <= types.utcnow_plus(-min_age))
    if amphora_id is not None:
        select = select.where(_TABLE.c.amphora_id == amphora_id)
    if amphora_ids is not None:
        select = select.where(_TABLE.c.amphora_id.in_(amphora_ids))
    with engine.connect() as connection:
        found, previous = previous_repo.execute(connection,
                                                select.limit(limit))
    return [Unproven(
        row.amphora_id, adoption.Doubt(
            addr.split_list(row.controller_ip_port_list),
            previous[row.amphora_id] + (
                # An unfinished upload, which may have arrived.
                () if row.result == upload_result.APPLIED
                else (adoption.Unknown(),)),
            (row.now - row.applied_at).total_seconds()),
        row.applied_at, row.last_update, hold_repo.is_last_update_ours(row),
        row.result == upload_result.APPLIED and row.claim_owner is None,
        row.not_adopted_at is not None, row.key_digest) for row in found]


def get_overdue_page(engine, after, size, min_age):
    """Return a page of amphorae that have been unproven for long.

    :param after: the last (applied_at, id) of the page before, None for the
                  first page.
    :param min_age: seconds; without amphorae that acknowledged later.
    """
    select = (sa.select(_TABLE.c.applied_at, _TABLE.c.amphora_id)
              .where(_TABLE.c.adopted_at.is_(None),
                     _TABLE.c.applied_at <= types.utcnow_plus(-min_age)))
    return rows.read_page(engine, select, after, size)


def judge_page(engine, page, members, settings):
    """Return {amphora id: Adoption} of rows with adopted_at and ``id``."""
    judged = {row.id: adoption.Adoption.ADOPTED for row in page
              if row.adopted_at is not None}
    others = [row.id for row in page if row.id not in judged]
    for ids in rows.split(others):
        judged.update(judge(
            get_unproven(engine, amphora_ids=ids),
            heartbeat_repo.get_heartbeats(engine, amphora_ids=ids), members,
            settings))
    return judged


def judge_all(engine, members, settings):
    """Return {amphora id: Adoption} by the lists that they acknowledged."""
    adopted = rows.read(engine, sa.select(_TABLE.c.amphora_id).where(
        _TABLE.c.adopted_at.is_not(None)))
    return {**{row.amphora_id: adoption.Adoption.ADOPTED for row in adopted},
            **judge(get_unproven(engine),
                    heartbeat_repo.get_heartbeats(engine), members,
                    settings)}


def judge(unproven, heartbeats, members, settings):
    """Return {amphora id: Adoption} by heartbeat.get_heartbeats()."""
    observed = {m.address for m in members if m.is_heard and
                mem.is_listening(m, settings.offline_after)}
    return {row.amphora_id: adoption.judge(
        row.doubt, row.amphora_id in heartbeats, observed,
        settings.heartbeat_timeout) for row in unproven}


@api.transaction
def set_previous(connection, unproven: Unproven, previous):
    """Record which lists it may use, unless it got another list since."""
    if rows.change(connection, _TABLE, _are_still([unproven]), error=''):
        # Back to NULL, as an amphora with APPLIED has no error. The
        # change is needed: at another node of Galera only a changed row
        # stops other transactions.
        rows.change(connection, _TABLE,
                    _TABLE.c.amphora_id == unproven.amphora_id, error=None)
        previous_repo.replace(connection, {},
                              {unproven.amphora_id: previous})


def _are_still(unproven):
    """Return the condition that no upload came, or is coming, in between."""
    return sa.and_(
        _have_still(unproven), _TABLE.c.adopted_at.is_(None),
        _TABLE.c.result == upload_result.APPLIED,
        _TABLE.c.claim_owner.is_(None))


def _have_still(unproven):
    """Return the condition that they acknowledged no other list since."""
    return sa.and_(
        # For the index.
        _TABLE.c.amphora_id.in_([row.amphora_id for row in unproven]),
        sa.tuple_(_TABLE.c.amphora_id, _TABLE.c.applied_at).in_(
            [(row.amphora_id, row.applied_at) for row in unproven]))


def set_not_adopted(engine, unproven):
    """Record that they keep another list; return ids of the new ones."""
    return [amphora_id for part in rows.split(unproven)
            for amphora_id in _set_not_adopted(engine, part)]


@api.transaction
def _set_not_adopted(connection, unproven):
    condition = sa.and_(
        _have_still(unproven), _TABLE.c.adopted_at.is_(None),
        _TABLE.c.not_adopted_at.is_(None))
    # From here on these rows are this call's alone.
    connection.execute(
        sa.update(_TABLE).where(condition)
        .values(amphora_id=_TABLE.c.amphora_id))
    found = connection.execute(
        sa.select(_TABLE.c.amphora_id).where(condition)).scalars().all()
    if found:
        connection.execute(
            sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(found))
            .values(not_adopted_at=types.utcnow()))
    return found


def set_adopted(engine, unproven, address=None):
    """Record that amphorae were seen to use their lists.

    :param unproven: a list of Unproven; an amphora that got another list
                     since, or is recorded already, is skipped.
    :returns: number of recorded amphorae.
    """
    return sum(_set_adopted(engine, part, address)
               for part in rows.split(unproven))


@api.transaction
def _set_adopted(connection, unproven, address):
    def have_changed(row):
        return bool(row.doubt.others and not row.doubt.unknown)

    recorded = 0
    for changed in (True, False):
        alike = [row for row in unproven if have_changed(row) is changed]
        if not alike:
            continue
        values = {'adopted_at': types.utcnow(), 'adopted_via': address,
                  'previous_key_digest': None,
                  'not_adopted_at': None}
        if changed:
            values['has_changed_list'] = True
        recorded += connection.execute(
            sa.update(_TABLE).where(_are_still(alike))
            .values(**values)).rowcount
    if recorded:
        previous_repo.delete_needless(
            connection, [row.amphora_id for row in unproven])
    return recorded
