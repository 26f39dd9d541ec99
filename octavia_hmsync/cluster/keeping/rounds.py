# SPDX-License-Identifier: Apache-2.0

"""Which clusters a housekeeper looks at in each round.

These are clusters with something to do, clusters that had something to do in
the last round, and a page of all clusters. The cost does not grow with the
number of clusters that are well.
"""

import time

from octavia_hmsync.cluster.db import due as due_repo

# Clusters that are looked at without a reason, in turn.
_PAGE = 100
# With more candidates than this, looking at all clusters costs less.
_MANY = 500
# Seconds for which a change of a cluster counts. A housekeeper that has not
# looked for half of that looks at all clusters, since it may have missed one.
_RECENT = 120


class Rounds:
    """Finds clusters for which there may be something to do.

    :param clock: called without arguments, seconds.
    """

    def __init__(self, engine, clock=time.monotonic):
        self._engine = engine
        self._clock = clock
        self._looked = None
        self._known: set[str] = set()
        self._after = ''

    def look(self):
        """Return the clusters to look at.

        :returns: a list of cluster.db.due.Due, the longest waiting first.
        :raises DBError: if the database cannot be used.
        """
        now = self._clock()
        due = due_repo.get_due(self._engine, self._choose(now))
        self._known = {each.id for each in due}
        self._looked = now
        return due

    def _choose(self, now):
        """Return the ids of the clusters to look at, None for all."""
        if self._looked is None or now - self._looked > _RECENT / 2:
            return None
        page = due_repo.get_page(self._engine, self._after, _PAGE)
        self._after = page[-1] if len(page) == _PAGE else ''
        chosen = self._known.union(page, due_repo.get_candidates(
            self._engine, _RECENT))
        return chosen if len(chosen) <= _MANY else None
