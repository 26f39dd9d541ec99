# SPDX-License-Identifier: Apache-2.0

"""How results of octavia-tempest-plugin are read and told."""

import io
import re

from oslotest import base
import subunit
import testtools
from testtools import content

from tests.tempest import results
from tests.tempest import runs
from tests.tempest import suite

_API = 'octavia_tempest_plugin.tests.api.v2'


def _write(*tests):
    """Return a stream with tests: (id, what is said of it)."""
    stream = io.BytesIO()
    result = testtools.ExtendedToStreamDecorator(
        subunit.StreamResultToBytes(stream))
    result.startTestRun()
    for name, method, details in tests:
        test = testtools.PlaceHolder(name.format(_API))
        result.startTest(test)
        getattr(result, method)(test, details=details)
        result.stopTest(test)
    result.stopTestRun()
    return stream.getvalue()


class TestResults(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.found = suite.read(_write(
            ('{}.test_amphora.A.test_one[id-1,smoke]', 'addSuccess', {}),
            ('setUpClass ({}.test_l7rule.R)', 'addError', {}),
            ('{}.test_amphora.A.test_amphora_list_and_show[id-2]',
             'addFailure', {'traceback': content.text_content(
                 'at\n  MismatchError: 1\n')}),
            ('{}.test_pool.P.test_udp[id-3]', 'addSkip', {
                'reason': content.text_content('501')})))

    def test_read(self):
        self.assertEqual([
            suite.Result('api.v2.test_amphora.A.test_amphora_list_and_show',
                         suite.FAILED, 'MismatchError: 1'),
            suite.Result('api.v2.test_amphora.A.test_one', suite.PASSED),
            suite.Result('api.v2.test_l7rule.R.setUpClass', suite.FAILED),
            suite.Result('api.v2.test_pool.P.test_udp', suite.SKIPPED,
                         '501')], self.found)

    def test_unexpected(self):
        """A cluster may do otherwise; Octavia's own provider may not."""
        listed, _, class_, _ = self.found
        self.assertEqual([class_], results.find_unexpected('amphora_cluster',
                                                           self.found))
        self.assertEqual([listed, class_], results.find_unexpected(
            'amphora', self.found))

    def test_table(self):
        table = results.make_table({'cluster': self.found},
                                   {'cluster': 'amphora_cluster'})
        rows = [re.findall('- (.*)', row)
                for row in table.split('\n   * ')[1:]]
        self.assertEqual(
            [['cluster', 'api.amphora', '1', '1', '0'],
             ['cluster', 'api.l7rule', '0', '1', '0'],
             ['cluster', 'api.pool', '0', '0', '1'],
             ['cluster', 'sum', '1', '2', '1']], [row[:5] for row in rows[1:]])
        self.assertIn('expects one amphora, or two', table)
        self.assertIn('1 skipped: 501', table)

    def test_lists(self):
        for run in runs.RUNS.values():
            patterns = runs.read_list(run.list)
            self.assertTrue(patterns)
            for pattern in patterns:
                self.assertTrue(re.compile(pattern).pattern.startswith(
                    r'octavia_tempest_plugin\.'), pattern)
