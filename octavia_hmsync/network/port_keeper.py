# SPDX-License-Identifier: Apache-2.0

"""Makes, repairs and deletes nodes' ports, one at a time.

Neutron permits two ports with the same name. So a process claims the row of a
port before it makes, changes or deletes the port.
"""

import dataclasses

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync import held as held_
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import port as node_port

# Requests to Neutron that fit into one claim, and that others wait for.
_CALLS = 10


@dataclasses.dataclass(frozen=True)
class Ensured:
    """What ensure() found or made; is_new: no amphora uses it yet."""

    port: node_port.NodePort | None
    changes: tuple
    is_new: bool = False


def get_ids(conf, engine):
    """Return the management network's Ids, or raise NotPossible."""
    name = conf[network_conf.GROUP].network_name
    ids = network_repo.get_ids(engine, name)
    if ids is None:
        raise exceptions.NotPossible(
            f'There is no management network {name} yet: run "octavia-hmsync '
            f'network ensure" once.')
    return ids


class PortKeeper:
    """The ports of nodes; patience is for other processes at a port."""

    def __init__(self, conf, engine, ports, patience=None):
        self._engine = engine
        self._ports = ports
        # The longest that several requests without an answer take.
        longest = _CALLS * conf[network_conf.GROUP].api_timeout
        self._claims = held_.Claims(engine, port_repo, conf.host, longest,
                                    lost=_make_busy)
        self._patience = longest if patience is None else patience

    def ensure(self, host, binding_host, mac=None, ip_addresses=(),
               dry_run=False, is_known=False):
        """Make the port of a node, or repair it.

        :param ip_addresses: the addresses of its interface. A lost port is
                             made again with these.
        :param is_known: only if the database has it.
        :raises PortBusy: if is_known, and the database no longer has it.
        :raises HMSyncException: with the reason.
        """
        if dry_run:
            return self._plan(host, binding_host)
        with self._claims.held(host, self._patience) as held:
            if is_known and port_repo.get(self._engine, host) is None:
                raise _make_busy(host)
            return self._ensure(held, binding_host, mac, ip_addresses)

    def _find(self, host):
        """Find a port by its name, or by its id in the database."""
        found = self._ports.find(host)
        known = port_repo.get(self._engine, host)
        if found is None and known:
            found = self._ports.find_known(host, known.port_id)
        return found

    def _plan(self, host, binding_host):
        found = self._find(host)
        if found is None:
            return Ensured(None, (
                f'make the port {node_port.get_name(host)}, bound to '
                f'{binding_host}',))
        node_port.check_binding(found, binding_host)
        return Ensured(found, tuple(
            f'repair the port {found.id}: it {difference}' for difference in
            self._ports.get_differences(found, binding_host)))

    def _ensure(self, held, binding_host, mac, ip_addresses):
        host = held.key
        found = self._find(host)
        if found is None:
            return self._make(held, binding_host, mac, ip_addresses)
        node_port.check_binding(found, binding_host)
        differences = self._ports.get_differences(found, binding_host)
        if differences:
            # Neutron may be so slow that the claim has lapsed.
            held.look()
            found = self._ports.repair(found, differences)
            if found is None:
                return self._make(held, binding_host, mac, ip_addresses)
        changes = [f'the port {found.id} of {host} {difference}: repaired'
                   for difference in differences]
        known = port_repo.get(self._engine, host)
        if known and known.port_id == found.id:
            changes += _compare(known, found)
        self._record(held, found, binding_host, known, len(changes))
        return Ensured(found, tuple(changes))

    def _make(self, held, binding_host, mac, ip_addresses):
        host = held.key
        known = port_repo.get(self._engine, host)
        if known:
            mac, ip_addresses = known.mac, known.ip_addresses
        held.look()
        made = self._ports.create(host, binding_host, mac, ip_addresses)
        # At its old address, amphorae may send to it.
        is_new = not ip_addresses
        try:
            self._record(held, made, binding_host, known,
                         int(known is not None))
        except exceptions.PortBusy:
            # The port now belongs to the faster process, too.
            raise
        except Exception:
            if is_new:
                self._ports.delete(made.id)
            raise
        what = (f'the port of {host} was gone from Neutron: made again as '
                f'{made.id}' if known else
                f'made the port {made.id} of {host}')
        address = ', '.join(made.ip_addresses)
        if known and made.ip_addresses != known.ip_addresses:
            address += (', because another port has ' +
                        ', '.join(known.ip_addresses))
        return Ensured(made, (f'{what}, with {address}',), is_new)

    def _record(self, held, port, binding_host, known, repairs):
        held.require(port_repo.record(
            self._engine, held.owner, port.host, port.id, port.mac,
            port.ip_addresses, port.binding_host or binding_host,
            repairs + (known.repairs if known else 0)))

    def get_all_of(self, host):
        """Return the ports of a node, including a renamed one."""
        found = [p for p in self._ports.get_all() if p.host == host]
        known = port_repo.get(self._engine, host)
        if known and known.port_id not in {p.id for p in found}:
            renamed = self._ports.find_known(host, known.port_id)
            if renamed:
                found.append(renamed)
        return found

    def delete(self, host, may_delete=None):
        """Delete the port of a node, and its row.

        :param may_delete: called without arguments while the claim is held;
                           if it returns False, the port is kept.
        :returns: the ids of the ports that were deleted, a list.
        """
        with self._claims.held(host, self._patience) as held:
            found = self.get_all_of(host)
            if may_delete and not may_delete():
                return []
            for port in found:
                held.look()
                self._ports.delete(port.id)
            port_repo.forget(self._engine, host, held.owner)
        return [port.id for port in found]


def _make_busy(host):
    return exceptions.PortBusy(
        f'Another process works on the port of {host}: try again.')


def _compare(known, found):
    """Return what others have changed in a port, lines for people."""
    changes = []
    if known.mac != found.mac:
        changes.append(f'the MAC address of the port {found.id} of '
                       f'{found.host} was changed to {found.mac}')
    if known.ip_addresses != found.ip_addresses:
        changes.append(f'the addresses of the port {found.id} of '
                       f'{found.host} were changed to '
                       f'{", ".join(found.ip_addresses) or "none"}')
    return changes
