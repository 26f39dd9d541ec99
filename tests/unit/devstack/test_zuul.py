# SPDX-License-Identifier: Apache-2.0

"""zuul.d and the playbooks name jobs, files and options that exist."""

import configparser
import os
import pathlib
import re

from oslotest import base
import yaml

from octavia_hmsync.cluster.api import readiness
from tests.tempest import results
from tests.unit.devstack import node

TOP = pathlib.Path(__file__).resolve().parents[3]
PLUGIN = 'octavia-hmsync'

# What other repositories define, by repository.
UPSTREAM_JOBS = {
    'openstack-tox': 'openstack/openstack-zuul-jobs',
    'openstack-tox-functional': 'openstack/openstack-zuul-jobs',
    'octavia-dsvm-live-base': 'openstack/octavia-tempest-plugin',
    'octavia-dsvm-live-two-node-base': 'openstack/octavia-tempest-plugin',
    'requirements-check': 'openstack/requirements',
}
UPSTREAM_TEMPLATES = {
    'openstack-cover-jobs': 'openstack/openstack-zuul-jobs',
    'openstack-python3-jobs': 'openstack/openstack-zuul-jobs',
    'publish-openstack-docs-pti': 'openstack/openstack-zuul-jobs',
    'release-notes-jobs-python3': 'openstack/openstack-zuul-jobs',
}
# Roles of the playbooks, and who has them.
UPSTREAM_ROLES = {
    'orchestrate-devstack': 'openstack/devstack',
    'tox': 'zuul/zuul-jobs',
}
# tox environments that the templates and jobs run.
TOX_ENVIRONMENTS = ('cover', 'docs', 'functional', 'pep8', 'releasenotes')
# Hosts and groups of the node set of the two-node job.
HOSTS = ('all', 'controller', 'subnode')
PHASES = ('pre-run', 'run', 'post-run')


def load(path):
    return yaml.safe_load((TOP / path).read_text())


def expand(section):
    """Yield the names that tox makes of one with {a,b} in it."""
    head, brace, rest = section.partition('{')
    if not brace:
        yield section
        return
    choices, _, tail = rest.partition('}')
    for choice in choices.split(','):
        yield f'{head}{choice}{tail}'


def has_devstack(job):
    return job['parent'].startswith('octavia-dsvm-')


class TestZuul(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.jobs, self.projects = {}, []
        for path in sorted((TOP / 'zuul.d').iterdir()):
            for item in load(path):
                (kind, value), = item.items()
                if kind == 'job':
                    self.assertNotIn(value['name'], self.jobs)
                    self.jobs[value['name']] = value
                else:
                    self.assertEqual('project', kind, path)
                    self.projects.append(value)
        self.project, = self.projects

    def pipelines(self):
        return set(self.project) - {'templates'}

    def devstack_variables(self):
        """Yield the jobs with a devstack, and the variables of each node."""
        for job in filter(has_devstack, self.jobs.values()):
            nodes = job.get('host-vars', {'all': job.get('vars')})
            for variables in nodes.values():
                yield job, variables

    def test_settings_are_known(self):
        settings = node.SETTINGS.read_text()
        found = [name for _job, variables in self.devstack_variables()
                 for name in variables.get('devstack_localrc', ())]
        self.assertEqual(3, len(found))
        for name in found:
            self.assertIn(f'\n{name}=', settings)

    def test_clusters(self):
        """Its load balancers are on clusters, and its tests can pass."""
        variables = self.jobs['octavia-hmsync-clusters']['vars']
        options = variables['devstack_local_conf']['test-config'][
            '$TEMPEST_CONFIG']['load_balancer']
        self.assertEqual(readiness.PROVIDER, options['provider'])
        self.assertIn(f'{readiness.PROVIDER}:',
                      options['enabled_provider_drivers'])
        test = ('octavia_tempest_plugin.tests.scenario.v2.test_traffic_ops.'
                'TrafficOperationsScenarioTest.{}[id]').format
        wanted = re.compile(variables['tempest_test_regex'])
        self.assertRegex(test('test_source_ip_http_traffic'), wanted)
        for name in results.EXPECTED[readiness.PROVIDER]:
            self.assertNotRegex(test(name), wanted)

    def test_each_job_is_defined(self):
        known = {*self.jobs, *UPSTREAM_JOBS}
        used = {job['parent'] for job in self.jobs.values()}
        for pipeline in self.pipelines():
            used |= {entry if isinstance(entry, str) else next(iter(entry))
                     for entry in self.project[pipeline]['jobs']}
        self.assertEqual(set(), used - known)
        self.assertEqual(set(), known - used)

    def test_gate_has_only_what_votes(self):
        """Virtual machines in virtual machines fail for anything."""
        silent = {name for name, job in self.jobs.items()
                  if not job.get('voting', True)}
        for entry in self.project['check']['jobs']:
            if isinstance(entry, dict):
                silent |= {name for name, values in entry.items()
                           if not values.get('voting', True)}
        self.assertEqual(
            {'octavia-hmsync-move-health-managers',
             'octavia-hmsync-replace-image', 'requirements-check'},
            silent)
        self.assertEqual(set(), silent & set(map(
            str, self.project['gate']['jobs'])))

    def test_each_template_is_known(self):
        self.assertEqual(sorted(UPSTREAM_TEMPLATES),
                         self.project['templates'])

    def test_tox_environments(self):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(TOP / 'tox.ini')
        run = {job['vars']['tox_envlist'] for job in self.jobs.values()
               if 'tox_envlist' in job.get('vars', {}) and
               # There it is one of tempest's.
               not has_devstack(job)}
        self.assertNotEqual(set(), run)
        sections = {name for section in parser.sections()
                    for name in expand(section)}
        for name in {*TOX_ENVIRONMENTS, *run}:
            self.assertIn(f'testenv:{name}', sections)

    def test_functional_job_may_read_the_clone(self):
        """It is root, by sudo, in a clone that Zuul's own user has made."""
        play, = load(self.jobs['octavia-hmsync-functional']['run'])
        self.assertTrue(play['become'])
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(TOP / 'tox.ini')
        for section in ('testenv', 'testenv:.pkg'):
            self.assertIn('SUDO_UID', parser[section]['passenv'].split())

    def test_each_playbook_is_there(self):
        used = {TOP / job[phase] for job in self.jobs.values()
                for phase in PHASES if phase in job}
        self.assertEqual(set((TOP / 'playbooks').rglob('*.yaml')), used)

    def test_each_script_is_there(self):
        found = [play['vars']['script']
                 for path in (TOP / 'playbooks').rglob('*.yaml')
                 for play in load(path) if 'vars' in play]
        self.assertEqual(5, len(found))
        for script in found:
            _base, path = script.split(f'/{PLUGIN}/')
            self.assertTrue(os.access(TOP / path, os.X_OK), path)

    def test_each_role_can_be_had(self):
        """Zuul gives a job the roles of the repositories that it names."""
        for job in self.jobs.values():
            # One without is its parent's with other variables.
            repositories = {role['zuul'] for role in job.get('roles', ())}
            for play in load(job['run']) if 'run' in job else ():
                for role in play.get('roles', ()):
                    self.assertIn(UPSTREAM_ROLES[role], repositories)

    def test_plugin_is_enabled_on_each_node(self):
        job = self.jobs['octavia-hmsync-move-health-managers']
        self.assertEqual({'controller', 'controller2'},
                         set(job['host-vars']))
        for job, variables in self.devstack_variables():
            url = variables['devstack_plugins'][PLUGIN]
            self.assertIn(url.removeprefix('https://opendev.org/'),
                          job['required-projects'])
        # devstack makes local.conf with the plugins in the right order.
        self.assertIn(f'plugin_requires {PLUGIN} octavia',
                      node.SETTINGS.read_text().splitlines())


class TestMoveHealthManagers(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.plays = load('playbooks/move-health-managers/run.yaml')

    def test_order(self):
        """Each health manager that the amphorae begin with goes in turn."""
        commands = [(play['hosts'], task['command'].split(maxsplit=3)[-1]
                     if 'script' in task['command'] else task['command'])
                    for play in self.plays for task in play.get('tasks', ())]
        for host, _command in commands:
            self.assertIn(host, HOSTS)
        first, second = '192.168.0.3:5555', '192.168.0.4:5555'
        stop = 'systemctl stop devstack@o-hm.service'
        start = 'systemctl start devstack@o-hm.service'
        self.assertEqual(
            [('controller', 'begin'),
             ('controller', f'expect {first} {second}'),
             ('subnode', stop), ('controller', f'expect {first}'),
             ('subnode', start),
             ('controller', f'expect {first} {second}'),
             ('controller', stop), ('controller', f'expect {second}'),
             ('controller', 'end')], commands)
