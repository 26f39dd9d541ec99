# SPDX-License-Identifier: Apache-2.0

"""Addresses of health managers: reading, checking and ordering them.

An amphora drops a malformed entry of its list *and every entry after it*
(octavia.amphorae.backends.health_daemon.health_sender), so none may ever get
into a list.
"""

from collections import abc
import ipaddress

from octavia_hmsync import exceptions

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def format_address(ip_address: str | IPAddress, port: int) -> str:
    """Write an address the one way in which the plugin keeps it.

    :param ip_address: an IPv4 or IPv6 address, as text or object.
    :param port: a UDP port.
    :returns: ``192.0.2.1:5555`` or ``[2001:db8::1]:5555``.
    :raises ValueError: if one of them is none.
    """
    ip = ipaddress.ip_address(ip_address)
    port = int(port)
    if not 0 < port < 65536:
        raise ValueError(f'{port} is not a port')
    return f'[{ip}]:{port}' if ip.version == 6 else f'{ip}:{port}'


def parse_address(text: str) -> tuple[IPAddress, int]:
    """Read one entry of controller_ip_port_list.

    As an amphora does: the port is what follows the last colon, with or
    without brackets around what comes before.

    :param text: ``192.0.2.1:5555``, ``[2001:db8::1]:5555`` or
                 ``2001:db8::1:5555``.
    :returns: (ipaddress object, port).
    :raises InvalidAddress: if it is malformed; host names are, too, for what
                            they resolve to in an amphora cannot be known.
    """
    host, separator, port = text.strip().rpartition(':')
    if host.startswith('[') and host.endswith(']'):
        host = host[1:-1]
    try:
        ip = ipaddress.ip_address(host)
        # A scope means an interface of this machine, nothing elsewhere.
        if not separator or '%' in host:
            raise ValueError
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError
    except ValueError:
        raise exceptions.InvalidAddress(
            f'"{text}" is not an address for heartbeats: write '
            f'IPV4:PORT or [IPV6]:PORT.') from None
    return ip, int(port)


def for_agents(addresses: abc.Iterable[str]) -> list[str]:
    """Write a list so that the agent of every release can read it.

    Without the brackets around an IPv6 address: with them the sender of
    heartbeats ends in images from before Octavia 10.1.0, 11.0.1, 12.0.1 and
    13.0.0.

    :param addresses: well-formed addresses; their order is kept.
    :returns: a list.
    """
    return [f'{ip}:{port}' for ip, port in map(parse_address, addresses)]


def sort_key(address: str) -> tuple[int, int, int]:
    """Return the place of an address in every list.

    One order for all, derived from nothing but the address, keeps a list
    that holds the same addresses the same list: the order is part of what an
    amphora compares.
    """
    ip, port = parse_address(address)
    return ip.version, int(ip), port


def canonical(addresses: abc.Iterable[str]) -> tuple[str, ...]:
    """Return addresses without repetition, in the one order.

    :param addresses: well-formed addresses in any order.
    :returns: a tuple.
    """
    normalized = {format_address(*parse_address(a)) for a in addresses}
    return tuple(sorted(normalized, key=sort_key))


def split_list(text: str | None) -> tuple[str, ...]:
    """Read a stored controller_ip_port_list.

    :param text: addresses separated by commas, or None.
    :returns: a tuple of addresses.
    """
    return tuple(a.strip() for a in (text or '').split(',') if a.strip())


def join_list(addresses: abc.Iterable[str]) -> str:
    """Write a controller_ip_port_list for storing and for showing."""
    return ', '.join(addresses)


def parse_networks(texts: abc.Iterable[str]) -> list[IPNetwork]:
    """Read ``[hmsync] allowed_networks``.

    :param texts: networks (CIDR).
    :returns: a list of ipaddress objects.
    :raises InvalidConfiguration: if one is none.
    """
    try:
        return [ipaddress.ip_network(text) for text in texts]
    except ValueError as e:
        raise exceptions.InvalidConfiguration(
            f'[hmsync] allowed_networks: {e}. Correct it and restart the '
            f'service.') from None


def check_advertised(ip_address: str, allowed_networks: abc.Iterable[str],
                     allow_loopback: bool) -> str:
    """Check an address that a health manager wants amphorae to send to.

    :param ip_address: the address, as text.
    :param allowed_networks: networks (CIDR) in which it must lie; empty
                             allows any.
    :param allow_loopback: whether a loopback address will do.
    :returns: the address in its normal form, as text.
    :raises InvalidAddress: saying what is wrong with it and what to do.
    :raises InvalidConfiguration: if an allowed network is none.
    """
    try:
        ip = ipaddress.ip_address(ip_address)
    except ValueError:
        raise exceptions.InvalidAddress(
            f'"{ip_address}" is not an IP address.') from None
    if ip.is_unspecified:
        raise exceptions.InvalidAddress(
            f'{ip} is a wildcard, no amphora can send to it: set '
            f'[health_manager] bind_ip to the address in the management '
            f'network, or [hmsync] address_driver to interface or static.')
    if ip.is_multicast:
        raise exceptions.InvalidAddress(
            f'{ip} is a multicast address, no health manager can own it.')
    if ip.is_loopback and not allow_loopback:
        raise exceptions.InvalidAddress(
            f'{ip} is a loopback address, no amphora can reach it: set '
            f'[health_manager] bind_ip to the address in the management '
            f'network (or [hmsync] allow_loopback on a test machine).')
    if ip.version == 6 and ip.is_link_local:
        raise exceptions.InvalidAddress(
            f'{ip} is a link-local address, for which an amphora lacks the '
            f'interface to send through: bind the health manager to another '
            f'address of the management network.')
    networks = parse_networks(allowed_networks)
    if networks and not any(ip in network for network in networks):
        raise exceptions.InvalidAddress(
            f'{ip} is outside [hmsync] allowed_networks '
            f'({", ".join(map(str, networks))}): bind the health manager to '
            f'an address in them, or add its network.')
    return str(ip)


def check_heard(ip_address: str, bind_ip: str | IPAddress) -> str:
    """Check that heartbeats to an address of this host would be heard.

    :param ip_address: an address of the host, as text.
    :param bind_ip: ``[health_manager] bind_ip``.
    :returns: the address.
    :raises InvalidAddress: if a socket bound to bind_ip gets nothing that is
                            sent there.
    """
    ip = ipaddress.ip_address(ip_address)
    bound = ipaddress.ip_address(str(bind_ip))
    wildcard = '::' if ip.version == 6 else '0.0.0.0'  # nosec B104
    # The IPv6 wildcard hears IPv4 as well.
    if str(bound) not in ('::', wildcard, str(ip)):
        raise exceptions.InvalidAddress(
            f'heartbeats to {ip} would not be heard: set [health_manager] '
            f'bind_ip = {wildcard}, instead of {bound}, and restart '
            f'octavia-health-manager.')
    return ip_address
