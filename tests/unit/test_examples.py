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

"""The examples of etc/examples have options and commands that exist."""

import configparser
import contextlib
import os
import pathlib
import signal
import subprocess

import fixtures
from oslo_config import cfg
import psutil
import yaml

from octavia_hmsync.cmd import hmsync
from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync.metrics import exporter
from tests.cloud import waiting
from tests.unit import base

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = TOP / 'etc/examples'
# Of oslo.config, for the driver.
DRIVER_OPTION = 'driver'


class TestExamples(base.TestCase):

    def check(self, text):
        """Check a part of octavia.conf."""
        parser = configparser.ConfigParser()
        parser.read_string(text)
        self.assertEqual('hmsync', parser['DEFAULT']['config_source'])
        conf = self.make_conf()
        for group in parser.sections():
            for option in set(parser[group]) - set(parser.defaults()):
                if (group, option) != (hmsync_conf.GROUP, DRIVER_OPTION):
                    conf.set_override(option, parser[group][option], group)
        hmsync_conf.check(conf)
        self.assertIn('hmsync', conf.controller_worker.statistics_drivers)
        return parser

    def check_mounted(self, files):
        """Check that a ConfigMap counts beside octavia.conf.

        What is advertised is the address of an interface. A health manager
        that is left with Octavia's default does not listen there.
        """
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name, text in {'octavia.conf': '[health_manager]\n'
                                           'bind_ip = 127.0.0.1\n',
                           **files}.items():
            (directory / name).write_text(text)
        conf = cfg.ConfigOpts()
        conf.register_opt(cfg.StrOpt('bind_ip'), 'health_manager')
        conf(['--config-dir', str(directory)], default_config_files=[],
             default_config_dirs=[])
        self.assertEqual('0.0.0.0', conf.health_manager.bind_ip)

    def check_command(self, words):
        """Check that octavia-hmsync has such a command."""
        words = [w for w in words if not w.startswith('/etc')]
        names = [w.rpartition('/')[2] for w in words]
        words = words[names.index('octavia-hmsync') + 1:]
        app = hmsync.HMSyncApp()
        factory, name, rest = app.command_manager.find_command(
            [w for w in words if w != '--config-dir'])
        parser = factory(app, None, cmd_name=name).get_parser(name)
        parser.parse_args(rest)

    def check_probes(self, container):
        """Check that kubelet asks where the service answers, and for what."""
        environment = {e['name']: e.get('value', '192.0.2.7')
                       for e in container['env']}
        for name, value in environment.items():
            self.useFixture(fixtures.EnvironmentVariable(
                name, value.replace('$(POD_IP)', environment['POD_IP'])))
        port, = container['ports']
        # By oslo.config, which prefers it to a file.
        conf = cfg.ConfigOpts()
        hmsync_conf.register_opts(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        self.assertEqual(f'192.0.2.7:{port["containerPort"]}',
                         conf.hmsync.health_manager_metrics_address)
        for kind, path in (('startupProbe', exporter.ALIVE),
                           ('livenessProbe', exporter.ALIVE),
                           ('readinessProbe', exporter.READY)):
            self.assertEqual({'path': path, 'port': port['name']},
                             container[kind]['httpGet'])

    def test_kolla_ansible(self):
        parser = self.check(
            (EXAMPLES / 'kolla-ansible/config/octavia.conf').read_text())
        self.assertEqual('octavia_hmsync', parser['hmsync']['driver'])

    def test_kubernetes_node_port(self):
        documents = {document['kind']: document for document in
                     yaml.safe_load_all((
                         EXAMPLES / 'kubernetes/'
                         'octavia-health-manager-node-port.yaml').read_text())}
        for text in documents['ConfigMap']['data'].values():
            self.assertEqual('neutron_port',
                             self.check(text)['hmsync']['address_driver'])
        self.check_mounted(documents['ConfigMap']['data'])
        pod = documents['DaemonSet']['spec']['template']['spec']
        self.assertTrue(pod['hostNetwork'])
        plug, = pod['initContainers']
        command = plug['command'][-1]
        self.check_command(command.removesuffix(' || true').split())
        # Neutron may be down; the health manager is needed all the same.
        self.assertEqual(0, self.start_shell(plug['command']).wait(30))
        keep, health_manager = pod['containers']
        _trap, loop, command, _done = keep['command'][-1].split('; ')
        self.check_command(command.removeprefix('do ').split())
        self.assertEqual('while sleep 60 & wait $!', loop)
        self.check_ends(keep['command'])
        for container in (plug, keep):
            self.assertEqual(
                (0, ['NET_ADMIN']),
                (container['securityContext']['runAsUser'],
                 container['securityContext']['capabilities']['add']))
            # Where ovs-vsctl looks.
            self.assertIn('/run/openvswitch', [
                m['mountPath'] for m in container['volumeMounts']])
        self.check_probes(health_manager)
        hook = health_manager['lifecycle']['preStop']['exec']['command'][-1]
        self.check_command(hook.removesuffix(' || true').split())

    def start_shell(self, command):
        """Start the shell of a container; octavia-hmsync fails there."""
        directory = self.useFixture(fixtures.TempDir()).path
        program = pathlib.Path(directory, 'octavia-hmsync')
        program.write_text('#!/bin/sh\nexit 1\n')
        program.chmod(0o755)
        shell = subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL,
            env={'PATH': f'{directory}:{os.environ["PATH"]}'})

        def end():
            # Whatever it has left.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()

        self.addCleanup(end)
        return shell

    def check_ends(self, command):
        """Check that a shell handles SIGTERM.

        As the first process of a container it gets none otherwise.
        """
        shell = self.start_shell(command)
        waiting.wait_for(psutil.Process(shell.pid).children, 'its sleep', 20)
        shell.terminate()
        self.assertEqual(0, shell.wait(30))

    def read_unit(self, name):
        """Read a unit of systemd: {section: {key: values}}."""
        unit, section = {}, None
        for line in (TOP / 'etc/systemd' / name).read_text().splitlines():
            if line.startswith('['):
                section = unit.setdefault(line.strip('[]'), {})
            elif line and not line.startswith('#'):
                key, value = line.split('=', 1)
                section.setdefault(key, []).extend(value.split())
        return unit

    def test_systemd(self):
        service = self.read_unit('octavia-hmsync-port.service')
        command = service['Service']['ExecStart']
        self.check_command([word for word in command
                            if word != '--config-file'])
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

    def test_kubernetes(self):
        documents = {document['kind']: document for document in
                     yaml.safe_load_all((
                         EXAMPLES / 'kubernetes/octavia-health-manager.yaml'
                     ).read_text())}
        for text in documents['ConfigMap']['data'].values():
            self.check(text)
        self.check_mounted(documents['ConfigMap']['data'])
        pod = documents['StatefulSet']['spec']['template']['spec']
        container, = pod['containers']
        self.check_probes(container)
        hook = container['lifecycle']['preStop']['exec']['command'][-1]
        words = hook.removesuffix(' || true').split()
        self.check_command(words)
        timeout = int(words[words.index('--timeout') + 1])
        self.assertGreater(pod['terminationGracePeriodSeconds'], timeout)
        self.assertEqual(
            documents['StatefulSet']['spec']['selector'],
            documents['PodDisruptionBudget']['spec']['selector'])
