# SPDX-License-Identifier: Apache-2.0

"""sync pause, resume and watch; generation rollback."""

import re
import socket

from oslo_db import exception as db_exc
from oslo_messaging.notify import _impl_test

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.notifications import broker
from octavia_hmsync.sync.cli import watch
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.rules import trial
from tests.unit.cli import base

LIST = ('192.0.2.101:5555',)


class TestPause(base.CommandTestCase):

    def test_pause_and_resume(self):
        self.assertIn('There is no pause', self.run_ok('sync', 'resume'))
        out = self.run_ok('sync', 'pause', '--for', '60', '--reason',
                          'new\nswitches')
        pause = pause_repo.get(self.engine)
        self.assertEqual('new switches', pause.reason)
        until = pause.ends_at.isoformat(timespec='seconds')
        self.assertIn(f'No amphora is uploaded to until {until} UTC', out)
        self.assertEqual(until, self.run_json('sync',
                                              'status')['paused_until'])
        self.assertEqual('The pause ends.\n', self.run_ok('sync', 'resume'))
        self.assertIsNone(pause_repo.get(self.engine))

    def test_reason_that_no_column_takes(self):
        self.run_ok('sync', 'pause', '--reason',
                    '\U0001f600\x1b' + 'x' * 70000)
        self.assertEqual('??' + 'x' * 998, pause_repo.get(self.engine).reason)

    def test_dry_runs(self):
        self.assertIn('There is no pause',
                      self.run_ok('sync', 'pause', '--dry-run'))
        self.assertIsNone(pause_repo.get(self.engine))
        self.run_ok('sync', 'pause')
        self.assertIn('There is a pause until',
                      self.run_ok('sync', 'pause', '--dry-run'))
        self.assertEqual('The pause would end.\n',
                         self.run_ok('sync', 'resume', '--dry-run'))
        self.assertIsNotNone(pause_repo.get(self.engine))

    def test_times_that_are_none(self):
        # MariaDB has no date for the last one.
        for seconds in ('0', '-1', 'nan', 'inf', 'an hour', '1e12'):
            code, _out, err = self.run_command('sync', 'pause', '--for',
                                               seconds)
            self.assertEqual(2, code)
            self.assertIn(f"--for: '{seconds}' is not a time in seconds", err)
        self.assertIsNone(pause_repo.get(self.engine))
        self.run_ok('sync', 'pause', '--for', '1e9')
        self.assertIsNotNone(pause_repo.get(self.engine))

    def test_in_the_middle_of_a_trial(self):
        self.assertNotIn('trial', self.run_ok('sync', 'pause'))
        generation_repo.publish(self.engine, 1, {LIST[0]: 0}, 'because',
                                'controller1', trial.CANARY)
        self.assertIn('Generation 1 is on trial: an amphora that falls silent',
                      self.run_ok('sync', 'pause'))

    def test_error_means_that_nothing_is_paused(self):
        def get_newest(engine):
            raise db_exc.DBConnectionError(Exception('it has gone away'))

        self.patch(generation_repo, 'get_newest', get_newest)
        self.assertFails('it has gone away', 'sync', 'pause')
        self.assertIsNone(pause_repo.get(self.engine))

    def test_run_says_that_it_waits(self):
        keeper_repo.touch(self.engine, 'controller1', ())
        self.run_ok('sync', 'pause', '--reason', 'new switches')
        self.assertRegex(
            self.run_ok('sync', 'run'), r'after the pause\. Paused until \S+ '
                                        r'UTC \(new switches\)')


class WatchTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.ids = sorted(self.add_amphorae(3))
        amphora_repo.add_missing(self.engine)
        keeper_repo.touch(self.engine, 'controller1', ())

    def publish(self, number, status=trial.OPEN):
        generation_repo.publish(self.engine, number, {LIST[0]: 0}, 'because',
                                'controller1', status)

    def record(self, number, *results):
        claim_repo.claim_due(self.engine, number, 'batch', 20, 60)
        outcome_repo.record(self.engine, number, 'batch', [
            outcome_repo.Outcome(
                amphora_id, result, LIST,
                None if result == 'APPLIED' else 'it refused', 30)
            for amphora_id, result in zip(self.ids, results)])
        claim_repo.release_all(self.engine, 'batch')

    def watch(self, *argv):
        return self.run_command('sync', 'watch', '--interval', '0.05', *argv)


class TestProblems(WatchTestCase):
    """A housekeeper that is up and uploads nothing."""

    def setUp(self):
        super().setUp()
        self.publish(1)
        keeper_repo.touch(self.engine, 'controller2', (), problem='no file.')

    def test_status(self):
        found = self.run_json('sync', 'status')
        self.assertEqual(
            ([{'host': 'controller2', 'problem': 'no file.'}], 3, 0, 3),
            (found['problems'], found['due'], found['unreachable'],
             found['untried']))
        self.assertEqual('controller2: no file.\n', self.run_ok(
            'sync', 'status', '-f', 'value', '-c', 'problems'))
        self.record(1, 'APPLIED', 'UNREACHABLE', 'UNREACHABLE')
        found = self.run_json('sync', 'status')
        self.assertEqual((2, 0), (found['unreachable'], found['untried']))

    def test_watch(self):
        _code, out, _err = self.watch('--timeout', '0.1')
        self.assertIn('octavia-housekeeping on controller2 uploads nothing: '
                      'no file.', out)

    def test_it_uploads_again(self):
        keeper_repo.touch(self.engine, 'controller2', ())
        self.assertEqual([], self.run_json('sync', 'status')['problems'])


class TestWatch(WatchTestCase):

    def assertStuck(self, words, *argv):
        """Watch something that gets no further, to the end."""
        code, out, err = self.watch('--timeout', '0.1', *argv)
        self.assertEqual((1, 1), (code, err.count('\n')), err)
        self.assertIn('not every amphora', err)
        self.assertIn(words, out)
        return out

    def test_complete(self):
        self.publish(1)
        self.record(1, *3 * ['APPLIED'])
        code, out, err = self.watch()
        self.assertEqual((0, ''), (code, err))
        self.assertRegex(out, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d generation 1 '
                              r'OPEN: 3 of 3 amphorae\n'
                              r'Every amphora has generation 1.\n$')

    def test_until_complete(self):
        """Somebody does the work meanwhile."""
        self.publish(1)
        look, looks = watch.look, []

        def look_before_they_get_it(*args):
            looks.append(look(*args))
            if len(looks) == 1:
                self.record(1, *3 * ['APPLIED'])
            return looks[-1]

        self.patch(watch, 'look', look_before_they_get_it)
        code, out, err = self.watch()
        self.assertEqual((0, ''), (code, err))
        # A line for each change, however often it looks.
        lines = [line.split(' ', 1)[1] for line in out.splitlines()]
        self.assertEqual('generation 1 OPEN: 0 of 3 amphorae', lines[0])
        self.assertEqual('Every amphora has generation 1.\n',
                         out[out.rindex('Every'):])
        self.assertEqual(len(lines), len(set(lines)))

    def test_no_list_yet(self):
        self.assertStuck('No list has been published yet')

    def test_failed(self):
        self.publish(1)
        self.record(1, 'APPLIED', 'UNREACHABLE', 'REJECTED')
        out = self.assertStuck(
            'generation 1 OPEN: 1 of 3 amphorae, 2 failed')
        self.assertRegex(out, f'{self.ids[1]} at 192.0.2.. is UNREACHABLE '
                              r'after 1 attempt: it refused. It is tried '
                              r'again at \S+T\S+ UTC.')

    def test_many_failed(self):
        self.ids += [self.records.add_amphora(f'192.0.2.{n}')
                     for n in range(10, 20)]
        amphora_repo.add_missing(self.engine)
        self.publish(1)
        self.record(1, *13 * ['UNREACHABLE'])
        out = self.assertStuck('and 8 more: see "octavia-hmsync amphora list"')
        self.assertEqual(5, len(set(re.findall(r'(\S+) at 192', out))))

    def test_canaries(self):
        self.publish(1)
        self.record(1, *3 * ['APPLIED'])
        self.publish(2, trial.CANARY)
        admission_repo.admit(self.engine, 2, self.ids[:1])
        out = self.assertStuck('generation 1 OPEN: 2 of 2 amphorae')
        self.assertIn('generation 2 CANARY: 0 of 1 amphorae', out)
        self.record(2, 'APPLIED')
        self.assertStuck('generation 2 CANARY: 1 of 1 amphorae, watching how '
                         'they fare')

    def test_paused(self):
        self.publish(1)
        pause_repo.begin(self.engine, 60, 'new switches')
        self.assertStuck('UTC (new switches): see "octavia-hmsync sync '
                         'resume"')

    def test_nobody_uploads(self):
        self.publish(1)
        self.make_older(models.HouseKeeper, 'keepalive_at', 60)
        self.assertStuck('No octavia-housekeeping with octavia-hmsync')

    def test_timeout_before_the_next_look(self):
        self.publish(1)
        # It would wait for an hour.
        self.assertEqual(1, self.run_command(
            'sync', 'watch', '--interval', '3600', '--timeout', '0.2')[0])

    def test_follow(self):
        self.publish(1)
        self.record(1, *3 * ['APPLIED'])
        self.assertStuck('3 of 3', '--follow')

    def test_database_goes_away_meanwhile(self):
        self.publish(1)
        looks = iter(range(10))
        take_look = watch.look

        def look(conf, engine):
            number = next(looks)
            if number == 1:
                engine = api.create_engine(self.other_conf)
            elif number == 3:
                self.record(1, *3 * ['APPLIED'])
            return take_look(conf, engine)

        self.other_conf = self.make_conf(database={
            'connection': 'mysql+pymysql://o:S3cret@127.0.0.1:1/octavia'})
        self.patch(watch, 'look', look)
        code, out, err = self.watch('--timeout', '60')
        self.assertEqual((0, ''), (code, err))
        self.assertIn('0 of 3 amphorae', out.partition(
            'The database cannot be used')[2])
        self.assertNotIn('S3cret', out)


class TestFormerOnes(WatchTestCase):

    def test_another_comes(self):
        """What was seen of the one before stays, without a rate."""
        self.publish(1)
        look, numbers = watch.look, iter((2,))

        def look_and_publish(*args):
            found = look(*args)
            for number in numbers:
                self.publish(number)
                break
            else:
                self.record(2, *3 * ['APPLIED'])
            return found

        self.patch(watch, 'look', look_and_publish)
        code, out, err = self.watch()
        self.assertEqual((0, ''), (code, err))
        self.assertIn('generation 1 OPEN: 0 amphorae, then another came\n',
                      out)
        self.assertIn('generation 2 OPEN: 3 of 3 amphorae\n', out)


class TestRollBack(base.CommandTestCase):

    GOOD = ('192.0.2.101:5555', '192.0.2.102:5555')
    BAD = ('192.0.2.102:5555', '192.0.2.103:5555')

    def setUp(self):
        super().setUp()
        for number in (101, 102, 103):
            hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                             5555, 'first', 20)

    def publish(self, *lists, status=trial.OPEN):
        for addresses in lists:
            newest = generation_repo.get_newest(self.engine)
            generation_repo.publish(
                self.engine, newest.number + 1 if newest else 1,
                {a: n for n, a in enumerate(addresses)}, 'because', 'here',
                status)

    def test_roll_back(self):
        self.publish(self.GOOD, self.BAD)
        out = self.run_ok('generation', 'rollback', '--dry-run')
        self.assertEqual(2, generation_repo.get_newest(self.engine).number)
        self.assertEqual(
            'Generation 2 would be rolled back: controller_ip_port_list '
            'would be 192.0.2.102:5555 again, without 192.0.2.103:5555.\n',
            out)
        self.assertEqual(out.replace('would be', 'is'),
                         self.run_ok('generation', 'rollback'))
        newest = generation_repo.get_newest(self.engine)
        self.assertEqual((3, ('192.0.2.102:5555',), trial.OPEN),
                         (newest.number, newest.addresses, newest.status))
        # One that stays keeps its slot.
        self.assertEqual({'192.0.2.102:5555': 0}, newest.slots)
        self.assertEqual(
            (['192.0.2.103:5555'], 'OPEN'),
            (self.run_json('sync', 'status')['suspects'],
             self.run_json('sync', 'status')['status']))
        self.assertEqual(['OPEN', 'ROLLED_BACK', 'OPEN'], [
            row['status'] for row in self.run_json('generation', 'list')])
        self.assertEqual(
            'There would be another chance for 192.0.2.103:5555.\n',
            self.run_ok('sync', 'retry', '--dry-run'))
        self.assertEqual('Another chance for 192.0.2.103:5555.\n',
                         self.run_ok('sync', 'retry'))
        self.assertIn('No address', self.run_ok('sync', 'retry'))

    def test_in_a_pause(self):
        self.publish(self.GOOD, self.BAD)
        pause_repo.begin(self.engine, 60, 'new switches')
        self.assertRegex(
            self.run_ok('generation', 'rollback'),
            r'No amphora gets it before the pause ends\. Paused until \S+ UTC '
            r'\(new switches\): see "octavia-hmsync sync resume"\.\n$')

    def test_others_are_told(self):
        self.publish(self.GOOD, self.BAD)
        self.conf_path = self.write_conf(oslo_messaging_notifications={
            'driver': 'test', 'transport_url': 'fake://'})
        self.patch(_impl_test, 'NOTIFICATIONS', [])
        self.run_ok('generation', 'rollback', '--dry-run')
        self.assertEqual([], _impl_test.NOTIFICATIONS)
        self.run_ok('generation', 'rollback')
        rolled_back, published = [
            message['payload'] for _context, message, _priority, _retry in
            _impl_test.NOTIFICATIONS]
        self.assertEqual((2, 3, ['192.0.2.103:5555']), (
            rolled_back['number'], rolled_back['replaced_by'],
            rolled_back['suspect_ip_port_list']))
        self.assertEqual((3, ['192.0.2.102:5555'], 'OPEN'), (
            published['number'], published['controller_ip_port_list'],
            published['status']))
        self.assertEqual(generation_repo.get_newest(self.engine).reason,
                         published['reason'])

    def test_others_cannot_be_told(self):
        """It is rolled back all the same."""
        self.publish(self.GOOD, self.BAD)
        with socket.socket() as unused:
            unused.bind(('127.0.0.1', 0))
            port = unused.getsockname()[1]
            self.conf_path = self.write_conf(oslo_messaging_notifications={
                'driver': 'messagingv2',
                'transport_url': f'rabbit://octavia:S3cret@127.0.0.1:{port}'})
            self.patch(broker, '_RETRIES', 0)
            code, out, err = self.run_command('generation', 'rollback')
        self.assertEqual(0, code)
        self.assertIn('Generation 2 is rolled back', out)
        self.assertIn('cannot be sent', err)
        self.assertEqual(1, err.count('\n'), err)
        self.assertNotIn('S3cret', err)

    def test_on_trial(self):
        self.publish(self.GOOD)
        self.publish(self.BAD, status=trial.CANARY)
        self.run_ok('generation', 'rollback')
        self.assertEqual(['192.0.2.102:5555'], list(
            generation_repo.get_newest(self.engine).addresses))

    def test_to_one_of_several(self):
        self.publish(self.GOOD[:1], self.GOOD, (*self.GOOD, self.BAD[1]))
        self.run_ok('generation', 'rollback', '1')
        self.assertEqual(self.GOOD[:1], generation_repo.get_newest(
            self.engine).addresses)

    def test_not_to_what_was_rolled_back(self):
        self.publish(self.GOOD, self.BAD)
        self.run_ok('generation', 'rollback')
        self.publish((*self.GOOD, '192.0.2.104:5555'))
        # To 3, not to 2.
        self.run_ok('generation', 'rollback')
        self.assertEqual(('192.0.2.102:5555',), generation_repo.get_newest(
            self.engine).addresses)

    def assertRefused(self, words, *argv):
        before = generation_repo.get_history(self.engine)
        self.assertFails(words, 'generation', 'rollback', *argv)
        self.assertEqual(before, generation_repo.get_history(self.engine))

    def test_refused(self):
        self.assertRefused('no earlier generation')
        self.publish(self.GOOD)
        self.assertRefused('no earlier generation')
        self.publish(self.GOOD[1:])
        self.assertRefused('nothing to take back')
        self.publish(('192.0.2.103:5555',))
        self.assertRefused('no generation 3 before', '3')
        self.assertRefused('no generation 9 before', '9')
        self.assertRefused('no generation 0 before', '0')
        self.assertRefused('would not be heard', '1')

    def test_refused_when_those_left_are_dead(self):
        self.publish(self.GOOD, self.BAD)
        self.make_older(models.HealthManager, 'keepalive_at', 60,
                        host='hm102')
        self.assertRefused('No health manager of generation 1 is up')

    def test_refused_for_pinned_addresses(self):
        keeper_repo.touch(self.engine, 'controller1', self.BAD[1:])
        self.publish(self.GOOD, self.BAD)
        self.assertRefused('are listed in octavia.conf')

    def test_another_list_comes_first(self):
        self.publish(self.GOOD, self.BAD)
        roll_back = generation_repo.roll_back

        def be_late(*args):
            self.publish(self.GOOD)
            return roll_back(*args)

        self.patch(generation_repo, 'roll_back', be_late)
        self.assertFails('no longer the newest', 'generation', 'rollback')
        self.assertEqual('OPEN', generation_repo.get_history(
            self.engine)[1].status)
