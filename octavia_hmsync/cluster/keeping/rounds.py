# SPDX-License-Identifier: Apache-2.0

"""Which clusters a housekeeper looks at, each time it looks.

Those with which there is something, those with which there was something when
it looked last, and a page of all of them: what that costs is the same for any
number of clusters that are well.
"""

import time

from octavia_hmsync.cluster.db import due as due_repo

# Clusters that are looked at for no reason at all, in turn.
_PAGE = 100
# With more than so many, all are looked at: that costs less.
_MANY = 500
# Seconds for which a change of a cluster counts. Whoever has not looked for
# half of that looks at all of them, as it may have missed something.
_RECENT = 120


class Rounds:
    """Finds clusters for which there may be something to do.

    :param engine: an SQLAlchemy engine.
    :param clock: called without arguments, seconds.
    """

    def __init__(self, engine, clock=time.monotonic):
        self._engine = engine
        self._clock = clock
        self._looked = None
        self._known: set[str] = set()
        self._after = ''

    def look(self):
        """Return them.

        :returns: a list of cluster_due.Due, who waits for longest first.
        :raises DBError: if the database cannot be used.
        """
        now = self._clock()
        due = due_repo.get_due(self._engine, self._choose(now))
        self._known = {each.id for each in due}
        self._looked = now
        return due

    def _choose(self, now):
        """Return the ids of whom to look at, None for all."""
        if self._looked is None or now - self._looked > _RECENT / 2:
            return None
        page = due_repo.get_page(self._engine, self._after, _PAGE)
        self._after = page[-1] if len(page) == _PAGE else ''
        chosen = self._known.union(page, due_repo.get_candidates(
            self._engine, _RECENT))
        return chosen if len(chosen) <= _MANY else None
