# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_distributor``; the VIPs on them are in distributor_vip."""

import dataclasses
import datetime
import uuid

import sqlalchemy as sa

from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import news
from octavia_hmsync.db import rows
from octavia_hmsync.db import turn
from octavia_hmsync.db import types

_TABLE = models.Distributor.__table__
_VIP = models.DistributorVIP.__table__
_OWN = _TABLE.alias()

ONLINE = 'ONLINE'
OFFLINE = 'OFFLINE'

# Seconds before its end in which a certificate should be renewed.
EXPIRES_SOON = 30 * 86400

# Taken to add a VIP to a distributor, or to delete a distributor.
TURN = 'distributor'


@dataclasses.dataclass(frozen=True)
class Distributor:
    """A row; times by the database's clock, UTC.

    Its fields are the columns of ``hmsync_distributor``; the number of VIPs,
    None if not asked for; and now, when it was read.
    """

    id: str
    name: str
    url: str
    driver: str
    enabled: bool
    status: str
    software_version: str | None
    last_seen: datetime.datetime | None
    vips: int | None
    now: datetime.datetime
    drained: bool = False
    certificate_expires_at: datetime.datetime | None = None

    @property
    def takes_vips(self):
        return self.enabled and not self.drained


def _select(*conditions, counts=True):
    vips = (sa.select(sa.func.count()).select_from(_VIP)
            .where(_VIP.c.distributor_id == _TABLE.c.id).scalar_subquery()
            if counts else sa.null())
    return sa.select(_TABLE, vips.label('vips'),
                     types.utcnow().label('now')).where(*conditions)


def _read(bind, *conditions, counts=True):
    return [rows.make(Distributor, row) for row in rows.read(
        bind, _select(*conditions, counts=counts)
        .order_by(_TABLE.c.name, _TABLE.c.id))]


def get(engine, distributor_id):
    """Return a Distributor, or None if there is none with this id."""
    return next(iter(_read(engine, _TABLE.c.id == distributor_id)), None)


def get_all(engine):
    """Return all Distributors, by name."""
    return _read(engine)


def get_enabled(engine):
    """Return the Distributors that the option names, by name.

    With vips None, because counting costs a row per VIP.
    """
    return _read(engine, _TABLE.c.enabled, counts=False)


@api.retry
def sync(engine, driver, wanted):
    """Bring the rows of a driver in line with the option.

    A distributor that has left the option stays without new VIPs until it has
    none.

    :param wanted: {name: url}.
    :returns: all Distributors of the driver, by name; vips may be None if
              nothing changes.
    """
    with engine.connect() as connection:
        found = _read(connection, _TABLE.c.driver == driver, counts=False)
        if any(row.name not in wanted for row in found):
            found = _read(connection, _TABLE.c.driver == driver)
    if _is_synced(found, wanted):
        return found
    with engine.begin() as connection:
        # No other process adds a VIP to a distributor that this deletes.
        turn.take(connection, TURN)
        _change_rows(connection, driver, wanted)
        return _read(connection, _TABLE.c.driver == driver)


def _make_id(driver, name):
    # The same for every process, and each time that the row is made.
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f'{driver} {name}'))


def _is_synced(found, wanted):
    return (wanted.keys() <= {row.name for row in found} and all(
        row.enabled and row.url == wanted[row.name] if row.name in wanted
        else row.vips and not row.enabled for row in found))


def _change_rows(connection, driver, wanted):
    there = set(connection.execute(
        sa.select(_TABLE.c.name).where(_TABLE.c.driver == driver)).scalars())
    for name, url in wanted.items():
        if name not in there:
            connection.execute(sa.insert(_TABLE).values(
                id=_make_id(driver, name), name=name, url=url,
                driver=driver, enabled=True, status=OFFLINE))
        else:
            connection.execute(
                sa.update(_TABLE)
                .where(_TABLE.c.driver == driver, _TABLE.c.name == name)
                .values(url=url, enabled=True))
    gone = (_TABLE.c.driver == driver, _TABLE.c.name.not_in(list(wanted)))
    without = connection.execute(sa.select(_TABLE.c.id).where(
        *gone, ~sa.exists().where(_VIP.c.distributor_id == _TABLE.c.id))
    ).scalars().all()
    if without:
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.id.in_(without)))
        probe_repo.delete_of(
            connection,
            models.MemberProbe.__table__.c.distributor_id.in_(without))
    connection.execute(sa.update(_TABLE).where(*gone).values(enabled=False))


def choose(engine, driver, number, without=()):
    """Choose the Distributors with the fewest VIPs for another VIP.

    ONLINE distributors come first, then distributors that were never asked.

    :param number: largest number of distributors.
    :param without: ids of distributors to leave out.
    """
    found = _read(
        engine, _TABLE.c.driver == driver, _TABLE.c.enabled,
        ~_TABLE.c.drained, _TABLE.c.id.not_in(list(without)),
        sa.or_(_TABLE.c.status == ONLINE, _TABLE.c.last_seen.is_(None)))
    return sorted(found, key=lambda d: (d.status != ONLINE, d.vips, d.name)
                  )[:number]


@api.transaction
def drain(connection, distributor_id):
    """Drain a distributor: its clusters move to others that answer.

    :returns: False if no other distributor could take the clusters, or it is
              gone, or drained.
    """
    # If two are drained at once, the second drain sees the first.
    turn.take(connection, TURN)
    others = _read(
        connection, _TABLE.c.id != distributor_id, _TABLE.c.enabled,
        ~_TABLE.c.drained, _TABLE.c.status == ONLINE,
        _TABLE.c.driver == sa.select(_OWN.c.driver).where(
            _OWN.c.id == distributor_id).scalar_subquery())
    return bool(others) and rows.change(
        connection, _TABLE, _TABLE.c.id == distributor_id,
        ~_TABLE.c.drained, drained=True)


def resume(engine, distributor_id):
    """Put a distributor back into service; False if not drained, or gone."""
    return rows.change(engine, _TABLE, _TABLE.c.id == distributor_id,
                       _TABLE.c.drained, drained=False)


@api.transaction
def set_status(connection, distributor_id, status, software_version=None,
               expires_at=None):
    """Record whether a distributor answers.

    :param status: ONLINE if it has just answered, or OFFLINE.
    :param software_version: as it reports it; None if not known.
    :param expires_at: when the first of its certificates ends, seconds since
                       the epoch; None if not known.
    :returns: False if it is gone.
    """
    values = {'status': status}
    if status == ONLINE:
        values['last_seen'] = types.utcnow()
    if software_version is not None:
        values['software_version'] = software_version
    if expires_at is not None:
        values['certificate_expires_at'] = datetime.datetime.fromtimestamp(
            expires_at, datetime.timezone.utc).replace(tzinfo=None)
    is_it = _TABLE.c.id == distributor_id
    # Of several processes that see it only one records the news.
    if rows.change(connection, _TABLE, is_it, _TABLE.c.status != status,
                   **values):
        found, = _read(connection, is_it)
        news.add(
            connection, news_repo.DISTRIBUTOR_UP if status == ONLINE
            else news_repo.DISTRIBUTOR_DOWN, distributor=found.name,
            url=found.url, vips=found.vips)
        return True
    return rows.change(connection, _TABLE, is_it, **values)
