# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_cluster_member``: the amphorae of a cluster.

A change of a member's state, slot or MAC makes a new version of the cluster,
in the same transaction: what distributors are told with one version never
changes.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import turn
from octavia_hmsync.db import types

_TABLE = models.ClusterMember.__table__
_CLUSTER = models.Cluster.__table__

BUILDING = 'BUILDING'
STANDBY = 'STANDBY'
ACTIVE = 'ACTIVE'
DRAINING = 'DRAINING'
FAILED = 'FAILED'

STATES = (BUILDING, STANDBY, ACTIVE, DRAINING, FAILED)

# How a manager judges a member by its probes.
HEALTHY = 'HEALTHY'
SUSPECT = 'SUSPECT'
DEAD = 'DEAD'

# Orders: no new connections; another member in its place.
DRAIN = 'DRAIN'
REPLACE = 'REPLACE'

# In place of a config_digest: the member took a slot in a peer group, but does
# not have the group's stick tables yet. Meanwhile distributors send its
# clients to members of the group that know them. So setting and ending this
# makes a new version of the cluster.
ALONE = 'alone'

# What record() changes.
_DETAILS = frozenset(('health', 'config_digest', 'error', 'zone', 'host',
                      'connections', 'drained_at'))


@dataclasses.dataclass(frozen=True)
class Member:
    """A row; times by the database's clock, UTC.

    Its fields are the columns of ``hmsync_cluster_member``, and now, when it
    was read. updated_at is when its state or slot last changed.
    """

    id: str
    cluster_id: str
    amphora_id: str | None
    slot: int | None
    peer_group: int | None
    state: str
    health: str | None
    config_digest: str | None
    mac: str | None
    error: str | None
    ordered: str | None
    zone: str | None
    connections: int | None
    created_at: datetime.datetime
    updated_at: datetime.datetime
    now: datetime.datetime
    idle_timeout: int = 0
    drained_at: datetime.datetime | None = None
    host: str | None = None

    @property
    def is_configured(self) -> bool:
        """Whether it has the whole configuration of its slot."""
        return self.config_digest not in (None, ALONE)


def select(*conditions):
    """Return the query for members that fulfil all conditions."""
    return sa.select(_TABLE, types.utcnow().label('now')).where(*conditions)


def from_row(row):
    """Return the Member that a row of select() is."""
    return rows.make(Member, row)


def _read(bind, *conditions):
    # Members with a slot come first, by slot.
    return [from_row(row) for row in rows.read(
        bind, select(*conditions).order_by(
            _TABLE.c.cluster_id, _TABLE.c.slot.is_(None), _TABLE.c.slot,
            _TABLE.c.created_at, _TABLE.c.id))]


def get(engine, member_id):
    """Return a Member, or None if there is none with this id."""
    return next(iter(_read(engine, _TABLE.c.id == member_id)), None)


def get_by_amphora(engine, amphora_id):
    """Return the Member of an amphora, or None."""
    return next(iter(_read(engine, _TABLE.c.amphora_id == amphora_id)), None)


def get_of_cluster(engine, cluster_id):
    """Return the Members of a cluster, by slot; those without a slot last."""
    return _read(engine, _TABLE.c.cluster_id == cluster_id)


def get_all(engine):
    """Return all Members, those of a cluster together."""
    return _read(engine)


@api.retry
def add(engine, cluster_id, member_id, size):
    """Add a member to be built, in the first free slot.

    :param member_id: a new id; with a known id nothing changes.
    :param size: number of slots; 0 for a member without a slot, to be a
                 standby or to take over a slot.
    :returns: the Member; None if no slot is free, or the cluster is gone.
    """
    try:
        with engine.begin() as connection:
            if not cluster_repo.touch(connection, cluster_id):
                return None
            slot = None
            if size:
                slot = _find_slot(connection, cluster_id, size)
                if slot is None:
                    connection.rollback()
                    return None
            connection.execute(sa.insert(_TABLE).values(
                id=member_id, cluster_id=cluster_id, state=BUILDING,
                **_place(connection, cluster_id, slot), idle_timeout=0,
                created_at=types.utcnow(), updated_at=types.utcnow()))
            return _read(connection, _TABLE.c.id == member_id)[0]
    except db_exc.DBDuplicateEntry:
        return get(engine, member_id)


def _find_slot(connection, cluster_id, size):
    taken = set(connection.execute(
        sa.select(_TABLE.c.slot).where(_TABLE.c.cluster_id == cluster_id))
        .scalars())
    return next((slot for slot in range(size) if slot not in taken), None)


def _place(connection, cluster_id, slot):
    """Return the columns for the place of a member in a cluster."""
    if slot is None:
        return {'slot': None, 'peer_group': None}
    size = connection.execute(
        sa.select(_CLUSTER.c.peer_group_size)
        .where(_CLUSTER.c.id == cluster_id)).scalar()
    return {'slot': slot, 'peer_group': slot // size}


def _cluster_of(engine, member_id):
    # A member never changes its cluster.
    row = rows.read_one(engine, sa.select(_TABLE.c.cluster_id).where(
        _TABLE.c.id == member_id))
    return row and row.cluster_id


def _at(version):
    """Return the conditions for the version for which a manager decided."""
    return () if version is None else (_CLUSTER.c.version == version,)


def _change(engine, member_id, *conditions, version=None, **values):
    """Change a row, and the version of the cluster.

    :returns: False if the row does not fulfil all conditions, or the cluster
              has another version by now.
    """
    cluster_id = _cluster_of(engine, member_id)
    with engine.begin() as connection:
        if cluster_repo.touch(connection, cluster_id, *_at(version)):
            before = _read(connection, _TABLE.c.id == member_id)
            if _update(connection, member_id, *conditions, **values):
                _tell_change(connection, before[0], values)
                return True
        connection.rollback()
        return False


def _tell_change(connection, before, values):
    """Record the news that a member has another state."""
    new = values.get('state')
    body = {'member_id': before.id, 'amphora_id': before.amphora_id,
            'slot': before.slot}
    if new == ACTIVE and before.state != ACTIVE:
        news_repo.add_of_cluster(
            connection, news_repo.MEMBER_ADDED, before.cluster_id, **body,
            previous_state=before.state)
    elif new == DRAINING and before.state == ACTIVE:
        news_repo.add_of_cluster(
            connection, news_repo.MEMBER_DRAINED, before.cluster_id, **body,
            ordered=before.ordered,
            reason=values.get('error', before.error))


def _update(connection, member_id, *conditions, **values):
    if 'state' in values:
        # Distributors have to be told first.
        values.setdefault('drained_at', None)
    return rows.change(connection, _TABLE, _TABLE.c.id == member_id,
                       *conditions, updated_at=types.utcnow(), **values)


@api.retry
def set_state(engine, member_id, old, new, **details):
    """Change the state of a member.

    :param old: the states that it may have before.
    :param details: changed details, as record() takes them.
    :returns: False if it has another state, is gone, or would be ACTIVE
              without a slot.
    """
    # It may have been unregistered since the caller looked.
    has_place = [_TABLE.c.slot.is_not(None)] if new == ACTIVE else []
    return _change(engine, member_id, _TABLE.c.state.in_(old), *has_place,
                   state=new, **_check_details(details))


def _check_details(details):
    if not _DETAILS.issuperset(details):
        raise TypeError(f'not details of a member: '
                        f'{sorted(set(details) - _DETAILS)}')
    return details


@api.retry
def drain(engine, member_id, version=None):
    """Drain an ACTIVE member: it gets no new connections, and keeps its slot.

    :param version: the version of the cluster for which this was decided;
                    None for any.
    :returns: False if it is not ACTIVE, or the cluster has another version.
    """
    return _change(engine, member_id, _TABLE.c.state == ACTIVE,
                   version=version, state=DRAINING, connections=None)


@api.retry
def resume(engine, member_id, version=None):
    """Make a draining member ACTIVE again, if it has missed no change.

    :param version: see drain().
    :returns: False if it does not drain, has no slot, has an order, may have
              missed a change, or the cluster has another version.
    """
    return _change(
        engine, member_id, _TABLE.c.state == DRAINING,
        _TABLE.c.slot.is_not(None), _TABLE.c.ordered.is_(None),
        _TABLE.c.config_digest.is_not(None), version=version, state=ACTIVE,
        error=None)


@api.retry
def unregister(engine, member_id, error=None, version=None):
    """Set a member to FAILED without a slot, to be deleted.

    :param version: see drain().
    :returns: False if it is so already, or gone, or the cluster has another
              version.
    """
    values = {} if error is None else {'error': error}
    return _change(
        engine, member_id,
        sa.or_(_TABLE.c.state != FAILED, _TABLE.c.slot.is_not(None)),
        version=version, state=FAILED, slot=None, peer_group=None, **values)


def record(engine, member_id, **details):
    """Record details that do not concern distributors.

    :param details: names of _DETAILS; may be None.
    :returns: False if it is gone.
    """
    if not _check_details(details):
        return get(engine, member_id) is not None
    return rows.change(engine, _TABLE, _TABLE.c.id == member_id, **details)


@api.transaction
def raise_idle_timeout(connection, cluster_id, seconds):
    """Raise the seconds for which connections of members may be silent.

    A lower value changes nothing: a haproxy from before a reload keeps its
    timeout for its connections.
    """
    is_less = sa.and_(_TABLE.c.cluster_id == cluster_id,
                      _TABLE.c.idle_timeout < seconds)
    # Distributors get it, too.
    if cluster_repo.touch(connection, cluster_id,
                          sa.exists().where(is_less)):
        connection.execute(sa.update(_TABLE).where(is_less)
                           .values(idle_timeout=seconds))


def record_config(engine, member, digest, **details):
    """Record which configuration a member got together with all others.

    :param member: the Member as it was then.
    :param digest: of the configuration; None if it may have only a part.
    :param details: see record().
    :returns: False, without a change, if it has another slot by now, is gone,
              or is ALONE and so gets a new configuration anyway.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.id == member.id,
        _TABLE.c.slot.is_(None) if member.slot is None
        else _TABLE.c.slot == member.slot,
        sa.or_(_TABLE.c.config_digest.is_(None),
               _TABLE.c.config_digest != ALONE),
        config_digest=digest, **_check_details(details))


@api.retry
def join_group(engine, member_id, digest):
    """Record that a member is no longer ALONE, but shares its stick tables.

    :returns: False if it is not ALONE, or gone.
    """
    return _change(engine, member_id, _TABLE.c.config_digest == ALONE,
                   config_digest=digest, error=None)


@api.transaction
def set_health(connection, member_id, health, error=None):
    """Record how the manager of its cluster judges a member.

    Distributors and health managers record probes with member_probe.record().

    :param health: HEALTHY, SUSPECT or DEAD.
    :param error: why; None leaves the error as it is, or clears it if health
                  is HEALTHY.
    :returns: False if it has that health, or is gone.
    """
    values = {'health': health}
    if error is not None or health == HEALTHY:
        values['error'] = error
    is_set = rows.change(
        connection, _TABLE, _TABLE.c.id == member_id,
        sa.or_(_TABLE.c.health.is_(None), _TABLE.c.health != health),
        **values)
    if is_set and health == DEAD:
        found, = _read(connection, _TABLE.c.id == member_id)
        news_repo.add_of_cluster(
            connection, news_repo.MEMBER_DEAD, found.cluster_id,
            member_id=member_id, amphora_id=found.amphora_id,
            slot=found.slot, reason=found.error)
    return is_set


@api.retry
def set_order(engine, member_id, order):
    """Record an order for a member; its manager carries it out.

    :param order: DRAIN or REPLACE; None takes the order back.
    :returns: False if the member has this order already, or is gone.
    """
    other = (_TABLE.c.ordered.is_not(None) if order is None else
             sa.or_(_TABLE.c.ordered.is_(None), _TABLE.c.ordered != order))
    cluster_id = _cluster_of(engine, member_id)
    with engine.begin() as connection:
        cluster_repo.mark(connection, cluster_id)
        return rows.change(connection, _TABLE, _TABLE.c.id == member_id, other,
                           ordered=order)


@api.retry
def assign_amphora(engine, member_id, amphora_id):
    """Record which amphora is built as a member.

    :returns: False if the member has another amphora or is gone, or the
              amphora is another member's.
    """
    try:
        with engine.begin() as connection:
            return _update(
                connection, member_id,
                sa.or_(_TABLE.c.amphora_id.is_(None),
                       _TABLE.c.amphora_id == amphora_id),
                amphora_id=amphora_id)
    except db_exc.DBDuplicateEntry:
        return False


def unassign_amphora(engine, member_id, amphora_id):
    """Record that its amphora is gone; False if it has another, or is gone."""
    return rows.change(
        engine, _TABLE, _TABLE.c.id == member_id,
        _TABLE.c.amphora_id == amphora_id, amphora_id=None, mac=None,
        updated_at=types.utcnow())


@api.transaction
def choose_zone(connection, cluster_id, member_id, choose):
    """Choose in which compute zone to build a member, and record it.

    :param choose: called with the other Members of the cluster, returns the
                   zone.
    :returns: the zone; None if the member is gone, or has an amphora.
    """
    # A turn: no other process may choose for the cluster meanwhile. Not
    # touch(): distributors do not need to know, so the version stays.
    turn.take(connection, f'zone of {cluster_id}')
    zone = choose([member for member in _read(
        connection, _TABLE.c.cluster_id == cluster_id)
        if member.id != member_id])
    return zone if _update(connection, member_id,
                           _TABLE.c.amphora_id.is_(None),
                           zone=zone) else None


@api.retry
def set_mac(engine, member_id, mac):
    """Record the MAC of its front-end port; False if it has it, or is gone."""
    return _change(engine, member_id,
                   sa.or_(_TABLE.c.mac.is_(None), _TABLE.c.mac != mac),
                   mac=mac)


@api.retry
def take_slot(engine, member_id, slot, version=None, **values):
    """Give a free slot to a member without a slot.

    :param version: see drain().
    :param values: changed state and details.
    :returns: False if the slot is taken, the member has a slot or is gone, or
              the cluster has another version.
    """
    cluster_id = _cluster_of(engine, member_id)
    try:
        with engine.begin() as connection:
            if cluster_repo.touch(connection, cluster_id, *_at(version)):
                before = _read(connection, _TABLE.c.id == member_id)
                if _update(connection, member_id, _TABLE.c.slot.is_(None),
                           **values,
                           **_place(connection, cluster_id, slot)):
                    _tell_change(connection, dataclasses.replace(
                        before[0], slot=slot), values)
                    return True
            connection.rollback()
            return False
    except db_exc.DBDuplicateEntry:
        return False


@api.retry
def take_over_slot(engine, member_id, old_member_id, state=ACTIVE,
                   old_state=DRAINING, version=None, order=None, **details):
    """Give the slot of a member to the member that replaces it.

    In one step: distributors never see the slot empty.

    :param member_id: takes the slot; without a slot before.
    :param old_member_id: loses the slot.
    :param state: new state of the first.
    :param old_state: new state of the second, unless it is FAILED.
    :param version: see drain().
    :param order: REPLACE if the second must not come back.
    :param details: changed details of the first, see record().
    :returns: False if the first has a slot, the second has none, they are of
              different clusters, one is gone, or the cluster has another
              version.
    """
    cluster_id = _cluster_of(engine, member_id)
    ordered = {} if order is None else {'ordered': order}
    with engine.begin() as connection:
        if not cluster_repo.touch(connection, cluster_id, *_at(version)):
            return False
        slot = connection.execute(
            sa.select(_TABLE.c.slot).where(
                _TABLE.c.id == old_member_id,
                _TABLE.c.cluster_id == cluster_id)).scalar()
        if slot is not None and _update(
                connection, old_member_id, _TABLE.c.slot == slot,
                slot=None, peer_group=None, connections=None, state=sa.case(
                    (_TABLE.c.state == FAILED, FAILED),
                    else_=old_state), **ordered) and _update(
                connection, member_id, _TABLE.c.slot.is_(None), state=state,
                **_check_details(details),
                **_place(connection, cluster_id, slot)):
            ids = {each.id: each.amphora_id for each in _read(
                connection, _TABLE.c.id.in_((member_id, old_member_id)))}
            news_repo.add_of_cluster(
                connection, news_repo.MEMBER_REPLACED, cluster_id,
                member_id=old_member_id, amphora_id=ids[old_member_id],
                slot=slot, new_member_id=member_id,
                new_amphora_id=ids[member_id])
            return True
        connection.rollback()
        return False


@api.retry
def release_slot(engine, member_id):
    """Take the slot from a member; return False if it has none, or is gone."""
    return _change(engine, member_id, _TABLE.c.slot.is_not(None), slot=None,
                   peer_group=None)


@api.retry
def delete(engine, member_id):
    """Delete a member; return False if it is ACTIVE, or gone."""
    cluster_id = _cluster_of(engine, member_id)
    with engine.begin() as connection:
        if (cluster_repo.touch(connection, cluster_id) and connection.execute(
                sa.delete(_TABLE).where(
                    _TABLE.c.id == member_id,
                    _TABLE.c.state != ACTIVE)).rowcount):
            probe_repo.delete_of(
                connection,
                models.MemberProbe.__table__.c.member_id == member_id)
            load_repo.delete_of(connection, [member_id])
            return True
        connection.rollback()
        return False
