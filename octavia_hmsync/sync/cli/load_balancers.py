# SPDX-License-Identifier: Apache-2.0

"""Finds the load balancer that an operator names, and names it."""

from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora_page as page_repo


def find(engine, name):
    """Return a load balancer's id by name or id, or raise NotPossible."""
    ids = page_repo.find_load_balancers(engine, name)
    if not ids:
        raise exceptions.NotPossible(
            f'There is no load balancer {name}: see "openstack loadbalancer '
            f'list".')
    if len(ids) > 1:
        raise exceptions.NotPossible(
            f'There are {len(ids)} load balancers {name}: give the id of one '
            f'of them, {", ".join(ids)}.')
    return ids[0]


class Names:
    """Names load balancers, which are read once for each."""

    def __init__(self, engine):
        self._engine = engine
        self._names: dict[str, str | None] = {}

    def read(self, ids):
        """Read the names of load balancers, with one statement."""
        new = set(ids) - set(self._names) - {None}
        if new:
            self._names |= {
                **dict.fromkeys(new),
                **page_repo.get_load_balancer_names(self._engine, new)}
        return self

    def get(self, load_balancer_id):
        """Return the name of a load balancer that was read, or None."""
        return self._names.get(load_balancer_id)

    def label(self, load_balancer_id):
        """Return its name and id, for people; None of None.

        A tenant chose the name: it may hold what moves the cursor.
        """
        return make_label(load_balancer_id, self.get(load_balancer_id))


def make_label(load_balancer_id, name):
    """Return the name and id of a load balancer, for people."""
    if not name:
        return load_balancer_id
    return f'{"".join(filter(str.isprintable, name))} {load_balancer_id}'
