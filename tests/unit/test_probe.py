# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What is made of the requests of a client."""

from tests.cloud import probe
from tests.unit import base


def requests(*errors, interval=1, duration=0.1):
    """Requests one after the other; '' is a good one."""
    return [probe.Request(False, number * interval, duration, error)
            for number, error in enumerate(errors)]


class TestReport(base.TestCase):

    def dark(self, *errors):
        return probe.report(requests(*errors)).dark

    def test_all_is_well(self):
        self.assertEqual(probe.Report(3, 0, 0, 0, ()),
                         probe.report(requests('', '', '')))

    def test_dark(self):
        # Until the next good one begins.
        self.assertEqual(1, self.dark('', 'reset', ''))
        self.assertEqual(2, self.dark('', 'reset', 'reset', '', ''))
        self.assertEqual(2, self.dark('reset', '', 'refused', ''))

    def test_dark_to_the_end(self):
        self.assertEqual(1.1, self.dark('', 'reset', 'reset'))

    def test_errors(self):
        report = probe.report(requests('', 'reset', 'refused', 'reset'))
        self.assertEqual((4, 3), (report.requests, report.failed))
        self.assertEqual(('refused', 'reset'), report.errors)

    def test_kept_ones_are_counted_apart(self):
        kept = probe.Request(True, 0.5, 0.1, 'reset')
        report = probe.report(requests('', '') + [kept])
        self.assertEqual((2, 0, 0, 1), (report.requests, report.failed,
                                        report.dark, report.broken))

    def test_read(self):
        text = ('new 2.0000 0.0100 ok\n'
                'kept 1.0000 0.0200 ConnectionResetError: [Errno 104] reset\n')
        self.assertEqual(
            [probe.Request(True, 1, 0.02,
                           'ConnectionResetError: [Errno 104] reset'),
             probe.Request(False, 2, 0.01, '')], probe.read(text))
        self.assertEqual([], probe.read(''))
