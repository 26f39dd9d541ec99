# SPDX-License-Identifier: Apache-2.0

"""What real services serve to Prometheus."""

import subprocess
import urllib.request

from prometheus_client import parser
import psutil

from tests.cloud import process
from tests.functional import base
from tests import metrics

PORT = 9180


def scrape(address):
    """The text served there, or None."""
    try:
        with urllib.request.urlopen(f'http://{address}/metrics',
                                    timeout=60) as answer:
            return answer.read().decode()
    except OSError:
        return None


class TestMetrics(base.FunctionalTestCase):

    def add_health_manager(self, number):
        address = self.cloud.address(number)
        manager = self.cloud.add_health_manager(address, options={
            'hmsync': {'health_manager_metrics_address': f'{address}:{PORT}'}})
        manager.metrics = f'{address}:{PORT}'
        return manager

    def value(self, address, name, **labels):
        """The sum of the samples with these labels, None if there is none."""
        found = [sample.value for family in
                 parser.text_string_to_metric_families(scrape(address) or '')
                 for sample in family.samples
                 if sample.name == f'octavia_hmsync_{name}' and
                 labels.items() <= sample.labels.items()]
        return sum(found) if found else None

    def wait_for_value(self, expected, address, name, **labels):
        self.wait_for(
            lambda: self.value(address, name, **labels) == expected,
            lambda: f'{name} {labels} = {expected}: {scrape(address)}')

    def test_served(self):
        self.make_cloud(amphorae=1)
        first, second = (self.add_health_manager(n) for n in (1, 2))
        address = f'{self.cloud.address(50)}:{PORT}'
        options = {'hmsync': {'house_keeping_metrics_address': address}}
        keepers = [self.cloud.add_housekeeping(host, options)
                   for host in ('hk1', 'hk2')]
        self.cloud.wait_until_ready()
        self.wait_until_published([first.address, second.address])
        self.wait_for_value(2, address, 'health_managers', status='ONLINE')
        self.wait_for_value(1, address, 'amphorae_by_result',
                            result='APPLIED')
        self.wait_for_value(1, address, 'generation_completed')
        self.wait_for_value(1, first.metrics, 'health_manager_status',
                            status='ONLINE')
        self.assertEqual(1, self.value(first.metrics, 'listening'))
        self.assertLess(
            abs(self.value(first.metrics, 'clock_offset_seconds')), 10)

        # Two with one address: one line, and both work.
        def must_wait(housekeeping):
            return 'serves no metrics' in housekeeping.log()

        self.wait_for(lambda: any(map(must_wait, keepers)),
                      'warning of the other housekeeper')
        keeper, other = sorted(keepers, key=must_wait)
        self.assertIn('Metrics are served', keeper.log())
        self.check_names(address, first)
        self.check_sockets({first.pid, second.pid, keeper.pid})

        # Values follow.
        first.kill_tree()
        self.wait_for_value(1, address, 'silent_health_managers')
        self.wait_for_value(1, address, 'published_addresses')
        self.wait_for_value(1, address, 'health_managers', status='ONLINE')

        # The other one serves as soon as it can.
        self.assertEqual(1, other.log().count('serves no metrics'))
        self.assertIn('Address already in use', other.log())
        self.assertTrue(keeper.stop(), 'it did not end by itself')
        self.assertTrue(other.running)
        self.wait_for_value(1, address, 'health_managers', status='ONLINE')
        self.assertNotIn('Traceback', other.log() + keeper.log())

    def check_names(self, address, manager):
        """Those that are written down are served, and the other way round."""
        texts = [scrape(address), scrape(manager.metrics)]
        served = set().union(*map(metrics.exposed, texts))
        self.assertEqual(metrics.documented(), served)
        for text in texts:
            self.assertNotIn(self.cloud.heartbeat_key, text)
            for amphora_id in self.cloud.amphora_ids:
                self.assertNotIn(amphora_id, text)
            done = subprocess.run(
                [process.system_program('promtool'), 'check', 'metrics'],
                input=text, capture_output=True, text=True, timeout=240)
            self.assertEqual((0, '', ''), (done.returncode, done.stdout,
                                           done.stderr))

    def check_sockets(self, expected):
        """Only the processes that the extensions run in have a port."""
        self.assertEqual(expected, {
            pid for controller in self.cloud.controllers
            for pid in controller.members()
            for c in psutil.Process(pid).net_connections('tcp')
            if c.status == psutil.CONN_LISTEN})
