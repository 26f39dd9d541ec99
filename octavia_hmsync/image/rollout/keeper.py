# SPDX-License-Identifier: Apache-2.0

"""Judges what the active rollout has done, and chooses what comes next."""

import time

from oslo_log import log as logging

from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.db import order as order_repo
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import reading
from octavia_hmsync.image.rollout import rules
from octavia_hmsync.image.rollout import zone_ends
from octavia_hmsync.image import target

LOG = logging.getLogger(__name__)

# Seconds for which the image of a tag is cached.
_TARGETS_AGE = 30
_DAY = 86400


def purge(conf, engine):
    """Delete rollouts and replacements that ended long ago, and old orders."""
    days = conf[image_conf.GROUP].history_days
    if not days:
        return
    orders = order_repo.delete_old(engine, days * _DAY)
    if orders:
        LOG.info('Deleted %d orders of operators: they were given more than '
                 '%d days ago.', orders, days)
    rollouts, replacements = rollout_repo.delete_ended(engine, days * _DAY)
    if rollouts or replacements:
        LOG.info('Deleted %d rollouts of images and %d replacements of '
                 'amphorae: they ended more than %d days ago.', rollouts,
                 replacements, days)


class RolloutKeeper:
    """Watches finished replacements, and decides which begin."""

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._targets = None
        self._targets_at = 0.0
        # (id of a rollout, its whereabouts.Selection).
        self._selection = None
        # Whether the last decision used a fresh answer of the image service.
        self._are_fresh = False
        # Since when each load balancer has been worse than before.
        self._worse_since: dict[str, float] = {}
        # (id, version) of the active rollout if it waits, see decide().
        self._waiting = None

    def watch(self):
        """Check what was just replaced; return the active Rollout or None."""
        zone_ends.follow(self._conf, self._engine)
        rollout = rollout_repo.get_active(self._engine)
        if rollout is None:
            return None
        watched, heard_ago = aftermath_repo.get_watched(
            self._engine, rollout.id, rollout.settings.watch_time)
        now = self._clock()
        self._worse_since = {
            each.load_balancer_id: self._worse_since.get(
                each.load_balancer_id, now)
            for each in watched if rules.is_worse(each)}
        is_changed = False
        for each in watched:
            problem = rules.find_problem(each, rules.Sight(
                self._conf.health_manager.heartbeat_timeout, heard_ago,
                now - self._worse_since.get(each.load_balancer_id, now)))
            if problem and self._fail(each, problem):
                is_changed = True
        if is_changed:
            # Its version has changed.
            rollout = rollout_repo.get_active(self._engine)
        is_running = (rollout is not None and
                      rollout.state == rollout_repo.RUNNING)
        return rollout if is_running else None

    def _fail(self, watched, problem):
        reason = f'It was done, and then {problem}.'
        is_ours = aftermath_repo.set_failed(
            self._engine, watched.replacement_id, reason)
        if is_ours:
            LOG.warning('Load balancer %s, whose replacement was done, is '
                        'not well: %s. The replacement is FAILED.',
                        watched.load_balancer_id, problem)
        return is_ours

    def decide(self, rollout):
        """Decide what begins now; end a rollout that is complete.

        While nothing may begin, load balancers are read only once after each
        change, to see whether the rollout is complete.

        :returns: a list of (Candidate, whether it is a canary).
        :raises CloudUnavailable: if the image service gives no answer.
        """
        current = reading.read_current(self._engine, rollout)
        limit = limits.get_limit(current)
        if (limit and not limits.why_halted(current) and
                (any(limits.count_places(current)) or
                 self._waiting == (rollout.id, rollout.version))):
            return []
        decision = rules.decide(reading.read_situation(
            self._conf, self._engine, self._get_targets(), rollout,
            self._get_selection(rollout)))
        if decision.state == rollout_repo.DONE and not self._are_fresh:
            # Its tag may have another image, which may be why it was started.
            self._targets = None
            return self.decide(rollout)
        if decision.state == rollout_repo.RUNNING:
            self._waiting = limit and (rollout.id, rollout.version)
            return list(decision.chosen)
        if rollout_repo.end(self._engine, rollout.id, rollout.version,
                            decision.state, decision.reason):
            LOG.info('Rollout %s is %s: %s.', rollout.id, decision.state,
                     decision.reason)
        return []

    def _get_targets(self):
        """Ask the image service now and then; attempts ask for themselves."""
        now = self._clock()
        self._are_fresh = (self._targets is None or
                           now - self._targets_at > _TARGETS_AGE)
        if self._are_fresh:
            self._targets = target.Targets(self._conf)
            self._targets_at = now
            self._selection = None
        return self._targets

    def _get_selection(self, rollout):
        """Return the Selection of a rollout, as old as the targets."""
        key, selection = self._selection or (None, None)
        if key != rollout.id:
            selection = reading.select(self._conf, self._engine,
                                       rollout.settings)
            self._selection = rollout.id, selection
        return selection
