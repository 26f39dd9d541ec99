# SPDX-License-Identifier: Apache-2.0

"""Chooses the switches and routers of OVN for a load balancer. Pure."""

from collections import abc
import dataclasses
import ipaddress

GATEWAY_OWNER = 'network:router_gateway'


@dataclasses.dataclass(frozen=True)
class Link:
    """A port of a router, in a switch.

    :param networks: addresses of the port, with prefix lengths.
    :param is_gateway: whether it is the external gateway of the router.
    """

    switch: str
    router: str
    networks: tuple[str, ...]
    is_gateway: bool = False


@dataclasses.dataclass(frozen=True)
class Places:
    """Where a load balancer is to be.

    :param switches: names, of switches with clients.
    :param routers: names, of routers by which clients come from outside.
    :param unrouted: its addresses in subnets without a router.
    """

    switches: frozenset[str]
    routers: frozenset[str]
    unrouted: tuple[str, ...]


def find_places(links: abc.Iterable[Link], switch: str,
                addresses: abc.Iterable[str]) -> Places:
    """Return the places of the load balancer of a VIP.

    OVN translates addresses where a packet of a client enters: at each switch
    of each router next to the VIP, and, for clients from outside, at these
    routers. Clients in the subnet of the VIP need the router, too: only the
    router answers their ARP requests for the VIP.

    :param switch: of the VIP.
    """
    links = [link for link in links if not link.is_gateway]
    own = [link for link in links if link.switch == switch]
    routers = {link.router for link in own}
    networks = [ipaddress.ip_interface(text).network
                for link in own for text in link.networks]
    return Places(
        frozenset({switch, *(link.switch for link in links
                             if link.router in routers)}),
        frozenset(routers),
        tuple(text for text in addresses if not any(
            ipaddress.ip_address(text) in network for network in networks)))
