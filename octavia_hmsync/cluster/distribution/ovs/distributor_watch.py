# SPDX-License-Identifier: Apache-2.0

"""Watches whether distributors answer and do what rows say.

Housekeeping runs it. A distributor that missed a change is told here, as soon
as it answers.
"""

import collections
from concurrent import futures
import time

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.distribution import backend
from octavia_hmsync.cluster.distribution import distributor_status
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.distribution.ovs import switching
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync.cluster.distribution import port_watch
from octavia_hmsync.cluster.rules import balance
from octavia_hmsync.cluster import work
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Clusters whose distributors are told at the same time.
_AT_ONCE = 8
# Seconds between two full rounds: at all VIPs of a distributor, unless it was
# away, and at all clusters, unless other distributors answer than before. So
# what is changed in Neutron is repaired within a minute.
_FULL_ROUND = 45
_PORTS, _ALL, _RULES, _GONE = 'ports', 'all', 'rules', 'gone'
# Seconds for which a round that is not full considers a changed cluster.
_RECENT = 120
# Seconds for which a changed cluster keeps its active distributor.
_SETTLED = 300
# Seconds of giving clusters other distributors, before the next check
# whether distributors answer.
_SETTLING = distributor_status.LONGEST_ROUND


def find_lost(vips, versions):
    """Return the VIPs that a distributor has not as it is taken to. Pure.

    :param vips: its VIPs, from rows.
    :param versions: {id of a cluster: version in force there}.
    """
    return [vip for vip in vips if vip.applied_version and
            versions.get(vip.cluster_id) != vip.applied_version]


def find_work(vips, behind):
    """Return the clusters whose distributors are to be told something. Pure.

    :param behind: the VIPs whose distributor lacks the newest version.
    :returns: ids, sorted.
    """
    by_cluster = collections.defaultdict(list)
    for vip in vips:
        by_cluster[vip.cluster_id].append(vip)
    found = {vip.cluster_id for vip in behind
             if vip.status == distributor_repo.ONLINE}
    for cluster_id, own in by_cluster.items():
        usable = [vip for vip in own if vip.port_id and
                  vip.status == distributor_repo.ONLINE]
        # The active one does not answer, and another one does.
        if usable and not any(vip.active for vip in usable):
            found.add(cluster_id)
    return sorted(found)


def find_unsettled(vips, enabled, number):
    """Return the clusters that could have more or better distributors. Pure.

    :param enabled: {id: whether it answers}, of the distributors in the
                    option that are not drained.
    :param number: of distributors that each cluster should have.
    :returns: ids, sorted.
    """
    online = {key for key, is_online in enabled.items() if is_online}
    by_cluster = collections.defaultdict(set)
    for vip in vips:
        by_cluster[vip.cluster_id].add(vip.distributor_id)
    return sorted(
        cluster_id for cluster_id, own in by_cluster.items()
        if (online - own and len(own & enabled.keys()) < number) or
        (own - enabled.keys() and own & online))


class DistributorWatch:
    """Checks all distributors, each time run_once() is called.

    :param heartbeat_interval: seconds between two heartbeats of an amphora.
    :param interval: seconds between two rounds.
    :param host: the name of this controller.
    :param rules: a peer_rules.PeerRules; None if members admit distributors
                  anyway.
    :param looks: unsuited.Looks at what clusters do not work with.
    """

    def __init__(self, engine, distributors, vips, clock=time.monotonic,
                 heartbeat_interval=10, interval=5, host='distributors',
                 rules=None, looks=()):
        self._engine = engine
        self._claims = work.make_claims(engine, host, clock)
        self._rules = rules
        self._recorder = distributor_status.Recorder(engine, interval)
        self._distributors = distributors
        self._vips = vips
        self._ports = port_watch.make(engine, distributors.ports, vips.repair,
                                      self._claims)
        self._looks = looks
        self._clock = clock
        self._heartbeat_interval = heartbeat_interval
        # Time of the last full round, by the id of a distributor or the kind.
        self._checked: dict[str, float] = {}
        # Distributors that answered at the last full round, and clusters with
        # a distributor that lacks the newest version, since then.
        self._online: set[str] | None = None
        self._behind: set[str] = set()
        # The last cluster that got other distributors: the next pass goes on
        # after it.
        self._settled = ''

    def run_once(self):
        """Ask all distributors, and tell them what they do not know.

        :raises InvalidConfiguration: if the option or a file that it names
                                      cannot be used.
        """
        rows = [row for row in self._vips.sync() if row.enabled]
        problems, full = {}, {}
        if rows:
            with futures.ThreadPoolExecutor(min(len(rows), 16)) as executor:
                for row, answer in zip(rows, executor.map(self._ask, rows)):
                    self._record(row, answer)
                    if answer.problem:
                        problems[row.name] = answer.problem
                    if answer.is_full is not None:
                        full[row.name] = answer.is_full
        online = {row.id for row in rows if row.name not in problems}
        is_full = online != self._online or self._is_due(_ALL)
        # First: clients do not reach the VIPs of a dead distributor.
        told, failed = self._tell(is_full)
        if self._tidy(rows, problems, online, is_full):
            more, failed_now = self._tell(False)
            told, failed = told + more, {**failed, **failed_now}
        member_facts.count_connections(
            self._engine, self._distributors.client_of,
            self._heartbeat_interval)
        return backend.Report(problems, told, failed, full,
                              self._ports.take_repairs())

    def _tidy(self, rows, problems, online, is_full):
        """Do the rare things, which wait for Neutron.

        :returns: whether there may be more to tell.
        """
        is_due = self._is_due(_PORTS)
        is_all_done = is_full and self._forget_left(
            {row.id for row in rows})
        if is_due:
            for cluster_id in sorted(self._switch_ports()):
                self._settle_one(cluster_id)
            for look in self._looks:
                look.run_once()
        if is_full:
            is_all_done &= self._settle({
                row.id: row.name not in problems for row in rows
                if row.takes_vips})
            if is_all_done and not problems:
                self._even_out({row.id for row in rows if row.takes_vips})
            member_facts.record_ports(self._engine)
            facts_repo.forget_connections(self._engine)
            self._online = online if is_all_done else None
            self._checked[_ALL] = self._clock()
        return is_due or is_full

    def _tell(self, is_full):
        """Tell distributors what they do not know.

        :returns: the number of clusters told, and {id of a cluster: why it
                  was not}.
        """
        work = self._find_work(is_full)
        failed = backend.tell(self._distributors, work, _AT_ONCE)
        if work:
            LOG.info('Distributors of %d clusters lacked the newest version: '
                     '%d of these clusters were not told', len(work),
                     len(failed))
        return len(work) - len(failed), failed

    def _find_work(self, is_full):
        """Return the clusters whose distributors are to be told something.

        :param is_full: whether to look at all clusters; else only at
                        clusters that changed since the last full round.
        """
        if is_full:
            vips = vip_repo.get_all(self._engine)
            behind = vip_repo.get_behind(self._engine)
        else:
            among = self._behind | cluster_repo.get_changed(self._engine,
                                                            _RECENT)
            vips = vip_repo.get_of_clusters(self._engine, among)
            behind = vip_repo.get_behind(self._engine, among)
        work = find_work(vips, behind)
        self._behind = {vip.cluster_id for vip in behind}.union(work)
        return work

    def _ask(self, row):
        """Ask one distributor; its errors are in the answer."""
        distributor = self._distributors.client_of(row.url)
        is_full = (row.status != distributor_repo.ONLINE or
                   self._is_due(row.id))
        answer = distributor_status.ask(distributor, is_full)
        if answer.versions is not None:
            self._checked[row.id] = self._clock()
        return answer

    def _is_due(self, key):
        """Tell whether the last full round of this key is long ago."""
        checked = self._checked.get(key)
        return checked is None or self._clock() - checked >= _FULL_ROUND

    def _switch_ports(self):
        """Switch ports on or off where a dead or late worker left them wrong.

        :returns: ids of the clusters with a distributor without a port.
        """
        ports = self._distributors.ports
        problem, without = None, ()
        try:
            # Rows are read after the ports: what they say is newer.
            off = (ports.get_switched_off()
                   if vip_repo.get_all(self._engine) else ())
            for vip in vip_repo.get_all(self._engine):
                if vip.port_id not in off and switching.is_in_doubt(vip):
                    self._distributors.switch.settle(vip)
                if vip.port_id in off and not vip.error:
                    LOG.info('The port of the distributor %s for the cluster '
                             '%s was off, and is switched on',
                             vip.distributor_name, vip.cluster_id)
                    ports.switch(vip.port_id, True)
            without = self._ports.run_once()
            self._checked[_PORTS] = self._clock()
        except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
            problem = f'Ports of distributors were not checked: {e}'
        self._note(_PORTS, problem)
        if problem is None:
            self._admit()
        return without

    def _admit(self):
        """Ensure that members admit the probes of distributors."""
        if self._rules is None:
            return
        problem = None
        try:
            self._rules.ensure(front_repo.get_probers(self._engine))
        except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
            problem = f'Rules of security groups were not checked: {e}'
        self._note(_RULES, problem)

    def _note(self, what, problem):
        periodic.note_problem((self, what), problem)

    def _settle(self, enabled):
        """Give clusters as many distributors as they can have.

        :param enabled: as for find_unsettled().
        :returns: False if there was no time for all clusters.
        """
        deadline = self._clock() + _SETTLING
        gone = {vip.id for vip in vip_repo.get_left(self._engine)}
        # A VIP that was never told is being made right now.
        vips = [vip for vip in vip_repo.get_all(self._engine)
                if vip.id not in gone and vip.applied_version is not None]
        found = find_unsettled(vips, enabled, cluster_vips.NUMBER)
        # Round robin: a cluster that fails does not block the others.
        for cluster_id in sorted(found, key=lambda each: (
                each <= self._settled, each)):
            if self._clock() >= deadline:
                return False
            self._settled = cluster_id
            self._settle_one(cluster_id)
        return True

    def _even_out(self, eligible):
        """Move one cluster to a distributor that is active for fewer.

        Established connections go on, as with "distributor move".

        :param eligible: ids of the distributors that answer and are not
                         drained.
        """
        versions = cluster_repo.get_versions(self._engine)
        move = balance.find_move(
            vip_repo.get_all(self._engine), versions, eligible,
            cluster_repo.get_changed(self._engine, _SETTLED))
        if move is None:
            return
        cluster_id, distributor_id = move
        if vip_repo.set_active(self._engine, cluster_id, distributor_id,
                               versions[cluster_id]):
            LOG.info('Distributor %s answers for cluster %s now, as it has '
                     'fewer VIPs', distributor_id, cluster_id)
            backend.tell(self._distributors, [cluster_id], _AT_ONCE)

    def _settle_one(self, cluster_id):
        # With the claim no other process creates or deletes it meanwhile.
        held = self._claims.claim(cluster_id)
        if held is None:
            return
        try:
            self._vips.settle(cluster_id, held.look)
        except exceptions.HMSyncException as e:
            LOG.info('The cluster %s cannot have other distributors: %s',
                     cluster_id, e)
        except exceptions.Interrupted as e:
            LOG.info('The cluster %s is left to its claim owner, or to its '
                     'deletion (%s).', cluster_id, type(e).__name__)
        finally:
            held.release()

    def _record(self, row, answer):
        self._recorder.record(row, answer)
        if answer.versions is not None:
            self._take_back(row, answer)
            for vip in find_lost(vip_repo.get_of_distributor(
                    self._engine, row.id), answer.versions):
                # A worker may have told it since it was asked.
                if vip_repo.forget_applied(self._engine, vip.id,
                                           vip.applied_version):
                    self._behind.add(vip.cluster_id)
                    LOG.info('The distributor %s has lost version %s of the '
                             'cluster %s', row.name, vip.applied_version,
                             vip.cluster_id)

    def _take_back(self, row, answer):
        """Make the active distributor answer for VIPs that it has left.

        It was cut off while another one was active. It obeys only a version
        that it does not know yet.
        """
        for vip in vip_repo.get_of_distributor(
                self._engine, row.id) if answer.left else ():
            version = answer.versions.get(vip.cluster_id)
            if (vip.active and vip.cluster_id in answer.left and
                    cluster_repo.raise_version(self._engine, vip.cluster_id,
                                               version)):
                self._behind.add(vip.cluster_id)
                LOG.warning('The distributor %s has left the VIP of the '
                            'cluster %s to another distributor that announced '
                            'it, and is told to answer for it again: see '
                            'whether another distributor is cut off.',
                            row.name, vip.cluster_id)

    def _forget_left(self, asked):
        """Remove deleted clusters from distributors.

        :param asked: ids of the distributors in the option.
        :returns: False if ports could not be deleted yet.
        """
        left = vip_repo.get_left(self._engine)
        problem = None
        for cluster_id in sorted({vip.cluster_id for vip in left}):
            try:
                self._distributors.ports.delete(cluster_id)
            except (exceptions.CloudUnavailable,
                    exceptions.CloudRefused) as e:
                problem = (f'Ports of the cluster {cluster_id}, which is '
                           f'gone, were not deleted: {e}')
                break
        self._note(_GONE, problem)
        if problem:
            return False
        # A distributor that left the option is not told any more.
        for vip in left:
            if vip.distributor_id not in asked:
                vip_repo.delete(self._engine, vip.id)
        self._vips.forget([
            vip for vip in left if vip.distributor_id in asked and
            vip.status == distributor_repo.ONLINE])
        return True
