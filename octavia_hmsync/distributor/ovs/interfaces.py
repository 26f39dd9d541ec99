# SPDX-License-Identifier: Apache-2.0

"""Bridges of VIPs in an instance, each connected to a network by an interface.

    network ---- [interface of the instance] hmbXXXXXXXXXXX

The compute service puts the Neutron port of a VIP into the instance as a
network interface. It is known by its MAC address: which name it gets, and in
which order they come, is not guaranteed.
"""

import contextlib
import pathlib
import time

import pyroute2

from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync import exceptions

# Seconds that an interface may take to appear after it was plugged: less than
# what controllers wait for an answer.
_PATIENCE = 3
_STEP = 0.1
# Milliseconds after which the data path forgets a flow. Each connection that a
# change of members moves has all of them translated anew; nothing else than
# load balancers is served by this Open vSwitch.
_MAX_IDLE = '2000'
_DISABLE_IPV6 = '/proc/sys/net/ipv6/conf/{}/disable_ipv6'


class Interfaces(bridges.Bridges):
    def _check_integration_bridge(self):
        """Have a bridge by which it shows that Open vSwitch works.

        No agent is here that would make it, and nothing is connected to it.
        """
        name = self._options.integration_bridge
        if self._find('Bridge', name) is None:
            self._commit([
                self._connect().add_br(
                    name, may_exist=True,
                    datapath_type=self._options.datapath_type),
                self._connect().db_set('Bridge', name,
                                       ('fail_mode', 'secure')),
                self._connect().db_set('Open_vSwitch', '.', (
                    'other_config', {'max-idle': _MAX_IDLE}))])
        super()._check_integration_bridge()

    def _get_inner(self, names, port):
        deadline = time.monotonic() + _PATIENCE
        while True:
            name = self._find_interface(port.mac)
            if name is not None:
                return name
            if time.monotonic() > deadline:
                raise exceptions.VswitchUnavailable(
                    f'No network interface has the MAC address {port.mac}: '
                    f'the compute service has not plugged the port {port.id} '
                    f'into this instance, or this is no instance and '
                    f'[hmsync_distributor] connect_by has to be bridge.')
            time.sleep(_STEP)

    def _find_interface(self, mac):
        api = self._connect()
        with api.ovsdb_connection.lock:
            # Each bridge has an interface with the MAC address of a port.
            own = {row.name for row in api.tables['Bridge'].rows.values()}
        with pyroute2.IPRoute() as ipr:
            found = sorted(
                link.get_attr('IFLA_IFNAME') for link in ipr.get_links()
                if (link.get_attr('IFLA_ADDRESS') or '').lower() == mac)
        return next((name for name in found if name not in own), None)

    def _make_plug(self, names, inner, port):
        api = self._connect()
        # Names are given anew at a boot; it may be where another one was.
        return [
            *(api.del_port(name, bridge=bridge, if_exists=True)
              for bridge, name in self._find_wrong(names, inner)),
            api.add_port(names.bridge, inner, may_exist=True)]

    def _find_wrong(self, names, inner):
        """Return (bridge, port) of what has to go before, a list."""
        api = self._connect()
        with api.ovsdb_connection.lock:
            there = [(bridge.name, one.name)
                     for bridge in api.tables['Bridge'].rows.values()
                     for one in bridge.ports if one.name != bridge.name]
        return [(bridge, name) for bridge, name in there
                if (bridge == names.bridge) != (name == inner)
                and (bridge == names.bridge or name == inner)]

    def _is_plugged(self, names, inner, port):
        return not self._find_wrong(names, inner)

    def ensure(self, vip_id, port):
        number = super().ensure(vip_id, port)
        # From here on the kernel sees nothing of what comes: it must not
        # answer, or take an address, in a tenant's network.
        self._bring_up(self._get_inner(None, port), port)
        return number

    @staticmethod
    def _bring_up(name, port):
        no_ipv6 = pathlib.Path(_DISABLE_IPV6.format(name))
        try:
            # Where the kernel has no IPv6 at all, there is no such file.
            with contextlib.suppress(FileNotFoundError):
                if no_ipv6.read_text().strip() != '1':
                    no_ipv6.write_text('1')
            with pyroute2.IPRoute() as ipr:
                link, = ipr.get_links(ifname=name)
                if link.get_attr('IFLA_MTU') < port.mtu:
                    ipr.link('set', index=link['index'], mtu=port.mtu)
                if not link['flags'] & 1:
                    ipr.link('set', index=link['index'], state='up')
        except (OSError, ValueError, pyroute2.NetlinkError) as e:
            raise exceptions.VswitchUnavailable(
                f'The network interface {name} cannot be brought up with MTU '
                f'{port.mtu}: {e}. Run this as root, and see whether the '
                f'compute service gives its instances that MTU.') from e

    def remove(self, vip_id):
        names = bridges.Names.of(vip_id)
        bridge = self._find('Bridge', names.bridge)
        inner = [one.name for one in bridge.ports
                 if one.name != names.bridge] if bridge else []
        removed = super().remove(vip_id)
        if removed:
            with contextlib.suppress(OSError, pyroute2.NetlinkError), \
                    pyroute2.IPRoute() as ipr:
                for name in inner:
                    for index in ipr.link_lookup(ifname=name):
                        ipr.link('set', index=index, state='down')
        return removed
