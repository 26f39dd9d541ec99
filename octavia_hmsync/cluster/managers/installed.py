# SPDX-License-Identifier: Apache-2.0

"""The installed cluster managers."""

import functools
from importlib import metadata

from oslo_log import log as logging
from stevedore import driver as stevedore_driver
from stevedore import exception as stevedore_exc

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import reference
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

NAMESPACE = 'octavia_hmsync.cluster_managers'


@functools.lru_cache(maxsize=None)
def get(name):
    """Return the manager of a name, the same object each time.

    :param name: the cluster_type of a cluster.
    :raises InvalidConfiguration: if there is none, or it cannot be loaded.
    """
    if name == cluster_repo.REFERENCE:
        return reference.ReferenceManager()
    try:
        return stevedore_driver.DriverManager(
            NAMESPACE, name, invoke_on_load=True).driver
    except stevedore_exc.NoMatches as e:
        raise exceptions.InvalidConfiguration(
            f'No cluster manager "{name}" can be loaded: {e}. Install the '
            f'package that has it on this controller, or change '
            f'[hmsync_cluster] cluster_manager.') from e


def get_names():
    """Return the names of all installed managers, sorted."""
    return sorted({each.name for each in
                   metadata.entry_points(group=NAMESPACE)})


@functools.lru_cache(maxsize=None)
def get_followers(what):
    """Return the names of installed managers that follow something.

    :param what: FOLLOWS_LOAD or FOLLOWS_HOSTS.
    """
    found = []
    for name in get_names():
        try:
            if getattr(get(name), what):
                found.append(name)
        except exceptions.InvalidConfiguration as e:
            # Its clusters say so, too, if it has any.
            LOG.warning('Whether manager "%s" has %s is not known: %s', name,
                        what, e)
    return tuple(found)


def tell(manager, kind, cluster_id, *details):
    """Pass an event to a manager; what it raises is logged.

    :param details: the further fields of an Event.
    """
    try:
        manager.handle(base.Event(kind, cluster_id, *details))
    except Exception:
        LOG.exception('The manager of the cluster %s failed when it was told '
                      'of "%s".', cluster_id, kind)
