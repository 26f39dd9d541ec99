# SPDX-License-Identifier: Apache-2.0

"""Drains a health manager: it leaves the list while it still listens."""

import functools
import time

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import heartbeats
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones as zn


def find(engine, host):
    """Return (row, effective Member) of a host, or raise NotPossible."""
    members = {m.host: m for m in hm_repo.get_all(engine)
               if not m.is_further}
    for row in hm_repo.get_rows(engine):
        if row.host == host and host in members:
            return row, members[host]
    known = ', '.join(sorted(members)) or 'none'
    raise exceptions.NotPossible(
        f'There is no health manager {host}. Registered are: {known}.')


def check(engine, host, offline_after):
    """Return its address, or raise NotPossible if it cannot drain."""
    _row, member = find(engine, host)
    if not mem.is_listening(member, offline_after):
        raise exceptions.NotPossible(
            f'Health manager {host} is OFFLINE: there is nothing to drain. '
            f'Its address leaves the list by itself; "octavia-hmsync health '
            f'manager delete {host}" makes it leave now.')
    _check_others(host, generation_repo.get_suspects(engine), offline_after,
                  hm_repo.get_all(engine))
    return member.address


def _check_others(host, found, offline_after, members):
    suspects = trial.get_suspects(found, members)
    others = [m for m in members if m.host != host and
              m.address not in suspects and
              mem.state_of(m, offline_after, float('inf')) is mem.State.ALIVE]
    zones = zn.assign((m.address for m in members), members, {})
    # Its own address may be in another zone than further ones.
    alone = {zones.get(m.address, '') for m in members if m.host == host} - {
        zones.get(m.address, '') for m in others}
    if others and alone:
        zone = min(alone)
        where = f'in zone {zone}' if zone else 'without a zone'
        raise exceptions.NotPossible(
            f'Only health manager {host} is ONLINE {where}: amphorae that '
            f'reach only this one would not be heard any more. '
            f'Start another one {where} first.')
    if not others:
        raise exceptions.NotPossible(
            f'Only health manager {host} is ONLINE and in reach of '
            f'amphorae: without it they would not be heard. Start '
            f'another one first.')


def check_zone(engine, zone, offline_after):
    """Return the hosts of health managers that leave with a compute zone.

    They stay if a zone of Octavia with a management network of its own has
    this name: whether its amphorae reach others is not known.

    :raises NotPossible: if amphorae would not be heard without them.
    """
    if zone in zone_repo.get_all_names(engine):
        return []
    members = [m for m in hm_repo.get_all(engine) if not m.is_further]
    leaving = [m.host for m in members if m.zone == zone and
               mem.is_listening(m, offline_after)]
    suspects = trial.get_suspects(generation_repo.get_suspects(engine),
                                  members)
    if leaving and not any(
            m.zone != zone and m.address not in suspects and
            mem.state_of(m, offline_after, float('inf')) is mem.State.ALIVE
            for m in members):
        raise exceptions.NotPossible(
            f'Only health managers in zone {zone} are ONLINE and in reach of '
            f'amphorae ({", ".join(leaving)}): without them they would not '
            f'be heard. Start another one elsewhere first.')
    return leaving


def begin(engine, host, offline_after):
    """Set it to DRAINING, again or not; NotPossible if it is the last."""
    hm_repo.change_status(
        engine, host, mem.ONLINE, mem.DRAINING, functools.partial(
            _check_others, host, generation_repo.get_suspects(engine),
            offline_after))


class DrainWatch:
    """Finds who sends to draining addresses; .load_balancers are of all."""

    def __init__(self, conf, engine, addresses, clock=time.monotonic):
        self._engine = engine
        self._addresses = addresses
        self._clock = clock
        self.load_balancers: dict[str, str | None] = {}
        self._settings = timing.Settings.from_conf(conf)
        self._watch = heartbeats.HeartbeatWatch()

    def get_senders(self):
        """Return {amphora id: drain.Standing} of present amphorae."""
        rows = amphora_repo.get_rows(self._engine)
        self.load_balancers = {row.id: row.load_balancer_id for row in rows}
        updates = heartbeat_repo.get_last_updates(self._engine)
        self._watch.sample(self._clock(), {
            row.id: updates.get(row.id, heartbeats.NO_NEWS) for row in rows})
        doubts = {row.amphora_id: row.doubt for row in
                  doubt_repo.get_unproven(self._engine)}
        noted = heartbeat_repo.get_heartbeats(self._engine)
        senders = {row.id: self._judge(
            row, doubts.get(row.id), noted.get(row.id, {})) for row in rows}
        return {amphora_id: sender for amphora_id, sender in senders.items()
                if sender is not adoption.Standing.GONE and
                not self._is_silent(amphora_id)}

    def _judge(self, row, doubt, noted):
        listed = (None if row.controller_ip_port_list is None
                  else addr.split_list(row.controller_ip_port_list))
        found = (adoption.judge_sender(address, listed, doubt,
                                       noted.get(address), self._settings)
                 for address in self._addresses)
        return min(found, key=list(adoption.Standing).index)

    def _is_silent(self, amphora_id):
        """Tell whether it is silent everywhere, and so here, too."""
        return (self._watch.silence(amphora_id) >
                self._settings.heartbeat_timeout)
