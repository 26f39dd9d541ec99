# SPDX-License-Identifier: Apache-2.0

"""Keeps our rows of amphorae in step with Octavia's."""

from octavia_hmsync.sync.db import amphora as amphora_repo

# Amphorae of Octavia, and rows of ours, to look at in each pass. A full turn
# finds what no event shows: 10 000 amphorae take 200 s with the default
# poll_interval.
_PAGE = 100
_OWN_PAGE = 20


class Census:
    """Looks at some amphorae per call of run_once().

    Each pass adds rows for amphorae that Octavia is building and looks at a
    few others in turn, which costs the same for any size of the fleet. All
    amphorae are looked at when this housekeeper starts, and before a
    generation is called complete.
    """

    def __init__(self, engine):
        self._engine = engine
        self._has_looked_at_all = False
        self._after = self._own_after = ''

    def run_once(self):
        """Add the rows that are missing, delete rows without an amphora."""
        if not self._has_looked_at_all:
            amphora_repo.add_missing(self._engine)
            amphora_repo.delete_gone(self._engine)
            self._has_looked_at_all = True
            return
        amphora_repo.add_building(self._engine)
        page = amphora_repo.get_page(self._engine, self._after, _PAGE)
        if page:
            amphora_repo.add_missing(self._engine, page)
        self._after = _last(page, _PAGE)
        page = amphora_repo.get_own_page(self._engine, self._own_after,
                                         _OWN_PAGE)
        if page:
            amphora_repo.delete_gone(self._engine, page)
        self._own_after = _last(page, _OWN_PAGE)

    def has_all(self, number):
        """Tell whether each amphora is at a generation.

        :param number: the newest generation.
        """
        if amphora_repo.is_any_behind(self._engine, number):
            return False
        # All rows are; add the missing ones and look again.
        return not amphora_repo.add_missing(self._engine) and not (
            amphora_repo.is_any_behind(self._engine, number))


def _last(page, size):
    """Return where the next page begins."""
    return page[-1] if len(page) == size else ''
