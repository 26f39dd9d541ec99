# SPDX-License-Identifier: Apache-2.0

"""What all that is done for one cluster shares."""

import functools
import os
import time

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import held

# Seconds after which a cluster is taken up that nobody gave a sign of.
CLAIM_EXPIRY = 60
# Seconds between two looks at something that takes its time.
INTERVAL = 0.5


def make_claims(engine, host, clock=time.monotonic):
    """Return the claims of this process on clusters."""
    def is_unwanted(cluster_id):
        found = cluster_repo.get(engine, cluster_id)
        return (found is None or
                found.provisioning_status == compat.PENDING_DELETE)

    return held.Claims(engine, claim_repo, host, CLAIM_EXPIRY,
                       is_unwanted=is_unwanted, clock=clock)


class Context:
    """What works on clusters in this process has in common."""

    def __init__(self, conf, engine):
        self.conf = conf
        self.engine = engine
        self.claims = make_claims(engine, conf.host)

    @property
    def options(self):
        return self.conf[cluster_conf.GROUP]


_contexts: dict[int, Context] = {}


def get_context():
    """Return the Context of this process; raise DatabaseUnavailable."""
    pid = os.getpid()
    found = _contexts.get(pid)
    if found is None:
        # Of threads that begin at once all get the same one.
        found = _contexts.setdefault(pid, Context(
            compat.CONF, api.create_engine(compat.CONF, connections=30,
                                           patience=60)))
        for other in _contexts.keys() - {pid}:
            _contexts.pop(other, None)
    return found


class Work:
    """A cluster that this process has claimed.

    :param is_deletion: whether it is to be deleted.
    """

    def __init__(self, context: Context, cluster_id, owner, is_deletion=False):
        self.context = context
        self._is_deletion = is_deletion
        self.conf = context.conf
        self.engine = context.engine
        self.options = context.options
        self.cluster_id = cluster_id
        self.owner = owner

    @functools.cached_property
    def network(self):
        return compat_amphora.load_network_driver()

    @functools.cached_property
    def compute(self):
        return compat_amphora.load_compute_driver()

    @functools.cached_property
    def driver(self):
        return compat.load_amphora_driver(
            self.conf.controller_worker.amphora_driver)

    @functools.cached_property
    def _held(self):
        return self.context.claims.find(self.cluster_id, self.owner,
                                        self._is_deletion)

    def check(self):
        """Go on only as long as that is wanted; errors as of Held.check()."""
        self._held.check()

    def look(self):
        """As check(), of what the database has now."""
        self._held.look()

    def pause(self, seconds=INTERVAL):
        """Wait, unless there is no reason any more; errors as of check()."""
        self._held.pause(seconds)

    def release(self):
        """Hold the cluster no longer."""
        self._held.release()

    def lock(self, status=compat.ACTIVE):
        """Lock the load balancer; see lock_repo.lock()."""
        return lock_repo.lock(self.engine, self.cluster_id, self.owner,
                              CLAIM_EXPIRY, status)

    def unlock(self, status=compat.ACTIVE):
        """Unlock the load balancer; see lock_repo.unlock()."""
        lock_repo.unlock(self.engine, self.cluster_id, self.owner,
                         CLAIM_EXPIRY, status)

    def read(self):
        """Return the Cluster; raise Lost if it is gone."""
        found = cluster_repo.get(self.engine, self.cluster_id)
        if found is None:
            raise exceptions.Lost
        return found

    def read_members(self):
        return member_repo.get_of_cluster(self.engine, self.cluster_id)

    def get_load_balancer(self):
        """Return Octavia's load balancer; raise NotProven if there is none."""
        load_balancer_id = self.read().load_balancer_id
        found = compat_amphora.get_load_balancer(load_balancer_id)
        if found is None:
            raise exceptions.NotProven(
                f'Load balancer {load_balancer_id} is gone.')
        return found
