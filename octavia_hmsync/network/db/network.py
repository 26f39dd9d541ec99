# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_network``: the management network, and its claim.

Neutron has neither unique names nor transactions. So a process claims the row
of a network before it makes, changes or deletes the network.
"""

import dataclasses

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_TABLE = models.Network.__table__
_CLAIMS = claims.Claims(_TABLE, _TABLE.c.name, _TABLE.c.claim_owner)


@dataclasses.dataclass(frozen=True)
class Ids:
    """Neutron's ids of the parts of a management network.

    :param health_manager_security_group_id: of the controllers' ports.
    """

    network_id: str
    subnet_id: str
    amphora_security_group_id: str
    health_manager_security_group_id: str


def get_row(engine, name):
    """Return the row of a network, or None.

    :param name: ``[hmsync_network] network_name``.
    """
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_TABLE).where(_TABLE.c.name == name)).first()


def get_ids(engine, name):
    """Return the Ids of a network, or None if there is no such network.

    :param name: ``[hmsync_network] network_name``.
    """
    row = get_row(engine, name)
    if row is None or row.network_id is None:
        return None
    return Ids(**{field.name: getattr(row, field.name)
                  for field in dataclasses.fields(Ids)})


@api.retry
def claim(engine, name, owner, seconds):
    """Claim a network, which may exist or not, or renew the claim.

    :param name: ``[hmsync_network] network_name``.
    :param owner: a new claim owner, of this call alone.
    :param seconds: after which the claim lapses.
    :returns: None if this call claimed it, otherwise the owner.
    """
    for _attempt in range(2):
        with engine.begin() as connection:
            if _CLAIMS.take(connection, name, owner, seconds):
                return None
            taken = connection.execute(
                sa.select(_TABLE.c.claim_owner)
                .where(_TABLE.c.name == name)).scalar()
        if taken is not None:
            return taken
        try:
            with engine.begin() as connection:
                connection.execute(sa.insert(_TABLE).values(
                    name=name, repairs=0, **_CLAIMS.make(owner, seconds)))
            return None
        except db_exc.DBDuplicateEntry:
            # Another process was faster, and is the owner now.
            continue
    return 'another process'


@api.retry
def claim_unreconciled(engine, name, owner, seconds, interval):
    """Claim a network that no housekeeper has looked at for some time.

    :param name: ``[hmsync_network] network_name``.
    :param owner: a new claim owner, of this call alone.
    :param seconds: after which the claim lapses.
    :param interval: seconds since the last look.
    :returns: True if this call claimed it. The look counts from now.
    """
    with engine.begin() as connection:
        return _CLAIMS.take(
            connection, name, owner, seconds, conditions=(
                _TABLE.c.network_id.is_not(None),
                sa.or_(_TABLE.c.reconciled_at.is_(None),
                       _TABLE.c.reconciled_at <=
                       types.utcnow_plus(-interval))),
            reconciled_at=types.utcnow())


@api.retry
def release(engine, name, owner):
    """Release a claim, and delete the row of a network that was not made."""
    with engine.begin() as connection:
        _CLAIMS.delete(connection, name, owner, _TABLE.c.network_id.is_(None))
        _CLAIMS.release(connection, name, owner)


@api.retry
def record(engine, name, owner, ids, repairs=None):
    """Record the Ids of a network.

    :param name: ``[hmsync_network] network_name``.
    :param owner: the claim owner.
    :param repairs: total number of repairs so far, None for no change. The
                    total, so that a retry does not add any.
    :returns: False if another owner has claimed it.
    """
    values = dataclasses.asdict(ids)
    if repairs is not None:
        values['repairs'] = repairs
    with engine.begin() as connection:
        return _CLAIMS.change(connection, name, owner,
                              ensured_at=types.utcnow(), **values)


@api.retry
def forget(engine, name, owner):
    """Delete the row of a network that was deleted.

    :returns: False if another owner has claimed it.
    """
    with engine.begin() as connection:
        return _CLAIMS.delete(connection, name, owner)
