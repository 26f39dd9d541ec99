# SPDX-License-Identifier: Apache-2.0

"""Keeps Octavia from failing over amphorae that could not be heard.

And those of a host that an operator holds, while others serve their load
balancers.
"""

import collections
import datetime
import time

from oslo_log import log as logging
from oslo_utils import timeutils

from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import exposure as exposure_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from octavia_hmsync.sync.health_manager import hearing
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import exposure
from octavia_hmsync.sync.rules import silence
from octavia_hmsync.sync.rules import timing

LOG = logging.getLogger(__name__)

# Long-held amphorae to check in one pass.
_HELD_PAGE = 20
# In each heartbeat_timeout, how often to look at all amphorae that perhaps no
# health manager can hear. Octavia fails over an amphora after one whole
# heartbeat_timeout of silence; the guard may hold it after half of one.
_LOOKS = 8
# Of the amphorae that never acknowledged a list, so many are looked at in one
# pass, and the rest in the next.
_PAGE = 100
# Seconds that are read again, for late commits and for clocks that are set.
_MARGIN = 60
# For more amphorae than this, one query over all costs less.
_AT_ONCE = 500


class SilenceWatch:
    """Looks for silent amphorae on behalf of the guard.

    Octavia's amphora_health has no index for silence. So this class remembers
    where each amphora may be sending to, and asks only for amphorae that
    perhaps no health manager can hear.
    """

    def __init__(self, engine, clock):
        self._engine = engine
        self._clock = clock
        self._exposure = exposure.Exposure()
        # The times of the last update of that memory, and of the last look.
        self._read_at = None
        self._looked_at = None
        # Where the next page begins; for amphorae without a list, None means
        # the beginning.
        self._after = ''
        self._after_without = None

    def find(self, before, also, settings, find_exposed):
        """Find amphorae that are silent and may need a hold.

        :param find_exposed: called with an Exposure, returns the ids of
                             amphorae that need a hold if they are silent.
        """
        now = self._clock()
        silent = {row.id: row for row in hold_repo.find_silent(
            self._engine, before, max_age=silence.time_in_question(settings))}
        if self._looked_at is None or (
                now - self._looked_at >= settings.heartbeat_timeout / _LOOKS):
            self._read(now)
            without, after_without = self._get_without()
            ids = find_exposed(self._exposure).union(also, without)
            silent.update((row.id, row) for row in self._find(before, ids))
            # Only after success: a failed look is repeated at once.
            self._looked_at, self._after_without = now, after_without
        return list(silent.values())

    def _find(self, before, amphora_ids):
        if len(amphora_ids) > _AT_ONCE:
            return [row for row in hold_repo.find_silent(self._engine, before)
                    if row.id in amphora_ids]
        if not amphora_ids:
            return []
        return hold_repo.find_silent(self._engine, before, amphora_ids)

    def _read(self, now):
        """Update what is remembered of each amphora."""
        if self._read_at is None:
            amphora_repo.add_missing(self._engine)
            found = exposure_repo.get_all(self._engine)
        else:
            # The housekeepers do this, too, but may all be down.
            amphora_repo.add_building(self._engine)
            found = exposure_repo.get_since(self._engine,
                                            now - self._read_at + _MARGIN)
        self._note(found)
        self._read_at = now
        self._read_page()

    def _note(self, found):
        for amphora_id, sending in found.items():
            self._exposure.note(amphora_id, sending)

    def _read_page(self):
        """Read a page of all amphorae again, for changes missed so far."""
        page = exposure_repo.get_page(self._engine, self._after, _PAGE)
        last = max(page) if len(page) == _PAGE else None
        known = self._exposure.between(self._after, last)
        self._note(dict.fromkeys(known - page.keys()))
        self._note(page)
        self._after = last or ''

    def _get_without(self):
        """Return amphorae without a list, all of them in two calls.

        :returns: (their ids, where the next call begins).
        """
        if self._after_without is None:
            ids = exposure_repo.get_without(self._engine, '', _PAGE)
            return ids, ids[-1] if len(ids) == _PAGE else None
        return exposure_repo.get_without(self._engine,
                                         self._after_without), None


class FailoverGuard:
    """Looks at silent amphorae once per run_once()."""

    def __init__(self, conf, engine, notifier=outbox.NOWHERE, measure=None,
                 clock=time.monotonic):
        self._measure = measure or instruments.HealthManagerInstruments()
        self._conf = conf
        self._engine = engine
        self._notifier = notifier
        # When each amphora was last held back.
        self._held = {}
        self._clock = clock
        self._watch = SilenceWatch(engine, clock)
        # The start of the next page of long holds, and the time of the last.
        self._after_held = None
        self._paged_at = None

    def run_once(self):
        """Hold back the unheard, release the heard; return held ids, a set."""
        self._release_heard()
        # By this controller's clock, which its failover loop compares with
        # the stored time; in whole seconds, as MySQL stores it.
        now = timeutils.utcnow().replace(microsecond=0)
        timeout = self._conf.health_manager.heartbeat_timeout
        before = now - datetime.timedelta(seconds=timeout / 2)
        waiting = host_hold_repo.find_waiting(self._engine, before)
        silent = self._watch.find(
            before, self._held.keys() | waiting.keys(),
            timing.Settings.from_conf(self._conf), self._find_exposed)
        self._release([row.id for row in silent
                       if hearing.is_heard_since(row)])
        unheard = hearing.find_unheard(self._conf, self._engine, silent,
                                       hmsync_conf.hold_max(self._conf))
        held = dict.fromkeys(unheard) | {
            row.id: waiting[row.id] for row in silent if row.id in waiting}
        if held:
            self._hold(held, now, silent)
        self._report(held, {row.id for row in silent})
        return set(held)

    def _hold(self, held, now, silent):
        ids = list(held)
        amphora_repo.add_missing(self._engine, ids)
        begun = hold_repo.hold(self._engine, ids, now,
                               self._begun_before(silent, now))
        for host, of_host in _by_host(held, begun).items():
            self._notify(payloads.FailoverGuardHolding, of_host,
                         None if host else hmsync_conf.hold_max(self._conf),
                         host)

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
        page = hold_repo.get_held_page(self._engine, self._after_held,
                                       _HELD_PAGE, longest)
        self._release([amphora_id for _, amphora_id in page])
        self._after_held = page[-1] if len(page) == _HELD_PAGE else None
        self._paged_at = now

    def _release(self, amphora_ids):
        if amphora_ids:
            self._notify(payloads.FailoverGuardReleased,
                         hold_repo.release_heard(self._engine, amphora_ids))

    def _find_exposed(self, exposure):
        return exposure.find_exposed(
            hearing.get_health_managers(self._conf, self._engine),
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
        for host, ids in _by_host(held, begun).items():
            if host:
                LOG.warning('Holding back the failover of %d amphorae of '
                            'host %s, which an operator holds: others serve '
                            'their load balancers.', len(ids), host)
            else:
                LOG.warning('Holding back the failover of %d amphorae for %d '
                            's at most: no health manager could hear them.',
                            len(ids), hmsync_conf.hold_max(self._conf))
        ended = (before & silent) - set(held)
        if ended:
            LOG.warning('No longer holding back the failover of amphorae '
                        'that were not heard: %s.', ', '.join(sorted(ended)))
        self._held = {amphora_id: self._held[amphora_id]
                      for amphora_id in before - ended}
        self._held.update(dict.fromkeys(held, now))


def _by_host(held, amphora_ids):
    """Return {held host, or None: ids of amphorae}; held: {id: host}."""
    found = collections.defaultdict(list)
    for amphora_id in amphora_ids:
        found[held[amphora_id]].append(amphora_id)
    return found
