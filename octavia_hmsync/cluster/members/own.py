# SPDX-License-Identifier: Apache-2.0

"""The own addresses of members in the networks of the VIPs.

OVN's load balancer tells members apart by these, and sends connections to
them. So where OVN distributes, members serve them as well as the VIPs;
elsewhere they serve the VIPs alone.
"""

import copy
import ipaddress
import types

from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync import exceptions


def find(load_balancer, amphora_ids=None, conf=None, network=None):
    """Return {id of an amphora: own addresses} that amphorae must serve.

    :param amphora_ids: None for all amphorae of the load balancer.
    :param conf: Octavia's own by default.
    :param network: Octavia's network driver by default.
    :raises NotPossible: if Neutron does not answer.
    """
    if not backends.is_ovn(conf or compat.CONF):
        return {}
    vips = {load_balancer.vip.ip_address, *(
        vip.ip_address for vip in load_balancer.additional_vips)}
    found = {}
    for amphora in load_balancer.amphorae:
        if not amphora.vrrp_ip or (
                amphora_ids is not None and amphora.id not in amphora_ids):
            continue
        # Octavia records the first address only; Neutron has them all.
        found[amphora.id] = (
            (amphora.vrrp_ip,) if len(vips) == 1 else _ask(
                network or compat_amphora.load_network_driver(), amphora))
    return found


def _ask(network, amphora):
    try:
        port = network.get_port(amphora.vrrp_port_id)
    except Exception as e:
        # Any network driver raises what it likes.
        raise exceptions.NotPossible(
            f'Neutron does not tell the addresses of the amphora '
            f'{amphora.id} ({type(e).__name__}), and no amphora was '
            f'changed: see whether Neutron answers.') from e
    return tuple(fixed_ip.ip_address for fixed_ip in port.fixed_ips)


def show(shown, addresses):
    """Add own addresses to a load balancer that Octavia renders.

    :param shown: of peers.show(); changed in place.
    """
    if not addresses:
        return
    vips = [shown.vip, *shown.additional_vips]
    first, *more = own = [types.SimpleNamespace(ip_address=address)
                          for address in addresses]
    shown.additional_vips = [*vips[1:], *own]
    # For LVS the agent counts only the first address of each family, and OVN
    # sends all traffic to own addresses: they come first.
    counted = copy.copy(shown)
    counted.vip, counted.additional_vips = first, [*more, *vips]
    for listener in shown.listeners:
        if listener.protocol in compat.LVS_PROTOCOLS:
            listener.load_balancer = counted


def read(network_config, vips, first, conf=None):
    """Return own addresses as silent_vip.render() takes them.

    :param network_config: of an amphora, by the network driver, as a dict.
    :param vips: what silent_vip.read_vips() returns.
    :param first: the address that the agent gives the interface.
    :param conf: Octavia's own by default.
    :returns: (address with prefix length, whether the agent gives it) pairs.
    """
    if not backends.is_ovn(conf or compat.CONF):
        return ()
    found = []
    for fixed_ip in network_config['vrrp_port']['fixed_ips']:
        address = ipaddress.ip_address(fixed_ip['ip_address'])
        for _vip, subnet in vips:
            network = ipaddress.ip_network(subnet.cidr, strict=False)
            if address in network:
                found.append((
                    ipaddress.ip_interface(f'{address}/{network.prefixlen}'),
                    fixed_ip['ip_address'] == first))
                break
    return tuple(found)
