# SPDX-License-Identifier: Apache-2.0

"""What the README shows."""

import os
import signal
import subprocess
import sys
import time

import psutil
import testtools

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


class DemoTestCase(testtools.TestCase):

    def start(self, *arguments):
        demo = subprocess.Popen(
            [sys.executable, '-W', 'ignore',
             os.path.join(TOP, 'tools', 'demo.py'), *arguments], cwd=TOP,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.addCleanup(demo.wait)
        self.addCleanup(demo.kill)
        return demo

    def descendants(self, demo):
        return psutil.Process(demo.pid).children(recursive=True)


class TestDemo(DemoTestCase):

    def test_main_job(self):
        demo = self.start('--amphorae', '2')
        # The demo has limits of its own; this is for one that hangs.
        output, _ = demo.communicate(timeout=580)
        self.assertEqual(0, demo.returncode, output)
        steps = [line.split() for line in output.splitlines()
                 if line[:2] in ('1 ', '2 ', '3 ', '4 ')]
        self.assertEqual(4, len(steps), output)
        # Failovers begun.
        self.assertEqual(['0'] * 4, [step[-1] for step in steps])

    def test_interrupted(self):
        """Leaves no process behind."""
        for number in (signal.SIGINT, signal.SIGTERM):
            demo = self.start('--amphorae', '2')
            deadline = time.monotonic() + 120
            while (len(children := self.descendants(demo)) < 4 and
                    time.monotonic() < deadline):
                time.sleep(0.2)
            self.assertGreaterEqual(len(children), 4)
            demo.send_signal(number)
            demo.communicate(timeout=120)
            self.assertNotEqual(0, demo.returncode)
            _gone, alive = psutil.wait_procs(children)
            self.assertEqual([], [p for p in alive if p.status() !=
                                  psutil.STATUS_ZOMBIE])
