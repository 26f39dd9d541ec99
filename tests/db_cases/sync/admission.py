# SPDX-License-Identifier: Apache-2.0

"""Which amphorae get a new list before the others."""

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from tests.db_cases.sync import amphora

NUMBER = 2


class AdmissionCases(amphora.AmphoraCases):

    def add_heard(self, role='STANDALONE', age=5, busy=False, **values):
        """Add an amphora that was heard some seconds ago."""
        amphora_id = self.records.add_amphora('192.0.2.1', role=role,
                                              **values)
        self.records.set_health(amphora_id, age=age, busy=busy)
        amphora_repo.add_missing(self.engine)
        return amphora_id

    def apply(self, *amphora_ids, number=1):
        """Have amphorae acknowledge a generation."""
        self.claim('earlier', number)
        for amphora_id in amphora_ids:
            self.record(amphora_id, owner='earlier', number=number)

    def candidates(self):
        return [c.amphora_id for c in admission_repo.get_candidates(
            self.engine, NUMBER)]

    def admitted(self):
        return {a.amphora_id: a for a in admission_repo.get_admitted(
            self.engine, NUMBER)}

    def admit(self, *amphora_ids):
        admission_repo.admit(self.engine, NUMBER, amphora_ids)

    # Candidates

    def candidate(self, amphora_id):
        return next(c for c in admission_repo.get_candidates(
            self.engine, NUMBER) if c.amphora_id == amphora_id)

    def test_harm(self):
        ids = [self.add_heard(role) for role in (
            'BACKUP', 'IN_CLUSTER', 'MASTER', 'STANDALONE', None)]
        self.assertEqual(list(range(5)),
                         [self.candidate(i).harm for i in ids])

    def test_load_balancer(self):
        lb = self.records.add_load_balancer()
        owned = self.add_heard(load_balancer_id=lb)
        spare = self.add_heard()
        self.assertEqual((lb, spare), (self.candidate(owned).load_balancer,
                                       self.candidate(spare).load_balancer))
        self.admit(owned, spare)
        self.assertEqual({owned: lb, spare: spare}, {
            a.amphora_id: a.load_balancer for a in self.admitted().values()})

    def test_image_that_goes_on_with_a_list_before(self):
        mute, other = self.add_heard(), self.add_heard()
        self.make_older(models.Amphora, 'not_adopted_at', 30,
                        amphora_id=mute)
        self.assertTrue(self.candidate(mute).is_mute)
        self.assertFalse(self.candidate(other).is_mute)

    def test_fell_silent(self):
        one, other = self.add_heard(), self.add_heard()
        self.apply(one, other)
        # Of an earlier list.
        admission_repo.note_silence(self.engine, 1, [one])
        admission_repo.note_silence(self.engine, NUMBER, [other])
        self.assertTrue(self.candidate(one).fell_silent)
        self.assertFalse(self.candidate(other).fell_silent)
        self.admit(one, other)
        self.claim(number=NUMBER)
        for amphora_id in (one, other):
            self.record(amphora_id, number=NUMBER)
        self.make_older(models.Amphora, 'fell_silent_at', 30, amphora_id=one)
        self.assertFalse(self.admitted()[one].fell_silent)
        admission_repo.note_silence(self.engine, NUMBER, [one])
        self.assertTrue(self.admitted()[one].fell_silent)
        self.assertFalse(self.admitted()[other].fell_silent)

    def test_adopted(self):
        amphora_id = self.add_heard()
        self.admit(amphora_id)
        self.claim(number=NUMBER)
        self.record(amphora_id, number=NUMBER)
        admitted = self.admitted()[amphora_id]
        self.assertEqual((False, None), (admitted.has_adopted,
                                         admitted.adopted_via))
        doubt_repo.set_adopted(self.engine, doubt_repo.get_unproven(
            self.engine), amphora.LIST[0])
        admitted = self.admitted()[amphora_id]
        self.assertEqual((True, amphora.LIST[0]), (admitted.has_adopted,
                                                   admitted.adopted_via))

    def test_not_those_that_cannot_tell_anything(self):
        self.add_heard(busy=True)
        self.add_heard(status='DELETED')
        self.add_heard(status='PENDING_DELETE')
        # Never heard so far; no agent.
        self.add(1)
        self.records.add_amphora(None, status='PENDING_CREATE')
        self.assertEqual([], self.candidates())

    def test_members_of_clusters_that_are_always_busy(self):
        """Which keeps Octavia from failing them over; they are heard."""
        member = self.add_heard('IN_CLUSTER', busy=True)
        self.assertEqual([member], self.candidates())

    def test_clocks_apart(self):
        """Another controller wrote when it was heard."""
        ahead, behind = self.add_heard(age=-180), self.add_heard(age=180)
        self.assertCountEqual([ahead, behind], self.candidates())

    def test_not_those_that_have_it(self):
        there, behind = self.add_heard(), self.add_heard()
        self.apply(there, number=NUMBER)
        self.assertEqual([behind], self.candidates())

    def test_not_those_that_were_admitted(self):
        one, other = self.add_heard(), self.add_heard()
        self.admit(one)
        self.assertEqual([other], self.candidates())
        admission_repo.admit(self.engine, 1, [other])
        self.assertEqual([other], self.candidates())

    def test_the_list_that_they_have(self):
        unknown, known, failed = (self.add_heard() for _ in range(3))
        self.apply(known, failed)
        self.claim('batch2', NUMBER)
        self.record(failed, 'UNREACHABLE', 'batch2', NUMBER)
        self.assertEqual({unknown: None, known: amphora.LIST, failed: None},
                         {c.amphora_id: c.addresses for c in
                          admission_repo.get_candidates(self.engine, NUMBER)})

    # Admitted ones

    def test_none_admitted(self):
        self.add_heard()
        self.assertEqual({}, self.admitted())

    def test_admitted(self):
        one = self.add_heard()
        self.add_heard()
        self.admit(one)
        admitted, = self.admitted().values()
        self.assertEqual((one, False, False, None), (
            admitted.amphora_id, admitted.is_tried, admitted.is_applied,
            admitted.applied_at))
        self.assertIsNotNone(admitted.last_update)
        self.assertFalse(admitted.is_held)

    def test_tried(self):
        applied, failed = self.add_heard(), self.add_heard()
        self.admit(applied, failed)
        self.claim(number=NUMBER)
        self.record(applied, number=NUMBER)
        self.record(failed, 'UNREACHABLE', number=NUMBER)
        self.assertEqual({applied: (True, True), failed: (True, False)}, {
            a.amphora_id: (a.is_tried, a.is_applied)
            for a in self.admitted().values()})
        self.assertIsNotNone(self.admitted()[applied].applied_at)

    def test_had_another_one_before(self):
        amphora_id = self.add_heard()
        self.apply(amphora_id)
        self.admit(amphora_id)
        admitted = self.admitted()[amphora_id]
        self.assertEqual((False, False), (admitted.is_tried,
                                          admitted.is_applied))

    def test_has_this_very_list_already(self):
        """From a batch of another generation that was under way."""
        amphora_id = self.add_heard()
        self.apply(amphora_id)
        self.admit(amphora_id)
        self.claim('batch2', NUMBER)
        self.record(amphora_id, owner='batch2', number=NUMBER,
                    uploaded=False)
        admitted = self.admitted()[amphora_id]
        self.assertEqual((True, True), (admitted.is_tried,
                                        admitted.is_applied))

    def test_held_back(self):
        amphora_id = self.add_heard(age=10)
        self.admit(amphora_id)
        self.make_older(models.Amphora, 'held_at', 0)
        self.assertTrue(self.admitted()[amphora_id].is_held)
        self.records.set_health(amphora_id, age=-5)
        self.assertFalse(self.admitted()[amphora_id].is_held)

    def test_deleted_meanwhile(self):
        amphora_id = self.add_heard()
        self.admit(amphora_id)
        self.records.set_status(amphora_id, 'DELETED')
        self.assertEqual({}, self.admitted())

    def test_nobody_is_admitted_for_ever(self):
        """A number is not used again, but may be compared with any."""
        amphora_id = self.add_heard()
        self.admit(amphora_id)
        self.assertEqual([], admission_repo.get_admitted(self.engine,
                                                         NUMBER + 1))

    def test_many(self):
        ids = [self.add_heard() for _ in range(3)]
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.Amphora.__table__), [
                {'amphora_id': f'other-{n}', 'attempts': 0}
                for n in range(500)])
        self.admit(*ids, *(f'other-{n}' for n in range(500)))
        self.assertEqual(set(ids), set(self.admitted()))
