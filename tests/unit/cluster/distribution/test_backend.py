# SPDX-License-Identifier: Apache-2.0

"""Both backends keep what backend.Backend promises."""

import inspect

from octavia_hmsync.cluster.distribution import backend
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution.ovn import backend as ovn
from octavia_hmsync.cluster.distribution.ovn import probes
from octavia_hmsync.cluster.distribution.ovn import watch
from octavia_hmsync.cluster.distribution.ovs import backend as ovs
from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import probe_watch
from tests.unit.cluster import distributors


class TestBackends(distributors.DistributorTestCase):

    def assertKeeps(self, protocol, subject):
        for name, promised in vars(protocol).items():
            if name.startswith('_'):
                continue
            wanted = list(inspect.signature(promised).parameters)[1:]
            self.assertEqual(wanted, list(inspect.signature(
                getattr(subject, name)).parameters), name)

    def test_backends(self):
        for driver, kind, watched, probed in (
                (backends.OVS_DRIVER, ovs.OVSBackend,
                 distributor_watch.DistributorWatch, probe_watch.ProbeWatch),
                (backends.OVN_DRIVER, ovn.OVNBackend, watch.OVNWatch,
                 probes.OVNProbeWatch)):
            self.conf.set_override('distributor_driver', driver,
                                   group='controller_worker')
            subject = backends.make(self.conf, self.engine)
            self.assertIsInstance(subject, kind)
            self.assertKeeps(backend.Backend, subject)
            for protocol, made, expected in (
                    (backend.Watch, subject.make_watch(), watched),
                    (backend.ProbeWatch,
                     subject.make_probe_watch(lambda: None), probed)):
                self.assertIsInstance(made, expected)
                self.assertKeeps(protocol, made)
