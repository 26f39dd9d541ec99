# SPDX-License-Identifier: Apache-2.0

import json

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync import exceptions
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.cli import base

COLUMNS = ['id', 'name', 'operating_status', 'active']
LONG_COLUMNS = ['loadbalancer_id', 'provisioning_status', 'desired_size',
                'min_size', 'members', 'standby', 'affinity',
                'active_distributor', 'version', 'behind', 'created_at']
MEMBER_COLUMNS = ['id', 'cluster_name', 'slot', 'state', 'cluster_id',
                  'amphora_id', 'health', 'connections', 'ordered', 'error']
DISTRIBUTOR_COLUMNS = ['name', 'status', 'drained', 'vips', 'behind']


class _TestCase(base.CommandTestCase):

    def make(self, number=1, name='web'):
        """Have a cluster with two members of three, on two distributors."""
        lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.change('load_balancer', lb_id, name=name)
        cluster_id = f'cluster{number}'
        cluster_repo.add(self.engine, cluster_calls.new(
            number, load_balancer_id=lb_id, desired_size=3))
        cluster_repo.set_status(self.engine, cluster_id, 'ACTIVE', 'DEGRADED')
        for n, state in enumerate(('ACTIVE', 'ACTIVE', 'FAILED')):
            member_id = f'member{number}{n}'
            member_repo.add(self.engine, cluster_id, member_id, 3)
            member_repo.assign_amphora(self.engine, member_id,
                                       f'amp{number}{n}')
            member_repo.set_state(self.engine, member_id, ('BUILDING',),
                                  state)
        member_repo.record(self.engine, member_id, error='no answer')
        one, two = distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                                         cluster_calls.DISTRIBUTORS)
        vips = [vip_repo.add(self.engine, cluster_id, each.id)
                for each in (one, two)]
        vip_repo.set_active(self.engine, cluster_id, one.id)
        version = cluster_repo.get(self.engine, cluster_id).version
        vip_repo.record_applied(self.engine, vips[0].id, version, True)
        vip_repo.record_applied(self.engine, vips[1].id, version - 1)
        vip_repo.record_error(self.engine, vips[1].id, 'timed out')
        return lb_id, version


class TestCluster(_TestCase):

    def test_name_and_enabled(self):
        """Its owner renames and disables the load balancer."""
        lb_id, _ = self.make()
        self.records.change('load_balancer', lb_id, name='other',
                            enabled=False)
        row, = self.run_json('cluster', 'list')
        self.assertEqual('other', row['name'])
        found = self.run_json('cluster', 'show', 'other')
        self.assertEqual(('other', False),
                         (found['name'], found['enabled']))
        self.assertFails('There is no cluster web, nor a load balancer',
                         'cluster', 'show', 'web')

    def test_none(self):
        for command in (('cluster', 'list'), ('cluster', 'member', 'list'),
                        ('distributor', 'list')):
            self.assertEqual([], self.run_json(*command))
        self.assertFails('There is no cluster web, nor a load balancer',
                         'cluster', 'show', 'web')
        self.assertFails('There is no distributor network1',
                         'distributor', 'show', 'network1')

    def test_list(self):
        lb_id, version = self.make()
        row, = self.run_json('cluster', 'list')
        self.assertEqual(dict(zip(COLUMNS, (
            'cluster1', 'web', 'DEGRADED', 2))), row)
        row, = self.run_json('cluster', 'list', '--long')
        self.assertEqual(COLUMNS + LONG_COLUMNS, list(row))
        self.assertEqual(
            (lb_id, 'ACTIVE', 3, 2, [
                {'state': 'ACTIVE', 'members': 2},
                {'state': 'FAILED', 'members': 1}], 0, 'FLOW', 'network1',
             version, ['network2']),
            tuple(row[name] for name in LONG_COLUMNS[:-1]))
        self.assertEqual([{'behind': ['network2']}], self.run_json(
            'cluster', 'list', '-c', 'behind'))

    def test_show(self):
        lb_id, version = self.make()
        self.make(2, 'mail')
        for name in ('cluster1', lb_id, 'web'):
            found = self.run_json('cluster', 'show', name)
            self.assertEqual('cluster1', found['id'])
        self.assertEqual({
            'id': 'member12', 'slot': 2, 'state': 'FAILED',
            'amphora_id': 'amp12', 'health': None, 'connections': None,
            'ordered': None, 'error': 'no answer'}, found['members'][2])
        two, = vip_repo.get_of_cluster(self.engine, 'cluster1')[1:]
        self.assertEqual({
            'distributor_id': two.distributor_id,
            'distributor_name': 'network2', 'active': False,
            'applied_version': version - 1, 'version': version,
            'error': 'timed out'}, found['distributors'][1])
        shown = self.run_ok('cluster', 'show', 'web', '-f', 'value')
        for line in ('0 ACTIVE amp10', '1 ACTIVE amp11',
                     '2 FAILED amp12: no answer',
                     f'network1 ACTIVE version {version}',
                     f'network2 STANDBY version {version - 1} of {version}: '
                     f'timed out'):
            self.assertIn(f'{line}\n', shown)

    def test_open_connections(self):
        self.make()
        member_repo.set_state(self.engine, 'member11', ('ACTIVE',),
                              'DRAINING', connections=12)
        self.assertIn('1 DRAINING amp11, 12 connections\n', self.run_ok(
            'cluster', 'show', 'web', '-f', 'value'))
        self.assertEqual([None, 12, None], [
            row['connections'] for row in
            self.run_json('cluster', 'member', 'list', '--long')])

    def test_traffic(self):
        """Of heartbeats for both drivers, of distributors for hmsync_ovs."""
        self.make()
        self.records.insert_all({'listener_statistics': [
            {'listener_id': f'listener{n}', 'amphora_id': 'amp10',
             'bytes_in': 10, 'bytes_out': 20, 'active_connections': n,
             'total_connections': 40, 'request_errors': 0}
            for n in (1, 2)]})
        answers = {
            cluster_calls.DISTRIBUTORS['network1']: {
                ('cluster1', 'amp10'): (5, 500),
                ('cluster1', 'amp11'): (6, 600)},
            # What it sent before another one was active.
            cluster_calls.DISTRIBUTORS['network2']: {
                ('cluster1', 'amp10'): (1, 100),
                ('cluster7', 'amp10'): (9, 900)}}

        class Client:
            def __init__(self, _conf, url):
                self._url = url

            def get_traffic(self):
                answer = answers[self._url]
                if isinstance(answer, Exception):
                    raise answer
                return answer

        self.patch(distributors, 'make_client', Client)

        def show(said=''):
            code, out, err = self.run_command(
                'cluster', 'member', 'list', '--cluster', 'web', '--traffic',
                '--long', '-f', 'json')
            self.assertEqual(0, code)
            self.assertIn(said, err)
            return [tuple(row[name] for name in (
                'slot', 'state', 'amphora_id', 'packets', 'bytes',
                'bytes_in', 'bytes_out', 'active_connections',
                'total_connections')) for row in json.loads(out)]

        told, nothing = (20, 40, 3, 80), (None,) * 4
        rest = [(1, 'ACTIVE', 'amp11', 6, 600, *nothing),
                (2, 'FAILED', 'amp12', None, None, *nothing)]
        self.assertEqual([(0, 'ACTIVE', 'amp10', 6, 600, *told), *rest],
                         show())
        for wrong, said in ((exceptions.DistributorUnreachable('gone'),
                             'What the distributor network2 sends to members '
                             'is not shown: gone'), ({}, '')):
            answers[cluster_calls.DISTRIBUTORS['network2']] = wrong
            self.assertEqual([(0, 'ACTIVE', 'amp10', 5, 500, *told), *rest],
                             show(said))
        # OVN counts nothing.
        self.patch(backends, 'is_ovn', lambda _conf: True)
        self.assertEqual([(0, 'ACTIVE', 'amp10', None, None, *told)],
                         show()[:1])

    def test_two_of_a_name(self):
        self.make()
        self.make(2)
        self.assertFails('There are 2 clusters web: give the id of one of '
                         'them, cluster', 'cluster', 'show', 'web')

    def test_load_balancer_without_a_cluster(self):
        lb_id = self.records.add_load_balancer()
        self.assertFails(f'There is no cluster {lb_id}', 'cluster', 'show',
                         lb_id)


class TestMember(_TestCase):

    def test_list(self):
        self.make()
        self.make(2, 'mail')
        rows = self.run_json('cluster', 'member', 'list')
        self.assertEqual(6, len(rows))
        self.assertEqual(MEMBER_COLUMNS[:4], list(rows[0]))
        row = self.run_json('cluster', 'member', 'list', '--long')[2]
        self.assertEqual(
            ('member12', 'web', 2, 'FAILED', 'cluster1', 'amp12', None, None,
             None, 'no answer'), tuple(row[name] for name in MEMBER_COLUMNS))
        self.assertEqual(['member20', 'member21', 'member22'], [
            row['id'] for row in self.run_json(
                'cluster', 'member', 'list', '--cluster', 'mail')])
        self.assertEqual(['member12', 'member22'], [
            row['id'] for row in self.run_json(
                'cluster', 'member', 'list', '--state', 'failed')])
        row = self.run_json('cluster', 'member', 'list', '--long')[2]
        self.assertEqual((1, None, None), (
            row['peer_group'], row['mac'], row['config_digest']))


class TestDistributor(_TestCase):

    def test_list(self):
        self.make()
        rows = self.run_json('distributor', 'list')
        self.assertEqual([
            dict(zip(DISTRIBUTOR_COLUMNS, values)) for values in (
                ('network1', 'OFFLINE', False, 1, 0),
                ('network2', 'OFFLINE', False, 1, 1))], rows)
        row = self.run_json('distributor', 'list', '--long')[0]
        self.assertEqual(
            ('https://network1:9444', True, 1, 'hmsync_ovs', None, None),
            tuple(list(row.values())[6:]))

    def test_show(self):
        _lb_id, version = self.make()
        found = self.run_json('distributor', 'show', 'network1')
        self.assertEqual([{
            'cluster_id': 'cluster1', 'cluster_name': 'web', 'active': True,
            'applied_version': version, 'version': version, 'error': None}],
            found['vips'])
        self.assertIn(f'web ACTIVE version {version}\n', self.run_ok(
            'distributor', 'show', 'network1', '-f', 'value'))
        self.assertEqual(found, self.run_json('distributor', 'show',
                                              found['id']))
        cluster_repo.delete(self.engine, 'cluster1')
        self.assertIn(
            f'cluster1 STANDBY version {version - 1}, the cluster is gone: '
            f'timed out\n', self.run_ok('distributor', 'show', 'network2',
                                        '-f', 'value'))

    def test_show_one_of_two_drivers(self):
        distributor_repo.sync(self.engine, 'one', {'network1': 'https://a'})
        distributor_repo.sync(self.engine, 'two', {'network1': 'https://a'})
        self.assertFails('There are 2 distributors network1: give the id',
                         'distributor', 'show', 'network1')
