#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Checks of what is in Nova."""

from octavia_hmsync import compat
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import finding

_NOBODY_KNOWS = 'Nobody can tell while "Compute service" is a failure.'
_RESOURCES = {'instances': 'instances', 'cores': 'cores', 'ram': 'MB of RAM'}


def check_hosts(facts):
    """Whether there may be an instance more than the load balancer has."""
    group_id = facts.load_balancer.server_group_id
    if not group_id:
        return finding.success()
    if facts.compute is None:
        if facts.settings.has_nova:
            return finding.not_checked(_NOBODY_KNOWS)
        return _check_settings(facts.settings)
    policy = facts.compute.policies.get(group_id)
    if policy is None:
        return finding.failure(
            f'Its server group {group_id} is not in Nova any more, and Nova '
            f'builds nothing for one that is gone: recreate the load '
            f'balancer.')
    if policy != compat.HARD_ANTI_AFFINITY:
        return finding.success()
    return _check_number(facts)


def _check_settings(settings):
    if settings.is_apart:
        return finding.warning(
            'Its instances have to be on different hosts ([nova] '
            'anti_affinity_policy), and one more is built before an old one '
            'is deleted: that takes a third host with room for it.')
    return finding.success()


def _check_number(facts):
    needed = len(outdated.get_allocated(facts.load_balancer)) + 1
    zone = (facts.settings.zone
            if facts.load_balancer.availability_zone is None else None)
    hosts = facts.compute.count_hosts(zone)
    if hosts is None:
        return finding.warning(
            f'Its instances have to be on different hosts (anti-affinity), '
            f'and one more is built before an old one is deleted: that takes '
            f'{needed} hosts with room. Nova does not let the user of Octavia '
            f'see how many there are.')
    if hosts < needed:
        where = f' in the zone {zone}' if zone else ''
        return finding.failure(
            f'Its instances have to be on different hosts (anti-affinity), '
            f'and one more is built before an old one is deleted: that takes '
            f'{needed} hosts, and Nova has {hosts}{where} that are up and '
            f'enabled. Add a host; soft-anti-affinity is for load balancers '
            f'that are made from then on.')
    return finding.success()


def check_flavor(all_facts):
    """Whether the flavor of instances is there.

    :param all_facts: a list of Facts, with one compute for all.
    """
    compute, settings = all_facts[0].compute, all_facts[0].settings
    if compute is None:
        return finding.not_checked(_NOBODY_KNOWS)
    if settings.compute_flavor and compute.flavor is None:
        return finding.warning(
            f'[controller_worker] amp_flavor_id {settings.compute_flavor} is '
            f'not in Nova any more: nothing is built for load balancers whose '
            f'flavor has no compute_flavor of its own. Set another one.')
    return finding.success()


def check_quota(all_facts):
    """Whether Octavia's project may have instances more.

    :param all_facts: a list of Facts, with one compute for all.
    """
    compute, settings = all_facts[0].compute, all_facts[0].settings
    if compute is None:
        return finding.not_checked(_NOBODY_KNOWS)
    each = {'instances': 1, **(compute.flavor or {})}
    for resource, left in sorted(compute.left.items()):
        if left is not None and left < each.get(resource, 0):
            return finding.failure(
                f'A replacement takes {each[resource]} '
                f'{_RESOURCES[resource]} more while it goes on, and the '
                f'project of Octavia may have {left} more: raise its quota '
                f'in Nova.')
    at_once = min(len(all_facts), settings.parallel)
    for resource, left in sorted(compute.left.items()):
        needed = at_once * each.get(resource, 0)
        if left is not None and left < needed:
            return finding.warning(
                f'{at_once} replacements at once take {needed} '
                f'{_RESOURCES[resource]} more, and the project of Octavia '
                f'may have {left} more: raise its quota in Nova, or have a '
                f'smaller rollout_parallel.')
    return finding.success()
