# SPDX-License-Identifier: Apache-2.0

"""A few tests of octavia-tempest-plugin, for both providers of one cloud."""

import fixtures
from oslotest import base

from tests.tempest import clouds
from tests.tempest import results
from tests.tempest import runs
from tests.tempest import suite


class TestSmoke(base.BaseTestCase):

    def test_smoke(self):
        cloud = self.useFixture(clouds.Cluster())
        cloud.wait_until_ready()
        directory = self.useFixture(fixtures.TempDir()).path
        for name in ('smoke-cluster', 'smoke'):
            run = runs.RUNS[name]
            found = runs.run(cloud, run, directory)
            self.assertEqual([], results.find_unexpected(run.provider, found))
            self.assertEqual(3, len(found), found)
            self.assertIn(suite.PASSED, [each.outcome for each in found])
