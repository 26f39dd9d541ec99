# SPDX-License-Identifier: Apache-2.0

"""zone list, drain, release, and what follows."""

import json

from octavia_hmsync import compute
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import reading
from octavia_hmsync.image.rollout import zone_ends
from octavia_hmsync.image import target
from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.unit.image.cli import test_host

LIST = json.dumps({'cluster_compute_zones': ['az1', 'az2']})


class TestZones(test_host.HostTestCase):
    """With host1 in az1, which takes no new instances, and host2 in az2."""

    def add_in(self, *zones, **values):
        """Add a load balancer with an amphora in each zone; return its id."""
        lb_id = self.add(*['new'] * len(zones), **values)
        for row, zone in zip(self.amphorae(lb_id), zones, strict=True):
            self.records.change('amphora', row['id'], cached_zone=zone)
        return lb_id

    def register(self, number, zone):
        hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                         5555, 'first', 20, zone=zone)

    def arguments(self, zone='az1', **values):
        return ('zone', 'drain', zone, '--until',
                self.until(**values or {'hours': 1}))

    def drain(self, *argv, zone='az1', **values):
        """Drain a zone; returns (rows, what is on stderr)."""
        code, out, err = self.run_command(*self.arguments(zone, **values),
                                          *argv, '-f', 'json')
        self.assertEqual(0, code, err)
        return json.loads(out), err

    def drained(self):
        return {row.zone: row.with_health_managers
                for row in self.rows(models.ZoneDrain)}

    def active(self):
        return rollout_repo.get_active(self.engine)

    def test_list(self):
        self.add_in('az1', 'az2')
        self.add_in('az1', 'az1')
        self.add_in(None)
        self.register(1, 'az1')
        self.register(2, None)
        self.drain()
        self.assertEqual(
            [('az1', 'DISABLED', 3, 2, 1, ['hm1']),
             ('az2', 'ENABLED', 1, 1, 0, [])],
            [(*list(row.values())[:5], row['health_managers'])
             for row in self.run_json('zone', 'list', '--long')])
        self.assertEqual(
            [True, False], [bool(row['drained_until']) for row in
                            self.run_json('zone', 'list', '--long')])

    def test_drain(self):
        lb_id = self.add_in('az1', 'az2')
        self.add_in('az2')
        self.register(1, 'az1')
        self.register(2, 'az2')
        rows, err = self.drain('--dry-run')
        self.assertEqual([lb_id], [row['loadbalancer_id'] for row in rows])
        self.assertIn('Zone az1 would be drained', err)
        self.assertEqual(({}, None), (self.drained(), self.active()))
        rows, err = self.drain('--reason', 'flood')
        self.assertEqual(1, rows[0]['loadbalancers'])
        self.assertIn('leave the list meanwhile: hm1.', err)
        self.assertEqual({'az1': True}, self.drained())
        settings = self.active().settings
        self.assertEqual(('ZONE', 'az1'), (settings.cause,
                                           settings.cause_value))
        order, = self.run_json('order', 'list', '--long')
        self.assertEqual(('zone drain', 'flood', 'DONE'), (
            order['command'], order['reason'], order['state']))
        self.assertEqual({'hm1': 'DRAINING', 'hm2': 'ONLINE'}, {
            row['host']: row['status'] for row in self.run_json(
                'health', 'manager', 'list')})
        self.assertFails('DRAINING with its zone az1', 'health', 'manager',
                         'resume', 'hm1')

    def test_another_end(self):
        """Its rollout goes on."""
        self.add_in('az1', 'az2')
        self.drain()
        first = self.run_json('zone', 'list', '--long')[0]['drained_until']
        rollout = self.active()
        rows, err = self.drain(hours=5)
        self.assertEqual(rollout.id, rows[0]['id'])
        self.assertIn('RUNNING already', err)
        self.assertLess(first, self.run_json('zone', 'list', '--long')[0][
            'drained_until'])
        self.assertEqual(1, len(self.rows(models.ImageRollout)))

    def test_one_rollout_at_a_time(self):
        self.add('old')
        self.assertEqual(0, self.run_command('image', 'rollout', 'start')[0])
        self.assertFails('There is a rollout that has not ended',
                         *self.arguments())
        self.assertEqual({}, self.drained())

    def test_what_stays(self):
        """The reason is in the dry run; a drain without a move is one."""
        pinned = self.add_in('az1', availability_zone='here')
        free = self.add_in('az1')
        cluster = self.add_in('az1', 'az2', provider='amphora_cluster',
                              topology='ACTIVE_ACTIVE',
                              availability_zone='both')
        self.add_zone('here', '{"compute_zone": "az1"}')
        self.add_zone('both', LIST)
        self.compute.list_hosts.return_value = [
            compute.Host('host1', 'az1'), compute.Host('host2', 'az2')]
        rows, _err = self.drain('--dry-run')
        self.assertEqual(
            {pinned: 'ONLY_IN_ZONE', free: 'ZONE_ENABLED', cluster: None},
            {row['loadbalancer_id']: row['left_out_by'] for row in rows})
        self.records.change('load_balancer', cluster,
                            availability_zone='here')
        rows, _err = self.drain()
        self.assertEqual(
            {pinned: 'ONLY_IN_ZONE', free: 'ZONE_ENABLED',
             cluster: 'ONLY_IN_ZONE'},
            {row['loadbalancer_id']: row['left_out_by'] for row in rows})
        self.assertEqual(({'az1': False}, None), (self.drained(),
                                                  self.active()))

    def test_build_in(self):
        """What Nova or octavia.conf would place there can leave, too."""
        free = self.add_in('az1')
        pinned = self.add_in('az1', availability_zone='here')
        self.add_zone('here', '{"compute_zone": "az1"}')
        self.compute.list_hosts.return_value = [
            compute.Host('host1', 'az1'), compute.Host('host2', 'az2')]
        self.assertFails('Nothing can be built in zone az3',
                         *self.arguments(), '--build-in', 'az3')
        for default in (None, 'az1:host1'):
            self.conf_path = self.write_conf(
                nova={'availability_zone': default} if default else {},
                controller_worker={'amp_image_tag': 'amphora',
                                   'compute_driver': 'compute_nova_driver'})
            rows, _err = self.drain('--dry-run', '--build-in', 'az2')
            self.assertEqual(
                {free: None, pinned: 'ONLY_IN_ZONE'},
                {row['loadbalancer_id']: row['left_out_by'] for row in rows},
                default)
        self.assertEqual({}, self.drained())
        self.drain('--build-in', 'az2')
        self.assertEqual(['az2', None], [
            row['build_in'] for row in self.run_json('zone', 'list',
                                                     '--long')])
        # Housekeeping selects by the same.
        self.assertEqual(
            {free: (), pinned: ('ONLY_IN_ZONE',)},
            {each.load_balancer_id: each.blocked_by
             for each in reading.read_situation(
                 self.conf_of_command(), self.engine,
                 target.Targets(self.conf_of_command()),
                 self.active()).candidates})

    def test_refused(self):
        self.add_in('az1')
        for words, argv in (
                ('There is no compute zone az3', self.arguments('az3')),
                ('is over: give another --until', self.arguments(hours=-1)),
                ('is later: give another --until',
                 self.arguments(hours=73)),
                # host1 takes no new instances.
                ('have no place to go to', self.arguments('az2'))):
            self.assertFails(words, *argv)
        self.register(1, 'az1')
        self.assertFails('Only health managers in zone az1 are ONLINE and in '
                         'reach of amphorae (hm1)', *self.arguments())
        self.compute.list_hosts.side_effect = exceptions.CloudUnavailable(
            'Nova does not answer.')
        self.assertFails('Nova does not answer.', *self.arguments())
        self.assertEqual(({}, None), (self.drained(), self.active()))
        self.assertEqual(2, self.run_command('zone', 'drain', 'az1')[0])

    def test_health_managers_that_stay(self):
        """Amphorae of a network of its own may reach no others."""
        self.add_zone('az1', '{"management_network": "network"}')
        self.register(1, 'az1')
        _rows, err = self.drain()
        self.assertIn('leave the list meanwhile: none.', err)
        self.assertEqual({'az1': False}, self.drained())

    def test_release(self):
        """The rollout that runs ends, and another one evens out."""
        conf = self.conf_of_command()
        self.add_in('az1', 'az2')
        self.drain()
        rollout = self.active()
        zone_ends.follow(conf, self.engine)
        self.assertEqual((rollout.id, rollout.version),
                         (self.active().id, self.active().version))
        self.assertIn('is drained', self.run_ok('zone', 'release', 'az1',
                                                '--dry-run'))
        self.assertIn('no longer drained', self.run_ok('zone', 'release',
                                                       'az1'))
        self.assertIn('not drained', self.run_ok('zone', 'release', 'az1'))
        zone_ends.follow(conf, self.engine)
        ended = rollout_repo.get(self.engine, rollout.id)
        self.assertEqual(('CANCELLED', 'zone az1 is no longer drained'),
                         (ended.state, ended.reason))
        zone_ends.follow(conf, self.engine)
        balance = self.active()
        self.assertEqual(('BALANCE', 'no longer drained: az1'),
                         (balance.settings.cause, balance.reason))
        self.assertEqual({}, self.drained())
        # It is not repeated.
        self.run_ok('image', 'rollout', 'cancel')
        zone_ends.follow(conf, self.engine)
        self.assertIsNone(self.active())

    def test_another_rollout_comes_to_its_end(self):
        conf = self.conf_of_command()
        self.drain()
        self.add('old')
        self.assertEqual(0, self.run_command('image', 'rollout', 'start')[0])
        self.run_ok('zone', 'release', 'az1')
        zone_ends.follow(conf, self.engine)
        self.assertEqual('IMAGE', self.active().settings.cause)
        self.run_ok('image', 'rollout', 'cancel')
        zone_ends.follow(conf, self.engine)
        self.assertEqual('BALANCE', self.active().settings.cause)

    def test_balance(self):
        """Which members move, and who is told that none has to."""
        self.add_zone('both', LIST)
        uneven = self.add_in('az1', 'az1', 'az1', provider='amphora_cluster',
                             topology='ACTIVE_ACTIVE',
                             availability_zone='both')
        self.add_in('az1', 'az1', 'az2', provider='amphora_cluster',
                    topology='ACTIVE_ACTIVE', availability_zone='both')
        self.assertEqual([uneven], self.start_plan('--balance'))
        # There is one zone then.
        self.drain()
        self.run_ok('image', 'rollout', 'cancel')
        self.assertNothing('with a compute zone with more amphorae than '
                           'others', '--balance')

    def test_balance_of_a_pair(self):
        """Where Nova had chosen two zones it is told one of them."""
        conf = self.conf_of_command()
        pair = self.add_in('az1', 'az2')
        self.add_in('az2', 'az2')
        self.drain()
        candidate, = reading.read_situation(
            conf, self.engine, target.Targets(conf), self.active()).candidates
        self.assertEqual((pair, True), (candidate.load_balancer_id,
                                        candidate.was_spread))
        claims_repo.begin(self.engine, self.active().id,
                          self.active().version, [replace_repo.New(
                              'one', pair, 'replace', 'new', cause='ZONE',
                              cause_value='az1', was_spread=True)], 'me', 60)
        claims_repo.finish(self.engine, 'one', 'me', 'DONE')
        for row in self.amphorae(pair):
            self.records.change('amphora', row['id'], cached_zone='az2')
        self.run_ok('zone', 'release', 'az1')
        zone_ends.follow(conf, self.engine)
        zone_ends.follow(conf, self.engine)
        self.assertEqual('BALANCE', self.active().settings.cause)
        self.run_ok('rollout', 'cancel')
        # host1 takes no new instances.
        self.assertNothing('with a compute zone with more amphorae than '
                           'others', '--balance')
        self.compute.list_hosts.return_value = [
            compute.Host(name, zone=zone) for name, zone in (
                ('host1', 'az1'), ('host2', 'az2'))]
        self.assertEqual([pair], self.start_plan('--balance'))

    def test_failovers_even_out_nothing(self):
        self.assertFails('without --mode failover', 'rollout', 'start',
                         '--balance', '--mode', 'failover')
