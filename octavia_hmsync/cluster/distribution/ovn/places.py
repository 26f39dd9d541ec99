# SPDX-License-Identifier: Apache-2.0

"""Which switches and routers of OVN a cluster's load balancer is at. Pure."""

from collections import abc
import dataclasses
import ipaddress

GATEWAY_OWNER = 'network:router_gateway'


@dataclasses.dataclass(frozen=True)
class Link:
    """A port of a router, in a switch.

    :param switch: the name of the switch.
    :param router: the name of the router.
    :param networks: addresses of the port, with the length of their prefix.
    :param is_gateway: whether the router goes outside there.
    """

    switch: str
    router: str
    networks: tuple[str, ...]
    is_gateway: bool = False


@dataclasses.dataclass(frozen=True)
class Places:
    """Where a load balancer is to be.

    :param switches: names: those where clients may be.
    :param routers: names: by which clients elsewhere come.
    :param unrouted: addresses of it that no router is next to.
    """

    switches: frozenset[str]
    routers: frozenset[str]
    unrouted: tuple[str, ...]


def find_places(links: abc.Iterable[Link], switch: str,
                addresses: abc.Iterable[str]) -> Places:
    """Tell where the load balancer of a VIP is to be.

    OVN translates addresses where a client's packet comes from: at each
    switch of each router that is next to the VIP, and at those routers for
    who comes from outside. Of the VIP's own subnet, too, a client needs the
    router: nobody else answers its question who has the VIP.

    :param links: all of them.
    :param switch: that of the VIP.
    :param addresses: of the load balancer.
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
