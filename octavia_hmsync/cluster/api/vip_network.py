# SPDX-License-Identifier: Apache-2.0

"""Checks whether a cluster can have its VIP in a network, with Neutron."""

from oslo_log import log as logging

from octavia_hmsync import compat
from octavia_hmsync.compat import provider

LOG = logging.getLogger(__name__)

# Distributors of a cluster, if there are as many.
DISTRIBUTORS = 2
# Types of networks that go on outside of OVN, behind a localnet port.
_OUTSIDE_OF_OVN = ('vlan', 'flat')


class Unsuitable(Exception):
    """A network, a subnet or a port that cannot have the VIP of a cluster."""


def check_network(network_driver, network_id):
    """Check the network of a VIP; raise Unsuitable with what to do."""
    if not network_driver.get_network(network_id).port_security_enabled:
        raise Unsuitable(
            f'Port security is off in network {network_id}, where any port '
            f'could answer for the VIP of a cluster. Switch it on for the '
            f'network, or choose another one.')
    if provider.has_segments(network_driver, network_id):
        raise Unsuitable(
            f'Network {network_id} is a routed one, whose segments are no '
            f'common Ethernet, and a cluster needs one for its VIP and its '
            f'amphorae. Choose a network with one segment for the VIP.')


def check_port(network_driver, port_id):
    """Check a tenant's port for a VIP; raise Unsuitable with what to do."""
    vnic_type = network_driver.get_port(port_id).vnic_type
    if vnic_type != provider.VNIC_TYPE_NORMAL:
        raise Unsuitable(
            f'Port {port_id} has the vnic_type {vnic_type}, and distributors '
            f'cannot forward its traffic. Make a port with vnic_type '
            f'{provider.VNIC_TYPE_NORMAL} for the VIP of a cluster.')


def check_addresses(network_driver, network_id, subnet_id, amphorae,
                    distributors):
    """Check that a subnet has enough free addresses.

    The further address that a replacement needs is not counted: without it
    only failovers fail.

    :param network_id: of the VIP, whose port exists already.
    :param amphorae: the number of amphorae of the cluster.
    :param distributors: the number of distributors of the cluster.
    :raises Unsuitable: with the number of free addresses, and what to do.
    """
    free = _count_free(network_driver, network_id, subnet_id)
    needed = amphorae + distributors
    if free is not None and free < needed:
        raise Unsuitable(
            f'Subnet {subnet_id} has {free} free addresses, and a cluster of '
            f'{amphorae} amphorae takes {needed} besides its VIP: one for '
            f'each amphora, and {distributors} for distributors. Free some, '
            f'choose another subnet, or a flavor with fewer amphorae.')


def check_overlay(network_driver, network_id):
    """Check that OVN carries all traffic of a network.

    OVN replaces the address of a VIP by that of a member. If a network goes
    on outside of OVN, behind a localnet port, neither clients of other
    networks nor machines of this one that OVN does not know get an answer
    (tried on a VLAN network).

    :raises Unsuitable: with what to do. Neutron shows the type to
                        administrators only: if Octavia is none, nothing is
                        raised.
    """
    kind = network_driver.get_network(network_id).provider_network_type
    if kind in _OUTSIDE_OF_OVN:
        raise Unsuitable(
            f'Network {network_id} is of type {kind}, and in this cloud '
            f'clusters work only in networks of OVN\'s own, of type geneve. '
            f'Choose such a network for the VIP.')


def check_routers(network_driver, network_id, subnet_ids):
    """Check that each subnet has a router, which answers for a VIP in OVN.

    :param subnet_ids: of the VIP and the additional ones.
    :raises Unsuitable: with what to do.
    """
    routed = provider.get_routed_subnets(network_driver, network_id)
    without = sorted(set(subnet_ids) - routed) if routed is not None else ()
    if without:
        raise Unsuitable(
            f'No router is in subnet {", ".join(without)}, and in this cloud '
            f'a router answers for the VIP of a cluster, also to clients of '
            f'the same subnet. Add the subnet to a router, or choose another '
            f'one.')


def check_not_distributed(network_driver, network_id, subnet_ids):
    """Check that no router is distributed (DVR), for hmsync_ovs.

    Neutron tells a distributed router on each node that the VIP is at the
    port of an amphora, and agents drop what it sends to a distributor.

    :raises Unsuitable: with what to do.
    """
    found = sorted(set(subnet_ids) & (provider.get_routed_subnets(
        network_driver, network_id, [compat.DISTRIBUTED_ROUTER]) or set()))
    if found:
        raise Unsuitable(
            f'Subnet {", ".join(found)} has a distributed router (DVR), whose '
            f'clients would bypass the distributors of a cluster, or reach '
            f'nothing. Choose a subnet whose router is not distributed.')


def check_floating_ips(network_driver, network_id, subnet_ids):
    """Check that a VIP can get no floating IP, where OVN distributes these.

    :raises Unsuitable: with what to do.
    """
    found = sorted(set(subnet_ids) & provider.get_subnets_with_gateway(
        network_driver, network_id))
    if found:
        raise Unsuitable(
            f'Subnet {", ".join(found)} has a router with an external '
            f'gateway. Floating IPs are distributed in this cloud, and '
            f'clusters do not work with these. Choose a subnet whose router '
            f'has no external gateway, or one without a router.')


def _count_free(network_driver, network_id, subnet_id):
    """Return the number of free addresses; None if it is not known."""
    network = network_driver.get_network(network_id)
    try:
        subnets = network_driver.get_network_ip_availability(
            network).subnet_ip_availability
    except provider.NetworkException as e:
        # An extension of Neutron's, which not every cloud has.
        LOG.debug('Free addresses of subnet %s are not known: %s',
                  subnet_id, e)
        return None
    for subnet in subnets or ():
        if subnet['subnet_id'] == subnet_id:
            return subnet['total_ips'] - subnet['used_ips']
    return None
