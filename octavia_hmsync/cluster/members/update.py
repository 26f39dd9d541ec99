# SPDX-License-Identifier: Apache-2.0

"""Brings the members of a cluster to what Octavia has of its load balancer.

All members are told at once. If enough have taken a change, the others are
drained: no new connection meets an old configuration.
"""

from oslo_log import log as logging

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import telling
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.members import newcomer
from octavia_hmsync.cluster.members import plans as plans_
from octavia_hmsync.cluster.members import roster
from octavia_hmsync.cluster.members import trial
from octavia_hmsync.cluster.rules import outcome
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)


class Updater:
    """Tells members of clusters.

    :raises InvalidConfiguration: if the certificates that octavia.conf names
                                  cannot be used.
    """

    def __init__(self, conf, engine):
        self._conf = conf
        self._engine = engine
        self._seconds = conf[cluster_conf.GROUP].update_timeout
        self._client = agent_client.RestAgentClient(conf)
        self._backend = backends.make(conf, engine)

    def update(self, load_balancer):
        """Give all members the listeners of their load balancer.

        :raises SecretsUnavailable: if a certificate cannot be fetched; no
                                    member was told anything then.
        :raises NotPossible: if Neutron does not show their ports; likewise.
        :raises ClusterNotUpdated: if too few have taken it.
        :raises NoDistributor: if no distributor can drain the members that
                               have not taken it.
        """
        self._leave_out_refused(load_balancer)
        if load_balancer.listeners:
            plans = plans_.Plans(self._conf, load_balancer)
            self._leave_ports(load_balancer)
            self._change(load_balancer, plans.update, plans)
            self._set_ports(load_balancer)
            self._keep_clients(load_balancer)

    def _leave_out_refused(self, load_balancer):
        plans_.leave_out_refused(self._conf, self._engine, load_balancer)

    def _leave_ports(self, load_balancer, without=None):
        """Forget the ports at which members will serve no more.

        Distributors are told at once if no port is left: else they would see
        all members DOWN until housekeeping tells them.
        """
        cluster, _members = roster.read(self._engine, load_balancer.id)
        ports = (member_facts.parse_ports(cluster.ports) &
                 member_facts.choose_ports(load_balancer, without))
        if member_facts.format_ports(ports) == (cluster.ports or ''):
            return
        cluster_repo.set_ports(self._engine, cluster.id, ports)
        if not ports:
            self._try_to_tell(cluster)

    def _set_ports(self, load_balancer):
        """Record the ports at which members serve now.

        Housekeeping tells distributors: the change need not wait for that.
        """
        cluster, _members = roster.read(self._engine, load_balancer.id)
        ports = member_facts.choose_ports(load_balancer)
        if member_facts.format_ports(ports) != (cluster.ports or ''):
            cluster_repo.set_ports(self._engine, cluster.id, ports)

    def _keep_clients(self, load_balancer):
        """Switch a cluster to SOURCE_IP where a pool needs it."""
        cluster, _members = roster.read(self._engine, load_balancer.id)
        chosen = sizes.choose_affinity(cluster.affinity, load_balancer.pools)
        if cluster_repo.set_affinity(self._engine, cluster.id, chosen):
            LOG.info('Cluster %s keeps the connections of a client together '
                     'now: a pool has session persistence.', cluster.id)
            self._try_to_tell(cluster)

    def _try_to_tell(self, cluster):
        """Tell distributors; housekeeping does it later if that fails.

        The members have taken the change: it has not failed.
        """
        try:
            self._backend.apply(cluster.id)
        except exceptions.HMSyncException as e:
            LOG.info('Cluster %s: its distributors are told later: %s',
                     cluster.id, e)

    def delete_listener(self, listener):
        """Remove a listener from all members; errors as of update()."""
        self._leave_out_refused(listener.load_balancer)
        plans = plans_.Plans(self._conf, listener.load_balancer,
                             without=listener)
        self._leave_ports(listener.load_balancer, listener.id)
        self._change(listener.load_balancer, plans.delete, plans)

    def act(self, load_balancer, function):
        """Make all members start or reload what serves the listeners.

        :param function: ``start`` or ``reload``.
        :raises ClusterNotUpdated: as update().
        """
        self._change(load_balancer, plans_.make_act(load_balancer, function),
                     needs_facts=False)

    def _change(self, load_balancer, make_plan, plans=None,
                needs_facts=True):
        """Tell all members, and drain members that did not take it.

        A new configuration goes to one member first.

        :param make_plan: takes the ids of the amphorae that share stick
                          tables, the id of the amphora and the slot of the
                          member, and returns the plan of a Target.
        :param plans: the Plans, if it is a new configuration.
        """
        cluster, members = roster.read(self._engine, load_balancer.id)
        told = [member for member in members if member.state in outcome.TOLD]
        targets, failures = [], {}
        for member in told:
            amphora = plans_.find_amphora(load_balancer, member.amphora_id)
            if amphora is None:
                failures[member.id] = (f'amphora {member.amphora_id}: is '
                                       f'deleted')
                continue
            group = peers.find_group(members, member.slot,
                                     cluster.peer_group_size, amphora.id)
            targets.append(telling.Target(
                member.id, amphora.id, amphora.lb_network_ip,
                make_plan(group, amphora.id, member.slot), needs_facts,
                is_awaited=member.state != outcome.DRAINING))
        tried = []
        if plans is not None:
            # What members have died of may be over.
            cluster_repo.end_hold(self._engine, cluster.id)
            member_repo.raise_idle_timeout(
                self._engine, cluster.id,
                member_facts.get_idle_timeout(load_balancer.listeners))
            tried, refusals = self._try(load_balancer, cluster, told, targets,
                                        plans.get_served())
            failures.update(refusals)
        failures.update(telling.tell(
            self._client, [target for target in targets
                           if target.member_id not in tried], self._seconds))
        LOG.info('Cluster %s: %d of the %d members that were told have taken '
                 'a change', cluster.id, len(told) - len(failures), len(told))
        if plans is not None:
            digest = plans.digest()
            # OVN distributes by port, also at ports that are not probed.
            cluster_repo.mark(self._engine, cluster.id)
            for member in told:
                if member.id not in failures:
                    self._record(member, digest)
                else:
                    # It may have a part of the change.
                    member_repo.record_config(self._engine, member, None)
        self._judge(cluster, told, failures)

    def _try(self, load_balancer, cluster, told, targets, served):
        """Try a change with one member.

        :returns: the ids of the members that were told, and {id of a member:
                  why it did not take it}.
        :raises trial.Refused: if the change is at fault.
        """
        active = {member.id: member for member in told
                  if member.state == outcome.ACTIVE}
        subject = trial.Trial(
            self._client, self._hear,
            self._conf.health_manager.heartbeat_interval, load_balancer.id,
            served,
            [listener.id for listener in load_balancer.listeners
             if listener.protocol in compat.LVS_PROTOCOLS], self._seconds)
        try:
            tried = subject.run(sorted(
                (target for target in targets
                 if target.member_id in active and target.lb_network_ip),
                key=lambda target: active[target.member_id].health not in (
                    None, member_repo.HEALTHY)))
        except trial.Refused as e:
            LOG.warning('Cluster %s stays as it is, because a member did not '
                        'take a change: %s', cluster.id, e)
            for member_id, reason in subject.failures.items():
                member_repo.record(self._engine, member_id, error=reason)
            for member_id in e.left:
                member_repo.record_config(self._engine, active[member_id],
                                          None)
            if e.left:
                self._judge(cluster, told, e.left)
            raise
        return tried, subject.failures

    def _hear(self, amphora_id):
        """Return the Heard of an amphora; None if that cannot be told."""
        if not plans_.are_statistics_kept(self._conf):
            return None
        try:
            return facts_repo.get_heard(self._engine, amphora_id)
        except Exception as e:
            if not api.is_database_error(e):
                raise
            return None

    def _record(self, member, digest):
        # The error of a draining member says why it drains: it stays.
        details = {} if member.state == outcome.DRAINING else {'error': None}
        member_repo.record_config(self._engine, member, digest, **details)

    def _judge(self, cluster, told, failures):
        verdict = outcome.judge({member.id: member.state for member in told},
                                failures, cluster.min_size)
        if not verdict.is_success:
            for member_id, reason in failures.items():
                member_repo.record(self._engine, member_id, error=reason)
            raise exceptions.ClusterNotUpdated(_explain(cluster, told,
                                                        failures))
        is_drained = bool(verdict.to_drain)
        for member_id in verdict.to_fail:
            LOG.warning('A standby of cluster %s did not take a change, and '
                        'is replaced: %s', cluster.id, failures[member_id])
            if not member_repo.set_state(
                    self._engine, member_id, (member_repo.STANDBY,),
                    member_repo.FAILED, error=failures[member_id]):
                # The standby has taken a slot meanwhile.
                is_drained |= member_repo.set_state(
                    self._engine, member_id, (member_repo.ACTIVE,),
                    member_repo.DRAINING, error=failures[member_id])
        for member in told:
            if member.id in failures and member.state == outcome.DRAINING:
                # It may have returned to ACTIVE while all were told.
                is_drained |= member_repo.set_state(
                    self._engine, member.id, (member_repo.ACTIVE,),
                    member_repo.DRAINING, error=failures[member.id])
        for member_id in verdict.to_drain:
            LOG.warning('A member of cluster %s did not take a change, and '
                        'gets no new connections: %s', cluster.id,
                        failures[member_id])
            member_repo.set_state(
                self._engine, member_id, (member_repo.ACTIVE,),
                member_repo.DRAINING, error=failures[member_id])
        if is_drained:
            self._backend.apply(cluster.id)

    # One amphora

    def tell_amphora(self, amphora, function, *args):
        """Call a method of Octavia's driver for one amphora.

        :param amphora: Octavia's data model of it; the first argument.
        :raises ClusterNotUpdated: with the reason, if it did not take it.
        """
        planner = compat_driver.Planner()
        self._tell_one(amphora, lambda _facts: planner.plan(
            function, amphora, *args).get(amphora.id, []), needs_facts=False)

    def tell_member(self, amphora, function, *args):
        """Call a method of Octavia's driver for one member of many.

        A member that does not take it is drained if enough others are there;
        a member that does not serve yet becomes FAILED.

        :raises ClusterNotUpdated: if it did not take it, and without it too
                                   few members serve.
        """
        try:
            self.tell_amphora(amphora, function, *args)
        except exceptions.ClusterNotUpdated as e:
            self._do_without(amphora, str(e))

    def _do_without(self, amphora, reason):
        cluster, members = roster.read(self._engine, amphora.load_balancer_id)
        failed = roster.find(members, amphora.id)
        if failed is None:
            raise exceptions.ClusterNotUpdated(reason)
        if failed.state == member_repo.BUILDING:
            # The worker that builds it finds the reason there.
            member_repo.set_state(
                self._engine, failed.id, (member_repo.BUILDING,),
                member_repo.FAILED, error=reason)
            return
        self._judge(cluster, [member for member in members
                              if member.state in outcome.TOLD],
                    {failed.id: reason})

    def update_amphora(self, load_balancer, amphora):
        """Give one amphora the listeners of its load balancer.

        :raises SecretsUnavailable, NotPossible: as update().
        :raises ClusterNotUpdated: with the reason, if it did not take it.
        """
        self._leave_out_refused(load_balancer)
        if not load_balancer.listeners:
            return
        cluster, members = roster.read(self._engine, load_balancer.id)
        member = roster.find(members, amphora.id)
        plans = plans_.Plans(self._conf, load_balancer)
        group = peers.find_group(members, member and member.slot,
                                 cluster.peer_group_size, amphora.id)
        self._tell_one(amphora, plans.update(group, amphora.id,
                                             member and member.slot))
        if member is not None:
            self._record(member, plans.digest())

    def act_on(self, load_balancer, amphora, function):
        """As act(), for one amphora; raise ClusterNotUpdated."""
        self._tell_one(amphora, plans_.make_act(load_balancer, function)(
            None, amphora.id, None), needs_facts=False)

    def give(self, amphora, requests):
        """Send requests to the agent of one amphora.

        :raises ClusterNotUpdated: with the reason, if it rejects one.
        """
        self._tell_one(amphora, lambda _facts: requests, needs_facts=False)

    def _tell_one(self, amphora, plan, needs_facts=True):
        telling.tell_one(self._client, amphora, plan, self._seconds,
                         needs_facts)


def _explain(cluster, told, failures):
    active = [member.id for member in told
              if member.state == outcome.ACTIVE]
    took = len(active) - len(failures.keys() & set(active))
    reasons = '; '.join(failures[member_id] for member_id in sorted(failures))
    return (f'{took} of {len(active)} active members of cluster {cluster.id} '
            f'have taken the change, and {cluster.min_size} must: '
            f'{reasons or "there is no other one"}')


def configure(work, load_balancer, amphora, slot):
    """Make a new amphora serve; see Newcomer.configure()."""
    newcomer.Newcomer(work.conf, work.engine).configure(
        load_balancer, amphora, slot, work.network)
