# SPDX-License-Identifier: Apache-2.0

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
        _gone, alive = psutil.wait_procs(children)
        self.assertEqual([], [p for p in alive if p.status() !=
                              psutil.STATUS_ZOMBIE])
