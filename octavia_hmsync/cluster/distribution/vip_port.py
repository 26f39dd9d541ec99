# SPDX-License-Identifier: Apache-2.0

"""Makes the port of a VIP, and its security group, anew.

The port belongs to the project of the load balancer, which may delete it.
Nothing is sent to it, so traffic goes on without it; but Neutron may give its
address to another port.
"""

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import vip as addresses_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)


class VIPPorts:
    """Restores VIPs as Octavia's failover does.

    :param ports: a ports.Ports.
    :param claims: of clusters: only one process restores a VIP.
    """

    def __init__(self, engine, ports, claims):
        self._engine = engine
        self._ports = ports
        self._claims = claims

    def restore(self, cluster_id, values=None):
        """Make what a VIP lacks in Neutron.

        The load balancer gets ERROR if another port has its address.

        :param values: of the port, if these are all that it lacks.
        :returns: the id of its port; None if another process works on the
                  cluster.
        :raises NotPossible: with the reason, which names what to do.
        :raises CloudUnavailable, CloudRefused: if Neutron does not answer.
        """
        try:
            with self._claims.held(cluster_id) as held:
                return self._restore(held, values)
        except exceptions.Interrupted:
            return None

    def _restore(self, held, values):
        held.look()
        cluster = cluster_repo.get(self._engine, held.key)
        addresses = addresses_repo.get(self._engine, cluster.load_balancer_id)
        for address in addresses.subnets:
            holder = self._ports.find_holder(addresses.network_id, address)
            if holder not in (None, addresses.port_id):
                lock_repo.fail(self._engine, held.key, held.owner,
                               self._claims.expiry)
                raise exceptions.NotPossible(
                    f'The address {address} of its VIP is that of the port '
                    f'{holder} now, and the load balancer '
                    f'{cluster.load_balancer_id} is in ERROR. Delete that '
                    f'port, or move clients to another load balancer; within '
                    f'a minute the VIP has its port, and "octavia-hmsync '
                    f'cluster restore {cluster.load_balancer_id}" ends the '
                    f'ERROR.')
        if values:
            # Octavia would delete the port, and make another one.
            self._ports.change(addresses.port_id, values)
            return addresses.port_id
        # Commands that import this module never come here.
        from octavia_hmsync.compat import cluster as compat_cluster
        try:
            return compat_cluster.restore_vip(cluster.load_balancer_id)
        except Exception as e:
            # Any network driver raises what it likes.
            raise exceptions.NotPossible(
                f'Octavia could not make it: '
                f'{compat_cluster.describe_failure(e)}.') from e
