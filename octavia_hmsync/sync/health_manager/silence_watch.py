# SPDX-License-Identifier: Apache-2.0

"""Finds the silent amphorae that may need a hold, without a full scan."""

from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import exposure as exposure_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.rules import exposure
from octavia_hmsync.sync.rules import silence

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

    :param clock: a monotonic clock, seconds.
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

        :param before: see hold.find_silent().
        :param also: ids of further amphorae to look at.
        :param settings: timing.Settings.
        :param find_exposed: called with an Exposure, returns the ids of
                             amphorae that need a hold if they are silent.
        :returns: rows, see hold.find_silent().
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
