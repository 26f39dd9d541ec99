# SPDX-License-Identifier: Apache-2.0

"""Brings the rows of a cluster to its distributors.

Callers change rows of a cluster and then call apply(). Several controllers
may do so at once, and each may die at any point: the version decides which
document stays, and housekeeping tells the distributors that were not told.
"""

from concurrent import futures
import dataclasses

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import vip as addresses_repo
from octavia_hmsync.cluster.distribution import backend
from octavia_hmsync.cluster.distribution.ovs import documents
from octavia_hmsync.cluster.distribution.ovs import switching
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync.cluster.managers import signs
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync.cluster.rules import handover
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.distributor import client
from octavia_hmsync.distributor import document as doc
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Reads of the rows in one call, at most; each because they changed or because
# a distributor could not be told.
_ATTEMPTS = 12
# Seconds to wait for the others once the active one has answered.
_GRACE = 2


@dataclasses.dataclass(frozen=True)
class _Plan:
    cluster: cluster_repo.Cluster
    vips: list[vip_repo.VIP]
    documents: dict[str, doc.Document]


@dataclasses.dataclass(frozen=True)
class _Told:
    """The result of telling one distributor."""

    answer: handover.Answer
    problem: str = ''
    version: int = 0


def make_client(conf, url):
    """Make a client for a distributor, with the present certificates.

    :raises InvalidConfiguration: if a certificate cannot be used.
    """
    opts = conf[cluster_conf.GROUP]
    context = client.create_context(
        opts.distributor_ca or conf.haproxy_amphora.server_ca,
        opts.distributor_client_cert or conf.haproxy_amphora.client_cert,
        opts.distributor_client_key)
    # The client adds the two up.
    connect_timeout = min(2, opts.distributor_timeout / 2)

    return client.Client(
        url, context, connect_timeout=connect_timeout,
        timeout=opts.distributor_timeout - connect_timeout)


class Distributors:
    """Tells the distributors of clusters what to do. Threads may share it.

    :param ports: a ports.Ports; made here by default.
    :param make_client: returns a client for a URL; make_client() by default.
    """

    def __init__(self, conf, engine, ports=None, make_client=None):
        self._conf = conf
        self._engine = engine
        self.ports = ports or cluster_ports.Ports(conf)
        self.switch = switching.Switch(engine, self.ports)
        self._make_client = make_client

    def client_of(self, url):
        """Return the client of a distributor; raise InvalidConfiguration."""
        if self._make_client is None:
            return make_client(self._conf, url)
        return self._make_client(url)

    def apply(self, cluster_id):
        """Tell the distributors of a cluster what its rows say.

        If the active one cannot be told, another one becomes active.

        :raises InvalidConfiguration: if no distributor can be asked at all.
        """
        lost: dict[str, str] = {}
        told: dict[str, _Told] = {}
        outcome = None
        for _attempt in range(_ATTEMPTS):
            plan = self._read(cluster_id)
            chosen = handover.choose_active(plan.vips)
            if chosen and chosen not in lost:
                self._move(plan, chosen, lost)
                continue
            told = self._tell(plan, lost)
            lost.update({
                key: one.problem for key, one in told.items()
                if one.answer == handover.Answer.LOST})
            decision = handover.decide(
                plan.cluster.version, plan.vips,
                {key: one.answer for key, one in told.items()},
                [one.version for one in told.values() if one.version], lost)
            if decision.step == handover.Step.DONE:
                outcome = _outcome(plan, told, lost)
                self._switch_off(plan, outcome)
                if self._is_newest(plan):
                    self._share(plan, told)
                    return outcome
            elif decision.step == handover.Step.AGAIN:
                cluster_repo.raise_version(self._engine, cluster_id,
                                           decision.version)
            elif decision.step == handover.Step.MOVE:
                self._move(plan, decision.move_to, lost)
            else:
                break
        else:
            # Other processes keep changing it, and tell what they change.
            if outcome:
                return outcome
        reasons = '; '.join(sorted({
            *lost.values(), *(one.problem for one in told.values()
                              if one.problem)}))
        raise exceptions.NoDistributor(
            f'No distributor took the configuration of the cluster '
            f'{cluster_id}: {reasons or "it has none"}. Traffic goes on as '
            f'before where one is active.')

    def _read(self, cluster_id):
        """Read consistent rows, and make documents of them."""
        while True:
            cluster = backend.get_cluster(self._engine, cluster_id)
            members = member_repo.get_of_cluster(self._engine, cluster_id)
            vips = vip_repo.get_of_cluster(self._engine, cluster_id)
            own = front_repo.get_own_addresses(self._engine, cluster_id)
            addresses = addresses_repo.get(self._engine,
                                           cluster.load_balancer_id)
            again = cluster_repo.get(self._engine, cluster_id)
            # Any change of these rows raises the version.
            if again is not None and again.version == cluster.version:
                break
        pin_timeout = self._conf[cluster_conf.GROUP].pin_timeout
        return _Plan(cluster, vips, {
            vip.distributor_id: documents.make(
                cluster, members, addresses.subnets if addresses else (),
                vip, pin_timeout, vips, own)
            for vip in vips if vip.port_id})

    def _is_newest(self, plan):
        cluster = cluster_repo.get(self._engine, plan.cluster.id)
        return cluster is None or cluster.version == plan.cluster.version

    def _move(self, plan, distributor_id, lost):
        names = {vip.distributor_id: vip.distributor_name
                 for vip in plan.vips}
        reason = '; '.join(lost.values())
        if vip_repo.set_active(self._engine, plan.cluster.id, distributor_id,
                               plan.cluster.version, signs.choose_hold(
                                   situation.get_last_move(plan.cluster))):
            LOG.info('The distributor %s becomes active for the cluster %s%s',
                     names[distributor_id], plan.cluster.id,
                     f': {reason}' if reason else '')

    def _tell(self, plan, lost):
        """Tell all that can be told; return {distributor id: its _Told}."""
        told = {}
        for stage in handover.order(plan.vips, lost):
            for vip, answer in self._tell_at_once(plan, stage):
                told[vip.distributor_id] = self._record(plan, vip, answer)
        return told

    def _tell_at_once(self, plan, stage):
        """Tell some distributors, each in a thread.

        A slow one counts as LOST soon after the active one has answered. It
        is told again, as the version may be in force there or not.

        :returns: a list of (VIP, _Told).
        """
        clients = [self.client_of(vip.url) for vip in stage]
        executor = futures.ThreadPoolExecutor(len(stage))
        asked = {executor.submit(
            _put, one, plan.cluster.id,
            plan.documents[vip.distributor_id]): vip
            for vip, one in zip(stage, clients)}
        executor.shutdown(wait=False)
        active = [future for future, vip in asked.items() if vip.active]
        futures.wait(active or asked)
        futures.wait(asked, timeout=_GRACE)
        return [(vip, future.result() if future.done() else _Told(
            handover.Answer.LOST, f'the distributor {vip.url} is slow: it '
                                  f'is told again'))
                for future, vip in asked.items()]

    def _share(self, plan, told):
        """Copy the list of changes of the active distributor to standbys.

        A standby that missed a change or got it late could not tell to which
        member connections belong that began meanwhile, if it took over.
        """
        active = next(vip for vip in plan.vips if vip.active)
        standing_by = [
            vip for vip in plan.vips if not vip.active and
            told.get(vip.distributor_id, _Told(handover.Answer.SKIPPED))
            .answer == handover.Answer.TOOK]
        if not standing_by:
            return
        try:
            transition = self.client_of(active.url).get_transition(
                plan.cluster.id)
            for vip in standing_by if transition else ():
                self.client_of(vip.url).put_transition(plan.cluster.id,
                                                       transition)
        except exceptions.DistributorError as e:
            # Another process was faster.
            LOG.debug('The distributors of the cluster %s go each by its own '
                      'list of changes: %s', plan.cluster.id, e)

    def _record(self, plan, vip, told):
        """Record the answer of a distributor.

        :returns: the answer, or LOST if its port could not be switched on.
        """
        if told.answer == handover.Answer.TOOK:
            told = self._switch_on(vip)
        if told.answer == handover.Answer.TOOK:
            vip_repo.record_applied(self._engine, vip.id,
                                    plan.cluster.version, vip.active)
        elif told.answer != handover.Answer.NEWER:
            vip_repo.record_error(self._engine, vip.id, told.problem,
                                  plan.cluster.version)
            if vip.error != told.problem:
                LOG.warning('A distributor of the cluster %s was not told '
                            'version %s: %s', plan.cluster.id,
                            plan.cluster.version, told.problem)
        return told

    def _switch_on(self, vip):
        """Ensure that the port of a distributor that took a version is on."""
        took = _Told(handover.Answer.TOOK)
        if vip.applied_active is None and vip.applied_version is not None:
            try:
                self.ports.switch(vip.port_id, True)
            except (exceptions.CloudUnavailable,
                    exceptions.CloudRefused) as e:
                return _Told(handover.Answer.LOST, str(e))
        elif vip.active and not vip.applied_active:
            # It is off only if another process died while it switched.
            self.switch.settle(vip)
        return took

    def _switch_off(self, plan, outcome):
        """Switch off ports of distributors that may wrongly answer ARP."""
        for vip in plan.vips:
            problem = outcome.problems.get(vip.distributor_name)
            if not problem or vip.active or not vip.port_id:
                continue
            vip_repo.record_error(self._engine, vip.id, problem,
                                  plan.cluster.version)
            # Repeated where it may have failed before.
            if (vip.applied_active is not False and
                    vip.applied_version is not None and
                    vip_repo.forget_active(self._engine, vip.id,
                                           vip.applied_version)):
                self.switch.settle(vip)


def _put(distributor, cluster_id, document):
    """Tell one distributor; its errors are in the answer."""
    try:
        distributor.put_vip(cluster_id, document)
        return _Told(handover.Answer.TOOK)
    except exceptions.DistributorRefused as e:
        return _Told(handover.Answer.NEWER, str(e), e.in_force)
    except exceptions.DistributorRejected as e:
        return _Told(handover.Answer.REJECTED, str(e))
    except exceptions.DistributorError as e:
        return _Told(handover.Answer.LOST, str(e))


def _outcome(plan, told, lost):
    active = next(vip for vip in plan.vips if vip.active)
    problems = {}
    for vip in plan.vips:
        one = told.get(vip.distributor_id)
        if one is None or one.answer != handover.Answer.TOOK:
            problems[vip.distributor_name] = (
                (one and one.problem) or lost.get(vip.distributor_id) or
                vip.error or 'it does not answer')
    return backend.Outcome(plan.cluster.version, active.distributor_name,
                           problems)
