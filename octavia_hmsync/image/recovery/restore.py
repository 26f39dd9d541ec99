# SPDX-License-Identifier: Apache-2.0

"""Restores a load balancer that serves, but was left by a failed failover.

Octavia's failover builds the new amphora first. If that fails, the old one
serves on, in ERROR, under a load balancer in ERROR. If the worker dies, the
load balancer stays PENDING_UPDATE for good.
"""

import contextlib
import dataclasses

from octavia_hmsync.amphora import agent as agents
from octavia_hmsync.amphora import agent_client
from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import restore as restore_repo
from octavia_hmsync.image.recovery import amphora_ports
from octavia_hmsync.image.recovery import restorable
from octavia_hmsync.image.recovery import serving


class Restorer:
    """Restores load balancers, in PENDING_UPDATE for older_than at least."""

    def __init__(self, conf, engine, older_than):
        self._conf = conf
        self._engine = engine
        self._older_than = older_than

    def look(self, load_balancer_id):
        """Find out whether a load balancer may be restored.

        :returns: (restore_repo.Snapshot, restorable.Verdict).
        :raises CloudUnavailable, InvalidConfiguration: if no service can be
                                                        asked at all.
        :raises NotPossible: if its amphorae have agents of another kind.
        """
        snapshot = restore_repo.get(self._engine, load_balancer_id)
        if snapshot is None:
            raise exceptions.NotPossible(
                f'There is no load balancer {load_balancer_id}: see '
                f'"openstack loadbalancer list".')
        rows = restorable.check_load_balancer(
            snapshot, self._older_than,
            self._conf.task_flow.jobboard_enabled)
        if serving.has_failed(rows):
            return snapshot, restorable.Verdict(rows)
        driver = self._conf.controller_worker.amphora_driver
        if driver not in compat.REST_DRIVERS:
            raise exceptions.NotPossible(
                f'It is unknown what amphorae of the driver {driver} do: '
                f'only amphorae of {compat.REST_DRIVER} can be asked.')
        client = agent_client.RestAgentClient(self._conf)
        known = compute.connect(self._conf)
        ports = amphora_ports.Ports(self._conf, cloud.connect(self._conf))
        verdict = restorable.judge(
            snapshot,
            [self._ask(snapshot, amphora, client, known, ports)
             for amphora in snapshot.amphorae],
            self._conf.health_manager.heartbeat_timeout)
        return snapshot, dataclasses.replace(verdict,
                                             rows=rows + verdict.rows)

    def restore(self, snapshot, verdict):
        """Set new statuses, or raise NotPossible if something has changed."""
        if not restore_repo.restore(self._engine, snapshot, verdict.amphorae,
                                    verdict.detached, verdict.statuses):
            raise exceptions.NotPossible(
                f'Load balancer {snapshot.id}, or one of its amphorae, has '
                f'changed while it was looked at: see who works on it, and '
                f'try again.')

    def _ask(self, snapshot, amphora, client, known, ports):
        found = {**_ask_agent(snapshot, amphora, client)}
        with _noted(found, 'instance_error'):
            if amphora.compute_id:
                found['instance'] = known.get_status(amphora.compute_id)
        with _noted(found, 'port_error'):
            if amphora.vrrp_port_id:
                found['has_port'] = ports.exists(amphora.vrrp_port_id)
        return serving.Evidence(amphora, **found)


@contextlib.contextmanager
def _noted(found, key):
    try:
        yield
    except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
        found[key] = str(e)


def _ask_agent(snapshot, amphora, client):
    if not amphora.lb_network_ip:
        return {'agent_error': 'it has no lb_network_ip', 'is_heard': False}
    agent = agents.Agent(client, amphora.id, amphora.lb_network_ip)
    try:
        return {
            'held': frozenset(vip for vip in snapshot.vips
                              if agent.holds(vip)),
            'running': frozenset(
                listener_id for listener_id, status
                in agent.get_listeners().items() if status in serving.RUNNING),
            'haproxies': agent.count_haproxies()}
    except exceptions.AgentUnreachable as e:
        return {'agent_error': str(e), 'is_heard': not e.is_unanswered}
    except exceptions.AgentRefused as e:
        return {'agent_error': str(e)}
