# SPDX-License-Identifier: Apache-2.0

import json

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution import traffic
from octavia_hmsync import exceptions
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.cli import base

COLUMNS = ['id', 'name', 'loadbalancer_id', 'provisioning_status',
           'operating_status', 'desired_size', 'min_size', 'active']
LONG_COLUMNS = ['members', 'standby', 'affinity', 'active_distributor',
                'version', 'behind', 'created_at']
MEMBER_COLUMNS = ['id', 'cluster_id', 'slot', 'state', 'amphora_id',
                  'health', 'connections', 'ordered', 'error']
DISTRIBUTOR_COLUMNS = ['name', 'url', 'status', 'enabled', 'drained', 'vips',
                       'active_vips', 'behind']


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
            'cluster1', 'web', lb_id, 'ACTIVE', 'DEGRADED', 3, 2, 2))), row)
        row, = self.run_json('cluster', 'list', '--long')
        self.assertEqual(COLUMNS + LONG_COLUMNS, list(row))
        self.assertEqual(
            (['ACTIVE 2', 'FAILED 1'], 0, 'FLOW', 'network1', version,
             ['network2']), tuple(row[name] for name in LONG_COLUMNS[:-1]))
        self.assertEqual([{'behind': ['network2']}], self.run_json(
            'cluster', 'list', '-c', 'behind'))

    def test_show(self):
        lb_id, version = self.make()
        self.make(2, 'mail')
        for name in ('cluster1', lb_id, 'web'):
            found = self.run_json('cluster', 'show', name)
            self.assertEqual('cluster1', found['id'])
        self.assertEqual(
            ['0 ACTIVE amp10', '1 ACTIVE amp11',
             '2 FAILED amp12: no answer'], found['members'])
        self.assertEqual(
            [f'network1 ACTIVE version {version}',
             f'network2 STANDBY version {version - 1} of {version}: timed '
             f'out'], found['distributors'])

    def test_open_connections(self):
        self.make()
        member_repo.set_state(self.engine, 'member11', ('ACTIVE',),
                              'DRAINING', connections=12)
        self.assertEqual('1 DRAINING amp11, 12 connections', self.run_json(
            'cluster', 'show', 'web')['members'][1])
        self.assertEqual([None, 12, None], [
            row['connections'] for row in
            self.run_json('cluster', 'member', 'list')])

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

        self.patch(traffic.ask, '__defaults__', (Client,))

        def show(said=''):
            code, out, err = self.run_command(
                'cluster', 'member', 'list', '--cluster', 'web', '--traffic',
                '-f', 'json')
            self.assertEqual(0, code)
            self.assertIn(said, err)
            return [tuple(row.values())[2:] for row in json.loads(out)]

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
        self.assertEqual(dict(zip(MEMBER_COLUMNS, (
            'member12', 'cluster1', 2, 'FAILED', 'amp12', None,
            None, None, 'no answer'))), rows[2])
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
                ('network1', 'https://network1:9444', 'OFFLINE', True, False,
                 1, 1, 0),
                ('network2', 'https://network2:9444', 'OFFLINE', True, False,
                 1, 0, 1))], rows)
        row = self.run_json('distributor', 'list', '--long')[0]
        self.assertEqual(('hmsync_ovs', None, None), (
            row['driver'], row['software_version'], row['last_seen']))

    def test_show(self):
        _lb_id, version = self.make()
        found = self.run_json('distributor', 'show', 'network1')
        self.assertEqual([f'cluster1 ACTIVE version {version}'],
                         found['vips'])
        self.assertEqual(found, self.run_json('distributor', 'show',
                                              found['id']))
        cluster_repo.delete(self.engine, 'cluster1')
        found = self.run_json('distributor', 'show', 'network2')
        self.assertEqual(
            [f'cluster1 STANDBY version {version - 1}, the cluster is gone: '
             f'timed out'], found['vips'])

    def test_show_one_of_two_drivers(self):
        distributor_repo.sync(self.engine, 'one', {'network1': 'https://a'})
        distributor_repo.sync(self.engine, 'two', {'network1': 'https://a'})
        self.assertFails('There are 2 distributors network1: give the id',
                         'distributor', 'show', 'network1')
