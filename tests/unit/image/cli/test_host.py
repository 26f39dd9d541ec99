# SPDX-License-Identifier: Apache-2.0

"""host list, drain, hold, and what else a rollout may be for."""

import dataclasses
import datetime
import json
import types
from unittest import mock

from openstack import exceptions as sdk_exc

from octavia_hmsync import compute
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import reading
from octavia_hmsync.image import target
from tests.cloud import records
from tests.unit.image.cli import test_rollout


class HostTestCase(test_rollout.RolloutTestCase):

    def setUp(self):
        super().setUp()
        self.compute = mock.Mock(spec=compute.Nova)
        self.compute.list_hosts.return_value = [
            compute.Host('host2', 'az2'),
            compute.Host('host1', 'az1', is_enabled=False, reason='disks')]
        self.on = self.compute.get_hosts.return_value = {}
        self.compute.get_evacuated.return_value = set()
        patch = mock.patch.object(compute, 'connect', autospec=True,
                                  return_value=self.compute)
        patch.start()
        self.addCleanup(patch.stop)

    def add_on(self, *hosts, **values):
        """Add a load balancer with an amphora on each host; return its id."""
        lb_id = self.add(*['new'] * len(hosts), **values)
        for row, host in zip(self.amphorae(lb_id), hosts, strict=True):
            self.records.change('amphora', row['id'], compute_id=row['id'])
            self.on[row['id']] = host
        return lb_id

    def amphorae(self, lb_id):
        return [row for row in self.records.rows('amphora')
                if row['load_balancer_id'] == lb_id]

    def plan(self, *argv):
        """Return the ids that a rollout would deal with, sorted."""
        code, out, err = self.run_command(*argv, '--dry-run', '-f', 'json')
        self.assertEqual(0, code, err)
        return sorted(row['loadbalancer_id'] for row in json.loads(out)
                      if row['wave'])

    def run_noted(self, words, *argv):
        """Return the rows of what succeeds, and says this on stderr."""
        code, out, err = self.run_command(*argv, '-f', 'json')
        self.assertEqual(0, code, err)
        self.assertIn(words, err)
        return json.loads(out)

    def assertNothing(self, words, *argv, verb='start'):
        self.assertEqual([], self.run_noted(words, 'image', 'rollout', verb,
                                            *argv))

    def start_plan(self, *argv):
        return self.plan('image', 'rollout', 'start', *argv)

    def conf_of_command(self):
        return self.make_conf(controller_worker={
            'amp_image_tag': 'amphora',
            'compute_driver': 'compute_nova_driver'})

    def until(self, **values):
        return (records.utcnow() + datetime.timedelta(**values)).isoformat()


class TestHosts(HostTestCase):

    def test_list(self):
        self.add_on('host1')
        self.add_on('host1', 'host2')
        self.add_on('host2', 'host2')
        # Of a load balancer that is gone.
        self.on['unknown'] = 'host2'
        self.assertEqual(
            [('host1', 'DISABLED', 2, 2, 1, 0, [], 'az1', 'disks', None, []),
             ('host2', 'ENABLED', 3, 2, 1, 0, [], 'az2', None, None, [])],
            [tuple(row.values()) for row in self.run_json('host', 'list',
                                                          '--long')])

    def test_evacuated(self):
        self.add_on('host1')
        amphora, = self.amphorae(self.add_on('host2'))
        self.compute.get_evacuated.return_value = {amphora['id'], 'gone'}
        self.assertEqual(
            [[], [amphora['id']]],
            [row['evacuated'] for row in self.run_json(
                'host', 'list', '-c', 'evacuated')])
        # Nova may refuse to tell what few need to know.
        self.compute.get_evacuated.side_effect = exceptions.CloudRefused('no')
        self.assertEqual(2, len(self.run_json('host', 'list')))

    def test_list_without_an_answer(self):
        self.compute.list_hosts.side_effect = exceptions.CloudRefused(
            'Nova refuses it.')
        self.assertFails('Nova refuses it.', 'host', 'list')

    def test_drain(self):
        """Load balancers with an amphora there, whatever its image is."""
        there = sorted((self.add_on('host1'), self.add_on('host2', 'host1')))
        self.add_on('host2')
        self.assertEqual(there, self.plan('host', 'drain', 'host1'))
        code, out, err = self.run_command('host', 'drain', 'host1', '-f',
                                          'json')
        self.assertEqual(0, code, err)
        self.assertEqual(2, json.loads(out)[0]['loadbalancers'])
        active = rollout_repo.get_active(self.engine)
        self.assertEqual(('HOST', 'host1', ''), (
            active.settings.cause, active.settings.cause_value,
            active.settings.only))
        shown = self.show()
        self.assertEqual(('HOST', 'host1', 2), (
            shown['cause'], shown['cause_value'], shown['left']))
        # The keeper goes by the same; a new one is elsewhere.
        for row in self.amphorae(there[0]):
            self.on[row['id']] = 'host2'
        found = reading.read_situation(
            self.conf_of_command(), self.engine,
            target.Targets(self.conf_of_command()), active)
        self.assertEqual([there[1]], [each.load_balancer_id
                                      for each in found.candidates])

    def test_only_some(self):
        web = self.add_on('host1', name='web', project_id='shop')
        other = self.add_on('host1', project_id='bank')
        self.records.insert_all({'tags': [
            {'resource_id': other, 'tag': 'fragile'}]})
        for argv, expected in (
                (('--loadbalancer', 'web'), [web]),
                (('--loadbalancer', 'web', '--loadbalancer', other),
                 sorted([web, other])),
                (('--tag', 'fragile'), [other]),
                (('--project', 'shop'), [web])):
            self.assertEqual(expected, self.plan('host', 'drain', 'host1',
                                                 *argv))

    def test_refused(self):
        self.add_on('host1')
        for words, host in (
                ('There is no compute host host3', 'host3'),
                ('openstack compute service set --disable host2 nova-compute',
                 'host2')):
            self.assertFails(words, 'host', 'drain', host)
        self.compute.list_hosts.return_value.pop(0)
        self.assertFails('have no place to go to', 'host', 'drain', 'host1')
        self.compute.list_hosts.side_effect = exceptions.CloudUnavailable(
            'Nova does not answer.')
        self.assertFails('Nova does not answer.', 'host', 'drain', 'host1')
        self.assertIsNone(rollout_repo.get_active(self.engine))

    def test_what_cannot_be_moved(self):
        """It is told before the host is disabled, and left out of a drain."""
        free = self.add_on('host1')
        pinned = self.add_on('host1', availability_zone='here')
        self.add_zone('here', '{"compute_zone": "az1"}')
        last, _other = self.compute.list_hosts.return_value[::-1]
        for is_enabled in (True, False):
            self.compute.list_hosts.return_value[1] = dataclasses.replace(
                last, is_enabled=is_enabled)
            code, out, err = self.run_command('host', 'drain', 'host1',
                                              '--dry-run', '-f', 'json')
            self.assertEqual(0, code, err)
            self.assertEqual(is_enabled, 'takes new instances' in err)
            self.assertEqual(
                {free: None, pinned: 'NO_HOST'},
                {row['loadbalancer_id']: row['left_out_by']
                 for row in json.loads(out)})
        self.run_command('host', 'drain', 'host1')
        self.assertEqual(
            {free: (), pinned: ('NO_HOST',)},
            {each.load_balancer_id: each.blocked_by
             for each in reading.read_situation(
                 self.conf_of_command(), self.engine,
                 target.Targets(self.conf_of_command()),
                 rollout_repo.get_active(self.engine)).candidates})
        self.run_ok('image', 'rollout', 'cancel')
        # With another one in the zone it leaves.
        self.compute.list_hosts.return_value.append(
            compute.Host('host3', 'az1'))
        self.assertEqual(sorted((free, pinned)),
                         self.plan('host', 'drain', 'host1'))

    def test_list_what_cannot_be_moved(self):
        """For each host by itself, as a drain of it would say."""
        self.add_on('host1')
        pinned = self.add_on('host1', name='web', availability_zone='here')
        self.add_zone('here', '{"compute_zone": "az1"}')
        broken = self.add_on('host2', name='mail',
                             provisioning_status='ERROR')
        kept = self.add_on('host1', 'host2', name='shop', project_id='shop')
        self.run_ok('image', 'exclusion', 'add', 'project', 'shop',
                    '--reason', 'sale')
        names = {pinned: 'web', broken: 'mail', kept: 'shop'}
        whys = {pinned: 'NO_HOST', broken: 'ERROR',
                kept: 'excluded by project shop: sale'}
        self.assertEqual({
            host: [{'loadbalancer_id': each, 'name': names[each],
                    'left_out_by': whys[each]} for each in sorted(ids)]
            for host, ids in (('host1', (pinned, kept)),
                              ('host2', (broken, kept)))},
            {row['name']: row['left_out_by'] for row in self.run_json(
                'host', 'list', '--long')})
        self.assertEqual([2, 2], [row['left_out'] for row in
                                  self.run_json('host', 'list')])
        self.assertIn('web: NO_HOST', self.run_ok('host', 'list', '--long',
                                                  '-f', 'value'))

    def test_list_without_the_image_service(self):
        self.add_on('host1')
        with mock.patch.object(
                target.Targets, 'get', autospec=True,
                side_effect=exceptions.CloudUnavailable('Glance is away.')):
            rows = self.run_noted(
                'It is not known what a drain would leave out: Glance is '
                'away.', 'host', 'list')
        self.assertEqual([(1, None), (0, None)], [
            (row['amphorae'], row['left_out']) for row in rows])

    def test_one_rollout_at_a_time(self):
        self.add_on('host1')
        self.assertEqual(0, self.run_command('host', 'drain', 'host1')[0])
        self.assertFails('There is a rollout that has not ended', 'host',
                         'drain', 'host1', '--parallel', '7')

    def test_again(self):
        """While the first one runs, and when the host is empty."""
        self.add_on('host1')
        more = '--project', 'demo'
        started, = self.run_rows('', *more)
        again, = self.run_rows('RUNNING already', *more)
        self.assertEqual((started['id'], 'RUNNING'),
                         (again['id'], again['state']))
        self.run_ok('image', 'rollout', 'cancel')
        self.on.clear()
        for more in ((), ('--dry-run',), ('--wait',)):
            self.assertEqual([], self.run_rows(
                'No load balancer that a rollout could help has an amphora '
                'with host host1: see "octavia-hmsync host list"', *more))
        self.assertIsNone(rollout_repo.get_active(self.engine))

    def run_rows(self, words='', *argv):
        return self.run_noted(words, 'host', 'drain', 'host1', *argv)


class TestHold(HostTestCase):

    def hold(self, *argv, host='host1', **values):
        return self.run_ok('host', 'hold', host, '--until',
                           self.until(**values or {'hours': 1}), *argv)

    def held(self):
        return {row.amphora_id: row.held_host
                for row in self.rows(models.Amphora) if row.held_host}

    def test_hold(self):
        pair = self.add_on('host1', 'host2')
        single = self.add_on('host1')
        self.add_on('host2')
        there = [row['id'] for lb_id in (pair, single)
                 for row in self.amphorae(lb_id)
                 if self.on[row['id']] == 'host1']
        self.assertIn('would be held', self.hold('--dry-run'))
        self.assertEqual({}, self.held())
        out = self.hold('--reason', 'kernel')
        self.assertIn('failovers of 2 amphorae wait', out)
        self.assertIn('1 load balancer has no amphora elsewhere, and will be '
                      'failed over as ever: run "octavia-hmsync host drain '
                      'host1" before.', out)
        self.assertEqual(dict.fromkeys(there, 'host1'), self.held())
        self.assertEqual(
            [True, False], [bool(row['held_until']) for row in
                            self.run_json('host', 'list', '--long')])
        order, = self.run_json('order', 'list', '--long')
        self.assertEqual(('host hold', 'kernel', 'DONE'), (
            order['command'], order['reason'], order['state']))

    def test_release(self):
        self.add_on('host1')
        self.hold()
        self.assertIn('is held', self.run_ok('host', 'release', 'host1',
                                             '--dry-run'))
        self.assertIn('no longer held', self.run_ok('host', 'release',
                                                    'host1'))
        self.assertIn('is not held', self.run_ok('host', 'release', 'host1'))
        self.assertEqual({}, self.held())

    def test_refused(self):
        for words, argv in (
                ('There is no compute host host3',
                 ('host3', '--until', self.until(hours=1))),
                ('is over: give another --until',
                 ('host1', '--until', self.until(hours=-1))),
                ('is later: give another --until',
                 ('host1', '--until', self.until(hours=25)))):
            self.assertFails(words, 'host', 'hold', *argv)
        self.compute.list_hosts.side_effect = exceptions.CloudUnavailable(
            'Nova does not answer.')
        self.assertFails('Nova does not answer.', 'host', 'hold', 'host1',
                         '--until', self.until(hours=1))
        self.assertEqual([], self.rows(models.HostHold))
        for until in ('tomorrow', ''):
            code, _out, err = self.run_command('host', 'hold', 'host1',
                                               '--until', until)
            self.assertEqual(2, code)
            self.assertIn('is not a time such as', err)

    def test_other_time_zone(self):
        there = datetime.timezone(datetime.timedelta(hours=5))
        until = (datetime.datetime.now(there) + datetime.timedelta(
            minutes=30)).replace(microsecond=0)
        out = self.run_ok('host', 'hold', 'host1', '--until',
                          until.isoformat())
        self.assertIn(until.astimezone(datetime.timezone.utc).strftime(
            '%Y-%m-%dT%H:%M:%S UTC'), out)

    def test_without_a_guard(self):
        self.conf_path = self.write_conf(
            hmsync={'failover_hold_max': 0}, controller_worker={
                'compute_driver': 'compute_nova_driver'})
        self.assertFails('no failover guard runs', 'host', 'hold', 'host1',
                         '--until', self.until(hours=1))


class TestCauses(HostTestCase):

    def setUp(self):
        super().setUp()
        self.there = self.add_on('host1')
        self.add_on('host1')
        self.amphora_id = self.amphorae(self.there)[0]['id']

    def change(self, **values):
        self.records.change('amphora', self.amphora_id, **values)

    def test_reasons(self):
        """One command for all; the image has a short form."""
        self.records.change('amphora', self.amphora_id, image_id='old')
        expected = self.start_plan()
        self.assertEqual([self.there], expected)
        self.assertEqual(expected, self.plan('rollout', 'start', '--image'))
        self.change(cached_zone='az1')
        self.assertEqual(expected, self.plan('rollout', 'start',
                                             '--from-zone', 'az1'))
        for argv in ((), ('--image', '--from-zone', 'az1')):
            code, _out, err = self.run_command('rollout', 'start', *argv)
            self.assertEqual(2, code)
            self.assertIn('--image', err)
        self.assertEqual(0, self.run_command('rollout', 'start', '--image')[0])
        for name in ('list', 'show'):
            self.assertEqual(*(self.run_json(*words, name) for words in (
                ('rollout',), ('image', 'rollout'))))
        self.run_ok('rollout', 'pause')
        self.run_ok('rollout', 'resume')
        self.run_ok('rollout', 'cancel')
        self.assertEqual(
            {'rollout start', 'rollout pause', 'rollout resume',
             'rollout cancel'},
            {row['command'] for row in self.run_json('order', 'list')})

    def test_zone(self):
        self.assertFails('has an amphora with zone az1', 'image', 'rollout',
                         'start', '--from-zone', 'az1')
        self.change(cached_zone='az1')
        self.assertEqual([self.there], self.start_plan('--from-zone', 'az1'))

    def test_certificate(self):
        self.change(cert_expiration=records.utcnow() +
                    datetime.timedelta(days=20))
        self.assertEqual([self.there], self.start_plan(
            '--certificate-ends-within', '21'))
        self.assertNothing('certificate that ends before',
                           '--certificate-ends-within', '19')
        # Octavia's default.
        self.assertFails('have certificates for 30 days', 'image', 'rollout',
                         'start', '--certificate-ends-within', '30')

    def test_age(self):
        now = records.utcnow().replace(microsecond=0)
        hour = datetime.timedelta(hours=1)
        self.change(created_at=now - hour)
        self.assertEqual([self.there], self.start_plan(
            '--built-before', (now - hour / 2).isoformat()))
        self.assertNothing('what it was given before', '--built-before',
                           (now - 2 * hour).isoformat())
        self.assertFails('is not over', 'image', 'rollout', 'start',
                         '--built-before', (now + hour).isoformat())

    def test_flavor(self):
        flavor = self.records.add_flavor('{"compute_flavor": "large"}')
        self.records.change('flavor', flavor, name='gold')
        self.records.change('load_balancer', self.there, flavor_id=flavor)
        self.change(compute_flavor='small')
        self.assertEqual([self.there], self.start_plan('--flavor', 'gold'))
        self.change(compute_flavor='large')
        self.assertNothing('No load balancer', '--flavor', 'gold')
        self.assertFails('There is no flavor silver', 'image', 'rollout',
                         'start', '--flavor', 'silver')

    def test_network(self):
        """By its name; Neutron tells whose ports are in it."""
        networks = {'old': types.SimpleNamespace(id='net1')}
        port = types.SimpleNamespace(device_id=self.amphora_id)
        self.connect.return_value = types.SimpleNamespace(
            network=types.SimpleNamespace(
                find_network=networks.get, ports=lambda network_id: [
                    port] if network_id == 'net1' else []))
        self.assertEqual([self.there],
                         self.start_plan('--from-network', 'old'))
        self.assertFails('There is no network other', 'image', 'rollout',
                         'start', '--from-network', 'other')

    def test_network_that_cannot_be_told(self):
        self.connect.side_effect = exceptions.CloudUnavailable(
            'Neutron does not answer.')
        self.assertFails('Neutron does not answer.', 'image', 'rollout',
                         'start', '--from-network', 'old')

    def test_down_at_each_request(self):
        """One line that names the service, and nothing half done."""
        network = types.SimpleNamespace(
            find_network=mock.Mock(return_value=types.SimpleNamespace(id='n')),
            ports=mock.Mock(return_value=[]))
        self.connect.return_value = types.SimpleNamespace(network=network)
        self.change(cached_zone='az1')
        until = ('--until', self.until(hours=1))
        start = ('image', 'rollout', 'start')
        nova = self.compute.list_hosts, self.compute.get_hosts
        for requests, argv in (
                (nova, ('host', 'drain', 'host1')),
                (nova, (*start, '--from-host', 'host1')),
                (nova, ('host', 'hold', 'host1', *until)),
                (nova, ('host', 'list')),
                (nova[:1], ('zone', 'drain', 'az1', *until)),
                (nova[:1], (*start, '--from-zone', 'az1')),
                (nova[:1], ('zone', 'list')),
                ((network.find_network, network.ports),
                 (*start, '--from-network', 'old'))):
            for request in requests:
                request.side_effect = (
                    exceptions.CloudUnavailable('It is down.')
                    if request in nova else sdk_exc.SDKException('down'))
                self.assertFails('down', *argv)
                request.side_effect = None
        for table in (models.ImageRollout, models.HostHold, models.ZoneDrain):
            self.assertEqual([], self.rows(table))

    def test_two_at_once(self):
        code, _out, err = self.run_command(
            'image', 'rollout', 'start', '--from-zone', 'a', '--from-host',
            'b')
        self.assertEqual(2, code)
        self.assertIn('not allowed with', err)

    def test_undo_is_for_images(self):
        """What it brings back is an image, wherever amphorae were."""
        self.change(cached_zone='az1')
        self.assertEqual(0, self.run_command(
            'image', 'rollout', 'start', '--from-zone', 'az1')[0])
        first = rollout_repo.get_active(self.engine)
        self.run_ok('image', 'rollout', 'cancel')
        self.assertNothing(
            'No load balancer has an amphora of an image that rollout',
            first.id, verb='undo')
        self.assertEqual(1, len(self.rows(models.ImageRollout)))
