# SPDX-License-Identifier: Apache-2.0

"""Checks of Neutron: what the load balancer's owner has, and boot networks."""

import ipaddress

from octavia_hmsync.cli import finding
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import network_reading


def check_vip(known):
    """Whether the ports of the VIP exist and have its addresses."""
    unknown = find_unknown(known, 'ports')
    if unknown:
        return unknown
    ports = known.network.ports
    missing = _miss('The port of its VIP', known.needs.port_ids, ports,
                    'no amphora could be plugged there')
    if missing.severity:
        return missing
    found = {ipaddress.ip_address(address)
             for port_id in known.needs.port_ids for address in ports[port_id]}
    lost = sorted(address for address in known.needs.addresses
                  if ipaddress.ip_address(address) not in found)
    if known.needs.port_ids and lost:
        return finding.failure(
            f'The port of its VIP has not the address {", ".join(lost)} any '
            f'more, and Octavia looks for it there: let its owner set it as '
            f'a fixed IP of port {", ".join(sorted(known.needs.port_ids))}.',
            whose=finding.Whose.TENANT)
    return finding.success()


def check_subnets(known):
    """Whether the subnets of VIPs and members exist."""
    return find_unknown(known, 'subnets') or _miss(
        'A subnet of its VIP or its members', known.needs.subnet_ids,
        known.network.subnets,
        'remove the members there, or recreate the load balancer')


def check_addresses(known):
    """Whether there is an address for the new amphora beside the old."""
    unknown = find_unknown(known, 'subnets', 'full')
    if unknown:
        return unknown
    subnets = known.network.subnets
    full = sorted(subnet_id for subnet_id in known.needs.plugged_subnet_ids
                  if subnet_id in subnets and subnets[subnet_id].is_full)
    if not full:
        return finding.success()
    return finding.failure(
        f'No address is free in the subnet of its VIP or its members '
        f'{", ".join(full)}, and a new amphora takes one before the old one '
        f'is deleted: delete a port there, or give the subnet a larger '
        f'allocation pool.',
        whose=_get_owner(known, [subnets[subnet_id] for subnet_id in full]))


def check_port_security(known):
    """Whether a port in the network of the VIP may also have its address."""
    unknown = find_unknown(known, 'subnets', 'networks')
    if unknown:
        return unknown
    subnet = known.network.subnets.get(known.needs.vip_subnet_id)
    network = subnet and known.network.networks.get(subnet.network_id)
    if network is None or network.is_secure:
        return finding.success()
    return finding.failure(
        f'The network of its VIP {subnet.network_id} has port security '
        f'disabled, and Neutron takes no allowed address pair for a port '
        f'there: enable it again.', whose=_get_owner(known, [network]))


def check_security_groups(known):
    """Whether the security groups that its owner gave to the VIP exist."""
    return find_unknown(known, 'security_group_ids') or _miss(
        'A security group of its VIP', known.needs.security_group_ids,
        known.network.security_group_ids, 'let its owner set other ones')


def check_vip_group(known):
    """Whether the security group that Octavia made for the VIP exists."""
    unknown = find_unknown(known, 'vip_groups')
    if unknown or outdated.has_cluster(known.load_balancer):
        return unknown or finding.success()
    name = f'{network_reading.VIP_GROUP_PREFIX}{known.load_balancer.id}'
    if known.network.vip_groups is None or name in known.network.vip_groups:
        return finding.success()
    return finding.failure(
        f'The security group {name}, which Octavia made for its VIP, is not '
        f'in Neutron any more, and no amphora is built without it: fail the '
        f'load balancer over ("openstack loadbalancer failover"), which makes '
        f'it anew.')


def check_qos_policy(known):
    """Whether the QoS policy of the VIP exists."""
    policy_id = known.needs.qos_policy_id
    if policy_id is None:
        return finding.success()
    unknown = find_unknown(known, 'qos_policy_ids')
    if unknown:
        return unknown
    if known.network.qos_policy_ids is None:
        return finding.failure(
            f'Its VIP has the QoS policy {policy_id}, and Neutron has no QoS '
            f'policies any more: let its owner remove it.',
            whose=finding.Whose.TENANT)
    return _miss('The QoS policy of its VIP', {policy_id},
                 known.network.qos_policy_ids,
                 'let its owner remove it, or set another one')


def count_ports(known):
    """Return how many ports its next amphora takes.

    One on each boot network, one on the network of the VIP, and one on each
    other network of members.
    """
    subnets = known.network.subnets
    networks = {subnets[subnet_id].network_id
                for subnet_id in known.needs.plugged_subnet_ids
                if subnet_id in subnets}
    return max(1, len(known.build.boot_networks)) + max(1, len(networks))


def check_port_quota(all_facts):
    """Whether Octavia's project has quota for more ports of amphorae."""
    unknown = find_unknown(all_facts[0], 'ports_left', 'subnets')
    if unknown:
        return unknown
    return facts.check_left(
        {'ports': ([one.more * count_ports(one) for one in all_facts],
                   all_facts[0].network.ports_left, 'ports')},
        all_facts[0].settings.parallel, 'of ports in Neutron')


def find_unknown(known, *names):
    """Return the Finding if something in Neutron is not known."""
    return facts.find_unknown(known.network, 'Neutron', *names)


def _get_owner(known, things):
    """Tell who has to mend a fault, by the project of what is at fault."""
    is_owner = all(thing.project_id == known.load_balancer.project_id
                   for thing in things)
    return finding.Whose.TENANT if is_owner else finding.Whose.OPERATOR


def _miss(title, wanted, found, what_to_do):
    missing = sorted(set(wanted) - set(found))
    if missing:
        return finding.failure(f'{title} is not in Neutron any more: '
                               f'{", ".join(missing)}; {what_to_do}.',
                               whose=finding.Whose.TENANT)
    return finding.success()


def check_networks(known):
    """Whether an instance gets a port on each boot network."""
    if known.build.problem:
        return finding.failure(known.build.problem)
    if not known.build.boot_networks:
        return _check_choices(known)
    unknown = find_unknown(known, 'networks')
    if unknown:
        return unknown
    networks = known.network.networks
    missing = sorted(set(known.build.boot_networks) - networks.keys())
    if missing:
        return finding.failure(
            f'Amphorae boot on the network {", ".join(missing)}, which '
            f'Neutron does not have, or not for Octavia: correct '
            f'{_get_source(known)}.')
    for network_id in known.build.boot_networks:
        found = _check_network(known, network_id, networks[network_id])
        if found.severity:
            return found
    return finding.success()


def _check_choices(known):
    """Whether Nova can choose a network itself."""
    if not known.settings.has_nova:
        # Other compute drivers are not known.
        return finding.success()
    unknown = find_unknown(known, 'choices')
    if unknown:
        return unknown
    choices = known.network.choices
    if choices is None:
        return finding.not_checked(
            '[controller_worker] amp_boot_network_list is empty, and Nova '
            'takes the only network of the project of Octavia, which is not '
            'known.')
    if choices != 1:
        return finding.failure(
            f'[controller_worker] amp_boot_network_list is empty, and the '
            f'project of Octavia has {choices} networks to choose from: Nova '
            f'takes one only where it is the only one. Name the management '
            f'network there.')
    return finding.warning(
        '[controller_worker] amp_boot_network_list is empty, and Nova takes '
        'the only network of the project of Octavia: with a second one it '
        'builds nothing. Name the management network there.')


def _check_network(known, network_id, found):
    title = f'The network {network_id}, on which amphorae boot,'
    if not found.subnet_ids:
        return finding.failure(
            f'{title} has no subnet, and Nova builds nothing there: make one, '
            f'or correct {_get_source(known)}.')
    if not found.is_secure and known.settings.boot_groups and (
            known.settings.has_nova):
        return finding.failure(
            f'{title} has port security disabled, and Nova applies no '
            f'security groups there: enable it, or empty [controller_worker] '
            f'amp_secgroup_list.')
    subnets = known.network.subnets
    for version in (4, 6):
        ours = [subnets[subnet_id] for subnet_id in found.subnet_ids
                if subnet_id in subnets and
                subnets[subnet_id].version == version]
        if ours and all(subnet.is_full for subnet in ours):
            return finding.failure(
                f'{title} has no IPv{version} address that is free: delete '
                f'ports there, give a subnet a larger allocation pool, or '
                f'make another subnet.')
    if not found.is_up:
        return finding.warning(
            f'{title} is not admin_state_up, so that an agent may not be '
            f'reached there: "openstack network set --enable".')
    return finding.success()


def _get_source(known):
    """Name the options that the operator has to correct."""
    zone = known.load_balancer.availability_zone
    return ('[controller_worker] amp_boot_network_list' if zone is None else
            f'[controller_worker] amp_boot_network_list, or the '
            f'management_network of the availability zone {zone}')


def check_groups(all_facts):
    """Whether the security groups of instances exist."""
    settings = all_facts[0].settings
    if not settings.boot_groups or not settings.has_nova:
        return finding.success()
    unknown = find_unknown(all_facts[0], 'security_group_ids',
                           'boot_groups')
    if unknown:
        return unknown
    found = all_facts[0].network
    # Nova always knows "default".
    others = [name for name in settings.boot_groups if name != 'default']
    missing = [name for name in others
               if name not in found.security_group_ids and
               not found.boot_groups.get(name)]
    if missing:
        return finding.failure(
            f'The security group {", ".join(missing)} of [controller_worker] '
            f'amp_secgroup_list is not in Neutron, or not in the project of '
            f'Octavia, and Nova builds nothing without it: correct it.')
    ambiguous = [name for name in others
                 if found.boot_groups.get(name, 0) > 1]
    if ambiguous:
        return finding.failure(
            f'Several security groups of the project of Octavia are called '
            f'{", ".join(ambiguous)}, and Nova does not choose: set the id '
            f'in [controller_worker] amp_secgroup_list.')
    return finding.success()
