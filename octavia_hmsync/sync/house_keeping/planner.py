# SPDX-License-Identifier: Apache-2.0

"""Watches the membership and publishes the lists that follow from it."""

import functools
import time

from oslo_log import log as logging

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import models
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import amphora_view as view_repo
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import plan_by_zone
from octavia_hmsync.sync.rules import steadiness
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones as zn

LOG = logging.getLogger(__name__)

# Generations to keep, for looking up what happened.
_KEEP_GENERATIONS = 1000
_PURGE_INTERVAL = 600
# Seconds for which the rows of what is gone are kept: with pods that get a new
# host name at each start the tables would grow.
_OFFLINE_RETENTION = 86400

# UNKNOWN is missing: nothing is known that could be announced.
_KINDS = {
    mem.State.ALIVE: (mem.ONLINE, payloads.HealthManagerUp),
    mem.State.DRAINING: (mem.DRAINING, payloads.HealthManagerDraining),
    mem.State.DEAD: (mem.OFFLINE, payloads.HealthManagerDown),
}


class Planner:
    """Looks at the membership once per run_once().

    :param get_pinned: called for the addresses that the configuration file
                       lists, well-formed.
    :param purge: called without arguments when old rows may be deleted, by
                  the clock of the database.
    :param get_problem: called without arguments; returns why this housekeeper
                        uploads nothing, None if nothing keeps it from that.
    """

    def __init__(self, conf, engine, get_pinned, clock=time.monotonic,
                 notifier=outbox.NOWHERE, measure=None, purge=lambda: None,
                 get_problem=lambda: None):
        self._get_problem = get_problem
        self._problem = None
        self._purge_others = purge
        self._measure = measure or instruments.HouseKeepingInstruments()
        self._conf = conf
        self._engine = engine
        self._get_pinned = get_pinned
        self._clock = clock
        self._steadiness = steadiness.Steadiness()
        self._touched_at = None
        self._purged_at = None
        self._held = None
        self._has_jumped = False
        # Whether keepalives may carry times in the future.
        self._is_future = False
        self._notifier = notifier
        self._announcer = Announcer(engine, notifier)

    def run_once(self):
        """Publish a list if the membership needs it; True if published."""
        with instruments.unknown_if_it_fails(self._measure.plan_held):
            came_of_it = self._run_once(self._conf.hmsync)
        self._measure.on_decision(came_of_it)
        return came_of_it == instruments.PUBLISHED

    def _run_once(self, opts):
        self._keep_alive(opts)
        settings = plan.calm(timing.Settings.from_conf(self._conf),
                             generation_repo.count_since(
                                 self._engine, plan.CALM_PERIOD))
        self._age_future(settings)
        managers = listening_repo.get_health_managers(
            self._engine, settings,
            functools.partial(self._note_look, opts, settings, self._clock()))
        self._report_jump(opts)
        self._announcer.run_once(managers)
        newest = generation_repo.get_newest(self._engine)
        good = generation_repo.get_last_good(self._engine)
        keys = listening_repo.make_keys(self._engine, managers, newest)
        key_digest = self._choose_key(keys, newest)
        last = newest.addresses if newest else ()
        zones = zn.assign(managers.addresses.union(last), managers.members,
                          newest.zones if newest else {},
                          keys.suspects & set(last))
        is_good = newest is not None and newest.status != trial.ROLLED_BACK
        hearing = managers.with_key(key_digest)
        decision = plan.for_key(plan_by_zone.decide(
            hearing, last if is_good else None,
            keys.suspects, good.addresses if good and
            good.key_digest in (None, key_digest) else None, zones),
            last, is_key_new=keys.published not in (None, key_digest))
        if is_good:
            decision = plan.again(decision, last, zn.describe_change(
                newest.zones, plan_by_zone.mark_away(
                    hearing, last, zones, newest.zones)))
        self._report_held(decision.held)
        if managers.is_steady and (
                managers.clock_steady_for > settings.lapses_after):
            self._purge()
        if decision.addresses is None:
            return (instruments.HELD if decision.held
                    else instruments.UNCHANGED)
        number = newest.number + 1 if newest else 1
        slots = subset.assign_slots(newest.slots if newest else {},
                                    decision.addresses)
        zones = plan_by_zone.mark_away(hearing, decision.addresses, zones,
                                       newest.zones if newest else {})
        status = trial.first_status_by_zone(
            good.addresses if good else (), good.zones if good else {},
            decision.addresses, zones,
            managers.with_key(good and good.key_digest), opts.canary_size,
            opts.wave_size, is_key_new=good is not None and
            good.key_digest not in (None, key_digest))
        if not generation_repo.publish(
                self._engine, number, slots, decision.reason,
                self._conf.host, status, key_digest, zones):
            LOG.debug('Another housekeeper published generation %d.', number)
            return instruments.LOST_RACE
        LOG.info('Published generation %d: %s. controller_ip_port_list is '
                 'now %s.', number, decision.reason,
                 addr.join_list(decision.addresses))
        self._notifier.send(payloads.GenerationPublished(
            number, tuple(slots), status, decision.reason, self._conf.host))
        return instruments.PUBLISHED

    def _choose_key(self, keys, newest):
        """Return the digest of the heartbeat key for the next list."""
        chosen = keys.choose()
        if (newest is not None and newest.key_digest is None and
                chosen is not None):
            # From before anybody could tell.
            generation_repo.set_key_digest(self._engine, newest.number,
                                           chosen)
        return chosen

    def _keep_alive(self, opts):
        now = self._clock()
        problem = self._get_problem()
        if (self._touched_at is None or problem != self._problem or
                now - self._touched_at >= opts.keepalive_interval):
            keeper_repo.touch(
                self._engine, self._conf.host, self._get_pinned(),
                heartbeat_key.digest(self._conf.health_manager.heartbeat_key),
                problem)
            self._touched_at, self._problem = now, problem

    def _note_look(self, opts, settings, began, database_time):
        steady_for = self._steadiness.note(
            began, self._clock(), max(2 * opts.poll_interval,
                                      opts.keepalive_interval),
            database_time, settings.clock_tolerance)
        return steady_for, self._steadiness.clock_for

    def _report_jump(self, opts):
        if self._steadiness.jump and not self._has_jumped:
            LOG.warning('The clock of the database went %s by %d s: no health '
                        'manager is taken for dead for the next %d s. Run NTP '
                        'on all nodes of the database, and let it slew their '
                        'clocks.', 'forward' if self._steadiness.jump > 0
                        else 'back', round(abs(self._steadiness.jump)),
                        opts.offline_after)
        self._has_jumped = bool(self._steadiness.jump)
        self._is_future |= self._steadiness.jump < 0

    def _age_future(self, settings):
        # By then every health manager that lives has written.
        if self._is_future and (
                self._steadiness.clock_for > settings.offline_after / 2):
            clocks.age_future(self._engine, models.HealthManager,
                              settings.offline_after)
            clocks.age_future(self._engine, models.HouseKeeper,
                              settings.lapses_after)
            self._is_future = False

    def _report_held(self, held):
        if held != self._held and held:
            # Settling is normal: it follows each health manager that joins.
            level = (logging.INFO if held == plan.SETTLING
                     else logging.WARNING)
            LOG.log(level, 'The controller_ip_port_list is not changed for '
                           'now: %s.', held)
        self._held = held
        self._measure.plan_held.set(held is not None)

    def _purge(self):
        now = self._clock()
        if (self._purged_at is not None and
                now - self._purged_at < _PURGE_INTERVAL):
            return
        self._purged_at = now
        for host in hm_repo.delete_expired(self._engine, _OFFLINE_RETENTION):
            LOG.info('Deleted health manager %s: it has been gone for more '
                     'than %d s.', host, _OFFLINE_RETENTION)
        # These first: a row of theirs may be the last to pin a generation.
        left_repo.delete_expired(self._engine, _OFFLINE_RETENTION)
        keeper_repo.delete_expired(self._engine, _OFFLINE_RETENTION)
        uploader_repo.delete_expired(self._engine, _OFFLINE_RETENTION)
        generation_repo.delete_old(self._engine, _KEEP_GENERATIONS)
        view_repo.delete_old(self._engine)
        self._purge_others()


class Announcer:
    """Notifies once of each health manager that comes, drains or goes.

    A health manager that is killed cannot record its death, as others record
    their news. So the housekeeper that records the new state notifies.

    :param notifier: a notifications.outbox.Outbox. While it is off, nothing
                     is recorded as announced either.
    """

    def __init__(self, engine, notifier):
        self._engine = engine
        self._notifier = notifier

    def run_once(self, managers):
        """Send what has not been announced yet."""
        if not self._notifier.is_on:
            return
        for member in managers.members:
            state = managers.state(member.address)
            if state in _KINDS and not member.is_further:
                self._announce(member, *_KINDS[state])

    def _announce(self, member, status, payload_class):
        told = f'{status} {member.address}'
        if told == member.announced or not hm_repo.set_announced(
                self._engine, member.host, member.announced, told):
            return
        if member.announced is None and status == mem.OFFLINE:
            # It was never announced as up.
            return
        before = (member.announced.split() if member.announced
                  else (None, None))
        self._notifier.send(payload_class(member.host, member.address,
                                          *before))
