# SPDX-License-Identifier: Apache-2.0

"""The interface of a node's port in Open vSwitch.

An internal port of the integration bridge, with the external_ids by which
the agent of the node (ovn-controller, or Neutron's Open vSwitch agent) knows
the Neutron port that it belongs to.
"""

import dataclasses
import json
import signal
import socket
import subprocess  # nosec B404
import time

from octavia_hmsync import exceptions

PROGRAM = 'ovs-vsctl'
# The node of its port; marks an interface that the plugin may change.
_OWNER = 'hmsync-host'
# When plug() last ran; a change, so that ovs-vswitchd must answer.
_PLUGGED_AT = 'hmsync-plugged-at'
# Seconds for one call of ovs-vsctl; the database is on the same machine.
_CALL_TIMEOUT = 10
# Seconds for ovs-vswitchd to apply a change of the database.
_APPLY_TIMEOUT = 10
_COLUMNS = ('name', 'type', 'external_ids', 'mac_in_use', 'mtu', 'ofport',
            'error')


@dataclasses.dataclass(frozen=True)
class Interface:
    """An interface in Open vSwitch.

    :param kind: its type; internal if it is a port of the node itself.
    :param owner: the health manager host that it was plugged for, None if
                  octavia-hmsync did not plug it.
    :param ofport: its OpenFlow port; None before ovs-vswitchd has looked at
                   it, -1 if ovs-vswitchd could not make it.
    """

    bridge: str
    kind: str
    port_id: str | None
    owner: str | None
    mac: str | None
    mtu: int | None
    ofport: int | None
    error: str | None


class Vswitch:
    """The Open vSwitch of this node; VswitchUnavailable has the reason.

    :param connection: where ovsdb-server listens, in the notation of ovs-vsctl
                       (unix:/run/openvswitch/db.sock); None for the default.
    """

    def __init__(self, bridge, connection=None):
        self._bridge = bridge
        self._connection = connection

    def get(self, name):
        """Return an Interface by name, or None."""
        out = self._call('--format=json', f'--columns={",".join(_COLUMNS)}',
                         'find', 'Interface', f'name={json.dumps(name)}')
        rows = json.loads(out)['data']
        if not rows:
            return None
        row = dict(zip(_COLUMNS, map(_to_python, rows[0])))
        ids = row['external_ids']
        return Interface(
            bridge=self._call('iface-to-br', name).strip(),
            kind=row['type'], port_id=ids.get('iface-id'),
            owner=ids.get(_OWNER), mac=row['mac_in_use'], mtu=row['mtu'],
            ofport=row['ofport'], error=row['error'])

    def plug(self, name, port_id, mac, mtu, host):
        """Make an interface for a Neutron port in the integration bridge.

        It may be repeated. A call that fails deletes an interface that it has
        made.

        :returns: True if anything was changed.
        :raises InterfaceConflict: if another interface has the name.
        """
        before = self.get(name)
        self.check(name, before, host, port_id)
        try:
            self._set(name, port_id, mac, mtu, host)
            after = self._wait_until_applied(name, mac, mtu)
        except exceptions.VswitchUnavailable:
            if before is None:
                self._call('--if-exists', 'del-port', self._bridge, name)
            raise
        return before != after

    def _set(self, name, port_id, mac, mtu, host):
        done = self._run(
            f'--timeout={_APPLY_TIMEOUT}',
            '--may-exist', 'add-port', self._bridge, name, '--', 'set',
            'Interface', name, 'type=internal', f'mac={json.dumps(mac)}',
            f'mtu_request={mtu}',
            f'external_ids:iface-id={json.dumps(port_id)}',
            f'external_ids:attached-mac={json.dumps(mac)}',
            'external_ids:iface-status=active',
            # Otherwise neutron-ovs-cleanup would delete it at boot.
            'external_ids:skip_cleanup=true',
            f'external_ids:{_OWNER}={json.dumps(host)}',
            f'external_ids:{_PLUGGED_AT}="{time.time():.3f}"')
        if _is_late(done):
            raise exceptions.VswitchUnavailable(
                f'ovs-vswitchd did not answer within {_APPLY_TIMEOUT} s: it '
                f'is not running, or hangs. Start Open vSwitch on this node.')
        self._check(done)

    def unplug(self, name, host, port_id=None):
        """Delete an interface that plug() made; it may be repeated.

        :returns: True if there was one.
        :raises InterfaceConflict: if another interface has the name.
        """
        found = self.get(name)
        if found is None:
            return False
        self.check(name, found, host, port_id)
        self._call('--if-exists', 'del-port', self._bridge, name)
        return True

    def get_host_name(self):
        """Return this node's name in Open vSwitch, that of OVN's chassis."""
        return self._call('--if-exists', 'get', 'Open_vSwitch', '.',
                          'external_ids:hostname').strip().strip('"') or None

    def check_bridge(self):
        """Raise VswitchUnavailable if the integration bridge is not there."""
        bridges = self._call('list-br').split()
        if self._bridge not in bridges:
            raise exceptions.VswitchUnavailable(
                f'Open vSwitch has no bridge {self._bridge} '
                f'(it has {", ".join(bridges) or "none"}): start the agent '
                f'of this node, ovn-controller or neutron-openvswitch-agent, '
                f'which makes it, or correct [hmsync_network] '
                f'integration_bridge.')

    def check(self, name, found, host, port_id=None):
        """Raise InterfaceConflict if what get() found is not the host's."""
        self.check_bridge()
        if found is None:
            if _is_here(name):
                raise exceptions.InterfaceConflict(
                    f'There is a network interface {name} that Open vSwitch '
                    f'does not know: delete it ("ip link delete {name}"), or '
                    f'name another one in [hmsync] address_interface.')
            return
        if found.bridge != self._bridge or found.kind != 'internal' or not (
                found.owner == host or found.port_id == port_id is not None):
            what = (f'for the Neutron port {found.port_id}' if found.port_id
                    else 'for no Neutron port')
            raise exceptions.InterfaceConflict(
                f'The interface {name} in bridge {found.bridge} was not '
                f'plugged by octavia-hmsync for {host}: it is there {what}. '
                f'Delete it ("ovs-vsctl del-port {found.bridge} {name}"), or '
                f'name another one in [hmsync] address_interface.')

    def _wait_until_applied(self, name, mac, mtu):
        """Wait until ovs-vswitchd has applied the database."""
        deadline = time.monotonic() + _APPLY_TIMEOUT
        while True:
            found = self.get(name)
            if found and found.error:
                raise exceptions.VswitchUnavailable(
                    f'Open vSwitch cannot make the interface {name}: '
                    f'{found.error}. See the log of ovs-vswitchd.')
            if found and (found.mac, found.mtu) == (mac, mtu) and (
                    found.ofport or 0) > 0:
                break
            if time.monotonic() > deadline:
                raise exceptions.VswitchUnavailable(
                    _describe_delay(name, found, mac, mtu))
            time.sleep(0.05)
        if not _is_here(name):
            raise exceptions.VswitchUnavailable(
                f'Open vSwitch has an interface {name}, but it is not here: '
                f'run this in the network namespace of ovs-vswitchd (the '
                f'host\'s; in Kubernetes hostNetwork: true), and check that '
                f'ovs-vswitchd runs.')
        return found

    def _call(self, *arguments):
        """Run ovs-vsctl, without waiting for ovs-vswitchd."""
        return self._check(self._run(
            '--no-wait', f'--timeout={_CALL_TIMEOUT}', *arguments))

    def _run(self, *arguments):
        command = [PROGRAM, *arguments]
        if self._connection:
            command.insert(1, f'--db={self._connection}')
        try:
            return subprocess.run(  # nosec B603
                command, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=2 * _CALL_TIMEOUT + _APPLY_TIMEOUT)
        except FileNotFoundError:
            raise exceptions.VswitchUnavailable(
                'ovs-vsctl is not installed: install the package '
                'openvswitch-switch (in a container, openvswitch-common).'
            ) from None
        except (OSError, subprocess.TimeoutExpired) as e:
            raise exceptions.VswitchUnavailable(
                f'ovs-vsctl could not be run: {e}.') from None

    def _check(self, done):
        """Return the output of ovs-vsctl, if it succeeded."""
        if not done.returncode:
            return done.stdout
        lines = done.stderr.strip().splitlines() or ['no message']
        reason = lines[-1].removeprefix('ovs-vsctl: ')
        if 'database connection failed' in done.stderr or _is_late(done):
            where = self._connection or 'its usual place'
            raise exceptions.VswitchUnavailable(
                f'ovsdb-server cannot be reached at {where} ({reason}): '
                f'start Open vSwitch on this node, make its socket available '
                f'here (in a container, mount /run/openvswitch), or correct '
                f'[hmsync_network] ovsdb_connection.')
        raise exceptions.VswitchUnavailable(
            f'{" ".join(done.args)} failed: {reason}.')


def _is_late(done):
    """Tell whether ovs-vsctl ended itself after its time limit."""
    return done.returncode == -signal.SIGALRM


def _is_here(name):
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def _describe_delay(name, found, mac, mtu):
    if found and found.mtu not in (None, mtu):
        return (f'The interface {name} has MTU {found.mtu}, and the '
                f'management network {mtu}: Open vSwitch could not set it, '
                f'or something changes it. See the log of ovs-vswitchd.')
    if found and found.mac not in (None, mac):
        return (f'The interface {name} has MAC address {found.mac} instead '
                f'of {mac}, that of its port: Open vSwitch could not set it. '
                f'See the log of ovs-vswitchd.')
    return (f'Open vSwitch did not make the interface {name} within '
            f'{_APPLY_TIMEOUT} s: see the log of ovs-vswitchd.')


def _to_python(value):
    """Turn a value of OVSDB's JSON notation into Python's."""
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind == 'map':
        return dict(content)
    # A set of one value is written as that value, an empty one as [].
    return content[0] if content else None
