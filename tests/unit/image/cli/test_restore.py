# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image restore."""

import json
from unittest import mock

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import cloud
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync.image.recovery import amphora_ports
from tests.cloud import records
from tests.unit.cli import base

VIP = '198.51.100.1'


class Agents:
    """The agents of amphorae; .answers is {path: (status, what it says)}."""

    def __init__(self):
        self.answers = {f'interface/{VIP}': (200, {'interface': 'eth1'}),
                        'details': (200, {'haproxy_count': 1})}

    async def ask(self, amphora_id, lb_network_ip, method, path, body='',
                  content_type='application/json', timeout=None, kept=1024,
                  silence=None):
        if method != 'GET':
            raise AssertionError(f'{method} {path} changes an amphora')
        if path not in self.answers:
            raise exceptions.AgentUnreachable(
                f'the agent at {lb_network_ip} port 9443 cannot be reached: '
                f'Connection refused', is_unanswered=True)
        status, found = self.answers[path]
        return status, found if isinstance(found, str) else json.dumps(found)


class TestRestore(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.lb = self.records.add_load_balancer()
        self.listener = self.records.add_listener(self.lb)
        self.amphora, = self.add_amphorae(1, load_balancer_id=self.lb,
                                          status='ERROR')
        self.records.set_health(self.amphora, busy=True)
        self.set_status('ERROR')
        self.agents = Agents()
        self.agents.answers['listeners'] = (200, [
            {'uuid': self.listener, 'status': 'ACTIVE', 'type': 'HTTP'}])
        self.compute = mock.Mock(spec=compute.Nova)
        self.compute.get_status.return_value = 'ACTIVE'
        for owner, name, value in (
                (agent_client, 'RestAgentClient', self.agents),
                (compute, 'connect', self.compute),
                (cloud, 'connect', mock.Mock())):
            self.patch_call(owner, name, return_value=value)
        self.exists = self.patch_call(amphora_ports.Ports, 'exists',
                                      return_value=True)

    def patch_call(self, owner, name, **kwargs):
        patch = mock.patch.object(owner, name, autospec=True, **kwargs)
        self.addCleanup(patch.stop)
        return patch.start()

    def set_status(self, status, **values):
        self.records.change('load_balancer', self.lb,
                            provisioning_status=status, **values)

    def status(self):
        return (self.records.rows('load_balancer')[0]['provisioning_status'],
                self.records.rows('amphora')[0]['status'],
                bool(self.records.rows('amphora_health')[0]['busy']))

    def restore(self, *argv):
        return self.run_json('image', 'restore', self.lb, *argv)

    def assertRefused(self, words, *argv):
        before = self.status()
        code, out, err = self.run_command('image', 'restore', self.lb, '-f',
                                          'json', *argv)
        self.assertEqual((1, 1), (code, err.count('\n')), err)
        self.assertIn('is left as it is', err)
        failures = [row['details'] for row in json.loads(out)
                    if row['result'] == 'Failure']
        self.assertIn(words, ' '.join(failures))
        self.assertEqual(before, self.status())

    def test_restored(self):
        rows = self.restore()
        self.assertEqual(['amphora_id', 'check', 'result', 'details'],
                         list(rows[0]))
        self.assertEqual({'Success'}, {row['result'] for row in rows}, rows)
        self.assertEqual(('ACTIVE', 'ALLOCATED', False), self.status())
        # To do it twice does no harm.
        row, = self.restore()
        self.assertEqual(('Success', 'It is ACTIVE: there is nothing to '
                          'restore.'), (row['result'], row['details']))

    def test_by_name_and_dry_run(self):
        before = self.status()
        self.set_status('ERROR', name='web')
        rows = self.run_json('image', 'restore', 'web', '--dry-run')
        self.assertEqual({'Success'}, {row['result'] for row in rows})
        self.assertEqual(before, self.status())

    def test_pending(self):
        self.set_status('PENDING_UPDATE')
        self.assertRefused('A worker may still work on it')
        long_ago = records.utcnow() - records.datetime.timedelta(hours=2)
        self.set_status('PENDING_UPDATE', created_at=long_ago)
        self.records.change('amphora', self.amphora, created_at=long_ago)
        self.restore()
        self.assertEqual('ACTIVE', self.status()[0])

    def test_jobboard(self):
        long_ago = records.utcnow() - records.datetime.timedelta(hours=2)
        self.set_status('PENDING_UPDATE', created_at=long_ago)
        self.records.change('amphora', self.amphora, created_at=long_ago)
        self.conf_path = self.write_conf(
            task_flow={'jobboard_enabled': True})
        row, = [row for row in self.restore() if row['result'] != 'Success']
        self.assertEqual('Lock', row['check'])
        self.assertIn('jobboard', row['details'])

    def test_agent(self):
        known = dict(self.agents.answers)
        for path, answer, words in (
                (f'interface/{VIP}', (404, {}), 'holds its VIP'),
                (f'interface/{VIP}', (500, {}), 'answered 500'),
                ('listeners', (200, []), 'does not run'),
                ('listeners', (200, 'none'), 'no JSON'),
                ('listeners', (200, [1]), 'lists no listeners'),
                ('details', (200, {'haproxy_count': 0}), 'haproxy does not'),
                ('details', (200, {}), 'no details'),
                ('details', (200, [1]), 'no details'),
                ('details', None, 'Connection refused')):
            self.agents.answers = {**known, path: answer}
            if answer is None:
                del self.agents.answers[path]
            self.assertRefused(words)

    def test_others(self):
        self.compute.get_status.return_value = None
        self.assertRefused('not in the compute service')
        self.compute.get_status.side_effect = exceptions.CloudUnavailable(
            'Nova is down')
        self.assertRefused('Nova is down')
        self.compute.get_status.side_effect = None
        self.compute.get_status.return_value = 'ACTIVE'
        self.exists.return_value = False
        self.assertRefused('VRRP port is not in Neutron')
        self.exists.side_effect = exceptions.CloudRefused('no')
        self.assertRefused('Neutron does not tell')

    def test_changed_meanwhile(self):
        def change(*_args):
            self.set_status('PENDING_UPDATE')
            return True
        self.exists.side_effect = change
        self.assertFails('has changed while it was looked at', 'image',
                         'restore', self.lb)
        self.assertEqual(('PENDING_UPDATE', 'ERROR', True), self.status())

    def test_gone_meanwhile(self):
        self.assertFails('There is no load balancer', 'image', 'restore',
                         'none')

    def test_other_driver(self):
        self.conf_path = self.write_conf(
            controller_worker={'amphora_driver': 'amphora_noop_driver'})
        self.assertFails('It is unknown what amphorae of the driver',
                         'image', 'restore', self.lb)
