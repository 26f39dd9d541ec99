# SPDX-License-Identifier: Apache-2.0

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
