# SPDX-License-Identifier: Apache-2.0

"""This node's part of its port: plugged, with its address, and ACTIVE.

That takes Neutron, Open vSwitch and the agent of the node. When the port does
not work, this module finds out which of them failed.
"""

import ipaddress
import os
import shutil
import time

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import link
from octavia_hmsync.network import network
from octavia_hmsync.network import ovs
from octavia_hmsync.network import port as node_port

_POLL = 0.5
# How many nodes a message names.
_NAMED = 10


def get_binding_host(conf):
    """Return the name of this node in Neutron's agents."""
    return conf[network_conf.GROUP].binding_host or conf.host


def make_vswitch(conf):
    """Return the Open vSwitch of this node."""
    opts = conf[network_conf.GROUP]
    return ovs.Vswitch(opts.integration_bridge, opts.ovsdb_connection)


def find_wrong_options(conf, engine, ports):
    """Find options by which this node gets no port, as a list of lines.

    :param ports: a port.NodePorts.
    """
    return [problem for problem in (_find_wrong_host(conf, engine, ports),
                                    _find_wrong_vswitch(conf)) if problem]


def _find_wrong_host(conf, engine, ports):
    binding_host = get_binding_host(conf)
    known = port_repo.get(engine, conf.host)
    if known and known.binding_host not in (None, '', binding_host):
        return (f'The port of this node is bound to {known.binding_host}, '
                f'and [hmsync_network] binding_host, by default [DEFAULT] '
                f'host, is {binding_host}, which "network port plug" '
                f'refuses: set it back, or run "octavia-hmsync network port '
                f'delete {conf.host}" first.')
    try:
        agents = ports.get_agents()
    except exceptions.HMSyncException as e:
        return str(e)
    hosts = {host for _kind, host, _is_alive in agents or ()}
    if agents is None or binding_host in hosts:
        return None
    return (f'Neutron has no agent on {binding_host}, by which name its port '
            f'is to be bound to this node (agents report from: '
            f'{_name(hosts)}): set [hmsync_network] binding_host, which is '
            f'[DEFAULT] host by default, or start the agent of this node.')


def _find_wrong_vswitch(conf):
    # "network port plug" may have its own container, and needs root.
    if os.geteuid() or shutil.which(ovs.PROGRAM) is None:
        return None
    try:
        make_vswitch(conf).check_bridge()
    except exceptions.VswitchUnavailable as e:
        return str(e)
    return None


class Node:
    """The interface of this node, and the port that it belongs to."""

    def __init__(self, conf, engine, ports, keeper):
        self._conf = conf
        self._engine = engine
        self._ports = ports
        self._keeper = keeper
        self._interface = conf.hmsync.address_interface
        self._vswitch = make_vswitch(conf)
        self._binding_host = get_binding_host(conf)

    def plug(self, timeout, dry_run=False):
        """Make the port, plug it, and wait until it works.

        It may be repeated, and repairs differences.

        :returns: (a NodePort, None in a dry run if it is not there; what was
                  changed, a list of lines for people).
        :raises HMSyncException: with the reason. A port that this call
                                 made is deleted again, unless it is plugged
                                 or replaces a lost port: amphorae may send
                                 to its address.
        """
        # Read before anything is made.
        before = self._vswitch.get(self._interface)
        try:
            ensured, changes = self._ensure(before, dry_run)
        except exceptions.NodeConflict:
            raise
        except exceptions.HMSyncException as e:
            if dry_run or not self._restore(before):
                raise
            # The node is up: its port must not be deleted because of this.
            port_repo.set_plugged(self._engine, self._conf.host)
            raise type(e)(
                f'{e} The interface {self._interface} has its address as '
                f'before; whether its port has changed is not known.'
            ) from None
        changes = [*ensured.changes, *changes]
        if dry_run:
            return ensured.port, changes
        port_repo.set_plugged(self._engine, self._conf.host)
        return self.wait_until_active(ensured.port, timeout), changes

    def _ensure(self, before, dry_run):
        """Make and plug the port; return (an Ensured, changes on the node)."""
        host = self._conf.host
        found = self._ports.find(host)
        self._check_host_name()
        self._vswitch.check(self._interface, before, host,
                            found.id if found else None)
        mac, ip_addresses = None, ()
        if before and before.owner == host:
            mac, ip_addresses = before.mac, self._get_own_addresses()
        ensured = self._keeper.ensure(host, self._binding_host, mac,
                                      ip_addresses, dry_run)
        if dry_run:
            return ensured, self._plan(ensured.port, before)
        try:
            return ensured, self._connect(ensured.port)
        except exceptions.HMSyncException as e:
            if ensured.is_new:
                self._take_back(before, ensured.port, e)
            raise

    def _check_host_name(self):
        """Check that this node does not use the name of another node.

        If two nodes have one [DEFAULT] host, both plug the same port, and
        Neutron may show it as ACTIVE for the other node.
        """
        name = self._vswitch.get_host_name()
        if name in (None, self._binding_host):
            return
        alive = {host for _kind, host, is_alive in
                 self._ports.get_agents() or () if is_alive}
        if {name, self._binding_host} <= alive:
            raise exceptions.NodeConflict(
                f'This node is {name}, says Open vSwitch, and not '
                f'{self._binding_host}; agents of both report to Neutron. '
                f'Give each node a [DEFAULT] host of its own, or correct '
                f'[hmsync_network] binding_host.')

    def _take_back(self, before, port, error):
        """Undo what a call has done before it failed."""
        try:
            if before is None:
                self._vswitch.unplug(self._interface, port.host, port.id)
            self._keeper.delete(port.host)
        except exceptions.HMSyncException as e:
            raise exceptions.NotPossible(
                f'{error} What was made could not be taken back ({e}): run '
                f'the command again to go on.') from None

    def _restore(self, before):
        """Set the address after a boot, even if Neutron does not answer.

        :returns: whether the interface has the remembered port and address.
        """
        known = port_repo.get(self._engine, self._conf.host)
        if before is None or known is None or not known.ip_addresses or (
                before.port_id != known.port_id):
            return False
        missing = set(known.ip_addresses) - set(self._get_own_addresses())
        if not missing:
            return True
        try:
            cidr = network.read_cidr(self._conf)
            link.configure(self._interface, [
                ipaddress.ip_interface(f'{ip}/{cidr.prefixlen}')
                for ip in known.ip_addresses])
        except (exceptions.InvalidConfiguration,
                exceptions.InterfaceUnavailable):
            # The error of Neutron is more useful, and is reported first.
            return False
        return True

    def _get_own_addresses(self):
        found = link.get(self._interface)
        return tuple(found[1]) if found else ()

    def _plan(self, port, before):
        if port is None:
            return [f'plug the interface {self._interface}']
        changes = []
        if before is None or (before.port_id, before.mac) != (port.id,
                                                              port.mac):
            changes.append(f'plug the interface {self._interface} for the '
                           f'port {port.id}')
        if set(self._get_own_addresses()) != set(port.ip_addresses):
            changes.append(f'give the interface {self._interface} the '
                           f'address {", ".join(port.ip_addresses)}')
        return changes

    def _connect(self, port):
        """Configure the interface as its port requires."""
        if not port.ip_addresses:
            raise exceptions.NotPossible(
                f'The port {port.id} of {port.host} has no address in the '
                f'management subnet: give it one ("openstack port set '
                f'--fixed-ip"), or delete it.')
        prefix_length = self._ports.get_prefix_length()
        addresses = [ipaddress.ip_interface(f'{ip}/{prefix_length}')
                     for ip in port.ip_addresses]
        changes = []
        if self._vswitch.plug(self._interface, port.id, port.mac,
                              self._ports.get_mtu(), port.host):
            changes.append(f'plugged the interface {self._interface} for '
                           f'the port {port.id}')
        if link.configure(self._interface, addresses):
            changes.append(f'gave the interface {self._interface} the '
                           f'address {", ".join(port.ip_addresses)}')
        return changes

    def unplug(self, dry_run=False):
        """Delete the interface, not the port; tell whether there was one.

        :raises HMSyncException: with the reason.
        """
        host = self._conf.host
        found = self._vswitch.get(self._interface)
        if found is None:
            return False
        known = port_repo.get(self._engine, host)
        port_id = known.port_id if known else None
        if dry_run:
            self._vswitch.check(self._interface, found, host, port_id)
            return True
        return self._vswitch.unplug(self._interface, host, port_id)

    def wait_until_active(self, port: node_port.NodePort, timeout):
        """Wait until a plugged port is ACTIVE, or raise NotPossible."""
        deadline = time.monotonic() + timeout
        while True:
            found = self._ports.get(port.id)
            if found is None:
                raise exceptions.NotPossible(
                    f'The port {port.id} of {port.host} was deleted '
                    f'meanwhile: run the command again.')
            if found.status == node_port.ACTIVE:
                return found
            if (found.vif_type == node_port.BINDING_FAILED or
                    not found.is_enabled or time.monotonic() > deadline):
                raise exceptions.NotPossible(self._blame(found, timeout))
            time.sleep(_POLL)

    def _blame(self, port, timeout):
        """Return in one line why a plugged port is not ACTIVE."""
        if not port.is_enabled:
            return (f'The port {port.id} of {port.host} was switched off in '
                    f'Neutron: "openstack port set --enable {port.id}".')
        agents = self._ports.get_agents()
        here = [a for a in agents or () if a[1] == port.binding_host]
        if port.vif_type == node_port.BINDING_FAILED:
            start = (f'Neutron could not bind the port {port.id} to the node '
                     f'{port.binding_host}')
        else:
            start = (f'The interface {self._interface} is plugged, but the '
                     f'port {port.id} is still {port.status} after '
                     f'{timeout} s')
        if agents is None:
            return (f'{start}. Neutron does not let us see its agents: check '
                    f'that ovn-controller or neutron-openvswitch-agent runs '
                    f'on {port.binding_host}.')
        if not here:
            return f'{start}: {self._describe_missing_agent(port, agents)}'
        dead = [kind for kind, _host, is_alive in here if not is_alive]
        if dead:
            return (f'{start}: the {dead[0]} of {port.binding_host} does not '
                    f'report to Neutron any more. Start it.')
        if port.vif_type == node_port.BINDING_FAILED:
            return (f'{start}, though its {here[0][0]} is alive: see the log '
                    f'of Neutron for "Failed to bind port".')
        return (f'{start}: the {here[0][0]} of {port.binding_host} is alive '
                f'and does not wire it. See its log, and that its bridge is '
                f'{self._conf[network_conf.GROUP].integration_bridge}.')

    def _describe_missing_agent(self, port, agents):
        text = (f'no agent reports to Neutron from {port.binding_host} '
                f'(agents report from: {_name({a[1] for a in agents})}).')
        name = self._vswitch.get_host_name()
        if name and name != port.binding_host:
            text += f' Open vSwitch here goes by the name {name}.'
        return (f'{text} Start ovn-controller or neutron-openvswitch-agent '
                f'on this node, or correct [hmsync_network] binding_host and '
                f'delete the port.')


def _name(hosts):
    """Name some of the nodes, and count the rest."""
    named = sorted(hosts)[:_NAMED]
    others = len(hosts) - len(named)
    return (', '.join(named) or 'nowhere') + (
        f' and {others} others' if others else '')
