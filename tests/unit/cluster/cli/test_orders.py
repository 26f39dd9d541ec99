# SPDX-License-Identifier: Apache-2.0

"""What an operator orders for clusters, members and distributors."""

import datetime
import threading

import fixtures

from octavia_hmsync.cli import progress
from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.db import models
from octavia_hmsync import held
from octavia_hmsync.image.db import restore as snapshot_repo
from tests.cloud import records
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.cli import base

GONE = 'Cluster cluster1 is being deleted'


class _TestCase(base.CommandTestCase):

    def make(self, states=('ACTIVE', 'ACTIVE', 'ACTIVE'), min_size=2):
        """Have cluster1 with members in those states, on two distributors."""
        self.lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb_id, desired_size=3, min_size=min_size))
        cluster_repo.set_status(self.engine, 'cluster1', 'ACTIVE', 'ONLINE')
        for n, state in enumerate(states):
            member_repo.add(self.engine, 'cluster1', f'member{n}',
                            0 if state == 'STANDBY' else 3)
            member_repo.assign_amphora(self.engine, f'member{n}', f'amp{n}')
            member_repo.set_state(self.engine, f'member{n}', ('BUILDING',),
                                  state)

    def add_vips(self):
        self.one, self.two = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER, cluster_calls.DISTRIBUTORS)
        for each in (self.one, self.two):
            vip = vip_repo.add(self.engine, 'cluster1', each.id)
            vip_repo.set_port(self.engine, vip.id, f'port-{each.name}', 'fa')
            distributor_repo.set_status(self.engine, each.id, 'ONLINE')
        vip_repo.set_active(self.engine, 'cluster1', self.one.id)

    def delete(self):
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='PENDING_DELETE')

    def get_order(self, number):
        return member_repo.get(self.engine, f'member{number}').ordered


class TestSet(_TestCase):

    def get(self):
        found = cluster_repo.get(self.engine, 'cluster1')
        return (found.desired_size, found.min_size, found.cooldown,
                found.standby)

    def test_set(self):
        self.make()
        self.assertEqual(
            'Cluster cluster1: desired_size 3 -> 5, min_size 2 -> 3, '
            'cooldown 0 -> 60, standby 0 -> 1.\n', self.run_ok(
                'cluster', 'set', self.lb_id, '--desired', '5', '--min', '3',
                '--cooldown', '60', '--standby', '1'))
        self.assertEqual((5, 3, 60, 1), self.get())
        self.run_ok('cluster', 'set', 'cluster1', '--cooldown', '0')
        self.assertEqual((5, 3, 0, 1), self.get())
        self.assertIn('has these values already', self.run_ok(
            'cluster', 'set', 'cluster1', '--desired', '5'))

    def test_manager(self):
        self.make()
        self.useFixture(fixtures.MockPatchObject(
            managers, 'get_names', lambda: ['other', 'reference']))
        self.assertEqual(
            'Cluster cluster1: cluster_type reference -> other.\n',
            self.run_ok('cluster', 'set', 'cluster1', '--manager', 'other'))
        self.assertEqual('other', cluster_repo.get(
            self.engine, 'cluster1').cluster_type)

    def test_contradictions(self):
        self.make()
        for words, *argv in (
                ('its minimum would be 4, and must be from 1 to its '
                 'desired size, 3', '--min', '4'),
                ('its minimum would be 2, and must be from 1 to its '
                 'desired size, 1', '--desired', '1'),
                ('its minimum would be 0', '--min', '0'),
                ('its desired size would be 9, and must be from 1 to 8 '
                 '([hmsync_cluster] size_limit)', '--desired', '9'),
                ('its desired size would be 0', '--desired', '0'),
                ('9 members would stand by, and 8 may', '--standby', '9'),
                ('no cluster manager "other" is installed on this host, '
                 'which has reference', '--manager', 'other')):
            self.assertFails(words, 'cluster', 'set', 'cluster1', *argv)
        self.assertEqual((3, 2, 0, 0), self.get())

    def test_nothing_asked_for(self):
        for argv, words in (
                ((), 'one of --desired, --min, --cooldown, --standby and'),
                (('--desired', 'many'), "'many' is not a number"),
                (('--cooldown', '-1'), "'-1' is not a number")):
            code, _out, err = self.run_command('cluster', 'set', 'cluster1',
                                               *argv)
            self.assertEqual(2, code)
            self.assertIn(words, err)

    def test_refused(self):
        self.assertFails('There is no cluster web', 'cluster', 'set', 'web',
                         '--desired', '4')
        self.make()
        self.delete()
        self.assertFails(GONE, 'cluster', 'set', 'cluster1', '--desired', '4')


class TestOrders(_TestCase):

    def order(self, *argv):
        return self.run_ok('cluster', 'member', *argv)

    def test_drain(self):
        self.make()
        member_repo.record(self.engine, 'member0', error='older')
        self.assertEqual('Member member0 is ordered to be drained.\n',
                         self.order('drain', 'amp0'))
        self.assertEqual('DRAIN', self.get_order(0))
        self.assertIsNone(member_repo.get(self.engine, 'member0').error)
        self.assertIn('already ordered to be drained',
                      self.order('drain', 'member0'))
        self.assertEqual('DRAIN', self.run_json(
            'cluster', 'member', 'list', '--long')[0]['ordered'])
        self.assertEqual('DRAIN', self.run_json(
            'cluster', 'show', 'cluster1')['members'][0]['ordered'])
        self.assertIn('0 ACTIVE amp0, DRAIN is ordered', self.run_ok(
            'cluster', 'show', 'cluster1'))
        self.assertEqual('The order to drain member member0 is taken back.\n',
                         self.order('undrain', 'amp0'))
        self.assertIsNone(self.get_order(0))

    def test_minimum(self):
        """Orders that were not carried out yet count, and standbys."""
        self.make()
        self.order('drain', 'member0')
        self.assertFails(
            'Without member member1 cluster cluster1 has 1 ACTIVE members '
            'and standbys, and needs 2', 'cluster', 'member', 'drain',
            'member1')
        self.assertIsNone(self.get_order(1))
        member_repo.add(self.engine, 'cluster1', 'spare', 0)
        member_repo.set_state(self.engine, 'spare', ('BUILDING',), 'STANDBY')
        self.order('drain', 'member1')

    def test_replace(self):
        self.make(('ACTIVE', 'ACTIVE', 'DRAINING', 'STANDBY'))
        for n in (0, 2, 3):
            self.assertEqual(
                f'Member member{n} is ordered to be replaced.\n',
                self.order('replace', f'amp{n}'))
            self.assertEqual('REPLACE', self.get_order(n))
        self.assertIn('already', self.order('replace', 'amp0'))
        self.assertFails('Member member0 is being replaced, which drains it',
                         'cluster', 'member', 'drain', 'member0')
        self.assertEqual('Member member0 has no order to be drained: it is '
                         'ACTIVE.\n', self.order('undrain', 'amp0'))
        self.assertIn('The order to replace member',
                      self.order('replace', 'amp0', '--cancel'))
        self.assertIsNone(self.get_order(0))
        self.assertIn('Member member0 has no order to be replaced',
                      self.order('replace', 'amp0', '--cancel'))
        member_repo.release_slot(self.engine, 'member2')
        self.assertFails('Member member2 has been replaced', 'cluster',
                         'member', 'replace', 'amp2', '--cancel')

    def test_replace_one_that_lost_its_slot(self):
        """A standby has that: it is deleted without waiting for signs."""
        self.make(('ACTIVE', 'ACTIVE', 'DRAINING'))
        member_repo.release_slot(self.engine, 'member2')
        self.assertFails('Member member2 is DRAINING and has no slot',
                         'cluster', 'member', 'drain', 'member2')
        self.assertEqual('Member member2 is ordered to be replaced.\n',
                         self.order('replace', 'amp2'))
        self.assertEqual('REPLACE', self.get_order(2))

    def test_not_active(self):
        self.make(('FAILED', 'ACTIVE', 'ACTIVE'))
        member_repo.release_slot(self.engine, 'member0')
        for command in ('drain', 'replace'):
            self.assertFails(
                'Member member0 is FAILED and has no slot, and not ACTIVE',
                'cluster', 'member', command, 'member0')
        member_repo.set_state(self.engine, 'member1', ('ACTIVE',), 'DRAINING')
        self.assertFails('Member member1 is DRAINING, and not ACTIVE',
                         'cluster', 'member', 'drain', 'member1')

    def test_unknown(self):
        for command in ('drain', 'undrain', 'replace'):
            self.assertFails('amp9 is neither a member nor the amphora',
                             'cluster', 'member', command, 'amp9')

    def test_deleted(self):
        self.make()
        self.delete()
        for command in ('drain', 'undrain', 'replace'):
            self.assertFails(GONE, 'cluster', 'member', command, 'amp0')
        cluster_repo.set_status(self.engine, 'cluster1', 'PENDING_DELETE')
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='ACTIVE')
        self.assertFails(GONE, 'cluster', 'member', 'replace', 'amp0')


class TestWait(_TestCase):
    """Between two looks a fake housekeeper does its part."""

    def setUp(self):
        super().setUp()
        self.make()
        self.add_vips()

    def wait(self, *argv, then):
        """Run a command with --wait; returns what it says last.

        :param then: what happens between two looks, functions without
                     arguments.
        """
        steps = list(then)

        def sleep(seconds):
            # oslo.db yields to other threads by 0 seconds.
            if seconds:
                steps.pop(0)()
        self.useFixture(fixtures.MockPatchObject(progress.time, 'sleep',
                                                 sleep))
        out = self.run_ok(*argv, '--wait')
        self.assertEqual([], steps)
        return out

    def set_state(self, old, new, **details):
        member_repo.set_state(self.engine, 'member0', (old,), new, **details)

    def test_drain(self):
        out = self.wait('cluster', 'member', 'drain', 'amp0', then=(
            lambda: self.set_state('ACTIVE', 'DRAINING', connections=7),
            lambda: member_repo.record(self.engine, 'member0',
                                       connections=0)))
        self.assertIn('Member member0: DRAINING, 7 connections\n', out)
        self.wait('cluster', 'member', 'undrain', 'amp0', then=(
            lambda: self.set_state('DRAINING', 'ACTIVE'),))
        # It was so already.
        self.wait('cluster', 'member', 'undrain', 'amp0', then=())

    def test_drain_whose_connections_are_not_counted(self):
        def drain():
            self.set_state('ACTIVE', 'DRAINING')
            self.make_older(models.ClusterMember, 'updated_at', 10 ** 6,
                            id='member0')
        self.wait('cluster', 'member', 'drain', 'amp0', then=(drain,))

    def test_replace(self):
        self.wait('cluster', 'member', 'replace', 'amp0', then=(
            lambda: self.set_state('ACTIVE', 'DRAINING'),
            lambda: member_repo.delete(self.engine, 'member0')))

    def test_set(self):
        out = self.wait('cluster', 'set', 'cluster1', '--desired', '2', then=(
            lambda: self.set_state('ACTIVE', 'DRAINING'),
            lambda: member_repo.delete(self.engine, 'member0')))
        self.assertIn('Cluster cluster1: 2 ACTIVE, 1 DRAINING, of 2\n', out)

    def test_distributor(self):
        vip, = vip_repo.get_of_distributor(self.engine, self.one.id)
        out = self.wait('distributor', 'drain', 'network1', then=(
            lambda: vip_repo.delete(self.engine, vip.id),))
        self.assertIn('Distributor network1: 1 VIP\n', out)

    def test_move(self):
        vip, = vip_repo.get_of_distributor(self.engine, self.two.id)

        def apply():
            vip_repo.record_applied(
                self.engine, vip.id,
                cluster_repo.get(self.engine, 'cluster1').version, True)
        self.wait('distributor', 'move', 'cluster1', then=(apply,))

    def test_given_up(self):
        self.assertEqual(2, self.run_command(
            'cluster', 'set', 'cluster1', '--desired', '2', '--timeout',
            '1')[0])
        code, out, err = self.run_command(
            'cluster', 'set', 'cluster1', '--desired', '2', '--wait',
            '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn('desired_size 3 -> 2', out)
        self.assertIn('Not done after 0.01 s. The cluster manager goes on: '
                      'see "octavia-hmsync cluster show cluster1".', err)


class TestDryRun(_TestCase):

    def test_nothing_changes(self):
        self.make()
        self.add_vips()

        def read():
            with self.engine.connect() as connection:
                return [connection.execute(model.__table__.select()).all()
                        for model in (models.Cluster, models.ClusterMember,
                                      models.Distributor,
                                      models.DistributorVIP)]
        before = read()
        for said, *argv in (
                ('would get: desired_size 3 -> 4.', 'cluster', 'set',
                 'cluster1', '--desired', '4'),
                ('would be ordered to be drained.', 'cluster', 'member',
                 'drain', 'amp0'),
                ('would be ordered to be replaced.', 'cluster', 'member',
                 'replace', 'amp0'),
                ('would be drained, with 1 VIP to move.', 'distributor',
                 'drain', 'network1'),
                ('would move to distributor network2.', 'distributor', 'move',
                 'cluster1')):
            self.assertIn(said, self.run_ok(*argv, '--dry-run'))
        self.assertEqual(before, read())
        distributor_repo.drain(self.engine, self.one.id)
        self.assertIn('would get VIPs', self.run_ok(
            'distributor', 'resume', 'network1', '--dry-run'))
        self.assertFails('Distributor network2 is the last one',
                         'distributor', 'drain', 'network2', '--dry-run')
        member_repo.set_order(self.engine, 'member0', 'DRAIN')
        self.assertIn('would be taken back', self.run_ok(
            'cluster', 'member', 'undrain', 'amp0', '--dry-run'))
        self.assertEqual('DRAIN', self.get_order(0))


class TestRestore(_TestCase):

    def setUp(self):
        super().setUp()
        self.make()
        for number in range(3):
            member_repo.record(self.engine, f'member{number}',
                               config_digest='old')
        self.listener = self.records.add_listener(self.lb_id)

    def be(self, status, age=7200, of_listener='PENDING_UPDATE'):
        self.records.change(
            'load_balancer', self.lb_id, provisioning_status=status,
            updated_at=records.utcnow() - datetime.timedelta(seconds=age))
        self.records.change('listener', self.listener,
                            provisioning_status=of_listener)

    def get(self):
        lb, = self.records.rows('load_balancer')
        listener, = self.records.rows('listener')
        return (lb['provisioning_status'], listener['provisioning_status'], {
            member.config_digest for member in
            member_repo.get_of_cluster(self.engine, 'cluster1')})

    def check_left(self, text, *arguments):
        before = self.get()
        self.assertFails(text, 'cluster', 'restore', 'cluster1', *arguments)
        self.assertEqual(before, self.get())

    def test_restored(self):
        for status, of_listener, then in (
                ('PENDING_UPDATE', 'PENDING_UPDATE', 'ACTIVE'),
                ('ERROR', 'ERROR', 'ACTIVE'),
                ('PENDING_UPDATE', 'PENDING_DELETE', 'ERROR')):
            self.be(status, of_listener=of_listener)
            before = self.get()
            self.assertIn(f'would be {status} -> ACTIVE.', self.run_ok(
                'cluster', 'restore', self.lb_id, '--dry-run'))
            self.assertEqual(before, self.get())
            out = self.run_ok('cluster', 'restore', self.lb_id)
            self.assertIn(f'listener {self.listener}: {of_listener} -> '
                          f'{then}\n', out)
            self.assertIn(f'{status} -> ACTIVE', out)
            self.assertEqual(('ACTIVE', then, {None}), self.get())
            self.assertIsNone(cluster_repo.get(self.engine,
                                               'cluster1').claimed_by)

    def test_somebody_may_work_on_it(self):
        self.be('PENDING_UPDATE', age=100)
        self.check_left('A worker may still work on it: it is PENDING_UPDATE')
        self.run_ok('cluster', 'restore', 'cluster1', '--older-than', '90')
        self.assertEqual('ACTIVE', self.get()[0])

    def test_somebody_works_on_it(self):
        self.be('PENDING_UPDATE')
        cluster_repo.set_status(self.engine, 'cluster1', 'PENDING_UPDATE')
        self.check_left('Its cluster is PENDING_UPDATE: housekeeping brings')
        cluster_repo.set_status(self.engine, 'cluster1', 'ACTIVE')
        claim_repo.claim(self.engine, 'cluster1', 'somebody', 60)
        self.check_left('Cluster cluster1 is being worked on (claimed by '
                        'somebody)')

    def test_the_claim_is_renewed(self):
        """A database that answers late costs nobody the claim."""
        self.be('PENDING_UPDATE')
        renewed = threading.Event()
        renew, get = claim_repo.renew, snapshot_repo.get

        def note(*args):
            found = renew(*args)
            renewed.set()
            return found

        def get_late(*args):
            self.assertTrue(renewed.wait(60))
            return get(*args)
        for target, name, new in ((held, 'RENEWALS', 10 ** 4),
                                  (claim_repo, 'renew', note),
                                  (snapshot_repo, 'get', get_late)):
            self.useFixture(fixtures.MockPatchObject(target, name, new))
        self.run_ok('cluster', 'restore', 'cluster1')
        self.assertEqual('ACTIVE', self.get()[0])

    def test_not_to_be_restored(self):
        self.be('ACTIVE')
        self.assertIn('is ACTIVE already', self.run_ok(
            'cluster', 'restore', 'cluster1'))
        self.be('ERROR')
        for number in (0, 1):
            member_repo.set_state(self.engine, f'member{number}',
                                  ('ACTIVE',), 'DRAINING')
        self.check_left('1 of its members serve, and 2 must')
        # Of one that is locked nothing could be asked for.
        self.be('PENDING_UPDATE')
        code, out, err = self.run_command('cluster', 'restore', 'cluster1')
        self.assertEqual(0, code)
        self.assertIn('PENDING_UPDATE -> ERROR.\n', out)
        self.assertIn('It gets ERROR: 1 of its members', err)
        self.assertEqual('ERROR', self.get()[0])
        self.delete()
        self.check_left(GONE)


class TestDistributors(_TestCase):

    def test_drain(self):
        self.make()
        self.add_vips()
        self.assertEqual('Distributor network1 is drained, with 1 VIP to '
                         'move.\n', self.run_ok('distributor', 'drain',
                                                'network1'))
        self.assertIn('is drained already: it has 1 VIP.', self.run_ok(
            'distributor', 'drain', 'network1'))
        self.assertEqual([(True, True), (True, False)], [
            (row['enabled'], row['drained'])
            for row in self.run_json('distributor', 'list', '--long')])
        self.assertFails(
            'Distributor network2 is the last one for clusters: no other',
            'distributor', 'drain', 'network2')
        self.assertTrue(self.run_json('distributor', 'show',
                                      'network1')['drained'])
        self.assertEqual('Distributor network1 gets VIPs again.\n',
                         self.run_ok('distributor', 'resume', 'network1'))
        self.assertIn('in service already', self.run_ok(
            'distributor', 'resume', 'network1'))

    def test_drain_beside_one_that_is_down(self):
        self.make()
        self.add_vips()
        distributor_repo.set_status(self.engine, self.two.id, 'OFFLINE')
        self.assertFails('Distributor network1 is the last one',
                         'distributor', 'drain', 'network1')

    def test_move(self):
        self.make()
        self.add_vips()
        self.assertEqual(
            'Cluster cluster1 moves to distributor network2.\n',
            self.run_ok('distributor', 'move', self.lb_id))
        self.assertEqual([('network2', True), ('network1', False)], [
            (vip.distributor_name, vip.active)
            for vip in vip_repo.get_of_cluster(self.engine, 'cluster1')])
        self.assertIn('Distributor network2 is active for cluster cluster1 '
                      'already', self.run_ok('distributor', 'move',
                                             'cluster1', '--to', 'network2'))
        self.run_ok('distributor', 'move', 'cluster1', '--to', self.one.id)

    def test_move_to_nowhere(self):
        self.make()
        self.assertFails('Cluster cluster1 has no other distributor',
                         'distributor', 'move', 'cluster1')
        self.add_vips()
        distributor_repo.set_status(self.engine, self.two.id, 'OFFLINE')
        self.assertFails('has no other distributor that is ONLINE',
                         'distributor', 'move', 'cluster1')
        self.assertFails('has no distributor network2 that is ONLINE',
                         'distributor', 'move', 'cluster1', '--to',
                         'network2')
        self.assertFails('There is no distributor network9', 'distributor',
                         'move', 'cluster1', '--to', 'network9')
        distributor_repo.sync(self.engine, cluster_calls.DRIVER, {
            **cluster_calls.DISTRIBUTORS, 'network3': 'https://network3'})
        self.assertFails('Cluster cluster1 is not on distributor network3',
                         'distributor', 'move', 'cluster1', '--to',
                         'network3')
        self.delete()
        self.assertFails(GONE, 'distributor', 'move', 'cluster1')
