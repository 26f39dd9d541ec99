# SPDX-License-Identifier: Apache-2.0

import json
from unittest import mock

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.services.cli import resize
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from tests.cloud import records
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.image.cli import test_image


class TestResize(test_image.ImageTestCase):

    def setUp(self):
        super().setUp()
        keeper_repo.touch(self.engine, 'keeper', ())
        self.nova.flavors['large'] = (2, 2048, 4)
        self.nova.flavors['larger'] = (2, 8192, 4)
        self.gold = self.add_flavor(compute_flavor='large')
        self.lb = self.add('new', 'new', name='web')
        self.set_compute_flavor('small')

    def add_flavor(self, provider='amphora', enabled=True, **data):
        flavor_id = self.records.add_flavor(json.dumps(data))
        row = next(row for row in self.records.rows('flavor')
                   if row['id'] == flavor_id)
        self.records.change('flavor', flavor_id, enabled=enabled)
        self.records.change('flavor_profile', row['flavor_profile_id'],
                            provider_name=provider)
        return flavor_id

    def set_compute_flavor(self, *names):
        """Have amphorae of these; of the last one all that are left."""
        for number, row in enumerate(self.records.rows('amphora')):
            self.records.change('amphora', row['id'], compute_flavor=names[
                min(number, len(names) - 1)])

    def resize(self, *argv):
        return self.run_ok('resize', 'web', *argv)

    def get_flavor(self):
        return self.records.rows('load_balancer')[0]['flavor_id']

    def refuse(self, words, *argv):
        before = self.get_flavor()
        for more in ((), ('--dry-run',), ('--wait',)):
            self.assertFails(words, 'resize', 'web', *argv, *more)
        self.assertEqual(before, self.get_flavor())
        self.assertEqual([], self.rows(models.ImageReplacement))

    def test_ordered(self):
        out = self.resize('--flavor', self.gold)
        found, = replace_repo.get_open(self.engine)
        self.assertEqual(f'Replacement {found.id} of load balancer {self.lb} '
                         f'waits for housekeeping.\n', out)
        self.assertEqual(('FLAVOR', self.gold, self.gold, 'new', False), (
            found.cause, found.cause_value, found.flavor_id,
            found.target_image_id, found.forced))
        self.assertEqual(self.gold, self.get_flavor())
        self.assertIn('is being replaced already',
                      self.resize('--flavor', self.gold))
        self.assertFails(f'already, by replacement {found.id}: wait for it',
                         'resize', 'web', '--no-flavor')

    def test_dry_run(self):
        self.set_compute_flavor('large', 'small')
        _, old = (row['id'] for row in self.records.rows('amphora'))
        self.assertEqual(
            f'Of load balancer {self.lb} would be replaced, by mode replace '
            f'with image new: {old}.\n',
            self.resize('--flavor', self.gold, '--dry-run'))
        self.assertIn(', ', self.resize('--flavor', self.gold, '--dry-run',
                                        '--force'))
        self.assertIsNone(self.get_flavor())
        self.assertEqual([], replace_repo.get_open(self.engine))

    def test_no_amphora_is_replaced(self):
        self.set_compute_flavor('large')
        self.assertIn('would get flavor', self.resize(
            '--flavor', self.gold, '--dry-run'))
        self.assertIsNone(self.get_flavor())
        self.assertIn('has flavor', self.resize('--flavor', self.gold))
        self.assertEqual(self.gold, self.get_flavor())
        self.assertIn('there is nothing to do',
                      self.resize('--flavor', self.gold))
        self.assertEqual([], replace_repo.get_open(self.engine))

    def test_back(self):
        self.records.change('load_balancer', self.lb, flavor_id=self.gold)
        self.set_compute_flavor('large')
        self.resize('--no-flavor')
        found, = replace_repo.get_open(self.engine)
        self.assertEqual(('FLAVOR', None, None), (
            found.cause, found.cause_value, found.flavor_id))
        self.assertIsNone(self.get_flavor())

    def test_cluster(self):
        self.records.change('load_balancer', self.lb,
                            provider='amphora_cluster',
                            topology='ACTIVE_ACTIVE')
        flavor = self.add_flavor(provider='amphora_cluster',
                                 compute_flavor='large')
        self.refuse('is for provider amphora, and the load balancer has '
                    'amphora_cluster', '--flavor', self.gold)
        code, _out, err = self.run_command('resize', 'web', '--flavor', flavor)
        self.assertEqual((0, ''), (code, err))
        self.assertEqual('ACTIVE_ACTIVE', replace_repo.get_open(
            self.engine)[0].topology)

    def make_cluster(self, size=3):
        """Let it be a cluster; returns what tells its sizes and manager."""
        self.records.change('load_balancer', self.lb,
                            provider='amphora_cluster',
                            topology='ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            1, load_balancer_id=self.lb, desired_size=size))

        def read():
            found = cluster_repo.get_by_load_balancer(self.engine, self.lb)
            return found.desired_size, found.min_size, found.cluster_type
        return read

    def add_cluster_flavor(self, **data):
        return self.add_flavor(provider='amphora_cluster', **data)

    def test_sizes_of_a_cluster(self):
        """They come with the flavor, in the transaction of the order."""
        read = self.make_cluster()
        self.assertEqual((3, 2, 'reference'), read())
        flavor = self.add_cluster_flavor(
            compute_flavor='large', cluster_desired_size=4,
            cluster_min_size=3, cluster_affinity='SOURCE_IP')
        code, out, err = self.run_command('resize', 'web', '--flavor', flavor,
                                          '--dry-run')
        self.assertEqual(0, code, err)
        self.assertIn('would get: desired_size 3 -> 4, min_size 2 -> 3.', out)
        self.assertIn('the cluster keeps FLOW', err)
        self.assertEqual((3, 2, 'reference'), read())
        code, out, err = self.run_command('resize', 'web', '--flavor', flavor)
        self.assertEqual(0, code, err)
        self.assertIn('Cluster cluster1: desired_size 3 -> 4', out)
        self.assertEqual((4, 3, 'reference'), read())
        found, = replace_repo.get_open(self.engine)
        self.assertEqual((flavor, flavor),
                         (found.flavor_id, self.get_flavor()))
        # It is not ordered again.
        cluster_repo.set_sizes(self.engine, 'cluster1', desired_size=5)
        self.assertIn('already', self.resize('--flavor', flavor))
        self.assertEqual((5, 3, 'reference'), read())

    def test_only_sizes_of_a_cluster(self):
        read = self.make_cluster()
        self.set_compute_flavor('large')
        flavor = self.add_cluster_flavor(compute_flavor='large',
                                         cluster_desired_size=2)
        for _ in range(2):
            self.assertIn('desired_size 3 -> 2',
                          self.resize('--flavor', flavor))
            self.assertEqual((2, 2, 'reference'), read())
            # An operator has changed it since; the flavor is the same.
            cluster_repo.set_sizes(self.engine, 'cluster1', desired_size=3)
        # A flavor without sizes leaves them.
        plain = self.add_cluster_flavor(compute_flavor='large')
        self.assertNotIn('size', self.resize('--flavor', plain))
        self.assertEqual((3, 2, 'reference'), read())
        self.assertEqual(plain, self.get_flavor())
        self.assertEqual([], replace_repo.get_open(self.engine))

    def test_sizes_are_waited_for(self):
        self.make_cluster(2)
        self.set_compute_flavor('large')
        flavor = self.add_cluster_flavor(compute_flavor='large',
                                         cluster_desired_size=1,
                                         cluster_min_size=1)
        more = '--wait', '--timeout', '1'
        code, _out, err = self.run_command('resize', 'web', '--flavor',
                                           flavor, *more)
        self.assertEqual(1, code)
        self.assertIn('The cluster manager goes on: see "octavia-hmsync '
                      'cluster show cluster1"', err)
        member_repo.add(self.engine, 'cluster1', 'member1', 3)
        member_repo.assign_amphora(self.engine, 'member1', 'amphora')
        member_repo.set_state(self.engine, 'member1', ('BUILDING',), 'ACTIVE')
        self.resize('--flavor', flavor, *more)

    def test_sizes_refused(self):
        read = self.make_cluster()
        for words, values in (
                ('from 1 to 8 ', {'cluster_desired_size': 1000}),
                ('its minimum would be 2, and must be from 1 to its desired '
                 'size, 1', {'cluster_desired_size': 1}),
                ('no cluster manager "other"', {'cluster_manager': 'other'}),
                ('cluster_desired_size: ', {'cluster_desired_size': 'six'}),
                ('loadbalancer_topology is not for clusters',
                 {'loadbalancer_topology': 'SINGLE'})):
            self.refuse(words, '--flavor', self.add_cluster_flavor(**values))
            self.assertEqual((3, 2, 'reference'), read())

    def test_sizes_take_room(self):
        read = self.make_cluster()
        flavor = self.add_cluster_flavor(compute_flavor='large',
                                         cluster_desired_size=5)
        self.nova.limits['maxTotalInstances'] = 4
        self.refuse('3 instances more', '--flavor', flavor)
        self.assertEqual((3, 2, 'reference'), read())

    def test_cluster_is_changed_meanwhile(self):
        """Neither its flavor nor its size changes."""
        read = self.make_cluster()
        flavor = self.add_cluster_flavor(compute_flavor='large',
                                         cluster_desired_size=2)
        real = resize.cluster_repo.set_sizes

        def lose(connection, cluster_id, **values):
            real(connection, cluster_id, min_size=3)
            return real(connection, cluster_id, **values)
        with mock.patch.object(resize.cluster_repo, 'set_sizes', lose):
            self.assertFails('by another command at this moment', 'resize',
                             'web', '--flavor', flavor)
        self.assertIsNone(self.get_flavor())
        self.assertEqual((3, 2, 'reference'), read())

    def test_refused(self):
        for words, values in (
                ('for topology STAR, and amphorae have SINGLE or '
                 'ACTIVE_STANDBY', {'loadbalancer_topology': 'STAR'}),
                ('virtual function', {'sriov_vip': True}),
                ('it is disabled', {'enabled': False}),
                ('it is for provider ovn', {'provider': 'ovn'}),
                ('flavor huge', {'compute_flavor': 'huge'}),
                ('8192 MB of RAM more', {'compute_flavor': 'larger'})):
            self.refuse(words, '--flavor', self.add_flavor(**values))
        self.refuse('There is no flavor silver', '--flavor', 'silver')
        flavor = self.records.add_flavor('{')
        self.refuse('it cannot be read', '--flavor', flavor)
        self.refuse('it cannot be read', '--flavor',
                    self.records.add_flavor('[]'))

    def make_single(self):
        """Let it be SINGLE; returns its amphora's id."""
        amphora_id, other = (row['id']
                             for row in self.records.rows('amphora'))
        self.records.change('load_balancer', self.lb, topology='SINGLE')
        self.records.change('amphora', amphora_id, role='STANDALONE')
        self.records.change('amphora', other, status='DELETED')
        return amphora_id

    def test_topology(self):
        """Its amphora goes, whatever its compute flavor is."""
        amphora_id = self.make_single()
        self.set_compute_flavor('large')
        pair = self.add_flavor(loadbalancer_topology='ACTIVE_STANDBY',
                               compute_flavor='large')
        self.assertEqual(
            f'Of load balancer {self.lb} would be replaced, by mode replace '
            f'with image new and topology ACTIVE_STANDBY: {amphora_id}.\n',
            self.resize('--flavor', pair, '--dry-run'))
        out = self.resize('--flavor', pair)
        found, = replace_repo.get_open(self.engine)
        self.assertIn('waits for housekeeping', out)
        self.assertEqual(
            ('TOPOLOGY', 'ACTIVE_STANDBY', pair, 'SINGLE', False), (
                found.cause, found.cause_value, found.flavor_id,
                found.topology, found.forced))
        self.assertEqual(pair, self.get_flavor())
        self.assertIn('is being replaced already',
                      self.resize('--flavor', pair))
        self.assertFails(f'already, by replacement {found.id}: wait for it',
                         'resize', 'web', '--flavor', self.gold)

    def test_topology_of_a_pair(self):
        single = self.add_flavor(loadbalancer_topology='SINGLE')
        for row, role in zip(self.records.rows('amphora'),
                             ('MASTER', 'BACKUP'), strict=True):
            self.records.change('amphora', row['id'], role=role)
        self.resize('--flavor', single)
        found, = replace_repo.get_open(self.engine)
        self.assertEqual(
            ('TOPOLOGY', 'SINGLE', 'ACTIVE_STANDBY'),
            (found.cause, found.cause_value, found.topology))

    def test_topology_again(self):
        """It has the flavor, but its topology could not be changed."""
        self.make_single()
        pair = self.add_flavor(loadbalancer_topology='ACTIVE_STANDBY')
        self.records.change('load_balancer', self.lb, flavor_id=pair)
        self.resize('--flavor', pair)
        found, = replace_repo.get_open(self.engine)
        self.assertEqual(('TOPOLOGY', 'ACTIVE_STANDBY'),
                         (found.cause, found.cause_value))

    def test_topology_is_the_same(self):
        """The flavor names the topology of the load balancer."""
        pair = self.add_flavor(loadbalancer_topology='ACTIVE_STANDBY',
                               compute_flavor='large')
        self.resize('--flavor', pair)
        found, = replace_repo.get_open(self.engine)
        self.assertEqual(('FLAVOR', pair), (found.cause, found.cause_value))

    def test_topology_refused(self):
        amphora_id = self.make_single()
        pair = self.add_flavor(loadbalancer_topology='ACTIVE_STANDBY')
        self.refuse('only mode replace does that', '--flavor', pair,
                    '--mode', 'failover')
        self.records.change('amphora', amphora_id, role='MASTER')
        self.refuse(f'amphora {amphora_id} has the role MASTER, which is '
                    f'none of SINGLE', '--flavor', pair)
        self.records.change('amphora', amphora_id, status='ERROR')
        self.refuse(amphora_id, '--flavor', pair)

    def test_topology_takes_room_for_two(self):
        self.make_single()
        pair = self.add_flavor(loadbalancer_topology='ACTIVE_STANDBY',
                               compute_flavor='large')
        self.nova.limits['maxTotalInstances'] = 4
        self.refuse('2 instances more', '--flavor', pair)

    def test_too_small_for_the_image(self):
        self.nova.flavors['tiny'] = (1, 16, 2)
        tiny = self.add_flavor(compute_flavor='tiny')
        with mock.patch.object(compat, 'read_image', autospec=True,
                               return_value={'min_ram': 1024}):
            self.refuse('1024 MB of RAM', '--flavor', tiny)

    def test_octavia_works_on_it(self):
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        self.refuse('State: It is PENDING_UPDATE', '--flavor', self.gold)

    def test_another_one_is_faster(self):
        """Its flavor, or its state, is another one than a moment ago."""
        new = replace_repo.New('one', self.lb, 'replace', 'new')
        self.assertFalse(replace_repo.resize(self.engine, self.lb, self.gold,
                                             'another', new))
        self.assertFalse(replace_repo.resize(self.engine, self.lb, self.gold,
                                             'another'))
        # A flavor that was deleted.
        self.assertFalse(replace_repo.resize(self.engine, self.lb,
                                             records.new_id(), None, new))
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        self.assertFalse(replace_repo.resize(self.engine, self.lb, self.gold,
                                             None, new))
        self.assertEqual([], replace_repo.get_open(self.engine))
        self.assertIsNone(self.get_flavor())
        self.records.change('load_balancer', self.lb,
                            provisioning_status='ACTIVE')
        replace_repo.add(self.engine, new)
        self.assertFalse(replace_repo.resize(
            self.engine, self.lb, self.gold, None,
            replace_repo.New('two', self.lb, 'replace', 'new')))
        self.assertIsNone(self.get_flavor())

    def test_usage(self):
        for argv in ((), ('--flavor', self.gold, '--no-flavor')):
            code, _out, _err = self.run_command('resize', 'web', *argv)
            self.assertEqual(2, code)
