# SPDX-License-Identifier: Apache-2.0

import json
import re
import time
from unittest import mock

from oslo_db import exception as db_exc

from octavia_hmsync.cli import progress
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from tests.cloud import records
from tests.db_cases.image import calls as image_calls
from tests.unit.image.cli import test_image


class ReplaceTestCase(test_image.ImageTestCase):

    def setUp(self):
        super().setUp()
        keeper_repo.touch(self.engine, 'keeper', ())

    def replace(self, *argv):
        return self.run_ok('image', 'replace', *argv)

    def refuse(self, words, *argv):
        """Neither that, nor with --dry-run; and nothing is written."""
        before = len(self.rows(models.ImageReplacement))
        for more in ((), ('--dry-run',), ('--wait',)):
            self.assertFails(words, 'image', 'replace', *argv, *more)
        self.assertEqual(before, len(self.rows(models.ImageReplacement)))

    def open(self):
        return replace_repo.get_open(self.engine)


class TestReplace(ReplaceTestCase):

    def test_waits_for_housekeeping(self):
        self.add_zone('az1', '{}')
        lb_id = self.add('old', name='web', availability_zone='az1')
        exclusion_repo.add(self.engine, 'id', 'ZONE', 'az1', 'not this one')
        out = self.replace('web')
        found, = self.open()
        self.assertEqual(f'Replacement {found.id} of load balancer {lb_id} '
                         f'waits for housekeeping.\n', out)
        self.assertEqual(
            (lb_id, 'WAITING', 'replace', 'new', 'SINGLE', 'az1', None,
             False, 0),
            (found.load_balancer_id, found.state, found.mode,
             found.target_image_id, found.topology, found.availability_zone,
             found.rollout_id, found.forced, found.attempts))

    def test_mode_failover(self):
        self.replace(self.add('old'), '--mode', 'failover')
        self.assertEqual('failover', self.open()[0].mode)

    def test_cluster(self):
        """Its members, who are busy all their life; by either mode."""
        for mode in ('replace', 'failover'):
            lb_id = self.add('old', 'old', 'new')
            self.records.change('load_balancer', lb_id,
                                provider='amphora_cluster',
                                topology='ACTIVE_ACTIVE')
            for row in self.records.rows('amphora'):
                self.records.set_health(row['id'], busy=True)
            self.run_ok('image', 'check', lb_id)
            self.replace(lb_id, '--mode', mode)
            self.assertEqual('ACTIVE_ACTIVE', self.open()[-1].topology)

    def test_dry_run(self):
        lb_id = self.add('old', 'new')
        old, = (row['id'] for row in self.records.rows('amphora')
                if row['image_id'] == 'old')
        self.assertEqual(
            f'Of load balancer {lb_id} would be replaced, by mode replace '
            f'with image new: {old}.\n', self.replace(lb_id, '--dry-run'))
        out = self.replace(lb_id, '--dry-run', '--force')
        self.assertEqual(2, sum(row['id'] in out for row in
                                self.records.rows('amphora')))
        self.assertEqual([], self.open())

    def test_nothing_to_do(self):
        lb_id = self.add('new', 'new')
        for more in ((), ('--dry-run',), ('--wait',)):
            self.assertIn('there is nothing to do', self.replace(lb_id,
                                                                 *more))
        self.assertEqual([], self.open())
        self.replace(lb_id, '--force')
        self.assertTrue(self.open()[0].forced)

    def test_nobody_can_tell(self):
        lb_id = self.add(None)
        self.refuse('not known whether', lb_id)
        code, out, err = self.run_command('image', 'replace', lb_id,
                                          '--force')
        self.assertEqual(0, code)
        self.assertIn('Warning: Image ids: Octavia has no image_id', err)

    def test_nobody_is_up(self):
        lb_id = self.add('old')
        self.make_older(models.HouseKeeper, 'keepalive_at', 100000)
        self.refuse('No octavia-housekeeping has given a sign', lb_id)

    def test_timeout_without_wait(self):
        code, _out, err = self.run_command('image', 'replace', 'web',
                                           '--timeout', '5')
        self.assertEqual(2, code)
        self.assertIn('--timeout: needs --wait', err)


class TestRefused(ReplaceTestCase):
    """What can be told is told, in one line, and nothing is written."""

    def test_unknown(self):
        self.refuse('There is no load balancer web', 'web')
        for _ in range(2):
            self.add('old', name='web')
        self.refuse('There are 2 load balancers web', 'web')

    def test_state(self):
        for words, values in (
                ('Provider: Its provider is ovn', {'provider': 'ovn'}),
                ('State: It is PENDING_UPDATE',
                 {'provisioning_status': 'PENDING_UPDATE'}),
                ('State: It is in ERROR', {'provisioning_status': 'ERROR'}),
                ('Topology: Its topology is None', {'topology': None})):
            lb_id = self.add('old')
            self.records.change('load_balancer', lb_id, **values)
            self.refuse(words, lb_id)
        # The database tells it all.
        self.assertEqual([], self.images.asked)
        self.assertEqual([], self.neutron.asked)

    def test_amphora_in_error(self):
        lb_id = self.add('old', 'old')
        amphora = self.records.rows('amphora')[0]['id']
        self.records.change('amphora', amphora, status='ERROR')
        self.refuse('Beside others in ERROR nothing is replaced', lb_id)

    def test_somebody_replaces_it(self):
        lb_id = self.add('old')
        self.replace(lb_id)
        found, = self.open()
        self.assertEqual(
            f'Load balancer {lb_id} is being replaced already, and is at '
            f'WAITING: replacement {found.id}.\n', self.replace(lb_id))
        claims_repo.claim(self.engine, 'one', 1, 60)
        claims_repo.set_phase(
            self.engine, self.open()[0].id, 'one', 60, 'BUILD',
            old_amphora_id='amphora1', new_amphora_id='amphora2')
        self.records.change('load_balancer', lb_id,
                            provisioning_status='PENDING_UPDATE')
        self.assertIn('at BUILD, amphora amphora2 for amphora1: ',
                      self.replace(lb_id))
        with mock.patch.object(progress, 'time', wraps=time) as clock:
            clock.sleep.side_effect = lambda seconds: claims_repo.finish(
                self.engine, found.id, 'one', 'DONE')
            self.assertIn(f'Load balancer {lb_id}: DONE',
                          self.replace(lb_id, '--wait'))

    def test_rollout_has_it(self):
        lb_id = self.add('old')
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)
        claims_repo.begin(self.engine, 'rollout', 0, [replace_repo.New(
            'replacement', lb_id, 'replace', 'new')], 'one', 60)
        self.assertIn('is being replaced already by rollout rollout, and is '
                      'at RUNNING: replacement replacement.',
                      self.replace(lb_id))

    def test_somebody_is_faster(self):
        lb_id = self.add('old')

        def add(engine, new):
            with mock.patch.object(replace_repo, 'add', add_really):
                self.assertTrue(add_really(engine, replace_repo.New(
                    'other', lb_id, 'replace', 'new')))
                return add_really(engine, new)

        add_really = replace_repo.add
        with mock.patch.object(replace_repo, 'add', add):
            self.assertFails('by another command at this moment', 'image',
                             'replace', lb_id)

    def test_no_image(self):
        self.images.images.clear()
        self.refuse('Image: No image has the tag amphora and is active',
                    self.add('old'))

    def test_image_service_down(self):
        self.images.images['amphora'] = ValueError('no\nanswer')
        self.refuse('image service cannot be asked', self.add('old'))

    def test_neutron_down(self):
        self.connect.side_effect = exceptions.CloudUnavailable('Down.')
        self.refuse('Neutron: Down.', self.add('old'))

    def test_several_findings(self):
        """A line for each."""
        lb_id = self.add('old')
        self.neutron.things['ports'].clear()
        self.neutron.things['subnets'].clear()
        code, out, err = self.run_command('image', 'replace', lb_id)
        self.assertEqual((1, ''), (code, out))
        self.assertEqual(
            [f'Load balancer {lb_id} cannot be replaced: {name}: '
             for name in ('VIP port', 'Subnets')],
            [re.match('.*?: .*?: ', line)[0] for line in err.splitlines()])

    def test_quota(self):
        self.neutron.quota = {'limit': 5, 'used': 4, 'reserved': 0}
        self.refuse('Port quota: A replacement takes', self.add('old'))

    def test_only_failover(self):
        lb_id = self.add('old')
        self.records.insert_all({'listener': [{
            **records.listener_row('listener', lb_id), 'protocol': 'SCTP'}]})
        self.refuse('SCTP listeners were not tried. Use --mode failover',
                    lb_id)
        self.replace(lb_id, '--mode', 'failover')


class TestWait(ReplaceTestCase):

    def wait(self, *steps, argv=()):
        """Run the command; a step is called whenever it would sleep."""
        self.lb_id = self.add('old')
        steps = iter(steps)
        # The module's own: others sleep, too.
        with mock.patch.object(progress, 'time', wraps=time) as clock:
            clock.sleep.side_effect = lambda seconds: next(steps)()
            code, out, err = self.run_command(
                'image', 'replace', self.lb_id, '--wait', *argv)
        # Without the time, and what comes before.
        return code, [line.partition(' ')[2].replace(
            f'Load balancer {self.lb_id}', 'LB')
            for line in out.splitlines()[1:]], err

    def claim(self):
        claims_repo.claim(self.engine, 'one', 1, 60)

    def phase(self, phase, **amphorae):
        def step():
            claims_repo.set_phase(self.engine, self.open()[0].id, 'one', 60,
                                  phase, **amphorae)
        return step

    def finish(self, state, reason=None):
        def step():
            claims_repo.finish(self.engine, self.open()[0].id, 'one', state,
                               reason)
        return step

    def test_done(self):
        code, lines, err = self.wait(
            self.claim, self.phase('LOCK'), self.phase(
                'BUILD', old_amphora_id='a1', new_amphora_id='a2'),
            lambda: None, self.phase('PROVE'), self.finish('DONE'))
        self.assertEqual((0, ''), (code, err))
        self.assertEqual(
            ['LB: WAITING', 'LB: RUNNING', 'LB: LOCK',
             'LB: BUILD, amphora a2 for a1', 'LB: PROVE, amphora a2 for a1',
             'LB: DONE'], lines)

    def test_not_done(self):
        for state in ('FAILED', 'SKIPPED'):
            code, lines, err = self.wait(self.claim,
                                         self.finish(state, 'no heartbeat'))
            self.assertEqual((1, f'LB: {state} (no heartbeat)'),
                             (code, lines[-1]))
            self.assertIn(f'is {state} (no heartbeat): see the log', err)
            self.assertEqual(1, err.count('\n'))

    def test_cancelled(self):
        def cancel():
            self.assertTrue(cancel_repo.cancel(
                self.engine, self.open()[0].id, 'by an operator'))

        code, lines, err = self.wait(cancel)
        self.assertEqual(1, code)
        self.assertIn('is CANCELLED (by an operator)', err)

    def test_timeout(self):
        self.lb_id = self.add('old')
        code, out, err = self.run_command(
            'image', 'replace', self.lb_id, '--wait', '--timeout', '0.01')
        self.assertEqual(1, code)
        self.assertIn('has not ended. It goes on', err)
        self.assertEqual('WAITING', self.open()[0].state)

    def test_interrupted(self):
        def interrupt():
            raise KeyboardInterrupt

        code, lines, err = self.wait(interrupt)
        found, = self.open()
        self.assertEqual(
            (130, f'Replacement {found.id} goes on: see "octavia-hmsync '
                  f'image replacement list".\n'), (code, err))

    def test_housekeeping_ends(self):
        """It is said, once, and waited for."""
        code, lines, _err = self.wait(
            lambda: self.make_older(models.HouseKeeper, 'keepalive_at', 99999),
            lambda: None,
            lambda: keeper_repo.touch(self.engine, 'keeper', ()),
            self.claim, self.finish('DONE'))
        self.assertEqual(0, code)
        self.assertEqual(1, sum('no amphora is replaced' in x for x in lines))

    def test_database_goes_away(self):
        """It is waited for."""
        get = replace_repo.get
        errors = [OSError('no matter'), None]

        def fail(engine, replacement_id):
            error = errors.pop(0) if errors else None
            if error:
                raise db_exc.DBConnectionError(error)
            return get(engine, replacement_id)

        with mock.patch.object(replace_repo, 'get', autospec=True,
                               side_effect=fail):
            code, lines, err = self.wait(lambda: None, self.claim,
                                         self.finish('DONE'))
        self.assertEqual((0, ''), (code, err))
        self.assertIn('database', lines[0])
        self.assertEqual('LB: DONE', lines[-1])


class TestReplacements(ReplaceTestCase):

    def list(self, *argv):
        return self.run_json('image', 'replacement', 'list', *argv)

    def cancel(self, *argv):
        return self.run_ok('image', 'replacement', 'cancel', *argv)

    def test_list(self):
        self.assertEqual([], self.list())
        lb_id = self.add('old', name='web')
        self.replace('web')
        row, = self.list()
        self.assertEqual((self.open()[0].id, 'web', 'WAITING', None),
                         tuple(row.values()))
        row, = self.list('--long')
        self.assertEqual((lb_id, None, 'replace', 'new', 0, False), tuple(
            row[name] for name in (
                'loadbalancer_id', 'rollout_id', 'mode', 'target_image_id',
                'attempts', 'forced')))
        self.assertEqual([{'attempts': 0}], self.list('-c', 'attempts'))

    def test_ended(self):
        lb_id = self.add('old', name='web')
        self.replace('web')
        self.cancel('web', '--reason', 'lunch')
        self.assertEqual([], self.list())
        for name in ('web', lb_id):
            row, = self.list('--loadbalancer', name)
            self.assertEqual(('CANCELLED', 'lunch'), (row['state'],
                                                      row['reason']))
        # One that is deleted has an id only.
        self.records.change('load_balancer', lb_id,
                            provisioning_status='DELETED')
        self.assertEqual(1, len(self.list('--loadbalancer', lb_id)))
        self.assertFails('There is no load balancer web', 'image',
                         'replacement', 'list', '--loadbalancer', 'web')

    def test_of_a_rollout(self):
        self.assertFails('There is no rollout x:', 'image', 'replacement',
                         'list', '--rollout', 'x')
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)
        claims_repo.begin(self.engine, 'rollout', 0, [image_calls.new(1)],
                          'one', 60)
        claims_repo.finish(self.engine, 'replacement1', 'one', 'DONE')
        self.assertEqual(['DONE'], [
            row['state'] for row in self.list('--rollout', 'rollout')])

    def test_cancel(self):
        lb_id = self.add('old', name='web')
        for name in ('web', lb_id, None):
            self.replace('web')
            found, = self.open()
            for more, words in (('--dry-run', 'can be cancelled'),
                                ('--reason=no', 'is cancelled')):
                self.assertEqual(
                    f'Replacement {found.id} of load balancer {lb_id} '
                    f'{words}.\n', self.cancel(name or found.id, more))
            self.assertEqual([], self.open())
        # To do it twice does no harm.
        for name in ('web', lb_id, found.id):
            self.assertEqual(
                f'Replacement {found.id} of load balancer {lb_id} is '
                f'cancelled already, and is CANCELLED.\n',
                self.cancel(name))
        self.replace('web')
        found, = self.open()
        claims_repo.claim(self.engine, 'one', 1, 60)
        claims_repo.finish(self.engine, found.id, 'one', 'DONE')
        self.assertFails(f'{found.id} is neither a replacement that waits or '
                         f'runs nor', 'image', 'replacement', 'cancel',
                         found.id)
        self.assertFails('There is no load balancer none', 'image',
                         'replacement', 'cancel', 'none')

    def test_cancel_of_one_that_runs(self):
        lb_id = self.add('old')
        self.replace(lb_id)
        claims_repo.claim(self.engine, 'one', 1, 60)
        for more, reason in ((('--dry-run',), None),
                             (('--reason', 'it is late'), 'it is late')):
            self.assertIn(
                'has begun: it goes back at its next step, or comes to its '
                'end where there is no way back.',
                self.cancel(lb_id, *more))
            row, = self.list('--long')
            self.assertEqual(('RUNNING', reason),
                             (row['state'], row['cancel_requested']))
        self.assertIn('is cancelled already, and is RUNNING',
                      self.cancel(lb_id))
        found, = self.open()
        with mock.patch.object(progress, 'time', wraps=time) as clock:
            clock.sleep.side_effect = lambda seconds: claims_repo.finish(
                self.engine, found.id, 'one', 'CANCELLED')
            self.assertIn(f'Replacement {found.id}: CANCELLED',
                          self.cancel(lb_id, '--wait'))

    def test_formats(self):
        self.replace(self.add('old'))
        for form in ('table', 'csv', 'value', 'yaml'):
            self.assertIn('WAITING', self.run_ok('image', 'replacement',
                                                 'list', '-f', form))
        self.assertEqual('WAITING', json.loads(self.run_ok(
            'image', 'replacement', 'list', '-f', 'json'))[0]['state'])
