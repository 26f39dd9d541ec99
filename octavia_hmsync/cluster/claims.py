# SPDX-License-Identifier: Apache-2.0

"""The claims of one process on clusters.

A cluster is claimed in the database while a worker or keeper works on it. One
thread renews all claims of the process. The claim owner checks before each
step whether it may go on.
"""

import dataclasses
import threading
import time

from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# A claim is renewed so often before it lapses.
RENEWALS = 4


@dataclasses.dataclass(eq=False)
class _Held:
    cluster_id: str
    owner: str
    is_deletion: bool
    seen: float
    is_lost: bool = False
    is_unwanted: bool = False


class Claims:
    """The claims of this process.

    :param host: the name of this controller.
    :param expiry: seconds after which a claim lapses.
    """

    def __init__(self, engine, host, expiry, clock=time.monotonic):
        self._engine = engine
        self._host = host
        self._expiry = expiry
        self._clock = clock
        self._lock = threading.Lock()
        self._held = {}
        self._thread = None
        self._ended = threading.Event()
        self.stopping = threading.Event()

    def claim(self, cluster_id, is_deletion=False, status=None):
        """Claim a cluster.

        :param status: its provisioning status from then on; None leaves it.
        :param is_deletion: whether the owner deletes the cluster: all other
                            work on it stops.
        :returns: an owner, new for each call; None if another process has
                  claimed the cluster.
        """
        owner = f'{self._host}/{uuidutils.generate_uuid()}'
        if not claim_repo.claim(self._engine, cluster_id, owner,
                                self._expiry, status):
            return None
        self.hold(cluster_id, owner, is_deletion)
        return owner

    def hold(self, cluster_id, owner, is_deletion=False):
        """Renew a claim until release()."""
        with self._lock:
            self._held.setdefault(
                owner, _Held(cluster_id, owner, is_deletion, self._clock()))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._renew, name='hmsync-cluster-claims',
                    daemon=True)
                self._thread.start()

    def check(self, cluster_id, owner, is_deletion=False):
        """Check that the owner may go on.

        :raises Lost: if another process has claimed the cluster.
        :raises Unwanted: if it is to be deleted, and this is no deletion.
        :raises Stopped: if this process ends.
        """
        with self._lock:
            held = self._held.get(owner)
        if held is None:
            # Another process has begun the work.
            self.hold(cluster_id, owner, is_deletion)
            with self._lock:
                held = self._held[owner]
            self._look(held)
        elif self._clock() - held.seen >= self._expiry:
            # Not renewed in time: this process hung until now.
            self._look(held)
        if held.is_lost:
            raise exceptions.Lost
        if held.is_unwanted:
            raise exceptions.Unwanted
        if self.stopping.is_set():
            raise exceptions.Stopped

    def look(self, cluster_id, owner, is_deletion=False):
        """As check(), after a look at the database."""
        self.hold(cluster_id, owner, is_deletion)
        with self._lock:
            held = self._held[owner]
        self._look(held)
        self.check(cluster_id, owner, is_deletion)

    def release(self, cluster_id, owner):
        """Release a cluster; doing it twice is harmless."""
        with self._lock:
            self._held.pop(owner, None)
        claim_repo.release(self._engine, cluster_id, owner)

    def end(self):
        """Stop renewing."""
        self._ended.set()

    def _look(self, held):
        began = self._clock()
        if not claim_repo.renew(self._engine, held.cluster_id, held.owner,
                                self._expiry):
            held.is_lost = True
            return
        held.seen = began
        found = cluster_repo.get(self._engine, held.cluster_id)
        held.is_unwanted = (
            not held.is_deletion and
            (found is None or
             found.provisioning_status == compat.PENDING_DELETE))

    def _renew(self):
        while not self._ended.wait(self._expiry / RENEWALS):
            with self._lock:
                held = list(self._held.values())
            for each in held:
                try:
                    self._look(each)
                except Exception as e:
                    # It lapses if this lasts.
                    if api.is_database_error(e):
                        LOG.debug('A claim was not renewed: %s', e)
                    else:
                        LOG.exception('A claim was not renewed:')
