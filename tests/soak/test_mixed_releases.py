# SPDX-License-Identifier: Apache-2.0

"""Jobs of controllers with another release of Octavia."""

from tests.cloud import installations
from tests.functional import test_mixed_releases


class TestOctaviaJobs(test_mixed_releases.OctaviaMixin,
                      test_mixed_releases.JobsCase):

    def test_ours_posts(self):
        self.check_jobs(installations.OURS, self.find_other())

    def test_ours_runs(self):
        self.check_jobs(self.find_other(), installations.OURS)
