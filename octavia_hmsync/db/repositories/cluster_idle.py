#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""For how long connections through a cluster may be silent.

See octavia_hmsync.cluster.idle, which knows what follows from time-outs.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import cluster as cluster_repo
from octavia_hmsync.db import types

_TABLE = models.Cluster.__table__
_LISTENER = compat.LISTENER


def get(engine):
    """Return what is recorded, and the time-outs of listeners.

    :param engine: an SQLAlchemy engine.
    :returns: {id of a cluster: (seconds or None, rows with timeout_* in
              milliseconds)}.
    """
    found: dict = {}
    with engine.connect() as connection:
        for row in connection.execute(
                sa.select(_TABLE.c.id, _TABLE.c.idle_timeout,
                          _LISTENER.c.id.label('listener_id'),
                          _LISTENER.c.timeout_client_data,
                          _LISTENER.c.timeout_member_data,
                          _LISTENER.c.timeout_member_connect,
                          _LISTENER.c.timeout_tcp_inspect)
                .outerjoin_from(
                    _TABLE, _LISTENER, _LISTENER.c.load_balancer_id ==
                    _TABLE.c.load_balancer_id)):
            listeners = found.setdefault(
                row.id, (row.idle_timeout, []))[1]
            if row.listener_id is not None:
                listeners.append(row)
    return found


@api.retry
def grow(engine, cluster_id, seconds):
    """Record that connections may be silent for longer.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: which.
    :param seconds: for how long at least; where nothing is recorded, nothing
                    is.
    :returns: whether that is more than before.
    """
    with engine.begin() as connection:
        return cluster_repo.touch(
            connection, cluster_id, _TABLE.c.idle_timeout < seconds,
            idle_timeout=seconds, idle_falls_at=None)


@api.retry
def record(engine, cluster_id, recorded, seconds, delay):
    """Record for how long connections may be silent.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: which.
    :param recorded: seconds, as get() has them; nothing is done where that
                     was changed meanwhile.
    :param seconds: for how long.
    :param delay: seconds until a smaller value counts.
    :returns: whether another value counts from now on.
    """
    falls_at = _TABLE.c.idle_falls_at
    is_same = (_TABLE.c.idle_timeout.is_(None) if recorded is None
               else _TABLE.c.idle_timeout == recorded)
    with engine.begin() as connection:
        if recorded is None or seconds > recorded:
            return cluster_repo.touch(connection, cluster_id, is_same,
                                      idle_timeout=seconds,
                                      idle_falls_at=None)
        if seconds < recorded and cluster_repo.touch(
                connection, cluster_id, is_same, falls_at <= types.utcnow(),
                idle_timeout=seconds, idle_falls_at=None):
            return True
        is_next = (falls_at.is_(None) if seconds < recorded
                   else falls_at.is_not(None))
        connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id == cluster_id, is_same, is_next)
            .values(idle_falls_at=types.utcnow_plus(delay)
                    if seconds < recorded else None))
        return False
