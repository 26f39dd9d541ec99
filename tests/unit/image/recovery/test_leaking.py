# SPDX-License-Identifier: Apache-2.0

"""What is left of amphorae, and what is not."""

import datetime
import types
import uuid

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync import compute
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.recovery import amphora_ports
from octavia_hmsync.image.recovery import leaking
from tests.unit import base

NOW = datetime.datetime(2026, 1, 1)
HOUR = 3600
OLD = NOW - datetime.timedelta(seconds=2 * HOUR)
YOUNG = NOW - datetime.timedelta(seconds=60)


def amphora(status, amphora_id='a', **values):
    return leak_repo.Amphora(**{
        'id': amphora_id, 'status': status, 'compute_id': None,
        'vrrp_port_id': None, 'load_balancer_id': None,
        'load_balancer_status': None, 'unchanged_for': 2 * HOUR,
        'updated_at': None, **values})


def known(*amphorae, replaced=()):
    return leak_repo.Known({each.id: each for each in amphorae},
                           frozenset(replaced), NOW)


def instance(created_at=OLD, **values):
    return compute.Instance('instance', 'amphora-a', 'a', 'ACTIVE',
                            created_at, **values)


def port(created_at=OLD, device_id=None):
    return amphora_ports.Port('port', 'octavia-lb-vrrp-a', 'a', device_id,
                              created_at)


class TestLeaking(base.TestCase):

    def find(self, what, instances=(), ports=()):
        return [str(leak.kind) for leak in leaking.find_all(
            what, instances, ports, HOUR)]

    def find_both(self, what):
        return self.find(what, [instance()], [port()])

    def test_instances_and_ports(self):
        self.assertEqual(['INSTANCE', 'PORT'], self.find_both(known()))
        self.assertEqual(['INSTANCE', 'PORT'], self.find_both(
            known(amphora('DELETED'))))
        for what in (known(amphora('DELETED', unchanged_for=60)),
                     known(amphora('ALLOCATED')),
                     known(amphora('PENDING_DELETE', unchanged_for=1)),
                     known(replaced={'a'}),
                     known(amphora('DELETED'), replaced={'a'})):
            self.assertEqual([], self.find_both(what))

    def test_port_of_a_distributor(self):
        def find(created_at=OLD, clusters=()):
            return leaking.find_all(
                leak_repo.Known({}, frozenset(), NOW, frozenset(clusters)),
                (), [amphora_ports.Port('port', 'name', None, None,
                                        created_at, 'cluster')], HOUR)

        self.assertEqual([], find(clusters=['cluster']))
        self.assertEqual([], find(NOW))
        leak, = find(clusters=['another'])
        self.assertEqual(('PORT', 'port', None, None), (
            leak.kind, leak.id, leak.amphora_id, leak.keep))
        leak, = find(None)
        self.assertEqual('its age is unknown', leak.keep)

    def test_names(self):
        """Of ports as Neutron has them, those that somebody made."""
        own = str(uuid.uuid4())
        for name, expected in (
                (cluster_ports.get_name(own, 'network1'), (None, own)),
                (f'octavia-lb-vrrp-{own}', (own, None)),
                # That of the load balancer's own VIP.
                (f'octavia-lb-{own}', None), (None, None)):
            found = amphora_ports._make(types.SimpleNamespace(
                id='port', name=name, device_id='', created_at=None,
                network_id='net', status='DOWN',
                allowed_address_pairs=None))
            self.assertEqual(expected, found and (
                found.amphora_id, found.cluster_id))

    def test_what_another_amphora_has(self):
        other = amphora('ALLOCATED', 'b', compute_id='instance',
                        vrrp_port_id='port')
        self.assertEqual([], self.find_both(known(other)))
        self.assertEqual([], self.find(
            known(other), ports=[port(device_id='instance')]))

    def test_age(self):
        self.assertEqual([], self.find(known(), [instance(YOUNG)],
                                       [port(YOUNG)]))
        self.assertEqual([], self.find(known(), [instance(is_going=True)]))
        found, = leaking.find_all(known(), [], [port(None)], HOUR)
        self.assertEqual('its age is unknown', found.keep)

    def judge_row(self, *args, replaced=(), **values):
        row = amphora(*args, **values)
        return leaking.judge_row(row, known(row, replaced=replaced), HOUR)

    def test_rows(self):
        for status in ('PENDING_CREATE', 'BOOTING', 'ERROR',
                       'PENDING_DELETE'):
            self.assertIsNone(self.judge_row(status).keep)
            for gone in ('DELETED', None):
                self.assertIsNone(self.judge_row(
                    status, load_balancer_id='lb',
                    load_balancer_status=gone).keep)
            self.assertIsNone(self.judge_row(status, unchanged_for=60))
            self.assertIsNone(self.judge_row(status, replaced={'a'}))
        for status in ('ALLOCATED', 'DELETED'):
            self.assertIsNone(self.judge_row(status))

    def test_rows_of_load_balancers(self):
        for status, load_balancer_status, is_leak, may_be_deleted in (
                ('BOOTING', 'ACTIVE', True, True),
                ('PENDING_CREATE', 'ERROR', True, True),
                ('BOOTING', 'PENDING_UPDATE', True, False),
                ('ERROR', 'ACTIVE', False, False),
                ('PENDING_DELETE', 'PENDING_UPDATE', False, False)):
            found = self.judge_row(status, load_balancer_id='lb',
                                   load_balancer_status=load_balancer_status)
            self.assertEqual(is_leak, found is not None, status)
            if found is not None:
                self.assertEqual(may_be_deleted, found.keep is None)

    STATUSES = ('ALLOCATED', 'ERROR', 'BOOTING', 'PENDING_CREATE',
                'PENDING_DELETE', 'DELETED')

    @hypothesis.given(
        st.lists(st.builds(
            amphora, st.sampled_from(STATUSES), st.sampled_from('abc'),
            compute_id=st.sampled_from((None, 'instance', 'other')),
            vrrp_port_id=st.sampled_from((None, 'port', 'other')),
            unchanged_for=st.sampled_from((1, 2 * HOUR)))),
        st.sets(st.sampled_from('abc')))
    def test_nobodys(self, amphorae, replaced):
        """What stands for an amphora in any way is none."""
        what = known(*amphorae, replaced=replaced)
        for leak in leaking.find_all(what, [instance()], [port()], HOUR):
            self.assertNotIn(leak.amphora_id, replaced)
            for each in what.amphorae.values():
                if each.id == leak.amphora_id:
                    self.assertGreaterEqual(each.unchanged_for, HOUR)
                if each.status == 'DELETED' or leak.kind == 'ROW':
                    continue
                self.assertNotEqual(leak.amphora_id, each.id)
                self.assertNotIn(leak.id, (each.compute_id,
                                           each.vrrp_port_id))

    def test_ten_thousand(self):
        """In a time that grows with their number alone."""
        amphorae = [amphora('ALLOCATED', str(n), compute_id=f'c{n}',
                            vrrp_port_id=f'p{n}') for n in range(20000)]
        ports = [amphora_ports.Port(f'm{n}', 'member', str(n), f'c{n}', OLD)
                 for n in range(20000)]
        self.assertEqual([], self.find(known(*amphorae), ports=ports))
