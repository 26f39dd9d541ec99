# SPDX-License-Identifier: Apache-2.0

"""Rollouts of images, their replacements, and who is left alone."""

import functools

from octavia_hmsync.db import models
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls

SETTINGS = image_calls.SETTINGS
new = image_calls.new


class _Cases(base.DatabaseTestCase):

    def start(self, rollout_id='rollout'):
        return rollout_repo.add(self.engine, rollout_id, SETTINGS, 'CVE')

    def active(self):
        return rollout_repo.get_active(self.engine)

    def begin(self, *numbers, owner='one', version=None, expiry=60):
        if version is None:
            version = self.active().version
        return claims_repo.begin(
            self.engine, 'rollout', version, [new(n) for n in numbers],
            owner, expiry)

    def claim(self, owner, limit=10, expiry=60):
        return [r.id for r in claims_repo.claim(self.engine, owner, limit,
                                                expiry)]

    def get(self, number):
        return replace_repo.get(self.engine, f'replacement{number}')

    def finish(self, number, state='DONE', owner='one', **kwargs):
        return claims_repo.finish(
            self.engine, f'replacement{number}', owner, state, **kwargs)


class RolloutCases(_Cases):

    def change(self, old, new, rollout_id='rollout'):
        return rollout_repo.change_state(self.engine, rollout_id, old, new,
                                         'because')

    def test_none(self):
        self.assertIsNone(self.active())
        self.assertIsNone(rollout_repo.get(self.engine, 'rollout'))
        self.assertEqual([], rollout_repo.get_all(self.engine))
        self.assertFalse(self.change(('RUNNING',), 'PAUSED'))

    def test_started(self):
        self.assertTrue(self.start())
        found = self.active()
        self.assertEqual(('rollout', 'RUNNING', 0, 'CVE', SETTINGS, None),
                         (found.id, found.state, found.version, found.reason,
                          found.settings, found.finished_at))
        # SQLite may ask its clock twice in a statement.
        self.assertLessEqual(found.created_at, found.updated_at)
        self.assertLessEqual(found.created_at, found.now)

    def test_one_at_a_time(self):
        self.start()
        self.assertFalse(self.start('other'))
        self.change(('RUNNING',), 'PAUSED')
        self.assertFalse(self.start('other'))
        self.assertEqual('rollout', self.active().id)
        self.change(('PAUSED',), 'CANCELLED')
        self.assertIsNone(self.active())
        self.assertTrue(self.start('other'))
        self.assertEqual('other', self.active().id)
        self.assertEqual({'other', 'rollout'}, {
            r.id for r in rollout_repo.get_all(self.engine)})
        self.assertEqual(1, len(rollout_repo.get_all(self.engine, 1)))

    def test_started_at_the_same_time(self):
        started = self.run_at_once([
            functools.partial(self.start, f'rollout{n}') for n in range(4)])
        self.assertEqual([False, False, False, True], sorted(started))
        self.assertEqual(1, len(rollout_repo.get_all(self.engine)))

    def test_states(self):
        self.start()
        self.assertFalse(self.change(('PAUSED',), 'RUNNING'))
        self.assertTrue(self.change(('RUNNING',), 'PAUSED'))
        self.assertFalse(self.change(('RUNNING',), 'PAUSED'))
        self.assertEqual(('PAUSED', 'because', 1, None), (
            self.active().state, self.active().reason,
            self.active().version, self.active().finished_at))
        self.assertTrue(self.change(('PAUSED',), 'RUNNING'))
        self.assertTrue(self.change(('RUNNING', 'PAUSED'), 'CANCELLED'))
        ended = rollout_repo.get(self.engine, 'rollout')
        self.assertEqual('CANCELLED', ended.state)
        self.assertIsNotNone(ended.finished_at)
        self.assertFalse(self.change(('PAUSED', 'RUNNING'), 'RUNNING'))

    def test_end_that_was_decided_before_something_changed(self):
        self.start()
        self.begin(1)
        end = functools.partial(rollout_repo.end, self.engine, 'rollout')
        self.assertFalse(end(0, 'DONE', 'all done'))
        self.assertTrue(end(1, 'HALTED', 'it failed'))
        self.assertFalse(end(2, 'DONE', 'all done'))
        self.assertEqual('it failed',
                         rollout_repo.get(self.engine, 'rollout').reason)

    def test_end_of_one_that_was_paused(self):
        self.start()
        self.change(('RUNNING',), 'PAUSED')
        self.assertFalse(rollout_repo.end(self.engine, 'rollout', 1, 'DONE',
                                          'all done'))


class ReplacementCases(_Cases):

    def test_begins(self):
        self.start()
        self.assertEqual(['replacement1', 'replacement2'], self.begin(1, 2))
        one = self.get(1)
        self.assertEqual(
            ('RUNNING', 'one', 1, 'rollout', 'image', None),
            (one.state, one.claim_owner, one.attempts, one.rollout_id,
             one.target_image_id, one.phase))
        self.assertIsNotNone(one.started_at)
        self.assertEqual(['replacement1', 'replacement2'], sorted(
            r.id for r in replace_repo.get_of_rollout(self.engine,
                                                      'rollout')))
        standing = replace_repo.get_standing(self.engine, 'rollout')
        self.assertEqual(
            [{name: getattr(self.get(number), name) for name in row._fields}
             for number, row in enumerate(standing, 1)],
            [row._asdict() for row in standing])
        self.assertEqual(2, len(standing))
        self.assertEqual(2, len(replace_repo.get_start_ages(self.engine, 60)))
        self.make_older(models.ImageReplacement, 'started_at', 90,
                        id='replacement1')
        self.assertEqual(1, len(replace_repo.get_start_ages(self.engine, 60)))
        self.assertEqual(
            {'rollout': {'RUNNING': 2}, 'other': {}},
            replace_repo.count_states(self.engine, ['rollout', 'other']))

    def test_nothing_begins_when_something_has_changed(self):
        self.start()
        version = self.active().version
        self.begin(1)
        for change in (
                lambda: self.begin(2),
                lambda: self.finish(2),
                lambda: rollout_repo.change_state(
                    self.engine, 'rollout', ('RUNNING',), 'PAUSED'),
                lambda: exclusion_repo.add(self.engine, 'id', 'ZONE', 'az1',
                                           'because')):
            self.assertIsNone(self.begin(9, version=version))
            version = self.active().version
            change()
            self.assertGreater(self.active().version, version)
        self.assertIsNone(self.begin(9, version=version))
        # Paused.
        self.assertIsNone(self.begin(9))
        self.assertIsNone(self.get(9))

    def test_two_housekeepers_begin(self):
        """What one of them has chosen begins, as if the others were late."""
        self.start()
        begun = self.run_at_once([
            functools.partial(self.begin, 1, 10 + n, owner=f'keeper{n}',
                              version=0) for n in range(4)])
        self.assertEqual(3, begun.count(None))
        self.assertEqual(2, len(replace_repo.get_open(self.engine)))

    def test_one_that_an_operator_has_begun(self):
        self.start()
        self.assertTrue(replace_repo.add(self.engine, replace_repo.New(
            'own', 'lb1', 'failover', 'image')))
        self.assertFalse(replace_repo.add(self.engine, new(1)))
        self.assertEqual(['replacement2'], self.begin(1, 2))
        found = replace_repo.get_of_load_balancer(self.engine, 'lb1')
        self.assertEqual([('own', 'WAITING', 'failover', 0)], [
            (r.id, r.state, r.mode, r.attempts) for r in found])
        # It counts for no rollout.
        self.assertEqual(1, len(replace_repo.get_start_ages(self.engine, 60)))
        self.claim('two')
        self.assertEqual(1, len(replace_repo.get_start_ages(self.engine, 60)))

    def test_forced(self):
        self.start()
        self.begin(1)
        replace_repo.add(self.engine, new(2, forced=True))
        self.assertEqual([False, True],
                         [self.get(n).forced for n in (1, 2)])

    def test_claims(self):
        for number in (1, 2, 3):
            replace_repo.add(self.engine, new(number))
        self.assertEqual(2, len(self.claim('one', limit=2)))
        self.assertEqual(1, len(self.claim('two')))
        self.assertEqual([], self.claim('three'))

    def test_two_housekeepers_claim(self):
        for number in range(20):
            replace_repo.add(self.engine, new(number))

        def claim_all(owner):
            claimed, calls = [], 0
            while len(replace_repo.get_open(self.engine)) > len(claimed):
                calls += 1
                found = self.claim(f'{owner}-{calls}', limit=3)
                if not found and calls > 20:
                    break
                claimed += found
            return claimed

        claimed = sum(self.run_at_once([
            functools.partial(claim_all, f'keeper{n}') for n in range(3)]),
            [])
        self.assertEqual(20, len(claimed))
        self.assertEqual(20, len(set(claimed)))

    def test_one_dies(self):
        self.start()
        self.begin(1)
        self.assertTrue(claims_repo.set_phase(
            self.engine, 'replacement1', 'one', 60, 'BUILD',
            new_amphora_id='amphora'))
        self.assertEqual([], self.claim('two'))
        self.make_older(models.ImageReplacement, 'claim_expires_at', 1)
        started_at = self.get(1).started_at
        self.assertEqual(['replacement1'], self.claim('two'))
        one = self.get(1)
        self.assertEqual(
            ('RUNNING', 'BUILD', 'amphora', 2, 'two', started_at),
            (one.state, one.phase, one.new_amphora_id, one.attempts,
             one.claim_owner, one.started_at))
        # It comes back to life.
        self.assertFalse(claims_repo.renew(self.engine, 'replacement1',
                                           'one', 60))
        self.assertFalse(claims_repo.set_phase(
            self.engine, 'replacement1', 'one', 60, 'SWITCH'))
        self.assertFalse(claims_repo.release(self.engine, 'replacement1',
                                             'one'))
        self.assertFalse(self.finish(1))
        self.assertEqual('BUILD', self.get(1).phase)

    def test_what_somebody_died_with_comes_first(self):
        replace_repo.add(self.engine, new(1))
        self.claim('one')
        replace_repo.add(self.engine, new(2))
        self.make_older(models.ImageReplacement, 'created_at', 60,
                        id='replacement2')
        claims_repo.release(self.engine, 'replacement1', 'one')
        self.assertEqual(['replacement1'], self.claim('two', limit=1))

    def test_a_claim_that_lapsed_and_that_nobody_wants(self):
        self.start()
        self.begin(1, expiry=-1)
        self.assertTrue(claims_repo.renew(self.engine, 'replacement1', 'one',
                                          60))
        self.assertEqual([], self.claim('two'))

    def test_ends(self):
        self.start()
        self.begin(1, 2)
        version = self.active().version
        self.assertTrue(self.finish(1, 'FAILED', reason='no heartbeat'))
        self.assertEqual(version + 1, self.active().version)
        one = self.get(1)
        self.assertEqual(('FAILED', 'no heartbeat', None, None),
                         (one.state, one.reason, one.claim_owner,
                          one.not_before))
        self.assertIsNotNone(one.finished_at)
        self.assertFalse(self.finish(1))
        self.finish(2, 'SKIPPED', reason='it is PENDING', wait=60)
        self.assertGreater(self.get(2).not_before, self.get(2).now)
        self.assertEqual([], replace_repo.get_open(self.engine))
        # There may be another one.
        self.assertTrue(replace_repo.add(self.engine, replace_repo.New(
            'own', 'lb1', 'replace', 'image')))

    def test_durations(self):
        self.start()
        self.assertEqual([], replace_repo.get_durations(self.engine, 2))
        self.begin(1, 2, 3, 4)
        for number, state in ((1, 'DONE'), (2, 'DONE'), (3, 'FAILED')):
            self.finish(number, state)
        self.make_older(models.ImageReplacement, 'started_at', 90,
                        id='replacement1')
        found = sorted(replace_repo.get_durations(self.engine, 9))
        self.assertEqual(2, len(found))
        self.assertLess(found[0], 60)
        self.assertLess(85, found[1])
        self.assertEqual(1, len(replace_repo.get_durations(self.engine, 1)))

    def test_ends_when_the_rollout_has_ended(self):
        self.start()
        self.begin(1)
        rollout_repo.change_state(self.engine, 'rollout', ('RUNNING',),
                                  'CANCELLED')
        self.make_older(models.ImageReplacement, 'claim_expires_at', 1)
        self.assertEqual(['replacement1'], self.claim('two'))
        self.assertTrue(self.finish(1, owner='two'))

    def test_cancel(self):
        replace_repo.add(self.engine, new(1))
        replace_repo.add(self.engine, new(2))
        self.claim('one', limit=1)
        running, = (r for r in replace_repo.get_open(self.engine)
                    if r.state == 'RUNNING')
        waiting, = (r for r in replace_repo.get_open(self.engine)
                    if r.state == 'WAITING')
        for reason in ('no', 'once more'):
            self.assertEqual('RUNNING', cancel_repo.cancel(
                self.engine, running.id, reason))
        self.assertEqual('no', cancel_repo.get_request(self.engine,
                                                       running.id))
        self.assertEqual('CANCELLED', cancel_repo.cancel(
            self.engine, waiting.id, 'no'))
        self.assertIsNone(cancel_repo.cancel(self.engine, waiting.id, 'no'))
        self.assertIsNone(cancel_repo.get_request(self.engine, waiting.id))
        self.assertEqual([], self.claim('two'))

    def test_cancel_rollout(self):
        """What runs of it is to go back, and nothing else."""
        self.start()
        self.begin(1, 2, 3)
        self.finish(3)
        replace_repo.add(self.engine, new(4))
        self.assertEqual(2, cancel_repo.cancel_rollout(
            self.engine, 'rollout', ('RUNNING',), 'enough'))
        self.assertEqual(['enough', 'enough', None, None], [
            cancel_repo.get_request(self.engine, f'replacement{number}')
            for number in (1, 2, 3, 4)])
        self.assertIsNone(self.active())
        self.assertIsNone(cancel_repo.cancel_rollout(
            self.engine, 'rollout', ('RUNNING',), 'enough'))

    def test_what_uses_up_the_rate(self):
        """What ended before anything was touched does not."""
        self.start()
        self.begin(1, 2, 3, 4)
        self.assertEqual(4, len(replace_repo.get_start_ages(self.engine,
                                                            60)))
        claims_repo.set_phase(self.engine, 'replacement1', 'one', 60,
                              'BUILD', old_amphora_id='amphora')
        for number, state in ((1, 'SKIPPED'), (2, 'SKIPPED'), (3, 'REFUSED'),
                              (4, 'CANCELLED')):
            self.finish(number, state)
        self.assertEqual(1, len(replace_repo.get_start_ages(self.engine,
                                                            60)))


class ExclusionCases(_Cases):

    def add(self, kind, value, reason='because', seconds=None):
        exclusion_repo.add(self.engine, f'{kind}{value}{reason}'[:36], kind,
                           value, reason, seconds)

    def all(self):
        return [(e.kind, e.value, e.reason)
                for e in exclusion_repo.get_all(self.engine)]

    def test_none(self):
        self.assertEqual([], self.all())
        self.assertEqual({}, exclusion_repo.get_tagged(self.engine))
        self.assertFalse(exclusion_repo.remove(self.engine, 'TAG', 'a'))

    def test_add_and_remove(self):
        self.add('ZONE', 'az1')
        self.add('TAG', 'az1')
        self.assertEqual([('TAG', 'az1', 'because'),
                          ('ZONE', 'az1', 'because')], self.all())
        self.assertTrue(exclusion_repo.remove(self.engine, 'TAG', 'az1'))
        self.assertEqual([('ZONE', 'az1', 'because')], self.all())

    def test_again(self):
        self.add('ZONE', 'az1', seconds=60)
        self.add('ZONE', 'az1', 'another reason')
        found, = exclusion_repo.get_all(self.engine)
        self.assertEqual(('another reason', None),
                         (found.reason, found.expires_at))

    def test_at_the_same_time(self):
        self.start()
        self.run_at_once([functools.partial(
            self.add, 'ZONE', 'az1', f'reason{n}') for n in range(4)])
        self.assertEqual(1, len(self.all()))

    def test_end(self):
        self.add('ZONE', 'az1', seconds=60)
        self.add('TAG', 'fragile', seconds=60)
        self.records.insert_all({'tags': [
            {'resource_id': 'lb1', 'tag': 'fragile'}]})
        self.assertEqual(2, len(self.all()))
        self.assertEqual({'lb1': ['fragile']},
                         exclusion_repo.get_tagged(self.engine))
        self.make_older(models.ImageExclusion, 'expires_at', 1)
        self.assertEqual([], self.all())
        self.assertEqual({}, exclusion_repo.get_tagged(self.engine))
        self.assertFalse(exclusion_repo.remove(self.engine, 'ZONE', 'az1'))
        # What has ended is deleted now and then.
        self.add('ZONE', 'az2')
        self.assertEqual(1, len(self.rows(models.ImageExclusion)))

    def test_tags(self):
        """Those of load balancers, and not the tag of another kind."""
        self.add('TAG', 'fragile')
        self.add('TAG', 'other')
        self.add('ZONE', 'free')
        self.records.insert_all({'tags': [
            {'resource_id': resource, 'tag': tag} for resource, tag in
            (('lb1', 'fragile'), ('lb1', 'other'), ('lb2', 'free'),
             ('lb3', 'other'))]})
        self.assertEqual({'lb1': ['fragile', 'other'], 'lb3': ['other']},
                         exclusion_repo.get_tagged(self.engine))

    def test_count(self):
        """Load balancers that rollouts concern, as long as they are there."""
        flavor = self.records.add_flavor()
        ids = [self.records.add_load_balancer(flavor_id=flavor)
               for _ in range(4)]
        self.add_zone('az1')
        for lb_id, values in ((ids[0], {'availability_zone': 'az1'}),
                              (ids[1], {'provider': None}),
                              (ids[2], {'provider': 'ovn'}),
                              (ids[3], {'provisioning_status': 'DELETED'})):
            self.records.change('load_balancer', lb_id, **values)
        self.records.insert_all({'tags': [
            {'resource_id': resource, 'tag': 'fragile'}
            for resource in (ids[0], ids[1], ids[3], 'listener')]})
        for number, kind, value in (
                (2, 'FLAVOR', flavor), (0, 'FLAVOR', 'gold'),
                (2, 'PROJECT', 'demo'), (2, 'TAG', 'fragile'),
                (0, 'TAG', 'free'), (1, 'ZONE', 'az1'), (0, 'ZONE', 'az2'),
                (1, 'LOAD_BALANCER', ids[0]), (0, 'LOAD_BALANCER', ids[3])):
            self.assertEqual(number, exclusion_repo.count(
                self.engine, kind, value), (kind, value))
