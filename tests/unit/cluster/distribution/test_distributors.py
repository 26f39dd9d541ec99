# SPDX-License-Identifier: Apache-2.0

"""In the end there is the newest document everywhere, and one answers ARP."""

import threading
from unittest import mock

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution.ovs import switching
from octavia_hmsync import exceptions
from tests.cloud import waiting
from tests.unit.cluster import distributors


class TestApply(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.cluster_id = self.add_cluster()
        self.vips.add(self.cluster_id)
        self.active = self.fakes['network1']
        self.other = self.fakes['network2']

    def document(self, fake):
        return fake.documents[self.cluster_id]

    def assertWhole(self, active=None):
        """All have the newest document, and one alone answers ARP."""
        version = self.get_version(self.cluster_id)
        for name, vip in self.get_rows(self.cluster_id).items():
            document = self.document(self.fakes[name])
            self.assertEqual(
                (version, version, vip.active, vip.active, None),
                (document.version, vip.applied_version, document.active,
                 vip.applied_active, vip.error), name)
            self.assertTrue(self.ports.is_on[vip.port_id])
        answering = self.get_answering(self.cluster_id)
        self.assertEqual(1, len(answering))
        if active:
            self.assertEqual([active.name], answering)

    def test_all_are_told(self):
        self.assertWhole(self.active)
        document = self.document(self.other)
        self.assertEqual((distributors.ADDRESS,), document.addresses)
        self.assertEqual([('ACTIVE', 0), ('ACTIVE', 1)],
                         [(m.state, m.slot) for m in document.members])
        self.assertEqual((1450, 60), (document.port.mtu,
                                      document.pin_timeout))
        self.assertNotIn(self.cluster_id, self.fakes['network3'].documents)
        # They tell each other of pins.
        for one, other in ((self.active, self.other),
                           (self.other, self.active)):
            self.assertEqual((self.document(one).port.mac,),
                             self.document(other).partners)

    def test_again_it_changes_nothing(self):
        version = self.get_version(self.cluster_id)
        outcome = self.subject.apply(self.cluster_id)
        self.assertEqual((version, 'network1', {}), (
            outcome.version, outcome.active, outcome.problems))
        self.assertWhole(self.active)

    def test_who_stands_by_has_what_the_active_one_has(self):
        self.assertEqual({self.cluster_id: {
            'version': self.get_version(self.cluster_id), 'of': 'network1'}},
            self.other.adopted)
        self.assertEqual({}, self.active.adopted)
        # It is back, and has missed a change.
        self.other.is_down = True
        self.add_member(self.cluster_id)
        self.subject.apply(self.cluster_id)
        self.other.is_down = False
        self.subject.apply(self.cluster_id)
        self.assertEqual(
            self.get_version(self.cluster_id),
            self.other.adopted[self.cluster_id]['version'])
        self.assertWhole(self.active)

    def test_who_stands_by_does_not_know_of_that(self):
        """As one who just died."""
        error = exceptions.DistributorOtherVersion('no such path')
        for fake, name in ((self.active, 'get_transition'),
                           (self.other, 'put_transition')):
            self.add_member(self.cluster_id)
            with mock.patch.object(fake, name, autospec=True,
                                   side_effect=error) as asked:
                self.assertEqual({}, self.subject.apply(
                    self.cluster_id).problems)
                self.assertEqual(1, asked.call_count)
            self.assertWhole(self.active)

    def test_each_change_is_told(self):
        member = self.add_member(self.cluster_id)
        self.subject.apply(self.cluster_id)
        self.assertEqual(3, len(self.document(self.active).members))
        member_repo.set_state(self.engine, member.id, [member_repo.ACTIVE],
                              member_repo.DRAINING)
        self.subject.apply(self.cluster_id)
        self.assertEqual('DRAINING',
                         self.document(self.other).members[2].state)
        # Another one takes its slot; it keeps its connections.
        member_repo.release_slot(self.engine, member.id)
        self.subject.apply(self.cluster_id)
        self.assertEqual('DRAINING',
                         self.document(self.other).members[2].state)
        member_repo.set_state(self.engine, member.id, [member_repo.DRAINING],
                              member_repo.FAILED)
        self.subject.apply(self.cluster_id)
        self.assertEqual(2, len(self.document(self.active).members))
        self.assertWhole(self.active)

    def test_the_active_one_is_down(self):
        self.active.is_down = True
        outcome = self.subject.apply(self.cluster_id)
        self.assertEqual('network2', outcome.active)
        self.assertIn('network1 is down', outcome.problems['network1'])
        # Whatever it believes when it is back, nobody hears it.
        self.assertEqual([self.other.name],
                         self.get_answering(self.cluster_id))
        self.assertTrue(self.document(self.active).active)
        self.active.is_down = False
        self.watch.run_once()
        self.assertWhole(self.other)

    def test_another_one_is_down(self):
        self.other.is_down = True
        self.add_member(self.cluster_id)
        outcome = self.subject.apply(self.cluster_id)
        self.assertEqual(('network1', ['network2']),
                         (outcome.active, list(outcome.problems)))
        self.assertEqual([self.active.name],
                         self.get_answering(self.cluster_id))
        self.other.is_down = False
        self.watch.run_once()
        self.assertWhole(self.active)

    def test_neutron_is_down_too(self):
        self.active.is_down = True
        self.ports.error = exceptions.CloudUnavailable('Neutron is down.')
        self.assertEqual('network2',
                         self.subject.apply(self.cluster_id).active)
        self.active.is_down = False
        self.ports.error = None
        self.watch.run_once()
        self.assertWhole(self.other)

    def test_neutron_hangs(self):
        """Nobody waits for it for long, and the second one not at all."""
        second = self.add_cluster()
        self.vips.add(second)
        self.active.is_down = True
        asked, goes_on = threading.Event(), threading.Event()
        switch = self.ports.switch

        def hang(port_id, is_on):
            asked.set()
            goes_on.wait()
            switch(port_id, is_on)

        self.addCleanup(goes_on.set)
        with mock.patch.object(self.ports, 'switch', hang), (
                mock.patch.object(switching, '_GRACE', 0.1)):
            self.assertEqual('network2',
                             self.subject.apply(self.cluster_id).active)
            self.assertTrue(asked.wait(20))
            for name, vip in self.get_rows(second).items():
                self.fakes[name].is_down = vip.active
            # It would wait for an hour.
            with mock.patch.object(switching, '_GRACE', 3600):
                self.subject.apply(second)
            goes_on.set()
            waiting.wait_for(
                lambda: not self.subject.switch._threads, 'end')
        for cluster_id in (self.cluster_id, second):
            self.assertEqual(1, len(self.get_answering(cluster_id)))

    def test_neutron_was_down(self):
        """What could not be switched off is, as soon as Neutron is back."""
        self.active.is_down = True
        self.ports.error = exceptions.CloudUnavailable('Neutron is down.')
        self.subject.apply(self.cluster_id)
        self.assertEqual(2, len(self.get_answering(self.cluster_id)))
        self.ports.error = None
        self.watch.run_once()
        self.assertEqual([self.other.name],
                         self.get_answering(self.cluster_id))

    def test_told_while_neutron_is_asked(self):
        """It is switched on again."""
        self.active.is_down = True
        switch, told = self.ports.switch, []

        def tell(port_id, is_on):
            switch(port_id, is_on)
            if not is_on and not told:
                told.append(port_id)
                self.active.is_down = False
                self.one_more().apply(self.cluster_id)

        with mock.patch.object(self.ports, 'switch', tell):
            self.subject.apply(self.cluster_id)
        self.assertEqual(1, len(told))
        self.assertWhole(self.other)

    def test_both_are_down(self):
        self.active.is_down = self.other.is_down = True
        e = self.assertRaises(exceptions.NoDistributor, self.subject.apply,
                              self.cluster_id)
        self.assertIn('network1 is down', str(e))
        self.assertIn('network2 is down', str(e))
        self.active.is_down = self.other.is_down = False
        self.watch.run_once()
        self.assertWhole(self.active)

    def test_an_answer_is_lost(self):
        self.active.loses_answers = True
        self.add_member(self.cluster_id)
        self.assertEqual('network2',
                         self.subject.apply(self.cluster_id).active)
        self.assertEqual([self.other.name],
                         self.get_answering(self.cluster_id))
        self.active.loses_answers = False
        self.watch.run_once()
        self.assertWhole(self.other)

    def test_it_is_taken_for_wrong(self):
        self.active.error = exceptions.DistributorRejected('slot: is wrong')
        e = self.assertRaises(exceptions.NoDistributor, self.subject.apply,
                              self.cluster_id)
        self.assertIn('slot: is wrong', str(e))
        # Another one would take it for wrong, too.
        self.assertTrue(self.get_rows(self.cluster_id)['network1'].active)

    def test_each_way_of_not_obeying(self):
        for error in (exceptions.DistributorFailing('OVS is down'),
                      exceptions.DistributorUntrusted('another name'),
                      exceptions.DistributorOtherVersion('version 2')):
            active = next(name for name, vip in self.get_rows(
                self.cluster_id).items() if vip.active)
            self.fakes[active].error = error
            self.assertNotEqual(active,
                                self.subject.apply(self.cluster_id).active)
            self.assertEqual(str(error),
                             self.get_rows(self.cluster_id)[active].error)
            self.fakes[active].error = None
            self.watch.run_once()
            self.assertWhole()

    def test_the_database_is_an_older_one(self):
        for _number in range(3):
            self.add_member(self.cluster_id)
        self.subject.apply(self.cluster_id)
        newest = self.get_version(self.cluster_id)
        table = cluster_repo._TABLE
        with self.engine.begin() as connection:
            connection.execute(table.update().values(version=2))
            connection.execute(vip_repo._TABLE.update().values(
                applied_version=2))
        self.subject.apply(self.cluster_id)
        self.assertLess(newest, self.get_version(self.cluster_id))
        self.assertWhole(self.active)

    def test_the_same_version_has_another_content(self):
        member_repo.raise_idle_timeout(self.engine, self.cluster_id, 86400)
        self.subject.apply(self.cluster_id)
        self.assertEqual(3600, self.document(self.other).pin_timeout)
        self.conf.set_override('pin_timeout', 7200, group='hmsync_cluster')
        self.subject.apply(self.cluster_id)
        self.assertEqual(7200, self.document(self.other).pin_timeout)
        self.assertWhole(self.active)

    def test_somebody_changes_it_meanwhile(self):
        def change(_document):
            self.active.after = None
            self.add_member(self.cluster_id)

        self.active.after = change
        self.subject.apply(self.cluster_id)
        self.assertEqual(3, len(self.document(self.active).members))
        self.assertWhole(self.active)

    def test_an_older_one_comes_late(self):
        """One controller stops in the middle of telling, another one not."""
        def overtake(_document):
            self.active.before = None
            self.active.is_down = True
            self.add_member(self.cluster_id)
            self.one_more().apply(self.cluster_id)
            self.active.is_down = False

        self.active.before = overtake
        self.subject.apply(self.cluster_id)
        self.assertEqual([self.other.name],
                         self.get_answering(self.cluster_id))
        self.watch.run_once()
        self.assertWhole(self.other)

    def test_two_at_once(self):
        def change():
            self.add_member(self.cluster_id)
            self.one_more().apply(self.cluster_id)

        self.run_at_once([change] * 3)
        self.watch.run_once()
        self.assertEqual(5, len(self.document(self.active).members))
        self.assertWhole(self.active)

    def test_two_find_it_down_at_once(self):
        self.active.is_down = True
        self.run_at_once(
            [lambda: self.one_more().apply(self.cluster_id)] * 3)
        self.active.is_down = False
        self.watch.run_once()
        self.assertWhole(self.other)

    def test_the_cluster_is_gone(self):
        self.assertRaises(exceptions.UnknownCluster, self.subject.apply,
                          'gone')

    def test_it_has_no_distributor(self):
        self.assertRaises(exceptions.NoDistributor, self.subject.apply,
                          self.add_cluster())

    def test_a_member_without_mac(self):
        member = member_repo.add(self.engine, self.cluster_id, 'm', 8)
        member_repo.set_state(self.engine, member.id,
                              [member_repo.BUILDING], member_repo.ACTIVE)
        self.assertRaises(exceptions.InvalidDocument, self.subject.apply,
                          self.cluster_id)


class TestAnyOrder(distributors.DistributorTestCase):
    """Whatever happens, in whatever order."""

    EVENTS = st.one_of(
        st.tuples(st.sampled_from(['change', 'apply', 'probe', 'away']),
                  st.none()),
        st.tuples(st.sampled_from(['down', 'up', 'lose', 'kill', 'interrupt',
                                   'kill after', 'forget']),
                  st.sampled_from(distributors.NAMES[:2])))

    @settings(max_examples=25)
    @given(st.lists(EVENTS, max_size=14))
    def test_in_the_end(self, events):
        self.empty()
        self.reset()
        self.cluster_id = self.add_cluster()
        self.vips.add(self.cluster_id)
        for event, name in events:
            self.do(event, self.fakes.get(name))
        for fake in self.fakes.values():
            fake.is_down = fake.loses_answers = False
            fake.before = fake.after = None
        self.ports.error = None
        for _look in range(3):
            self.now += 100
            report = self.watch.run_once()
        self.assertEqual(({}, 0, {}), (report.problems, report.told,
                                       report.failed))
        version = self.get_version(self.cluster_id)
        rows = self.get_rows(self.cluster_id)
        self.assertEqual(2, len(rows))
        for name, vip in rows.items():
            document = self.fakes[name].documents[self.cluster_id]
            self.assertEqual((version, version, vip.active),
                             (document.version, vip.applied_version,
                              document.active))
            self.assertIsNone(vip.error)
            self.assertEqual(distributor_repo.ONLINE, vip.status)
        self.assertEqual(
            [name for name, vip in rows.items() if vip.active],
            self.get_answering(self.cluster_id))

    def do(self, event, fake):
        def die(_document):
            raise distributors.Killed

        def interrupt(_document):
            fake.before = None
            self.do('change', None)
            self.do('apply', None)

        match event:
            case 'change':
                member = next((m for m in member_repo.get_of_cluster(
                    self.engine, self.cluster_id)
                    if m.state == member_repo.ACTIVE), None)
                if member:
                    member_repo.set_state(
                        self.engine, member.id, [member_repo.ACTIVE],
                        member_repo.DRAINING)
                else:
                    self.add_member(self.cluster_id)
            case 'apply':
                try:
                    self.one_more().apply(self.cluster_id)
                except exceptions.NoDistributor:
                    return
                except distributors.Killed:
                    for one in self.fakes.values():
                        one.before = one.after = None
                    return
                if not any(one.is_down for one in self.fakes.values()):
                    return
                # Who was told is the one that is heard.
                self.assertGreaterEqual(
                    1, len(self.get_answering(self.cluster_id)))
            case 'probe':
                self.now += 10
                try:
                    self.watch.run_once()
                except distributors.Killed:
                    for one in self.fakes.values():
                        one.before = one.after = None
            case 'away':
                for one in self.fakes.values():
                    one.is_down = False
            case 'down':
                fake.is_down = True
            case 'up':
                fake.is_down = fake.loses_answers = False
            case 'lose':
                fake.loses_answers = True
            case 'kill':
                fake.before = die
            case 'kill after':
                fake.after = die
            case 'interrupt':
                fake.before = interrupt
            case 'forget':
                fake.documents.clear()
