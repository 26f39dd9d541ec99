# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_health_manager``: register, touch, say goodbye."""

import dataclasses
import json

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import turn
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync.sync.rules import member as mem

_TABLE = models.HealthManager.__table__


def _select():
    return sa.select(_TABLE, types.utcnow().label('now'))


def _select_counting():
    """Select rows as they count: one of a drained zone is DRAINING."""
    drains = sa.and_(_TABLE.c.status == mem.ONLINE,
                     drain_repo.has_health_manager())
    return sa.select(
        *(column for column in _TABLE.c if column.name != 'status'),
        sa.case((drains, mem.DRAINING), else_=_TABLE.c.status)
        .label('status'),
        drains.label('is_zone_drained'), types.utcnow().label('now'))


def _age(row, column):
    return (row.now - getattr(row, column)).total_seconds()


def _is_held(row, offline_after):
    return (row.status != mem.OFFLINE and not
            mem.is_silent(_age(row, 'keepalive_at'), offline_after))


@api.transaction
def register(connection, host, ip_address, port, instance, offline_after,
             key_digest=None, is_observing=False, plugin_version='',
             configured_key_digest=None, zone=None, start_took=None,
             further=None):
    """Set a host to ONLINE at an address, in place of its earlier address.

    A DRAINING process stays DRAINING: only another process, or the operator,
    ends that.

    :param offline_after: seconds of silence after which another host may take
                          over an address.
    :param is_observing: whether it calls set_heard() when it hears any
                         amphora.
    :param configured_key_digest: digest of the key that its octavia.conf has
                                  by now.
    :param start_took: seconds for which this process has been starting, None
                       if that is not known.
    :param further: {network: its IP address there}, of further networks;
                    see find_taken().
    :raises AddressConflict: if another health manager that is alive holds
                             the address.
    """
    address = addr.format_address(ip_address, port)
    further = further or {}
    # Write first: under load SQLite cannot turn a read transaction into a
    # write transaction.
    rows.change(connection, _TABLE, _TABLE.c.host == host, host=host)
    found = connection.execute(_select().where(sa.or_(
        _TABLE.c.host == host,
        sa.and_(_TABLE.c.ip_address == ip_address,
                _TABLE.c.port == port)))).all()
    own = next((row for row in found if row.host == host), None)
    other = next((row for row in found if row.host != host), None)
    if other is not None:
        if _is_held(other, offline_after):
            raise _conflict(address, other.host)
        connection.execute(
            sa.delete(_TABLE).where(_TABLE.c.host == other.host,
                                    _TABLE.c.ip_address == ip_address,
                                    _TABLE.c.port == port))
    is_draining = (own is not None and own.instance == instance and
                   own.status == mem.DRAINING)
    is_same = (own is not None and own.instance == instance and
               (own.ip_address, own.port) == (ip_address, port))
    values = {'ip_address': ip_address, 'port': port,
              'is_observing': is_observing,
              'heard_at': own.heard_at if own and is_same else None,
              'instance': instance,
              'status': mem.DRAINING if is_draining else mem.ONLINE,
              'key_digest': key_digest,
              'configured_key_digest': configured_key_digest,
              'plugin_version': plugin_version,
              'zone': zone,
              'further_addresses': json.dumps(further, sort_keys=True)
              if further else None,
              'starting_at': None,
              'online_since': types.utcnow(),
              'keepalive_at': types.utcnow()}
    if own is None or own.instance != instance:
        values['restart_took'] = _find_restart_took(
            own if other is None else other, address, start_took)
    try:
        if own is None:
            connection.execute(
                sa.insert(_TABLE).values(host=host, **values))
        else:
            rows.change(connection, _TABLE, _TABLE.c.host == host,
                        **values)
    except db_exc.DBDuplicateEntry:
        raise _conflict(address, 'another health manager') from None
    addresses = [address, *(addr.format_address(ip, port)
                            for ip in further.values())]
    for each in addresses:
        left_repo.remove(connection, each)
    for each in _addresses(own) if own else ():
        if each not in addresses:
            left_repo.add(connection, each)


def _find_restart_took(before, address, start_took):
    """Return the seconds of a restart, by the earlier row, or None."""
    if before is not None and before.status == mem.OFFLINE and (
            _address(before) == address):
        took = _age(before, 'keepalive_at')
        if took >= 0:
            return took
    if start_took is None and before is not None:
        return before.restart_took
    return start_took


def _address(row):
    return addr.format_address(row.ip_address, row.port)


def get_further(row):
    """Return {network: address} of a row, of its further networks."""
    return {network: addr.format_address(ip, row.port) for network, ip in
            json.loads(row.further_addresses or '{}').items()}


def _addresses(row):
    return [_address(row), *get_further(row).values()]


def _conflict(address, holder):
    return exceptions.AddressConflict(
        f'{address} is already registered by {holder}, which is alive: two '
        f'health managers cannot share an address. Correct [health_manager] '
        f'bind_ip and bind_port on one of them.')


def _change(engine, host, instance, *conditions, **values):
    return rows.change(engine, _TABLE, _TABLE.c.host == host,
                       _TABLE.c.instance == instance, *conditions, **values)


def find_taken(engine, host, further, port, offline_after):
    """Find further addresses that other living health managers hold.

    :param further: as of register().
    :returns: {network: host that holds the address}.
    """
    return {network: row.host for row in get_rows(engine)
            if row.host != host and _is_held(row, offline_after)
            for network, ip in further.items()
            if addr.format_address(ip, port) in _addresses(row)}


def touch(engine, host, instance, ip_address, port, offline_after,
          configured_key_digest=None):
    """Write a keepalive; False if this process has to register()."""
    return _change(
        engine, host, instance, _TABLE.c.ip_address == ip_address,
        _TABLE.c.port == port, _TABLE.c.status != mem.OFFLINE,
        # After a longer silence others took it for dead, so it registers
        # anew. The condition is part of this statement because the statement
        # may hang.
        _TABLE.c.keepalive_at.between(types.utcnow_plus(-offline_after),
                                      types.utcnow_plus(offline_after)),
        keepalive_at=types.utcnow(),
        configured_key_digest=configured_key_digest)


def set_starting(engine, host, instance):
    """Record that a new process of a known health manager starts.

    The health manager keeps its place in the list meanwhile.

    :returns: True if another process of it had registered.
    """
    return rows.change(engine, _TABLE, _TABLE.c.host == host,
                       _TABLE.c.instance != instance,
                       starting_at=types.utcnow())


def set_offline(engine, host, instance):
    """Set a health manager to OFFLINE; True if the row was its own."""
    return _change(engine, host, instance, status=mem.OFFLINE,
                   keepalive_at=types.utcnow())


@api.transaction
def change_status(connection, host, old, new, check=None):
    """Drain or resume a health manager.

    :param check: called with all Members as they are then, while no other
                  process can change them; if it raises, nothing changes.
    :returns: True if it had the old status.
    """
    if check:
        # On Galera the row locks below hold at one node only.
        turn.take(connection, 'health manager status')
    was_changed = rows.change(connection, _TABLE, _TABLE.c.host == host,
                              _TABLE.c.status == old, status=new)
    if was_changed and check:
        check(_to_members(connection.execute(
            _select_counting().order_by(_TABLE.c.host)
            .with_for_update()).all()))
    return was_changed


@api.transaction
def delete(connection, host, keepalive_at):
    """Delete a row without a new keepalive; True if it was deleted."""
    is_it = (_TABLE.c.host == host, _TABLE.c.keepalive_at == keepalive_at)
    # From here on the row is this call's alone.
    if not rows.change(connection, _TABLE, *is_it, host=host):
        return False
    row = connection.execute(sa.select(_TABLE).where(*is_it)).one()
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.host == host))
    for address in _addresses(row):
        left_repo.add(connection, address)
    return True


def set_heard(engine, host, instance):
    """Record that heartbeats arrive; True if that was not recorded."""
    return _change(engine, host, instance, _TABLE.c.heard_at.is_(None),
                   heard_at=types.utcnow())


def set_late(engine, host, instance):
    """Record that Octavia ignores heartbeats, as they have waited."""
    _change(engine, host, instance, late_at=types.utcnow())


def set_announced(engine, host, old, new):
    """Record the next notification of a health manager.

    :param old: what the last notification said, as the caller has seen; may
                be None.
    :returns: True if the caller has to send it; False if another process was
              faster.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.host == host,
        _TABLE.c.announced.is_not_distinct_from(old), announced=new)


def find_usurper(engine, host, instance, offline_after):
    """Return the address of another living process of the host, or None."""
    row = rows.read_one(engine, _select().where(
        _TABLE.c.host == host, _TABLE.c.instance != instance))
    if row is None or not _is_held(row, offline_after):
        return None
    return _address(row)


def find(engine, host, instance):
    """Return a process's Member, None if the row is another one's."""
    return find_all(engine, host, instance)[0]


def find_all(engine, host, instance):
    """Return (Member as find(), the list of its further addresses)."""
    row = rows.read_one(engine, _select_counting().where(
        _TABLE.c.host == host, _TABLE.c.instance == instance))
    if row is None:
        return None, []
    return _to_member(row), list(get_further(row).values())


def get_all(engine):
    """Return the Members of all registered health managers, by host.

    After them those of their further addresses.
    """
    return get_all_at(engine)[0]


def get_all_at(engine):
    """Return (Members by host, the database's time or None without any)."""
    found = get_rows(engine)
    return _to_members(found), found[0].now if found else None


def _to_members(found):
    members = [_to_member(row) for row in found]
    known = {m.address for m in members}
    # Of two with one address the last to write counts.
    for row, member in sorted(zip(found, members), key=lambda pair: (
            pair[1].status == mem.OFFLINE, pair[1].keepalive_age)):
        for network, address in get_further(row).items():
            if address not in known:
                known.add(address)
                members.append(dataclasses.replace(
                    member, address=address, zone=network, is_further=True))
    return members


def _to_member(row):
    return rows.make(
        mem.Member, row, address=_address(row), is_further=False,
        keepalive_age=_age(row, 'keepalive_at'),
        online_for=_age(row, 'online_since'),
        is_heard=row.heard_at is not None if row.is_observing else None,
        starting_age=None if row.starting_at is None
        else _age(row, 'starting_at'),
        late_age=None if row.late_at is None else _age(row, 'late_at'),
        is_zone_drained=bool(row.is_zone_drained))


def get_key_digests(engine, offline_after):
    """Return digests of keys by host, of health managers that are up."""
    return {row.host: row.key_digest for row in get_rows(engine)
            if _is_held(row, offline_after)}


def get_outdated(engine, offline_after):
    """Find health managers whose key is not that of their octavia.conf."""
    return [row.host for row in get_rows(engine)
            if _is_held(row, offline_after) and row.configured_key_digest and
            row.configured_key_digest != row.key_digest]


def get_plugin_versions(engine, offline_after):
    """Return the plugin's releases by host, of health managers that are up."""
    return {row.host: row.plugin_version for row in get_rows(engine)
            if _is_held(row, offline_after)}


def get_rows(engine):
    """Return all rows, each with the database's time as ``now``."""
    return rows.read(engine, _select_counting().order_by(_TABLE.c.host))


def delete_expired(engine, retention):
    """Delete health managers gone for long; return their hosts."""
    hosts = []
    for row in get_rows(engine):
        if _age(row, 'keepalive_at') <= retention:
            continue
        if delete(engine, row.host, row.keepalive_at):
            hosts.append(row.host)
    return hosts
