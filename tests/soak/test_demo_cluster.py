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

"""The cluster of the demo, which the README shows."""

from tests.functional import test_demo


class TestCluster(test_demo.DemoTestCase):

    def test_cluster(self):
        demo = self.start('--cluster')
        output, _ = demo.communicate(timeout=1200)
        self.assertEqual(0, demo.returncode, output)
        rows = [line for line in output.splitlines()
                if line.startswith(('a member is', 'a distributor is')) and
                line.endswith(' s')]
        self.assertEqual(4, len(rows), output)
        for row in rows:
            opened, broken, own = map(int, row.split()[-7:-4])
            self.assertGreater(opened, 100, row)
            self.assertLessEqual(broken, own, row)
