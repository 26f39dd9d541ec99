# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions
from tests.unit import base

FIXED_DEFAULTS = {
    'keepalive_interval': 5, 'offline_after': 20, 'poll_interval': 2,
    'settle_time': 2, 'removal_delay': 60, 'allowed_networks': [],
    'allow_loopback': False, 'address_driver': 'bind_ip'}


class TestOptions(base.TestCase):

    def test_names_and_defaults(self):
        conf = self.make_conf()
        for name, default in FIXED_DEFAULTS.items():
            self.assertEqual(default, conf.hmsync[name], name)


class TestCheck(base.TestCase):

    def assertRefused(self, words, **groups):
        e = self.assertRaises(exceptions.InvalidConfiguration,
                              hmsync_conf.check, self.make_conf(**groups))
        self.assertIn(words, str(e))
        self.assertNotIn('\n', str(e))

    def test_defaults(self):
        hmsync_conf.check(self.make_conf())

    def test_offline_after(self):
        self.assertRefused('Raise offline_after', hmsync={
            'offline_after': 9, 'keepalive_interval': 5})
        hmsync_conf.check(self.make_conf(hmsync={
            'offline_after': 10, 'keepalive_interval': 5}))

    def test_failover_hold_max(self):
        for value in (1, 30, 59):
            self.assertRefused(f'failover_hold_max = {value} is less than 60',
                               hmsync={'failover_hold_max': value})
        for value in (0, 60):
            hmsync_conf.check(self.make_conf(
                hmsync={'failover_hold_max': value}))
        self.assertRefused('is less than 71', hmsync={
            'failover_hold_max': 70, 'poll_interval': 41})
        self.assertRefused('= 300 is less than 400',
                           hmsync={'failover_hold_max': 300},
                           health_manager={'heartbeat_timeout': 400})

    def test_default_of_failover_hold_max_follows_heartbeat_timeout(self):
        for timeout, poll_interval, expected in (
                (60, 2, 300), (300, 2, 300), (400, 2, 400), (400, 250, 450)):
            conf = self.make_conf(
                health_manager={'heartbeat_timeout': timeout},
                hmsync={'poll_interval': poll_interval})
            hmsync_conf.check(conf)
            self.assertEqual(expected, hmsync_conf.hold_max(conf))
        for value in (0, 60, 200):
            self.assertEqual(value, hmsync_conf.hold_max(self.make_conf(
                hmsync={'failover_hold_max': value})))

    def test_claim_expiry(self):
        values = {'batch_size': 200, 'upload_concurrency': 64,
                  'upload_timeout': 10}
        self.assertRefused('claim_expiry = 50',
                           hmsync={'claim_expiry': 50, **values})
        hmsync_conf.check(self.make_conf(
            hmsync={'claim_expiry': 51, **values}))
        self.assertRefused('claim_expiry = 60', hmsync={
            'claim_expiry': 60, 'upload_rate': 20, **values})
        hmsync_conf.check(self.make_conf(hmsync={
            'claim_expiry': 61, 'upload_rate': 20, **values}))

    def test_batches_are_short_where_there_is_a_rate(self):
        for rate, expected in ((0, 200), (1, 10), (50, 200)):
            conf = self.make_conf(hmsync={'batch_size': 200,
                                          'upload_rate': rate})
            self.assertEqual(expected, hmsync_conf.batch_limit(conf.hmsync))
            hmsync_conf.check(conf)

    def test_heartbeat_timeout(self):
        for timeout, interval in ((10, 10), (9, 10), (10, 0)):
            self.assertRefused('heartbeat_timeout', health_manager={
                'heartbeat_timeout': timeout,
                'heartbeat_interval': interval})
