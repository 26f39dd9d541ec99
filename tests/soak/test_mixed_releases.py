#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Jobs of controllers with another release of Octavia."""

from tests.cloud import installations
from tests.functional import test_mixed_releases


class TestOctaviaJobs(test_mixed_releases.OctaviaMixin,
                      test_mixed_releases.JobsCase):

    def test_ours_posts(self):
        self.check_jobs(installations.OURS, self.find_other())

    def test_ours_runs(self):
        self.check_jobs(self.find_other(), installations.OURS)
