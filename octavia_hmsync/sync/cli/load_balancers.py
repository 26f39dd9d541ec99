# SPDX-License-Identifier: Apache-2.0

"""Finds the load balancer that an operator names."""

from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora_page as page_repo


def find(engine, name):
    """Return the id of a load balancer that is not deleted.

    :param name: its name or id.
    :raises NotPossible: if there is none, or several of that name.
    """
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
