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

"""Checks of what is in Neutron."""

from octavia_hmsync.image.preflight import finding

_NOBODY_KNOWS = 'Nobody can tell while "Neutron" is a failure.'


def check_vip(facts):
    """Whether the ports of the VIP are still there."""
    if facts.network is None:
        return finding.not_checked(_NOBODY_KNOWS)
    return _miss('The port of its VIP', facts.needs.port_ids,
                 facts.network.port_ids,
                 'no amphora could be plugged there')


def check_subnets(facts):
    """Whether the subnets of VIPs and members are."""
    if facts.network is None:
        return finding.not_checked(_NOBODY_KNOWS)
    return _miss('A subnet of its VIP or its members', facts.needs.subnet_ids,
                 facts.network.network_of_subnet,
                 'remove the members there, or recreate the load balancer')


def check_security_groups(facts):
    """Whether those are that its owner gave to the VIP."""
    if facts.network is None:
        return finding.not_checked(_NOBODY_KNOWS)
    return _miss('A security group of its VIP',
                 facts.needs.security_group_ids,
                 facts.network.security_group_ids,
                 'have its owner set other ones')


def check_qos_policy(facts):
    """Whether the QoS policy of the VIP is."""
    policy_id = facts.needs.qos_policy_id
    if policy_id is None:
        return finding.success()
    if facts.network is None:
        return finding.not_checked(_NOBODY_KNOWS)
    if facts.network.qos_policy_ids is None:
        return finding.failure(
            f'Its VIP has the QoS policy {policy_id}, and Neutron has no QoS '
            f'policies any more: have its owner take it off.',
            whose=finding.Whose.TENANT)
    return _miss('The QoS policy of its VIP', {policy_id},
                 facts.network.qos_policy_ids,
                 'have its owner take it off, or set another one')


def count_ports(facts):
    """Return how many ports its next amphora takes.

    One on each network to boot on, one on that of the VIP, one on each other
    network of members.

    :param facts: Facts with a network.
    """
    networks = {facts.network.network_of_subnet[subnet_id]
                for subnet_id in facts.needs.subnet_ids
                if subnet_id in facts.network.network_of_subnet}
    return facts.settings.boot_networks + max(1, len(networks))


def check_port_quota(all_facts):
    """Whether Octavia's project may have the ports of amphorae more.

    :param all_facts: a list of Facts, with one network for all.
    """
    if not all_facts or all_facts[0].network is None:
        return finding.not_checked(_NOBODY_KNOWS)
    left = all_facts[0].network.ports_left
    needed = sorted(map(count_ports, all_facts), reverse=True)
    if left is not None and left < needed[0]:
        return finding.failure(
            f'A replacement takes up to {needed[0]} ports more while it goes '
            f'on, and the project of Octavia may have {left} more: raise its '
            f'quota of ports in Neutron.')
    # The worst that may come together.
    at_once = needed[:all_facts[0].settings.parallel]
    if left is not None and left < sum(at_once):
        return finding.warning(
            f'{len(at_once)} replacements at once take up to {sum(at_once)} '
            f'ports more, and the project of Octavia may have {left} more: '
            f'raise its quota of ports in Neutron, or have a smaller '
            f'rollout_parallel.')
    return finding.success()


def _miss(title, wanted, found, what_to_do):
    missing = sorted(set(wanted) - set(found))
    if missing:
        return finding.failure(f'{title} is not in Neutron any more: '
                               f'{", ".join(missing)}; {what_to_do}.',
                               whose=finding.Whose.TENANT)
    return finding.success()
