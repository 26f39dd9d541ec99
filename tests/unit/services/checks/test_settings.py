# SPDX-License-Identifier: Apache-2.0

"""Values that upgrade check finds, one test for each set-up."""

from octavia.common import config
import oslo_messaging

from octavia_hmsync.notifications import broker
from octavia_hmsync.services.checks import settings
from tests.unit import base

API = {'amphora': 'a', 'octavia': 'b', 'amphora_cluster': 'c'}


class TestSettings(base.TestCase):

    def find(self, **groups):
        return settings.find_useless(self.conf_of_api(groups))

    def assertFound(self, words, **groups):
        found, = self.find(**groups)
        self.assertIn(words, found)

    def test_good(self):
        self.assertEqual([], self.find(
            hmsync={'health_manager_metrics_address': '127.0.0.1:9180',
                    'house_keeping_metrics_address': '[::1]:9181'},
            hmsync_network={'management_subnet_cidr': '192.0.2.0/24'}))
        self.assertEqual([], settings.find_unreadable(self.conf_of_api()))

    def conf_of_api(self, groups=None, **options):
        conf = self.make_conf(**groups or {})
        conf.register_opts(config.api_opts, 'api_settings')
        for name, value in options.items():
            conf.set_override(name, value, 'api_settings')
        return conf

    def test_metrics_at_a_name(self):
        self.assertFound(
            '[hmsync] health_manager_metrics_address = controller1:9180 is '
            'not an address: write IPV4:PORT',
            hmsync={'health_manager_metrics_address': 'controller1:9180'})

    def test_metrics_at_an_address_of_another_host(self):
        self.assertFound(
            '[hmsync] house_keeping_metrics_address = 192.0.2.1:9180 is not '
            'an address of this host',
            hmsync={'house_keeping_metrics_address': '192.0.2.1:9180'})

    def test_metrics_of_both_at_one_address(self):
        self.assertFound(
            'are the same: on a host with both services',
            hmsync={'health_manager_metrics_address': '127.0.0.1:9180',
                    'house_keeping_metrics_address': '127.0.0.1:9180'})

    def test_statistics_of_tenants(self):
        conf = self.make_conf(
            controller_worker={'statistics_drivers': ['hmsync']})
        found, = settings.find_statistics(conf)
        self.assertIn('statistics_drivers has no stats_db', found)
        conf.set_override('statistics_drivers', ['stats_db', 'hmsyncs'],
                          'controller_worker')
        found, = settings.find_statistics(conf)
        self.assertIn('hmsyncs is not installed here', found)

    def test_providers(self):
        """Clusters alone: nothing else can be changed any more."""
        conf = self.conf_of_api(
            enabled_provider_drivers={'amphora_cluster': 'c'})
        found, = settings.find_providers(conf)
        self.assertIn('has no amphora, but amphora_cluster: the API cannot '
                      'change or delete', found)
        for provider in ('amphora', 'octavia'):
            conf.set_override('enabled_provider_drivers', {provider: 'a'},
                              'api_settings')
            self.assertEqual([], settings.find_providers(conf))

    def test_misspelt_provider(self):
        """Another one may be installed where octavia-api runs."""
        conf = self.conf_of_api(enabled_provider_drivers={
            'amphora': 'a', 'ovn': 'b', 'amphora_clusters': 'c'})
        found, = settings.find_useless(conf)
        self.assertIn('has amphora_clusters, which is not installed here: '
                      'write amphora_cluster.', found)

    def test_default_provider(self):
        conf = self.conf_of_api(enabled_provider_drivers={'amphora': 'a'},
                                default_provider_driver='amphora_cluster')
        found, = settings.find_useless(conf)
        self.assertIn('default_provider_driver = amphora_cluster is not in '
                      'enabled_provider_drivers', found)

    def test_transport(self):
        for url, words in (
                ('rabit://octavia:S3cret@h/', 'transport_url = rabit is not '
                 'installed here'),
                ('rabbit://octavia:S3cret@[h/', 'transport_url cannot be '
                 'read')):
            conf = self.conf_of_api()
            oslo_messaging.TransportURL.parse(conf)
            conf.set_override('transport_url', url)
            found, = settings.find_useless(conf)
            self.assertIn(words, found)
            self.assertNotIn('S3cret', found)

    def test_address_that_is_not_announced(self):
        self.assertFound('static_address has no effect with address_driver = '
                         'bind_ip', hmsync={'static_address': '192.0.2.1'})
        self.assertEqual([], self.find(hmsync={
            'static_address': '192.0.2.1', 'address_driver': 'static'}))

    def test_one_security_group(self):
        self.assertFound('are both lb-mgmt-sec-grp', hmsync_network={
            'health_manager_security_group': 'lb-mgmt-sec-grp'})

    def test_driver_of_notifications(self):
        conf = self.conf_of_api()
        self.assertEqual([], broker.get_drivers(conf))
        conf.set_override('driver', ['nosuch'],
                          'oslo_messaging_notifications')
        found, = settings.find_useless(conf)
        self.assertIn(
            '[oslo_messaging_notifications] driver = nosuch is not '
            'installed here, so nothing is notified', found)

    def test_amphora_driver(self):
        self.assertFound(
            '[controller_worker] amphora_driver = amphora_haproxy_rest is '
            'not installed here',
            controller_worker={'amphora_driver': 'amphora_haproxy_rest'})

    def test_subnet(self):
        self.assertFound(
            'management_subnet_cidr = 172.16.0.1/22 is no network',
            hmsync_network={'management_subnet_cidr': '172.16.0.1/22'})
        self.assertFound(
            'too few for amphorae and controllers',
            hmsync_network={'management_subnet_cidr': '172.16.0.0/30'})
