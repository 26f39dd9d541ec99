# SPDX-License-Identifier: Apache-2.0

"""The examples of etc/examples have options and commands that exist."""

import configparser
import os
import pathlib
import re
import subprocess

import fixtures
import jinja2
from octavia.common import config as octavia_config
from oslo_config import cfg
import yaml

from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.services.checks import settings
from tests.unit import base
from tests.unit import examples

SERVICES = ('octavia-health-manager', 'octavia-housekeeping',
            'octavia-worker')


class TestKollaAnsible(examples.ExamplesTestCase):

    def setUp(self):
        super().setUp()
        self.directory = examples.EXAMPLES / 'kolla-ansible'

    def test_each_service_has_the_lines(self):
        """And no other: octavia-api may lack the package."""
        folder = self.directory / 'config/octavia'
        self.assertEqual({f'{name}.conf' for name in SERVICES},
                         {path.name for path in folder.iterdir()})
        self.assertEqual(['octavia'], [path.name for path in
                                       folder.parent.iterdir()])
        parts = [dict(self.check(path.read_text())['hmsync'])
                 for path in folder.iterdir()]
        self.assertEqual('bind_ip', parts[0]['address_driver'])
        self.assertEqual(parts[0], parts[1])
        self.assertEqual(parts[0], parts[2])

    def test_pinned_addresses(self):
        for path in (self.directory / 'config/octavia').iterdir():
            text = path.read_text()
            self.assertNotIn('health_manager', self.check(text))
            self.assertEqual(
                '', self.check(self.let_go(text))['health_manager'][
                    'controller_ip_port_list'])

    def render(self, name):
        """Return what becomes of a Dockerfile of Kolla's."""
        parent = ("{% block octavia_api_footer %}{% endblock %}"
                  "{{ octavia_base_pip_packages_append }}")
        return jinja2.Environment(autoescape=True, loader=jinja2.DictLoader({
            'parent': parent,
            'child': (self.directory / name).read_text()})).get_template(
                'child').render(parent_template='parent')

    def start(self, script, **failing):
        """Run the script of an image with programs that say their names."""
        directory = self.useFixture(fixtures.TempDir()).path
        for name in ('octavia-db-manage', 'octavia-hmsync'):
            path = pathlib.Path(directory, name)
            path.write_text(f'#!/bin/sh\necho {name} "$@"\n'
                            f'exit {failing.get(name.replace("-", "_"), 0)}\n')
            path.chmod(0o755)
        return bash(
            f'set -o errexit; . {script}; echo on',
            env={'PATH': f'{directory}:{os.environ["PATH"]}',
                 'KOLLA_BOOTSTRAP': ''})

    def test_image(self):
        """The package is in all images, the bootstrap makes the tables."""
        text = self.render('template-overrides.j2')
        self.assertIn('octavia-hmsync&#39;]', text)
        script = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                              'kolla_octavia_extend_start')
        # What Kolla's has, in its own words.
        script.write_text(
            'if [[ -v KOLLA_BOOTSTRAP ]]; then\n'
            '    octavia-db-manage upgrade head\n'
            '    octavia-db-manage upgrade_persistence\n'
            '    exit 0\nfi\n')
        command = text[text.index('RUN ') + 4:text.index('[')].replace(
            '/usr/local/bin/kolla_octavia_extend_start', str(script))
        self.assertEqual(0, bash(command).returncode)
        self.assertEqual(
            ['octavia-db-manage upgrade head', 'octavia-hmsync db upgrade',
             'octavia-db-manage upgrade_persistence'],
            self.start(script).stdout.splitlines())
        for line in self.start(script).stdout.splitlines():
            if line.startswith('octavia-hmsync'):
                self.check_command(line.split())
        # Tables that cannot be made stop the deployment.
        self.assertEqual(1, self.start(script, octavia_hmsync=1).returncode)
        # A script that has no such line is not passed over.
        script.write_text('exit 0\n')
        self.assertNotEqual(0, bash(command).returncode)

    def test_globals(self):
        settings = yaml.safe_load(
            (self.directory / 'globals.yml').read_text())
        for name in (*SERVICES, 'octavia-api', 'octavia-driver-agent'):
            self.assertIn(name, settings[f'{name}_image'.replace('-', '_')])
        validation, = settings['octavia_config_validation']
        theirs, ours = validation['generator'].split(' --config-file ')
        # What setup.cfg says is installed there.
        self.assertTrue((examples.TOP / 'etc' / ours.partition(
            'share/octavia-hmsync/')[2]).is_file())
        self.assertTrue(theirs.startswith('/octavia/etc/config/'))


class TestOpenStackAnsible(examples.ExamplesTestCase):

    def load(self, text):
        return yaml.safe_load(text)['octavia_octavia_conf_overrides']

    def test_user_variables(self):
        text = (examples.EXAMPLES /
                'openstack-ansible/user_variables.yml').read_text()
        overrides = self.load(text)
        address = overrides['hmsync'].pop('static_address')
        self.assertEqual('192.0.2.1', jinja2.Environment(
            autoescape=True, undefined=jinja2.StrictUndefined).from_string(
                address).render(
                    container_networks={'lbaas': {'address': '192.0.2.1'}},
                    octavia_container_network_name='lbaas'))
        overrides['hmsync']['static_address'] = '192.0.2.1'
        self.check(ini(overrides))
        self.assertNotIn('health_manager', overrides)
        self.assertEqual({'controller_ip_port_list': ''}, self.load(
            self.let_go(text))['health_manager'])
        self.assertEqual(['octavia-hmsync'], yaml.safe_load(text)[
            'octavia_user_pip_packages'])


class TestClusters(examples.ExamplesTestCase):
    """With what is added for clusters they can be made."""

    def load(self, name):
        return yaml.safe_load((examples.EXAMPLES / name).read_text())

    def check_clusters(self, *texts):
        parser = configparser.ConfigParser()
        for text in texts:
            parser.read_string(text)
        conf = self.make_conf()
        conf.register_opts(octavia_config.api_opts, 'api_settings')
        for group in set(parser.sections()) - {'DEFAULT'}:
            for option, value in parser[group].items():
                conf.set_override(option, value, group)
        self.assertIsNone(readiness.find_misconfiguration(conf))
        self.assertTrue(readiness.is_enabled(conf))
        self.assertEqual([], settings.find_providers(conf))

    def test_openstack_ansible(self):
        self.check_clusters(ini(self.load('openstack-ansible/clusters.yml')[
            'octavia_octavia_conf_overrides']))

    def test_atmosphere(self):
        self.check_clusters(ini(self.load('atmosphere/clusters.yml')[
            'octavia_helm_values']['conf']['octavia']))

    def test_openstack_helm(self):
        before = self.load('openstack-helm/values.yaml')
        values = self.load('openstack-helm/clusters.yaml')
        sources = values['pod']['etcSources']
        # Who reads the lines has the package.
        self.assertEqual(sources.keys(), {
            *before['images']['tags'], *values['images']['tags']})
        made = {each['metadata']['name']: each for each in (
            *before['extraObjects'].values(),
            *values['extraObjects'].values())}
        for source in sources.values():
            self.assertLessEqual(
                {each['configMap']['name'] for each in source}, made.keys())
        lines, = values['extraObjects']['octavia_hmsync_clusters'][
            'data'].values()
        self.check_clusters(lines)


class TestCharts(examples.ExamplesTestCase):

    def test_openstack_helm(self):
        values = yaml.safe_load((examples.EXAMPLES /
                                 'openstack-helm/values.yaml').read_text())
        tags = values['images']['tags']
        sources = values['pod']['etcSources']
        # Whoever reads the lines has the package.
        self.assertEqual(sources.keys(), tags.keys())
        self.assertEqual({name.replace('-', '_') for name in SERVICES},
                         tags.keys())
        extra = values['extraObjects']
        config_map = extra['octavia_hmsync_conf']
        for source in sources.values():
            self.assertEqual(
                [{'configMap': {'name': config_map['metadata']['name']}}],
                source)
        lines, = config_map['data'].values()
        self.assertEqual('interface',
                         self.check(lines)['hmsync']['address_driver'])
        job = extra['octavia_hmsync_db_upgrade']['spec']['template']['spec']
        self.check_command(job['containers'][0]['command'])
        # The chart makes templates of them.
        self.assertNotIn('{{', yaml.safe_dump(extra))

    def test_atmosphere(self):
        path = examples.EXAMPLES / 'atmosphere/octavia.yml'
        values = yaml.safe_load(path.read_text())['octavia_helm_values']
        # One file for all services: all of them have the package.
        self.assertEqual(
            {'octavia_api', 'octavia_db_sync', 'octavia_health_manager',
             'octavia_housekeeping', 'octavia_worker'},
            values['images']['tags'].keys())
        conf = values['conf']['octavia']
        self.assertEqual('{{ octavia_management_subnet_cidr }}',
                         conf['hmsync'].pop('allowed_networks'))
        self.check(ini(conf))
        self.assertNotIn('health_manager', conf)
        later = yaml.safe_load(self.let_go(path.read_text()))
        self.assertEqual(
            {'controller_ip_port_list': ''},
            later['octavia_helm_values']['conf']['octavia']['health_manager'])


class TestOctaviaOperator(examples.ExamplesTestCase):

    def test_custom_service_config(self):
        spec = yaml.safe_load((
            examples.EXAMPLES /
            'octavia-operator/octavia.yaml').read_text())['spec']
        self.assertEqual({'octaviaHealthManager', 'octaviaHousekeeping',
                          'octaviaWorker'}, spec.keys())
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'octavia.conf').write_text(
            '[health_manager]\nbind_ip = ::\n'
            'controller_ip_port_list = 172.23.0.97:5555\n')
        (directory / 'octavia.conf.d').mkdir()
        for part in spec.values():
            self.assertIn('hmsync', part['containerImage'])
            lines = part['customServiceConfig']
            self.assertEqual('octavia',
                             self.check(lines)['hmsync']['address_interface'])
            for text, pinned in ((lines, ['172.23.0.97:5555']),
                                 (self.let_go(lines), [])):
                (directory / 'octavia.conf.d/custom.conf').write_text(text)
                self.assertEqual(pinned, self.read_conf(
                    directory, '--config-file', 'octavia.conf',
                    '--config-dir', 'octavia.conf.d').controller_ip_port_list)


class TestPages(examples.ExamplesTestCase):
    """What a page calls an option is one."""

    OPTION = re.compile(r'``\[(\w+)\]\s+(\w+)')
    # Of libraries whose options Octavia registers when it uses them.
    OTHERS = ('database', 'neutron', 'oslo_messaging_notifications',
              'service_auth')

    def test_options(self):
        conf = self.make_conf()
        known = {(group or 'DEFAULT', option)
                 for group, option in self.registered(conf)} | {
                     ('DEFAULT', 'config_source'),
                     ('DEFAULT', 'control_exchange'),
                     ('DEFAULT', 'graceful_shutdown_timeout'),
                     ('DEFAULT', 'transport_url'),
                     ('api_settings', 'default_provider_driver'),
                     ('api_settings', 'enabled_provider_drivers'),
                     ('hmsync', examples.DRIVER_OPTION)} | {
                         (group, option.dest)
                         for group, options in distributor_conf.list_opts()
                         for option in options}
        found = {(path.name, *option)
                 for path in (examples.TOP / 'doc/source').rglob('*.rst')
                 for option in self.OPTION.findall(path.read_text())}
        self.assertGreater(len(found), 40)
        self.assertEqual([], [option for option in sorted(found)
                              if option[1] not in self.OTHERS and
                              option[1:] not in known])

    def test_commands_in_containers(self):
        """test_documentation has those that stand at the begin of a line."""
        pattern = re.compile(
            r"^ .*(?:exec .* |/bin/)(octavia-hmsync(?: [\w-]+)+)'?$",
            re.MULTILINE)
        found = [command.split() for path in
                 (examples.TOP / 'doc/source/install').glob('*.rst')
                 for command in pattern.findall(path.read_text())]
        self.assertGreater(len(found), 8)
        for command in found:
            self.check_command(command)

    def registered(self, conf):
        """Yield (group, option) of all that a configuration has."""
        for name, value in conf.items():
            if isinstance(value, cfg.ConfigOpts.GroupAttr):
                for option in value:
                    yield name, option
            else:
                yield None, name


class TestSystemd(examples.ExamplesTestCase):

    def read_unit(self, name):
        """Read a unit of systemd: {section: {key: values}}."""
        unit, section = {}, None
        path = examples.TOP / 'etc/systemd' / name
        for line in path.read_text().splitlines():
            if line.startswith('['):
                section = unit.setdefault(line.strip('[]'), {})
            elif line and not line.startswith('#'):
                key, value = line.split('=', 1)
                section.setdefault(key, []).extend(value.split())
        return unit

    def test_path(self):
        """A package beside those of the system is found."""
        unit = self.read_unit('octavia-hmsync-path.conf')
        self.assertEqual(
            {'Service': {'Environment': ['PYTHONPATH=/opt/octavia-hmsync']}},
            unit)
        page = (examples.TOP /
                'doc/source/install/distributions.rst').read_text()
        self.assertIn(f' {unit["Service"]["Environment"][0]} ', page)
        self.assertIn('--target /opt/octavia-hmsync ', page)

    def test_systemd(self):
        service = self.read_unit('octavia-hmsync-port.service')
        command = service['Service']['ExecStart']
        self.check_command(command)
        self.assertEqual(['oneshot'], service['Service']['Type'])
        timeout = int(command[command.index('--timeout') + 1])
        self.assertGreater(int(service['Service']['TimeoutStartSec'][0]),
                           timeout)
        self.assertIn('octavia-health-manager.service',
                      service['Unit']['Before'])
        # The timer starts it again once it has ended.
        self.assertNotIn('RemainAfterExit', service['Service'])
        timer = self.read_unit('octavia-hmsync-port.timer')
        self.assertIn('OnUnitInactiveSec', timer['Timer'])
        self.assertEqual(['timers.target'], timer['Install']['WantedBy'])


def bash(script, **kwargs):
    """Run a script; a CompletedProcess with its output as text."""
    return subprocess.run([base.need_program('bash'), '-c', script],
                          capture_output=True, text=True, **kwargs)


def ini(groups):
    """Write {group: {option: value}} as the tools do."""
    return '\n'.join(
        line for group, options in groups.items()
        for line in (f'[{group}]', *(f'{name} = {value}'
                                     for name, value in options.items())))
