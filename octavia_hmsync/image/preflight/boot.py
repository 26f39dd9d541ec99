# SPDX-License-Identifier: Apache-2.0

"""Checks of the boot networks of amphorae, and of their security groups."""

from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image.preflight import network


def check_networks(known):
    """Whether an instance gets a port on each boot network."""
    if known.build.problem:
        return finding.failure(known.build.problem)
    if not known.build.boot_networks:
        return _check_choices(known)
    unknown = network.find_unknown(known, 'networks')
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
    unknown = network.find_unknown(known, 'choices')
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
    """Whether the security groups of instances exist.

    :param all_facts: a list of Facts, with one network for all.
    """
    settings = all_facts[0].settings
    if not settings.boot_groups or not settings.has_nova:
        return finding.success()
    unknown = network.find_unknown(all_facts[0], 'security_group_ids',
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
