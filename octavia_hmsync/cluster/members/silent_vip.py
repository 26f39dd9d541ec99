# SPDX-License-Identifier: Apache-2.0

"""keepalived of a member: gives it the VIPs without announcing them.

A distributor answers ARP and ND for the VIPs. Each member has them on its
loopback interface, to take what the distributor forwards, and must not answer
for them. arp_ignore does that for ARP; for IPv6 the kernel never answers for
an address of another interface. Without arp_announce a member would send ARP
requests for its gateway from the VIP, and the gateway would learn that. For
IPv6 it needs a link-local address as the source: the agent removes that of
the kernel from the interface, so it is added here.

keepalived sets both sysctls before it adds the addresses, each time it
starts, and removes the addresses when it stops. Without a vrrp_instance it
announces no address. The agent was booted as for ACTIVE_STANDBY, so it leaves
the addresses alone, also when it plugs the interface again.

A distributor may send a member packets of connections of other members, with
a mark. The kernel answers with a RST that has the same mark, which no client
may ever get. nftables sends it to the member itself, where the network drops
it: connection tracking at the port of the member sees it, and so forgets a
connection that it would else hold against the next one with the same client
port. That of Open vSwitch in user space drops such a first packet for 30 s.
With a kernel older than Linux 5.16 nftables drops the RST. Where an image has
no nft, distributors find that out and send the member no such packets.
"""

import base64
import ipaddress
import operator
import re
import typing

from octavia_hmsync.amphora import agent
from octavia_hmsync.distributor import document as doc
from octavia_hmsync import exceptions

# The routing table for packets from the VIPs, as in Octavia's configuration.
_TABLE = 1
_RULE_PRIORITY = 100
_INTERFACE = re.compile(r'[A-Za-z0-9_.-]{1,15}')

# Sent by a kernel that does not know the connection, a RST has no ACK. The
# second table is for what leaves nevertheless, as by a new interface: with
# another number clients take no RST for theirs.
_SCRIPT = '''\
f() {{
echo "table $1 hmsync
delete table $1 hmsync
table $1 hmsync {{ chain own {{ type filter hook $2 priority 0;
ip dscp {mark} tcp flags == rst $3
ip6 dscp {mark} tcp flags == rst $3
}}
}}"
}}
n='/usr/sbin/nft -f -'
(f netdev 'egress device {interface}' 'ether daddr set {mac}'
f inet output 'tcp sequence set 0') | $n || f inet output drop | $n
'''

_TEMPLATE = '''\
# By octavia-hmsync, for a member of a cluster: a distributor answers for the
# VIPs, never this amphora.
global_defs {{
    # "base64 -d" shows what nft is told. Without nft all goes on.
    startup_script "/bin/sh -c '/sbin/sysctl -q -w \
net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 && \
(echo {script} | base64 -d | /bin/sh || true)'" root
}}

static_ipaddress {{
{addresses}
}}

static_routes {{
{routes}
}}

static_rules {{
{rules}
}}
'''


def render(vips, interface, mac, own=()):
    """Render the keepalived configuration of a member.

    :param vips: (address, agent.Subnet) pairs, the load balancer's own VIP
                 first.
    :param interface: the name of the interface in their networks.
    :param own: what own.read() returns: further addresses to which
                connections are sent.
    :raises InvalidAddress: if an address or a name cannot be used.
    """
    if not _INTERFACE.fullmatch(interface):
        raise exceptions.InvalidAddress(
            f'"{interface!a}" is no name of an interface: see what the agent '
            f'of the amphora answers.')
    try:
        addresses = [ipaddress.ip_address(address) for address, _ in vips]
        routes = _render_routes(vips, interface)
        # Whatever the VIPs are: the script has the MAC address as well.
        link_local = _make_link_local(mac)
        more = [f'{link_local}/64 dev {interface}'
                for _ in range(any(each.version == 6 for each in addresses))]
        more += [f'{each} dev {interface}' for each, is_there in own
                 if not is_there]
    except ValueError as e:
        raise exceptions.InvalidAddress(
            f'The VIPs cannot be given to an amphora: {e}. See the subnets '
            f'of the load balancer.') from e
    return _TEMPLATE.format(
        script=base64.b64encode(render_script(interface, mac).encode())
        .decode(),
        addresses=_indent([f'{_host(address)} dev lo'
                           for address in addresses] + more),
        routes=_indent(routes),
        rules=_indent(f'from {_host(address)} table {_TABLE} priority '
                      f'{_RULE_PRIORITY}' for address in (
                          *addresses, *(each.ip for each, _ in own))))


def render_script(interface, mac):
    """Render the shell script that lets no RST for others out."""
    return _SCRIPT.format(mark=doc.MARK, interface=interface, mac=mac)


def _make_link_local(mac):
    """Return the address of the kernel's, which Neutron lets pass.

    :raises ValueError: if that is no MAC.
    """
    mac = bytes.fromhex(mac.replace(':', ''))
    if len(mac) != 6:
        raise ValueError('a MAC has six bytes')
    return ipaddress.IPv6Address(
        b'\xfe\x80' + bytes(6) + bytes([mac[0] ^ 2]) + mac[1:3] +
        b'\xff\xfe' + mac[3:])


def _host(address):
    return f'{address}/{address.max_prefixlen}'


def _indent(lines):
    return '\n'.join(f'    {line}' for line in lines)


def _render_routes(vips, interface):
    """Return the routes for packets from the VIPs.

    Of two VIPs in one subnet the first one gets the routes: a table has one
    route to a destination.
    """
    # An answer must leave by the interface of the VIPs, whatever other
    # networks the amphora is in.
    routes: dict[typing.Any, str] = {}
    for address, subnet in vips:
        vip = ipaddress.ip_address(address)
        network = ipaddress.ip_network(subnet.cidr, strict=False)
        routes.setdefault(network, f'{network} dev {interface} src {vip} '
                                   f'scope link table {_TABLE}')
        if subnet.gateway:
            gateway = ipaddress.ip_address(subnet.gateway)
            routes.setdefault(
                ('default', gateway.version),
                f'default via {gateway} dev {interface} onlink table '
                f'{_TABLE}')
        for destination, nexthop in subnet.host_routes:
            network = ipaddress.ip_network(destination, strict=False)
            routes.setdefault(
                network, f'{network} via {ipaddress.ip_address(nexthop)} dev '
                         f'{interface} onlink table {_TABLE}')
    return routes.values()


def read_vips(load_balancer, network_config):
    """Return the VIPs as render() takes them.

    :param network_config: of an amphora, by the network driver, as a dict.
    :returns: a tuple of (address, agent.Subnet) pairs.
    """
    vips = [(load_balancer.vip.ip_address, network_config['vip_subnet'])]
    vips += sorted(((vip['ip_address'], vip['subnet'])
                    for vip in network_config['additional_vip_data']),
                   key=operator.itemgetter(0))
    return tuple((address, agent.Subnet(
        subnet['cidr'], subnet['gateway_ip'], tuple(
            (route['destination'], route['nexthop'])
            for route in subnet.get('host_routes') or ())))
        for address, subnet in vips)
