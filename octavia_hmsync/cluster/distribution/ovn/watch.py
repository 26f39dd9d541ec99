# SPDX-License-Identifier: Apache-2.0

"""Watches whether OVN has what rows say.

Networks, routers and floating IPs change without a notification to the
plugin: this follows them. Nor does OVN show that a node is dead: the node of a
member probes its front end, so its last result stays in OVN when the node
dies. Neutron knows whether the ovn-controller of a node still answers OVN; it
is asked only about silent members.
"""

import time

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution import backend
from octavia_hmsync.cluster.distribution import distributor_status
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.distribution.ovn import balancers as balancers_
from octavia_hmsync.cluster.distribution import port_watch
from octavia_hmsync.cluster import work
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

# Clusters that OVN is told at the same time.
_AT_ONCE = 4
_PORTS, _GONE = 'ports', 'gone'
# Seconds between two checks of what changes rarely, so that it is repaired
# within a minute.
_RARELY = 45
# Clusters that each round reads without a reason, in turn.
_PAGE = 100
# Seconds for which a changed cluster is read. A process that has not run for
# half of that reads all clusters, as it may have missed a change.
_RECENT = 120
# Seconds between two questions about nodes.
_NODES_INTERVAL = 10
# Members that Neutron is asked about at a time: each takes two requests.
_NODES_AT_ONCE = 8


class Nodes:
    """Checks the nodes of members."""

    def __init__(self, engine, balancers, clock=time.monotonic):
        self._engine = engine
        self._balancers = balancers
        self._clock = clock
        self._checked: float | None = None
        # The last member that was asked about.
        self._after = ''

    def run_once(self):
        """Record the members on dead nodes in Balancers.on_dead_nodes."""
        now = self._clock()
        if self._checked is not None and now - self._checked < _NODES_INTERVAL:
            return
        self._checked = now
        silent = {member_id for member_id, result
                  in probe_repo.get_of_observer(
                      self._engine, probe_repo.HEARTBEATS).items()
                  if result.state == probe_repo.DOWN}
        ports = {member_id: port_id
                 for applied, _ in self._balancers.get_applied().values()
                 for port_id, member_id in applied.members.items()
                 if member_id in silent}
        # Members that are not asked about now keep their result.
        found = {member_id: host for member_id, host
                 in self._balancers.on_dead_nodes.items()
                 if member_id in ports}
        problem = None
        for member_id in sorted(ports, key=lambda each: (
                each <= self._after, each))[:_NODES_AT_ONCE]:
            self._after = member_id
            try:
                host = self._balancers.ports.find_dead_node(ports[member_id])
            except (exceptions.CloudUnavailable,
                    exceptions.CloudRefused) as e:
                problem = f'Nodes of silent members were not checked: {e}'
                found = {}
                break
            found.pop(member_id, None)
            if host is not None:
                found[member_id] = host
        periodic.note_problem(self, problem)
        self._balancers.on_dead_nodes = found


class _Silent:
    """The client of a distributor for OVN, which counts nothing."""

    def __init__(self, _url):
        pass

    def get_statistics(self, _cluster_id):
        return None


class OVNWatch:
    """Compares OVN with rows, each time run_once() is called.

    The copy of OVN's database is compared as a whole with what this process
    has told, which costs no request. Rows are read only of clusters that
    differ or changed, and of one page of the others.

    :param heartbeat_interval: seconds between two heartbeats of an amphora.
    :param interval: seconds between two rounds.
    :param host: the name of this controller.
    """

    def __init__(self, engine, balancers, clock=time.monotonic,
                 heartbeat_interval=10, interval=5, host='ovn'):
        self._engine = engine
        self._recorder = distributor_status.Recorder(engine, interval)
        self._balancers = balancers
        self._clock = clock
        self._heartbeat_interval = heartbeat_interval
        self._nodes = Nodes(engine, balancers, clock)
        self._ports = port_watch.make(engine, balancers.ports, balancers.add,
                                      work.make_claims(engine, host))
        self._swept: float | None = None
        self._checked: float | None = None
        self._last: float | None = None
        # The last cluster of the page before.
        self._after = ''
        # Ids of clusters that OVN could not be told.
        self._failed: set[str] = set()
        # The get_change() with which everything was compared.
        self._compared: int | None = None

    def run_once(self):
        """Ask OVN, and tell it what it does not know."""
        row = self._balancers.sync()
        try:
            change = self._balancers.northbound.get_change()
            there = self._balancers.northbound.list()
        except exceptions.DistributorError as e:
            self._recorder.record(row, distributor_status.Answer(str(e)))
            return backend.Report({row.name: str(e)}, 0, {})
        self._recorder.record(row, distributor_status.Answer())
        self._sweep(row, there)
        work = self._find_work(row, there, change != self._compared)
        failed = backend.tell(self._balancers, work, _AT_ONCE)
        self._failed = set(failed)
        self._compared = None if failed else change
        # Last, as Neutron may be slow.
        self._nodes.run_once()
        self._check_ports()
        member_facts.count_connections(self._engine, _Silent,
                                       self._heartbeat_interval)
        return backend.Report({}, len(work) - len(failed), failed, {},
                              self._ports.take_repairs())

    def _check_ports(self):
        now = self._clock()
        if self._checked is not None and now - self._checked < _RARELY:
            return
        cluster_id, problem = None, None
        try:
            for cluster_id in sorted(self._ports.run_once()):
                self._balancers.add(cluster_id)
            self._checked = now
        except exceptions.HMSyncException as e:
            failed = (f'The port of the cluster {cluster_id} was'
                      if cluster_id else 'Ports of clusters were')
            problem = f'{failed} not checked: {e}'
        periodic.note_problem((self, _PORTS), problem)

    def _sweep(self, row, there):
        """Remove deleted clusters from OVN."""
        now = self._clock()
        if self._swept is not None and now - self._swept < _RARELY:
            return
        known = {vip.cluster_id for vip in vip_repo.get_of_distributor(
            self._engine, row.id)}
        gone = {vip.cluster_id for vip in vip_repo.get_left(self._engine)}
        problem = None
        for cluster_id in sorted((there.keys() - known) | (gone & known)):
            if cluster_repo.get(self._engine, cluster_id) is not None:
                continue
            try:
                self._balancers.remove(cluster_id)
            except (exceptions.CloudUnavailable,
                    exceptions.CloudRefused) as e:
                problem = (f'The port of the cluster {cluster_id}, which is '
                           f'gone, was not deleted: {e}')
                break
        periodic.note_problem((self, _GONE), problem)
        if problem is None:
            facts_repo.forget_connections(self._engine)
            self._swept = now

    def _find_work(self, row, there, is_changed):
        """Return the ids of clusters that OVN must be told.

        :param is_changed: whether networks and routers may have changed.
        """
        applied = self._balancers.get_applied()
        moved = self._find_moved(applied) if is_changed else set()
        among = self._choose(moved | self._find_other(applied, there))
        vips = (vip_repo.get_of_distributor(self._engine, row.id)
                if among is None else
                [vip for vip in vip_repo.get_of_clusters(self._engine, among)
                 if vip.distributor_id == row.id])
        self._balancers.forget(
            (applied.keys() if among is None else applied.keys() & among) -
            {vip.cluster_id for vip in vips})
        behind = {vip.cluster_id
                  for vip in vip_repo.get_behind(self._engine, among)}
        ports = front_repo.get_listener_ports(self._engine, among)
        found = []
        for vip in vips:
            if vip.applied_version is None:
                # Another process is creating it right now.
                continue
            known = applied.get(vip.cluster_id)
            state = there.get(vip.cluster_id)
            if (vip.cluster_id in behind | moved | self._failed or
                    known is None or not _is_same(known[0], state) or
                    state.version != vip.applied_version or
                    ports.get(vip.cluster_id, frozenset()) !=
                    known[0].ports):
                found.append(vip.cluster_id)
        return sorted(found)

    def _find_moved(self, applied):
        """Return the ids of clusters whose networks or routers changed."""
        return {
            cluster_id for cluster_id, (known, addresses) in applied.items()
            if balancers_.describe(self._balancers.northbound.read(
                known.network_id, known.vip_port_id, known.port_ids),
                addresses) != known.scene}

    @staticmethod
    def _find_other(applied, there):
        """Return the ids of clusters where OVN differs from what was told."""
        return (there.keys() - applied.keys()) | {
            cluster_id for cluster_id, (known, _addresses) in applied.items()
            if not _is_same(known, there.get(cluster_id))}

    def _choose(self, other):
        """Return the ids of clusters whose rows are read, None for all.

        :param other: ids of clusters that differ in OVN.
        """
        now = self._clock()
        last, self._last = self._last, now
        if last is None or now - last > _RECENT / 2:
            return None
        page = due_repo.get_page(self._engine, self._after, _PAGE)
        self._after = page[-1] if len(page) == _PAGE else ''
        return other.union(page, self._failed, cluster_repo.get_changed(
            self._engine, _RECENT))


def _is_same(known, state):
    """Tell whether OVN has what this process told it last.

    Another process may have told it a newer version.
    """
    return (state is not None and state.rows == 2 and
            state.version == known.version)
