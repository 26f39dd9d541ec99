# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_network``: the management network, and its claim.

Neutron has neither unique names nor transactions. So a process claims the row
of a network before it makes, changes or deletes the network.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.Network.__table__
_CLAIMS = claims.Claims(_TABLE, _TABLE.c.name, _TABLE.c.claim_owner,
                        made=_TABLE.c.network_id)
claim, renew = _CLAIMS.claim, _CLAIMS.hold
release, forget = _CLAIMS.release, _CLAIMS.delete


@dataclasses.dataclass(frozen=True)
class Ids:
    """Neutron's ids of the parts of a management network."""

    network_id: str
    subnet_id: str
    amphora_security_group_id: str
    health_manager_security_group_id: str


def get_row(engine, name):
    """Return the row of a network, or None."""
    return rows.read_one(engine, sa.select(_TABLE).where(
        _TABLE.c.name == name))


def get_ids(engine, name):
    """Return the Ids of a network, or None if there is no such network."""
    row = get_row(engine, name)
    if row is None or row.network_id is None:
        return None
    return rows.make(Ids, row)


def get_owner(engine, name):
    """Return the claim owner of a network, or None."""
    row = get_row(engine, name)
    return row and row.claim_owner


def claim_unreconciled(engine, name, owner, seconds, interval):
    """Claim a network without a look for interval; it counts from now."""
    return _CLAIMS.take(
        engine, name, owner, seconds, conditions=(
            _TABLE.c.network_id.is_not(None),
            sa.or_(_TABLE.c.reconciled_at.is_(None),
                   _TABLE.c.reconciled_at <=
                   types.utcnow_plus(-interval))),
        reconciled_at=types.utcnow())


def record(engine, name, owner, ids, repairs=None):
    """Record the Ids of a network.

    :param repairs: total number of repairs so far, None for no change. The
                    total, so that a retry does not add any.
    :returns: False if another owner has claimed it.
    """
    values = dataclasses.asdict(ids)
    if repairs is not None:
        values['repairs'] = repairs
    return _CLAIMS.change(engine, name, owner,
                          ensured_at=types.utcnow(), **values)
