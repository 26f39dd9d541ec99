# SPDX-License-Identifier: Apache-2.0

"""Finds the silent amphorae that may have to be held, among few."""

from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import exposure as exposure_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.rules import exposure
from octavia_hmsync.sync.rules import silence

# How often in each heartbeat_timeout all whom nobody may be able to hear are
# looked at. Octavia fails over whoever was silent for a whole one, and whoever
# was for half of one can be held.
_LOOKS = 8
# Of those that never acknowledged a list so many are looked at each time, and
# all others the next time.
_PAGE = 100
# So many more seconds are read again: of what is committed late, or while
# clocks are set.
_MARGIN = 60
# For more than that one look at all of them costs less.
_AT_ONCE = 500


class SilenceWatch:
    """Looks for silent amphorae, each time that the guard does.

    Octavia's amphora_health has no index that finds the silent ones. So this
    keeps at hand where each amphora may be sending to, and looks only at those
    that perhaps nobody can hear.

    :param engine: an SQLAlchemy engine.
    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, engine, clock):
        self._engine = engine
        self._clock = clock
        self._exposure = exposure.Exposure()
        # When what is at hand was read, and when the last look was.
        self._read_at = None
        self._looked_at = None
        # Where the next page begins; of those without a list, None for the
        # beginning.
        self._after = ''
        self._after_without = None

    def find(self, before, also, settings, find_exposed):
        """Find amphorae that are silent and may have to be held.

        :param before: see hold.find_silent().
        :param also: ids of others to look at.
        :param settings: timing.Settings.
        :param find_exposed: called with an Exposure, returns the ids of those
                             that would have to be held if they were silent.
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
            # Now that nothing has failed.
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
        """Bring what is at hand up to date."""
        if self._read_at is None:
            amphora_repo.add_missing(self._engine)
            found = exposure_repo.get_all(self._engine)
        else:
            # Also where no housekeeper is there to do it.
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
        """Look at some in turn, for what else has changed."""
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
