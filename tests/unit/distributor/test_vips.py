# SPDX-License-Identifier: Apache-2.0

import json
import os
import shutil
import threading
from unittest import mock

import fixtures
import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import vips
from octavia_hmsync import exceptions
from tests.unit.distributor import distributors
from tests.unit.distributor import examples

VIP_ID = examples.VIP_ID
OTHER_ID = examples.make_id(0xdef)
PIN_TIMEOUT = examples.RAW['pin_timeout']


class TestVips(distributors.DistributorTestCase):

    def put(self, version=7, vip_id=VIP_ID, **changes):
        return self.vips.put(vip_id,
                             examples.make_document(version, **changes))

    def version(self, vip_id=VIP_ID):
        return self.vips.get(vip_id).document.version

    def test_put(self):
        self.assertTrue(self.put())
        self.assertEqual([VIP_ID], self.list_forwarded())
        summary = self.vips.get(VIP_ID)
        self.assertEqual((examples.make_document(), True, None),
                         (summary.document, summary.is_in_force,
                          summary.error))

    def test_twice_is_once(self):
        self.put()
        self.assertFalse(self.put())
        self.assertEqual([VIP_ID], self.read_calls('apply'))

    def test_down(self):
        """The data plane hears who does not answer now."""
        self.put(7)
        self.assertEqual(set(), self.backend.down)
        member = examples.make_document().members[0]
        self.results.note(VIP_ID, member.id, 'DOWN')
        self.put(8)
        self.assertEqual({member.mac}, self.backend.down)
        self.results.note(VIP_ID, member.id, 'UP')
        self.put(9)
        self.assertEqual(set(), self.backend.down)

    def test_versions(self):
        self.put(7)
        self.assertTrue(self.put(8, active=False))
        for version in (7, 8):
            error = self.assertRaises(exceptions.VersionConflict, self.put,
                                      version)
            self.assertEqual(8, error.in_force)
        self.assertEqual(8, self.version())

    def test_looks(self):
        """They need no new version; who knows of none changes none."""
        look = {'addresses': ['10.0.0.9'], 'ports': [80]}
        self.put()
        self.assertEqual({}, self.vips.list_probed())
        self.assertTrue(self.put(probe=look))
        told = examples.make_document(probe=look)
        self.assertEqual({VIP_ID: (told, True)}, self.vips.list_probed())
        self.assertFalse(self.put())
        self.assertEqual({VIP_ID: (told, True)}, self.vips.list_probed())
        # Not in force just now, as after a start.
        self.start()
        self.assertEqual({VIP_ID: (told, False)}, self.vips.list_probed())
        self.assertTrue(self.put())
        self.assertEqual({VIP_ID: (told, True)}, self.vips.list_probed())
        self.vips.delete(VIP_ID)
        self.assertEqual({}, self.vips.list_probed())

    def get_forwarded(self):
        with open(os.path.join(self.backend.directory,
                               f'vip-{VIP_ID}')) as content:
            found = json.load(content)['document']
        return found['active'], [one['state'] for one in found['members']]

    def test_left_out(self):
        """Until a newer version comes, and no longer."""
        one = examples.make_id(10)
        self.put(members=['ACTIVE'] * 2)
        self.assertEqual([], self.vips.list_due())
        self.vips.leave_out(VIP_ID, 6, [one])
        self.vips.leave_out(OTHER_ID, 7, [one])
        self.assertEqual([], self.vips.list_due())
        self.vips.leave_out(VIP_ID, 7, [one])
        self.assertEqual([VIP_ID], self.vips.list_due())
        self.vips.follow(VIP_ID)
        self.assertEqual((True, ['DRAINING', 'ACTIVE']),
                         self.get_forwarded())
        self.assertEqual([], self.vips.list_due())
        # What controllers have said is what they are told.
        self.assertEqual('ACTIVE', self.vips.get(
            VIP_ID).document.members[0].state)
        self.vips.leave_out(VIP_ID, 7, [])
        self.vips.follow(VIP_ID)
        self.assertEqual((True, ['ACTIVE', 'ACTIVE']), self.get_forwarded())
        self.vips.leave_out(VIP_ID, 7, [one])
        self.put(8, members=['ACTIVE'] * 2)
        self.assertEqual((True, ['ACTIVE', 'ACTIVE']), self.get_forwarded())
        self.assertEqual([], self.vips.list_due())

    def test_left(self):
        """Over a restart; it forwards what arrives."""
        self.put(members=['ACTIVE'])
        self.vips.leave(VIP_ID, 7)
        self.vips.follow(VIP_ID)
        for _ in range(2):
            self.assertEqual((False, ['ACTIVE']), self.get_forwarded())
            self.assertTrue(self.vips.get(VIP_ID).has_left)
            # The same is said again, as by a controller that is late.
            self.put(members=['ACTIVE'])
            self.assertEqual((False, ['ACTIVE']), self.get_forwarded())
            self.start()
            self.restorer.run_once()
        self.put(8, members=['ACTIVE'])
        self.assertEqual((True, ['ACTIVE']), self.get_forwarded())
        self.assertFalse(self.vips.get(VIP_ID).has_left)
        self.start()
        self.restorer.run_once()
        self.assertEqual((True, ['ACTIVE']), self.get_forwarded())

    def test_remembered_before_it_is_in_force(self):
        self.order('fail-apply', 'it hangs')
        self.assertRaises(exceptions.VswitchUnavailable, self.put)
        self.assertEqual([], self.list_forwarded())
        summary = self.vips.get(VIP_ID)
        self.assertEqual((7, False, 'it hangs'), (
            summary.document.version, summary.is_in_force, summary.error))
        # A lower one is refused already.
        self.assertRaises(exceptions.VersionConflict, self.put, 6)
        self.order('fail-apply', None)
        # Sent again it is put in force, not taken for done.
        self.assertTrue(self.put())
        self.assertTrue(self.vips.get(VIP_ID).is_in_force)

    def test_not_remembered(self):
        self.put()
        with mock.patch.object(
                store.Store, 'save', autospec=True,
                side_effect=exceptions.StoreFailed('full')):
            self.assertRaises(exceptions.StoreFailed, self.put, 8)
            self.assertRaises(exceptions.StoreFailed, self.vips.delete,
                              VIP_ID)
        self.assertEqual(7, self.version())
        self.assertEqual([VIP_ID], self.read_calls('apply'))
        self.assertTrue(self.put(8))

    def test_delete(self):
        self.put()
        self.assertTrue(self.vips.delete(VIP_ID))
        self.assertFalse(self.vips.delete(VIP_ID))
        self.assertEqual([], self.list_forwarded())
        self.assertEqual([], self.vips.list_all())
        self.assertRaises(exceptions.UnknownVip, self.vips.get, VIP_ID)
        # Without a version nobody can tell what is late.
        self.assertTrue(self.put(1))

    def test_delete_unknown(self):
        self.assertFalse(self.vips.delete(VIP_ID))
        self.assertEqual(['lock'], os.listdir(self.state_path))

    def test_delete_with_version(self):
        self.put(7)
        error = self.assertRaises(exceptions.VersionConflict,
                                  self.vips.delete, VIP_ID, 6)
        self.assertEqual(7, error.in_force)
        self.vips.delete(VIP_ID, 9)
        # Neither a deletion without a version, nor one that is late.
        self.vips.delete(VIP_ID)
        self.vips.delete(VIP_ID, 8)
        self.start()
        for version in (7, 9):
            error = self.assertRaises(exceptions.VersionConflict, self.put,
                                      version)
            self.assertEqual(9, error.in_force)
        self.assertTrue(self.put(10))

    def test_deletion_that_comes_before_the_document(self):
        self.assertFalse(self.vips.delete(VIP_ID, 7))
        self.assertRaises(exceptions.VersionConflict, self.put, 7)

    def test_deletion_is_forgotten(self):
        self.put()
        self.vips.delete(VIP_ID, 8)
        self.restorer.run_once()
        self.clock.now += vips.DELETION_KEPT + 1
        self.restorer.run_once()
        self.assertEqual(['lock'], os.listdir(self.state_path))
        self.assertTrue(self.put(1))

    def test_deletion_that_open_vswitch_does_not_do(self):
        self.put()
        self.order('fail-remove', 'it hangs')
        self.assertRaises(exceptions.VswitchUnavailable, self.vips.delete,
                          VIP_ID, 8)
        self.assertEqual([VIP_ID], self.list_forwarded())
        self.restorer.run_once()
        self.start()
        self.restorer.run_once()
        self.order('fail-remove', None)
        self.restorer.run_once()
        self.assertEqual([], self.list_forwarded())

    def test_one_at_a_time(self):
        """Of one VIP; others do not wait."""
        began, go_on = threading.Event(), threading.Event()
        apply = self.backend.apply

        def wait(vip_id, *args, **kwargs):
            if vip_id == VIP_ID:
                began.set()
                go_on.wait(60)
            return apply(vip_id, *args, **kwargs)

        with mock.patch.object(self.backend, 'apply', autospec=True,
                               side_effect=wait), \
                mock.patch.object(vips, '_LOCK_TIMEOUT', .05):
            thread = threading.Thread(target=self.put)
            thread.start()
            try:
                self.assertTrue(began.wait(60))
                self.assertTrue(self.put(vip_id=OTHER_ID))
                self.assertFalse(self.vips.get(VIP_ID).is_in_force)
                error = self.assertRaises(exceptions.VipBusy, self.put, 8)
                self.assertIn(VIP_ID, str(error))
                self.assertRaises(exceptions.VipBusy, self.vips.delete,
                                  VIP_ID)
            finally:
                go_on.set()
                thread.join()
        self.assertTrue(self.put(8))
        self.assertEqual({}, self.vips._locks._locks)

    def test_many_at_once(self):
        """The highest version wins, whoever comes first."""
        refused = []

        def send(version):
            try:
                self.put(version)
            except exceptions.VersionConflict as e:
                refused.append((version, e.in_force))

        threads = [threading.Thread(target=send, args=(version,))
                   for version in range(1, 17)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(16, self.version())
        self.assertTrue(all(sent < there for sent, there in refused))
        self.start()
        self.assertEqual(16, self.version())

    def test_counters(self):
        self.assertEqual({}, self.vips.read_traffic())
        self.put()
        self.assertEqual(2, self.vips.read_counters(
            VIP_ID, self.vips.get(VIP_ID).document)['claims'])
        self.assertEqual({VIP_ID: 2}, {
            vip_id: len(sent)
            for vip_id, sent in self.vips.read_traffic().items()})

    def test_transition(self):
        """What a change of members leaves is remembered, and ends."""
        self.put(1, members=['ACTIVE'] * 2)
        self.clock.now += 5
        self.put(2, members=['ACTIVE'] * 3)
        entry = self.kept.load()[VIP_ID]
        self.assertEqual(self.clock.now, entry.transition['since'])
        self.assertNotEqual(entry.transition['base'],
                            entry.transition['current'])
        self.start()
        self.restorer.run_once()
        self.assertEqual(entry, self.kept.load()[VIP_ID])
        self.clock.now += PIN_TIMEOUT - 1
        self.restorer.run_once()
        self.assertEqual(entry, self.kept.load()[VIP_ID])
        self.clock.now += 60
        self.restorer.run_once()
        entry = self.kept.load()[VIP_ID]
        self.assertEqual(entry.transition['base'],
                         entry.transition['current'])
        self.assertEqual([], self.vips.list_due())

    def test_adopted(self):
        """One that stands by goes by what the active one has."""
        self.assertRaises(exceptions.UnknownVip, self.vips.get_transition,
                          VIP_ID)
        self.put(1, members=['ACTIVE'] * 2)
        self.clock.now += 5
        self.put(2, members=['ACTIVE'] * 3)
        self.clock.now += 7.5
        shared = self.vips.get_transition(VIP_ID)
        self.assertEqual((2, 7.5), (shared['version'], shared['age']))
        # It is the active one itself.
        self.assertRaises(exceptions.VersionConflict, self.vips.adopt,
                          VIP_ID, shared)
        # Another one never heard of the first version.
        self.vips.delete(VIP_ID)
        self.assertRaises(exceptions.UnknownVip, self.vips.adopt, VIP_ID,
                          shared)
        self.put(2, members=['ACTIVE'] * 3, active=False)
        self.assertTrue(self.vips.adopt(VIP_ID, shared))
        entry = self.kept.load()[VIP_ID]
        self.assertEqual(
            (shared['base'], shared['current'], self.clock.now - 7.5),
            (entry.transition['base'], entry.transition['current'],
             entry.transition['since']))
        self.assertEqual(shared, self.vips.get_transition(VIP_ID))
        calls = len(self.read_calls('apply'))
        self.assertFalse(self.vips.adopt(VIP_ID, shared))
        self.assertEqual(calls, len(self.read_calls('apply')))
        for version in (1, 3):
            self.assertRaises(exceptions.VersionConflict, self.vips.adopt,
                              VIP_ID, {**shared, 'version': version})
        # It is over where it is for the active one.
        self.assertTrue(self.vips.adopt(VIP_ID, {
            **shared, 'age': PIN_TIMEOUT + 100.0}))
        found = self.vips.get_transition(VIP_ID)
        self.assertEqual(found['current'], found['base'])

    def test_kept_before_it_is_in_force(self):
        """What the data plane finds out, should the process die then."""
        self.put(1, members=['ACTIVE'] * 2)
        apply, given = self.backend.apply, []

        def find_out(vip_id, document, previous, now, keep, down):
            (_slot, ((_own, mac),)), *_ = previous['current']['slots']
            given.append({**previous, 'proven': [mac]})
            keep(given[0])
            raise exceptions.VswitchUnavailable('It died.')

        self.patch(self.backend, 'apply', find_out)
        self.clock.now += 5
        self.assertRaises(exceptions.VswitchUnavailable, self.put, 2,
                          members=['ACTIVE'] * 3)
        kept = self.kept.load()[VIP_ID].transition
        self.assertEqual(given, [kept])
        self.patch(self.backend, 'apply', apply)
        self.vips.follow(VIP_ID)
        self.assertEqual(kept, self.kept.load()[VIP_ID].transition)

    def test_pins_first(self):
        """Without them no mapping is forgotten."""
        self.put(1, members=['ACTIVE'] * 2)
        self.clock.now += 5
        self.put(2, members=['ACTIVE'] * 3, active=False)
        before = self.kept.load()[VIP_ID]
        over = before.transition['current']
        shared = {'version': 2, 'base': over, 'current': over, 'age': 0,
                  'pins': [['10.0.0.9', 7, '10.0.0.5', 80, ['x']]]}
        self.order('fail-take_pins', 'It is down.')
        self.assertRaises(exceptions.VswitchUnavailable, self.vips.adopt,
                          VIP_ID, shared)
        self.assertEqual(before, self.kept.load()[VIP_ID])
        self.order('fail-take_pins', '')
        self.assertTrue(self.vips.adopt(VIP_ID, shared))
        self.assertEqual(shared['pins'],
                         self.vips.get_transition(VIP_ID)['pins'])


class Sequence(stateful.RuleBasedStateMachine):
    """Controllers, restarts, and an Open vSwitch that comes and goes.

    What is in force is always a document that was accepted, as a whole, and
    it comes to be that of the highest version.
    """

    ids = st.sampled_from((VIP_ID, OTHER_ID))

    def __init__(self):
        super().__init__()
        self.case = distributors.DistributorTestCase('setUp')
        self.case.setUp()
        self.accepted = {}
        self.deleted = {}

    def teardown(self):
        self.case.tearDown()
        self.case.doCleanups()
        shutil.rmtree(self.case.directory, ignore_errors=True)

    @property
    def works(self):
        return not os.path.exists(os.path.join(
            self.case.backend.directory, 'fail-apply'))

    @stateful.rule(vip_id=ids, version=st.integers(1, 6),
                   active=st.booleans(), members=st.lists(
                       st.sampled_from(('ACTIVE', 'DRAINING')), max_size=3))
    def put(self, vip_id, version, active, members):
        document = examples.make_document(version, members=members,
                                          active=active)
        before = self.accepted.get(vip_id)
        try:
            changed = self.case.vips.put(vip_id, document)
        except exceptions.VersionConflict as e:
            at_least = before.version if before else self.deleted[vip_id]
            assert e.in_force == at_least >= version
            assert document != before
            return
        except exceptions.VswitchUnavailable:
            assert not self.works
        else:
            # Nothing was done only if there was nothing to be done.
            assert changed or document == before
            assert self.case.backend._read(f'vip-{vip_id}')
        assert before is None or version >= before.version
        assert version > self.deleted.get(vip_id, 0) or before
        self.accepted[vip_id] = document

    @stateful.rule(vip_id=ids, version=st.none() | st.integers(1, 6))
    def delete(self, vip_id, version):
        before = self.accepted.get(vip_id)
        try:
            self.case.vips.delete(vip_id, version)
        except exceptions.VersionConflict as e:
            assert version < before.version == e.in_force
            return
        except exceptions.VswitchUnavailable:
            assert not self.works
        if before:
            self.deleted[vip_id] = version or 0
            del self.accepted[vip_id]
        else:
            self.deleted[vip_id] = max(version or 0,
                                       self.deleted.get(vip_id, 0))

    @stateful.rule()
    def stop_open_vswitch(self):
        for name in ('apply', 'remove'):
            self.case.order(f'fail-{name}', 'it hangs')

    @stateful.rule()
    def start_open_vswitch(self):
        for name in ('apply', 'remove'):
            if not self.works or name == 'remove':
                try:
                    self.case.order(f'fail-{name}', None)
                except FileNotFoundError:
                    pass

    @stateful.rule()
    def restart(self):
        self.case.start()

    @stateful.rule()
    def reboot(self):
        for vip_id in self.case.list_forwarded():
            os.unlink(os.path.join(self.case.backend.directory,
                                   f'vip-{vip_id}'))

    @stateful.rule()
    def look(self):
        self.case.restorer.run_once()
        if self.works:
            self.check_forwarded()

    @stateful.rule(seconds=st.integers(0, 5000))
    def wait(self, seconds):
        self.case.clock.now += seconds

    def check_forwarded(self):
        assert self.case.list_forwarded() == sorted(self.accepted)
        for vip_id, document in self.accepted.items():
            forwarded = self.case.backend._read(f'vip-{vip_id}')
            assert f'"version": {document.version},' in forwarded

    @stateful.invariant()
    def check_documents(self):
        there = {summary.id: summary.document
                 for summary in self.case.vips.list_all()
                 if summary.document}
        assert there == self.accepted


class TestSequence(Sequence.TestCase):
    settings = hypothesis.settings(max_examples=60, stateful_step_count=30)

    def setUp(self):
        super().setUp()
        self.log = fixtures.FakeLogger()
        self.log.setUp()
        self.addCleanup(self.log.cleanUp)
