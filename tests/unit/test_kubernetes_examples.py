# SPDX-License-Identifier: Apache-2.0

"""The manifests of etc/examples/kubernetes are valid, and fit together."""

import contextlib
import copy
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shlex
import signal
import subprocess
import unittest

import fixtures
from oslo_config import cfg
import psutil
import yaml

from octavia_hmsync.metrics import export
from tests.cloud import waiting
from tests.unit import examples

DIRECTORY = examples.EXAMPLES / 'kubernetes'
WORKLOADS = ('DaemonSet', 'Deployment', 'Job', 'StatefulSet')
VALIDATOR = 'kubernetes_validate'
# Of Kubernetes; one that clouds still have, and a newer one.
VERSIONS = ('1.29', '1.34')
# What Kubernetes tells a pod of itself.
FIELDS = {'spec.nodeName': 'node-1', 'status.podIP': '192.0.2.7'}
SHELL = ('/bin/sh', '-c')
NODE_PORT = 'octavia-health-manager-node-port.yaml'


def load(name):
    """Load a file of the examples: {kind: document}."""
    return {document['kind']: document for document in
            yaml.safe_load_all((DIRECTORY / name).read_text()) if document}


def manifests(directory=DIRECTORY):
    """Yield (file name, document) of all."""
    for path in sorted(directory.glob('*.yaml')):
        for document in yaml.safe_load_all(path.read_text()):
            if document:
                yield path.name, document


def pods():
    """Yield (file name, workload, specification of its pod)."""
    for name, document in manifests():
        if document['kind'] in WORKLOADS:
            yield name, document, document['spec']['template']['spec']


def containers(pod):
    return pod.get('initContainers', []) + pod['containers']


def commands(node):
    """Yield each list at a key "command", at any depth."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == 'command':
                yield value
            else:
                yield from commands(value)
    elif isinstance(node, list):
        for value in node:
            yield from commands(value)


class TestManifests(examples.ExamplesTestCase):

    def problem(self, document, version):
        import kubernetes_validate
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            return e.message
        return None

    @unittest.skipUnless(importlib.util.find_spec(VALIDATOR),
                         f'{VALIDATOR} is not installed')
    def test_schema(self):
        """Kubernetes would take them, and ignore nothing."""
        documents = list(manifests())
        helm = yaml.safe_load((examples.EXAMPLES /
                               'openstack-helm/values.yaml').read_text())
        documents += [('openstack-helm', extra)
                      for extra in helm['extraObjects'].values()]
        self.assertGreater(len(documents), 9)
        for version in VERSIONS:
            self.assertEqual([], [
                (name, document['kind'], problem)
                for name, document in documents
                if (problem := self.problem(document, version))])
            # What is misspelt would be found.
            pod = copy.deepcopy(load(NODE_PORT)['DaemonSet'])
            pod['spec']['template']['spec']['initContainers'][0]['evn'] = []
            self.assertIn('evn', self.problem(pod, version))

    def test_there_is_one_for_each_service(self):
        programs = {container['command'][0] for _name, _document, pod in pods()
                    for container in containers(pod)}
        self.assertLessEqual(
            {'octavia-health-manager', 'octavia-housekeeping',
             'octavia-worker', 'octavia-hmsync'}, programs)

    def test_commands(self):
        """The real parsers take them."""
        scripts = {e.name for e in importlib.metadata.entry_points(
            group='console_scripts')}
        found = 0
        for name, document in manifests():
            for command in commands(document):
                words = list(command)
                if tuple(words[:2]) == SHELL:
                    part, = re.findall(r'octavia-hmsync [^;|]*', words[2])
                    words = shlex.split(part)
                self.assertIn(words[0], scripts, name)
                if words[0] == 'octavia-hmsync':
                    self.check_command(words)
                    found += 1
                else:
                    # As oslo.config reads it.
                    conf = cfg.ConfigOpts()
                    conf([w.replace('/etc/octavia', '/') for w in words[1:]],
                         default_config_files=[], default_config_dirs=[])
        self.assertGreater(found, 4)

    def test_each_volume_is_there(self):
        for name, _document, pod in pods():
            volumes = {volume['name'] for volume in pod['volumes']}
            mounted = {mount['name'] for container in containers(pod)
                       for mount in container['volumeMounts']}
            self.assertEqual(volumes, mounted, name)

    def test_labels(self):
        for name, document, _pod in pods():
            if document['kind'] != 'Job':
                self.assertEqual(
                    document['spec']['selector']['matchLabels'],
                    document['spec']['template']['metadata']['labels'], name)

    def test_who_reads_the_lines(self):
        """The services with the package, and no other program."""
        for name, document, pod in pods():
            sources = [source['configMap']['name'] for volume in pod['volumes']
                       for source in volume.get('projected', {}).get(
                           'sources', []) if 'configMap' in source]
            if document['kind'] != 'Job':
                self.assertEqual(['octavia-hmsync'], sources, name)

    def config_maps(self):
        """Yield (file name, ConfigMap), two of them."""
        found = [(name, document) for name, document in manifests()
                 if document['kind'] == 'ConfigMap']
        self.assertEqual(2, len(found))
        return found

    def test_lines(self):
        for name, config_map in self.config_maps():
            (_file, text), = config_map['data'].items()
            driver = self.check(text)['hmsync']['address_driver']
            self.assertEqual(
                'neutron_port' if name == NODE_PORT else 'interface', driver)

    def test_lines_count_beside_octavia_conf(self):
        """What is advertised is the address of an interface.

        A health manager that is left with Octavia's default does not listen
        there.
        """
        for name, config_map in self.config_maps():
            directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
            (file, text), = config_map['data'].items()
            (directory / 'octavia.conf').write_text(
                '[health_manager]\nbind_ip = 127.0.0.1\n'
                'controller_ip_port_list = 192.0.2.1:5555\n')
            (directory / file).write_text(text)
            read = self.read_conf(directory, '--config-dir', '.')
            self.assertEqual('0.0.0.0', read.bind_ip)
            self.assertEqual(['192.0.2.1:5555'], read.controller_ip_port_list)
            if name != NODE_PORT:
                (directory / file).write_text(self.let_go(text))
                self.assertEqual([], self.read_conf(
                    directory, '--config-dir', '.').controller_ip_port_list)

    def environment(self, container):
        """Set the variables of a container, as Kubernetes does.

        :returns: a configuration that has read them.
        """
        known = {}
        for variable in container.get('env', []):
            value = variable.get('value') or FIELDS[
                variable['valueFrom']['fieldRef']['fieldPath']]
            for name in re.findall(r'\$\((\w+)\)', value):
                # Only what stands before it is replaced.
                value = value.replace(f'$({name})', known[name])
            known[variable['name']] = value
            self.useFixture(fixtures.EnvironmentVariable(variable['name'],
                                                         value))
        return known, self.make_conf()

    def test_environment(self):
        """Each variable is that of an option, and its value is right."""
        found = set()
        for _name, _document, pod in pods():
            for container in containers(pod):
                known, conf = self.environment(container)
                for name in known:
                    if name.startswith('OS_'):
                        group, option = name[3:].lower().split('__')
                        found.add(option)
                        values = conf if group == 'default' else conf[group]
                        self.assertEqual(known[name], values[option])
        self.assertEqual({'host', 'health_manager_metrics_address',
                          'house_keeping_metrics_address'}, found)

    def test_probes(self):
        """kubelet asks where the service answers, and for what."""
        options = {
            'octavia-health-manager': 'health_manager_metrics_address',
            'octavia-housekeeping': 'house_keeping_metrics_address'}
        found = 0
        for name, _document, pod in pods():
            for container in containers(pod):
                option = options.get(container['command'][0])
                if option is None:
                    self.assertNotIn('readinessProbe', container)
                    continue
                found += 1
                port, = container['ports']
                _known, conf = self.environment(container)
                self.assertEqual(f'192.0.2.7:{port["containerPort"]}',
                                 conf.hmsync[option], name)
                for kind, path in (('startupProbe', export.ALIVE),
                                   ('livenessProbe', export.ALIVE),
                                   ('readinessProbe', export.READY)):
                    self.assertEqual({'path': path, 'port': port['name']},
                                     container[kind]['httpGet'], name)
        self.assertEqual(3, found)

    def test_hooks(self):
        """A health manager has the time that its hook may take."""
        found = 0
        for name, _document, pod in pods():
            for container in containers(pod):
                if container['command'][0] != 'octavia-health-manager':
                    continue
                found += 1
                hook = container['lifecycle']['preStop']['exec']['command']
                self.assertEqual(SHELL, tuple(hook[:2]))
                arguments = self.check_command(
                    hook[2].removesuffix(' || true').split())
                # The last one of all is refused, and need not wait.
                self.assertTrue(hook[2].endswith(' || true'), name)
                self.assertTrue(arguments.wait)
                self.assertGreater(pod['terminationGracePeriodSeconds'],
                                   arguments.timeout)
        self.assertEqual(2, found)

    def test_disruptions(self):
        documents = load('octavia-health-manager.yaml')
        # One that is not ready keeps no other from starting.
        spec = documents['StatefulSet']['spec']
        self.assertEqual('Parallel', spec['podManagementPolicy'])
        self.assertEqual(spec['selector'],
                         documents['PodDisruptionBudget']['spec']['selector'])

    def test_housekeepers_have_hosts_of_their_own(self):
        """Named as their nodes: so there is one on each node, at most."""
        spec = load('octavia-housekeeping.yaml')['Deployment']['spec']
        self.assertEqual(0, spec['strategy']['rollingUpdate']['maxSurge'])
        rule, = spec['template']['spec']['affinity']['podAntiAffinity'][
            'requiredDuringSchedulingIgnoredDuringExecution']
        self.assertEqual(spec['selector'], rule['labelSelector'])
        self.assertEqual('kubernetes.io/hostname', rule['topologyKey'])


class TestNodePort(examples.ExamplesTestCase):

    def setUp(self):
        super().setUp()
        self.pod = load(NODE_PORT)['DaemonSet']['spec']['template']['spec']

    def test_privileges(self):
        self.assertTrue(self.pod['hostNetwork'])
        plug, = self.pod['initContainers']
        keep, health_manager = self.pod['containers']
        for container in (plug, keep):
            self.assertEqual(
                (0, ['NET_ADMIN']),
                (container['securityContext']['runAsUser'],
                 container['securityContext']['capabilities']['add']))
            # Where ovs-vsctl looks.
            self.assertIn('/run/openvswitch', [
                m['mountPath'] for m in container['volumeMounts']])
            # An image of Octavia alone cannot plug.
            self.assertNotEqual(health_manager['image'], container['image'])

    def test_one_name(self):
        """What plugs, what listens and what drains is the same host."""
        self.assertEqual(
            [{'name': 'OS_DEFAULT__HOST',
              'valueFrom': {'fieldRef': {'fieldPath': 'spec.nodeName'}}}] * 3,
            [container['env'][0] for container in containers(self.pod)])

    def test_neutron_is_down(self):
        """The health manager is needed all the same."""
        plug, = self.pod['initContainers']
        self.assertEqual(0, self.start_shell(plug['command']).wait(30))

    def test_keep_port(self):
        keep = self.pod['containers'][0]
        _trap, loop, _command, _done = keep['command'][-1].split('; ')
        self.assertEqual('while sleep 60 & wait $!', loop)
        # As the first process of a container it gets no SIGTERM otherwise.
        shell = self.start_shell(keep['command'])
        waiting.wait_for(psutil.Process(shell.pid).children, 'its sleep')
        shell.terminate()
        self.assertEqual(0, shell.wait(30))

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
