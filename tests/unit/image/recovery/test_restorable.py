# SPDX-License-Identifier: Apache-2.0

"""Which amphorae serve, and which load balancers are restored."""

import dataclasses
import datetime

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.image.db import restore as restore_repo
from octavia_hmsync.image.recovery import restorable
from octavia_hmsync.image.recovery import serving
from tests.unit import base

VIP = '198.51.100.1'
LISTENER = '11111111-1111-1111-1111-111111111111'
OTHER = '22222222-2222-2222-2222-222222222222'
NOW = datetime.datetime(2026, 1, 1)
TIMEOUT = 60
ALL_WELL = {'held': frozenset({VIP}), 'running': frozenset({LISTENER}),
            'haproxies': 1, 'instance': 'ACTIVE', 'has_port': True}


def amphora(name, role='STANDALONE', status='ERROR', **values):
    return restore_repo.Amphora(**{
        'id': name, 'status': status, 'role': role,
        'lb_network_ip': '192.0.2.1', 'compute_id': f'compute-{name}',
        'vrrp_ip': '198.51.100.2', 'vrrp_port_id': f'port-{name}',
        'created_at': NOW, 'updated_at': None, 'heartbeat_age': 3,
        **values})


def evidence(name='old', found=ALL_WELL, row=None, **values):
    return serving.Evidence(amphora(name, **(row or {})), **{
        **found, **values})


def standby(name, **kwargs):
    return evidence(name, row={'role': 'BACKUP'}, held=frozenset(), **kwargs)


def silent(name, **row):
    return evidence(name, {'instance': 'ACTIVE', 'has_port': True}, row,
                    agent_error='no route', is_heard=False)


def snapshot(*amphorae, **values):
    return restore_repo.Snapshot(**{
        'id': 'lb1', 'name': 'web', 'provider': 'amphora',
        'topology': 'SINGLE', 'enabled': True, 'status': 'ERROR',
        'updated_at': None, 'unchanged_for': 10, 'replacement_phase': None,
        'vips': (VIP,), 'amphorae': amphorae, 'listeners': (
            restore_repo.Listener(LISTENER, 'ACTIVE', True, 'HTTP'),),
        'objects': (), **values})


class TestLoadBalancer(base.TestCase):

    def check(self, expected, older_than=3600, has_jobboard=False, **values):
        rows = restorable.check_load_balancer(snapshot(**values), older_than,
                                              has_jobboard)
        self.assertEqual(expected, {row.check: row.found.name for row in rows
                                    if row.found.name != 'Success'})

    def test_table(self):
        for expected, values in (
                ({}, {}), ({}, {'provider': None}),
                ({}, {'provider': 'octavia'}),
                ({'Provider': 'Failure'}, {'provider': 'ovn'}),
                ({'Provider': 'Failure'}, {'provider': 'amphora_cluster'}),
                ({'Provider': 'Failure'}, {'topology': None}),
                ({'State': 'Failure'}, {'status': 'ACTIVE'}),
                ({'State': 'Failure'}, {'status': 'PENDING_CREATE'}),
                ({'State': 'Failure'}, {'status': 'PENDING_DELETE'}),
                ({'Lock': 'Failure'}, {'status': 'PENDING_UPDATE'}),
                ({}, {'status': 'PENDING_UPDATE', 'unchanged_for': 4000}),
                ({'Lock': 'Warning'}, {
                    'status': 'PENDING_UPDATE', 'unchanged_for': 4000,
                    'has_jobboard': True}),
                ({'Replacement': 'Failure'}, {'replacement_phase': 'PROVE'})):
            self.check(expected, **values)

    def test_own_time(self):
        self.check({}, older_than=5, status='PENDING_UPDATE')


class TestJudge(base.TestCase):

    def judge(self, *found, **values):
        return restorable.judge(
            snapshot(*(one.amphora for one in found), **values), found,
            TIMEOUT)

    def failures(self, verdict):
        return {(row.amphora_id, row.check) for row in verdict.rows
                if row.found.name == 'Failure'}

    def assertRefused(self, *found, **values):
        verdict = self.judge(*found, **values)
        self.assertEqual({}, verdict.amphorae)
        self.assertEqual({}, verdict.statuses)
        self.assertTrue(serving.has_failed(verdict.rows))
        return self.failures(verdict)

    def test_single(self):
        verdict = self.judge(evidence())
        self.assertEqual({'old': 'ALLOCATED'}, verdict.amphorae)
        self.assertEqual(set(), self.failures(verdict))
        self.assertEqual({'Success'}, {
            row.found.name for row in verdict.rows})

    def test_what_is_not_proven(self):
        for check, values in (
                ('Agent', {'agent_error': 'no route', 'is_heard': False}),
                ('Listeners', {'running': frozenset()}),
                ('Listeners', {'running': frozenset({LISTENER, OTHER})}),
                ('Listeners', {'haproxies': 0}),
                ('Heartbeats', {'row': {'heartbeat_age': TIMEOUT + 1}}),
                ('Heartbeats', {'row': {'heartbeat_age': None}}),
                ('Instance', {'instance': None}),
                ('Instance', {'instance': 'SHUTOFF'}),
                ('Instance', {'instance_error': 'Nova is down'}),
                ('VRRP port', {'has_port': False}),
                ('VRRP port', {'has_port': None}),
                ('VRRP port', {'port_error': 'Neutron is down'})):
            failures = self.assertRefused(evidence(**values))
            self.assertEqual({('old', check), (None, 'VIP')}, failures)

    def test_listeners(self):
        listeners = (
            restore_repo.Listener(LISTENER, 'ERROR', True, 'HTTP'),
            restore_repo.Listener(OTHER, 'ACTIVE', False, 'HTTP'))
        # haproxy may have more than listeners.
        self.assertTrue(self.judge(
            evidence(running=frozenset({LISTENER, 'prometheus'})),
            listeners=listeners).amphorae)
        self.assertRefused(evidence(running=frozenset({LISTENER, OTHER})),
                           listeners=listeners)
        udp = (restore_repo.Listener(LISTENER, 'ACTIVE', True, 'UDP'),)
        self.assertTrue(self.judge(evidence(haproxies=0),
                                   listeners=udp).amphorae)
        self.assertTrue(self.judge(
            evidence(running=frozenset(), haproxies=0),
            enabled=False).amphorae)
        self.assertTrue(self.judge(
            evidence(running=frozenset(), haproxies=0),
            listeners=()).amphorae)

    def test_vip(self):
        for found in (
                [evidence(held=frozenset())],
                [evidence(), evidence('new')], []):
            self.assertEqual({(None, 'VIP')}, self.assertRefused(*found))
        self.assertEqual({(None, 'VIP')}, self.assertRefused(
            evidence(), vips=(VIP, '2001:db8::1')))

    def test_no_listener(self):
        """keepalived of a pair gives the VIP to none then."""
        bare = {'running': frozenset(), 'held': frozenset()}
        one, other = (evidence(name, row={'role': role}, **bare) for
                      name, role in (('a', 'MASTER'), ('b', 'BACKUP')))
        pair = {'topology': 'ACTIVE_STANDBY', 'listeners': ()}
        self.assertEqual({'a': 'ALLOCATED', 'b': 'ALLOCATED'},
                         self.judge(one, other, **pair).amphorae)
        for refused, values in (
                ([evidence(**bare)], {'listeners': ()}),
                ([one, silent('b', role='BACKUP')], pair),
                ([dataclasses.replace(one, instance=None)], pair),
                ([], pair)):
            self.assertIn((None, 'VIP'),
                          self.assertRefused(*refused, **values))

    def test_who_does_not_answer_may_hold_it(self):
        """Of one that was told of the VIP nobody can tell."""
        def check(other, is_restored, **values):
            verdict = self.judge(evidence(), other, **values)
            self.assertEqual(is_restored, bool(verdict.amphorae), other)

        old = {'heartbeat_age': None}
        check(silent('new', **old), False)
        for state in ('SHUTOFF', None):
            check(dataclasses.replace(silent('new', **old), instance=state),
                  True)
        check(dataclasses.replace(silent('new', **old), instance=None,
                                  instance_error='Nova is down'), False)
        check(silent('new', vrrp_ip=None, vrrp_port_id=None, **old), True)
        # The two of a pair hear each other.
        pair = {'topology': 'ACTIVE_STANDBY'}
        check(silent('new', role='BACKUP', **old), True, **pair)
        check(silent('new', role='BACKUP'), False, **pair)
        check(dataclasses.replace(silent('new', role='BACKUP', **old),
                                  is_heard=True), False, **pair)

    def test_pair(self):
        holder = evidence(row={'role': 'MASTER'})
        pair = {'topology': 'ACTIVE_STANDBY'}
        verdict = self.judge(holder, standby('standby'), **pair)
        self.assertEqual({'old': 'ALLOCATED', 'standby': 'ALLOCATED'},
                         verdict.amphorae)
        dead = silent('dead', role='BACKUP', heartbeat_age=None)
        verdict = self.judge(holder, dead, **pair)
        self.assertEqual({'old': 'ALLOCATED', 'dead': 'ERROR'},
                         verdict.amphorae)
        self.assertIn('loadbalancer amphora failover dead', self.tell(
            verdict, 'dead'))
        # One more than is needed, and none where one is.
        third = dataclasses.replace(standby('third'), instance='SHUTOFF')
        verdict = self.judge(holder, standby('standby'), third, **pair)
        self.assertEqual('ERROR', verdict.amphorae['third'])
        self.assertIn('amphora delete third', self.tell(verdict, 'third'))
        verdict = self.judge(holder, **pair)
        self.assertIn('loadbalancer failover lb1', self.tell(verdict, None))
        # The holder is the dead one.
        self.assertRefused(dataclasses.replace(holder, instance=None),
                           standby('standby'), **pair)

    def tell(self, verdict, amphora_id):
        row, = [row for row in verdict.rows if row.check == 'Outcome' and
                row.amphora_id == amphora_id]
        return row.found.details

    def test_what_a_worker_died_with(self):
        never = serving.Evidence(amphora(
            'never', None, 'PENDING_CREATE', compute_id=None,
            lb_network_ip=None, vrrp_ip=None, vrrp_port_id=None),
            agent_error='it has no lb_network_ip', is_heard=False)
        booting = dataclasses.replace(
            silent('booting', vrrp_ip=None, vrrp_port_id=None, role=None),
            instance='BUILD')
        verdict = self.judge(evidence(), never, booting)
        self.assertEqual({'old': 'ALLOCATED', 'never': 'DELETED',
                          'booting': 'ERROR'}, verdict.amphorae)
        self.assertEqual({'never', 'booting'}, verdict.detached)
        for amphora_id in ('never', 'booting'):
            self.assertIn('image leaks', self.tell(verdict, amphora_id))

    def test_objects(self):
        expected = {
            ('listener', 'ERROR'): 'ACTIVE',
            ('listener', 'PENDING_UPDATE'): 'ACTIVE',
            ('listener', 'PENDING_DELETE'): 'ERROR',
            ('pool', 'PENDING_UPDATE'): 'ACTIVE',
            ('pool', 'ERROR'): 'ERROR',
            ('member', 'PENDING_CREATE'): 'ERROR',
            ('member', 'PENDING_DELETE'): 'ERROR'}
        objects = tuple(restore_repo.Object(kind, f'{kind}-{status}', status)
                        for kind, status in expected)
        verdict = self.judge(evidence(), objects=objects)
        self.assertEqual(expected, {
            (each.kind, each.status): status
            for each, status in verdict.statuses.items()})
        self.assertEqual(5, sum(row.check == 'Objects'
                                for row in verdict.rows))


ROLES = ('MASTER', 'BACKUP', 'STANDALONE', None)
EVIDENCE = st.builds(
    serving.Evidence,
    st.builds(
        amphora, st.uuids().map(str), st.sampled_from(ROLES),
        st.sampled_from(('ERROR', 'ALLOCATED', 'PENDING_DELETE')),
        heartbeat_age=st.sampled_from((None, 1, TIMEOUT + 1)),
        compute_id=st.sampled_from((None, 'compute')),
        lb_network_ip=st.sampled_from((None, '192.0.2.1')),
        vrrp_port_id=st.sampled_from((None, 'port'))),
    agent_error=st.sampled_from((None, None, 'none')),
    is_heard=st.booleans(),
    held=st.sampled_from((frozenset(), frozenset({VIP}))),
    running=st.sampled_from((frozenset(), frozenset({LISTENER}))),
    haproxies=st.integers(0, 1),
    instance=st.sampled_from(('ACTIVE', 'ACTIVE', 'SHUTOFF', None)),
    has_port=st.sampled_from((True, True, False, None)))


class TestInvariants(base.TestCase):

    @hypothesis.settings(max_examples=500)
    @hypothesis.given(
        st.lists(EVIDENCE, max_size=4),
        st.sampled_from(('SINGLE', 'ACTIVE_STANDBY')))
    def test_what_is_restored_serves(self, found, topology):
        found = [dataclasses.replace(one, held=frozenset())
                 if not one.answers else one for one in found]
        one = snapshot(*(each.amphora for each in found), topology=topology)
        verdict = restorable.judge(one, found, TIMEOUT)
        if not verdict.amphorae:
            self.assertTrue(serving.has_failed(verdict.rows))
            return
        self.assertEqual({each.amphora.id for each in found},
                         set(verdict.amphorae))
        kept = [each for each in found
                if verdict.amphorae[each.amphora.id] == 'ALLOCATED']
        self.assertTrue(1 <= len(kept) <= (
            1 if topology == 'SINGLE' else 2))
        self.assertEqual(1, sum(bool(each.held) for each in kept))
        self.assertEqual(1, sum(bool(each.held) for each in found))
        self.assertEqual(len(kept), len({each.amphora.role
                                         for each in kept}))
        for each in kept:
            self.assertFalse(serving.has_failed(
                serving.check_amphora(one, each, TIMEOUT)))
            self.assertNotIn(each.amphora.id, verdict.detached)
