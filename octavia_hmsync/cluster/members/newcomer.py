# SPDX-License-Identifier: Apache-2.0

"""Makes a new amphora serve as a member of a cluster."""

import dataclasses
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent
from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import listeners as listener_rules
from octavia_hmsync.amphora import telling
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.members import own as own_
from octavia_hmsync.cluster.members import plans as plans_
from octavia_hmsync.cluster.members import roster
from octavia_hmsync.cluster.members import silent_vip
from octavia_hmsync.cluster.rules import outcome
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync import compat
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Where keepalived of a member has the VIPs.
_LOOPBACK = 'lo'
# Seconds between two looks at an agent.
_INTERVAL = 0.3
_ERRORS = (exceptions.AgentUnreachable, exceptions.AgentRefused,
           exceptions.ClusterNotUpdated, exceptions.InvalidAddress,
           exceptions.NotPossible, exceptions.NotProven,
           exceptions.SecretsUnavailable)


class Newcomer:
    """Configures new members.

    :raises InvalidConfiguration: if the certificates that octavia.conf names
                                  cannot be used.
    """

    def __init__(self, conf, engine):
        self._conf = conf
        self._engine = engine
        self._seconds = conf[cluster_conf.GROUP].update_timeout
        self._client = agent_client.RestAgentClient(conf)

    def configure(self, load_balancer, amphora, slot, network):
        """Make an amphora serve as a member.

        Afterwards it has the VIPs silently, and serves all listeners. The
        members of its group know it before its haproxy starts.

        :param load_balancer: Octavia's data model of it; it must be locked.
        :param amphora: Octavia's data model of it; its networks are plugged.
        :param slot: the slot it is to have; None for a standby.
        :raises BuildFailed: with the reason, if it does not serve.
        """
        cluster, members = roster.read(self._engine, load_balancer.id)
        member = _find_member(members, amphora.id)
        group = peers.find_group(members, slot, cluster.peer_group_size,
                                 amphora.id)
        plans_.leave_out_refused(self._conf, self._engine, load_balancer)
        try:
            plans = plans_.Plans(self._conf, load_balancer)
            subject = agent.Agent(self._client, amphora.id,
                                  amphora.lb_network_ip, self._seconds)
            if (_may_have_all(member, slot, plans) and
                    not _find_problems(subject, load_balancer)):
                # A reload would break connections for nothing.
                return
            member_repo.raise_idle_timeout(
                self._engine, cluster.id,
                member_facts.get_idle_timeout(load_balancer.listeners))
            vip = self._render_vip(load_balancer, amphora, subject, network)
            self._tell(amphora, lambda _facts: vip, needs_facts=False)
            if load_balancer.listeners:
                # A haproxy asks its peers for their tables in its first five
                # seconds only, and a peer rejects a haproxy that it does not
                # know.
                if slot is not None:
                    self.share_tables(load_balancer, amphora.id, slot)
                plan = plans.update(group, amphora.id, slot)
                if (slot is not None and
                        cluster.affinity == cluster_repo.SOURCE_IP and
                        peers.find_teachers(members, member)):
                    plan = _start_anew(plan, load_balancer.id)
                self._tell(amphora, plan)
            _prove(subject, load_balancer, self._seconds)
        except _ERRORS as e:
            raise exceptions.BuildFailed(
                f'Amphora {amphora.id} could not be configured: {e}') from e
        digest = plans.digest()
        if slot is None or not member_repo.join_group(self._engine, member.id,
                                                      digest):
            member_repo.record(self._engine, member.id, error=None,
                               config_digest=digest)

    def _tell(self, amphora, plan, needs_facts=True):
        telling.tell_one(self._client, amphora, plan, self._seconds,
                         needs_facts)

    def _render_vip(self, load_balancer, amphora, subject, network):
        interface = subject.get_interface(amphora.vrrp_ip)
        if interface is None:
            raise exceptions.NotProven(
                f'its agent has no interface with {amphora.vrrp_ip}')
        octavia_repo.set_interface(self._engine, amphora.id, interface)
        try:
            configs = network.get_network_configs(load_balancer, amphora)
            config = configs[amphora.id].to_dict(recurse=True)
            vips = silent_vip.read_vips(load_balancer, config)
            mac = config['vrrp_port']['mac_address']
            own = own_.read(config, vips, amphora.vrrp_ip)
        except Exception as e:
            # Any network driver raises what it likes.
            raise exceptions.NotProven(
                f'the network service does not show its networks '
                f'({type(e).__name__})') from e
        return plans_.render_requests(vips, interface, mac, own)

    def share_tables(self, load_balancer, amphora_id, slot):
        """Tell the members of its group of a new amphora.

        A member that does not take it does not pass on its stick tables; it
        is only logged.

        :param load_balancer: Octavia's data model of it; it must be locked.
        :param slot: the slot that it has or is to have.
        """
        cluster, members = roster.read(self._engine, load_balancer.id)
        if not any(pool.session_persistence for pool in load_balancer.pools):
            return
        group = peers.find_group(members, slot, cluster.peer_group_size,
                                 amphora_id)
        plans = plans_.Plans(self._conf, load_balancer)
        targets = []
        for member in members:
            amphora = plans_.find_amphora(load_balancer, member.amphora_id)
            if (amphora is not None and amphora.id in group and
                    amphora.id != amphora_id and _is_configured(member)):
                targets.append(telling.Target(
                    member.id, amphora.id, amphora.lb_network_ip,
                    plans.update(group, amphora.id, member.slot)))
        for reason in telling.tell(self._client, targets,
                                   self._seconds).values():
            LOG.info('Cluster %s: a member does not share its stick tables '
                     'with amphora %s: %s', cluster.id, amphora_id, reason)


def _may_have_all(member, slot, plans):
    """Tell whether it kept its slot, and has the newest configuration."""
    return (slot is not None and member.slot == slot and
            member.state in outcome.TOLD and
            member.config_digest == plans.digest())


def _start_anew(plan, load_balancer_id):
    """Return a plan that restarts haproxy instead of reloading it.

    A reloaded haproxy gets the tables of its predecessor, and does not ask
    its peers. Only a member without clients is restarted.
    """
    path = f'loadbalancer/{load_balancer_id}'

    def make(facts):
        for request in plan(facts):
            if request.path == f'{path}/reload':
                yield dataclasses.replace(request, path=f'{path}/stop')
                request = dataclasses.replace(request, path=f'{path}/start')
            yield request

    return lambda facts: list(make(facts))


def _is_configured(member):
    """Tell whether a member serves, or will without another configuration."""
    return member.state in outcome.TOLD or (
        member.state == member_repo.BUILDING and
        member.config_digest is not None)


def _find_member(members, amphora_id):
    member = roster.find(members, amphora_id)
    if member is None:
        raise exceptions.BuildFailed(
            f'Amphora {amphora_id} is no member of its cluster any more.')
    if member.state == member_repo.FAILED:
        raise exceptions.BuildFailed(
            f'Amphora {amphora_id} is not to be used: {member.error}.')
    return member


def _prove(subject, load_balancer, seconds):
    """Wait until an agent has all listeners and silent VIPs.

    :raises NotProven: with what it lacks, after so many seconds.
    :raises AgentUnreachable, AgentRefused: if it does not answer.
    """
    deadline = time.monotonic() + seconds
    while problems := _find_problems(subject, load_balancer):
        if time.monotonic() > deadline:
            raise exceptions.NotProven('; '.join(problems))
        time.sleep(_INTERVAL)


def _find_problems(subject, load_balancer):
    statuses = subject.get_listeners()
    expected = [listener for listener in load_balancer.listeners
                if load_balancer.enabled and listener.enabled]
    problems = list(listener_rules.find_missing(
        subject.amphora_id, sorted(
            listener.id for listener in expected
            # The status of an LVS listener depends on its members.
            if listener.protocol not in compat.LVS_PROTOCOLS or
            listener.id not in statuses), statuses))
    for vip in (load_balancer.vip, *load_balancer.additional_vips):
        where = subject.get_interface(vip.ip_address)
        if where != _LOOPBACK:
            problems.append(
                f'keepalived of amphora {subject.amphora_id} has '
                f'{vip.ip_address} at {where or "no interface"}')
    return problems
