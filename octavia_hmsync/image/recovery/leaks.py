# SPDX-License-Identifier: Apache-2.0

"""Finds what is left of former amphorae, and deletes it.

It first reads what exists, and then what Octavia knows. In the other order, an
amphora that is built in between would look like a leak.

An apparent leak may still serve: a database that was restored from a backup
lacks amphorae that were built since, and another Octavia may use them. Neutron
and the amphora itself know better.
"""

import collections
import dataclasses
import functools
import time

from octavia_hmsync.amphora import agent as agents
from octavia_hmsync.amphora import agent_client
from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.recovery import amphora_ports
from octavia_hmsync.image.recovery import leaking
from octavia_hmsync.image.recovery import serving

# Seconds to wait for an instance to go, before its ports are deleted.
_GOING = 30
_CHANGED = 'It has changed since it was listed'


@dataclasses.dataclass(frozen=True)
class Use:
    """A VIP that a port may have; load_balancer is None if none is known."""

    port: object
    address: str
    load_balancer: leak_repo.Heard | None


class Uses:
    """Asks Neutron, the database and agents."""

    def __init__(self, conf, engine, ports: amphora_ports.Ports):
        self._engine = engine
        self._ports = ports
        self._conf = conf

    @functools.cached_property
    def _client(self):
        return agent_client.RestAgentClient(self._conf)

    def find(self, amphora_id, ports, compute_ids):
        """Tell why an apparent leak may serve.

        :param amphora_id: its amphora; None for a distributor's port.
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


class Leaks:
    """The leaks in one cloud that are older than some seconds."""

    def __init__(self, conf, engine, older_than):
        self._engine = engine
        self._older_than = older_than
        self._compute = compute.connect(conf)
        self._ports = amphora_ports.Ports(conf, cloud.connect(conf))
        self._uses = Uses(conf, engine, self._ports)
        self._deleted = set()

    def find(self):
        """Return (leaks, whether the compute service lists instances).

        :raises CloudUnavailable, CloudRefused: if a service does not answer.
        """
        instances = self._compute.list_instances()
        ports = self._ports.list_ports()
        known = leak_repo.get(self._engine)
        by_amphora = collections.defaultdict(list)
        for each in (*ports, *(instances or ())):
            by_amphora[each.amphora_id or each.id].append(each)
        found = leaking.find_all(known, instances or (), ports,
                                 self._older_than)
        uses = {owner: self._find_use(owner, by_amphora[owner], known)
                for owner in {leak.amphora_id or leak.id for leak in found
                              if leak.keep is None}}
        return [dataclasses.replace(leak, keep=leak.keep or uses.get(
            leak.amphora_id or leak.id)) for leak in found], (
                instances is not None)

    def _find_use(self, owner, found, known: leak_repo.Known):
        """Tell why what an amphora, or a port, has left may serve, or None."""
        ports = [each for each in found
                 if isinstance(each, amphora_ports.Port)]
        compute_ids = {each.id for each in found
                       if isinstance(each, compute.Instance)}
        compute_ids |= {port.device_id for port in ports if port.device_id}
        row = known.amphorae.get(owner)
        if row and row.compute_id:
            compute_ids.add(row.compute_id)
        is_amphora = not any(port.cluster_id for port in ports)
        return self._uses.find(owner if is_amphora else None, ports,
                               compute_ids)

    def _find_use_now(self, leak):
        if leak.amphora_id is None:
            port = self._ports.get(leak.id)
            return port and self._find_use(leak.id, [port],
                                           leak_repo.get(self._engine))
        return self._find_use(
            leak.amphora_id,
            [*self._ports.list_ports_of(leak.amphora_id),
             *(self._compute.list_instances(leak.amphora_id) or ())],
            leak_repo.get(self._engine, leak.amphora_id))

    def delete(self, leak: leaking.Leak):
        """Delete a leak, if it still is one.

        :returns: why it is kept; None if it is deleted.
        :raises CloudUnavailable, CloudRefused: if it may still exist.
        """
        kept = leak.keep or self._find_use_now(leak)
        if kept is not None:
            return kept
        return {leaking.Kind.ROW: self._delete_row,
                leaking.Kind.INSTANCE: self._delete_instance,
                leaking.Kind.PORT: self._delete_port}[leak.kind](leak)

    def _delete_row(self, leak):
        known = leak_repo.get(self._engine, leak.id)
        amphora = known.amphorae.get(leak.id)
        now = amphora and leaking.judge_row(amphora, known, self._older_than)
        if (now is None or now.keep is not None or
                not leak_repo.begin_delete(self._engine, amphora)):
            return _CHANGED
        # If a worker died in between, only the name links the instance.
        compute_ids = {each.id for each in
                       self._compute.list_instances(leak.id) or ()}
        if amphora.compute_id:
            compute_ids.add(amphora.compute_id)
        for compute_id in sorted(compute_ids):
            self._compute.delete(compute_id)
            self._deleted.add(compute_id)
        for compute_id in sorted(compute_ids):
            self._is_gone(compute_id)
        port_ids = {port.id for port in self._ports.list_ports()
                    if port.amphora_id == leak.id}
        for port_id in sorted(port_ids):
            self._ports.delete(port_id)
        leak_repo.end_delete(self._engine, leak.id)
        return None

    def _delete_instance(self, leak):
        found = [each for each in
                 self._compute.list_instances(leak.amphora_id) or ()
                 if each.id == leak.id]
        known = leak_repo.get(self._engine)
        if not found:
            return None
        now = leaking.judge_instance(found[0], known, self._older_than)
        if now is None or now.keep is not None:
            return _CHANGED
        self._compute.delete(leak.id)
        self._deleted.add(leak.id)
        return None

    def _delete_port(self, leak):
        found = self._ports.get(leak.id)
        known = leak_repo.get(self._engine)
        if found is None:
            return None
        now = leaking.judge_port(found, known, self._older_than)
        if now is None or now.keep is not None:
            return _CHANGED
        if found.device_id and not self._is_gone(found.device_id):
            return (f'It is plugged into the instance {found.device_id}, '
                    f'which is there still')
        self._ports.delete(leak.id)
        return None

    def _is_gone(self, compute_id):
        """Tell whether an instance is gone; wait if it is being deleted."""
        deadline = time.monotonic() + (
            _GOING if compute_id in self._deleted else 0)
        while True:
            status = self._compute.get_status(compute_id)
            if status is None or status == 'DELETED':
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.5)


def delete_all(leaks: Leaks, found):
    """Delete leaks, one after the other.

    A leak that cannot be deleted does not stop the rest.

    :returns: an iterator of (leaking.Leak, why it is kept or None, the error
              or None).
    """
    for leak in found:
        try:
            yield leak, leaks.delete(leak), None
        except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
            yield leak, None, e
