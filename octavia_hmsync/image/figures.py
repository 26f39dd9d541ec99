# SPDX-License-Identifier: Apache-2.0

"""Figures of image upgrades for Prometheus.

Every housekeeper serves the same figures. All are gauges, even those of ended
replacements: rows may be deleted, and a counter must not fall.
"""

import collections

from oslo_log import log as logging

from octavia_hmsync import exceptions
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import figures as figures_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image import phases
from octavia_hmsync.image import target
from octavia_hmsync.metrics import reading

LOG = logging.getLogger(__name__)

# Seconds between two surveys: each asks the image service once for each tag.
INTERVAL = 600

READY = 'READY'
PENDING = 'PENDING'
BLOCKED = 'BLOCKED'
EXCLUDED = 'EXCLUDED'

STATES = (READY, PENDING, BLOCKED, EXCLUDED)

# The phase of a replacement that has not begun.
NONE = 'NONE'

_STATES = (replace_repo.WAITING, replace_repo.RUNNING, replace_repo.DONE,
           replace_repo.FAILED, replace_repo.SKIPPED, replace_repo.REFUSED,
           replace_repo.CANCELLED)
_ROLLOUT_STATES = (rollout_repo.RUNNING, rollout_repo.PAUSED,
                   rollout_repo.CANCELLED, rollout_repo.HALTED,
                   rollout_repo.DONE)
# In a rollout no replacement waits.
_STATES_OF_ROLLOUT = (replace_repo.RUNNING, replace_repo.DONE,
                      replace_repo.FAILED, replace_repo.SKIPPED,
                      replace_repo.REFUSED, replace_repo.CANCELLED)


class Figures:
    """Reads figures from the database, in six statements at most."""

    def __init__(self, engine):
        self._engine = engine

    def read(self):
        """Return the figures, a list of metrics."""
        return [*self._all(), *self._open(), *self._rollout()]

    def _all(self):
        states, retaken = figures_repo.count(self._engine)
        return [
            reading.gauge_by(
                'state', 'image_replacements', 'Replacements of the amphorae '
                'of a load balancer.', {**dict.fromkeys(_STATES, 0),
                                        **states}),
            reading.gauge(
                'image_retaken_replacements', 'Replacements that were taken '
                'up more than once, because their first owner died.',
                retaken),
            reading.gauge(
                'image_last_failure_age_seconds', 'Seconds since a '
                'replacement failed.',
                figures_repo.get_last_failure_age(self._engine))]

    def _open(self):
        kinds = figures_repo.get_open(self._engine)
        running = dict.fromkeys((NONE, *map(str, phases.Phase)), 0)
        running.update((kind.phase or NONE, kind.number) for kind in kinds
                       if kind.state == replace_repo.RUNNING)
        return [
            reading.gauge_by('phase', 'image_replacements_running',
                             'Replacements that run, by how far they have '
                             'come.', running),
            reading.gauge_by(
                'state', 'image_oldest_replacement_age_seconds', 'For how '
                'long the replacement that has not ended for longest waits, '
                'or runs; 0 for none.',
                {state: max((kind.oldest for kind in kinds
                             if kind.state == state), default=0)
                 for state in replace_repo.OPEN_STATES}),
            reading.gauge(
                'image_abandoned_locks', 'Load balancers that are locked by '
                'a replacement without an owner.',
                sum(kind.unclaimed for kind in kinds
                    if kind.state == replace_repo.RUNNING and
                    phases.has_lock(kind.phase)))]

    def _rollout(self):
        rollout = rollout_repo.get_last(self._engine)
        counts = {} if rollout is None else replace_repo.count_states(
            self._engine, [rollout.id])[rollout.id]
        return [
            reading.gauge_by(
                'state', 'image_rollout_state', 'State of the newest '
                'rollout: 1 if this is the state.',
                {state: int(rollout is not None and rollout.state == state)
                 for state in _ROLLOUT_STATES}),
            reading.gauge(
                'image_rollout_state_age_seconds', 'Seconds since the newest '
                'rollout came into its state.', rollout and
                (rollout.now - rollout.updated_at).total_seconds()),
            reading.gauge_by(
                'state', 'image_rollout_replacements', 'Replacements of the '
                'newest rollout.',
                {state: counts.get(state, 0)
                 for state in _STATES_OF_ROLLOUT})]


class Survey:
    """Counts outdated load balancers, in a constant number of statements.

    Only the image service knows the newest image. It is asked once for each
    tag, and much less often than the database is read. If it does not answer,
    all other figures are still served.
    """

    def __init__(self, conf, engine, measure):
        self._conf = conf
        self._engine = engine
        self._measure = measure
        self._problem = None

    def run_once(self):
        """Update the figures; unknown ones are not served.

        If the image service does not answer, one WARNING is logged.
        """
        try:
            counts = self._count()
        except exceptions.CloudUnavailable as e:
            self._measure.on_survey({}, {})
            self._note(str(e))
        except Exception:
            self._measure.on_survey({}, {})
            raise
        else:
            self._measure.on_survey(*counts)
            self._note(None)

    def _count(self):
        targets = target.Targets(self._conf)
        excluded = outdated.Exclusions(
            exclusion_repo.get_all(self._engine),
            exclusion_repo.get_tagged(self._engine))
        verdicts = collections.Counter(dict.fromkeys(outdated.Outdated, 0))
        states = collections.Counter(dict.fromkeys(STATES, 0))
        for load_balancer in inventory.Inventory(
                self._conf, self._engine).get_page():
            image_id = targets.get(load_balancer.tag).image_id
            verdict = outdated.judge(load_balancer, image_id)
            verdicts[verdict] += 1
            if verdict in outdated.TO_REPLACE:
                states[EXCLUDED if excluded.find(load_balancer)
                       else _get_state(load_balancer, image_id)] += 1
        return {str(verdict): number for verdict, number in
                verdicts.items()}, dict(states)

    def _note(self, problem):
        if problem and not self._problem:
            LOG.warning('How many load balancers are outdated is not known '
                        'for the metrics: %s It is tried again every %d s.',
                        problem, INTERVAL)
        elif self._problem and not problem:
            LOG.info('How many load balancers are outdated is known again.')
        self._problem = problem


def _get_state(load_balancer, image_id):
    blocks = outdated.get_blocks(load_balancer, image_id)
    if outdated.Blocked.PENDING in blocks:
        return PENDING
    return BLOCKED if blocks else READY
