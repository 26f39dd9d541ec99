# SPDX-License-Identifier: Apache-2.0

"""The backend of OVN's own load balancers."""

from octavia_hmsync.cluster.distribution.ovn import balancers
from octavia_hmsync.cluster.distribution.ovn import probes
from octavia_hmsync.cluster.distribution.ovn import watch
from octavia_hmsync.conf import cluster as cluster_conf


class OVNBackend:
    """See backend.Backend.

    :param told: a Balancers; made here by default.
    """

    def __init__(self, conf, engine, told=None):
        self._conf = conf
        self._engine = engine
        self._balancers = told or balancers.Balancers(conf, engine)
        self.apply, self.sync = self._balancers.apply, self._balancers.sync
        self.add, self.remove = self._balancers.add, self._balancers.remove

    def make_watch(self):
        return watch.OVNWatch(
            self._engine, self._balancers,
            heartbeat_interval=self._conf.health_manager.heartbeat_interval,
            interval=self._conf[cluster_conf.GROUP].keeper_interval,
            host=self._conf.host)

    def make_probe_watch(self, wake):
        return probes.OVNProbeWatch(self._engine, self._balancers,
                                    probes.Southbound(self._conf), wake)
