# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_previous_list``: which other lists an amphora may use.

Rows change in a transaction that has changed the amphora's own row before,
and not to what it was: on Galera that would keep nobody away.
"""

import collections
import dataclasses

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.sync.rules import adoption

_TABLE = models.PreviousList.__table__
_AMPHORA = models.Amphora.__table__

_COLUMNS = (_TABLE.c.number, _TABLE.c.before_generation,
            _TABLE.c.controller_ip_port_list.label('other'))


@dataclasses.dataclass(frozen=True)
class Claimed:
    """A claimed amphora's lists; rows: {number: list or Unknown}."""

    use: adoption.Use
    rows: dict


def get_all(engine, amphorae):
    """Return which other lists amphorae may be using.

    :param amphorae: rows with the columns of hmsync_amphora, and the id as
                     ``id``.
    :returns: {amphora id: a tuple as adoption.Doubt.previous}, of amphorae
              that acknowledged a list and were not seen to use it yet.
    """
    ids = [row.id for row in amphorae if row.adopted_at is None and
           row.controller_ip_port_list is not None]
    found: dict[str, dict] = collections.defaultdict(dict)
    for part in rows.split(ids):
        for row in rows.read(
                engine, sa.select(_TABLE.c.amphora_id, *_COLUMNS).where(
                    _TABLE.c.amphora_id.in_(part))):
            found[row.amphora_id][row.number] = _to_list(row)
    return {amphora_id: _to_previous(found[amphora_id])
            for amphora_id in ids}


def get_known(engine, amphorae):
    """Return get_all() without adoption.Unknown."""
    return {amphora_id: tuple(p for p in previous
                              if not isinstance(p, adoption.Unknown))
            for amphora_id, previous in get_all(engine, amphorae).items()}


def execute(connection, select):
    """Select amphorae in doubt, and which other lists they may be using.

    :param select: a SELECT of, among others, amphora_id of hmsync_amphora.
    :returns: (rows, {amphora id: a tuple as adoption.Doubt.previous}).
    """
    amphorae, found = _execute(connection, select)
    return amphorae, {row.amphora_id: _to_previous(found[row.amphora_id])
                      for row in amphorae}


def _execute(connection, select):
    amphora = select.subquery()
    amphorae: dict[str, sa.Row] = {}
    found: dict[str, dict] = {}
    for row in connection.execute(
            sa.select(amphora, *_COLUMNS).outerjoin(
                _TABLE, _TABLE.c.amphora_id == amphora.c.amphora_id)):
        amphorae[row.amphora_id] = row
        lists = found.setdefault(row.amphora_id, {})
        if row.number is not None:
            lists[row.number] = _to_list(row)
    return list(amphorae.values()), found


def get_claimed(engine, owner, amphora_ids):
    """Return which lists amphorae that a batch has claimed may be using.

    These do not change until the batch records it or loses its claim.

    :returns: {amphora id: Claimed}, of amphorae that it still has claimed.
    """
    with engine.connect() as connection:
        claimed, found = _execute(
            connection,
            sa.select(_AMPHORA.c.amphora_id,
                      _AMPHORA.c.controller_ip_port_list,
                      _AMPHORA.c.adopted_at, _AMPHORA.c.result,
                      _AMPHORA.c.key_digest)
            .where(_AMPHORA.c.amphora_id.in_(amphora_ids),
                   _AMPHORA.c.claim_owner == owner))
    return {row.amphora_id: Claimed(adoption.Use(
        None if row.controller_ip_port_list is None
        else addr.split_list(row.controller_ip_port_list),
        () if row.adopted_at is not None else _to_previous(
            found[row.amphora_id]),
        row.result == upload_result.APPLIED, row.key_digest),
        found[row.amphora_id])
        for row in claimed}


def _to_list(row):
    return (adoption.Unknown(row.before_generation) if row.other is None
            else addr.split_list(row.other))


def _to_previous(found):
    # Without any row nothing is known of it.
    return tuple(dict.fromkeys(found[number] for number in sorted(found))
                 ) or (adoption.Unknown(),)


def replace(connection, known, previous):
    """Set which other lists amphorae may be using.

    :param known: {amphora id: Claimed.rows}; all rows of other amphorae in
                  previous are deleted.
    """
    delete(connection, [a for a in previous if a not in known])
    gone, new = [], []
    for amphora_id, lists in previous.items():
        old = known.get(amphora_id, {})
        # Delete only rows that must go: mostly a row is added, and a DELETE
        # on MySQL locks gaps in which other batches insert.
        gone += [(amphora_id, number) for number, item in old.items()
                 if item not in lists]
        new += [_to_row(amphora_id, number, item) for number, item in
                enumerate((item for item in lists
                           if item not in old.values()),
                          max(old, default=0) + 1)]
    for keys in rows.split(gone):
        connection.execute(sa.delete(_TABLE).where(
            # For the index.
            _TABLE.c.amphora_id.in_({amphora_id for amphora_id, _ in keys}),
            sa.tuple_(_TABLE.c.amphora_id, _TABLE.c.number).in_(keys)))
    if new:
        connection.execute(sa.insert(_TABLE), new)


def _to_row(amphora_id, number, item):
    is_unknown = isinstance(item, adoption.Unknown)
    return {'amphora_id': amphora_id, 'number': number,
            'controller_ip_port_list':
                None if is_unknown else addr.join_list(item),
            'before_generation': item.before if is_unknown else None}


def delete(connection, amphora_ids):
    """Delete the rows of amphorae."""
    for part in rows.split(amphora_ids):
        connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.amphora_id.in_(part)))


def delete_needless(connection, amphora_ids):
    """Delete rows here, and heartbeats, of amphorae that have adopted."""
    for table in (_TABLE, models.Heartbeat.__table__):
        connection.execute(sa.delete(table).where(
            table.c.amphora_id.in_(amphora_ids),
            table.c.amphora_id.in_(
                sa.select(_AMPHORA.c.amphora_id)
                .where(_AMPHORA.c.adopted_at.is_not(None)))))
