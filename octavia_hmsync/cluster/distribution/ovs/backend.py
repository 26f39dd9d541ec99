# SPDX-License-Identifier: Apache-2.0

"""The backend of distributors in Open vSwitch."""

from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.distribution.ovs import floating_ips
from octavia_hmsync.cluster.distribution.ovs import probe_watch
from octavia_hmsync.cluster.distribution.ovs import vips


class OVSBackend:
    """See backend.Backend.

    :param told: a Distributors; made here by default.
    """

    def __init__(self, conf, engine, told=None):
        self._conf = conf
        self._engine = engine
        self._distributors = told or distributors.Distributors(conf, engine)
        placed = vips.VIPs(conf, engine, self._distributors)
        self.apply = self._distributors.apply
        self.sync, self.add, self.remove = (
            placed.sync, placed.add, placed.remove)

    def make_watch(self):
        return distributor_watch.make(
            self._conf, self._engine, self._distributors,
            floating_ips.make(self._conf, self._engine))

    def make_probe_watch(self, wake):
        return probe_watch.make(self._distributors, self._engine, wake)
