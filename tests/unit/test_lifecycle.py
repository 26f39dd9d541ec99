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

"""When the parts begin, in processes that fork as octavia-health-manager."""

import os
import select
import signal
import subprocess
import sys
import time

from tests.unit import base

# A listener that ends at once, or lives on.
SCRIPT = """
import logging
import multiprocessing
import sys
import time

from octavia_hmsync import lifecycle
from tests.unit import base

logging.basicConfig(stream=sys.stdout)
conf = base.TestCase('make_conf').make_conf(
    database={'connection': 'sqlite://'})
lifecycle._FORKS_TIMEOUT = 0.5
lifecycle.Lifecycle(conf, 'health_manager').begin()


def start(name, seconds):
    process = multiprocessing.Process(name=name, target=time.sleep,
                                      args=(seconds,))
    process.start()
    return process
"""
OFF = 'octavia-hmsync is off in this process: The listener of this health'
BEGUN = 'octavia-hmsync: The tables of octavia-hmsync are not in the'


class TestHealthManager(base.TestCase):

    def run_script(self, expected, *lines):
        """Run it until each text of {text: count} came so often.

        And a little longer: it might come more often than that.

        :returns: what was written.
        """
        script = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-c',
             '\n'.join((SCRIPT, *lines, 'time.sleep(120)'))],
            stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(script.stdout.close)
        self.addCleanup(script.wait)
        self.addCleanup(os.killpg, script.pid, signal.SIGKILL)
        output, deadline = '', time.monotonic() + 60
        while select.select([script.stdout], [], [], max(
                0, deadline - time.monotonic()))[0]:
            data = os.read(script.stdout.fileno(), 65536)
            if not data:
                break
            output += data.decode()
            if all(output.count(text) >= count
                   for text, count in expected.items()):
                deadline = min(deadline, time.monotonic() + 0.5)
        return output

    def test_listener_lives(self):
        # The extension, and the live options of the health check.
        output = self.run_script(
            {BEGUN: 2}, 'start("HM_listener", 120)',
            'start("HM_health_check", 120)')
        self.assertEqual(2, output.count(BEGUN), output)
        self.assertNotIn(OFF, output)

    def test_listener_ends_before_the_second_fork(self):
        """Nobody else says that the plugin is off."""
        output = self.run_script(
            {OFF: 1, BEGUN: 1}, 'start("HM_listener", 0).join()',
            'start("HM_health_check", 120)')
        self.assertEqual(1, output.count(OFF), output)
        # The health check builds amphorae all the same.
        self.assertEqual(1, output.count(BEGUN), output)

    def test_something_else_forks_before(self):
        output = self.run_script(
            {BEGUN: 1}, 'start("something", 0).join()',
            'start("HM_listener", 120)', 'start("HM_health_check", 120)')
        self.assertIn(BEGUN, output)
        self.assertNotIn(OFF, output)
