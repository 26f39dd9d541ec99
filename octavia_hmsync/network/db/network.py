# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_network``: the management network, and who works on it.

Neutron has no unique names and no transactions: whoever makes, changes or
deletes a network claims its row first.
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
    """What Neutron calls the parts of a management network.

    :param network_id: the network.
    :param subnet_id: its subnet.
    :param amphora_security_group_id: the security group of the amphorae.
    :param health_manager_security_group_id: that of the controllers' ports.
    """

    network_id: str
    subnet_id: str
    amphora_security_group_id: str
    health_manager_security_group_id: str


def get_row(engine, name):
    """Return the row of a network, or None.

    :param engine: an SQLAlchemy engine.
    :param name: ``[hmsync_network] network_name``.
    """
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_TABLE).where(_TABLE.c.name == name)).first()


def get_ids(engine, name):
    """Return the Ids of a network, or None if there is no such network.

    :param engine: an SQLAlchemy engine.
    :param name: ``[hmsync_network] network_name``.
    """
    row = get_row(engine, name)
    if row is None or row.network_id is None:
        return None
    return Ids(**{field.name: getattr(row, field.name)
                  for field in dataclasses.fields(Ids)})


@api.retry
def claim(engine, name, owner, seconds):
    """Claim a network, whether it is there or still to be made.

    Again, to go on for as long as that from now.

    :param engine: an SQLAlchemy engine.
    :param name: ``[hmsync_network] network_name``.
    :param owner: who claims it, unique to the call.
    :param seconds: after which anybody else may.
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
            # Somebody else was faster, and is the owner now.
            continue
    return 'somebody else'


@api.retry
def claim_unreconciled(engine, name, owner, seconds, interval):
    """Claim a network that was not looked at for some time.

    :param engine: an SQLAlchemy engine.
    :param name: ``[hmsync_network] network_name``.
    :param owner: who claims it, unique to the call.
    :param seconds: after which anybody else may.
    :param interval: seconds since it was last looked at.
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
    """Give a claim back; the row of a network that was not made goes."""
    with engine.begin() as connection:
        _CLAIMS.delete(connection, name, owner, _TABLE.c.network_id.is_(None))
        _CLAIMS.release(connection, name, owner)


@api.retry
def record(engine, name, owner, ids, repairs=None):
    """Record what a network consists of now.

    :param engine: an SQLAlchemy engine.
    :param name: ``[hmsync_network] network_name``.
    :param owner: who has claimed it.
    :param ids: its Ids.
    :param repairs: how many things were ever put right, None for as many
                    as before. In all, so that doing it again adds none.
    :returns: False if somebody else has claimed it meanwhile.
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

    :returns: False if somebody else has claimed it meanwhile.
    """
    with engine.begin() as connection:
        return _CLAIMS.delete(connection, name, owner)
