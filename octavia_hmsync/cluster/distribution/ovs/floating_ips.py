# SPDX-License-Identifier: Apache-2.0

"""Finds floating IPs of clusters that do not work with hmsync_ovs and OVN.

OVN translates a distributed floating IP on the node of its port. A
distributor forwards packets from there, but the member answers from another
node, where OVN does not translate back.

octavia-api rejects subnets where a VIP could get such a floating IP, as far
as it knows; housekeeping logs floating IPs that exist all the same.
"""

from oslo_log import log as logging

from octavia_hmsync import cloud
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.distribution.ovs import unsuited
from octavia_hmsync.cluster.distribution import ports
from octavia_hmsync.conf import ovn as ovn_conf
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds for which a tenant waits for OVN.
_PATIENCE = 5
WHAT_TO_DO = ('Neutron has [ovn] enable_distributed_floating_ip = True: '
              'switch that off, or set [controller_worker] '
              'distributor_driver = hmsync_ovn for new clusters.')


def find(conf, timeout=None):
    """Return {id of a port: its floating IP} of all distributed ones.

    :param timeout: seconds; a longer one by default.
    :returns: nothing, too, without an address of OVN's database; its libraries
              are not needed then.
    :raises HMSyncException: if OVN cannot be asked.
    """
    if not ovn_conf.read(conf, ovn_conf.NORTHBOUND).is_set:
        return {}
    from octavia_hmsync.cluster.distribution.ovn import nat

    return nat.find_distributed(conf, timeout)


def are_unknown(conf):
    """Tell whether OVN may distribute floating IPs, and is not asked.

    :returns: True where Neutron has agents of OVN, and no address of OVN's
              database is set; False, too, if Neutron lets Octavia see no
              agents.
    :raises CloudUnavailable: if Neutron cannot be asked.
    """
    if ovn_conf.read(conf, ovn_conf.NORTHBOUND).is_set:
        return False
    try:
        with cloud.reported(conf, 'list agents'):
            return any((agent.agent_type or '').startswith(ports.OVN_AGENT)
                       for agent in cloud.connect(conf).network.agents())
    except exceptions.CloudRefused:
        return False


def are_distributed(conf):
    """Tell whether OVN has distributed floating IPs, as far as it answers."""
    try:
        return bool(find(conf, _PATIENCE))
    except exceptions.HMSyncException as e:
        LOG.warning('Whether floating IPs are distributed is not known: %s',
                    e)
        return False


class FloatingIPs(unsuited.Look):
    """Checks the floating IPs of VIPs.

    :param find: returns {id of a port: its floating IP} of all distributed
                 floating IPs.
    """

    WHAT = 'Floating IPs'

    def __init__(self, engine, find):
        super().__init__()
        self._engine = engine
        self._find_distributed = find

    def _find(self):
        # Most clouds have none: then the database is not asked.
        distributed = self._find_distributed()
        return {cluster_id: distributed[port_id] for cluster_id, port_id
                in front_repo.get_vip_ports(self._engine).items()
                if port_id in distributed} if distributed else {}

    def _log(self, cluster_id, what):
        LOG.warning('The cluster %s does not work with its floating IP %s, '
                    'which OVN distributes. %s', cluster_id, what, WHAT_TO_DO)
