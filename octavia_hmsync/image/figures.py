# SPDX-License-Identifier: Apache-2.0

"""Figures of image upgrades for Prometheus, from the database.

Every housekeeper serves the same figures. All are gauges, even those of ended
replacements: rows may be deleted, and a counter must not fall.
"""

from octavia_hmsync.image.db import figures as figures_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import phases
from octavia_hmsync.metrics import reading

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
    """Reads the figures, in six statements at most."""

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
