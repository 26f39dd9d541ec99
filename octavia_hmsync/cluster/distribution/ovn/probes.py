# SPDX-License-Identifier: Apache-2.0

"""Records the results of OVN's probes, from its southbound database.

And opens ports at which no member answers, see plan.py.
"""

from collections import abc
import threading
import time

from oslo_log import log as logging

from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.cluster.distribution.ovn import plan
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Seconds between two comparisons with the copy of OVN's database; that of
# Octavia is used only after a change.
_INTERVAL = 0.5
_PAUSE = 5
# Seconds after which ports are compared though nothing has changed here:
# another controller may have opened one, and died.
_RARELY = 30

_UP = probe_repo.Result(probe_repo.UP)
_STATES = {'online': probe_repo.UP, 'offline': probe_repo.DOWN}


def judge(statuses: abc.Iterable[str]) -> probe_repo.Result | None:
    """Return the Result of a member from the statuses of its ports. Pure.

    :param statuses: as OVN has them; empty if it has not probed yet.
    :returns: UP if one port answers; None if nothing is known.
    """
    states = {_STATES[status] for status in statuses if status in _STATES}
    if probe_repo.UP in states:
        return _UP
    if states:
        return probe_repo.Result(
            probe_repo.DOWN, 'OVN gets no answer from any of its listeners')
    return None


class Southbound:
    """Reads the results of OVN's probes. Threads may share it."""

    def __init__(self, conf):
        self._conf = conf

    def read(self):
        """Return {(port, TCP port): statuses}.

        :raises DistributorUnreachable: if OVN does not answer.
        """
        database = connections.connect(self._conf, connections.SOUTHBOUND)
        if not connections.is_connected(database):
            raise connections.unreachable(
                connections.SOUTHBOUND, connections.get_remote(
                    self._conf, connections.SOUTHBOUND),
                'the connection is lost')
        found: dict[tuple[str, int], list[str]] = {}
        with database.ovsdb_connection.lock:
            for row in database.tables['Service_Monitor'].rows.values():
                found.setdefault((row.logical_port, row.port), []).extend(
                    row.status)
        return found


class OVNProbeWatch:
    """Records the results of OVN's probes, from the first run_once() on.

    :param wake: called without arguments when something changed.
    """

    def __init__(self, engine, balancers, southbound, wake):
        self._engine = engine
        self._balancers = balancers
        self._southbound = southbound
        self._wake = wake
        self._results: dict[str, probe_repo.Result] = {}
        # Ids of members without a result, whose rows were deleted.
        self._unprobed: set[str] = set()
        # With what ports were compared last, and in which period.
        self._compared: tuple[object, ...] | None = None
        self._is_away = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run_once(self):
        """Ensure the thread that records."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._loop, daemon=True, name='hmsync-probes-ovn')
            self._thread.start()

    def stop(self, timeout=0):
        """Stop recording, and wait so many seconds for the thread."""
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
                self._results, self._unprobed = {}, set()
                pause = _PAUSE
                if not api.is_database_error(e):
                    LOG.exception('What OVN sees of members was not '
                                  'recorded. It is tried again in %s s.',
                                  pause)

    def hear(self):
        """Read and record what is new; raise DistributorUnreachable."""
        statuses: dict[str, list[str]] = {}
        by_port = self._southbound.read()
        for (port_id, _port), found in by_port.items():
            statuses.setdefault(port_id, []).extend(found)
        results, unprobed = {}, set()
        dead = self._balancers.on_dead_nodes
        for applied, _addresses in self._balancers.get_applied().values():
            for port_id, member_id in applied.members.items():
                result = judge(statuses.get(port_id, ()))
                if result is not None and member_id in dead:
                    # The last probe of a dead node does not count.
                    result = probe_repo.Result(
                        probe_repo.DOWN,
                        f'its node {dead[member_id]} is dead')
                if result is None:
                    unprobed.add(member_id)
                else:
                    results[member_id] = result
        new = {member_id: result for member_id, result in results.items()
               if self._results.get(member_id) != result}
        changed = new and probe_repo.record(
            self._engine, self._balancers.sync().id, new)
        # The last listener was deleted, or the load balancer disabled.
        gone = unprobed - self._unprobed
        forgotten = gone and probe_repo.forget(
            self._engine, self._balancers.sync().id, gone)
        if changed or forgotten:
            self._wake()
        self._results, self._unprobed = results, unprobed
        self._open(by_port)

    def _open(self, statuses):
        all_applied = self._balancers.get_applied()
        seen = statuses, all_applied, time.monotonic() // _RARELY
        if seen == self._compared:
            # To list is slow where OVN has many load balancers.
            return
        there = self._balancers.northbound.list()
        for cluster_id, (applied, _addresses) in all_applied.items():
            before = there.get(cluster_id)
            if before is None:
                continue
            serving = [port_id for port_id, member_id
                       in applied.members.items()
                       if member_id in applied.serving]
            ports = plan.choose_open(before.open, {port: [
                judge(statuses.get((port_id, port), ())) in (None, _UP)
                for port_id in serving] for port in applied.ports})
            # Another controller may be first.
            if ports != before.open and self._balancers.northbound.set_open(
                    cluster_id, ports):
                _say(cluster_id, ports - before.open, before.open - ports)
        self._compared = seen


def _say(cluster_id, opened, closed):
    if opened:
        LOG.warning(
            'OVN gets no answer from any member of the cluster %s at port %s, '
            'and would refuse new connections. It sends them to all members '
            'until half of them answer. See whether these are overloaded: '
            'processors, connection_limit.', cluster_id,
            plan.write_ports(opened))
    if closed:
        LOG.info('Members of the cluster %s answer OVN again at port %s: '
                 'they alone get new connections.', cluster_id,
                 plan.write_ports(closed))
