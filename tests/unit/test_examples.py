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
import pathlib

import yaml

from octavia_hmsync.cmd import hmsync
from octavia_hmsync import conf as hmsync_conf
from tests.unit import base

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'etc/examples'
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

    def check_command(self, words):
        """Check that octavia-hmsync has such a command."""
        words = [w for w in words if not w.startswith('/')]
        words = words[words.index('octavia-hmsync') + 1:]
        app = hmsync.HMSyncApp()
        factory, name, rest = app.command_manager.find_command(
            [w for w in words if w != '--config-dir'])
        parser = factory(app, None, cmd_name=name).get_parser(name)
        parser.parse_args(rest)

    def test_kolla_ansible(self):
        parser = self.check(
            (EXAMPLES / 'kolla-ansible/config/octavia.conf').read_text())
        self.assertEqual('octavia_hmsync', parser['hmsync']['driver'])

    def test_kubernetes(self):
        documents = {document['kind']: document for document in
                     yaml.safe_load_all((
                         EXAMPLES / 'kubernetes/octavia-health-manager.yaml'
                     ).read_text())}
        for text in documents['ConfigMap']['data'].values():
            self.check(text)
        pod = documents['StatefulSet']['spec']['template']['spec']
        container, = pod['containers']
        self.check_command(container['readinessProbe']['exec']['command'])
        hook = container['lifecycle']['preStop']['exec']['command'][-1]
        words = hook.removesuffix(' || true').split()
        self.check_command(words)
        timeout = int(words[words.index('--timeout') + 1])
        self.assertGreater(pod['terminationGracePeriodSeconds'], timeout)
        self.assertEqual(
            documents['StatefulSet']['spec']['selector'],
            documents['PodDisruptionBudget']['spec']['selector'])
