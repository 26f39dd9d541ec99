#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Which lists each amphora may be using."""

from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import claim as claim_repo
from octavia_hmsync.db.repositories import doubt as doubt_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.db.repositories import heartbeat as heartbeat_repo
from octavia_hmsync.membership import adoption
from tests.db_cases import amphora
from tests.unit.membership import cases

HERE, THERE = '192.0.2.101:5555', '192.0.2.102:5555'
A, B, C = (HERE,), (THERE,), (HERE, THERE)
TIMEOUT = 60
UNKNOWN = adoption.Unknown


class AdoptionCases(amphora.AmphoraCases):
    """Uploads to one amphora, and what is known of it after each."""

    def setUp(self):
        super().setUp()
        self.amphora_id, = self.add(1)
        self.number = 0

    def begin(self):
        """Claim it for the next generation."""
        self.number += 1
        self.owner = f'batch{self.number}'
        self.assertEqual(1, self.claim(self.owner, self.number))

    def end(self, addresses, result='APPLIED', uploaded=True):
        failed = {} if result == 'APPLIED' else {'error': 'it hangs',
                                                 'retry_after': 0}
        self.assertEqual({self.amphora_id}, claim_repo.record(
            self.engine, self.number, self.owner, [claim_repo.Outcome(
                self.amphora_id, result, addresses, uploaded=uploaded,
                **failed)]))

    def upload(self, *lists, result='APPLIED'):
        for addresses in lists:
            self.begin()
            self.end(addresses, result)

    def unproven(self):
        """Return it as long as it is in doubt."""
        return next(iter(doubt_repo.get_unproven(self.engine)), None)

    def adopt(self, address=None):
        return doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine), address)

    def assertPrevious(self, *previous):
        """Check which other lists it may be using."""
        self.assertEqual(set(previous), set(self.unproven().doubt.previous))


class PreviousCases(AdoptionCases):

    def test_never_reached(self):
        self.assertIsNone(self.unproven())
        self.upload(A, result='UNREACHABLE')
        self.assertIsNone(self.unproven())

    def test_first_contact(self):
        """What it booted with nobody knows."""
        self.upload(A)
        unproven = self.unproven()
        self.assertEqual((self.amphora_id, A),
                         (unproven.amphora_id, unproven.doubt.addresses))
        self.assertPrevious(UNKNOWN(1))
        self.assertGreaterEqual(unproven.doubt.age, 0)
        self.assertLess(unproven.doubt.age, 10)

    def test_adopted(self):
        self.upload(A)
        self.assertEqual(1, self.adopt(HERE))
        self.assertIsNone(self.unproven())
        row = self.row(self.amphora_id)
        self.assertEqual((HERE, None), (row.adopted_via,
                                        row.previous_ip_port_lists))
        self.assertIsNotNone(row.adopted_at)
        self.upload(B)
        self.assertPrevious(A)
        row = self.row(self.amphora_id)
        self.assertEqual((None, None), (row.adopted_via, row.adopted_at))

    def test_not_seen_to_use_either(self):
        self.upload(A)
        self.adopt()
        self.upload(B, C)
        self.assertPrevious(A, B)
        self.upload(A)
        self.assertPrevious(A, B, C)

    def test_not_seen_to_use_either_from_the_beginning(self):
        self.upload(A, B, C)
        self.assertPrevious(UNKNOWN(1), A, B)

    def test_flapping(self):
        self.upload(A)
        self.adopt()
        self.upload(B, A, B, A)
        self.assertEqual((A, B), tuple(sorted(
            self.unproven().doubt.previous)))

    def test_same_list_again(self):
        self.upload(A)
        self.adopt()
        before = self.row(self.amphora_id)
        self.upload(A)
        after = self.row(self.amphora_id)
        self.assertEqual(before.adopted_at, after.adopted_at)
        self.assertIsNone(self.unproven())

    def test_same_list_again_before_it_was_adopted(self):
        self.upload(A)
        self.adopt()
        self.upload(B, B)
        self.assertPrevious(A)

    def test_not_concerned(self):
        self.upload(A)
        self.adopt()
        self.begin()
        self.end(A, uploaded=False)
        self.assertIsNone(self.unproven())
        self.assertEqual(2, self.row(self.amphora_id).generation)

    def test_failed_attempt_may_have_arrived(self):
        for result in ('UNREACHABLE', 'REJECTED', 'UNSUPPORTED'):
            self.upload(A)
            self.adopt()
            self.upload(B, result=result)
            self.upload(C)
            self.assertPrevious(A, UNKNOWN(self.number))
            self.adopt()

    def test_failed_attempt_before_it_was_adopted(self):
        self.upload(A)
        self.adopt()
        self.upload(B)
        self.upload(C, result='UNREACHABLE')
        self.upload(C)
        self.assertPrevious(A, B, UNKNOWN(4))

    def test_same_list_after_a_failed_attempt(self):
        """Another one may have come in between."""
        self.upload(A)
        self.adopt()
        self.upload(B, result='UNREACHABLE')
        self.upload(A)
        self.assertPrevious(A, UNKNOWN(3))

    def test_failed_attempt_at_first(self):
        self.upload(A, result='UNREACHABLE')
        self.upload(B)
        self.assertPrevious(UNKNOWN(2))

    def test_claim_that_lapsed(self):
        """Its batch may have uploaded another list before it died."""
        self.upload(A)
        self.adopt()
        self.begin()
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.upload(C)
        self.assertPrevious(A, UNKNOWN(3))

    def test_claim_that_was_given_back(self):
        self.upload(A)
        self.adopt()
        self.begin()
        claim_repo.release(self.engine, self.owner)
        self.upload(C)
        self.assertPrevious(A, UNKNOWN(3))

    def test_too_many(self):
        """Then nothing is known any more."""
        self.upload(A)
        self.adopt()
        longest = tuple(f'[2001:db8:1111:2222:3333:4444:5555:{n:x}]:55555'
                        for n in range(0x1000, 0x1000 + 100))
        self.upload(B, longest, A, longest, A)
        self.assertIn(longest, self.unproven().doubt.previous)
        self.upload(B)
        self.assertPrevious(UNKNOWN(self.number))
        self.upload(C)
        self.assertPrevious(UNKNOWN(self.number - 1), B)

    def test_from_before_the_upgrade(self):
        """A release without adoption left no word of it."""
        self.upload(A)
        with self.engine.begin() as connection:
            connection.execute(models.Amphora.__table__.update().values(
                previous_ip_port_lists=None))
        self.assertPrevious(UNKNOWN())
        self.upload(B)
        self.assertPrevious(UNKNOWN(2), A)

    def test_some_are_ruled_out(self):
        self.upload(A)
        self.adopt()
        self.upload(B, C)
        doubt_repo.set_previous(self.engine, self.unproven(), (B,))
        self.assertPrevious(B)
        doubt_repo.set_previous(self.engine, self.unproven(),
                                (UNKNOWN(2), UNKNOWN(), A))
        self.assertPrevious(UNKNOWN(2), UNKNOWN(), A)

    def test_some_are_ruled_out_of_an_earlier_upload(self):
        self.upload(A, B)
        seen = self.unproven()
        self.upload(C)
        doubt_repo.set_previous(self.engine, seen, (A,))
        self.assertPrevious(UNKNOWN(1), A, B)

    def test_known_ones_for_the_failover_guard(self):
        self.upload(A, B)
        self.assertEqual((A,), doubt_repo.get_others(
            self.row(self.amphora_id)))


class AdoptedCases(AdoptionCases):

    def test_another_upload_came_in_between(self):
        self.upload(A)
        seen = self.unproven()
        self.upload(B)
        self.make_older(models.Amphora, 'applied_at', 100)
        heartbeat_repo.note_heartbeat(self.engine, self.amphora_id, THERE)
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))
        self.assertIsNotNone(self.unproven())
        # And what was noted since stays.
        self.assertEqual([self.amphora_id],
                         list(heartbeat_repo.get_heartbeats(self.engine)))

    def test_same_list_was_uploaded_in_between(self):
        """What was heard before may have been meant for another one."""
        self.upload(A)
        self.make_older(models.Amphora, 'applied_at', 100)
        seen = self.unproven()
        self.upload(A)
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))

    def test_while_another_upload_is_under_way(self):
        """It may be using that one's list already."""
        self.upload(A)
        seen = self.unproven()
        self.begin()
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))
        self.assertIsNotNone(self.unproven())

    def test_another_upload_may_have_arrived(self):
        self.upload(A)
        seen = self.unproven()
        self.upload(B, result='UNREACHABLE')
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))

    def test_once(self):
        self.upload(A)
        seen = self.unproven()
        self.assertEqual([0, 1], sorted(self.run_at_once(
            [lambda a=a: doubt_repo.set_adopted(self.engine, [seen], a)
             for a in (HERE, THERE)])))

    def test_many(self):
        self.upload(A)
        more = self.add_amphorae(30)
        amphora_repo.add_missing(self.engine)
        self.claim('batch9')
        claim_repo.record(self.engine, 1, 'batch9', [
            claim_repo.Outcome(amphora_id, 'APPLIED', A)
            for amphora_id in more])
        self.assertEqual(31, self.adopt())
        self.assertEqual([], doubt_repo.get_unproven(self.engine))

    def test_age(self):
        self.upload(A)
        self.make_older(models.Amphora, 'applied_at', 100)
        self.assertAlmostEqual(100, self.unproven().doubt.age, delta=5)
        self.assertEqual(1, len(doubt_repo.get_unproven(
            self.engine, max_age=120)))
        self.assertEqual([], doubt_repo.get_unproven(
            self.engine, max_age=90))

    def test_last_update(self):
        self.upload(A)
        self.assertIsNone(self.unproven().last_update)
        self.assertFalse(self.unproven().is_held)
        self.records.set_health(self.amphora_id, age=10)
        self.assertIsNotNone(self.unproven().last_update)
        self.assertFalse(self.unproven().is_held)
        # As the failover guard writes it.
        self.make_older(models.Amphora, 'held_at', 5)
        self.assertTrue(self.unproven().is_held)
        self.records.set_health(self.amphora_id, age=0)
        self.assertFalse(self.unproven().is_held)

    def judged(self):
        return doubt_repo.judge_all(
            self.engine, hm_repo.get_all(self.engine), cases.SETTINGS).get(
                self.amphora_id)

    def test_judged(self):
        self.assertIsNone(self.judged())
        self.upload(A)
        self.assertIs(adoption.Adoption.PENDING, self.judged())
        self.make_older(models.Amphora, 'applied_at', 3 * TIMEOUT + 5)
        self.assertIs(adoption.Adoption.UNPROVEN, self.judged())
        heartbeat_repo.note_heartbeat(self.engine, self.amphora_id, THERE)
        # It could not be seen: nobody observes there.
        self.assertIs(adoption.Adoption.UNPROVEN, self.judged())
        hm_repo.register(self.engine, 'hm1', '192.0.2.101', 5555, 'one', 20,
                         is_observing=True)
        hm_repo.set_heard(self.engine, 'hm1', 'one')
        self.assertIs(adoption.Adoption.NOT_ADOPTED, self.judged())
        self.adopt()
        self.assertIs(adoption.Adoption.ADOPTED, self.judged())
