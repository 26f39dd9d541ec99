# SPDX-License-Identifier: Apache-2.0

"""Which lists amphorae may be using, for the failover guard."""

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import exposure

_TABLE = models.Amphora.__table__


def get_all(engine):
    """Return {amphora id: exposure.Sending, or None}; reads all rows."""
    return _get(engine, _select().where(_TABLE.c.applied_at.is_not(None)))


def get_page(engine, after, size):
    """Return a page of get_all(), in the order of the ids."""
    return _get(engine, _select().where(_TABLE.c.amphora_id > after)
                .order_by(_TABLE.c.amphora_id).limit(size))


def get_since(engine, seconds):
    """Return get_all() of amphorae that acknowledged lately."""
    return _get(engine, _select().where(
        _TABLE.c.applied_at > types.utcnow_plus(-seconds)))


def get_without(engine, after, size=None):
    """Return a page of ids of amphorae that never acknowledged a list."""
    return [row.amphora_id for row in rows.read(
        engine, sa.select(_TABLE.c.amphora_id)
        .where(_TABLE.c.applied_at.is_(None), _TABLE.c.amphora_id > after)
        .order_by(_TABLE.c.amphora_id).limit(size))]


def _select():
    return sa.select(_TABLE.c.amphora_id.label('id'),
                     _TABLE.c.controller_ip_port_list,
                     _TABLE.c.adopted_at, _TABLE.c.key_digest,
                     _TABLE.c.previous_key_digest)


def _get(engine, select):
    found = rows.read(engine, select)
    others = previous_repo.get_known(engine, found)
    return {row.id: None if row.controller_ip_port_list is None
            else exposure.Sending(
                addr.split_list(row.controller_ip_port_list),
                others.get(row.id, ()), row.key_digest,
                None if row.adopted_at else row.previous_key_digest)
            for row in found}
