# SPDX-License-Identifier: Apache-2.0

"""Finds clusters whose subnet has got a distributed router (DVR).

octavia-api rejects such a subnet. A router that comes, or becomes distributed,
after the load balancer was made, is only logged.
"""

from oslo_log import log as logging

from octavia_hmsync import cloud
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.distribution.ovs import unsuited
from octavia_hmsync import compat

LOG = logging.getLogger(__name__)

# Subnets in one request.
_AT_ONCE = 50


class RouterPorts(cloud.NeutronClient):
    """The ports of distributed routers."""

    def find(self, subnet_ids):
        """Return {id of a subnet: id of its distributed router}."""
        found: dict[str, str] = {}
        ids = sorted(subnet_ids)
        for begin in range(0, len(ids), _AT_ONCE):
            with self._reported('look for distributed routers'):
                for port in self._api.ports(
                        device_owner=compat.DISTRIBUTED_ROUTER, fixed_ips=[
                            f'subnet_id={subnet_id}' for subnet_id
                            in ids[begin:begin + _AT_ONCE]]):
                    found.update((each['subnet_id'], port.device_id)
                                 for each in port.fixed_ips)
        return found


class DistributedRouters(unsuited.Look):
    """Looks for distributed routers in the subnets of VIPs.

    :param find: as RouterPorts.find().
    """

    WHAT = 'Routers'

    def __init__(self, engine, find):
        super().__init__()
        self._engine = engine
        self._find_routers = find

    def _find(self):
        subnets = front_repo.get_subnets(self._engine)
        routers = self._find_routers(set().union(*subnets.values()))
        return {cluster_id: routers[min(own & routers.keys())]
                for cluster_id, own in subnets.items() if own & routers.keys()}

    def _log(self, cluster_id, what):
        LOG.warning('The subnet of the cluster %s has a distributed router '
                    '(DVR), %s: clients that it routes bypass the '
                    'distributors, or reach nothing. Make it a centralized '
                    'one ("openstack router set --disable", "--centralized", '
                    '"--enable"), or build the load balancer anew in a subnet '
                    'whose router is not distributed.', cluster_id, what)
