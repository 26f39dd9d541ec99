# SPDX-License-Identifier: Apache-2.0

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import agent_config
from octavia_hmsync import compat
from tests.unit import base
from tests.unit import octavia_opts

AMPHORA_ID = '11111111-2222-3333-4444-555555555555'
ADDRESSES = ('192.0.2.1:5555', '[2001:db8::1]:5555')
KEYS = ('insecure', '&', '<key>', "it's", 'say "it"', '%', '%(debug)s', '%%',
        '#key', ';key',
        'a#b ;c', 'a = b', 'a: b', '[section]', '{{ debug }}', '{% raw %}',
        '\\', 'a\\nb', 'a,b', 'ключ', '\U0001f511', '&amp;', 'a  b', "'a",
        'a"')


class TestRendered(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).join('agent.conf')

    def render(self, addresses=ADDRESSES, topology='SINGLE', **groups):
        renderer = agent_config.AgentConfigRenderer(self.make_conf(**groups))
        return renderer.render(AMPHORA_ID, topology, addresses)

    def read(self, text):
        """Read it as the agent does: with Octavia's option definitions."""
        with open(self.path, 'w', encoding='utf-8') as agent_conf:
            agent_conf.write(text)
        conf = cfg.ConfigOpts()
        octavia_opts.register(conf)
        conf([], default_config_files=[self.path], default_config_dirs=[])
        return conf

    def test_every_value(self):
        values = {
            'DEFAULT': {'debug': True},
            'haproxy_amphora': {
                'base_cert_dir': '/certs', 'base_path': '/base',
                'bind_host': '::', 'bind_port': 19443,
                'haproxy_cmd': '/sbin/haproxy -q'},
            'health_manager': {'heartbeat_interval': 7,
                               'heartbeat_key': 'secret'},
            'amphora_agent': {
                'agent_server_ca': '/ca.pem', 'agent_server_cert': '/s.pem',
                'agent_server_network_dir': '/net',
                'agent_request_read_timeout': 99,
                'agent_tls_protocol': 'TLSv1.3',
                'amphora_udp_driver': 'keepalived_lvs'},
        }
        conf = self.read(self.render(**values))
        for group, options in values.items():
            for name, value in options.items():
                actual = (conf if group == 'DEFAULT' else conf[group])[name]
                self.assertEqual(value, actual, name)
        # Without brackets, which older agents cannot read.
        self.assertEqual(['192.0.2.1:5555', '2001:db8::1:5555'],
                         conf.health_manager.controller_ip_port_list)
        self.assertEqual(AMPHORA_ID, conf.amphora_agent.amphora_id)
        self.assertEqual('SINGLE',
                         conf.controller_worker.loadbalancer_topology)

    def test_log_facilities(self):
        text = self.render(amphora_agent={'user_log_facility': 5,
                                          'administrative_log_facility': 6})
        self.assertIn('syslog_log_facility = LOG_LOCAL6', text)
        conf = self.read(text)
        self.assertEqual('LOG_LOCAL6', conf.syslog_log_facility)
        self.assertIn('user_log_facility = 5', text)

    def test_network_directory_that_is_not_set(self):
        text = self.render()
        self.assertNotIn('agent_server_network_dir', text)
        self.assertIsNone(
            self.read(text).amphora_agent.agent_server_network_dir)

    def test_same_file_as_octavia_writes(self):
        """Octavia's template may change with a release; this follows it."""
        with open(compat.get_agent_template_path(),
                  encoding='utf-8') as template:
            names = {line.partition('=')[0].strip()
                     for line in template if '=' in line}
        rendered = {line.partition('=')[0].strip() for line in self.render(
            amphora_agent={'agent_server_network_dir': '/net'}).splitlines()
            if '=' in line}
        self.assertEqual(names, rendered)

    def assertArrives(self, in_file):
        """Compare what the controllers read with what the agent reads."""
        controller = self.read(f'[health_manager]\nheartbeat_key = {in_file}')
        try:
            key = controller.health_manager.heartbeat_key
        except cfg.Error:
            # No controller can read it either.
            return
        text = agent_config.AgentConfigRenderer(controller).render(
            AMPHORA_ID, 'SINGLE', ADDRESSES)
        self.assertEqual(key, self.read(text).health_manager.heartbeat_key)

    def test_keys(self):
        for key in KEYS:
            self.assertArrives(key)

    def test_keys_with_dollars(self):
        for key in ('$', 'a$', '$$', '$$y', '$$$$', '$${debug}', '$debug'):
            self.assertArrives(key)

    def test_key_with_a_backslash_before_a_dollar(self):
        for key in ('\\$y', 'a\\$$b', '\\$$', '\\\\$$'):
            self.assertArrives(key)

    def test_key_in_quotes(self):
        """oslo.config takes one pair of quotes around a value away."""
        for key in ('"key"', '""key""', "''key''", """'"'"""):
            self.assertArrives(key)

    def test_key_with_spaces_at_its_ends(self):
        """octavia.conf can have it in quotes."""
        for key in ('" key"', '"key "', "' '"):
            self.assertArrives(key)

    @given(st.text(st.characters(codec='utf-8', exclude_categories=[
        'Cc', 'Zs', 'Zl', 'Zp', 'Cs']), min_size=1).filter(
            lambda key: not set(key) & set('$\\"\'')))
    def test_any_key(self, key):
        self.assertArrives(key)

    @given(st.text('$\\a{}()"\' %', min_size=1, max_size=6))
    def test_any_key_with_what_is_special_to_oslo_config(self, key):
        self.assertArrives(key)

    def test_empty_list_is_refused(self):
        for addresses in ((), [], None):
            self.assertRaises(ValueError, self.render, addresses)

    def test_not_escaped_for_html(self):
        text = self.render(haproxy_amphora={'haproxy_cmd': 'a & b > c'})
        self.assertIn('haproxy_cmd = a & b > c\n', text)


class TestTopology(base.TestCase):

    def topology(self, topology, role, default='SINGLE'):
        return agent_config.topology_for(topology, role, self.make_conf(
            controller_worker={'loadbalancer_topology': default}))

    def test_that_of_the_load_balancer(self):
        for default in ('SINGLE', 'ACTIVE_STANDBY'):
            for role in ('MASTER', 'BACKUP', 'STANDALONE', None):
                for topology in ('SINGLE', 'ACTIVE_STANDBY'):
                    self.assertEqual(topology, self.topology(
                        topology, role, default))

    def test_without_load_balancer_that_of_the_role(self):
        self.assertEqual('ACTIVE_STANDBY', self.topology(None, 'MASTER'))
        self.assertEqual('ACTIVE_STANDBY', self.topology(None, 'BACKUP'))
        self.assertEqual('ACTIVE_STANDBY', self.topology(None, 'IN_CLUSTER'))
        self.assertEqual('SINGLE', self.topology(None, 'STANDALONE',
                                                 'ACTIVE_STANDBY'))

    def test_members_of_clusters(self):
        """An agent takes no other topology than these two.

        As one of a SINGLE load balancer it would tell everybody that the VIP
        is its own.
        """
        for default in ('SINGLE', 'ACTIVE_STANDBY'):
            for topology in ('ACTIVE_ACTIVE', 'SINGLE', None):
                self.assertEqual('ACTIVE_STANDBY', self.topology(
                    topology, 'IN_CLUSTER', default))
            self.assertEqual('ACTIVE_STANDBY', self.topology(
                'ACTIVE_ACTIVE', None, default))

    def test_without_either_that_of_the_controller(self):
        for default in ('SINGLE', 'ACTIVE_STANDBY'):
            self.assertEqual(default, self.topology(None, None, default))


class TestSecrecy(base.TestCase):

    def test_key_is_not_in_the_repr_of_an_upload(self):
        renderer = agent_config.AgentConfigRenderer(self.make_conf(
            health_manager={'heartbeat_key': 'S3cret'}))
        upload = agent_client.Upload(AMPHORA_ID, '192.0.2.9', renderer.render(
            AMPHORA_ID, 'SINGLE', ADDRESSES))
        self.assertIn('S3cret', upload.body)
        for text in (repr(upload), str(upload), f'{[upload]}',
                     repr(renderer)):
            self.assertNotIn('S3cret', text)
