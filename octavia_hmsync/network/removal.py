# SPDX-License-Identifier: Apache-2.0

"""Deletes the management network; what is in use is renamed and left."""

import dataclasses
import itertools

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network import changes as network_changes
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import marks
from octavia_hmsync.network import network
from octavia_hmsync.network import parts
from octavia_hmsync.network import port as node_port
from octavia_hmsync.network import port_keeper
from octavia_hmsync.network import port_retention

DELETED = 'deleted'
RELEASED = 'released'
ORPHANED = 'orphaned'

_SHOWN_USERS = 10
# Neutron makes these ports for a network, and deletes them with it.
_OWN_PORTS = ('network:dhcp', 'network:distributed')


@dataclasses.dataclass(frozen=True)
class Removed:
    """What became of one part.

    :param outcome: DELETED; RELEASED, if it was there before octavia-hmsync;
                    ORPHANED, if it is still in use.
    """

    title: str
    outcome: str
    users: list


def delete(conf, engine, connection, dry_run=False):
    """Delete the parts that ensure() made, and release adopted ones.

    A part in use gets another name and other tags, so that no later ensure()
    takes it for ours. After a failure it may be repeated.

    :raises NotPossible: if another process works on the network.
    :raises CloudRefused: if Neutron says no.
    :raises CloudUnavailable: if it does not answer.
    """
    name = conf[network_conf.GROUP].network_name
    row = network_repo.get_row(engine, name)
    if dry_run:
        return _Removal(conf, engine, connection, row,
                        network_changes.Changes(conf, dry_run=True)).run()
    with network_changes.hold(conf, engine) as held:
        changes = network_changes.Changes(conf, before=held.look)
        try:
            removed = _Removal(conf, engine, connection,
                               network_repo.get_row(engine, name),
                               changes).run()
        except exceptions.HMSyncException as e:
            raise type(e)(f'{e} Done so far: '
                          f'{"; ".join(changes.done) or "nothing"}. Run the '
                          f'command again to go on.')
        network_repo.forget(engine, name, held.owner)
        return removed


class _Removal:

    def __init__(self, conf, engine, connection, row, changes):
        self._conf = conf
        self._engine = engine
        self._connection = connection
        self._name = conf[network_conf.GROUP].network_name
        self._changes = changes
        self._parts = parts.Parts(conf, connection, self._name, changes,
                                  network.get_recorded(row))
        self._proxy = connection.network
        # Ids of ports that are deleted, or would be.
        self._deleted = set()

    def run(self):
        removed = []
        for part in network.get_parts(self._conf):
            # Neutron deletes an empty network's subnets with it.
            for resource in self._parts.find(part)[0]:
                if part.kind is parts.NETWORK:
                    removed += self._remove_node_ports(resource.id)
                removed.append(self._remove(part, resource))
        return removed

    def _remove_node_ports(self, network_id):
        subnet_id = next((
            subnet.id for part in network.get_parts(self._conf)
            if part.kind is parts.SUBNET
            for subnet in self._parts.find(part)[0]
            if subnet.network_id == network_id), '')
        ports = node_port.NodePorts(
            self._conf, self._connection,
            network_repo.Ids(network_id, subnet_id, '', ''))
        keeper = port_keeper.PortKeeper(self._conf, self._engine, ports)
        known = {row.port_id for row in port_repo.get_all(self._engine)}
        removed = []
        for host, found in itertools.groupby(ports.get_all(),
                                             lambda port: port.host):
            of_host = list(found)
            # In devstack a port that is not ours has the same name.
            if all(ports.is_ours(port) or port.id in known
                   for port in of_host):
                removed += self._remove_ports_of(host, of_host, ports, keeper)
        return removed

    def _remove_ports_of(self, host, found, ports, keeper):
        def find_users():
            return [user for port in found for user in
                    port_retention.describe_users(
                        self._conf, self._engine, port)]

        titles = {port.id: f'port {port.name} ({port.id})' for port in found}
        users = find_users()
        if not users:
            deleted = []
            self._changes.change(
                f'delete the {", ".join(titles.values())}',
                lambda: deleted.extend(keeper.delete(
                    host, may_delete=lambda: not find_users())))
            if deleted or self._changes.dry_run:
                self._deleted.update(titles)
                return [Removed(title, DELETED, [])
                        for title in titles.values()]
        for port in found:
            self._changes.change(f'rename the {titles[port.id]}',
                                 lambda port=port: ports.orphan(port))
        return [Removed(title, ORPHANED, users or find_users())
                for title in titles.values()]

    def _remove(self, part, resource):
        title = f'{part.kind.noun} {parts.describe(resource)}'
        if not self._parts.has_made(part, resource.description):
            self._release(part, resource, title)
            return Removed(title, RELEASED, [])
        users = self._users(part, resource)
        if not users and self._delete(part, resource, title):
            return Removed(title, DELETED, [])
        self._orphan(part, resource, title)
        return Removed(title, ORPHANED,
                       users or self._users(part, resource))

    def _users(self, part, resource):
        query = {parts.NETWORK: {'network_id': resource.id},
                 parts.SUBNET: {'fixed_ips': f'subnet_id={resource.id}'},
                 parts.GROUP: {'security_group_ids': [resource.id]}}
        with cloud.reported(self._conf, 'look for ports'):
            users = [f'port {parts.describe(port)} of '
                     f'{port.device_owner or "no owner"} {port.device_id}'
                     .rstrip()
                     for port in self._proxy.ports(limit=parts.PAGE,
                                                   **query[part.kind])
                     if port.device_owner not in _OWN_PORTS and
                     port.id not in self._deleted]
            if part.kind is parts.NETWORK:
                # Neutron would delete these with the network.
                users += [f'subnet {parts.describe(subnet)}' for subnet in
                          self._proxy.subnets(network_id=resource.id)
                          if not self._has_made_subnet(subnet)]
        if len(users) > _SHOWN_USERS:
            users[_SHOWN_USERS:] = [f'and {len(users) - _SHOWN_USERS} more']
        return users

    def _has_made_subnet(self, subnet):
        return self._parts.has_made(
            next(part for part in network.get_parts(self._conf)
                 if part.kind is parts.SUBNET), subnet.description)

    def _delete(self, part, resource, title):
        """Delete a part; return False if it is in use after all."""
        conflicts = []

        def delete():
            try:
                self._parts.delete(part.kind, resource.id)
            except sdk_exc.ConflictException as e:
                conflicts.append(e)

        self._changes.change(f'delete the {title}', delete)
        return not conflicts

    def _orphan(self, part, resource, title):
        # The name and description first: without these the part no longer
        # counts as ours.
        def orphan():
            self._parts.update(
                part.kind, resource.id,
                name=f'{resource.name}{marks.ORPHANED_SUFFIX}',
                description=marks.orphaned_description(self._name))
            self._proxy.set_tags(resource, [
                *marks.without_ours(resource.tags), marks.ORPHANED_TAG])

        self._changes.change(f'rename the {title}', orphan)

    def _release(self, part, resource, title):
        def release():
            for rule in getattr(resource, 'security_group_rules', None) or ():
                if self._parts.has_made(part, rule['description']):
                    self._proxy.delete_security_group_rule(rule['id'])
            self._proxy.set_tags(resource,
                                 marks.without_ours(resource.tags))

        self._changes.change(f'let go the {title}', release)
