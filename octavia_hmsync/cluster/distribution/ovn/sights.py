# SPDX-License-Identifier: Apache-2.0

"""Records what OVN sees of members, as soon as it sees it."""

import threading

from oslo_log import log as logging

from octavia_hmsync.cluster.db import member_sight as sight_repo
from octavia_hmsync.cluster.distribution.ovn import southbound as southbound_
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Seconds between two looks at the copy of OVN's database; the database of
# Octavia is used only after a change.
_INTERVAL = 0.5
_PAUSE = 5


class OVNSightWatch:
    """Looks at what OVN sees, from the first run_once() on.

    :param wake: called without arguments when something changed.
    """

    def __init__(self, engine, balancers, southbound, wake):
        self._engine = engine
        self._balancers = balancers
        self._southbound = southbound
        self._wake = wake
        self._looks: dict[str, sight_repo.Look] = {}
        # Ids of members without a look, whose rows were deleted.
        self._unseen: set[str] = set()
        self._is_away = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run_once(self):
        """Ensure the thread that looks."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._loop, daemon=True, name='hmsync-sights-ovn')
            self._thread.start()

    def stop(self, timeout=0):
        """Stop looking.

        :param timeout: seconds to wait for the thread.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _loop(self):
        periodic.leave_signals_to_main_thread()
        pause = _INTERVAL
        while not self._stopping.wait(pause):
            try:
                self.hear()
                self._is_away = False
                pause = _INTERVAL
            except exceptions.HMSyncException as e:
                pause = _PAUSE
                if not self._is_away:
                    self._is_away = True
                    LOG.warning('OVN does not tell whether members of '
                                'clusters answer: %s', e)
            except Exception as e:
                # Record everything again.
                self._looks, self._unseen = {}, set()
                pause = _PAUSE
                if not api.is_database_error(e):
                    LOG.exception('What OVN sees of members was not '
                                  'recorded. It is tried again in %s s.',
                                  pause)

    def hear(self):
        """Read what OVN sees, and record what is new.

        :raises DistributorUnreachable: if OVN does not answer.
        """
        statuses: dict[str, list[str]] = {}
        for (port_id, _address), found in self._southbound.read().items():
            statuses.setdefault(port_id, []).extend(found)
        looks, unseen = {}, set()
        dead = self._balancers.on_dead_nodes
        for applied, _addresses in self._balancers.get_applied().values():
            for port_id, member_id in applied.members.items():
                look = southbound_.judge(statuses.get(port_id, ()))
                if look is not None and member_id in dead:
                    # The last look of a dead node does not count.
                    look = sight_repo.Look(
                        sight_repo.DOWN,
                        f'its node {dead[member_id]} is dead')
                if look is None:
                    unseen.add(member_id)
                else:
                    looks[member_id] = look
        new = {member_id: look for member_id, look in looks.items()
               if self._looks.get(member_id) != look}
        changed = new and sight_repo.record(
            self._engine, self._balancers.sync().id, new)
        # The last listener was deleted, or the load balancer disabled.
        gone = unseen - self._unseen
        forgotten = gone and sight_repo.forget(
            self._engine, self._balancers.sync().id, gone)
        if changed or forgotten:
            self._wake()
        self._looks, self._unseen = looks, unseen


def make(conf, engine, balancers, wake):
    """Make the OVNSightWatch of a process."""
    return OVNSightWatch(engine, balancers, southbound_.Southbound(conf),
                         wake)
