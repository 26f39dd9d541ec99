# SPDX-License-Identifier: Apache-2.0

"""Which distributors are booted and deleted, in any world."""

import dataclasses
import datetime

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.instances import instances

NOW = datetime.datetime(2026, 11, 1)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)
BUILD = instances.Kind.BUILD
LEAVE = instances.Kind.LEAVE


def make(name, state='READY', is_claimed=False, reason=None, expires_at=None,
         created_at=NOW - DAY):
    return booted_repo.Instance(
        f'id-{name}', state, name if state != 'BUILDING' else None,
        '192.0.2.1', created_at, expires_at, reason,
        'somebody' if is_claimed else None, NOW + HOUR if is_claimed else None,
        created_at, NOW)


def make_row(name, vips=0, status='ONLINE', silent=datetime.timedelta(),
             drained=None, driver='hmsync_ovs'):
    return distributor_repo.Distributor(
        name, name, 'https://192.0.2.1:9444', driver, True, status, '1',
        NOW - silent, vips, NOW, drained)


def decide(found, rows, limit=4, size=4):
    return instances.decide(found, {row.name: row for row in rows}, limit,
                            size)


def kinds(actions):
    return [action.kind for action in actions]


class TestDecide(base.BaseTestCase):

    def test_first(self):
        self.assertEqual([BUILD] * 2, kinds(decide([], [])))
        self.assertEqual([BUILD], kinds(decide([], [], limit=1)))
        self.assertEqual([], decide([], [], limit=0))
        self.assertEqual([BUILD], kinds(decide(
            [make('a', 'BUILDING', is_claimed=True)], [])))

    def test_ahead(self):
        """Before there is no room, others are booted."""
        found = [make('a'), make('b')]
        for vips, expected in ((0, 0), (3, 0), (4, 2)):
            self.assertEqual([BUILD] * expected, kinds(decide(found, [
                make_row('a', vips), make_row('b', vips)])))
        self.assertEqual([BUILD], kinds(decide(
            found, [make_row('a', 4), make_row('b', 1)])))
        full = [make_row('a', 4), make_row('b', 4)]
        self.assertEqual([BUILD], kinds(decide(found, full, limit=3)))
        self.assertEqual([], decide(found, full, limit=2))
        # Known by nobody yet.
        self.assertEqual([], decide(found, []))

    def test_died(self):
        self.assertEqual([instances.Action(
            instances.Kind.TAKE_BACK, 'id-a',
            'the process that booted it died')],
            decide([make('a', 'BUILDING')], [], limit=0))

    def test_left(self):
        """It is deleted when no distributor goes by it any more."""
        found = [make('a', 'LEAVING', reason='ordered')]
        self.assertEqual([], decide(found, [make_row('a')], limit=0))
        self.assertEqual([instances.Action(
            instances.Kind.DELETE, 'id-a', 'ordered')],
            decide(found, [], limit=0))

    def test_not_needed(self):
        found = [make('a'), make('b'), make('c')]
        rows = [make_row('a', 2), make_row('b', 2), make_row('c')]
        self.assertEqual([LEAVE], kinds(decide(found, rows)))
        self.assertEqual([], decide(found, rows, limit=0))
        # The third one has been booted because these are nearly full.
        self.assertEqual([], decide(
            found, [make_row('a', 3), make_row('b', 3), make_row('c')]))
        # One has not answered for a moment.
        self.assertEqual([], decide(found, [
            make_row('a', 2), make_row('b', 2, 'OFFLINE'), make_row('c')]))

    def test_drained(self):
        self.assertEqual([BUILD], kinds(decide(
            [make('a'), make('b')],
            [make_row('a'), make_row('b', drained=True)])))

    def test_reasons(self):
        """First another one is booted, then it goes."""
        for old, row in (
                (make('a', reason='ordered'), make_row('a', 1)),
                (make('a', expires_at=NOW + 29 * DAY,
                      created_at=NOW - 336 * DAY), make_row('a', 1))):
            found, rows = [old, make('b')], [row, make_row('b', 1)]
            self.assertEqual([BUILD], kinds(decide(found, rows, limit=2)))
            found.append(make('c'))
            self.assertEqual([], decide(found, rows, limit=2))
            rows.append(make_row('c'))
            self.assertEqual([LEAVE], kinds(decide(found, rows, limit=2)))
            self.assertEqual('id-a', decide(found, rows)[0].instance_id)

    def test_the_last_ones(self):
        """Without others only those go that have nothing, and are not to be.

        Network nodes have room, too.
        """
        found = [make('a', reason='ordered'), make('b', reason='ordered')]
        rows = [make_row('a'), make_row('b', 1)]
        self.assertEqual([BUILD] * 2, kinds(decide(found, rows)))
        self.assertEqual([instances.Action(LEAVE, 'id-a', 'ordered')],
                         decide(found, rows, limit=0))
        self.assertEqual([], decide(found[1:], rows[1:], limit=0))
        rows += [make_row('network1'), make_row('network2')]
        self.assertEqual([instances.Action(LEAVE, 'id-b', 'ordered')],
                         decide(found[1:], rows[1:], limit=0))
        rows[-1] = make_row('network2', status='OFFLINE')
        self.assertEqual([], decide(found[1:], rows[1:], limit=0))

    def test_certificates(self):
        """An authority that ends soon does not have all be replaced."""
        for left, validity, is_due in ((40, 365, False), (30, 365, True),
                                       (15, 20, False), (6, 20, True),
                                       (0.1, 0.9, False)):
            one = make('a', expires_at=NOW + left * DAY,
                       created_at=NOW + (left - validity) * DAY)
            self.assertEqual(
                [BUILD] if is_due else [],
                kinds(decide([one, make('b')],
                             [make_row('a'), make_row('b')])), left)

    def test_silent(self):
        silent = 6 * datetime.timedelta(minutes=1)
        found = [make('a'), make('b')]
        off = make_row('a', 1, 'OFFLINE', silent)
        self.assertEqual(found[:1], instances.find_silent(
            found, {'a': off, 'b': make_row('b')}))
        self.assertEqual([LEAVE], kinds(decide(found, [off, make_row('b')])))
        # Died before it was asked at all.
        never = dataclasses.replace(off, last_seen=None)
        self.assertEqual([LEAVE], kinds(decide(found, [never,
                                                       make_row('b')])))
        self.assertEqual([], decide(
            [make('a', created_at=NOW), make('b')], [never, make_row('b')]))
        # Not for long.
        self.assertEqual([], decide(found, [
            make_row('a', 1, 'OFFLINE', silent / 2), make_row('b')]))
        # Nobody answers: it is not these that are wrong.
        self.assertEqual([], decide(found, [
            off, make_row('b', 1, 'OFFLINE', silent)]))
        self.assertEqual([], decide(found, [
            off, make_row('b', 1, 'OFFLINE', silent),
            make_row('ovn', driver='hmsync_ovn')]))

    @given(st.lists(st.tuples(
        st.sampled_from(['READY', 'BUILDING', 'LEAVING']), st.booleans(),
        st.sampled_from([None, 'ordered']), st.integers(0, 5),
        st.sampled_from(['ONLINE', 'OFFLINE']), st.booleans(),
        st.sampled_from([0, 10])), max_size=6), st.integers(0, 6))
    def test_any_world(self, world, limit):
        found, rows = [], []
        for number, (state, is_claimed, reason, vips, status, has_row,
                     silent) in enumerate(world):
            found.append(make(f'{number}', state, is_claimed, reason))
            if has_row and state != 'BUILDING':
                rows.append(make_row(
                    f'{number}', vips, status,
                    datetime.timedelta(minutes=silent)))
        actions = decide(found, rows, limit)
        by_id = {one.id: one for one in found}
        leaving = [a for a in actions if a.kind == LEAVE]
        self.assertLessEqual(len(leaving), 1)
        # Never both: what goes is known to be needed by nobody first.
        builds = kinds(actions).count(BUILD)
        self.assertFalse(builds and leaving)
        kept = sum(one.state == 'BUILDING' or one.state == 'READY' and
                   not one.reason for one in found)
        self.assertLessEqual(builds, max(0, min(2, limit)))
        if builds and not any(row.status == 'OFFLINE' for row in rows):
            self.assertLessEqual(kept + builds, limit)
        for action in actions:
            one = by_id.get(action.instance_id)
            if action.kind == instances.Kind.DELETE:
                self.assertNotIn(one.compute_id, [row.name for row in rows])
            elif action.kind == instances.Kind.TAKE_BACK:
                self.assertTrue(one.is_free)
            elif action.kind == LEAVE:
                self.assertEqual('READY', one.state)
                others = [row for row in rows if row.name != one.compute_id
                          and row.status == 'ONLINE']
                self.assertTrue(others or not limit and not any(
                    row.vips for row in rows if row.name == one.compute_id))
