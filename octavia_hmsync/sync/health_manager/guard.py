# SPDX-License-Identifier: Apache-2.0

"""Keeps Octavia from failing over amphorae that no listener could hear."""

import datetime
import time

from oslo_log import log as logging
from oslo_utils import timeutils

from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.health_manager import hearing
from octavia_hmsync.sync.health_manager import silence_watch
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import silence
from octavia_hmsync.sync.rules import timing

LOG = logging.getLogger(__name__)

# Long-held amphorae to look at in one pass.
_PAGE = 20


class FailoverGuard:
    """Looks at silent amphorae once per run_once().

    :param measure: HealthManagerInstruments.
    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, conf, engine, notifier=outbox.NOWHERE, measure=None,
                 clock=time.monotonic):
        self._measure = measure or instruments.HealthManagerInstruments()
        self._conf = conf
        self._engine = engine
        self._notifier = notifier
        # When each amphora was last held back.
        self._held = {}
        self._clock = clock
        self._watch = silence_watch.SilenceWatch(engine, clock)
        # The start of the next page of long holds, and the time of the last.
        self._after_held = None
        self._paged_at = None

    def run_once(self):
        """Hold back amphorae that could not be heard, release heard ones.

        :returns: the ids of the amphorae that are held back, a set.
        """
        self._release_heard()
        # By this controller's clock, which its failover loop compares with
        # the stored time; in whole seconds, as MySQL stores it.
        now = timeutils.utcnow().replace(microsecond=0)
        timeout = self._conf.health_manager.heartbeat_timeout
        silent = self._watch.find(
            now - datetime.timedelta(seconds=timeout / 2), self._held,
            timing.Settings.from_conf(self._conf), self._find_exposed)
        self._release([row.id for row in silent
                       if hearing.is_heard_since(row)])
        held = hearing.find_unheard(self._conf, self._engine, silent,
                                    hmsync_conf.hold_max(self._conf))
        if held:
            amphora_repo.add_missing(self._engine, held)
            self._notify(payloads.FailoverGuardHolding,
                         hold_repo.hold(self._engine, held, now,
                                        self._begun_before(silent, now)),
                         hmsync_conf.hold_max(self._conf))
        self._report(held, {row.id for row in silent})
        return set(held)

    def _release_heard(self):
        """End the holds of amphorae that were heard since.

        Long holds are looked at a page at a time, as many amphorae may be
        silent for good. If one is heard and then silent again, its turn shows
        that.
        """
        timeout = self._conf.health_manager.heartbeat_timeout
        longest = hmsync_conf.hold_max(self._conf) + 2 * timeout
        self._notify(payloads.FailoverGuardReleased, hold_repo.release_heard(
            self._engine, max_age=longest))
        now = self._clock()
        if self._paged_at is not None and now - self._paged_at < timeout / 8:
            return
        page = hold_repo.get_held_page(self._engine, self._after_held, _PAGE,
                                       longest)
        self._release([amphora_id for _, amphora_id in page])
        self._after_held = page[-1] if len(page) == _PAGE else None
        self._paged_at = now

    def _release(self, amphora_ids):
        if amphora_ids:
            self._notify(payloads.FailoverGuardReleased,
                         hold_repo.release_heard(self._engine, amphora_ids))

    def _find_exposed(self, exposure):
        return exposure.find_exposed(
            hearing.get_listeners(self._conf, self._engine),
            hmsync_conf.hold_max(self._conf))

    def _notify(self, payload_class, amphora_ids, *values):
        for payload in payloads.split(payload_class, amphora_ids, *values):
            self._notifier.send(payload)

    def _begun_before(self, silent, now):
        settings = timing.Settings.from_conf(self._conf)
        return {row.id: silence.begun_before(
            (now - row.last_update).total_seconds(), settings)
            for row in silent}

    def _report(self, held, silent):
        """Log new holds, and holds that end without a heartbeat."""
        now = time.monotonic()
        # An amphora that has no hold for this long has been heard.
        timeout = self._conf.health_manager.heartbeat_timeout
        before = {amphora_id for amphora_id, at in self._held.items()
                  if now - at <= timeout}
        begun = set(held) - before
        self._measure.holds.inc(len(begun))
        if begun:
            LOG.warning('Holding back the failover of %d amphorae for %d s '
                        'at most: no health manager could hear them.',
                        len(begun), hmsync_conf.hold_max(self._conf))
        ended = (before & silent) - set(held)
        if ended:
            LOG.warning('No longer holding back the failover of amphorae '
                        'that were not heard: %s.', ', '.join(sorted(ended)))
        self._held = {amphora_id: self._held[amphora_id]
                      for amphora_id in before - ended}
        self._held.update(dict.fromkeys(held, now))
