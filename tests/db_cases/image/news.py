# SPDX-License-Identifier: Apache-2.0

"""What is told of rollouts and replacements, by whom, and that it is once."""

from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import payloads
from octavia_hmsync.services import announcer
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls
from tests.unit import fakes


class NewsCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.notifier = fakes.Notifier()
        self.subject = announcer.Announcer(self.engine, self.notifier)

    def start(self, reason='CVE'):
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS,
                         reason)

    def change(self, state, reason='lunch'):
        self.assertTrue(rollout_repo.change_state(
            self.engine, 'rollout', rollout_repo.ACTIVE_STATES, state,
            reason))

    def begin(self, *numbers):
        rollout = rollout_repo.get_active(self.engine)
        claims_repo.begin(self.engine, 'rollout', rollout.version,
                          [image_calls.new(n) for n in numbers], 'one', 60)

    def finish(self, number, state='DONE', reason=None, **kwargs):
        self.assertTrue(claims_repo.finish(
            self.engine, f'replacement{number}', 'one', state, reason,
            **kwargs))

    def look(self):
        """Have a housekeeper look; returns what it tells."""
        self.subject.run_once()
        return self.notifier.take()

    def kinds(self):
        return [payload.EVENT_TYPE.removeprefix('octavia_hmsync.image_')
                for payload in self.look()]

    def test_nothing(self):
        self.assertEqual([], self.look())

    def test_rollout(self):
        self.start()
        self.assertEqual([payloads.ImageRolloutStarted(
            'rollout', 'replace', 'CVE', None)], self.look())
        self.assertEqual([], self.look())
        self.begin(1, 2)
        self.change('PAUSED')
        self.look()
        self.change('RUNNING', '')
        self.assertEqual([payloads.ImageRolloutResumed(
            'rollout', 'replace', '', 0, 0, 0, 2, 0)], self.look())
        self.finish(1)
        self.finish(2, 'FAILED', 'no heartbeat')
        rollout = rollout_repo.get_active(self.engine)
        rollout_repo.end(self.engine, 'rollout', rollout.version, 'HALTED',
                         '1 failed: lb2')
        told = self.look()
        self.assertEqual(payloads.ImageRolloutHalted(
            'rollout', 'replace', '1 failed: lb2', 1, 1, 0, 0, 0), told[-1])
        self.assertEqual(3, len(told))
        self.assertEqual([], self.look())

    def test_each_state(self):
        self.start()
        self.assertEqual(['rollout.started'], self.kinds())
        self.change('PAUSED')
        self.assertEqual(['rollout.paused'], self.kinds())
        self.change('RUNNING')
        self.assertEqual(['rollout.resumed'], self.kinds())
        self.change('CANCELLED')
        self.assertEqual(['rollout.cancelled'], self.kinds())
        rollout_repo.add(self.engine, 'next', image_calls.SETTINGS)
        rollout_repo.end(self.engine, 'next', 0, 'DONE', '0 done')
        self.assertEqual(['rollout.started', 'rollout.done'], self.kinds())

    def test_all_between_two_looks(self):
        """In the order in which it happened."""
        self.start()
        self.begin(1, 2)
        self.finish(1)
        self.change('PAUSED')
        self.change('RUNNING')
        self.change('CANCELLED', 'enough')
        told = self.look()
        self.assertEqual(
            ['rollout.started', 'replacement.started', 'replacement.started',
             'replacement.done', 'rollout.paused', 'rollout.resumed',
             'rollout.cancelled'],
            [p.EVENT_TYPE.removeprefix('octavia_hmsync.image_')
             for p in told])
        self.assertEqual(('CVE', 'enough'), (told[0].reason, told[-1].reason))

    def test_replacement(self):
        self.start()
        self.look()
        self.begin(1)
        self.assertEqual([payloads.ImageReplacementStarted(
            'replacement1', 'rollout', 'lb1', 'replace', False, 'image')],
            self.look())
        self.assertEqual([], self.look())
        claims_repo.set_phase(
            self.engine, 'replacement1', 'one', 60, 'PROVE',
            old_amphora_id='old', new_amphora_id='new')
        self.assertEqual([], self.look())
        self.finish(1, 'SKIPPED', 'it is PENDING', wait=60)
        row = replace_repo.get(self.engine, 'replacement1')
        self.assertEqual([payloads.ImageReplacementSkipped(
            'replacement1', 'rollout', 'lb1', 'replace', False, 'image',
            'old', 'new', 1, 'it is PENDING', *(
                time.isoformat(timespec='seconds') for time in (
                    row.started_at, row.finished_at, row.not_before)))],
            self.look())
        self.assertEqual([], self.look())

    def test_by_itself(self):
        """Nothing is told before it begins, nor if it never does."""
        for number in (1, 2):
            replace_repo.add(self.engine, image_calls.new(number))
        self.assertEqual([], self.look())
        cancel_repo.cancel(self.engine, 'replacement2', 'not needed')
        claims_repo.claim(self.engine, 'one', 10, 60)
        told, = self.look()
        self.assertEqual(('replacement1', None),
                         (told.replacement_id, told.rollout_id))
        self.finish(1, 'FAILED', 'no heartbeat')
        told, = self.look()
        self.assertEqual((payloads.ImageReplacementFailed, 'no heartbeat'),
                         (type(told), told.reason))

    def test_cancelled_in_the_middle_and_refused(self):
        self.start()
        self.look()
        self.begin(1, 2)
        self.look()
        self.finish(1, 'CANCELLED', 'a customer calls')
        self.finish(2, 'REFUSED', 'no secret')
        self.assertEqual(
            {(payloads.ImageReplacementCancelled, 'a customer calls'),
             (payloads.ImageReplacementRefused, 'no secret')},
            {(type(told), told.reason) for told in self.look()})

    def test_failed_late(self):
        """It was told that it is done, and is told that it is not."""
        self.start()
        self.begin(1)
        self.finish(1)
        self.look()
        aftermath_repo.set_failed(self.engine, 'replacement1',
                                  'It fell silent.')
        told, = self.look()
        self.assertEqual((payloads.ImageReplacementFailed,
                          'It fell silent.'), (type(told), told.reason))

    def test_another_takes_over(self):
        self.start()
        self.begin(1)
        self.look()
        claims_repo.release(self.engine, 'replacement1', 'one')
        claims_repo.claim(self.engine, 'two', 10, 60)
        self.assertEqual([], self.look())
        claims_repo.finish(self.engine, 'replacement1', 'two', 'DONE')
        told, = self.look()
        self.assertEqual(2, told.attempts)

    def test_several_at_once(self):
        self.start()
        self.begin(*range(1, 6))
        for number in range(1, 4):
            self.finish(number)
        self.run_at_once([announcer.Announcer(
            self.engine, self.notifier).run_once for _ in range(4)])
        told = [(p.EVENT_TYPE, getattr(p, 'replacement_id', None))
                for p in self.notifier.take()]
        self.assertEqual((1 + 5 + 3, 9), (len(told), len(set(told))))
