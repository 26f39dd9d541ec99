# SPDX-License-Identifier: Apache-2.0

"""Gives members the TLS session ticket keys of the present period.

A member also gets them with each configuration. Rotating them is no change of
its configuration: only the content of files changes that haproxy names.
haproxy reads the files when it is reloaded. So members take them one after
the other, and the next one only if the one before did.
"""

import hashlib
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent
from octavia_hmsync.amphora import agent_client
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import tls as tls_repo
from octavia_hmsync.cluster.members import ticket_keys
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds between two looks at clusters: how late a new key may be.
INTERVAL = 60
# Seconds for a question that an agent answers from what it has.
_ASK_TIMEOUT = 5
# Seconds after which a cluster is tried again.
_PAUSE = 600
# Files of a member, at most.
_MOST = 500


class TicketRotation:
    """Gives members their keys.

    Its state may be lost: agents tell which keys they have.

    :param clock: returns seconds since 1970.
    :raises InvalidConfiguration: if the certificates that octavia.conf names
                                  cannot be used.
    """

    def __init__(self, context, clock=time.time):
        self._context = context
        self._clock = clock
        self._client = agent_client.RestAgentClient(context.conf)
        # {id of a cluster: the period whose keys all its members have}
        self._done: dict[str, int] = {}
        # {id of a cluster: when it is tried again}
        self._pauses: dict[str, float] = {}
        # Ids of amphorae whose haproxy may not have read a new file.
        self._unread: set[str] = set()

    def run_once(self):
        """Give keys to all members that lack them; raise DBError."""
        clusters = [
            (cluster, keys) for cluster in
            tls_repo.get_all(self._context.engine)
            if (keys := ticket_keys.make(self._context.conf,
                                         cluster.load_balancer_id)).is_on]
        ids = {cluster.id for cluster, _keys in clusters}
        for known in (self._done, self._pauses):
            for key in known.keys() - ids:
                del known[key]
        for cluster, keys in clusters:
            if self._context.claims.stopping.is_set():
                return
            now = self._clock()
            period = keys.get_period(now)
            if (self._done.get(cluster.id) != period and
                    self._pauses.get(cluster.id, now) <= now):
                self._try(cluster, keys, period)

    def _try(self, cluster, keys, period):
        try:
            self._rotate(cluster, keys, period)
        except Exception as e:
            # A cluster that fails does not block the others.
            if api.is_database_error(e):
                raise
            self._pauses[cluster.id] = self._clock() + _PAUSE
            LOG.exception('Cluster %s keeps its TLS session ticket keys for '
                          '%s s:', cluster.id, _PAUSE)

    def _rotate(self, cluster, keys, period):
        held = self._context.claims.claim(cluster.id)
        if held is None:
            # Another process works on it.
            return
        try:
            if lock_repo.get_status(self._context.engine,
                                    cluster.id) not in tls_repo.AT_REST:
                return
            if self._rotate_all(cluster, keys, period, held):
                self._done[cluster.id] = period
                self._pauses.pop(cluster.id, None)
            else:
                self._pauses[cluster.id] = self._clock() + _PAUSE
        except exceptions.Interrupted as e:
            LOG.debug('Cluster %s keeps its TLS session ticket keys: %s',
                      cluster.id, type(e).__name__)
        finally:
            held.release()

    def _rotate_all(self, cluster, keys, period, held):
        """Rotate member by member; return whether all have the keys."""
        have_all, took = True, 0
        for amphora_id, address in tls_repo.get_agents(
                self._context.engine, cluster.id):
            held.check()
            try:
                took += self._give(cluster, amphora_id, address, keys, period)
            except exceptions.AgentUnreachable as e:
                have_all = False
                LOG.info('Amphora %s of cluster %s gets no new TLS session '
                         'ticket key now: %s', amphora_id, cluster.id, e)
            except exceptions.AgentRefused as e:
                LOG.warning('Members of cluster %s keep their TLS session '
                            'ticket key, as one does not take a new one: %s. '
                            'It is tried again in %s s.', cluster.id,
                            str(e).rstrip('.'), _PAUSE)
                have_all = False
                break
        if took:
            LOG.info('Cluster %s: %d members have a new TLS session ticket '
                     'key', cluster.id, took)
        return have_all

    def _give(self, cluster, amphora_id, address, keys, period):
        """Give a member its keys; return whether haproxy was reloaded."""
        lb_id = cluster.load_balancer_id
        asked = agent.Agent(self._client, amphora_id, address, _ASK_TIMEOUT)
        told = agent.Agent(
            self._client, amphora_id, address,
            self._context.conf[cluster_conf.GROUP].update_timeout)
        for name in ticket_keys.find_files(
                asked.get_haproxy(lb_id) or '')[:_MOST]:
            path = ticket_keys.get_path(lb_id, name)
            content = keys.render(name, period)
            # The agent tells an MD5; it serves no security here.
            if asked.get_file_md5(path) != hashlib.md5(
                    content.encode(), usedforsecurity=False).hexdigest():
                self._unread.add(amphora_id)
                told.upload_file(path, content)
        if amphora_id not in self._unread:
            return False
        told.reload_haproxy(lb_id)
        self._unread.discard(amphora_id)
        return True
