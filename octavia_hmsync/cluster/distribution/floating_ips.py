# SPDX-License-Identifier: Apache-2.0

"""Floating IPs of clusters that lead nowhere, with distributors and OVN.

Where floating IPs are distributed OVN translates them on the node of the
port. A distributor hands on what comes there, but the member answers from
another node, where nothing is translated back.

octavia-api refuses subnets where there could be one, as far as it knows; one
that is there all the same is named by housekeeping.
"""

from oslo_log import log as logging

from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds for which a tenant waits for OVN.
_PATIENCE = 5
WHAT_TO_DO = ('Neutron has [ovn] enable_distributed_floating_ip = True: '
              'switch that off, or set [controller_worker] '
              'distributor_driver = hmsync_ovn for new clusters.')


def are_distributed(conf):
    """Tell whether there is any floating IP that is distributed.

    :param conf: a parsed oslo.config object with our options registered.
    :returns: False, too, where OVN is not there to be asked.
    """
    from octavia_hmsync.cluster.distribution.ovn import nat

    try:
        return bool(nat.is_known(conf) and
                    nat.find_distributed(conf, _PATIENCE))
    except exceptions.HMSyncException as e:
        LOG.warning('Whether floating IPs are distributed is not known: %s',
                    e)
        return False


class FloatingIPs:
    """Looks at the floating IPs of VIPs, each time look() is called.

    :param engine: an SQLAlchemy engine.
    :param find: called without arguments for {id of a port: its floating IP}
                 of those that are distributed.
    """

    def __init__(self, engine, find):
        self._engine = engine
        self._find = find
        # {id of a cluster: floating IP} of those that were named.
        self._said: dict[str, str] = {}

    def look(self):
        """Name those that lead nowhere, each once."""
        try:
            distributed = self._find()
        except exceptions.HMSyncException as e:
            LOG.info('Floating IPs were not looked at: %s', e)
            return
        # Most clouds have none, and nobody asks the database then.
        dark = {cluster_id: distributed[port_id] for cluster_id, port_id
                in front_repo.get_vip_ports(self._engine).items()
                if port_id in distributed} if distributed else {}
        for cluster_id, address in sorted(dark.items()):
            if self._said.get(cluster_id) != address:
                LOG.warning('The cluster %s gets no answer back by its '
                            'floating IP %s, which OVN distributes. %s',
                            cluster_id, address, WHAT_TO_DO)
        self._said = dark


def make(conf, engine):
    """Make a FloatingIPs, which looks at nothing without OVN.

    :param conf: a parsed oslo.config object with our options registered.
    :param engine: an SQLAlchemy engine.
    """
    from octavia_hmsync.cluster.distribution.ovn import nat

    return FloatingIPs(engine, lambda: (
        nat.find_distributed(conf) if nat.is_known(conf) else {}))
