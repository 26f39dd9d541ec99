# SPDX-License-Identifier: Apache-2.0

"""What distributors see of members, on the controllers' side."""

import math
import threading
import types
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.distribution.ovs import probe_watch
from octavia_hmsync.distributor import probe_results
from octavia_hmsync import exceptions
from tests.cloud import waiting
from tests.unit import base
from tests.unit.cluster import distributors


class TestRead(base.TestCase):

    def test_well(self):
        self.assertEqual(
            {('v', 'a'): probe_repo.Result('DOWN', 'silent'),
             ('v', 'b'): probe_repo.Result('UP'), ('v', 'c'): None,
             ('w', 'a'): None},
            probe_watch.read({'probes': [
                {'vip': 'v', 'member': 'a', 'state': 'DOWN',
                 'error': 'silent', 'since': 1.5},
                {'vip': 'v', 'member': 'b', 'state': 'UP', 'error': None},
                {'vip': 'v', 'member': 'c', 'state': 'GONE', 'error': None},
                {'vip': 'w', 'member': 'a', 'state': 'UNKNOWN'}]}))

    def test_words(self):
        """Nothing of them reaches a terminal as it is."""
        (look,) = probe_watch.read({'probes': [
            {'vip': 'v', 'member': 'a', 'state': 'DOWN',
             'error': '\x1b[31m' + 'x' * 999}]}).values()
        self.assertRegex(look.error, r'\A[ -~]{200}\Z')

    @given(st.recursive(
        st.none() | st.integers() | st.text() | st.just('DOWN'),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(['probes', 'vip', 'member', 'state', 'error']),
            inner, max_size=5)))
    def test_anything(self, news):
        try:
            probe_watch.read(news)
        except ValueError as e:
            self.assertNotIn('\x1b', str(e))


class ProbeTestCase(distributors.DistributorTestCase):

    def reset(self):
        super().reset()
        self.woken = []

    def setUp(self):
        super().setUp()
        self.begin()

    def begin(self):
        self.cluster_id = self.add_cluster(3)
        self.vips.add(self.cluster_id)
        self.members = member_repo.get_of_cluster(self.engine,
                                                  self.cluster_id)
        self.rows = {row.name: row for row in
                     distributor_repo.get_all(self.engine)}
        self.fake = self.fakes['network1']
        self.watcher = self.make_watcher()

    def make_watcher(self, name='network1'):
        return probe_watch.Watcher(
            self.engine, self.rows[name], self.subject.client_of,
            lambda: self.woken.append(name))

    def note(self, number, state, error=None):
        self.fake.results.note(self.cluster_id,
                               self.members[number].amphora_id, state, error)

    def seen(self, name='network1'):
        found = probe_repo.get_of_observer(self.engine, self.rows[name].id)
        return {number: (found[member.id].state, found[member.id].error)
                for number, member in enumerate(self.members)
                if member.id in found}


class TestWatcher(ProbeTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def test_news(self):
        self.note(0, 'UP')
        self.note(1, 'DOWN', 'silent')
        self.note(2, 'UNKNOWN')
        self.watcher.hear()
        self.assertEqual({0: ('UP', None), 1: ('DOWN', 'silent')},
                         self.seen())
        self.assertEqual(['network1'], self.woken)
        self.note(1, 'UP')
        self.watcher.hear()
        self.assertEqual({0: ('UP', None), 1: ('UP', None)}, self.seen())
        self.assertEqual(2, len(self.woken))
        # Nothing new: nobody is woken, and it does not ask without end.
        self.assertEqual(1, self.watcher.hear())
        self.assertEqual(2, len(self.woken))
        self.note(0, 'GONE')
        self.note(1, 'UNKNOWN')
        self.watcher.hear()
        self.assertEqual({}, self.seen())
        self.assertEqual(3, len(self.woken))

    def test_two_controllers(self):
        """They write the same, and each tells its own keeper once at most."""
        other = self.make_watcher()
        self.note(0, 'DOWN', 'silent')
        self.watcher.hear()
        other.hear()
        self.assertEqual(['network1'], self.woken)
        self.note(0, 'UP')
        other.hear()
        self.watcher.hear()
        self.assertEqual({0: ('UP', None)}, self.seen())

    def test_restart_of_the_distributor(self):
        """What it does not know any more is nobody's sign."""
        for number, state in enumerate(('DOWN', 'DOWN', 'UP')):
            self.note(number, state, None if state == 'UP' else 'silent')
        self.watcher.hear()
        self.fake.results = probe_results.Results()
        self.note(0, 'UNKNOWN')
        self.note(1, 'DOWN', 'silent')
        self.watcher.hear()
        self.assertEqual({1: ('DOWN', 'silent')}, self.seen())
        self.note(0, 'DOWN', 'silent')
        self.watcher.hear()
        self.assertEqual({0: ('DOWN', 'silent'), 1: ('DOWN', 'silent')},
                         self.seen())

    def test_strangers(self):
        """It says something of members that are gone, or of others'."""
        self.fake.results.note(self.cluster_id, 'nobody', 'DOWN', 'silent')
        self.fake.results.note('no cluster', self.members[0].amphora_id,
                               'DOWN', 'silent')
        self.watcher.hear()
        self.assertEqual({}, self.seen())
        self.assertEqual([], self.woken)

    def test_another_version_of_the_api(self):
        self.note(0, 'DOWN', 'silent')
        self.watcher.hear()
        self.fake.error = exceptions.DistributorOtherVersion('no such path')
        self.assertEqual(60, self.watcher.hear())
        # No member stays DOWN because the distributor spoke it before.
        self.assertEqual({}, self.seen())
        self.fake.error = None
        self.watcher.hear()
        self.assertEqual({0: ('DOWN', 'silent')}, self.seen())

    def test_it_does_not_answer(self):
        """What is known of it stays; whether it counts, others know."""
        self.note(0, 'DOWN', 'silent')
        self.watcher.hear()
        self.fake.is_down = True
        self.assertEqual([1, 2, 4, 5, 5, 5, 5], [
            self.watcher.hear() for _ in range(7)])
        self.assertEqual({0: ('DOWN', 'silent')}, self.seen())
        self.fake.is_down = False
        self.watcher.hear()
        self.fake.is_down = True
        self.assertEqual(1, self.watcher.hear())

    def test_what_cannot_be_read(self):
        self.note(0, 'DOWN', 'silent')
        self.watcher.hear()
        for answer in ({}, {'probes': 7}, {'probes': [{'vip': 'x'}]},
                       {'probes': [], 'whole': True, 'run': 3,
                        'sequence': 1},
                       {'probes': [], 'whole': True, 'run': 'a',
                        'sequence': 'b'}):
            self.fake.get_probes = lambda *_args, answer=answer: answer
            self.assertEqual(60, self.watcher.hear())
        self.assertEqual({}, self.seen())
        self.assertIn('What the distributor network1 sees of members cannot '
                      'be read', self.log.output)

    def test_the_database_fails(self):
        """What was told is told again."""
        self.note(0, 'DOWN', 'silent')
        self.watcher.hear()
        self.note(0, 'UP')
        record = self.watcher._record

        def fail(*_args):
            raise RuntimeError('it is broken')

        self.watcher._record = fail
        self.assertEqual(1, self.watcher.hear())
        self.watcher._record = record
        self.watcher.hear()
        self.assertEqual({0: ('UP', None)}, self.seen())

    @settings(max_examples=25)
    @given(st.lists(st.tuples(
        st.sampled_from(['note', 'hear', 'other', 'restart', 'down']),
        st.integers(0, 2), st.sampled_from(
            [('UP', None), ('DOWN', 'silent'), ('UNKNOWN', None),
             ('GONE', None)])), max_size=25))
    def test_any(self, steps):
        """Whatever happens, in the end rows are what it sees."""
        self.empty()
        self.reset()
        self.begin()
        other = self.make_watcher()
        for what, number, (state, error) in steps:
            if what == 'note':
                self.note(number, state, error)
            elif what == 'restart':
                self.fake.results = probe_results.Results()
            elif what == 'down':
                self.fake.is_down = not self.fake.is_down
            else:
                (self.watcher if what == 'hear' else other).hear()
        self.fake.is_down = False
        for watcher in (self.watcher, other):
            watcher.hear()
        known = self.fake.results.get_of_vip(self.cluster_id)
        self.assertEqual(
            {number: (result.state, result.error)
             for number, member in enumerate(self.members)
             if (result := known.get(member.amphora_id)) and
             result.state in ('UP', 'DOWN')}, self.seen())


class TestProbeWatch(ProbeTestCase):

    def setUp(self):
        super().setUp()
        self.is_woken = threading.Event()
        self.probe_watch = probe_watch.ProbeWatch(
            self.engine, self.subject.client_of, self.is_woken.set)
        self.addCleanup(self.stop)

    def stop(self):
        self.probe_watch.stop(20)

    def test_threads(self):
        self.note(0, 'DOWN', 'silent')
        self.probe_watch.run_once()
        self.assertTrue(self.is_woken.wait(20))
        self.assertEqual(3, len(self.probe_watch._watchers))
        waiting.wait_for(self.seen, 'row')
        before = dict(self.probe_watch._watchers)
        self.probe_watch.run_once()
        self.assertEqual(before, self.probe_watch._watchers)
        # One leaves the option, another one has a new address.
        distributor_repo.sync(self.engine, 'hmsync_ovs', {
            'network1': 'https://network1:9444',
            'network2': 'https://network2:9445'})
        self.probe_watch.run_once()
        self.assertEqual(
            ['https://network1:9444', 'https://network2:9445'],
            sorted(one.distributor.url for one in
                   self.probe_watch._watchers.values()))
        self.assertEqual(3, len(self.probe_watch._threads))
        self.stop()
        self.assertFalse(any(one.is_alive() for one in
                             self.probe_watch._threads))

    def test_more_than_threads(self):
        """All are heard in turn, also while one of them hangs."""
        log = self.useFixture(fixtures.FakeLogger())
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)
        waits = []

        def hang(_run, _after, wait):
            waits.append(wait)
            goes_on.wait(20)
            raise exceptions.DistributorUnreachable('it hangs')

        hung, *others = self.fakes.values()
        hung.get_probes = hang
        with mock.patch.object(probe_watch, '_MOST', 2):
            self.probe_watch.run_once()
            for number, (state, fake) in enumerate(zip(
                    ('DOWN', 'UP'), others)):
                fake.results.note(self.cluster_id,
                                  self.members[number].amphora_id, state)
            for number, fake in enumerate(others):
                waiting.wait_for(lambda fake=fake, number=number: number in
                                 self.seen(fake.name), 'row')
            self.assertEqual(2, len(self.probe_watch._threads))
            self.probe_watch.run_once()
            goes_on.set()
            waiting.wait_for(lambda: len(waits) > 1, 'another turn')
        self.assertEqual(1, log.output.count('3 distributors share 2 '
                                             'threads: it takes up to 4 s'))


class TestLooks(ProbeTestCase):

    def test_ports(self):
        self.assertEqual(0, member_facts.record_ports(self.engine))
        cluster = cluster_repo.get(self.engine, self.cluster_id)
        cluster_repo.set_status(self.engine, cluster.id, 'ACTIVE')
        self.records.add_listener(cluster.load_balancer_id, 443)
        self.assertEqual(1, member_facts.record_ports(self.engine))
        self.assertEqual(0, member_facts.record_ports(self.engine))
        self.assertEqual('443', cluster_repo.get(
            self.engine, self.cluster_id).ports)
        # Distributors are told, for each its own address.
        self.watch.run_once()
        documents = [one.documents[self.cluster_id]
                     for one in self.fakes.values() if one.documents]
        self.assertEqual(2, len(documents))
        for document in documents:
            self.assertEqual((443,), document.probe.ports)
            self.assertEqual(
                self.ports.get_addresses(document.port.id),
                document.probe.addresses)

    def test_connections(self):
        cluster_repo.set_ports(self.engine, self.cluster_id, [80])
        told, silent, well = self.members
        for member in (told, silent):
            member_repo.set_state(self.engine, member.id, ['ACTIVE'],
                                  'DRAINING')
        self.subject.apply(self.cluster_id)
        active = next(vip for vip in vip_repo.get_of_cluster(
            self.engine, self.cluster_id) if vip.active)
        distributor_repo.set_status(self.engine, active.distributor_id,
                                    'ONLINE')
        fake = self.fakes[active.distributor_name]
        self.records.set_health(told.amphora_id, age=-60, busy=True)
        # It begins when distributors know.

        def count():
            found = member_facts.count_connections(self.engine,
                                                   self.subject.client_of, 10)
            self.assertEqual(found, {
                member.id: member_repo.get(self.engine, member.id).connections
                for member in (told, silent)})
            return found[told.id], found[silent.id]

        # Heartbeats tell the one; of the other one nobody knows all. One that
        # is silent may be of a haproxy of before.
        member_repo.raise_idle_timeout(self.engine, self.cluster_id, 50)
        self.assertEqual((None, None), count())
        self.subject.apply(self.cluster_id)
        self.assertEqual((None, None), count())
        with self.engine.begin() as connection:
            connection.execute(sa.text(
                'UPDATE hmsync_cluster_member SET idle_timeout = -80'))
        self.assertEqual((0, None), count())
        # Of those of a haproxy of before only the distributor knows.
        fake.remembered = {told.amphora_id: 9, silent.amphora_id: 4}
        self.assertEqual((9, 4), count())
        # It does not know yet.
        fake.remembered[told.amphora_id] = None
        self.assertEqual((None, 4), count())
        fake.is_down = True
        self.assertEqual((None, None), count())
        fake.is_down = False
        # Whatever they say, all others are counted, too.
        fake.remembered[silent.amphora_id] = 10 ** 12
        self.records.insert_all({'listener_statistics': [
            {'listener_id': 'l', 'amphora_id': told.amphora_id,
             'bytes_in': 0, 'bytes_out': 0, 'active_connections': 10 ** 12,
             'total_connections': 9, 'request_errors': 0}]})
        self.assertEqual((2 ** 31 - 1,) * 2, count())
        fake.is_down = True
        self.assertEqual((2 ** 31 - 1, None), count())
        self.assertIsNone(member_repo.get(self.engine, well.id).connections)

    def test_nobody_drains(self):
        requests = len(self.fake.requests)
        with self.count_statements() as statements:
            self.assertEqual({}, member_facts.count_connections(
                self.engine, self.subject.client_of, 10))
        self.assertEqual(1, len(statements))
        self.assertEqual(requests, len(self.fake.requests))

    def test_choose_count(self):
        for expected, told, remembered, rest in (
                # None is open for sure, or nobody knows.
                (0, 0, 0, 0), (0, 0, 0, -5), (None, 0, 0, 1),
                (None, 0, 0, math.inf), (None, None, 0, -5),
                (None, 0, None, -5), (None, None, None, 1),
                # Some are, whatever else is known.
                (3, 3, None, 9), (3, 3, 5, -5), (5, 0, 5, -5),
                (5, None, 5, 9), (0, -4, 0, -1), (None, 0, -4, 1),
                (2 ** 31 - 1, 10 ** 12, 0, 1)):
            self.assertEqual(
                expected, member_facts.choose_count(told, remembered, rest),
                (told, remembered, rest))

    def test_choose_ports(self):
        class Listener:
            enabled = True
            provisioning_status = 'PENDING_CREATE'
            protocol = 'HTTP'
            allowed_cidrs = ()

            def __init__(self, number, **values):
                self.id, self.protocol_port = f'l{number}', number
                vars(self).update(values)

        load_balancer = types.SimpleNamespace(
            enabled=True, vip=types.SimpleNamespace(sg_ids=[]), listeners=[
                Listener(80), Listener(443, protocol='HTTPS'),
                Listener(81, enabled=False), Listener(53, protocol='UDP'),
                Listener(82, allowed_cidrs=[object()]), Listener(83),
                Listener(84, provisioning_status='ERROR')])
        self.assertEqual({80, 443}, member_facts.choose_ports(
            load_balancer, 'l83'))
        # Whom these admit is up to their owner.
        load_balancer.vip.sg_ids = ['group']
        self.assertEqual(set(), member_facts.choose_ports(load_balancer))
        load_balancer.vip.sg_ids = []
        load_balancer.enabled = False
        self.assertEqual(set(), member_facts.choose_ports(load_balancer))
