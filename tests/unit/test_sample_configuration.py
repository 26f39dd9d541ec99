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

"""The sample configuration file is what oslo-config-generator makes."""

import io
import pathlib

from oslo_config import cfg
from oslo_config import generator

from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync.mgmt_network import conf as network_conf
from tests.unit import base

TOP = pathlib.Path(__file__).resolve().parents[2]
GENERATOR_CONF = TOP / 'etc/config/octavia-hmsync-config-generator.conf'


class TestSampleConfiguration(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        generator.register_cli_opts(self.conf)
        self.conf([], default_config_files=[str(GENERATOR_CONF)],
                  default_config_dirs=[])
        self.sample = (TOP / self.conf.output_file).read_text()

    def test_up_to_date(self):
        generated = io.StringIO()
        generator.generate(self.conf, generated)
        self.assertEqual(
            generated.getvalue(), self.sample,
            f'{self.conf.output_file} is out of date: run "tox -e genconfig"')

    def test_each_option_is_in_it(self):
        lines = self.sample.splitlines()
        for group in (hmsync_conf.GROUP, network_conf.GROUP):
            self.assertIn(f'[{group}]', lines)
        for opt in hmsync_conf.OPTS + network_conf.OPTS:
            self.assertEqual(1, sum(
                line.startswith(f'#{opt.name} =') for line in lines),
                opt.name)
