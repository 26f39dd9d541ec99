# SPDX-License-Identifier: Apache-2.0

"""The examples for clusters of amphorae fit what reads them."""

import configparser
import importlib.util
import pathlib
import re
import shlex
import unittest

import fixtures
import jinja2
from oslo_config import cfg
from oslotest import base
import yaml

from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.cluster.instances import cloud as instance_cloud
from octavia_hmsync.distributor import conf as distributor_conf
from tests.unit import base as unit_base
from tests.unit import examples

CLUSTERS = examples.EXAMPLES / 'kubernetes/clusters'
USER_DATA = examples.EXAMPLES / 'distributor-instance/user-data.yaml'
VALIDATOR = 'kubernetes_validate'


def load(name):
    """Load a file: {kind: document}."""
    return {document['kind']: document for document in
            yaml.safe_load_all((CLUSTERS / name).read_text()) if document}


KOLLA = examples.EXAMPLES / 'kolla-ansible/clusters'


class TestKolla(unit_base.TestCase):

    def test_all_are_shown(self):
        page = (examples.TOP / 'doc/source/install/kolla-ansible.rst'
                ).read_text()
        for path in KOLLA.iterdir():
            self.assertIn(f'kolla-ansible/clusters/{path.name}', page)

    def test_options(self):
        """With them, and nothing else, clusters can be made."""
        parser = configparser.ConfigParser()
        parser.read_string((KOLLA / 'octavia.conf').read_text())
        conf = self.make_conf(
            controller_worker={'amp_boot_network_list': ['management']})
        for group in parser.sections():
            for option, value in parser[group].items():
                conf.set_override(option, value, group)
        self.assertIsNone(readiness.find_misconfiguration(conf))
        self.assertEqual('management',
                         instance_cloud.read_options(conf).network_id)
        settings = yaml.safe_load((KOLLA / 'globals.yml').read_text())
        providers = dict(one.strip().split(':') for one in settings[
            'octavia_provider_drivers'].split(','))
        self.assertEqual(['amphora', readiness.PROVIDER], list(providers))

    def test_image(self):
        def render(kind):
            return jinja2.Environment(
                autoescape=True, loader=jinja2.DictLoader({
                    'parent': '{{ octavia_base_packages_append }}'
                              '{{ octavia_base_pip_packages_append }}',
                    'child': (KOLLA / 'template-overrides.j2').read_text()})
            ).get_template('child').render(
                parent_template='parent', base_package_type=kind)

        for kind, package in (('deb', 'openvswitch-switch'),
                              ('rpm', 'openvswitch${KOLLA_RPM_OVS_VERSION}')):
            self.assertEqual(f'[&#39;{package}&#39;]'
                             '[&#39;octavia-hmsync[distributor]'
                             '&#39;]',
                             render(kind))

    def test_unit(self):
        """It starts the process with what that reads and writes."""
        text = (KOLLA / f'{distributor_conf.PROG}.service').read_text()
        command = shlex.split(re.search(
            r'^ExecStart=((?:.*\\\n)*.*)$', text, re.M)[1].replace(
                '\\\n', ''))
        self.assertEqual(
            distributor_conf.PROG, command[command.index('--entrypoint') + 1])
        self.assertEqual(['--config-file', distributor_conf.CONFIG_FILE],
                         command[-2:])
        conf = cfg.ConfigOpts()
        distributor_conf.register_opts(conf)
        conf([])
        places = {command[n + 1].split(':')[1]
                  for n, word in enumerate(command) if word == '--volume'}
        self.assertEqual({
            str(pathlib.Path(distributor_conf.CONFIG_FILE).parent),
            conf.hmsync_distributor.openvswitch_rundir,
            conf.hmsync_distributor.state_path}, places)
        image = yaml.safe_load(
            (KOLLA.parent / 'globals.yml').read_text())
        self.assertIn(f'octavia-housekeeping:{image["octavia_tag"]}',
                      command[-3])


class TestClusterExamples(base.BaseTestCase):

    def parse(self, text):
        """Return [hmsync_distributor] as the process reads a text."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                            'distributor.conf')
        path.write_text(text)
        return distributor_conf.parse(['--config-file', str(path)])[
            distributor_conf.GROUP]

    def check_known(self, text):
        """Check that each option that is written exists."""
        options = self.parse(text)
        for line in text.splitlines():
            name, equals, _value = line.partition(' = ')
            if equals and not line.startswith('#'):
                self.assertIn(name, options)
        return options

    def test_user_data(self):
        files = {one['path']: one for one in yaml.safe_load(
            USER_DATA.read_text())['write_files']}
        self.assertTrue(USER_DATA.read_text().startswith('#cloud-config\n'))
        options = self.check_known(
            files[distributor_conf.CONFIG_FILE]['content'])
        self.assertEqual('interface', options.connect_by)
        # All that it names comes along; keys are for root alone.
        for path in (options.server_cert, options.client_ca):
            self.assertIn(path, files)
        self.assertEqual('0600', files[options.server_cert]['permissions'])
        self.assertIn('KEY', files[options.server_cert]['content'])

    def test_distributor(self):
        documents = load('distributor.yaml')
        (name, text), = documents['ConfigMap']['data'].items()
        options = self.check_known(text)
        pod = documents['DaemonSet']['spec']['template']['spec']
        container, = pod['containers']
        places = {one['name']: one['mountPath']
                  for one in container['volumeMounts']}
        self.assertEqual(places.keys(),
                         {one['name'] for one in pod['volumes']})
        self.assertEqual(
            [distributor_conf.PROG, '--config-file',
             f'{places["config"]}/{name}'], container['command'])
        for path in (options.server_cert, options.server_key,
                     options.client_ca):
            self.assertEqual(places['config'], str(pathlib.Path(path).parent))
        self.assertEqual((options.openvswitch_rundir, options.state_path),
                         (places['run'], places['state']))
        self.assertEqual(options.bind_port,
                         container['ports'][0]['containerPort'])

    def test_labels(self):
        for name in ('distributor.yaml', 'cluster-manager.yaml'):
            workload, = (one for one in load(name).values()
                         if one['kind'] != 'ConfigMap')
            self.assertEqual(
                workload['spec']['selector']['matchLabels'],
                workload['spec']['template']['metadata']['labels'])

    def test_cluster_manager(self):
        """It reads what octavia-housekeeping reads."""
        def get_pod(document):
            return document['spec']['template']['spec']

        pod = get_pod(load('cluster-manager.yaml')['Deployment'])
        keeper = get_pod(next(
            one for one in yaml.safe_load_all(
                (CLUSTERS.parent / 'octavia-housekeeping.yaml').read_text())
            if one))
        self.assertEqual(keeper['volumes'], pod['volumes'])
        self.assertEqual(
            ['octavia-hmsync-cluster-manager',
             *keeper['containers'][0]['command'][1:]],
            pod['containers'][0]['command'])

    @unittest.skipUnless(importlib.util.find_spec(VALIDATOR),
                         f'{VALIDATOR} is not installed')
    def test_schema(self):
        import kubernetes_validate
        for path in CLUSTERS.glob('*.yaml'):
            for document in load(path.name).values():
                kubernetes_validate.validate(document, '1.29', strict=True)
