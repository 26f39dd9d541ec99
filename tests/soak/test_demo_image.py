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

"""The image upgrade of the demo, which the README shows."""

import signal
import time

import psutil

from tests.functional import test_demo


class TestImageUpgrade(test_demo.DemoTestCase):

    def run_demo(self, *options):
        """Returns what the table has for each load balancer, in words."""
        demo = self.start('--image-upgrade', *options)
        output, _ = demo.communicate(timeout=580)
        self.assertEqual(0, demo.returncode, output)
        rows = {line.split()[0]: line.split() for line in output.splitlines()
                if line.startswith(('single ', 'pair '))}
        self.assertEqual({'single', 'pair'}, set(rows), output)
        for row in rows.values():
            self.assertGreater(int(row[2]), 0)
        return rows

    def test_with_hmsync(self):
        rows = self.run_demo()
        self.assertEqual(['0', '0.00', 's'], rows['single'][3:])

    def test_without_hmsync(self):
        rows = self.run_demo('--without-hmsync')
        self.assertGreater(int(rows['single'][3]), 0)

    def test_interrupted(self):
        """Leaves no process behind."""
        demo = self.start('--image-upgrade')
        deadline = time.monotonic() + 120
        while (len(children := self.descendants(demo)) < 8 and
                time.monotonic() < deadline):
            time.sleep(0.2)
        self.assertGreaterEqual(len(children), 8)
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=120)
        self.assertEqual(130, demo.returncode)
        _gone, alive = psutil.wait_procs(children, timeout=60)
        self.assertEqual([], [p for p in alive if p.status() !=
                              psutil.STATUS_ZOMBIE])
