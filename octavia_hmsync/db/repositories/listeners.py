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
"""Who listens for heartbeats, as the database knows it."""

import math

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.db.repositories import house_keeper as keeper_repo
from octavia_hmsync.membership import listening

_LEFT = models.LeftAddress.__table__


def get_listeners(engine, settings, reader_steady_for=math.inf,
                  key_digest=None):
    """Read who listens where.

    :param engine: an SQLAlchemy engine.
    :param settings: timing.Settings.
    :param reader_steady_for: see listening.Listeners.
    :param key_digest: likewise.
    :returns: listening.Listeners.
    """
    members = hm_repo.get_all(engine)
    pinned = keeper_repo.get_pinned(
        engine, settings.offline_after + settings.removal_delay)
    return listening.Listeners(
        members, pinned, settings,
        get_left_addresses(engine) if pinned else (), reader_steady_for,
        key_digest)


def get_left_addresses(engine):
    """Return the addresses at which health managers had registered.

    :param engine: an SQLAlchemy engine.
    :returns: a list of addresses.
    """
    with engine.connect() as connection:
        return connection.execute(sa.select(_LEFT.c.address)).scalars().all()
