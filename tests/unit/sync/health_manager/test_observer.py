# SPDX-License-Identifier: Apache-2.0

"""What a health manager concludes from the heartbeats that it receives."""

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.health_manager import observer
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit.sync.rules import cases
from tests.unit.sync.rules import test_adoption as simulation

INTERVAL = 10
OVERDUE = 200


class ObserverTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.number = 0
        self.statements = []
        sa.event.listen(self.engine, 'before_cursor_execute', self._record)

    def _record(self, conn, cursor, statement, parameters, context, many):
        self.statements.append(statement.split()[0])

    @property
    def writes(self):
        return [s for s in self.statements if s not in ('SELECT', 'BEGIN')]

    @property
    def reads(self):
        return self.statements.count('SELECT')

    def make(self, number=1, instance=None):
        """Make the observer of one process of a health manager."""
        return observer.AdoptionObserver(
            self.make_conf(DEFAULT={'host': f'hm{number}'}), self.engine,
            instance or f'instance-{number}', clock=lambda: self.now)

    def listen(self, *numbers, is_observing=False):
        """Have health managers listen."""
        for n in numbers:
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}', 20, is_observing=is_observing)

    def add(self, number=1):
        ids = self.add_amphorae(number)
        amphora_repo.add_missing(self.engine)
        return ids

    def upload(self, addresses, *amphora_ids, age=0.0, result='APPLIED'):
        """Have amphorae acknowledge a list some time ago."""
        self.number += 1
        owner = f'batch{self.number}'
        claim_repo.claim_due(self.engine, self.number, owner, 10000, 120)
        failed = {} if result == 'APPLIED' else {'error': 'it hangs',
                                                 'retry_after': 0}
        outcome_repo.record(self.engine, self.number, owner, [
            outcome_repo.Outcome(amphora_id, result, addresses, **failed)
            for amphora_id in amphora_ids])
        claim_repo.release(self.engine, owner)
        if result == 'APPLIED':
            self.set_age(age, *amphora_ids)

    def set_age(self, age, *amphora_ids):
        for amphora_id in amphora_ids:
            self.make_older(models.Amphora, 'applied_at', age,
                            amphora_id=amphora_id)

    def adopt(self):
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine))

    def row(self, amphora_id):
        return next(r for r in self.rows(models.Amphora)
                    if r.amphora_id == amphora_id)

    def is_adopted(self, amphora_id):
        return self.row(amphora_id).adopted_at is not None

    def noted(self):
        return {(row.amphora_id, row.address)
                for row in self.rows(models.Heartbeat)}


class TestKey(ObserverTestCase):

    def test_heard_with_another_key(self):
        """It goes on as before, at an address that its new list has, too."""
        amphora_id, = self.add()
        addresses = ('192.0.2.1:5555',)
        owner = 'batch'
        for number, key in enumerate(('old', 'new'), 1):
            claim_repo.claim_due(self.engine, number, owner, 10, 120)
            outcome_repo.record(
                self.engine, number, owner, [outcome_repo.Outcome(
                    amphora_id, 'APPLIED', addresses)], key)
            if key == 'old':
                self.adopt()
        self.set_age(100, amphora_id)
        self.assertEqual(('new', 'old'), (
            self.row(amphora_id).key_digest,
            self.row(amphora_id).previous_key_digest))
        for key in 'old', 'new':
            self.assertFalse(self.is_adopted(amphora_id))
            hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555,
                             f'instance-{key}', 20, key)
            self.make(instance=f'instance-{key}').observe(amphora_id)
        self.assertTrue(self.is_adopted(amphora_id))
        self.assertIsNone(self.row(amphora_id).previous_key_digest)


class TestProof(ObserverTestCase):

    def setUp(self):
        super().setUp()
        self.listen(1, 2, 3, 4)
        self.amphora_id, = self.add()

    def known(self, old, new, age=OVERDUE):
        """Have it use one list, and acknowledge another one."""
        self.upload(cases.addresses(*old), self.amphora_id)
        self.adopt()
        self.upload(cases.addresses(*new), self.amphora_id, age=age)

    def test_address_that_only_the_new_list_holds(self):
        self.known((1, 2), (1, 2, 3))
        for number, expected in ((1, False), (2, False), (3, True)):
            self.make(number).observe(self.amphora_id)
            self.assertEqual(expected, self.is_adopted(self.amphora_id))
        self.assertEqual(cases.address(3),
                         self.row(self.amphora_id).adopted_via)
        self.assertEqual(set(), self.noted())

    def test_at_its_address_in_the_network_of_the_amphora(self):
        """And no proof where either of its addresses may be meant."""
        for n in (1, 2):
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}', 20,
                             further={'192.0.2.96/27': f'192.0.2.{100 + n}'})
        self.known((102,), (101, 102))
        self.make(2).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.make(1).observe(self.amphora_id)
        self.assertEqual(cases.address(101),
                         self.row(self.amphora_id).adopted_via)
        self.known((1, 2), (101, 102))
        for number in (1, 2):
            self.make(number).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertEqual(set(), self.noted())

    def test_nothing_before_it_has_had_time(self):
        """What arrives then may be meant for any list."""
        self.known((1, 2), (1, 2, 3), age=10)
        subject = self.make(3)
        subject.observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertEqual(set(), self.noted())
        self.set_age(19, self.amphora_id)
        self.now += 10
        # It arrived when it had not had it yet.
        subject.observe(self.amphora_id, delay=9)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.set_age(21, self.amphora_id)
        self.now += 10
        subject.observe(self.amphora_id)
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_time_goes_on_between_looks(self):
        self.known((1, 2), (1, 2, 3), age=15.5)
        subject = self.make(3)
        subject.observe(self.amphora_id)
        self.now += 4.9
        subject.observe(self.amphora_id)
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_old_address(self):
        self.known((1, 2), (2, 3), age=25)
        self.make(1).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertEqual({(self.amphora_id, cases.address(1))}, self.noted())

    def test_heartbeat_elsewhere_will_prove_it(self):
        """Nothing is written for most amphorae but that they adopted."""
        self.known((1, 2), (1, 2, 3), age=25)
        self.make(1).observe(self.amphora_id)
        self.assertEqual(set(), self.noted())

    def test_address_was_dropped(self):
        """Its turn comes sooner, even if another process sees it."""
        self.known((1, 2, 3), (1, 2), age=60)
        one, other = self.make(1), self.make(1)
        one.observe(self.amphora_id)
        self.assertEqual({(self.amphora_id, cases.address(1))}, self.noted())
        # The test takes no time; what was noted did.
        self.now += 20
        self.make_older(models.Heartbeat, 'heard_at', 20)
        other.observe(self.amphora_id)
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_address_was_dropped_and_it_goes_on_with_it(self):
        self.known((1, 2, 3), (1, 2), age=60)
        subject = self.make(1)
        for _ in range(5):
            subject.observe(self.amphora_id)
            self.now += 30
            self.make_older(models.Heartbeat, 'heard_at', 30)
        self.assertFalse(self.is_adopted(self.amphora_id))

    def test_same_process_remembers(self):
        self.known((1,), (1, 2), age=60)
        self.upload(cases.addresses(1), self.amphora_id, age=60)
        subject = self.make(1)
        self.now += 4
        subject.observe(self.amphora_id)
        # It came twice.
        self.now += 0.5
        subject.observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.now += 10
        self.make_older(models.Heartbeat, 'heard_at', 10)
        subject.observe(self.amphora_id)
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_several_lists(self):
        """Each is ruled out by what another health manager heard."""
        self.known((1, 2), (1, 3))
        self.upload(cases.addresses(2, 3), self.amphora_id, age=100)
        self.make(2).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.make(3).observe(self.amphora_id)
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_list_is_not_known(self):
        self.upload(cases.addresses(1, 2), self.amphora_id, age=100)
        one, two = self.make(1), self.make(2)
        for subject in (one, two):
            subject.observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.now += 20
        self.make_older(models.Heartbeat, 'heard_at', 20)
        one.observe(self.amphora_id)
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_list_is_not_known_and_part_of_it_has_no_plugin(self):
        """Then it cannot be shown; it may go on with 1 and any other one."""
        self.upload(cases.addresses(1, 9), self.amphora_id, age=100)
        subject = self.make(1)
        for _ in range(3):
            subject.observe(self.amphora_id)
            self.now += 20
            self.make_older(models.Heartbeat, 'heard_at', 20)
        self.assertFalse(self.is_adopted(self.amphora_id))

    def test_what_was_heard_before_the_upload_does_not_count(self):
        self.upload(cases.addresses(1, 2), self.amphora_id, age=60)
        for number in (1, 2):
            self.make(number).observe(self.amphora_id)
        self.upload(cases.addresses(1, 3), self.amphora_id, age=30)
        self.make_older(models.Heartbeat, 'heard_at', 40)
        self.make(1).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))

    def test_another_upload_comes_in_between(self):
        self.known((1, 2), (1, 2, 3))
        subject = self.make(3)
        self.now += 1
        subject.observe('somebody else')
        self.upload(cases.addresses(1, 2, 4), self.amphora_id)
        subject.observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))

    def test_another_upload_may_have_arrived(self):
        """Then it may be using that one's list."""
        self.known((1, 2), (1, 2, 3))
        self.upload(cases.addresses(3, 4), self.amphora_id,
                    result='UNREACHABLE')
        self.make(3).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))

    def test_two_processes_see_it_at_once(self):
        self.known((1, 2), (1, 2, 3))
        self.run_at_once([
            lambda subject=self.make(3): subject.observe(self.amphora_id)
            for _ in range(3)])
        self.assertTrue(self.is_adopted(self.amphora_id))

    def test_not_registered(self):
        """Then nobody knows which address it is that heard it."""
        self.known((1, 2), (1, 2, 3))
        self.make(9).observe(self.amphora_id)
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertEqual(set(), self.noted())

    def test_others_amphorae(self):
        self.known((1, 2), (1, 2, 3))
        self.make(3).observe('somebody else')
        self.assertFalse(self.is_adopted(self.amphora_id))


class TestEveryHistory(ObserverTestCase):
    """What the rules promise, the observer and the tables keep."""

    def setUp(self):
        super().setUp()
        self.listen(*range(1, 8))

    def clear(self):
        """Forget the amphorae of the example before."""
        for amphora in self.records.rows('amphora'):
            self.records.set_status(amphora['id'], 'DELETED')
        amphora_repo.delete_gone(self.engine)

    @hypothesis_settings(max_examples=10)
    @given(simulation.lists, st.booleans(), st.booleans(),
           st.lists(simulation.beats, min_size=15, max_size=25))
    def test_who_is_found_to_have_adopted_has(
            self, boot, is_known, reads_again, beats):
        cloud = _Cloud(self, boot, is_known, reads_again)
        for jitter, fate, process, _when, (event, argument) in beats:
            cloud.happen(event, argument)
            cloud.pass_time(jitter * INTERVAL)
            cloud.beat(fate, process)
            row = self.row(cloud.amphora_id)
            if row.adopted_at and row.result == 'APPLIED':
                self.assertTrue(cloud.amphora.has_adopted(
                    cloud.acknowledged))


class _Cloud:
    """One amphora of the simulation, with observers and tables.

    The database's clock cannot be set: its times are.
    """

    def __init__(self, test, boot, is_known, reads_again):
        self._test = test
        test.clear()
        self.amphora = simulation.Amphora(boot, reads_again)
        self.amphora_id, = test.add()
        self.acknowledged = boot
        self._listening = set(cases.addresses(*range(1, 8)))
        self._observers = {
            (cases.address(n), process): test.make(n)
            for n in range(1, 8) for process in (0, 1)}
        self._ages = {}
        self._applied_age = 0.0
        if is_known:
            test.upload(boot, self.amphora_id)
            test.adopt()

    def happen(self, event, argument):
        if event == 'listen':
            self._listening = set(cases.addresses(*argument))
        elif event == 'restart':
            self.amphora.restart()
        elif event == 'upload':
            self.amphora.upload(argument)
            self._test.upload(argument, self.amphora_id)
            self.acknowledged, self._applied_age = argument, 0.0
        elif event == 'upload, no answer':
            self.amphora.upload(argument)
            self._test.upload(argument, self.amphora_id,
                              result='UNREACHABLE')

    def pass_time(self, seconds):
        self._test.now += seconds
        self._applied_age += seconds
        self._test.set_age(self._applied_age, self.amphora_id)
        self._ages = {address: self._ages.get(address, 0.0) + seconds
                      for _, address in self._test.noted()}
        for address, age in self._ages.items():
            self._test.make_older(models.Heartbeat, 'heard_at', age,
                                  address=address)

    def beat(self, fate, process):
        address = self.amphora.beat()
        if fate == 'is lost' or address not in self._listening:
            return
        self._observers[address, process].observe(self.amphora_id)
        if fate == 'arrives twice':
            self._observers[address, 1 - process].observe(self.amphora_id)
        # Noted anew, if at all.
        self._ages.pop(address, None)


class TestProofAmongMany(TestProof):
    """The same where each amphora is looked up when it is heard."""

    def setUp(self):
        super().setUp()
        self.patch(observer, '_FEW', 0)

    # What is read at each heartbeat is not old.
    test_time_goes_on_between_looks = None


class TestSteadyState(ObserverTestCase):

    def hear(self, subject, amphora_ids, rounds, length):
        """Have heartbeats arrive.

        :param rounds: how many of each amphora.
        :param length: of their lists.
        """
        self.statements.clear()
        pause = length * INTERVAL / len(amphora_ids)
        for _ in range(rounds):
            for amphora_id in amphora_ids:
                self.now += pause
                subject.observe_any()
                subject.observe(amphora_id)
            written = list(self.statements)
            self.make_older(models.Heartbeat, 'heard_at', length * INTERVAL)
            self.statements[:] = written

    def test_all_have_adopted(self):
        """It asks every half heartbeat_interval, and writes nothing."""
        self.listen(1, 2)
        ids = self.add(200)
        self.upload(cases.addresses(1, 2), *ids)
        self.adopt()
        self.hear(self.make(1), ids, 5, 2)
        self.assertEqual([], self.writes)
        # The health managers, and the amphorae in doubt; now and then those
        # that are for long.
        self.assertLessEqual(self.reads, 2 * 5 * 2 * INTERVAL /
                             (INTERVAL / 2) + 4)

    def test_some_have_not_adopted_and_that_is_known(self):
        self.listen(1, 2, 3)
        ids = self.add(20)
        self.upload(cases.addresses(1, 2), *ids)
        self.adopt()
        self.upload(cases.addresses(1, 2, 3), *ids, age=OVERDUE)
        subject = self.make(1)
        self.hear(subject, ids, 1, 2)
        self.assertEqual(20, len(self.noted()))
        self.hear(subject, ids, 50, 2)
        self.assertEqual([], self.writes)
        # Where they were heard, too.
        self.assertLessEqual(self.reads, 3 * 50 * 2 * INTERVAL /
                             (INTERVAL / 2) + 18)

    def test_old_images_go_on_with_another_subset(self):
        """All of its health managers live on, and none of them drains."""
        self.listen(*range(1, 10))
        ids = self.add(20)
        self.upload(cases.addresses(1, 2, 3, 4, 5), *ids)
        self.adopt()
        self.upload(cases.addresses(5, 6, 7, 8, 9), *ids, age=OVERDUE)
        subject = self.make(1)
        self.hear(subject, ids, 1, 5)
        self.assertEqual(20, len(self.noted()))
        self.hear(subject, ids, 20, 5)
        self.assertEqual([], self.writes)

    def test_uploads_that_fail(self):
        """Its agent cannot be reached; its heartbeats arrive."""
        self.listen(1, 2)
        ids = self.add(20)
        self.upload(cases.addresses(1), *ids)
        self.adopt()
        self.upload(cases.addresses(1, 2), *ids, age=OVERDUE)
        self.upload(cases.addresses(1, 2, 3), *ids, result='UNREACHABLE')
        one, two = self.make(1), self.make(2)
        for _ in range(2):
            self.hear(one, ids, 1, 2)
            self.hear(two, ids, 1, 2)
        self.hear(one, ids, 20, 2)
        self.assertEqual([], self.writes)

    def test_drain_is_told_of_each_heartbeat(self):
        """The command waits until there are none any more."""
        self.listen(1, 2)
        ids = self.add(1)
        self.upload(cases.addresses(1, 2), *ids)
        self.adopt()
        self.upload(cases.addresses(2), *ids, age=OVERDUE)
        hm_repo.change_status(self.engine, 'hm1', 'ONLINE', 'DRAINING')
        subject = self.make(1)
        subject.observe(*ids)
        self.make_older(models.Heartbeat, 'heard_at', 20)
        self.now += 20
        subject.observe(*ids)
        age, = heartbeat_repo.get_heartbeats(self.engine)[ids[0]].values()
        self.assertAge(0, age)

    def test_overdue_ones_may_show_after_a_restart_of_their_agents(self):
        self.listen(1, 2)
        amphora_id, = self.add()
        self.upload(cases.addresses(1, 2), amphora_id)
        self.adopt()
        self.upload(cases.addresses(1), amphora_id, age=5000)
        subject = self.make(1)
        for _ in range(3):
            subject.observe(amphora_id)
            self.now += 20
            self.make_older(models.Heartbeat, 'heard_at', 20)
        self.assertFalse(self.is_adopted(amphora_id))
        self.now += 4000
        self.make_older(models.Heartbeat, 'heard_at', 4000)
        subject.observe(amphora_id)
        self.now += 10
        self.make_older(models.Heartbeat, 'heard_at', 10)
        subject.observe(amphora_id)
        self.assertTrue(self.is_adopted(amphora_id))

    def test_those_overdue_for_long_cost_little(self):
        """However many they are, and for how long."""
        self.listen(1, 2)
        ids = self.add(60)
        self.upload(cases.addresses(1, 2), *ids)
        self.adopt()
        self.upload(cases.addresses(1), *ids, age=5000)
        subject = self.make(1)
        self.hear(subject, ids, 10, 2)
        self.hear(subject, ids, 30, 2)
        self.assertEqual([], self.writes)
        # Each of them once in ten minutes.
        self.assertLessEqual(self.reads, 2 * 30 * 2 * INTERVAL /
                             (INTERVAL / 2) + 2 * len(ids) + 12)

    def test_those_overdue_for_long_are_found_page_by_page(self):
        self.patch(observer, '_OVERDUE_PAGE', 2)
        self.listen(1, 2)
        ids = self.add(5)
        self.upload(cases.addresses(1, 2), *ids)
        self.adopt()
        self.upload(cases.addresses(1), *ids, age=5000)
        subject = self.make(1)
        found = []
        for _ in range(4):
            subject.observe_any()
            found.append(len(subject._overdue))
            self.now += 60
        self.assertEqual([2, 4, 5, 5], found)
        self.adopt()
        for _ in range(3):
            subject.observe_any()
            self.now += 60
        self.assertEqual({}, subject._overdue)

    def test_of_many_only_those_that_are_heard_are_read(self):
        self.patch(observer, '_FEW', 10)
        self.listen(1, 2)
        ids = self.add(30)
        self.upload(('192.0.2.1:5555', '192.0.2.2:5555'), *ids, age=5)
        self.adopt()
        self.upload(('192.0.2.1:5555',), *ids[:20], age=5)
        subject = self.make(1)
        subject.observe_any()
        self.statements.clear()
        for amphora_id in ids[20:]:
            subject.observe(amphora_id)
        self.assertEqual(10, self.reads)
        for amphora_id in ids[:20]:
            subject.observe(amphora_id)
        self.assertEqual(10 + 2 * 20, self.reads)
        self.assertEqual([], self.writes)

    def test_same_id_again_and_again(self):
        """As somebody may send it who knows the heartbeat key."""
        self.patch(observer, '_FEW', 10)
        self.listen(1, 2)
        ids = self.add(30)
        self.upload(('192.0.2.2:5555',), *ids, age=50)
        # It goes on with another list, for all that is heard.
        self.upload(('192.0.2.1:5555',), *ids[:20], age=50)
        for forged in (ids[0], ids[29], 'nobody', 'x' * 1000):
            subject = self.make(2)
            subject.observe_any()
            self.statements.clear()
            for _ in range(100):
                subject.observe(forged)
                self.now += 0.01
            self.assertLessEqual(self.reads, 2, forged)
            self.assertLessEqual(len(self.writes), 2, self.statements)
            self.now += 10

    def test_few_in_doubt_and_the_same_id_again_and_again(self):
        self.listen(1, 2)
        amphora_id, = self.add(1)
        self.upload(('192.0.2.2:5555',), amphora_id, age=50)
        self.adopt()
        self.upload(('192.0.2.1:5555',), amphora_id, age=50)
        subject = self.make(2)
        subject.observe_any()
        self.statements.clear()
        for _ in range(100):
            subject.observe(amphora_id)
            self.now += 0.01
        self.assertLessEqual(len(self.writes), 2, self.statements)

    def test_any_number_of_ids(self):
        self.patch(observer, '_FEW', 10)
        self.patch(observer, '_LOOK_UPS', 50)
        self.listen(1)
        ids = self.add(30)
        self.upload(('192.0.2.1:5555',), *ids, age=50)
        subject = self.make(1)
        for _ in range(2):
            subject.observe_any()
            self.statements.clear()
            for number in range(1000):
                subject.observe(f'nobody-{number}')
            self.assertEqual(50, self.reads)
            self.assertEqual(50, len(subject._looked_up))
            self.now += 6

    def test_database_that_is_down_is_asked_rarely(self):
        subject = self.make(1)
        with self.engine.begin() as connection:
            connection.execute(sa.text(
                'ALTER TABLE hmsync_amphora RENAME TO elsewhere'))
        self.addCleanup(self._bring_back)
        self.statements.clear()
        failed = 0
        for _ in range(100):
            self.now += 0.1
            try:
                subject.observe('amphora')
            except Exception:
                failed += 1
        self.assertIn(failed, (2, 3))

    def _bring_back(self):
        with self.database.engine.begin() as connection:
            connection.execute(sa.text(
                'ALTER TABLE elsewhere RENAME TO hmsync_amphora'))


class TestIsHeard(ObserverTestCase):

    def is_heard(self, number=1):
        return {m.host: m.is_heard for m in hm_repo.get_all(self.engine)}[
            f'hm{number}']

    def test_first_heartbeat(self):
        """Also of an amphora that nobody knows."""
        self.listen(1, 2, is_observing=True)
        self.assertIs(False, self.is_heard())
        subject = self.make(1)
        subject.observe_any()
        self.assertIs(True, self.is_heard())
        self.assertIs(False, self.is_heard(2))
        self.statements.clear()
        for _ in range(100):
            self.now += 1
            subject.observe_any()
        self.assertEqual([], self.writes)

    def test_not_asked_for(self):
        """Its statistics driver is not in octavia.conf, for all it says."""
        self.listen(1)
        self.make(1).observe_any()
        self.assertIsNone(self.is_heard())

    def test_not_registered_yet(self):
        subject = self.make(1)
        subject.observe_any()
        self.listen(1, is_observing=True)
        self.now += INTERVAL
        subject.observe_any()
        self.assertIs(True, self.is_heard())

    def test_started_anew(self):
        self.listen(1, is_observing=True)
        subject = self.make(1)
        subject.observe_any()
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'another',
                         20, is_observing=True)
        for observed, expected in ((subject, False),
                                   (self.make(1, 'another'), True)):
            self.now += INTERVAL
            observed.observe_any()
            self.assertIs(expected, self.is_heard())


class TestTwoUnderOneHost(ObserverTestCase):
    """A pod that moves: the new one has registered, the old one listens."""

    def setUp(self):
        super().setUp()
        self.listen(1, 2)
        self.amphora_id, = self.add()
        self.upload(cases.addresses(1, 2), self.amphora_id)
        self.adopt()
        self.old, self.new = self.make(1), self.make(1, 'another')
        self.old.observe_any()
        # It comes with 3, in place of 1.
        hm_repo.register(self.engine, 'hm1', '192.0.2.3', 5555, 'another',
                         20, is_observing=True)
        self.upload(cases.addresses(2, 3), self.amphora_id, age=OVERDUE)

    def hear(self, subject):
        for _ in range(5):
            self.now += 1
            subject.observe_any()
            subject.observe(self.amphora_id)

    def has_heard(self):
        return hm_repo.get_all(self.engine)[0].is_heard

    def test_heartbeats_of_the_old_one(self):
        for _ in range(5):
            self.hear(self.old)
        self.assertFalse(self.has_heard())
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertEqual({(self.amphora_id, cases.address(1))}, self.noted())

    def test_heartbeats_of_a_child_that_began_late(self):
        """It never saw at which address its process had registered."""
        late = self.make(1)
        for _ in range(5):
            self.hear(late)
        self.assertFalse(self.has_heard())
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertEqual(set(), self.noted())

    def test_heartbeats_before_it_has_looked_again(self):
        """They are at the address that it still takes for its own."""
        self.now += 0.1
        self.old.observe_any()
        self.old.observe(self.amphora_id)
        self.assertFalse(self.has_heard())
        self.assertFalse(self.is_adopted(self.amphora_id))

    def test_heartbeats_of_the_new_one(self):
        self.hear(self.new)
        self.assertTrue(self.has_heard())
        self.assertTrue(self.is_adopted(self.amphora_id))
        self.assertEqual(cases.address(3),
                         self.row(self.amphora_id).adopted_via)

    def test_the_new_one_ends_first(self):
        """Then it is the old one that has the name, and its address."""
        self.hear(self.old)
        hm_repo.set_offline(self.engine, 'hm1', 'another')
        self.listen(1, is_observing=True)
        self.now += INTERVAL
        self.hear(self.old)
        self.assertTrue(self.has_heard())
        self.assertFalse(self.is_adopted(self.amphora_id))
        self.assertIn((self.amphora_id, cases.address(1)), self.noted())
