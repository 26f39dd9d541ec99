# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_generation``: the published lists."""

import dataclasses
import datetime
import json

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones as zn

_TABLE = models.Generation.__table__


@dataclasses.dataclass(frozen=True)
class Generation:
    """A published list.

    :param number: counts up by one with each published list.
    :param slots: slot by address, in the order of the list; see
                  sync.rules.subset.
    :param status: which amphorae may get it, see sync.rules.trial.
    :param wave: how many times amphorae were admitted to it.
    :param key_digest: digest of the heartbeat key that amphorae get with it,
                       None if it does not name one.
    :param zones: zone by address, of addresses with a zone; see
                  sync.rules.zones.
    """

    number: int
    slots: dict
    reason: str
    status: str
    wave: int
    published_at: datetime.datetime
    completed_at: datetime.datetime | None
    key_digest: str | None = None
    zones: dict = dataclasses.field(default_factory=dict)

    @property
    def addresses(self):
        """The published list, a tuple."""
        return tuple(self.slots)

    def slots_for(self, names):
        """Return the slots of addresses that a zone's zones.Names reach."""
        return zn.slots_of(self.slots, self.zones, names)

    def part_for(self, amphora_id, names, length):
        """Return the list of one amphora, a tuple; see zones.part()."""
        return zn.part(amphora_id, self.slots, self.zones, names, length)

    def boot_part(self, key, length):
        """Return the list of new amphorae; see zones.boot_part()."""
        return zn.boot_part(key, self.slots, self.zones, length)

    @property
    def is_on_trial(self):
        """Whether only admitted amphorae get it."""
        return self.status in trial.TRIAL_STATUSES


def _to_generation(row):
    slots = map(int, addr.split_list(row.slots))
    return Generation(
        row.number,
        dict(zip(addr.split_list(row.controller_ip_port_list), slots)),
        row.reason, row.status, row.wave, row.published_at, row.completed_at,
        row.key_digest, json.loads(row.zones) if row.zones else {})


def _find(engine, *conditions):
    row = rows.read_one(engine, sa.select(_TABLE).where(*conditions)
                        .order_by(_TABLE.c.number.desc()).limit(1))
    return None if row is None else _to_generation(row)


def get_newest(engine):
    """Return the newest Generation, or None."""
    return _find(engine)


def get_last_good(engine):
    """Return the newest Generation that is OPEN, or None."""
    return _find(engine, _TABLE.c.status == trial.OPEN)


def is_wanted(engine, number):
    """Tell if amphorae still get it: neither replaced nor rolled back."""
    newest = get_newest(engine)
    if newest is None:
        return False
    if newest.is_on_trial and newest.number == number:
        return True
    good = newest if newest.status == trial.OPEN else get_last_good(engine)
    return good is not None and good.number == number


def find_doubtful(engine, numbers):
    """Find which numbers (or None) are of generations that are not OPEN."""
    numbers = set(numbers) - {None}
    if not numbers:
        return set()
    return {row.number for row in rows.read(
        engine, sa.select(_TABLE.c.number).where(
            _TABLE.c.number.in_(numbers), _TABLE.c.status != trial.OPEN))}


def get_history(engine):
    """Return all generations that are kept, oldest first."""
    return [_to_generation(row) for row in rows.read(
        engine, sa.select(_TABLE).order_by(_TABLE.c.number))]


def count_since(engine, seconds):
    """Return how many generations were published in the last seconds."""
    return rows.read_one(engine, sa.select(sa.func.count()).where(
        _TABLE.c.published_at > types.utcnow_plus(-seconds)))[0]


def _insert(connection, number, slots, reason, status, published_by,
            key_digest, zones):
    connection.execute(sa.insert(_TABLE).values(
        number=number, reason=reason, published_by=published_by,
        controller_ip_port_list=addr.join_list(slots),
        slots=addr.join_list(map(str, slots.values())),
        status=status, wave=0, published_at=types.utcnow(),
        key_digest=key_digest,
        zones=json.dumps(zones, sort_keys=True) if zones else None))
    # All uploaders try a new list at once.
    attempt_repo.forget_times(connection)


@api.retry
def publish(engine, number, slots, reason, published_by,
            status=trial.OPEN, key_digest=None, zones=None):
    """Publish a list, if no other housekeeper was faster.

    :param number: the newest number that the caller has seen, plus one.
    :returns: True if this call published it; False if the number is taken.
    """
    try:
        with engine.begin() as connection:
            _insert(connection, number, slots, reason, status, published_by,
                    key_digest, zones)
    except db_exc.DBDuplicateEntry:
        return False
    return True


def set_key_digest(engine, number, key_digest):
    """Record the key of a list without one; True if this call was first."""
    return rows.change(engine, _TABLE, _TABLE.c.number == number,
                       _TABLE.c.key_digest.is_(None), key_digest=key_digest)


def begin_wave(engine, number, wave, status):
    """Begin the wave after the seen one; True if this call was first."""
    return rows.change(
        engine, _TABLE, _TABLE.c.number == number, _TABLE.c.wave == wave,
        _TABLE.c.status.in_(trial.TRIAL_STATUSES), wave=wave + 1,
        status=status)


@api.transaction
def set_open(connection, number):
    """End a generation's trial: all get it; True if this call was first."""
    is_first = rows.change(
        connection, _TABLE, _TABLE.c.number == number,
        _TABLE.c.status.in_(trial.TRIAL_STATUSES), status=trial.OPEN)
    if is_first:
        attempt_repo.forget_older(connection, number)
    return is_first


@api.retry
def roll_back(engine, number, suspects, good_slots, reason, published_by,
              statuses=trial.TRIAL_STATUSES, good_key_digest=None,
              good_zones=None):
    """Withdraw a generation, and publish a good list in its place.

    :param statuses: which statuses it may have; on trial only, by default.
    :returns: True if this call did it; False if it has another status, or is
              no longer the newest.
    """
    try:
        with engine.begin() as connection:
            if not rows.change(
                    connection, _TABLE, _TABLE.c.number == number,
                    _TABLE.c.status.in_(statuses), status=trial.ROLLED_BACK,
                    suspect_ip_port_list=addr.join_list(suspects),
                    rolled_back_at=types.utcnow()):
                return False
            if good_slots:
                _insert(connection, number + 1, good_slots, reason,
                        trial.OPEN, published_by, good_key_digest,
                        good_zones)
    except db_exc.DBDuplicateEntry:
        return False
    return True


def get_suspects(engine):
    """Return {address that a roll back found at fault: seconds since}."""
    return {address: (row.now - row.rolled_back_at).total_seconds()
            for row in rows.read(
                engine, sa.select(
                    _TABLE.c.suspect_ip_port_list, _TABLE.c.rolled_back_at,
                    types.utcnow().label('now'))
                # The first of these has an index.
                .where(_TABLE.c.rolled_back_at.is_not(None),
                       _TABLE.c.suspect_ip_port_list.is_not(None))
                .order_by(_TABLE.c.number))
            for address in addr.split_list(row.suspect_ip_port_list)}


@dataclasses.dataclass(frozen=True)
class Ages:
    """Seconds since the newest list, and since the last roll back, or None."""

    newest: float | None
    roll_back: float | None


def get_ages(engine):
    row = rows.read_one(engine, sa.select(
        sa.func.max(_TABLE.c.published_at).label('newest'),
        sa.func.max(_TABLE.c.rolled_back_at).label('roll_back'),
        types.utcnow().label('now')))
    return Ages(*(None if at is None else (row.now - at).total_seconds()
                  for at in (row.newest, row.roll_back)))


@api.retry
def clear_suspects(engine):
    """Give suspect addresses another chance, and return them."""
    suspects = list(get_suspects(engine))
    with engine.begin() as connection:
        connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.suspect_ip_port_list.is_not(None))
            .values(suspect_ip_port_list=None))
    return suspects


def set_completed(engine, number):
    """Record that every amphora has it; True if this call was first."""
    return rows.change(
        engine, _TABLE, _TABLE.c.number == number,
        _TABLE.c.completed_at.is_(None), completed_at=types.utcnow())


@api.retry
def delete_old(engine, keep):
    """Delete all but the newest generations and the last good one.

    An older list that is still in use stays in the row of its amphora.
    """
    newest = get_newest(engine)
    if newest is None or newest.number <= keep:
        return
    # Amphorae get the last good list while later ones are on trial. A roll
    # back of it from here on publishes its successor in the same transaction.
    good = get_last_good(engine)
    conditions = [_TABLE.c.number <= newest.number - keep]
    if good is not None:
        conditions.append(_TABLE.c.number != good.number)
    with engine.begin() as connection:
        connection.execute(sa.delete(_TABLE).where(*conditions))
