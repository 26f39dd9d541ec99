# SPDX-License-Identifier: Apache-2.0

"""devstack/plugin.sh changes octavia.conf and the services as it should."""

import pathlib
import shutil
import subprocess

import fixtures
from octavia.common import config as octavia_config
from oslotest import base

from octavia_hmsync.cluster.instances import cloud as instance_cloud
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import ovn as ovn_conf
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import tls
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync import heartbeat_key
from tests.cloud import certificates
from tests.db_cases import base as db_base
from tests.unit import base as unit_base
from tests.unit.db import sqlite
from tests.unit.devstack import node

PINNED = ('health_manager', 'controller_ip_port_list')
GENERATION = 'sync status -f value -c generation'
REGISTERED = 'health manager show --self'
RESTARTS = ['restart_service devstack@o-hm.service',
            'restart_service devstack@o-cw.service',
            'restart_service devstack@o-hk.service']


class PluginTestCase(base.BaseTestCase):

    def make_node(self, *args, **kwargs):
        unit_base.need_program('bash')
        return self.useFixture(node.Devstack(*args, **kwargs))

    def make_started_node(self, *args, **kwargs):
        """Make one that has come to the extra phase of our plugin."""
        devstack = self.make_node(*args, **kwargs)
        devstack.octavia_post_config()
        devstack.phase('stack', 'post-config')
        devstack.octavia_extra()
        return devstack


class TestClusters(PluginTestCase):

    SERVICES = 'octavia,o-api,o-cw,o-hk,o-hm,o-hmsync-dist,o-hmsync-mgr'

    def make_with_certificates(self):
        """Make one with an authority, as Octavia's plugin makes it."""
        authority = certificates.Authority(
            self.useFixture(fixtures.TempDir()).path, 'ca')
        lines = (f'client_ca = {authority.certificate_path}\n\n'
                 f'[certificates]\n'
                 f'ca_certificate = {authority.certificate_path}\n'
                 f'ca_private_key = {authority.key_path}\n')
        return self.make_node(lines, services=self.SERVICES)

    def test_life(self):
        unit_base.need_program('openssl')
        devstack = self.make_with_certificates()
        devstack.octavia_post_config()
        before = devstack.set_options()
        calls = devstack.stack()
        directory = f'{devstack.dest}/data/octavia-hmsync-distributor'
        programs = f'{devstack.dest}/data/venv/bin/octavia-hmsync'
        self.assertEqual(
            [f'run_process o-hmsync-dist {programs}-distributor '
             f'--config-file {directory}/distributor.conf  root',
             f'run_process o-hmsync-mgr {programs}-cluster-manager '
             f'--config-file {devstack.conf_path}'],
            [call for call in calls if call.startswith('run_process')])
        options = devstack.set_options()
        offered, = options['api_settings', 'enabled_provider_drivers']
        self.assertEqual(
            {**{opt.name: opt.default for opt in octavia_config.api_opts}[
                'enabled_provider_drivers'],
             'amphora_cluster': 'A cluster of amphorae'},
            dict(one.strip().split(': ') for one in offered.split(',')))
        self.assertEqual(['hmsync'],
                         options['controller_worker', 'amphora_driver'])
        distributor, = cluster_conf.parse_distributors(
            options['hmsync_cluster', 'distributors'])
        self.assertEqual('https://192.0.2.3:9444', distributor.url)
        self.assertEqual(['False'],
                         options['hmsync_cluster', 'keep_in_housekeeping'])

        # The process could begin, and controllers would trust it.
        conf = distributor_conf.parse(
            ['--config-file', f'{directory}/distributor.conf'])
        tls.Contexts(conf)
        shown = subprocess.run(
            [unit_base.need_program('openssl'), 'x509', '-noout', '-ext',
             'subjectAltName', '-in',
             conf.hmsync_distributor.server_cert], text=True, check=True,
            stdout=subprocess.PIPE).stdout
        self.assertIn('IP Address:192.0.2.3', shown)

        # Again, and the certificate stays.
        with open(conf.hmsync_distributor.server_cert) as file:
            certificate = file.read()
        devstack.phase('stack', 'post-config')
        devstack.phase('stack', 'extra')
        with open(conf.hmsync_distributor.server_cert) as file:
            self.assertEqual(certificate, file.read())
        state = pathlib.Path(directory, 'state')
        state.mkdir()
        self.assertIn('stop_process o-hmsync-dist',
                      devstack.phase('unstack'))
        # Its VIPs are of a database that stack.sh makes anew.
        self.assertFalse(state.exists())
        after = devstack.set_options()
        self.assertEqual(
            [offered.rpartition(', ')[0]],
            after.pop(('api_settings', 'enabled_provider_drivers')))
        self.assertEqual(before.keys(), {
            key for key in after if key[0] != 'health_manager'})

    def test_another_authority(self):
        """Octavia's plugin makes authorities anew each time."""
        unit_base.need_program('openssl')
        devstack = self.make_with_certificates()
        devstack.octavia_post_config()
        devstack.stack()
        server = pathlib.Path(devstack.dest,
                              'data/octavia-hmsync-distributor/server.pem')
        before = server.read_text()
        devstack.phase('unstack')
        authority = certificates.Authority(
            self.useFixture(fixtures.TempDir()).path, 'ca')
        conf = pathlib.Path(devstack.conf_path)
        (_, certificate), (_, key) = (
            [(name, path) for (_, name), (path,) in
             devstack.set_options().items() if name == wanted][0]
            for wanted in ('ca_certificate', 'ca_private_key'))
        conf.write_text(conf.read_text().replace(
            certificate, authority.certificate_path).replace(
                key, authority.key_path))
        devstack.phase('stack', 'post-config')
        devstack.phase('stack', 'extra')
        self.assertNotEqual(before, server.read_text())
        subprocess.run([unit_base.need_program('openssl'), 'verify', '-CAfile',
                        authority.certificate_path, str(server)], check=True,
                       stdout=subprocess.DEVNULL)

    def test_driver_of_octavia(self):
        """What Octavia's plugin has written is there again afterwards."""
        devstack = self.make_with_certificates()
        devstack.octavia_post_config()
        env = {'OCTAVIA_AMPHORA_DRIVER': 'amphora_noop_driver'}
        devstack.phase('stack', 'post-config', **env)
        key = 'controller_worker', 'amphora_driver'
        self.assertEqual(['hmsync'], devstack.set_options()[key])
        devstack.phase('unstack', **env)
        self.assertEqual(['amphora_noop_driver'],
                         devstack.set_options()[key])

    def test_others_have_none(self):
        devstack = self.make_node()
        devstack.stack()
        self.assertNotIn(('controller_worker', 'amphora_driver'),
                         devstack.set_options())

    def test_distributors_elsewhere(self):
        devstack = self.make_node()
        devstack.octavia_post_config()
        devstack.phase('stack', 'post-config', OCTAVIA_HMSYNC_CLUSTERS='True',
                       OCTAVIA_HMSYNC_DISTRIBUTORS='n1=https://192.0.2.9:9444')
        self.assertEqual(
            ['n1=https://192.0.2.9:9444'],
            devstack.set_options()['hmsync_cluster', 'distributors'])

    def test_ovn(self):
        """Nothing runs beside OVN, whose databases are those of Neutron."""
        devstack = self.make_node(services=f'{self.SERVICES},tls-proxy')
        devstack.octavia_post_config()
        devstack.phase(
            'stack', 'post-config',
            OCTAVIA_HMSYNC_DISTRIBUTOR_DRIVER='hmsync_ovn',
            OVN_NB_REMOTE='ssl:192.0.2.3:6641',
            OVN_SB_REMOTE='ssl:192.0.2.3:6642', INT_CA_DIR='/ca',
            DEVSTACK_CERT_NAME='devstack-cert')
        options = devstack.set_options()
        self.assertEqual(['hmsync_ovn'],
                         options['controller_worker', 'distributor_driver'])
        self.assertNotIn(('hmsync_cluster', 'distributors'), options)
        self.assertEqual(
            {f'ovn_{database}_{name}': [value.format(port)]
             for database, port in (('nb', 6641), ('sb', 6642))
             for name, value in (
                 ('connection', 'ssl:192.0.2.3:{}'),
                 ('ca_cert', '/ca/ca-chain.pem'),
                 ('certificate', '/ca/devstack-cert.crt'),
                 ('private_key', '/ca/private/devstack-cert.key'))},
            {name: value for (group, name), value in options.items()
             if group == 'ovn'})
        self.assertLessEqual(
            {name for group, name in options if group == 'ovn'},
            {opt.name for opt in ovn_conf.OPTS})


class TestInstances(PluginTestCase):

    ENV = {'OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES': '2'}
    # What there is to find afterwards.
    MADE = {kind: f'{kind}-hmsync-distributor' for kind in
            ('image', 'flavor', 'security_group', 'security_group_rule',
             'server_group')}

    def make_with_builder(self, **kwargs):
        """Make one that builds images, and has come to the extra phase."""
        devstack = self.make_node(**kwargs)
        devstack.install_command(node.DISK_IMAGE_CREATE, 'disk-image-create')
        devstack.octavia_post_config()
        devstack.phase('stack', 'post-config', **self.ENV)
        devstack.octavia_extra()
        return devstack

    def extra(self, devstack, **env):
        return devstack.phase('stack', 'extra', **{**self.ENV, **env})

    def test_life(self):
        devstack = self.make_with_builder()
        # octavia-api starts before the others are known.
        self.assertEqual(
            2, devstack.parse().hmsync_cluster.distributor_instances)
        devstack.phase('unstack')
        before = devstack.set_options()
        devstack.phase('stack', 'post-config', **self.ENV)
        calls = self.extra(devstack)
        self.assertEqual(set(self.MADE.values()), {
            path.name for path in (devstack.dest / 'cloud').iterdir()})
        conf = devstack.parse()
        options = instance_cloud.read_options(
            self.override(conf, amp_boot_network_list=['network']))
        self.assertEqual(self.MADE['flavor'], options.flavor_id)
        self.assertEqual((self.MADE['security_group'],),
                         options.security_groups)
        self.assertEqual(self.MADE['server_group'], options.server_group)
        self.assertEqual([], conf.hmsync_cluster.distributors)
        self.assertEqual('hmsync', conf.controller_worker.amphora_driver)
        # Housekeeping reads what has been made.
        self.assertLess(
            max(number for number, call in enumerate(calls)
                if call.startswith('openstack')),
            calls.index(RESTARTS[2]))

        text = devstack.conf_path.read_text()
        calls = self.extra(devstack)
        self.assertEqual(text, devstack.conf_path.read_text())
        self.assertEqual([], [call for call in calls if ' create' in call or
                              'restart' in call])

        devstack.phase('unstack', **self.ENV)
        after = devstack.set_options()
        # Octavia's default is written out.
        del after['api_settings', 'enabled_provider_drivers']
        before.pop(('api_settings', 'enabled_provider_drivers'))
        self.assertEqual(before, after)

    @staticmethod
    def override(conf, **options):
        for name, value in options.items():
            conf.set_override(name, value, 'controller_worker')
        return conf

    def test_commands(self):
        devstack = self.make_with_builder()
        parsed = [node.parse_openstack(call.split()[1:])
                  for call in self.extra(devstack)
                  if call.startswith('openstack ')]
        by_option = {name: getattr(each, name) for each in parsed
                     for name in ('tags', 'policy', 'remote_group',
                                  'dst_port', 'ethertype')
                     if getattr(each, name, None)}
        self.assertEqual(
            {'tags': [devstack.parse().hmsync_cluster.distributor_image_tag],
             'policy': 'soft-anti-affinity',
             'remote_group': 'lb-health-mgr-sec-grp',
             'dst_port': (cluster_conf.DISTRIBUTOR_PORT,) * 2,
             'ethertype': 'IPv4'}, by_option)

    def test_image_is_built_once(self):
        devstack = self.make_with_builder()
        calls = self.extra(devstack)
        self.assertNotIn('install_diskimage_builder', calls)
        built, = [call for call in calls if 'disk-image-create' in call]
        image = f'{devstack.dest}/data/hmsync-distributor.qcow2'
        self.assertEqual(f'disk-image-create -o {image} ubuntu-minimal vm '
                         'octavia-hmsync-distributor', built)
        self.assertIn(f'DIB_REPOLOCATION_octavia_hmsync={devstack.dest}'
                      '/octavia-hmsync',
                      (devstack.dest / 'built_with').read_text())
        # stack.sh makes the image service's database anew.
        (devstack.dest / 'cloud' / self.MADE['image']).unlink()
        calls = self.extra(devstack)
        self.assertEqual([], [call for call in calls if 'disk-image' in call])
        self.assertEqual(
            1, len([call for call in calls if f'--file {image}' in call]))

    def test_given_image(self):
        devstack = self.make_with_builder()
        image = devstack.dest / 'given.qcow2'
        image.touch()
        calls = self.extra(devstack,
                           OCTAVIA_HMSYNC_DISTRIBUTOR_IMAGE=str(image))
        self.assertEqual([], [call for call in calls if 'disk-image' in call])
        self.assertEqual(
            1, len([call for call in calls if f'--file {image}' in call]))

    def test_builder_is_installed(self):
        """Octavia's plugin has not done so where it has built no image."""
        devstack = self.make_with_builder()
        (devstack.dest / 'data/venv/bin/disk-image-create').unlink()
        if shutil.which('disk-image-create'):
            self.skipTest('diskimage-builder is installed here')
        code, output = devstack.try_phase('stack', 'extra', **self.ENV)
        self.assertNotEqual(0, code)
        self.assertIn('install_diskimage_builder', devstack.calls())

    def test_network_of_ours(self):
        """Its health managers may have IPv6 addresses."""
        devstack = self.make_with_builder()
        calls = self.extra(
            devstack, OCTAVIA_HMSYNC_MANAGEMENT_CIDR='fd00::/64')
        rule, = [call for call in calls if 'group rule create' in call]
        parsed = node.parse_openstack(rule.split()[1:])
        self.assertEqual(
            (devstack.parse().hmsync_network.health_manager_security_group,
             'IPv6'), (parsed.remote_group, parsed.ethertype))

    def test_other_nodes(self):
        """They find what the first one has made, and build nothing."""
        devstack = self.make_with_builder(node='subnode')
        for name in self.MADE.values():
            (devstack.dest / 'cloud' / name).touch()
        calls = self.extra(devstack)
        self.assertEqual([], [call for call in calls if ' create' in call or
                              'disk-image' in call])
        self.assertEqual(self.MADE['flavor'],
                         devstack.parse().hmsync_cluster.distributor_flavor_id)

    def test_a_distributor_here_too(self):
        devstack = self.make_node(services='octavia,o-api,o-hmsync-dist')
        devstack.octavia_post_config()
        devstack.phase('stack', 'post-config', **self.ENV)
        self.assertEqual(
            1, len(devstack.parse().hmsync_cluster.distributors))

    def test_it_fails(self):
        for failure, text in (
                ('disk-image-create', 'distributors could not be built'),
                ('image_create', 'the image hmsync-distributor could not be '
                                 'made of'),
                ('security_group_create', 'the security group '
                                          'hmsync-distributor could not'),
                ('security_group_rule_create', 'no rule lets controllers'),
                ('flavor_create', 'the flavor hmsync-distributor could not'),
                ('server_group_create', 'the server group '
                                        'hmsync-distributor could not')):
            devstack = self.make_with_builder()
            devstack.fail(failure)
            code, output = devstack.try_phase('stack', 'extra', **self.ENV)
            self.assertNotEqual(0, code, failure)
            self.assertIn(text, output)
            # What is there already is found the next time.
            (devstack.dest / 'failures' / failure).unlink()
            self.extra(devstack)
            self.assertEqual(set(self.MADE.values()), {
                path.name for path in (devstack.dest / 'cloud').iterdir()})

    def test_bad_settings(self):
        """They are told before anything is installed."""
        for env, text in (
                ({'OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES': 'two'},
                 'is two: set it to a number'),
                ({'OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES': '08'},
                 'is 08: set it to a number'),
                ({**self.ENV,
                  'OCTAVIA_HMSYNC_DISTRIBUTOR_DRIVER': 'hmsync_ovn'},
                 'hmsync_ovn needs no distributors')):
            devstack = self.make_node()
            code, output = devstack.try_phase('stack', 'install', **env)
            self.assertNotEqual(0, code)
            self.assertIn(text, output)
            self.assertEqual([], devstack.calls())


class TestNewAmphoraImage(PluginTestCase):

    def make_with_image(self, **kwargs):
        devstack = self.make_started_node(**kwargs)
        image = devstack.dest / 'new.qcow2'
        image.touch()
        return devstack, {'OCTAVIA_HMSYNC_NEW_AMPHORA_IMAGE': str(image)}

    def test_is_uploaded_once(self):
        devstack, env = self.make_with_image()
        calls = devstack.phase('stack', 'extra', **env)
        image = node.parse_openstack(calls[-1].split()[1:])
        self.assertEqual(('amphora-new', 'public', 'qcow2'),
                         (image.name, image.visibility, image.disk_format))
        # The first load balancers are to be built with the other one.
        self.assertIsNone(image.tags)
        self.assertEqual(
            ['openstack image show -f value -c id amphora-new'],
            [call for call in devstack.phase('stack', 'extra', **env)
             if call.startswith('openstack')])

    def test_it_fails(self):
        devstack, env = self.make_with_image()
        devstack.fail('image_create')
        code, output = devstack.try_phase('stack', 'extra', **env)
        self.assertNotEqual(0, code)
        self.assertIn('the image amphora-new could not be made of '
                      f'{devstack.dest}/new.qcow2', output)


class TestStack(PluginTestCase):

    def test_order_of_calls(self):
        devstack = self.make_node()
        self.assertEqual(
            [f'setup_develop {devstack.dest}/octavia-hmsync '
             'distributor,ovn',
             'octavia-hmsync db upgrade',
             f'octavia-hmsync {REGISTERED}',
             f'octavia-hmsync {GENERATION}',
             *RESTARTS[1:],
             'octavia-hmsync upgrade check',
             'octavia-hmsync health manager list'], devstack.stack())

    def test_commands_exist(self):
        commands = [call.split()[1:] for call in self.make_node().stack()
                    if call.startswith('octavia-hmsync ')]
        self.assertEqual(5, len(commands))
        for words in commands:
            node.parse_command(words)

    def test_result(self):
        devstack = self.make_node()
        devstack.stack()
        conf = devstack.parse()
        self.assertEqual(['hmsync'], conf.config_source)
        self.assertEqual('octavia_hmsync', conf.hmsync.driver)
        self.assertTrue(any(map(node.is_source, conf._sources)))
        self.assertEqual(['stats_db', 'hmsync'],
                         conf.controller_worker.statistics_drivers)
        self.assertEqual([], conf.health_manager.controller_ip_port_list)
        self.assertEqual('192.0.2.3', conf.health_manager.bind_ip)
        self.assertEqual(2, conf.controller_worker.workers)

    def test_other_drivers_and_sources_survive(self):
        devstack = self.make_node(
            'statistics_drivers = stats_db,stats_logger\n')
        devstack.octavia_post_config()
        devstack.iniset('DEFAULT', 'config_source', 'secrets')
        devstack.iniset('secrets', 'driver', 'remote_file')
        before = devstack.set_options()
        devstack.phase('stack', 'post-config')
        options = devstack.set_options()
        self.assertEqual(['stats_db,stats_logger, hmsync'],
                         options['controller_worker', 'statistics_drivers'])
        self.assertEqual(['secrets, hmsync'],
                         options['DEFAULT', 'config_source'])
        devstack.phase('unstack')
        after = devstack.set_options()
        self.assertEqual(['stats_db, stats_logger'],
                         after.pop(('controller_worker',
                                    'statistics_drivers')))
        del before['controller_worker', 'statistics_drivers']
        self.assertEqual(before, after)

    def test_a_driver_with_a_longer_name_is_another(self):
        devstack = self.make_node('statistics_drivers = hmsync_too\n')
        devstack.octavia_post_config()
        devstack.phase('stack', 'post-config')
        self.assertEqual(['hmsync_too', 'hmsync'],
                         devstack.parse().controller_worker.statistics_drivers)

    def test_twice_changes_nothing(self):
        devstack = self.make_started_node()
        for phase in ('post-config', 'extra', 'test-config'):
            devstack.phase('stack', phase)
            text = devstack.conf_path.read_text()
            calls = devstack.phase('stack', phase)
            self.assertEqual(text, devstack.conf_path.read_text())
            self.assertEqual([], [c for c in calls if 'restart' in c])

    def test_local_conf_sets_an_option_too(self):
        """What runs by then is restarted, health manager first."""
        devstack = self.make_started_node()
        devstack.iniset('controller_worker', 'statistics_drivers',
                        'stats_logger')
        calls = devstack.phase('stack', 'extra',
                               OCTAVIA_HMSYNC_REMOVE_PINNED='False')
        self.assertEqual([*RESTARTS, f'octavia-hmsync {REGISTERED}'], calls)
        self.assertEqual(['stats_logger', 'hmsync'],
                         devstack.parse().controller_worker.statistics_drivers)

    def test_no_octavia(self):
        devstack = self.make_node(services='key,mysql')
        for words in (('stack', 'install'), ('stack', 'post-config'),
                      ('stack', 'extra'), ('stack', 'test-config'),
                      ('unstack',), ('clean',)):
            self.assertEqual([], devstack.phase(*words))
        self.assertFalse(devstack.conf_path.exists())

    def test_before_octavia(self):
        """Nothing is installed, though all settings have been read by then."""
        devstack = self.make_node()
        devstack.is_before_octavia = True
        code, output = devstack.try_phase('stack', 'install')
        self.assertEqual(1, code)
        self.assertIn("put 'enable_plugin octavia' before", output)
        self.assertEqual([], devstack.calls())

    def test_tables_cannot_be_made(self):
        devstack = self.make_node()
        devstack.octavia_post_config()
        devstack.fail('db upgrade')
        code, output = devstack.try_phase('stack', 'post-config')
        self.assertNotEqual(0, code)
        self.assertIn('the tables could not be made', output)


class TestPinned(PluginTestCase):

    def test_health_manager_takes_its_time(self):
        devstack = self.make_started_node()
        devstack.fail(REGISTERED, times=2)
        calls = devstack.phase('stack', 'extra')
        self.assertEqual([f'octavia-hmsync {REGISTERED}'] * 3, calls[:3])
        self.assertNotIn(PINNED, devstack.set_options())

    def test_health_manager_does_not_register(self):
        devstack = self.make_started_node()
        devstack.fail(REGISTERED)
        code, output = devstack.try_phase('stack', 'extra')
        self.assertNotEqual(0, code)
        self.assertIn('o-hm has not registered', output)
        self.assertIn(PINNED, devstack.set_options())

    def test_no_list_is_published(self):
        devstack = self.make_started_node()
        devstack.answer(GENERATION, 'None')
        code, output = devstack.try_phase('stack', 'extra')
        self.assertNotEqual(0, code)
        self.assertIn('o-hk has not published a list', output)
        self.assertIn(PINNED, devstack.set_options())

    def test_kept_if_so_wanted(self):
        devstack = self.make_started_node()
        self.assertEqual([f'octavia-hmsync {REGISTERED}'], devstack.phase(
            'stack', 'extra', OCTAVIA_HMSYNC_REMOVE_PINNED='False'))
        self.assertIn(PINNED, devstack.set_options())

    def test_warnings_of_the_check(self):
        """Pinned addresses are one."""
        devstack = self.make_started_node()
        devstack.fail('upgrade check', code=1)
        self.assertEqual(['octavia-hmsync upgrade check',
                          'octavia-hmsync health manager list'],
                         devstack.phase('stack', 'test-config'))

    def test_the_check_fails(self):
        devstack = self.make_started_node()
        devstack.fail('upgrade check', code=2)
        code, output = devstack.try_phase('stack', 'test-config')
        self.assertNotEqual(0, code)
        self.assertIn('the plugin cannot work', output)


class TestNetwork(PluginTestCase):

    CIDR = '172.16.0.0/22'
    ENV = {'OCTAVIA_HMSYNC_MANAGEMENT_CIDR': CIDR}
    MADE = ['octavia-hmsync network ensure',
            'octavia-hmsync network port plug']

    def make_with_network(self, **kwargs):
        """Make one that Octavia's plugin has told of its own network."""
        devstack = self.make_started_node(**kwargs)
        for option in ('amp_boot_network_list', 'amp_secgroup_list'):
            devstack.iniset('controller_worker', option, f'{option}-id')
        return devstack

    def extra(self, devstack, **env):
        return devstack.phase('stack', 'extra', **{**self.ENV, **env})

    def test_life(self):
        devstack = self.make_with_network()
        devstack.phase('unstack')
        before = devstack.set_options()
        devstack.phase('stack', 'post-config', **self.ENV)
        calls = self.extra(devstack)
        # Health managers announce their address there, workers build there.
        self.assertEqual([*self.MADE, *RESTARTS], calls[:5])
        for call in self.MADE:
            node.parse_command(call.split()[1:])
        conf = devstack.parse()
        self.assertEqual([], conf.controller_worker.amp_boot_network_list)
        self.assertEqual([], conf.controller_worker.amp_secgroup_list)
        self.assertTrue(conf.hmsync_network.supply_options)
        self.assertEqual(self.CIDR, conf.hmsync_network.management_subnet_cidr)
        # Those of Octavia's plugin have the names that are the default.
        for option in ('network_name', 'amphora_security_group',
                       'health_manager_security_group'):
            self.assertIn('hmsync', conf.hmsync_network[option])
        self.assertEqual('neutron_port', conf.hmsync.address_driver)
        self.assertNotEqual('o-hm0', conf.hmsync.address_interface)
        self.assertEqual('0.0.0.0', conf.health_manager.bind_ip)

        text = devstack.conf_path.read_text()
        calls = self.extra(devstack)
        self.assertEqual(text, devstack.conf_path.read_text())
        self.assertEqual([], [call for call in calls if 'restart' in call])

        self.assertEqual(['octavia-hmsync network port unplug'],
                         devstack.phase('unstack', **self.ENV))
        self.assertEqual(before, devstack.set_options())
        self.assertEqual([], devstack.phase('clean', **self.ENV))

    def test_without_unstack(self):
        """Octavia's plugin writes its own anew; the last ones come back."""
        devstack = self.make_with_network()
        self.extra(devstack)
        devstack.iniset('health_manager', 'bind_ip', '192.0.2.9')
        self.extra(devstack)
        self.assertEqual('0.0.0.0', devstack.parse().health_manager.bind_ip)
        devstack.phase('unstack')
        self.assertEqual('192.0.2.9', devstack.parse().health_manager.bind_ip)

    def test_ipv6(self):
        devstack = self.make_with_network()
        self.extra(devstack, OCTAVIA_HMSYNC_MANAGEMENT_CIDR='fd00:7::/64')
        self.assertEqual('::', devstack.parse().health_manager.bind_ip)

    def test_further_nodes(self):
        """One makes the network; octavia-api alone needs no port."""
        devstack = self.make_with_network(node='subnode')
        self.assertEqual(self.MADE[1:], self.extra(devstack)[:1])
        devstack = self.make_with_network(node='api',
                                          services='octavia,o-api')
        self.assertEqual([], self.extra(devstack))

    def test_it_fails(self):
        for call, text in zip(self.MADE, (
                'the management network could not be made',
                'this node has no port in the management network'),
                strict=True):
            devstack = self.make_with_network()
            devstack.fail(call.removeprefix('octavia-hmsync '))
            code, output = devstack.try_phase('stack', 'extra', **self.ENV)
            self.assertNotEqual(0, code)
            self.assertIn(text, output)


class TestMultinode(PluginTestCase):

    def test_only_a_health_manager(self):
        """It makes no tables, and has no housekeeper that pins."""
        devstack = self.make_node(node='subnode', services='octavia,o-hm')
        self.assertEqual(
            [f'setup_develop {devstack.dest}/octavia-hmsync '
             'distributor,ovn',
             f'octavia-hmsync {REGISTERED}',
             'octavia-hmsync upgrade check',
             'octavia-hmsync health manager list'], devstack.stack())
        self.assertEqual(['hmsync'], devstack.parse().config_source)

    def test_no_health_manager(self):
        devstack = self.make_node(node='main',
                                  services='octavia,o-api,o-hk')
        self.assertEqual(
            ['octavia-hmsync db upgrade', f'octavia-hmsync {GENERATION}',
             RESTARTS[2]], devstack.stack()[1:4])


class TestUnstack(PluginTestCase):

    def check(self, *words, **env):
        devstack = self.make_node()
        devstack.octavia_post_config()
        devstack.octavia_extra()
        before = devstack.set_options()
        devstack.phase('stack', 'post-config')
        devstack.phase('stack', 'extra', **env)
        self.assertNotEqual(before, devstack.set_options())
        self.assertEqual([], devstack.phase(*words))
        self.assertEqual(before, devstack.set_options())
        text = devstack.conf_path.read_text()
        devstack.phase(*words)
        self.assertEqual(text, devstack.conf_path.read_text())
        self.assertEqual([], list(devstack.dest.glob('data/*taken*')))

    def test_unstack(self):
        self.check('unstack')

    def test_clean(self):
        self.check('clean')

    def test_pinned_were_kept(self):
        self.check('unstack', OCTAVIA_HMSYNC_REMOVE_PINNED='False')

    def test_new_addresses_are_kept(self):
        """What Octavia's plugin has written since is newer than ours."""
        devstack = self.make_started_node()
        devstack.phase('stack', 'extra')
        devstack.iniset('health_manager', 'controller_ip_port_list',
                        '192.0.2.9:5555')
        devstack.phase('unstack')
        self.assertEqual(['192.0.2.9:5555'],
                         devstack.set_options()[PINNED])

    def test_octavia_conf_has_gone(self):
        devstack = self.make_node()
        self.assertEqual([], devstack.phase('unstack'))
        self.assertFalse(devstack.conf_path.exists())


class TestRealCommand(sqlite.SqliteMixin, db_base.DatabaseTestCase):
    """octavia-hmsync itself, with a database."""

    def test_extra_and_test_config(self):
        unit_base.need_program('bash')
        # The database of the class has its tables already.
        devstack = self.useFixture(node.Devstack(node='subnode'))
        devstack.install_command()
        devstack.octavia_post_config()
        devstack.iniset('DEFAULT', 'host', 'controller1')
        devstack.iniset('database', 'connection', self.database.connection)
        devstack.iniset('hmsync', 'offline_after', 600)
        devstack.iniset('health_manager', 'heartbeat_key', 'insecure')
        made = self.useFixture(certificates.Certificates(
            self.useFixture(fixtures.TempDir()).path))
        devstack.iniset('haproxy_amphora', 'client_cert', made.client_path)
        devstack.iniset('haproxy_amphora', 'server_ca',
                        made.server_authority.certificate_path)
        devstack.phase('stack', 'post-config')
        devstack.octavia_extra()
        hm_repo.register(self.engine, 'controller1', '192.0.2.3', 5555, '1',
                         20, heartbeat_key.digest('insecure'),
                         is_observing=True)
        generation_repo.publish(self.engine, 1, {'192.0.2.3:5555': 0},
                                'test', 'controller1', 'OPEN')
        # It takes longer to start than the recorder, on a busy machine much.
        self.assertEqual(RESTARTS[1:], devstack.phase(
            'stack', 'extra', OCTAVIA_HMSYNC_TIMEOUT='60'))
        self.assertNotIn(PINNED, devstack.set_options())
        code, output = devstack.try_phase('stack', 'test-config')
        self.assertEqual(0, code, output)
        self.assertIn('Check: Pinned addresses', output)
        self.assertIn('192.0.2.3', output)
        self.assertNotIn('insecure', output)
