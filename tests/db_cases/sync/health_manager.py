# SPDX-License-Identifier: Apache-2.0

"""Rows of hmsync_health_manager."""

import time

from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.rules import member
from tests.db_cases import base

OFFLINE_AFTER = 20


class _Cases(base.DatabaseTestCase):

    def register(self, host='hm1', ip='192.0.2.1', instance='a', port=5555,
                 **values):
        hm_repo.register(self.engine, host, ip, port, instance,
                         OFFLINE_AFTER, **values)

    def touch(self, host='hm1', instance='a', ip='192.0.2.1', port=5555):
        return hm_repo.touch(self.engine, host, instance, ip, port,
                             OFFLINE_AFTER)

    def members(self):
        return {m.host: m for m in hm_repo.get_all(self.engine)}

    def silence(self, host='hm1', seconds=OFFLINE_AFTER + 1):
        self.make_older(models.HealthManager, 'keepalive_at', seconds,
                        host=host)


class HealthManagerCases(_Cases):

    def test_register(self):
        self.register()
        hm = self.members()['hm1']
        self.assertEqual(('192.0.2.1:5555', member.ONLINE),
                         (hm.address, hm.status))
        for age in (hm.keepalive_age, hm.online_for):
            self.assertGreaterEqual(age, 0)
            self.assertAge(0, age)

    def test_late(self):
        """Of the process that has the row; it stays until the next one."""
        self.register(instance='b')
        self.assertIsNone(self.members()['hm1'].late_age)
        hm_repo.set_late(self.engine, 'hm1', 'a')
        self.assertIsNone(self.members()['hm1'].late_age)
        began = time.monotonic()
        hm_repo.set_late(self.engine, 'hm1', 'b')
        self.make_older(models.HealthManager, 'late_at', 30, host='hm1')
        self.assertAge(30, self.members()['hm1'].late_age, began)

    def test_register_ipv6(self):
        self.register(ip='2001:db8::1')
        self.assertEqual('[2001:db8::1]:5555', self.members()['hm1'].address)

    def test_ages_have_fractions_of_a_second(self):
        self.register()
        began = time.monotonic()
        self.silence(seconds=1.5)
        more = self.members()['hm1'].keepalive_age - 1.5
        # Or as much as that took.
        self.assertTrue(-0.01 < more < time.monotonic() - began + 0.1, more)

    def test_find_ahead(self):
        """No age is negative but for a clock that is ahead."""
        self.register()
        self.register('hm2', '192.0.2.2')
        self.assertEqual({}, clocks.find_ahead(self.engine))
        began = time.monotonic()
        self.silence('hm2', -60)
        ahead = clocks.find_ahead(self.engine)
        self.assertEqual({'hm2'}, set(ahead))
        self.assertAge(-60, -ahead['hm2'], began)
        found = self.members()['hm2']
        self.assertLess(found.keepalive_age, 0)
        self.assertTrue(member.is_listening(found, OFFLINE_AFTER))

    def test_touch(self):
        self.register()
        self.silence(seconds=5)
        self.make_older(models.HealthManager, 'online_since', 200)
        began = time.monotonic()
        self.assertTrue(self.touch())
        hm = self.members()['hm1']
        self.assertAge(0, hm.keepalive_age, began)
        self.assertGreater(hm.online_for, 199)

    def test_touch_after_silence(self):
        """The others took it for dead: it has to register anew."""
        self.register()
        self.silence()
        self.assertFalse(self.touch())
        self.assertGreater(self.members()['hm1'].keepalive_age,
                           OFFLINE_AFTER)

    def test_touch_twice_within_one_tick_of_the_clock(self):
        self.register()
        self.assertTrue(all([self.touch() for _ in range(20)]))

    def test_touch_with_row_gone(self):
        self.assertFalse(self.touch())
        self.assertEqual({}, self.members())

    def test_touch_of_another_process(self):
        self.register(instance='b')
        self.assertFalse(self.touch(instance='a'))

    def test_touch_at_another_address(self):
        self.register()
        self.assertFalse(self.touch(ip='192.0.2.2'))
        self.assertFalse(self.touch(port=5556))

    def test_touch_after_goodbye(self):
        self.register()
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.assertFalse(self.touch())
        self.assertEqual(member.OFFLINE, self.members()['hm1'].status)

    def test_touch_after_the_clock_went_back(self):
        """Its times are yet to come: it registers anew."""
        self.register()
        self.silence(seconds=-OFFLINE_AFTER + 5)
        self.assertTrue(self.touch())
        self.silence(seconds=-OFFLINE_AFTER - 5)
        self.assertFalse(self.touch())

    def test_restart_that_is_told(self):
        self.register()
        self.assertFalse(hm_repo.set_starting(self.engine, 'hm2', 'b'))
        self.assertFalse(hm_repo.set_starting(self.engine, 'hm1', 'a'))
        self.assertIsNone(self.members()['hm1'].starting_age)
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        began = time.monotonic()
        self.assertTrue(hm_repo.set_starting(self.engine, 'hm1', 'b'))
        found = self.members()['hm1']
        self.assertAge(0, found.starting_age, began)
        self.assertIsNone(found.restart_took)
        began = time.monotonic()
        self.silence(seconds=25)
        self.register(instance='b')
        found = self.members()['hm1']
        self.assertIsNone(found.starting_age)
        self.assertAge(25, found.restart_took, began)
        # Neither anew at a keepalive, nor by another address.
        self.silence()
        self.register(instance='b')
        hm_repo.set_offline(self.engine, 'hm1', 'b')
        self.register(ip='192.0.2.9', instance='c')
        self.assertAge(25, self.members()['hm1'].restart_took, began)

    def test_start_that_is_timed(self):
        """Where no goodbye tells how long it took in all."""
        def took(**values):
            hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555,
                             **values, offline_after=OFFLINE_AFTER)
            return self.members()['hm1'].restart_took

        self.assertEqual(7, took(instance='a', start_took=7))
        # It is the same process still, whatever the row says.
        self.silence()
        self.assertEqual(7, took(instance='a', start_took=7000))
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.assertEqual(7, took(instance='a', start_took=7000))
        # Killed, then where the kernel does not tell.
        self.assertEqual(9, took(instance='b', start_took=9))
        self.assertEqual(9, took(instance='c'))
        hm_repo.set_offline(self.engine, 'hm1', 'c')
        began = time.monotonic()
        self.silence(seconds=30)
        self.assertAge(30, took(instance='d', start_took=9), began)
        # The database's clock went back meanwhile.
        hm_repo.set_offline(self.engine, 'hm1', 'd')
        self.silence(seconds=-3600)
        self.assertEqual(8, took(instance='e', start_took=8))

    def test_restart_under_another_name(self):
        """As of a pod with the address of its node."""
        self.register('hm1')
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        began = time.monotonic()
        self.silence(seconds=15)
        hm_repo.register(self.engine, 'hm2', '192.0.2.1', 5555, 'b',
                         OFFLINE_AFTER, start_took=9)
        self.assertAge(15, self.members()['hm2'].restart_took, began)

    def test_age_future(self):
        self.register()
        self.register('hm2', '192.0.2.2')
        self.silence('hm2', -60)
        began = time.monotonic()
        clocks.age_future(self.engine, models.HealthManager, OFFLINE_AFTER)
        found = self.members()
        self.assertAge(OFFLINE_AFTER, found['hm2'].keepalive_age, began)
        self.assertAge(0, found['hm1'].keepalive_age)

    def test_goodbye(self):
        self.register()
        self.silence()
        self.assertTrue(hm_repo.set_offline(self.engine, 'hm1', 'a'))
        hm = self.members()['hm1']
        self.assertEqual(member.OFFLINE, hm.status)
        self.assertAge(0, hm.keepalive_age)

    def test_goodbye_of_the_predecessor_comes_late(self):
        self.register(instance='a')
        self.register(instance='b')
        self.assertFalse(hm_repo.set_offline(self.engine, 'hm1', 'a'))
        self.assertEqual(member.ONLINE, self.members()['hm1'].status)

    def test_restart(self):
        self.register()
        self.make_older(models.HealthManager, 'online_since', 500)
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.register(instance='b')
        hm = self.members()['hm1']
        self.assertEqual(member.ONLINE, hm.status)
        self.assertAge(0, hm.online_for)

    def test_new_address_of_the_same_host(self):
        self.register()
        self.register(ip='192.0.2.9', instance='b')
        self.assertEqual(['192.0.2.9:5555'],
                         [m.address for m in self.members().values()])

    def test_two_claim_one_address(self):
        self.register('hm1')
        e = self.assertRaises(exceptions.AddressConflict, self.register,
                              'hm2')
        self.assertIn('192.0.2.1:5555', str(e))
        self.assertIn('hm1', str(e))
        self.assertEqual(['hm1'], list(self.members()))

    def test_conflict_leaves_the_own_row_as_it_was(self):
        self.register('hm1')
        self.register('hm2', ip='192.0.2.2')
        self.assertRaises(exceptions.AddressConflict, self.register, 'hm2',
                          ip='192.0.2.1')
        self.assertEqual('192.0.2.2:5555', self.members()['hm2'].address)

    def test_address_of_one_that_is_silent(self):
        """A pod with a new name at the address of one that is gone."""
        self.register('hm1')
        self.silence('hm1')
        self.register('hm2')
        self.assertEqual(['hm2'], list(self.members()))

    def test_address_of_one_that_said_goodbye(self):
        self.register('hm1')
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.register('hm2')
        self.assertEqual(['hm2'], list(self.members()))

    def test_same_ip_address_at_another_port(self):
        self.register('hm1')
        self.register('hm2', port=5556)
        self.assertEqual({'192.0.2.1:5555', '192.0.2.1:5556'},
                         {m.address for m in self.members().values()})

    def test_two_claim_one_address_at_once(self):
        for _ in range(5):
            self.setUpRows()
            results = self.run_at_once(
                [lambda host=f'hm{n}': self._try(host) for n in range(4)])
            self.assertEqual(1, results.count('registered'), results)
            self.assertEqual(1, len(self.members()))

    def setUpRows(self):
        hm_repo.delete_expired(self.engine, -1)

    def _try(self, host):
        try:
            self.register(host, instance=host)
        except exceptions.AddressConflict:
            return 'conflict'
        return 'registered'

    def test_two_drain_at_once(self):
        """Each may only while the other one does not."""
        for _ in range(5):
            self.setUpRows()
            for number in (1, 2):
                self.register(f'hm{number}', f'192.0.2.{number}')
            results = self.run_at_once(
                [lambda host=f'hm{n}': self._try_to_drain(host)
                 for n in (1, 2)])
            self.assertEqual([False, True], sorted(results))
            self.assertEqual(
                ['DRAINING', 'ONLINE'],
                sorted(m.status for m in self.members().values()))

    def _try_to_drain(self, host):
        def check(members):
            if not [m for m in members if m.status == member.ONLINE]:
                raise exceptions.NotPossible
        try:
            return hm_repo.change_status(self.engine, host, member.ONLINE,
                                         member.DRAINING, check)
        except exceptions.NotPossible:
            return False

    def test_many_register_at_once(self):
        self.run_at_once([
            lambda n=n: self.register(f'hm{n}', f'192.0.2.{n}')
            for n in range(1, 9)])
        self.assertEqual(8, len(self.members()))

    def test_usurper(self):
        self.register(instance='b', ip='192.0.2.9')
        self.assertEqual('192.0.2.9:5555', self.find_usurper('a'))
        self.assertIsNone(self.find_usurper('b'))
        self.silence()
        self.assertIsNone(self.find_usurper('a'))

    def find_usurper(self, instance):
        return hm_repo.find_usurper(self.engine, 'hm1', instance,
                                    OFFLINE_AFTER)

    def test_no_usurper_without_a_row(self):
        self.assertIsNone(self.find_usurper('a'))

    def test_delete_expired(self):
        self.register('hm1')
        self.register('hm2', ip='192.0.2.2')
        self.silence('hm1', 4000)
        self.assertEqual(['hm1'], hm_repo.delete_expired(self.engine, 3600))
        self.assertEqual(['hm2'], list(self.members()))


class FurtherAddressCases(_Cases):
    """Addresses besides its own, each in a network."""

    NEW = {'198.51.100.0/24': '198.51.100.1', '2001:db8::/64': '2001:db8::1'}

    def get_all(self):
        return [(m.host, m.address, m.zone, m.is_further)
                for m in hm_repo.get_all(self.engine)]

    def test_each_is_a_member(self):
        self.register('hm2', '192.0.2.2', zone='edge', is_observing=True)
        self.register(further=self.NEW, port=5556)
        self.silence('hm1', 300)
        self.assertEqual([
            ('hm1', '192.0.2.1:5556', None, False),
            ('hm2', '192.0.2.2:5555', 'edge', False),
            ('hm1', '198.51.100.1:5556', '198.51.100.0/24', True),
            ('hm1', '[2001:db8::1]:5556', '2001:db8::/64', True)],
            self.get_all())
        own, _other, *further = hm_repo.get_all(self.engine)
        for member_ in further:
            self.assertEqual((own.keepalive_age, own.status, None), (
                member_.keepalive_age, member_.status, member_.is_heard))
        found, others = hm_repo.find_all(self.engine, 'hm1', 'a')
        self.assertEqual(
            ('192.0.2.1:5556', ['198.51.100.1:5556', '[2001:db8::1]:5556']),
            (found.address, others))
        self.assertEqual((None, []),
                         hm_repo.find_all(self.engine, 'hm1', 'b'))

    def test_until_it_registers_without(self):
        self.register(further=self.NEW)
        self.assertTrue(self.touch())
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.assertEqual(3, len(self.get_all()))
        self.register(instance='b')
        self.assertEqual([('hm1', '192.0.2.1:5555', None, False)],
                         self.get_all())

    def test_taken(self):
        def find(host, ip='198.51.100.1', port=5555):
            return hm_repo.find_taken(self.engine, host,
                                      {'198.51.100.0/24': ip}, port,
                                      OFFLINE_AFTER)
        self.register(further=self.NEW)
        taken = {'198.51.100.0/24': 'hm1'}
        self.assertEqual([{}, taken, {}, {}, taken], [
            find('hm1'), find('hm2'), find('hm2', port=5556),
            find('hm2', '198.51.100.2'), find('hm2', '192.0.2.1')])
        self.silence()
        self.assertEqual({}, find('hm2'))

    def test_two_have_the_same(self):
        """Own addresses come before further ones, then who wrote last."""
        self.register('hm0', '192.0.2.3', further=self.NEW)
        self.register('hm2', '192.0.2.2', further=self.NEW)
        self.silence('hm2', 1)
        self.register('hm1', '192.0.2.1', further=self.NEW)
        hm_repo.set_offline(self.engine, 'hm0', 'a')
        self.register('hm3', '2001:db8::1')
        self.assertEqual({'198.51.100.1:5555': 'hm1',
                          '[2001:db8::1]:5555': 'hm3'}, {
            a: host for host, a, *_ in self.get_all()[3:]})


class LeftAddressCases(_Cases):
    """An address at which a health manager was, and is no more."""

    def left(self):
        return left_repo.get_all(self.engine)

    def delete(self, host='hm1'):
        row = next(r for r in hm_repo.get_rows(self.engine)
                   if r.host == host)
        return hm_repo.delete(self.engine, host, row.keepalive_at)

    def check(self, everywhere):
        """Each address is in one table, and in one only."""
        held = {m.address for m in self.members().values()}
        left = self.left()
        self.assertEqual(set(everywhere), held | left)
        self.assertEqual(set(), held & left)

    def test_left_by_nobody(self):
        self.register()
        self.touch()
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.register(instance='b')
        self.assertEqual(set(), self.left())

    def test_left_for_another_address(self):
        self.register()
        self.register(ip='192.0.2.9', instance='b')
        self.assertEqual({'192.0.2.1:5555'}, self.left())

    def test_left_for_another_port(self):
        self.register()
        self.register(port=5556)
        self.assertEqual({'192.0.2.1:5555'}, self.left())

    def test_left_ipv6(self):
        self.register(ip='2001:db8::1')
        self.register(ip='2001:db8::2')
        self.assertEqual({'[2001:db8::1]:5555'}, self.left())

    def test_left_and_back(self):
        self.register()
        self.register(ip='192.0.2.9')
        self.register()
        self.assertEqual({'192.0.2.9:5555'}, self.left())

    def test_left_twice(self):
        for _ in range(2):
            self.register()
            self.register(ip='192.0.2.9')
        self.make_older(models.LeftAddress, 'left_at', 3000)
        self.register()
        self.register(ip='192.0.2.8')
        self.assertEqual({'192.0.2.1:5555', '192.0.2.9:5555'}, self.left())

    def test_left_by_deletion(self):
        self.register()
        self.register('hm2', '192.0.2.2')
        self.assertTrue(self.delete())
        self.assertEqual({'192.0.2.1:5555'}, self.left())

    def test_not_left_where_nothing_is_deleted(self):
        self.register()
        row, = hm_repo.get_rows(self.engine)
        self.silence(seconds=1)
        self.assertFalse(hm_repo.delete(self.engine, 'hm1',
                                        row.keepalive_at))
        self.assertEqual(set(), self.left())

    def test_left_for_long(self):
        self.register()
        self.silence(seconds=4000)
        self.assertEqual(['hm1'], hm_repo.delete_expired(self.engine, 3600))
        self.assertEqual({'192.0.2.1:5555'}, self.left())

    def test_taken_by_another(self):
        self.register('hm1')
        self.register('hm2', '192.0.2.2')
        self.silence('hm1')
        self.register('hm2', '192.0.2.1')
        self.assertEqual({'192.0.2.2:5555'}, self.left())

    def test_not_left_where_it_is_held(self):
        """What was not done is not recorded either."""
        self.register('hm1')
        self.register('hm2', '192.0.2.2')
        self.assertRaises(exceptions.AddressConflict, self.register, 'hm2',
                          ip='192.0.2.1')
        self.assertEqual(set(), self.left())

    def test_two_go_to_each_others_address(self):
        for host, ip, instance in (('hm1', '192.0.2.1', 'a'),
                                   ('hm2', '192.0.2.2', 'b')):
            self.register(host, ip, instance)
            hm_repo.set_offline(self.engine, host, instance)
        self.register('hm1', '192.0.2.2', 'c')
        self.register('hm2', '192.0.2.1', 'd')
        self.assertEqual(set(), self.left())
        self.assertEqual(2, len(self.members()))

    def test_further_addresses(self):
        one, two = '198.51.100.1', '198.51.100.2'
        self.register(further={'a': one, 'b': two})
        self.assertEqual(set(), self.left())
        self.register(further={'a': one})
        self.assertEqual({f'{two}:5555'}, self.left())
        # It moves to what was a further one.
        self.register(ip=one)
        self.assertEqual({f'{two}:5555', '192.0.2.1:5555'}, self.left())
        self.register(ip=one, further={'b': two})
        self.assertEqual({'192.0.2.1:5555'}, self.left())
        self.delete()
        self.assertEqual({'192.0.2.1:5555', f'{one}:5555', f'{two}:5555'},
                         self.left())

    def test_many_move_at_once(self):
        ips = [f'192.0.2.{n}' for n in range(1, 7)]
        for n, ip in enumerate(ips):
            self.register(f'hm{n}', ip)
        everywhere = {f'{ip}:5555' for ip in ips}
        for _ in range(3):
            ips = [*ips[1:], f'192.0.2.{len(everywhere) + 1}']
            everywhere.add(f'{ips[-1]}:5555')
            self.run_at_once([
                lambda n=n, ip=ip: self._move(f'hm{n}', ip)
                for n, ip in enumerate(ips)])
            self.check(everywhere)

    def _move(self, host, ip):
        try:
            self.register(host, ip, host)
        except exceptions.AddressConflict:
            return False
        return True

    def test_one_moves_while_it_is_deleted(self):
        for _ in range(5):
            self.empty()
            self.register()
            self.run_at_once([self.delete,
                              lambda: self.register(ip='192.0.2.9')])
            self.check({'192.0.2.1:5555', '192.0.2.9:5555'})

    def test_deleted_by_two(self):
        for _ in range(5):
            self.empty()
            self.register()
            row, = hm_repo.get_rows(self.engine)
            results = self.run_at_once([
                lambda: hm_repo.delete(self.engine, 'hm1', row.keepalive_at)
            ] * 3)
            self.assertEqual([False, False, True], sorted(results))
            self.check({'192.0.2.1:5555'})

    def test_one_comes_as_another_goes(self):
        """A pod with a new name at the address of one that is deleted."""
        for _ in range(5):
            self.empty()
            self.register('hm1')
            hm_repo.set_offline(self.engine, 'hm1', 'a')
            row, = hm_repo.get_rows(self.engine)
            self.run_at_once([
                lambda: hm_repo.delete(self.engine, 'hm1',
                                       row.keepalive_at),
                lambda: self.register('hm2')])
            self.assertEqual(['hm2'], list(self.members()))
            self.check({'192.0.2.1:5555'})

    def test_kept_while_it_is_pinned(self):
        self.register()
        self.register('hm2', '192.0.2.2')
        for host in ('hm1', 'hm2'):
            self.delete(host)
        keeper_repo.touch(self.engine, 'hk1', ['192.0.2.1:5555'])
        # Its word has lapsed, and it may come back all the same.
        self.make_older(models.HouseKeeper, 'keepalive_at', 100000)
        left_repo.delete_expired(self.engine, 3600)
        self.assertEqual({'192.0.2.1:5555', '192.0.2.2:5555'}, self.left())
        self.make_older(models.LeftAddress, 'left_at', 3700)
        left_repo.delete_expired(self.engine, 3600)
        self.assertEqual({'192.0.2.1:5555'}, self.left())

    def test_not_kept_when_nobody_pins(self):
        self.register()
        self.delete()
        self.make_older(models.LeftAddress, 'left_at', 3700)
        left_repo.delete_expired(self.engine, 3600)
        self.assertEqual(set(), self.left())
