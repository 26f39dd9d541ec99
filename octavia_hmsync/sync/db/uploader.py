# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_uploader``: which uploaders can reach amphorae."""

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import attempt as attempt_repo

_TABLE = models.Uploader.__table__
_AMPHORA = models.Amphora.__table__
_ATTEMPT = models.Attempt.__table__
_OCTAVIA = compat.AMPHORA

# Amphorae to probe: more than one, because one may have died.
_SAMPLE = 3


@api.retry
def touch(engine, name, max_age):
    """Write a keepalive of an uploader.

    After a longer absence it does not wait after failures of other uploaders.
    """
    try:
        with engine.begin() as connection:
            if not _touch(connection, name, _TABLE.c.keepalive_at >=
                          types.utcnow_plus(-max_age)):
                if not _touch(connection, name):
                    connection.execute(sa.insert(_TABLE).values(
                        name=name, failures=0, overtaken=0,
                        keepalive_at=types.utcnow()))
                attempt_repo.look_again(connection, name)
    except db_exc.DBDuplicateEntry:
        # Another process of this service was faster.
        return


def _touch(connection, name, *conditions):
    return rows.change(connection, _TABLE, _TABLE.c.name == name, *conditions,
                       keepalive_at=types.utcnow())


def get_all(engine):
    """Return all reach.Uploaders, by name."""
    with engine.connect() as connection:
        return attempt_repo.get_uploaders(connection)


def get_reachable(engine, name):
    """Return {agent: when it answered others}, not tried in vain here."""
    with engine.connect() as connection:
        in_vain = connection.execute(
            sa.select(_ATTEMPT.c.amphora_id)
            .where(_ATTEMPT.c.uploader == name)).scalars().all()
        found = connection.execute(
            sa.select(_OCTAVIA.c.lb_network_ip, _AMPHORA.c.applied_at)
            .join(_AMPHORA, _AMPHORA.c.amphora_id == _OCTAVIA.c.id)
            .where(amphora_repo.that_get_lists(),
                   _AMPHORA.c.applied_at.is_not(None),
                   _AMPHORA.c.result == upload_result.APPLIED,
                   _AMPHORA.c.amphora_id.not_in(in_vain))
            .order_by(_AMPHORA.c.applied_at.desc()).limit(_SAMPLE)).all()
    return {row.lb_network_ip: row.applied_at for row in found}


@api.transaction
def set_reached(connection, name):
    """Record that an uploader can reach amphorae again.

    If others reached amphorae that it did not, it tries all of them anew.
    """
    overtaken = connection.execute(
        sa.select(_TABLE.c.overtaken).where(_TABLE.c.name == name)
    ).scalar()
    attempt_repo.set_reached(connection, name)
    if overtaken:
        attempt_repo.forget(connection, name)
        attempt_repo.look_again(connection, name)


def set_overtaken(engine, name, number):
    """Record how many others alone reach; a higher number stays."""
    rows.change(engine, _TABLE, _TABLE.c.name == name,
                _TABLE.c.overtaken < number, overtaken=number)


@api.retry
def delete_expired(engine, retention):
    """Delete the rows of uploaders that have been gone for long."""
    expired = [row.name for row in rows.read(
        engine, sa.select(_TABLE.c.name).where(
            _TABLE.c.keepalive_at < types.utcnow_plus(-retention)))]
    if expired:
        with engine.begin() as connection:
            for name in expired:
                attempt_repo.forget(connection, name)
            connection.execute(
                sa.delete(_TABLE).where(_TABLE.c.name.in_(expired)))
