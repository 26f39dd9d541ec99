# SPDX-License-Identifier: Apache-2.0

"""Addresses of health managers: reading, checking and ordering them.

An amphora drops a malformed entry of its list *and every entry after it*
(octavia.amphorae.backends.health_daemon.health_sender), so a list must never
hold one.
"""

from collections import abc
import functools
import ipaddress

from octavia_hmsync import exceptions

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def format_address(ip_address: str | IPAddress, port: int) -> str:
    """Write an address in the plugin's normal form.

    :returns: ``192.0.2.1:5555`` or ``[2001:db8::1]:5555``.
    :raises ValueError: if the address or the port is invalid.
    """
    ip = ipaddress.ip_address(ip_address)
    port = int(port)
    if not 0 < port < 65536:
        raise ValueError(f'{port} is not a port')
    return f'[{ip}]:{port}' if ip.version == 6 else f'{ip}:{port}'


def parse_address(text: str) -> tuple[IPAddress, int]:
    """Read one entry of controller_ip_port_list as an amphora does.

    :param text: ``192.0.2.1:5555``, ``[2001:db8::1]:5555`` or
                 ``2001:db8::1:5555``.
    :raises InvalidAddress: if it is malformed, or a host name: an amphora may
                            resolve that to anything.
    """
    host, separator, port = text.strip().rpartition(':')
    if host.startswith('[') and host.endswith(']'):
        host = host[1:-1]
    try:
        ip = ipaddress.ip_address(host)
        # A scope names an interface of this machine only.
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

    IPv6 addresses get no brackets: these end the heartbeat sender of images
    from before Octavia 10.1.0, 11.0.1, 12.0.1 and 13.0.0.
    """
    return [f'{ip}:{port}' for ip, port in map(parse_address, addresses)]


def sort_key(address: str) -> tuple[int, int, int]:
    """Return the place of an address in every list.

    Amphorae compare the order, too. An order that depends only on the
    addresses keeps a list with the same addresses the same list.
    """
    return _read(address)[0]


# There are few health managers, and a list of them for each amphora.
@functools.lru_cache(maxsize=1024)
def _read(address: str) -> tuple[tuple[int, int, int], str]:
    """Return the place of an address in every list, and its normal form."""
    ip, port = parse_address(address)
    return (ip.version, int(ip), port), format_address(ip, port)


def canonical(addresses: abc.Iterable[str]) -> tuple[str, ...]:
    """Return addresses without repetition, in the order of sort_key()."""
    return tuple(text for _place, text in sorted(set(map(_read, addresses))))


def split_list(text: str | None) -> tuple[str, ...]:
    """Read a stored controller_ip_port_list."""
    return tuple(a.strip() for a in (text or '').split(',') if a.strip())


def join_list(addresses: abc.Iterable[str]) -> str:
    """Write a controller_ip_port_list for storing and for showing."""
    return ', '.join(addresses)


def parse_networks(texts: abc.Iterable[str],
                   option: str = 'allowed_networks') -> list[IPNetwork]:
    """Read networks (CIDR), or raise InvalidConfiguration."""
    try:
        return [ipaddress.ip_network(text) for text in texts]
    except ValueError as e:
        raise exceptions.InvalidConfiguration(
            f'[hmsync] {option}: {e}. Correct it and restart the '
            f'service.') from None


def check_advertised(ip_address: str, allowed_networks: abc.Iterable[str],
                     allow_loopback: bool) -> str:
    """Check an address that a health manager wants amphorae to send to.

    :param allowed_networks: networks (CIDR) in which it must lie; empty
                             allows any.
    :raises InvalidAddress: with what is wrong and what to do.
    :raises InvalidConfiguration: if an allowed network is not a network.
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

    :raises InvalidAddress: if a socket bound to bind_ip does not get what is
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
