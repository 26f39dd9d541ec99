# SPDX-License-Identifier: Apache-2.0

"""Brings the port of a new member to the present load balancer.

The port is created before the amphora boots, and the load balancer is not
locked until it has booted. Octavia applies what a tenant changes meanwhile
only to the amphorae that are ready.
"""

from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions


def refresh(network, load_balancer, amphora):
    """Ensure the QoS policy and the security groups of a port.

    :param load_balancer: Octavia's data model of it; it must be locked.
    :param amphora: Octavia's data model of one of its amphorae.
    :raises BuildFailed: with the reason, if Neutron does not do it.
    """
    vip = load_balancer.vip
    try:
        port = network.get_port(amphora.vrrp_port_id)
        if (port.qos_policy_id or None) != (vip.qos_policy_id or None):
            network.apply_qos_on_port(vip.qos_policy_id, port.id)
        if not _has_groups(port.security_group_ids or (), vip.sg_ids):
            network.update_aap_port_sg(load_balancer, amphora, vip)
    except Exception as e:
        # Any network driver raises what it likes.
        reason = compat_cluster.describe_failure(e)
        raise exceptions.BuildFailed(
            f'The port of amphora {amphora.id} could not get the QoS policy '
            f'and the security groups of its load balancer: {reason}.') from e


def _has_groups(found, of_tenant):
    """Tell whether only the tenant's groups and Octavia's own are there."""
    return (set(of_tenant) <= set(found) and
            len(set(found) - set(of_tenant)) <= 1)
