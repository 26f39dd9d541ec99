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

"""Rows of ``hmsync_generation``: the published lists."""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.membership import addresses as addr

_TABLE = models.Generation.__table__


@dataclasses.dataclass(frozen=True)
class Generation:
    """A published list.

    :param number: counts up by one with each published list.
    :param slots: slot by address, a dict in the order of the list; see
                  membership.subset.
    :param reason: why it was published.
    :param published_at: when, by the database's clock, UTC.
    :param completed_at: when the last amphora was at it, or None.
    """

    number: int
    slots: dict
    reason: str
    published_at: datetime.datetime
    completed_at: datetime.datetime | None

    @property
    def addresses(self):
        """The published list, a tuple."""
        return tuple(self.slots)


def get_newest(engine):
    """Return the newest Generation, or None."""
    with engine.connect() as connection:
        row = connection.execute(
            sa.select(_TABLE).order_by(_TABLE.c.number.desc()).limit(1)
        ).first()
    if row is None:
        return None
    slots = map(int, addr.split_list(row.slots))
    return Generation(
        row.number,
        dict(zip(addr.split_list(row.controller_ip_port_list), slots)),
        row.reason, row.published_at, row.completed_at)


@api.retry
def publish(engine, number, slots, reason, published_by):
    """Publish a list, if no other housekeeper was faster.

    :param engine: an SQLAlchemy engine.
    :param number: the newest number that the caller has seen, plus one.
    :param slots: slot by address, a dict in the order of the list.
    :param reason: why.
    :param published_by: ``[DEFAULT] host``.
    :returns: True if this call published it; False if the number is taken.
    """
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                number=number, reason=reason, published_by=published_by,
                controller_ip_port_list=addr.join_list(slots),
                slots=addr.join_list(map(str, slots.values())),
                published_at=types.utcnow()))
    except db_exc.DBDuplicateEntry:
        return False
    return True


@api.retry
def set_completed(engine, number):
    """Record that every amphora is at a generation.

    :returns: True if this call was the first to say so.
    """
    with engine.begin() as connection:
        result = connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.number == number, _TABLE.c.completed_at.is_(None))
            .values(completed_at=types.utcnow()))
        return result.rowcount == 1


@api.retry
def delete_old(engine, keep):
    """Delete all but the newest generations.

    :param engine: an SQLAlchemy engine.
    :param keep: how many to keep.
    """
    newest = get_newest(engine)
    if newest is None or newest.number <= keep:
        return
    with engine.begin() as connection:
        connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.number <= newest.number - keep))
