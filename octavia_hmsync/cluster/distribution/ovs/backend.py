# SPDX-License-Identifier: Apache-2.0

"""The backend of distributors in Open vSwitch."""

from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.distribution.ovs import floating_ips
from octavia_hmsync.cluster.distribution.ovs import peer_rules
from octavia_hmsync.cluster.distribution.ovs import probe_watch
from octavia_hmsync.cluster.distribution.ovs import routers
from octavia_hmsync.cluster.distribution.ovs import vips
from octavia_hmsync.conf import cluster as cluster_conf


class OVSBackend:
    """See backend.Backend.

    :param told: a Distributors; made here by default.
    """

    def __init__(self, conf, engine, told=None):
        self._conf = conf
        self._engine = engine
        self._distributors = told or distributors.Distributors(conf, engine)
        self._vips = vips.VIPs(conf, engine, self._distributors)
        self.apply = self._distributors.apply
        self.sync, self.add, self.remove = (
            self._vips.sync, self._vips.add, self._vips.remove)

    def make_watch(self):
        conf = self._conf
        return distributor_watch.DistributorWatch(
            self._engine, self._distributors, self._vips,
            heartbeat_interval=conf.health_manager.heartbeat_interval,
            interval=conf[cluster_conf.GROUP].keeper_interval, host=conf.host,
            rules=peer_rules.PeerRules(conf),
            looks=(
                floating_ips.FloatingIPs(
                    self._engine, lambda: floating_ips.find(conf)),
                routers.DistributedRouters(
                    self._engine, routers.RouterPorts(conf).find)))

    def make_probe_watch(self, wake):
        return probe_watch.ProbeWatch(
            self._engine, self._distributors.client_of, wake)
