# SPDX-License-Identifier: Apache-2.0

"""The port of a member, as the load balancer has come to be.

Whoever builds a member makes its port before it boots, and locks nothing
until it has. Octavia gives what a tenant changes meanwhile to the amphorae
that are ready.
"""

from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions


def refresh(network, load_balancer, amphora):
    """Give a port the QoS policy and the security groups that it is to have.

    One that has them is left alone.

    :param network: a network driver.
    :param load_balancer: Octavia's data model of it, which nobody else may
                          change meanwhile.
    :param amphora: Octavia's data model of one of its amphorae.
    :raises BuildFailed: with the reason, if Neutron does not.
    """
    vip = load_balancer.vip
    try:
        port = network.get_port(amphora.vrrp_port_id)
        if (port.qos_policy_id or None) != (vip.qos_policy_id or None):
            network.apply_qos_on_port(vip.qos_policy_id, port.id)
        if not _has_groups(port.security_group_ids or (), vip.sg_ids):
            network.update_aap_port_sg(load_balancer, amphora, vip)
    except Exception as e:
        # Of any network driver.
        reason = compat_cluster.describe_failure(e)
        raise exceptions.BuildFailed(
            f'The port of amphora {amphora.id} could not be brought to what '
            f'its load balancer has: {reason}.') from e


def _has_groups(found, of_tenant):
    """Whether there is none but the tenant's and the one that is Octavia's."""
    return (set(of_tenant) <= set(found) and
            len(set(found) - set(of_tenant)) <= 1)
