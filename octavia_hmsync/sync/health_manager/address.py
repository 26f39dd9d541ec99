# SPDX-License-Identifier: Apache-2.0

"""Where a health manager gets the address that it advertises.

Entry points of ``octavia_hmsync.address.drivers``. A driver is made with the
parsed configuration and has one method, ``get()``.
"""

import ipaddress
import socket

import psutil
import stevedore
from stevedore import exception as stevedore_exc

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions

NAMESPACE = 'octavia_hmsync.address.drivers'


class BindIPDriver:
    """The address that the health manager binds to."""

    def __init__(self, conf):
        self._conf = conf

    def get(self):
        """Return ``[health_manager] bind_ip``."""
        return str(self._conf.health_manager.bind_ip)


class InterfaceDriver:
    """The address of a network interface, the management port of the node.

    It is looked up each time, since an interface may come up late or change
    its address.
    """

    def __init__(self, conf):
        self._interface = conf.hmsync.address_interface
        self._bind_ip = conf.health_manager.bind_ip
        self._allowed_networks = conf.hmsync.allowed_networks

    def get(self):
        """Return the interface's first address that amphorae can reach.

        It must be in ``[hmsync] allowed_networks``, if these are set, and must
        not be link-local. IPv4 comes before IPv6, a lower address before a
        higher one.

        :raises InvalidAddress: if there is no such interface or address, or
                                no listener is bound there.
        :raises InvalidConfiguration: if an allowed network is not a network.
        """
        addresses = psutil.net_if_addrs().get(self._interface)
        if addresses is None:
            raise exceptions.InvalidAddress(
                f'there is no network interface {self._interface} here: '
                f'plug it, or correct [hmsync] address_interface.')
        found = _sort(addresses)
        if not found:
            raise exceptions.InvalidAddress(
                f'the network interface {self._interface} has no address '
                f'yet: check DHCP on the management network, or assign one.')
        networks = addr.parse_networks(self._allowed_networks)
        for ip in found:
            if not networks or any(ip in network for network in networks):
                return addr.check_heard(str(ip), self._bind_ip)
        raise exceptions.InvalidAddress(
            f'the network interface {self._interface} has '
            f'{", ".join(map(str, found))}, and nothing in [hmsync] '
            f'allowed_networks ({", ".join(map(str, networks))}): assign an '
            f'address there, or add its network.')


def _sort(addresses):
    """Return the IP addresses that are not link-local, IPv4 first."""
    return sorted(
        (ip for ip in (
            # Without the scope of a link-local address.
            ipaddress.ip_address(a.address.partition('%')[0])
            for a in addresses
            if a.family in (socket.AF_INET, socket.AF_INET6))
         if not ip.is_link_local),
        key=lambda ip: (ip.version, int(ip)))


class FurtherAddresses:
    """This host's addresses in ``[hmsync] further_networks``.

    They are looked up each time, as by the driver interface.
    """

    def __init__(self, conf):
        self._conf = conf

    def get(self, own):
        """Return ({network: IP address}, what is wrong: a list of lines).

        :param own: the address of the address driver; its network is left
                    out.
        :raises InvalidConfiguration: if a further network is not a network.
        """
        opts = self._conf.hmsync
        if not opts.further_networks:
            return {}, []
        networks = addr.parse_networks(opts.further_networks,
                                       'further_networks')
        here = _sort(a for found in psutil.net_if_addrs().values()
                     for a in found)
        further, problems = {}, []
        for network in networks:
            if ipaddress.ip_address(own) in network:
                continue
            ip = next((ip for ip in here if ip in network), None)
            try:
                if ip is None:
                    raise exceptions.InvalidAddress(
                        'no interface of this host has an address there: '
                        'run "octavia-hmsync network port plug", or assign '
                        'one.')
                further[str(network)] = addr.check_heard(
                    addr.check_advertised(ip, (), opts.allow_loopback),
                    self._conf.health_manager.bind_ip)
            except exceptions.InvalidAddress as e:
                problems.append(f'[hmsync] further_networks: {network}: {e}')
        return further, problems


class StaticDriver:
    """An address that the operator states."""

    def __init__(self, conf):
        self._address = conf.hmsync.static_address

    def get(self):
        """Return ``[hmsync] static_address``, or raise InvalidAddress."""
        if not self._address:
            raise exceptions.InvalidAddress(
                '[hmsync] address_driver is static, but static_address is '
                'not set: set it, or take another driver.')
        return str(self._address)


def load_driver(conf):
    """Load ``address_driver``, or raise InvalidConfiguration."""
    name = conf.hmsync.address_driver
    try:
        return stevedore.DriverManager(
            NAMESPACE, name, invoke_on_load=True, invoke_args=(conf,),
            warn_on_missing_entrypoint=False).driver
    except stevedore_exc.NoMatches:
        known = ', '.join(sorted(stevedore.ExtensionManager(
            NAMESPACE).names()))
        raise exceptions.InvalidConfiguration(
            f'[hmsync] address_driver = {name} is not installed: take one '
            f'of {known}.') from None
