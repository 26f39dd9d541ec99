# SPDX-License-Identifier: Apache-2.0

"""What the tests of a distributor share."""

import os

import fixtures
from oslo_config import cfg

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import probe_results
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import vips
from tests.cloud.site import hmsync_tests_distributor
from tests.unit import base


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


class DistributorTestCase(base.TestCase):
    """A directory with what a distributor has on its node."""

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.state_path = os.path.join(self.directory, 'state')
        self.clock = Clock()
        self.conf = cfg.ConfigOpts()
        distributor_conf.register_opts(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.set_option('openvswitch_rundir',
                        os.path.join(self.directory, 'vswitch'))
        self.set_option('state_path', self.state_path)
        self.kept = None
        self.start()

    def set_option(self, name, value):
        self.conf.set_override(name, value, distributor_conf.GROUP)

    def start(self):
        """As a process that begins; again, after the one of before died."""
        if self.kept:
            self.kept.close()
        self.kept = store.Store(self.state_path, timeout=0)
        self.backend = hmsync_tests_distributor.Backend(self.conf)
        self.results = probe_results.Results(2, self.clock)
        self.vips = vips.Vips(self.kept, self.backend, self.clock,
                              self.results.is_down)
        self.restorer = restore.Restorer(self.vips, 1, clock=self.clock)

    def tearDown(self):
        self.kept.close()
        super().tearDown()

    def order(self, name, text):
        """Have the data plane fail, break, or be slow; None ends it."""
        path = os.path.join(self.backend.directory, name)
        if text is None:
            os.unlink(path)
            return
        with open(path, 'w') as order:
            order.write(text)

    def read_calls(self, name):
        """Return the ids of VIPs that a method was called for."""
        try:
            with open(os.path.join(self.backend.directory, 'calls')) as calls:
                return [line.split()[1] for line in calls
                        if line.startswith(f'{name} ') and line.split()[1:]]
        except FileNotFoundError:
            return []

    def list_forwarded(self):
        return sorted(self.backend.list_vips())
