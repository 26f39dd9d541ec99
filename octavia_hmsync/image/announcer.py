# SPDX-License-Identifier: Apache-2.0

"""Notifies once of changes of rollouts and replacements.

A command that changes a rollout may run where no message broker is known, and
a housekeeper may die with a replacement. The database records what was
announced; the housekeeper that updates this record sends the notification.
"""

from octavia_hmsync.image.db import news as news_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import payloads

# Seconds for which a change is announced, so that notifications that are
# switched on later do not report the whole history.
NEWS_FOR = 3600
# How many of each kind are sent in one pass.
LIMIT = 100

_ROLLOUT_STATES = {
    rollout_repo.RUNNING: payloads.ImageRolloutResumed,
    rollout_repo.PAUSED: payloads.ImageRolloutPaused,
    rollout_repo.CANCELLED: payloads.ImageRolloutCancelled,
    rollout_repo.HALTED: payloads.ImageRolloutHalted,
    rollout_repo.DONE: payloads.ImageRolloutDone,
}
_REPLACEMENT_STATES = {
    replace_repo.DONE: payloads.ImageReplacementDone,
    replace_repo.FAILED: payloads.ImageReplacementFailed,
    replace_repo.SKIPPED: payloads.ImageReplacementSkipped,
    replace_repo.REFUSED: payloads.ImageReplacementRefused,
    replace_repo.CANCELLED: payloads.ImageReplacementCancelled,
}


class ImageAnnouncer:
    """Notifies of rollouts and replacements that changed.

    :param notifier: a notifications.outbox.Outbox. While it is off, nothing
                     is recorded as announced either.
    """

    def __init__(self, engine, notifier):
        self._engine = engine
        self._notifier = notifier

    def run_once(self):
        """Send what is due: a rollout's start first, its end last."""
        if not self._notifier.is_on:
            return
        rollouts = news_repo.get_rollouts(self._engine, NEWS_FOR)
        # Read after the rollouts, so that the results of replacements are
        # sent before the end of their rollout.
        replacements = news_repo.get_replacements(self._engine, NEWS_FOR,
                                                  LIMIT)
        for rollout, announced in rollouts:
            if announced is None:
                self._announce_start(rollout)
        for replacement, announced in replacements:
            self._announce_replacement(replacement, announced)
        self._announce_states(rollouts)

    def _announce_start(self, rollout):
        if not news_repo.set_rollout_announced(
                self._engine, rollout.id, None, rollout_repo.RUNNING):
            return
        self._notifier.send(payloads.ImageRolloutStarted(
            rollout.id, rollout.settings.mode,
            # The reason belongs to the state that it was written with.
            rollout.reason if rollout.state == rollout_repo.RUNNING else '',
            rollout.undo_of))

    def _announce_states(self, rollouts):
        changed = [
            (rollout, announced or rollout_repo.RUNNING)
            for rollout, announced in rollouts
            if (announced or rollout_repo.RUNNING) != rollout.state]
        if not changed:
            return
        counts = replace_repo.count_states(
            self._engine, [rollout.id for rollout, _announced in changed])
        for rollout, announced in changed:
            if news_repo.set_rollout_announced(
                    self._engine, rollout.id, announced, rollout.state):
                self._notifier.send(_ROLLOUT_STATES[rollout.state](
                    rollout.id, rollout.settings.mode, rollout.reason,
                    *(counts[rollout.id].get(state, 0) for state in (
                        replace_repo.DONE, replace_repo.FAILED,
                        replace_repo.SKIPPED, replace_repo.RUNNING,
                        replace_repo.REFUSED))))

    def _announce_replacement(self, replacement, announced):
        if not news_repo.set_replacement_announced(
                self._engine, replacement.id, announced, replacement.state):
            return
        what = (replacement.id, replacement.rollout_id,
                replacement.load_balancer_id, replacement.mode,
                replacement.canary, replacement.target_image_id)
        if announced is None:
            self._notifier.send(payloads.ImageReplacementStarted(*what))
        payload_class = _REPLACEMENT_STATES.get(replacement.state)
        if payload_class is None:
            return
        more = ((replacement.not_before,)
                if payload_class is payloads.ImageReplacementSkipped else ())
        self._notifier.send(payload_class(
            *what, replacement.old_amphora_id, replacement.new_amphora_id,
            replacement.attempts, replacement.reason,
            replacement.started_at, replacement.finished_at, *more))
