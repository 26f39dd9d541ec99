# SPDX-License-Identifier: Apache-2.0

"""Whether a cluster can have its VIP in a network, as far as Neutron says."""

from oslo_log import log as logging

from octavia_hmsync.compat import provider

LOG = logging.getLogger(__name__)

# Of all that there are, so many have the VIP of a cluster.
DISTRIBUTORS = 2
# Types of networks that OVN shares with others, by a localnet port.
_OUTSIDE_OF_OVN = ('vlan', 'flat')


class Unsuitable(Exception):
    """A network, a subnet or a port that cannot have the VIP of a cluster."""


def check_network(network_driver, network_id):
    """Check the network of a VIP.

    :param network_driver: Octavia's.
    :param network_id: of the network.
    :raises Unsuitable: with what to do.
    """
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
    """Check the port that somebody made for a VIP.

    :param network_driver: Octavia's.
    :param port_id: of the port.
    :raises Unsuitable: with what to do.
    """
    vnic_type = network_driver.get_port(port_id).vnic_type
    if vnic_type != provider.VNIC_TYPE_NORMAL:
        raise Unsuitable(
            f'Port {port_id} has the vnic_type {vnic_type}, and distributors '
            f'cannot hand on what comes to it. Make a port with vnic_type '
            f'{provider.VNIC_TYPE_NORMAL} for the VIP of a cluster.')


def check_addresses(network_driver, network_id, subnet_id, amphorae,
                    distributors):
    """Check that a subnet has an address for whoever needs one.

    None is counted for an amphora that is built before the one that it
    replaces goes: where there is none a failover fails, and all else works.

    :param network_driver: Octavia's.
    :param network_id: of the VIP, whose port is there already.
    :param subnet_id: the same.
    :param amphorae: how many the cluster is to have.
    :param distributors: how many have its VIP.
    :raises Unsuitable: with how many there are, and what to do.
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
    """Check that OVN itself carries the traffic of a network, all of it.

    OVN sends what is for a VIP to the address of a member. In a network that
    goes on outside of OVN, members of which are reached by a localnet port,
    neither clients of another network nor machines of this one that OVN does
    not know get an answer (tried on a VLAN network).

    :param network_driver: Octavia's.
    :param network_id: of the network.
    :raises Unsuitable: with what to do. Neutron tells the type to
                        administrators alone: where Octavia is none, nothing
                        is raised.
    """
    kind = network_driver.get_network(network_id).provider_network_type
    if kind in _OUTSIDE_OF_OVN:
        raise Unsuitable(
            f'Network {network_id} is of type {kind}, and in this cloud a '
            f'cluster can be reached in networks of OVN\'s own alone, of '
            f'type geneve. Choose such a network for the VIP.')


def check_routers(network_driver, network_id, subnet_ids):
    """Check that there are routers that can answer for a VIP, as OVN has it.

    :param network_driver: Octavia's.
    :param network_id: of the VIP.
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
    """Check that no router is everywhere, for distributors on network nodes.

    Neutron tells such a router, on each node, that the VIP is at the port of
    an amphora, and the agents drop what it sends to a distributor's.

    :param network_driver: Octavia's.
    :param network_id: of the VIP.
    :param subnet_ids: of the VIP and the additional ones.
    :raises Unsuitable: with what to do.
    """
    found = sorted(set(subnet_ids) & (provider.get_routed_subnets(
        network_driver, network_id, [provider.DISTRIBUTED_ROUTER]) or set()))
    if found:
        raise Unsuitable(
            f'Subnet {", ".join(found)} has a distributed router (DVR), whose '
            f'clients would pass by the distributors of a cluster, or reach '
            f'nobody. Choose a subnet whose router is not distributed.')


def check_floating_ips(network_driver, network_id, subnet_ids):
    """Check that there can be no floating IP, where OVN distributes them.

    :param network_driver: Octavia's.
    :param network_id: of the VIP.
    :param subnet_ids: of the VIP and the additional ones.
    :raises Unsuitable: with what to do.
    """
    found = sorted(set(subnet_ids) & provider.get_subnets_with_gateway(
        network_driver, network_id))
    if found:
        raise Unsuitable(
            f'Subnet {", ".join(found)} has a router with an external '
            f'gateway. Floating IPs are distributed in this cloud, and no '
            f'answer comes back by that of a cluster. Choose a subnet whose '
            f'router has no external gateway, or one without a router.')


def _count_free(network_driver, network_id, subnet_id):
    """Return how many addresses nobody has, None where nobody knows."""
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
