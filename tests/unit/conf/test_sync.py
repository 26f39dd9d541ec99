# SPDX-License-Identifier: Apache-2.0

import fixtures
from oslo_config import cfg

from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import opts
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions
from tests.unit import base
from tests.unit import octavia_opts

FIXED_DEFAULTS = {
    'keepalive_interval': 5, 'offline_after': 20, 'poll_interval': 2,
    'settle_time': 2, 'removal_delay': 60, 'allowed_networks': [],
    'allow_loopback': False, 'address_driver': 'bind_ip'}


class TestOptions(base.TestCase):

    def test_names_and_defaults(self):
        conf = self.make_conf()
        for name, default in FIXED_DEFAULTS.items():
            self.assertEqual(default, conf.hmsync[name], name)

    def test_each_has_a_help_text(self):
        for opt in (hmsync_conf.OPTS + network_conf.OPTS +
                    image_conf.OPTS + cluster_conf.OPTS):
            self.assertGreater(len(opt.help or ''), 40, opt.name)

    def test_registered_twice(self):
        hmsync_conf.register_opts(self.make_conf())

    def test_listed_for_the_sample_file(self):
        listed = {}
        for group, options in opts.list_opts():
            listed.setdefault(group, set()).update(o.name for o in options)
        self.assertEqual({
            'DEFAULT': {'config_source'},
            hmsync_conf.GROUP: {'driver', *(o.name for o in hmsync_conf.OPTS)},
            network_conf.GROUP: {o.name for o in network_conf.OPTS},
            image_conf.GROUP: {o.name for o in image_conf.OPTS},
            cluster_conf.GROUP: {o.name for o in cluster_conf.OPTS}}, listed)


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

    def test_values_that_a_file_has_wrong(self):
        path = self.useFixture(fixtures.TempDir()).join('octavia.conf')
        for line in ('poll_interval = soon', 'poll_interval = 0',
                     'static_address = hm1', 'allow_loopback = perhaps',
                     'settle_time = -1', 'batch_size = 100000'):
            with open(path, 'w') as octavia_conf:
                octavia_conf.write(f'[hmsync]\n{line}\n')
            conf = cfg.ConfigOpts()
            octavia_opts.register(conf)
            hmsync_conf.register_opts(conf)
            conf([], default_config_files=[path], default_config_dirs=[])
            e = self.assertRaises(exceptions.InvalidConfiguration,
                                  hmsync_conf.check, conf)
            self.assertIn(line.partition(' ')[0], str(e))
            self.assertIn(f' from {path} is not valid', str(e))
            self.assertNotIn('LocationInfo', str(e))

    def test_places_of_values(self):
        """oslo.config names them as Python prints an object."""
        for place, expected in (
                (cfg.LocationInfo(cfg.Locations.user, "/it's.conf"),
                 "/it's.conf"),
                (cfg.LocationInfo(cfg.Locations.environment, 'OS_A__B'),
                 'OS_A__B'),
                (cfg.LocationInfo(cfg.Locations.command_line, ''),
                 'the command line')):
            self.assertEqual(
                f'Value for option b from {expected} is not valid: (x)',
                hmsync_conf.describe_error(cfg.ConfigSourceValueError(
                    f'Value for option b from {place} is not valid: (x)')))
