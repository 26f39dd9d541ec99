# SPDX-License-Identifier: Apache-2.0

"""Whether an apparent leak still serves.

Octavia's database may be older than the cloud. If it was restored from a
backup, it lacks amphorae that were built since and serve. Another Octavia may
also use them. Neutron and the amphora itself know better.
"""

import dataclasses
import functools

from octavia_hmsync.amphora import agent as agents
from octavia_hmsync.amphora import agent_client
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.recovery import serving


@dataclasses.dataclass(frozen=True)
class Use:
    """A VIP that a port may have.

    :param port: an amphora_ports.Port.
    :param address: of the VIP.
    :param load_balancer: a leak_repo.Heard; None if neither the database nor
                          Neutron has a load balancer for it.
    """

    port: object
    address: str
    load_balancer: leak_repo.Heard | None


class Uses:
    """Asks Neutron, the database and agents.

    :param ports: an amphora_ports.Ports.
    """

    def __init__(self, conf, engine, ports):
        self._engine = engine
        self._ports = ports
        self._conf = conf

    @functools.cached_property
    def _client(self):
        return agent_client.RestAgentClient(self._conf)

    def find(self, amphora_id, ports, compute_ids):
        """Tell why an apparent leak may serve.

        :param amphora_id: its amphora; None for a distributor's port.
        :param ports: its ports, as amphora_ports.Port.
        :param compute_ids: its instances.
        :returns: why it is kept; None if it does not serve.
        :raises CloudUnavailable, CloudRefused: if Neutron does not tell.
        """
        uses = [self._read(port, address)
                for port in ports for address in port.vips]
        open_uses = [use for use in uses if use.load_balancer is not None and
                     not use.load_balancer.is_served]
        for use in open_uses:
            if use.port.is_active:
                return (f'it may serve: its port {use.port.id} is ACTIVE and '
                        f'has the VIP {use.address} of '
                        f'{use.load_balancer.describe()}')
        if uses and not open_uses:
            return None
        return self._ask(amphora_id, compute_ids)

    def _read(self, port, address):
        vip = self._ports.find_vip(port.network_id, address)
        return Use(port, address, vip and leak_repo.get_heard(
            self._engine, vip.load_balancer_id, vip.port_id,
            self._conf.health_manager.heartbeat_timeout))

    def _ask(self, amphora_id, compute_ids):
        driver = self._conf.controller_worker.amphora_driver
        if amphora_id is None or driver not in compat.REST_DRIVERS:
            return None
        for compute_id in sorted(compute_ids):
            for address in self._ports.get_addresses(compute_id):
                try:
                    agent = agents.Agent(self._client, amphora_id, address)
                    statuses = agent.get_listeners().values()
                except exceptions.HMSyncException as e:
                    if getattr(e, 'is_unanswered', False):
                        continue
                    reason = str(e).rstrip('.')
                    return f'it may serve: {reason}'
                running = sum(status in serving.RUNNING
                              for status in statuses)
                if running:
                    return (f'it serves: as its agent at {address} says, '
                            f'{running} of its listeners run')
        return None
