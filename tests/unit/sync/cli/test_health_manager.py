# SPDX-License-Identifier: Apache-2.0

"""drain, resume, delete, and what they need to know."""

import re

from oslo_db import exception as db_exc

from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import drain
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.rules import adoption
from tests.unit.cli import base

OLD = ('192.0.2.101:5555', '192.0.2.102:5555')
NEW = ('192.0.2.102:5555',)
DRAINING = OLD[0]


class TestHealthManager(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.register('hm1', 101)
        self.register('hm2', 102)

    def register(self, host, number, instance='first'):
        hm_repo.register(self.engine, host, f'192.0.2.{number}', 5555,
                         instance, 20)

    def silence(self, host):
        self.make_older(models.HealthManager, 'keepalive_at', 21, host=host)

    def status(self, host):
        return {r['host']: r['status'] for r in self.run_json(
            'health', 'manager', 'list')}.get(host)

    def test_whose_key_it_has(self):
        for number, (listening, configured) in enumerate(
                (('old', 'old'), ('new', 'new'), ('old', 'new'),
                 (None, None)), 1):
            hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                             5555, 'instance', 20, listening,
                             configured_key_digest=configured)

        def keys():
            return [row['key'] for row in self.run_json('health', 'manager',
                                                        'list')]

        self.assertEqual([None, None, 'RESTART', None], keys())
        generation_repo.publish(self.engine, 1, {'192.0.2.1:5555': 0}, '',
                                'here', key_digest='old')
        self.assertEqual(['SAME', 'OTHER', 'RESTART', None], keys())
        self.assertEqual('OTHER', self.run_json(
            'health', 'manager', 'show', 'hm2')['key'])

    def test_drain_and_resume(self):
        for verb, status in (('drain', 'DRAINING'), ('resume', 'ONLINE')):
            for already in ('', ' already'):
                self.assertEqual(
                    f'Health manager hm1 at 192.0.2.101:5555 is {status}'
                    f'{already}.\n',
                    self.run_ok('health', 'manager', verb, 'hm1'))
                self.assertEqual(status, self.status('hm1'))

    def test_stays_draining_until_it_ends(self):
        self.run_ok('health', 'manager', 'drain', 'hm1')
        # What it writes itself does not end it, whatever it has to write.
        self.assertTrue(hm_repo.touch(self.engine, 'hm1', 'first',
                                      '192.0.2.101', 5555, 20))
        self.register('hm1', 101)
        self.assertEqual('DRAINING', self.status('hm1'))
        self.register('hm1', 101, 'second')
        self.assertEqual('ONLINE', self.status('hm1'))

    def test_dry_runs(self):
        def run(verb, host='hm1'):
            return self.run_ok('health', 'manager', verb, host, '--dry-run')

        self.assertIn('can be drained', run('drain'))
        self.assertEqual('ONLINE', self.status('hm1'))
        self.run_ok('health', 'manager', 'drain', 'hm1')
        self.assertIn('can be resumed', run('resume'))
        self.assertEqual('DRAINING', self.status('hm1'))
        self.assertFails('Only health manager hm2', 'health', 'manager',
                         'drain', 'hm2', '--dry-run')
        self.assertFails('is alive', 'health', 'manager', 'delete', 'hm2',
                         '--dry-run')
        self.silence('hm2')
        self.assertIn('can be deleted', run('delete', 'hm2'))
        self.assertEqual('OFFLINE', self.status('hm2'))

    def test_not_the_last_one(self):
        self.run_ok('health', 'manager', 'drain', 'hm1')
        self.assertFails('Only health manager hm2 is ONLINE', 'health',
                         'manager', 'drain', 'hm2')
        self.assertEqual('ONLINE', self.status('hm2'))

    def test_not_the_last_one_of_a_zone(self):
        """Also if others have none: whether they are reached is not known."""
        hm_repo.register(self.engine, 'hm3', '192.0.2.3', 5555, 'i', 20,
                         zone='edge')
        self.assertFails('ONLINE in zone edge', 'health', 'manager', 'drain',
                         'hm3')
        self.assertEqual('ONLINE', self.status('hm3'))
        self.run_ok('health', 'manager', 'drain', 'hm1')
        self.assertFails('ONLINE without a zone', 'health', 'manager',
                         'drain', 'hm2')
        hm_repo.register(self.engine, 'hm4', '192.0.2.4', 5555, 'i', 20,
                         zone='edge')
        self.run_ok('health', 'manager', 'drain', 'hm3')

    def test_not_the_last_one_in_a_network(self):
        def move(host, number):
            hm_repo.register(
                self.engine, host, f'192.0.2.{number}', 5555, 'i', 20,
                further={'198.51.100.0/24': f'198.51.100.{number}'})
        move('hm1', 101)
        self.assertEqual(
            ['198.51.100.101:5555', None], [
                row['further_addresses'] for row in self.run_json(
                    'health', 'manager', 'list', '--long')])
        self.assertEqual('198.51.100.101:5555', self.run_json(
            'health', 'manager', 'show', 'hm1')['further_addresses'])
        command = 'health', 'manager', 'drain', 'hm1'
        self.assertFails('ONLINE in zone 198.51.100.0/24', *command)
        # Another has it as its own address by now.
        hm_repo.register(self.engine, 'hm3', '198.51.100.103', 5555, 'i', 20)
        self.run_ok(*command)
        move('hm2', 102)
        self.assertFails('ONLINE without a zone', 'health', 'manager',
                         'drain', 'hm2')

    def test_delete_one_with_two_addresses(self):
        hm_repo.register(
            self.engine, 'hm1', '192.0.2.101', 5555, 'i', 20,
            further={'198.51.100.0/24': '198.51.100.101'})
        self.silence('hm1')
        self.run_ok('health', 'manager', 'delete', 'hm1')
        self.assertEqual({'192.0.2.101:5555', '198.51.100.101:5555'},
                         left_repo.get_all(self.engine))

    def test_two_drain_at_once(self):
        """Each was allowed to while the other one was ONLINE."""
        for host in ('hm1', 'hm2'):
            drain.check(self.engine, host, 20)
        drain.begin(self.engine, 'hm1', 20)
        for _ in range(2):
            e = self.assertRaises(exceptions.NotPossible, drain.begin,
                                  self.engine, 'hm2', 20)
            self.assertIn('Only health manager hm2', str(e))
            # Again does no harm.
            drain.begin(self.engine, 'hm1', 20)
        self.assertEqual(['DRAINING', 'ONLINE'],
                         [self.status(host) for host in ('hm1', 'hm2')])

    def test_offline(self):
        self.silence('hm1')
        self.assertFails('nothing to drain', 'health', 'manager', 'drain',
                         'hm1')
        self.assertFails('start octavia-health-manager', 'health', 'manager',
                         'resume', 'hm1')

    def test_delete(self):
        self.assertFails('is alive', 'health', 'manager', 'delete', 'hm1')
        self.run_ok('health', 'manager', 'drain', 'hm1')
        self.assertFails('is alive', 'health', 'manager', 'delete', 'hm1')
        self.silence('hm1')
        self.run_ok('health', 'manager', 'delete', 'hm1')
        self.assertIsNone(self.status('hm1'))
        hm_repo.set_offline(self.engine, 'hm2', 'first')
        self.run_ok('health', 'manager', 'delete', 'hm2')

    def test_delete_one_that_is_pinned(self):
        for host in ('hm1', 'hm2'):
            self.silence(host)
        keeper_repo.touch(self.engine, 'keeper1', [OLD[0]])
        for options in (['--dry-run'], []):
            command = ('health', 'manager', 'delete', *options)
            self.assertIn('192.0.2.101:5555 is in the controller_ip_port_list',
                          self.run_ok(*command, 'hm1'))
            self.assertNotIn('octavia.conf', self.run_ok(*command, 'hm2'))
        self.assertEqual(set(OLD), left_repo.get_all(self.engine))

    def test_keepalive_in_the_moment_of_the_deletion(self):
        self.silence('hm1')
        row, _member = drain.find(self.engine, 'hm1')
        self.register('hm1', 101)
        self.assertFalse(hm_repo.delete(self.engine, 'hm1',
                                        row.keepalive_at))

    def test_unknown(self):
        for verb in ('drain', 'resume', 'delete'):
            self.assertFails('There is no health manager hm9. Registered '
                             'are: hm1, hm2.', 'health', 'manager', verb,
                             'hm9')

    def test_wait(self):
        amphora_id = self.add_amphorae(1)[0]
        code, out, err = self.run_command(
            'health', 'manager', 'drain', 'hm1', '--wait', '--timeout', '0')
        self.assertEqual(1, code)
        self.assertIn(f' amphora {amphora_id} does not have the new list '
                      f'yet\n', out)
        self.assertIn(' drain of hm1: 0 of 1 amphorae, 1 do not have the new '
                      'list yet\n', out)
        self.assertIn('1 amphora may still send to hm1', err)
        self.records.set_status(amphora_id, 'DELETED')
        self.assertIn('No amphora sends to hm1 any more', self.run_ok(
            'health', 'manager', 'drain', 'hm1', '--wait'))

    def test_many_senders(self):
        """Five are named, by their load balancers; the worst come first."""
        lb = self.records.add_load_balancer()
        ids = sorted(self.records.add_amphora(f'192.0.2.{n}', lb)
                     for n in range(20, 40))
        found = dict.fromkeys(ids, adoption.Standing.MAY_SEND)
        found[ids[-1]] = adoption.Standing.SENDS
        look = drain.DrainWatch.get_senders

        def get_senders(watch):
            look(watch)
            return found

        self.patch(drain.DrainWatch, 'get_senders', get_senders)
        code, out, err = self.run_command(
            'health', 'manager', 'drain', 'hm1', '--wait', '--timeout', '0')
        self.assertEqual((1, 1), (code, err.count('\n')), err)
        self.assertIn(' drain of hm1: 0 of 20 amphorae, 1 have the new list '
                      'and do not use it, 19 were not seen to use it yet\n',
                      out)
        named = re.findall(rf'amphora (\S+) of lb-{lb[:8]} {lb} ', out)
        self.assertEqual([ids[-1], *ids[:4]], named)
        self.assertIn('and 15 more: see "octavia-hmsync amphora list"', out)

    def test_this_host(self):
        """For a hook that does not know the name."""
        self.register('controller1', 103)
        self.assertIn('controller1 at 192.0.2.103:5555 can be drained',
                      self.run_ok('health', 'manager', 'drain', '--self',
                                  '--dry-run'))
        self.run_ok('health', 'manager', 'drain', '--self')
        self.assertEqual(['DRAINING', 'ONLINE'], [
            self.status(host) for host in ('controller1', 'hm1')])
        self.run_ok('health', 'manager', 'resume', '--self')
        self.assertEqual('ONLINE', self.status('controller1'))
        for argv in (['drain'], ['drain', 'hm1', '--self'], ['resume'],
                     ['delete', '--self'], ['delete']):
            self.assertEqual(2, self.run_command('health', 'manager',
                                                 *argv)[0], argv)
        self.conf_path = self.write_conf(DEFAULT={'host': 'controller9'})
        self.assertFails('There is no health manager controller9', 'health',
                         'manager', 'drain', '--self')

    def test_timeout_without_wait(self):
        """It would be for nothing, and look as if it had been waited for."""
        for value in ('60', '0'):
            code, out, err = self.run_command(
                'health', 'manager', 'drain', 'hm1', '--timeout', value)
            self.assertEqual((2, ''), (code, out))
            self.assertIn('error: argument --timeout: needs --wait\n', err)
        self.assertEqual('ONLINE', self.status('hm1'))

    def test_delete_several(self):
        self.register('hm3', 103)
        for host in ('hm1', 'hm3'):
            self.silence(host)
        argv = ('health', 'manager', 'delete')
        for options, done in ((['--dry-run'], 'can be'), ([], 'is')):
            code, out, err = self.run_command(
                *argv, 'hm1', 'hm2', 'hm1', 'nobody', 'hm3', *options)
            self.assertEqual(1, code)
            self.assertEqual([f'Health manager {host} {done} deleted.'
                              for host in ('hm1', 'hm3')], out.splitlines())
            self.assertRegex(
                err, '^Health manager hm2 is alive .*\n'
                     'There is no health manager nobody.*\n'
                     '2 of 4 health managers cannot be deleted: hm2, '
                     'nobody\\.\n$')
        self.assertEqual([None, 'ONLINE', None], [
            self.status(host) for host in ('hm1', 'hm2', 'hm3')])
        self.silence('hm2')
        self.register('hm4', 104)
        self.silence('hm4')
        self.assertEqual(2, self.run_ok(*argv, 'hm2', 'hm4').count('deleted'))

    def test_bad_timeout(self):
        for value in ('-1', 'x'):
            code, _out, err = self.run_command(
                'health', 'manager', 'drain', 'hm1', f'--timeout={value}')
            self.assertEqual(2, code)
            self.assertIn(f"--timeout: '{value}' is not a time in seconds",
                          err)

    def test_database_goes_away_while_it_waits(self):
        """It is no sign that nobody sends there."""
        amphora_id = self.add_amphorae(1)[0]
        look = drain.DrainWatch.get_senders
        looks = []

        def get_senders(watch):
            looks.append(watch)
            if len(looks) < 4:
                raise db_exc.DBConnectionError(Exception('it has gone away'))
            self.records.set_status(amphora_id, 'DELETED')
            return look(watch)

        self.patch(drain.DrainWatch, 'get_senders', get_senders)
        self.conf_path = self.write_conf(hmsync={'poll_interval': 1})
        argv = ('health', 'manager', 'drain', 'hm1', '--wait', '--timeout')
        code, out, err = self.run_command(*argv, '0')
        self.assertEqual(1, code)
        self.assertIn('it has gone away', out)
        self.assertIn('After 0 s it cannot be told', err)
        self.assertNotIn('No amphora', out)
        code, out, err = self.run_command(*argv, '60')
        # It has looked in vain twice.
        self.assertEqual((0, 1), (code, out.count('it has gone away')), err)
        self.assertIn('No amphora sends to hm1 any more', out)


class TestDrainWatch(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.now = 0
        self.amphora_id = self.add_amphorae(1)[0]
        self.records.set_health(self.amphora_id)
        amphora_repo.add_missing(self.engine)
        self.number = 0
        self.watch = drain.DrainWatch(self.conf, self.engine, [DRAINING],
                                      clock=lambda: self.now)

    def upload(self, addresses):
        self.number += 1
        claim_repo.claim_due(self.engine, self.number, 'batch', 10, 60)
        outcome_repo.record(self.engine, self.number, 'batch', [
            outcome_repo.Outcome(self.amphora_id, 'APPLIED', addresses)])

    def adopt(self):
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine), OLD[1])

    def age(self, seconds):
        self.make_older(models.Amphora, 'applied_at', seconds)

    def sender(self):
        return self.watch.get_senders().get(self.amphora_id)

    def test_until_it_is_proven(self):
        self.assertEqual(adoption.Standing.HAS_IT, self.sender())
        self.upload(OLD)
        self.adopt()
        self.assertEqual(adoption.Standing.HAS_IT, self.sender())
        self.upload(NEW)
        self.assertEqual(adoption.Standing.MAY_SEND, self.sender())
        self.adopt()
        self.assertIsNone(self.sender())

    def test_never_had_it(self):
        self.upload(('192.0.2.103:5555',))
        self.adopt()
        self.upload(NEW)
        self.assertIsNone(self.sender())

    def test_not_heard_there_any_more(self):
        """Without listeners there is no proof; silence will do."""
        self.upload(OLD)
        self.adopt()
        self.upload(NEW)
        self.age(79)
        self.assertEqual(adoption.Standing.MAY_SEND, self.sender())
        self.age(81)
        self.assertIsNone(self.sender())

    def test_still_heard_there(self):
        self.upload(OLD)
        self.adopt()
        self.upload(NEW)
        self.age(600)
        heartbeat_repo.note_heartbeat(self.engine, self.amphora_id, DRAINING)
        self.assertEqual(adoption.Standing.SENDS, self.sender())
        # Until its agent restarts, for example.
        self.make_older(models.Heartbeat, 'heard_at', 81)
        self.assertIsNone(self.sender())

    def test_dead_amphora_is_not_waited_for(self):
        self.upload(OLD)
        self.assertEqual(adoption.Standing.HAS_IT, self.sender())
        self.now += 60
        self.records.set_health(self.amphora_id, age=1)
        self.assertEqual(adoption.Standing.HAS_IT, self.sender())
        self.now += 61
        self.assertIsNone(self.sender())


class TestRetry(base.CommandTestCase):

    def test_retry(self):
        self.assertIn('No address is left out', self.run_ok('sync', 'retry'))
        generation_repo.publish(self.engine, 1, {OLD[0]: 0}, 'x', 'c', 'OPEN')
        generation_repo.publish(self.engine, 2, dict(zip(OLD, (0, 1))), 'x',
                                'c', 'CANARY')
        generation_repo.roll_back(self.engine, 2, OLD[1:], {OLD[0]: 0}, 'x',
                                  'c')
        status = self.run_json('sync', 'status')
        self.assertEqual((3, 'OPEN', [OLD[1]]), (
            status['generation'], status['status'], status['suspects']))
        self.assertIn(OLD[1], self.run_ok('sync', 'retry'))
        self.assertEqual([], self.run_json('sync', 'status')['suspects'])
