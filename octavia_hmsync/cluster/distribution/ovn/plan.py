# SPDX-License-Identifier: Apache-2.0

"""Plans OVN's load balancer of a cluster, and where it is to be. Pure.

All traffic to a VIP goes to the own address of a member, whatever its port,
so that a new listener need not wait for a change in OVN. Each port of a
listener also has an entry of its own, which adds OVN's health check of the
members.

OVN tracks connections, so a member that is in no entry gets no new
connections and keeps its present ones. Members that drain are in no entry.

OVN refuses new connections to a port at which no member answers it, as when
all of them are overloaded. Such a port is opened: it has no health check, so
that OVN sends new connections to all members, until half of them answer again.
Fewer would get what is for all.
"""

from collections import abc
import dataclasses
import ipaddress

CLUSTER_KEY = 'octavia-hmsync:cluster'
VERSION_KEY = 'octavia-hmsync:version'
# The ports that are open.
OPEN_KEY = 'octavia-hmsync:open'

_PREFIX = 'octavia-hmsync-'
# Options of a health check: seconds, and numbers of probes.
CHECK = {'interval': '1', 'timeout': '1', 'success_count': '1',
         'failure_count': '2'}
_OPTIONS = {'event': 'false', 'reject': 'true'}
SOURCE_IP = 'SOURCE_IP'
# OVN 23.03 probes members over IPv4 only.
_CHECKED = 4
# No packet has this destination.
_NOWHERE = '0.0.0.1'

GATEWAY_OWNER = 'network:router_gateway'


@dataclasses.dataclass(frozen=True)
class Backend:
    """A member to which connections go.

    :param port_id: the port of its front end, as OVN knows it.
    :param addresses: its own there, one of each family.
    """

    member_id: str
    port_id: str
    addresses: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Balancer:
    """A row of Load_Balancer, and its health checks.

    :param vips: {address, or address and port: the same of backends}.
    :param selection_fields: header fields by which connections are spread;
                             empty for all of them.
    :param ip_port_mappings: {own address: its port, and the source address
                             of probes}.
    :param checks: keys of vips whose backends OVN probes.
    """

    name: str
    version: int
    vips: dict[str, str]
    selection_fields: tuple[str, ...]
    ip_port_mappings: dict[str, str]
    checks: frozenset[str]
    external_ids: dict[str, str]

    options: dict[str, str] = dataclasses.field(
        default_factory=lambda: dict(_OPTIONS))


def get_name(cluster_id: str) -> str:
    """Return the name of the load balancer of a cluster."""
    return f'{_PREFIX}{cluster_id}'


def make(cluster_id: str, version: int, affinity: str,
         addresses: abc.Iterable[str], backends: abc.Iterable[Backend],
         ports: abc.Iterable[int], source: str | None) -> Balancer:
    """Make the load balancer of a cluster.

    :param affinity: FLOW or SOURCE_IP.
    :param addresses: VIPs and floating IPs.
    :param backends: the members that get new connections, by slot: with
                     SOURCE_IP their order decides where clients go.
    :param ports: of listeners.
    :param source: the address from which OVN probes members, which must be
                   unique; None for no probes.
    """
    backends = list(backends)
    vips: dict[str, str] = {}
    for text in addresses:
        address = ipaddress.ip_address(text)
        own = [ip for _, ip in _list_addresses(backends, address.version)]
        vips[_key(address)] = ','.join(_key(ip) for ip in own)
        for port in sorted(set(ports)):
            vips[_key(address, port)] = ','.join(
                _key(ip, port) for ip in own)
    mappings = _make_mappings(backends, source) if source else {}
    checks = find_checks(vips, mappings)
    return Balancer(
        get_name(cluster_id), version, vips,
        ('ip_src',) if affinity == SOURCE_IP else (),
        mappings if checks else {}, checks,
        {CLUSTER_KEY: cluster_id, VERSION_KEY: str(version)})


def choose_open(before: abc.Container[int],
                answers: abc.Mapping[int, abc.Collection[bool]]
                ) -> frozenset[int]:
    """Return the ports at which silent members get new connections, too.

    :param before: the ports at which they do now.
    :param answers: by the port of a listener: of each member that gets new
                    connections, whether it answers OVN there, or was not
                    probed yet.
    """
    return frozenset(
        port for port, each in answers.items() if each and (
            2 * sum(each) < len(each) if port in before else not any(each)))


def read_ports(text: str) -> frozenset[int]:
    """Read what write_ports() returned."""
    return frozenset(int(word) for word in text.split() if word.isdigit())


def write_ports(ports: abc.Iterable[int]) -> str:
    return ' '.join(map(str, sorted(ports)))


def find_checks(vips: abc.Mapping[str, str], mappings: abc.Mapping[str, str],
                ports: abc.Container[int] = ()) -> frozenset[str]:
    """Return what Balancer.checks has, from its other fields.

    :param ports: open ports.
    """
    # An address of IPv6 has more colons.
    return frozenset(
        key for key, own in vips.items()
        if mappings and own and key.count(':') == 1 and
        int(key.partition(':')[2]) not in ports)


def make_probe(cluster_id: str, version: int,
               backends: abc.Iterable[Backend], ports: abc.Iterable[int],
               source: str | None) -> Balancer:
    """Make the load balancer for probes of all members of a cluster.

    It is at no switch and no router, so it carries no traffic. Without it OVN
    would not probe drained members, which may be well again.

    :param cluster_id, version, ports, source: as make() takes them.
    :param backends: all members that have a front end.
    """
    backends = list(backends)
    vips = {}
    own = [ip for _, ip in _list_addresses(backends, _CHECKED)]
    if source and own:
        vips = {_key(_NOWHERE, port): ','.join(_key(ip, port) for ip in own)
                for port in sorted(set(ports))}
    return Balancer(
        f'{get_name(cluster_id)}-probe', version, vips, (),
        _make_mappings(backends, source) if vips else {}, frozenset(vips),
        {CLUSTER_KEY: cluster_id, VERSION_KEY: str(version)})


def _list_addresses(backends: list[Backend],
                    version: int) -> list[tuple[str, str]]:
    return [(one.port_id, ip) for one in backends for ip in one.addresses
            if ipaddress.ip_address(ip).version == version]


def _make_mappings(backends: list[Backend],
                   source: str | None) -> dict[str, str]:
    return {ip: f'{port_id}:{source}'
            for port_id, ip in _list_addresses(backends, _CHECKED)}


def _key(address: object, port: int | None = None) -> str:
    ip = ipaddress.ip_address(str(address))
    if port is None:
        return str(ip)
    return f'[{ip}]:{port}' if ip.version == 6 else f'{ip}:{port}'


def read_cidrs(text: str) -> tuple[str, ...]:
    """Read the addresses of a port, as Neutron writes them for OVN.

    :param text: addresses with prefix lengths.
    :returns: the first address of each family.
    """
    found: dict[int, str] = {}
    for one in text.split():
        try:
            address = ipaddress.ip_interface(one).ip
        except ValueError:
            continue
        found.setdefault(address.version, str(address))
    return tuple(found.values())


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
