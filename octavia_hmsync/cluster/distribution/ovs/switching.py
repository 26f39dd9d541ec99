# SPDX-License-Identifier: Apache-2.0

"""Switches ports of distributors off and on, in threads.

A distributor that cannot be told to leave a VIP must not answer ARP for it.
Neutron may hang just when a node has died: the worker that tells distributors
does not wait for it, as it has other clusters to tell of.
"""

import collections
import threading
import time

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Ports that are switched at the same time.
_AT_ONCE = 8
# Seconds to wait for a port, unless Neutron took longer for the last one.
_GRACE = 2


def is_in_doubt(vip):
    """Tell whether a standby distributor may wrongly answer ARP. Pure.

    So it is if it is not known what the distributor has in force.
    """
    return bool(vip.port_id and vip.error and not vip.active and
                vip.applied_version is not None and
                vip.applied_active is None)


class Switch:
    """Switches ports in threads of its own. Threads may share it."""

    def __init__(self, engine, ports):
        self._engine = engine
        self._ports = ports
        self._lock = threading.Lock()
        self._waiting: collections.deque = collections.deque()
        self._pending: set[str] = set()
        self._threads = 0
        self._is_slow = False

    def settle(self, vip):
        """Switch a port off if its distributor is in doubt, else on.

        What rows say at the moment of the switch counts.

        :param vip: a VIP with a port.
        """
        done = threading.Event()
        with self._lock:
            if vip.id in self._pending:
                return
            self._pending.add(vip.id)
            self._waiting.append((vip, done))
            if self._threads < _AT_ONCE:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True,
                                 name='hmsync-switch').start()
            grace = 0 if self._is_slow else _GRACE
        if not done.wait(grace):
            self._is_slow = True

    def _work(self):
        periodic.leave_signals_to_main_thread()
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                vip, done = self._waiting.popleft()
                # Rows read from now on: a later settle() queues it again.
                self._pending.discard(vip.id)
            begun = time.monotonic()
            try:
                self._switch(vip)
            finally:
                self._is_slow = time.monotonic() - begun > _GRACE
                done.set()

    def _switch(self, vip):
        try:
            is_on = self._is_to_be_on(vip)
            while is_on is not None:
                self._ports.switch(vip.port_id, is_on)
                # Another process may have told it or moved the VIP meanwhile.
                before, is_on = is_on, self._is_to_be_on(vip)
                if is_on == before:
                    return
        except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
            if is_on:
                LOG.info('The port of the distributor %s was not checked: '
                         '%s', vip.distributor_name, e)
                return
            LOG.warning('The distributor %s cannot be told to leave the '
                        'cluster %s to another one, and its port cannot be '
                        'switched off: %s', vip.distributor_name,
                        vip.cluster_id, e)
        except Exception as e:
            if not api.is_database_error(e):
                LOG.exception('The port of the distributor %s for the '
                              'cluster %s:', vip.distributor_name,
                              vip.cluster_id)

    def _is_to_be_on(self, vip):
        """Tell whether a port is to be on; None if the VIP is gone."""
        found = [row for row in vip_repo.get_of_cluster(
            self._engine, vip.cluster_id) if row.id == vip.id]
        return not is_in_doubt(found[0]) if found else None
