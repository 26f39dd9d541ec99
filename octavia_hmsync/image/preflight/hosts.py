# SPDX-License-Identifier: Apache-2.0

"""Checks of the hosts in Nova for one more instance."""

from octavia_hmsync import compat
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding


def check_hosts(known):
    """Whether Nova has room for one more instance of the load balancer."""
    group_id = known.load_balancer.server_group_id
    if not known.settings.has_nova:
        return _check_settings(known.settings) if group_id else (
            finding.success())
    unknown = compute.find_unknown(known)
    if unknown:
        return unknown
    if not group_id:
        return _check_any(known)
    unknown = compute.find_unknown(known, 'groups')
    if unknown:
        return unknown
    group = known.compute.groups.get(group_id)
    if group is None:
        return finding.failure(
            f'Its server group {group_id} is not in Nova any more, and Nova '
            f'builds nothing for a missing group: recreate the load '
            f'balancer.')
    limits = known.compute.limits
    most = (None if isinstance(limits, facts.Hidden)
            else limits.get('members'))
    if most is not None and group.members >= most:
        return finding.failure(
            f'Its server group {group_id} has {group.members} instances, and '
            f'Nova lets one of the project of Octavia have {most}: raise the '
            f'quota server_group_members.')
    if group.policy != compat.HARD_ANTI_AFFINITY:
        return _check_any(known)
    return _check_number(known)


def _check_settings(settings):
    if settings.is_apart:
        return finding.warning(
            'Its instances must be on different hosts ([nova] '
            'anti_affinity_policy), and one more is built before an old one '
            'is deleted: that takes a third host with room for it.')
    return finding.success()


def _check_any(known):
    """Whether there is any host."""
    if isinstance(known.compute.hosts, facts.Hidden) or _count(known):
        return finding.success()
    return finding.failure(
        f'Nova has no host{_say_where(known)} that is up and enabled: see '
        f'"openstack compute service list".')


def _check_number(known):
    needed = len(outdated.get_allocated(known.load_balancer)) + 1
    if isinstance(known.compute.hosts, facts.Hidden):
        return finding.warning(
            f'Its instances must be on different hosts (anti-affinity), '
            f'and one more is built before an old one is deleted: that takes '
            f'{needed} hosts with room. Nova does not let the user of Octavia '
            f'see how many there are.')
    hosts = _count(known)
    if hosts < needed:
        return finding.failure(
            f'Its instances must be on different hosts (anti-affinity), '
            f'and one more is built before an old one is deleted: that takes '
            f'{needed} hosts, and Nova has {hosts}{_say_where(known)} that '
            f'are up and enabled. Add a host; soft-anti-affinity is for load '
            f'balancers that are made from then on.')
    return finding.success()


def _count(known):
    """Return how many hosts are up in the zone of the next instance."""
    if not known.build.zone:
        return sum(known.compute.hosts.values())
    return known.compute.hosts.get(_get_zone(known), 0)


def _say_where(known):
    return f' in the zone {_get_zone(known)}' if known.build.zone else ''


def _get_zone(known):
    # An administrator may append the name of a host.
    return known.build.zone.partition(':')[0]
