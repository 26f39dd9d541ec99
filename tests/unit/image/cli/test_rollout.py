# SPDX-License-Identifier: Apache-2.0

import datetime
import json
import time
from unittest import mock

from oslo_utils import timeutils

from octavia_hmsync.db import models
from octavia_hmsync.image.cli import changes
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
        return self.run_json('image', 'exclusion', 'list')

    def add(self, *argv):
        return self.run_ok('image', 'exclusion', 'add', *argv)

    def remove(self, *argv):
        return self.run_ok('image', 'exclusion', 'remove', *argv)

    def test_each_kind(self):
        lb_id = self.add_load_balancer()
        for kind, value in (('load-balancer', 'web'), ('project', 'demo'),
                            ('tag', 'fragile'), ('flavor', 'large'),
                            ('zone', 'az1')):
            self.assertIn('alone from now on', self.add(
                kind, value, '--reason', 'because'))
        self.assertEqual(
            [('FLAVOR', 'large'), ('LOAD_BALANCER', lb_id),
             ('PROJECT', 'demo'), ('TAG', 'fragile'), ('ZONE', 'az1')],
            [(row['kind'], row['value']) for row in self.list()])
        self.assertEqual({'because'}, {row['reason'] for row in self.list()})

    def add_load_balancer(self):
        return test_image.ImageTestCase.add(self, 'old', name='web')

    def test_end(self):
        self.add('tag', 'fragile', '--reason', 'because', '--for', '60')
        row, = self.list()
        self.assertGreater(row['expires_at'], row['created_at'])
        self.make_older(models.ImageExclusion, 'expires_at', 1)
        self.assertEqual([], self.list())

    def test_dry_run(self):
        argv = ('tag', 'fragile')
        self.assertIn('would leave tag fragile alone.', self.add(
            *argv, '--reason', 'because', '--dry-run'))
        self.assertEqual([], self.list())
        self.add(*argv, '--reason', 'because')
        self.assertIn('would leave tag fragile alone no more',
                      self.remove(*argv, '--dry-run'))
        self.assertEqual(1, len(self.list()))

    def test_remove(self):
        lb_id = self.add_load_balancer()
        for value in ('web', lb_id):
            self.add('load-balancer', lb_id, '--reason', 'because')
            self.assertIn('alone no more', self.remove('load-balancer',
                                                       value))
            self.assertEqual([], self.list())
            self.assertFails('There is no exclusion of load-balancer',
                             'image', 'exclusion', 'remove',
                             'load-balancer', value)
        # One that is deleted has no name any more.
        self.add('load-balancer', lb_id, '--reason', 'because')
        self.records.change('load_balancer', lb_id,
                            provisioning_status='DELETED')
        self.remove('load-balancer', lb_id)

    def test_refused(self):
        for words, argv in (
                ('There is no exclusion of tag fragile:',
                 ('remove', 'tag', 'fragile', '--dry-run')),
                ('There is no load balancer none:',
                 ('add', 'load-balancer', 'none', '--reason', 'because',
                  '--dry-run')),
                ('There is no load balancer none:',
                 ('add', 'load-balancer', 'none', '--reason', 'because')),
                ('There is no load balancer none:',
                 ('remove', 'load-balancer', 'none')),
                ('There is no exclusion of tag fragile:',
                 ('remove', 'tag', 'fragile')),
                ('An exclusion has a value of 1 to 255 characters',
                 ('add', 'tag', 'a' * 256, '--reason', 'because')),
                ('An exclusion has a value of 1 to 255 characters',
                 ('add', 'tag', '', '--reason', 'because'))):
            self.assertFails(words, 'image', 'exclusion', *argv)
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
                                          '-f', 'value', '-c', 'wave',
                                          '-c', 'load_balancer')
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
            'image', 'rollout', 'start', '--dry-run', *argv, '-f', 'json')
        self.assertEqual(0, code, self.err)
        return [tuple(row.values()) for row in json.loads(out)]

    def test_dry_run(self):
        self.add('new')
        old = sorted(self.add('old') for _ in range(3))
        pair = self.add('old', 'new')
        broken = self.add('old', provisioning_status='ERROR')
        busy = self.add('old', provisioning_status='PENDING_UPDATE',
                        availability_zone='az1')
        excluded = self.add('old', project_id='other')
        self.run_ok('image', 'exclusion', 'add', 'project', 'other',
                    '--reason', 'they asked')
        found = self.plan('--parallel', '9')
        self.assertEqual(
            {(1, True, old[0], None), (1, True, pair, None),
             (1, True, busy, 'PENDING'), (2, False, old[1], None),
             (2, False, old[2], None), (None, False, broken, 'ERROR'),
             (None, False, excluded,
              'excluded by PROJECT other: they asked')},
            {(*row[:3], row[-1]) for row in found})
        self.assertEqual((old[0], 'SINGLE', None, None, 'new'), next(
            row[2:7] for row in found if row[2] == old[0]))
        self.assertIn('5 load balancers, 3 of them canaries, in 2 waves: at '
                      'least 10 min, with no time for each', self.err)
        self.assertEqual(5, len({row[0] for row in self.plan()} - {None}))
        # The first, the next one an hour later, and so on.
        self.plan('--rate-per-hour', '1', '--watch-time', '0')
        self.assertIn('in 5 waves: at least 4 h', self.err)
        self.assertIsNone(rollout_repo.get_active(self.engine))

    def test_starts(self):
        lb_id = self.add('old')
        out, err = self.start('--parallel', '3', '--windows', 'Sat 01:00-'
                              '05:00', '--reason', 'CVE')
        self.assertEqual(f'1 {lb_id}\n', out)
        active = rollout_repo.get_active(self.engine)
        self.assertEqual(f'Rollout {active.id} runs.',
                         err.splitlines()[-1])
        self.assertEqual(('CVE', rollout_repo.Settings(
            'replace', 1, 3, 0, 0, 1, 'Sat 01:00-05:00', 300)),
            (active.reason, active.settings))
        for more in ((), ('--dry-run',)):
            self.assertFails(f'There is a rollout that has not ended, '
                             f'{active.id}, which is RUNNING:', 'image',
                             'rollout', 'start', *more)

    def test_nobody_is_outdated(self):
        self.add('new')
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
        said = 'Of the 8 that --parallel allows 4 are replaced at once'
        self.plan(*argv)
        self.assertIn(said, self.err)
        self.assertIn('at least 4 min', self.err)
        keeper_repo.touch(self.engine, 'another keeper', ())
        self.plan(*argv)
        self.assertNotIn('are replaced at once', self.err)
        self.assertIn('at least 2 min', self.err)
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
            **records.listener_row('listener', lb_id), 'protocol': 'UDP'}]})
        self.assertFails('No load balancer is outdated', 'image', 'rollout',
                         'start')
        self.add('old')
        self.assertEqual({(lb_id, 'ONLY_FAILOVER')}, {
            (row[2], row[-1]) for row in self.plan() if row[-1]})
        self.assertEqual([None, None], [
            row[-1] for row in self.plan('--mode', 'failover')])

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
        self.assertEqual(found, {row[2]: row[-1] for row in self.plan()
                                 if row[-1]})

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
        self.lb_id = self.add('old')

    def test_none(self):
        for name in ('pause', 'resume', 'cancel'):
            self.assertFails(f'No rollout is there to {name}', 'image',
                             'rollout', name)
        for name in ('show', 'watch'):
            self.assertFails('There was no rollout yet', 'image', 'rollout',
                             name)
        self.assertFails('There is no rollout x:', 'image', 'rollout', 'show',
                         'x')
        self.assertEqual([], self.run_json('image', 'rollout', 'list'))

    def test_states(self):
        self.start()
        self.begin(self.lb_id, 'BUILD')
        self.assertIn('1 that run come to their end', self.rollout(
            'pause', '--reason', 'lunch'))
        self.assertEqual(('PAUSED', 'lunch', 1, f'{self.lb_id} BUILD'),
                         tuple(self.show()[name] if name != 'running_now'
                               else self.show()[name][0] for name in (
                                   'state', 'reason', 'running',
                                   'running_now')))
        self.assertFails('is PAUSED, so that there is nothing to pause',
                         'image', 'rollout', 'pause')
        for name in ('resume', 'cancel'):
            self.assertIn(f'to {name}, which is PAUSED', self.rollout(
                name, '--dry-run'))
        self.assertIn('goes on', self.rollout('resume'))
        self.assertIn('is cancelled. 1 that run go back, or come to their '
                      'end where there is no way back', self.rollout(
                          'cancel', '--reason', 'enough'))
        self.assertEqual('enough', replace_repo.get(
            self.engine, 'replacement').cancel_requested)
        row, = self.run_json('image', 'rollout', 'list')
        self.assertEqual(('CANCELLED', 1, 0), (row['state'], row['running'],
                                               row['done']))
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
        self.assertEqual(['refused: because'], found['refusals'])
        again, = found['tried_again']
        self.assertRegex(again, r'again: because \(tried 2 times, next not '
                                r'before 20.*\)')
        self.assertEqual(['never: because'], found['given_up'])
        watched, = found['watched_now']
        self.assertRegex(watched, 'done until 20')
        self.assertIn('1 that are done are watched', found['waits_for'])

    def test_watch(self):
        self.start()
        self.begin(self.lb_id, 'BUILD')
        code, out, err = self.run_command('image', 'rollout', 'watch',
                                          '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn('has not ended', err)
        self.assertIn(f'Load balancer {self.lb_id}: BUILD\n', out)
        self.assertIn('RUNNING, 1 RUNNING\n', out)
        self.assertNotIn('Nothing begins', out)
        claims_repo.finish(self.engine, 'replacement', 'one', 'FAILED',
                           'no heartbeat')
        active = rollout_repo.get_active(self.engine)
        rollout_repo.end(self.engine, active.id, active.version, 'HALTED',
                         '1 failed')
        code, out, err = self.run_command('image', 'rollout', 'watch')
        self.assertEqual(1, code)
        self.assertIn('is HALTED', err)
        self.assertIn(f'{self.lb_id}: FAILED (no heartbeat)\n', out)
        self.assertEqual([f'{self.lb_id}: no heartbeat'],
                         self.show()['failures'])

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
        with mock.patch.object(changes, 'time', wraps=time) as clock:
            clock.sleep.side_effect = KeyboardInterrupt
            code, out, err = self.run_command('image', 'rollout', 'watch')
        self.assertEqual(130, code)
        self.assertIn('goes on: see', err)

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
        code, out, err = self.run_command('image', 'rollout', 'undo', *argv,
                                          '-f', 'json')
        self.assertEqual(0, code, err)
        return [row['load_balancer'] for row in json.loads(out)
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
        self.assertEqual([done, failed], self.undo(
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
        self.assertFails('there is nothing to take back', 'image', 'rollout',
                         'undo')
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
            updated_at=records.utcnow() - datetime.timedelta(hours=1))
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
