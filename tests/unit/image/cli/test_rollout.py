# SPDX-License-Identifier: Apache-2.0

import datetime
import json
import time
from unittest import mock

from keystoneauth1 import exceptions as ks_exc
from oslo_utils import timeutils

from octavia_hmsync.cli import progress
from octavia_hmsync.db import models
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import reading
from octavia_hmsync.image.rollout import rules
from octavia_hmsync.image import target
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from tests.cloud import records
from tests.unit.image.cli import test_image


class TestExclusions(test_image.ImageTestCase):

    def list(self):
        return self.run_json('image', 'exclusion', 'list', '--long')

    def add(self, *argv):
        return self.run_ok('image', 'exclusion', 'add', *argv)

    def remove(self, *argv):
        return self.run_ok('image', 'exclusion', 'remove', *argv)

    def test_each_kind(self):
        """By its name or its id; what it leaves alone is counted."""
        lb_id = self.add_load_balancer()
        flavor = self.records.add_flavor()
        self.records.change('flavor', flavor, name='gold')
        self.records.change('load_balancer', lb_id, flavor_id=flavor)
        self.add_zone('az1', '{}')
        self.neutron.identity.projects['a1'] = 'shop'
        for kind, value, now in (
                ('load-balancer', 'web', '1 load balancer'),
                ('project', 'demo', '1 load balancer'),
                ('project', 'shop', 'no load balancer'),
                ('tag', 'fragile', 'no load balancer'),
                ('flavor', 'gold', '1 load balancer'),
                ('zone', 'az1', 'no load balancer')):
            self.assertIn(f'alone from now on: {now} at present.', self.add(
                kind, value, '--reason', 'because'))
        self.assertEqual(
            [(flavor, 'FLAVOR', 'gold', 1), (lb_id, 'LOAD_BALANCER', 'web',
                                             1),
             ('a1', 'PROJECT', 'shop', 0), ('demo', 'PROJECT', None, 1),
             ('fragile', 'TAG', None, 0), ('az1', 'ZONE', None, 0)],
            [tuple(row.values())[:4] for row in self.list()])
        self.assertEqual({'because'}, {row['reason'] for row in self.list()})
        self.assertIn('alone already: 1', self.add('flavor', 'gold',
                                                   '--reason', 'because'))
        # Keystone is not asked for what a load balancer has.
        self.assertEqual(['shop'], self.neutron.identity.asked)
        for kind, value in (('flavor', 'gold'), ('project', 'a1'),
                            ('load-balancer', 'web')):
            self.assertIn('Rollouts no longer leave',
                          self.remove(kind, value))

    def test_keystone_does_not_answer(self):
        """An id is taken at its word, a name is not."""
        self.neutron.identity.error = ks_exc.ConnectFailure('down')
        project = 32 * 'a'
        self.assertIn('no load balancer', self.add(
            'project', project, '--reason', 'because'))
        self.assertFails('Could not find the project shop: down', 'image',
                         'exclusion', 'add', 'project', 'shop', '--reason',
                         'because')

    def add_load_balancer(self):
        return test_image.ImageTestCase.add(self, 'old', name='web')

    def test_end(self):
        self.add('tag', 'fragile', '--reason', 'because', '--for', '60')
        row, = self.run_json('image', 'exclusion', 'list', '--long')
        self.assertGreater(row['expires_at'], row['created_at'])
        self.make_older(models.ImageExclusion, 'expires_at', 1)
        self.assertEqual([], self.list())

    def test_dry_run(self):
        argv = ('tag', 'fragile')
        self.assertIn('would leave tag fragile alone: no load', self.add(
            *argv, '--reason', 'because', '--dry-run'))
        self.assertEqual([], self.list())
        self.add(*argv, '--reason', 'because')
        self.assertIn('Rollouts would no longer leave tag fragile alone',
                      self.remove(*argv, '--dry-run'))
        self.assertEqual(1, len(self.list()))

    def test_remove(self):
        lb_id = self.add_load_balancer()
        for value in ('web', lb_id):
            self.add('load-balancer', lb_id, '--reason', 'because')
            self.assertIn('no longer leave',
                          self.remove('load-balancer', value))
            self.assertEqual([], self.list())
            # To do it twice does no harm.
            self.assertEqual(
                f'There is no exclusion of load-balancer {value}.\n',
                self.remove('load-balancer', value))
        # One that is deleted has no name any more.
        self.add('load-balancer', lb_id, '--reason', 'because')
        self.records.change('load_balancer', lb_id,
                            provisioning_status='DELETED')
        self.remove('load-balancer', lb_id)

    def test_two_of_one_name(self):
        ids = sorted(self.add_load_balancer() for _ in range(2))
        for lb_id in ids:
            self.add('load-balancer', lb_id, '--reason', 'because')
        self.assertFails(f'give the id of one, {", ".join(ids)}', 'image',
                         'exclusion', 'remove', 'load-balancer', 'web')

    def test_refused(self):
        for words, argv in (
                ('There is no load balancer none:',
                 ('add', 'load-balancer', 'none', '--reason', 'because',
                  '--dry-run')),
                ('There is no load balancer none:',
                 ('add', 'load-balancer', 'none', '--reason', 'because')),
                ('There is no flavor none: see',
                 ('add', 'flavor', 'none', '--reason', 'because')),
                ('There is no availability zone none of Octavia: see',
                 ('add', 'zone', 'none', '--reason', 'because')),
                ('There is no project none: see "openstack project list"',
                 ('add', 'project', 'none', '--reason', 'because')),
                ('An exclusion has a value of 1 to 255 characters',
                 ('add', 'tag', 'a' * 256, '--reason', 'because')),
                ('An exclusion has a value of 1 to 255 characters',
                 ('add', 'tag', '', '--reason', 'because'))):
            self.assertFails(words, 'image', 'exclusion', *argv)
        self.assertEqual([], self.list())
        for argv in (('add', 'tag', 'fragile'), ('add', 'colour', 'red')):
            self.assertEqual(2, self.run_command('image', 'exclusion',
                                                 *argv)[0])


class RolloutTestCase(test_image.ImageTestCase):

    def setUp(self):
        super().setUp()
        keeper_repo.touch(self.engine, 'keeper', ())

    def rollout(self, *argv):
        return self.run_ok('image', 'rollout', *argv)

    def start(self, *argv):
        code, out, err = self.run_command('image', 'rollout', 'start', *argv,
                                          '-f', 'value', '-c', 'id',
                                          '-c', 'loadbalancers')
        self.assertEqual(0, code, err)
        return out, err

    def show(self, *argv):
        return self.run_json('image', 'rollout', 'show', *argv)

    def begin(self, lb_id, phase=None):
        active = rollout_repo.get_active(self.engine)
        claims_repo.begin(
            self.engine, active.id, active.version,
            [replace_repo.New('replacement', lb_id, 'replace', 'new')],
            'one', 60)
        if phase:
            claims_repo.set_phase(self.engine, 'replacement', 'one', 60,
                                  phase)


class TestStart(RolloutTestCase):

    def plan(self, *argv):
        code, out, self.err = self.run_command(
            'image', 'rollout', 'start', '--dry-run', '--long', *argv, '-f',
            'json')
        self.assertEqual(0, code, self.err)
        return json.loads(out)

    def run_json_of_start(self, *argv):
        code, out, err = self.run_command('image', 'rollout', 'start', *argv,
                                          '-f', 'json')
        self.assertEqual(0, code, err)
        return json.loads(out)

    def test_dry_run(self):
        self.add('new')
        old = sorted(self.add('old') for _ in range(3))
        pair = self.add('old', 'new')
        broken = self.add('old', provisioning_status='ERROR')
        busy = self.add('old', provisioning_status='PENDING_UPDATE',
                        availability_zone='az1')
        flavor = self.records.add_flavor()
        self.records.change('flavor', flavor, name='gold')
        excluded = self.add('old', name='bank', flavor_id=flavor)
        self.run_ok('image', 'exclusion', 'add', 'flavor', 'gold',
                    '--reason', 'vendor freeze')
        found = self.plan('--parallel', '9')
        self.assertEqual(
            {(1, True, old[0], None), (1, True, pair, None),
             (1, True, busy, 'PENDING'), (2, False, old[1], None),
             (2, False, old[2], None), (None, False, broken, 'ERROR'),
             (None, False, excluded,
              f'excluded by flavor gold ({flavor}): vendor freeze')},
            {(row['wave'], row['canary'], row['loadbalancer_id'],
              row['left_out_by']) for row in found})
        self.assertEqual(['bank'], [row['name'] for row in found
                                    if row['loadbalancer_id'] == excluded])
        self.assertEqual(('SINGLE', None, None, 'new'), next(
            tuple(row.values())[5:] for row in found
            if row['loadbalancer_id'] == old[0]))
        self.assertEqual(
            ['wave', 'loadbalancer_id', 'name', 'left_out_by'],
            list(self.run_json_of_start('--dry-run')[0]))
        self.assertIn('5 load balancers, 3 of them canaries, in 2 waves: at '
                      'least 10 min, with no time for each', self.err)
        self.assertEqual(5, len({row['wave'] for row in self.plan()} -
                                {None}))
        # The first, the next one an hour later, and so on.
        self.plan('--rate-per-hour', '1', '--watch-time', '0')
        self.assertIn('in 5 waves: at least 4 h', self.err)
        self.assertIsNone(rollout_repo.get_active(self.engine))

    def test_starts(self):
        self.add('old')
        out, err = self.start('--parallel', '3', '--windows', 'Sat 01:00-'
                              '05:00', '--reason', 'CVE')
        active = rollout_repo.get_active(self.engine)
        self.assertEqual(f'{active.id} 1\n', out)
        self.assertEqual(f'Rollout {active.id} runs.',
                         err.splitlines()[-1])
        self.assertEqual(('CVE', rollout_repo.Settings(
            'replace', 1, 3, 0, 0, 1, 'Sat 01:00-05:00', 300)),
            (active.reason, active.settings))
        for more in ((), ('--dry-run',)):
            self.assertFails(f'There is a rollout that has not ended, '
                             f'{active.id}, which is RUNNING:', 'image',
                             'rollout', 'start', *more)
            code, _out, err = self.run_command(
                'image', 'rollout', 'start', '--parallel', '3', '--windows',
                'Sat 01:00-05:00', *more)
            self.assertEqual((0, f'Rollout {active.id} is RUNNING '
                                 f'already.\n'), (code, err))

    def test_nobody_is_outdated(self):
        self.add('new')
        code, _out, err = self.run_command('image', 'rollout', 'start')
        self.assertEqual(0, code)
        self.assertIn('No load balancer is outdated', err)
        self.add('old', provisioning_status='ERROR')
        self.assertFails('No load balancer is outdated', 'image', 'rollout',
                         'start')

    def test_time_of_the_last_ones(self):
        self.add('old', 'old')
        self.start()
        self.begin('other')
        claims_repo.finish(self.engine, 'replacement', 'one', 'DONE')
        self.make_older(models.ImageReplacement, 'started_at', 100)
        self.run_ok('image', 'rollout', 'cancel')
        self.plan()
        self.assertRegex(self.err, 'at least 7 min, with the 10. s that')

    def test_more_than_housekeepers_do(self):
        """Four each: what is allowed beyond that is nobody's."""
        for _ in range(8):
            self.add('old')
        self.start('--windows', 'Sat 01:00-05:00')
        self.begin('other')
        claims_repo.finish(self.engine, 'replacement', 'one', 'DONE')
        self.make_older(models.ImageReplacement, 'started_at', 100)
        self.run_ok('image', 'rollout', 'cancel')
        argv = ('--parallel', '8', '--canaries', '0', '--watch-time', '0')
        said = '--parallel allows 8 at once, but the octavia-housekeeping '\
            'services that are up replace 4'
        self.plan(*argv)
        self.assertIn(said, self.err)
        self.assertIn('at least 4 min', self.err)
        keeper_repo.touch(self.engine, 'another keeper', ())
        self.plan(*argv)
        self.assertNotIn('are replaced at once', self.err)
        self.assertIn('at least 100 s', self.err)
        self.make_older(models.HouseKeeper, 'keepalive_at', 100000,
                        host='another keeper')
        _out, err = self.start(*argv)
        self.assertIn(said, err)
        found = self.show()
        self.assertEqual((8, 4), (found['parallel'], found['at_once']))

    def test_only_failover(self):
        """Make before break is not for each one."""
        lb_id = self.add('old')
        self.records.insert_all({'listener': [{
            **records.listener_row('listener', lb_id), 'protocol': 'SCTP'}]})
        self.assertFails('No load balancer is outdated', 'image', 'rollout',
                         'start')
        self.add('old')
        self.assertEqual({(lb_id, 'ONLY_FAILOVER')}, {
            (row['loadbalancer_id'], row['left_out_by'])
            for row in self.plan() if row['left_out_by']})
        self.assertEqual([None, None], [
            row['left_out_by'] for row in self.plan('--mode', 'failover')])

    def test_nobody_can_tell(self):
        """A tag with no image, and amphorae of which Octavia has none."""
        flavor = self.records.add_flavor('{"amp_image_tag": "none"}')
        found = {self.add('old', flavor_id=flavor): 'NO_IMAGE',
                 self.add(None): 'NO_IMAGE_ID'}
        code, out, err = self.run_command('image', 'rollout', 'start')
        self.assertEqual((1, '', 3), (code, out, err.count('\n')))
        for words in ('outdated: 1. No image has the tag none and is active',
                      'outdated: 1. Octavia has no image_id of',
                      'No load balancer is outdated that a rollout'):
            self.assertIn(words, err)
        self.add('old')
        self.assertEqual(found, {
            row['loadbalancer_id']: row['left_out_by']
            for row in self.plan() if row['left_out_by']})

    def test_nobody_replaces(self):
        self.add('old')
        self.make_older(models.HouseKeeper, 'keepalive_at', 100000)
        self.assertFails('no amphora would be replaced: start one',
                         'image', 'rollout', 'start')

    def test_image_service_down(self):
        self.add('old')
        self.images.images['amphora'] = ValueError('no answer')
        self.assertFails('image service cannot be asked', 'image', 'rollout',
                         'start')

    def test_refused(self):
        self.add('old')
        for words, argv in (
                ("The maintenance window 'Sat' cannot be read",
                 ('--windows', 'Sat')),
                ("The maintenance window '05:00-05:00' never opens",
                 ('--windows', '05:00-05:00')),
                ('With --parallel 0 nothing', ('--parallel', '0')),
                ('With --max-failures 0', ('--max-failures', '0'))):
            for more in ((), ('--dry-run',)):
                self.assertFails(words, 'image', 'rollout', 'start', *argv,
                                 *more)
        self.assertIsNone(rollout_repo.get_active(self.engine))


class TestOthers(RolloutTestCase):

    def setUp(self):
        super().setUp()
        self.lb_id = self.add('old', name='web')

    def test_none(self):
        for name in ('pause', 'resume', 'cancel'):
            self.assertFails(f'There is no rollout to {name}', 'image',
                             'rollout', name)
        for name in ('show', 'watch'):
            self.assertFails('There was no rollout yet', 'image', 'rollout',
                             name)
        self.assertFails('There is no rollout x:', 'image', 'rollout', 'show',
                         'x')
        self.assertEqual([], self.run_json('image', 'rollout', 'list'))

    def test_states(self):
        self.start()
        active = rollout_repo.get_active(self.engine)
        self.assertIn('is RUNNING already', self.rollout('resume'))
        self.begin(self.lb_id, 'BUILD')
        self.assertIn('1 that run come to their end', self.rollout(
            'pause', '--reason', 'lunch'))
        found = self.show()
        self.assertEqual(('PAUSED', 'lunch', 1, [
            {'loadbalancer_id': self.lb_id, 'name': 'web',
             'phase': 'BUILD'}]), tuple(found[name] for name in (
                 'state', 'reason', 'running', 'running_now')))
        self.assertIn(f' web {self.lb_id}, phase: BUILD ',
                      self.rollout('show'))
        # To do it twice does no harm.
        self.assertIn('is PAUSED already', self.rollout('pause'))
        code, out, err = self.run_command('image', 'rollout', 'pause',
                                          '--wait', '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn(f'Rollout {active.id}: 1 run\n', out)
        self.assertIn('comes to its end: see', err)
        for name, done in (('resume', 'resumed'), ('cancel', 'cancelled')):
            self.assertIn(f'which is PAUSED, can be {done}', self.rollout(
                name, '--dry-run'))
        self.assertIn('goes on', self.rollout('resume'))
        self.assertIn('is cancelled. 1 that run go back, or come to their '
                      'end where there is no way back', self.rollout(
                          'cancel', '--reason', 'enough'))
        self.assertEqual('enough', replace_repo.get(
            self.engine, 'replacement').cancel_requested)
        self.assertIn('is CANCELLED already', self.rollout('cancel'))
        self.assertFails('There is no rollout to pause', 'image', 'rollout',
                         'pause')
        row, = self.run_json('image', 'rollout', 'list')
        self.assertEqual(('CANCELLED', 1, 0), tuple(row.values())[1:4])
        row, = self.run_json('image', 'rollout', 'list', '--long')
        self.assertEqual(('replace', 'enough'), (row['mode'], row['reason']))
        self.assertEqual('CANCELLED', self.show(row['id'])['state'])

    def test_who_is_left(self):
        """Who was refused, is tried again, was given up, is watched."""
        self.start()
        for number, (lb_id, state) in enumerate((
                ('refused', 'REFUSED'), ('again', 'SKIPPED'),
                ('again', 'SKIPPED'), ('done', 'DONE'),
                *[('never', 'SKIPPED')] * 8)):
            active = rollout_repo.get_active(self.engine)
            claims_repo.begin(
                self.engine, active.id, active.version,
                [replace_repo.New(f'r{number}', lb_id, 'replace', 'new')],
                'one', 60)
            claims_repo.finish(self.engine, f'r{number}', 'one', state,
                               'because', 60 if lb_id == 'again' else None)
        found = self.show()

        def of(name, **values):
            return [{'loadbalancer_id': name, 'name': None, **values}]

        self.assertEqual(of('refused', reason='because'), found['refusals'])
        at = found['tried_again'][0]['not_before']
        self.assertRegex(at, '^20')
        self.assertEqual(of('again', reason='because', tries=2,
                            not_before=at), found['tried_again'])
        self.assertEqual(of('never', reason='because'), found['given_up'])
        at = found['watched_now'][0]['until']
        self.assertEqual(of('done', until=at), found['watched_now'])
        self.assertIn('1 that are done are watched', found['waits_for'])

    def test_watch(self):
        self.start()
        self.begin(self.lb_id, 'BUILD')
        code, out, err = self.run_command('image', 'rollout', 'watch',
                                          '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn('has not ended', err)
        self.assertIn(f' web {self.lb_id}: BUILD\n', out)
        self.assertIn(' rollout: 0 of 1 load balancers, 1 running\n', out)
        self.assertNotIn('Nothing begins', out)
        claims_repo.finish(self.engine, 'replacement', 'one', 'FAILED',
                           'no heartbeat')
        active = rollout_repo.get_active(self.engine)
        rollout_repo.end(self.engine, active.id, active.version, 'HALTED',
                         '1 failed')
        code, out, err = self.run_command('image', 'rollout', 'watch')
        self.assertEqual(1, code)
        self.assertIn('is HALTED', err)
        self.assertIn(f' web {self.lb_id}: FAILED (no heartbeat)\n', out)
        self.assertEqual(['no heartbeat'], [
            each['reason'] for each in self.show()['failures']])

    def test_how_far_it_is(self):
        """Of 30: 7 done, one failed and one running, and 21 left."""
        ids = [self.lb_id, *(self.add('old') for _ in range(29))]
        self.start('--max-failures', '9', '--parallel', '9', '--canaries',
                   '0', '--watch-time', '0')
        active = rollout_repo.get_active(self.engine)
        claims_repo.begin(
            self.engine, active.id, active.version,
            [replace_repo.New(lb_id, lb_id, 'replace', 'new')
             for lb_id in ids[:9]], 'one', 60)
        for lb_id in ids[:7]:
            claims_repo.finish(self.engine, lb_id, 'one', 'DONE')
            for row in self.records.rows('amphora'):
                if row['load_balancer_id'] == lb_id:
                    self.records.change('amphora', row['id'],
                                        image_id='new')
        claims_repo.finish(self.engine, ids[7], 'one', 'FAILED', 'no bed')
        self.make_older(models.ImageReplacement, 'started_at', 100)
        self.make_older(models.ImageRollout, 'created_at', 1800)
        found = self.show()
        self.assertEqual((30, 21, 7, 14.0), (
            found['total'], found['left'], found['done'],
            round(found['done_per_hour'])))
        self.assertGreater(found['ends_at'], found['created_at'])
        argv = ('image', 'rollout', 'watch', '--timeout', '0.01')
        code, out, err = self.run_command(*argv)
        self.assertRegex(out, r'rollout: 7 of 30 load balancers, 1[34]\.\d '
                              r'per hour, \d+ min left, 1 running, 1 failed')
        # What is done is not named; nor are, without Glance, those left.
        self.assertNotIn(ids[0], out)
        self.images.images['amphora'] = ValueError('no answer')
        code, out, err = self.run_command(*argv)
        self.assertRegex(out, r'rollout: 7 load balancers, 1[34]\.\d per '
                              r'hour, 1 running, 1 failed\n')
        self.assertIn('How many are left is not known: ', out)
        code, out, err = self.run_command('image', 'rollout', 'show')
        self.assertEqual(0, code)
        self.assertIn('How many are left is not known: ', err)

    def test_what_it_waits_for(self):
        now = timeutils.utcnow()
        later = [(now + datetime.timedelta(hours=n)).strftime('%a %H:00')
                 for n in (3, 4)]
        self.start('--windows', f'{later[0]}-{later[1].split()[1]}')
        waits_for = self.show()['waits_for']
        self.assertRegex(waits_for, 'the maintenance window opens at .*:00 ')
        code, out, err = self.run_command('image', 'rollout', 'watch',
                                          '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn(f'Nothing begins now: {waits_for}\n', out)
        self.rollout('pause')
        self.assertIsNone(self.show()['waits_for'])

    def test_watch_while_nobody_is_up(self):
        self.start()
        self.make_older(models.HouseKeeper, 'keepalive_at', 100000)
        code, out, err = self.run_command('image', 'rollout', 'watch',
                                          '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn('no amphora is replaced', out)

    def test_watch_is_interrupted(self):
        self.start()
        with mock.patch.object(progress, 'time', wraps=time) as clock:
            clock.sleep.side_effect = KeyboardInterrupt
            code, out, err = self.run_command('image', 'rollout', 'watch')
        self.assertEqual(130, code)
        self.assertIn('goes on: see', err)

    def test_start_and_wait(self):
        """Its progress is told on stderr; a program may read stdout."""
        end = iter((('DONE', '1 done'), ('HALTED', '1 failed')))

        def come_to_its_end(_seconds):
            active = rollout_repo.get_active(self.engine)
            rollout_repo.end(self.engine, active.id, active.version,
                             *next(end))

        argv = ('image', 'rollout', 'start', '--wait', '-f', 'json')
        with mock.patch.object(progress, 'time', wraps=time) as clock:
            clock.sleep.side_effect = come_to_its_end
            code, out, err = self.run_command(*argv)
            self.assertEqual(0, code, err)
            row, = json.loads(out)
            self.assertEqual(('DONE', 1), (row['state'],
                                           row['loadbalancers']))
            self.assertIn(': DONE (1 done)\n', err)
            code, out, err = self.run_command(*argv)
        self.assertEqual((1, ''), (code, out))
        self.assertIn('is HALTED', err)
        self.assertEqual(2, self.run_command('image', 'rollout', 'start',
                                             '--timeout', '5')[0])

    def test_watch_to_the_end(self):
        self.start()
        active = rollout_repo.get_active(self.engine)
        rollout_repo.end(self.engine, active.id, 0, 'DONE', '1 done')
        self.assertIn('DONE (1 done)', self.rollout('watch'))


class TestUndo(RolloutTestCase):

    def setUp(self):
        super().setUp()
        self.images.images['amphora'] = 'bad'
        self.lb_ids = sorted(self.add('old') for _ in range(3))
        self.start('--parallel', '3', '--watch-time', '60', '--windows',
                   'Sat 01:00-05:00')
        self.first = rollout_repo.get_active(self.engine).id

    def bring(self, *lb_ids, state='DONE'):
        """Have the first rollout bring load balancers to its image."""
        for lb_id in lb_ids:
            active = rollout_repo.get_active(self.engine)
            claims_repo.begin(
                self.engine, active.id, active.version,
                [replace_repo.New(lb_id, lb_id, 'replace', 'bad')], 'one', 60)
            claims_repo.finish(self.engine, lb_id, 'one', state)
            for row in self.records.rows('amphora'):
                if row['load_balancer_id'] == lb_id:
                    self.records.change('amphora', row['id'], image_id='bad')

    def end(self):
        active = rollout_repo.get_active(self.engine)
        rollout_repo.end(self.engine, active.id, active.version, 'HALTED',
                         '1 failed')

    def undo(self, *argv):
        """Return what it would begin, or the number of what it begins."""
        code, out, err = self.run_command('image', 'rollout', 'undo', *argv,
                                          '-f', 'json')
        self.assertEqual(0, code, err)
        rows = json.loads(out)
        if '--dry-run' not in argv:
            return rows[0]['loadbalancers']
        return [row['loadbalancer_id'] for row in rows
                if row['wave'] is not None]

    def test_undo(self):
        """Those that it has brought, and that still are there."""
        done, failed, left = self.lb_ids
        self.bring(done)
        self.bring(failed, state='FAILED')
        self.add('bad')
        gone = self.add('old')
        self.bring(gone)
        for row in self.records.rows('amphora'):
            if row['load_balancer_id'] == gone:
                self.records.change('amphora', row['id'], image_id='third')
        self.end()
        self.images.images['amphora'] = 'old'
        self.assertEqual([done, failed], self.undo('--dry-run'))
        self.assertIsNone(rollout_repo.get_active(self.engine))
        self.assertEqual(2, self.undo(
            self.first, '--canaries', '0', '--reason', 'it dies'))
        active = rollout_repo.get_active(self.engine)
        self.assertEqual(
            (self.first, 'it dies', rollout_repo.Settings(
                'replace', 0, 3, 0, 0, 1, '', 60)),
            (active.undo_of, active.reason, active.settings))
        self.assertEqual(self.first, self.show()['undo_of'])
        conf = self.make_conf(
            database={'connection': self.database.connection},
            controller_worker={'amp_image_tag': 'amphora'})
        # Housekeeping goes by the same.
        found = reading.read_situation(
            conf, self.engine, target.Targets(conf), active)
        self.assertEqual([done, failed],
                         [c.load_balancer_id for c in found.candidates])

    def test_tag_that_still_gives_it(self):
        self.bring(self.lb_ids[0])
        self.end()
        for more in ((), ('--dry-run',)):
            self.assertFails(
                f'What rollout {self.first} has brought is still the newest '
                f'image: bad by tag amphora. Take the tag off it', 'image',
                'rollout', 'undo', *more)
        self.assertIsNone(rollout_repo.get_active(self.engine))

    def test_nothing_to_undo(self):
        self.end()
        code, _out, err = self.run_command('image', 'rollout', 'undo')
        self.assertEqual(0, code)
        self.assertIn('there is nothing to take back', err)
        self.assertFails('There is no rollout x:', 'image', 'rollout', 'undo',
                         'x')

    def test_one_that_runs(self):
        self.bring(self.lb_ids[0])
        self.assertFails('There is a rollout that has not ended', 'image',
                         'rollout', 'undo')

    def test_last_one_that_is_no_undo(self):
        self.bring(self.lb_ids[0])
        self.end()
        self.images.images['amphora'] = 'old'
        self.undo()
        self.end()
        self.assertEqual([self.lb_ids[0]], self.undo('--dry-run'))


class TestReading(RolloutTestCase):
    """What decides, from the rows."""

    def situation(self):
        conf = self.make_conf(
            database={'connection': self.database.connection},
            controller_worker={'amp_image_tag': 'amphora'})
        return reading.read_situation(
            conf, self.engine, target.Targets(conf),
            rollout_repo.get_active(self.engine))

    def decide(self):
        decision = rules.decide(self.situation())
        return (decision.state, decision.reason,
                [c.load_balancer_id for c, _ in decision.chosen])

    def test_decides(self):
        first, second = sorted(self.add('old') for _ in range(2))
        self.start()
        self.assertEqual(('RUNNING', '', [first]), self.decide())
        self.run_ok('image', 'exclusion', 'add', 'load-balancer', first,
                    '--reason', 'because')
        self.assertEqual(('RUNNING', '', [second]), self.decide())
        replace_repo.add(self.engine, replace_repo.New(
            'own', second, 'replace', 'new'))
        self.assertEqual([], self.decide()[-1])
        cancel_repo.cancel(self.engine, 'own', 'because')
        self.begin(second)
        self.assertEqual('RUNNING', self.decide()[0])
        claims_repo.finish(self.engine, 'replacement', 'one', 'FAILED')
        self.assertEqual(('HALTED', f'1 failed: {second}', []),
                         self.decide())

    def test_stuck(self):
        """What is PENDING for too long keeps no rollout from its end."""
        lb_id = self.add('old')
        self.start()
        self.records.change('load_balancer', lb_id,
                            provisioning_status='PENDING_UPDATE',
                            updated_at=records.utcnow())
        self.assertEqual('RUNNING', self.decide()[0])
        self.records.change(
            'load_balancer', lb_id,
            updated_at=records.utcnow() - datetime.timedelta(hours=2))
        self.assertEqual(('DONE', f'0 done, 1 blocked ({lb_id})', []),
                         self.decide())

    def test_number_of_statements(self):
        self.add('old')
        self.start()
        counted = []
        for _ in range(2):
            with self.count_statements() as statements:
                self.situation()
            counted.append(len(statements))
            for _ in range(5):
                self.add('old', 'old')
        self.assertEqual(counted[0], counted[1])
        self.assertLess(counted[0], 15)
