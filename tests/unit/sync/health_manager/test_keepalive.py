# SPDX-License-Identifier: Apache-2.0

import socket
import time

import fixtures
from oslo_utils import uuidutils
import psutil

from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import keepalive
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import member
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit.sync.health_manager import test_address


class Listener:
    """Listens, until it is told not to."""

    def __init__(self):
        self.listening, self.stopped, self.stopping = True, False, False
        self.starting = False

    def is_starting(self):
        return self.starting

    def is_listening(self):
        return self.listening

    def has_stopped(self):
        return self.stopped

    def is_stopping(self):
        return self.stopping


class AddressDriver:
    """Tells an address that may change."""

    def __init__(self, address):
        self.address = address

    def get(self):
        if isinstance(self.address, Exception):
            raise self.address
        return self.address


class TestKeepalive(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.listener, self.driver, self.keepalive = self.make()

    def make(self, address='192.0.2.1', host='hm1', **hmsync):
        conf = self.make_conf(DEFAULT={'host': host}, hmsync=hmsync,
                              health_manager={'bind_ip': '::'})
        listener, driver = Listener(), AddressDriver(address)
        return listener, driver, keepalive.Keepalive(
            conf, self.engine, driver, listener, uuidutils.generate_uuid())

    @property
    def rows_by_host(self):
        return {m.host: m for m in hm_repo.get_all(self.engine)
                if not m.is_further}

    def assertStatus(self, status, address='192.0.2.1:5555', host='hm1'):
        row = self.rows_by_host[host]
        self.assertEqual((status, address), (row.status, row.address))

    def assertRefused(self, error, words, subject=None):
        e = self.assertRaises(error, (subject or self.keepalive).beat)
        self.assertIn(words, str(e))

    def test_registers_then_touches(self):
        self.keepalive.beat()
        self.assertStatus(member.ONLINE)
        self.make_older(models.HealthManager, 'keepalive_at', 15)
        self.make_older(models.HealthManager, 'online_since', 100)
        self.keepalive.beat()
        row = self.rows_by_host['hm1']
        self.assertAge(0, row.keepalive_age)
        self.assertGreater(row.online_for, 50)

    def test_when_it_wrote_last(self):
        self.assertEqual(0, self.keepalive.written_at)
        self.driver.address = exceptions.InvalidAddress('none')
        self.assertRefused(exceptions.InvalidAddress, 'none')
        self.assertEqual(0, self.keepalive.written_at)
        self.driver.address = '192.0.2.1'
        before = time.time()
        self.keepalive.beat()
        self.assertLessEqual(before, self.keepalive.written_at)
        self.assertLess(abs(self.keepalive.clock_offset), 10)

    def test_age_and_status(self):
        now = 100
        listener, driver, _ = self.make()
        subject = keepalive.Keepalive(
            self.make_conf(DEFAULT={'host': 'hm1'}), self.engine, driver,
            listener, uuidutils.generate_uuid(), clock=lambda: now)
        self.assertEqual((None, None), (subject.get_age(), subject.status))
        subject.beat()
        now += 7
        self.assertEqual((7, member.ONLINE),
                         (subject.get_age(), subject.status))
        hm_repo.change_status(self.engine, 'hm1', member.ONLINE,
                              member.DRAINING)
        subject.beat()
        self.assertEqual((0, member.DRAINING),
                         (subject.get_age(), subject.status))
        listener.listening = False
        self.assertRefused(exceptions.HMSyncException, 'No process listens',
                           subject)
        self.assertIsNone(subject.status)

    def test_clocks_of_database_nodes(self):
        """Others' keepalives are of a time to come; it is said once."""
        logged = self.useFixture(fixtures.FakeLogger())
        self.keepalive.beat()
        hm_repo.register(self.engine, 'hm2', '192.0.2.2', 5555, 'b', 30)
        self.keepalive.beat()
        self.assertNotIn('clocks', logged.output)
        self.make_older(models.HealthManager, 'keepalive_at', -8, host='hm2')
        for _ in range(2):
            self.keepalive.beat()
        self.assertEqual(1, logged.output.count(
            'The clocks of the database nodes differ: the keepalives of hm2 '
            'lie up to'))

    def test_registers_again_when_a_write_hung(self):
        """The others took it for dead while it waited for an answer."""
        self.keepalive.beat()
        self.make_older(models.HealthManager, 'keepalive_at', 100)
        self.make_older(models.HealthManager, 'online_since', 100)
        self.keepalive.beat()
        row = self.rows_by_host['hm1']
        self.assertAge(0, row.keepalive_age)
        self.assertAge(0, row.online_for)

    def test_registers_again_when_its_row_is_gone(self):
        self.keepalive.beat()
        hm_repo.delete_expired(self.engine, -1)
        self.keepalive.beat()
        self.assertStatus(member.ONLINE)

    def test_new_address_replaces_the_old_one(self):
        self.keepalive.beat()
        self.driver.address = '192.0.2.9'
        self.keepalive.beat()
        self.assertStatus(member.ONLINE, '192.0.2.9:5555')
        self.assertEqual(1, len(self.rows_by_host))

    def test_goodbye(self):
        self.keepalive.beat()
        self.keepalive.say_goodbye()
        self.assertStatus(member.OFFLINE)
        self.keepalive.say_goodbye()

    def test_goodbye_without_having_registered(self):
        self.keepalive.say_goodbye()
        self.assertEqual({}, self.rows_by_host)

    def test_not_online_while_nobody_listens(self):
        self.listener.listening = False
        self.assertRefused(exceptions.HMSyncException, 'No process listens')
        self.assertEqual({}, self.rows_by_host)

    def test_any_free_port(self):
        self.keepalive._conf.set_override('bind_port', 0, 'health_manager')
        self.assertRefused(exceptions.InvalidConfiguration,
                           'send to [health_manager] bind_port = 0')
        self.assertEqual({}, self.rows_by_host)

    def test_no_complaint_before_the_listener_had_time(self):
        self.listener.listening, self.listener.starting = False, True
        self.keepalive.beat()
        self.assertEqual({}, self.rows_by_host)
        self.listener.listening, self.listener.starting = True, False
        self.keepalive.beat()
        self.assertStatus(member.ONLINE)

    def test_says_that_it_starts(self):
        """The one before may have been there, and had a place."""
        self.keepalive.beat()
        self.keepalive.say_goodbye()
        listener, _driver, subject = self.make()
        listener.starting = True
        subject.beat()
        self.assertStatus(member.OFFLINE)
        self.assertIsNotNone(self.rows_by_host['hm1'].starting_age)
        listener.starting = False
        subject.beat()
        self.assertStatus(member.ONLINE)
        row = self.rows_by_host['hm1']
        self.assertIsNone(row.starting_age)
        self.assertIsNotNone(row.restart_took)

    def test_tells_what_its_start_took(self):
        """The one before was killed, or there was none."""
        listener, driver, _ = self.make()
        for instance, took in (('a', 31), ('b', 17)):
            keepalive.Keepalive(
                self.make_conf(DEFAULT={'host': 'hm1'}), self.engine, driver,
                listener, instance, start_took=took).beat()
            self.assertEqual(took, self.rows_by_host['hm1'].restart_took)

    def test_listener_dies_while_the_parent_lives_on(self):
        self.keepalive.beat()
        self.listener.listening = False
        for _ in range(2):
            self.assertRefused(exceptions.HMSyncException,
                               'No process listens')
            self.assertStatus(member.OFFLINE)
        self.listener.listening = True
        self.keepalive.beat()
        self.assertStatus(member.ONLINE)

    def test_listener_closes_its_socket_before_it_ends(self):
        self.keepalive.beat()
        self.listener.listening = False
        self.listener.stopping = True
        self.keepalive.beat()
        self.assertStatus(member.OFFLINE)

    def test_listener_has_stopped_in_good_order(self):
        self.keepalive.beat()
        self.listener.listening, self.listener.stopped = False, True
        self.keepalive.beat()
        self.assertStatus(member.OFFLINE)

    def test_addresses_that_are_refused(self):
        self.keepalive.beat()
        for address, words in (('0.0.0.0', 'wildcard'),  # nosec B104
                               ('127.0.0.1', 'allow_loopback')):
            self.driver.address = address
            self.assertRefused(exceptions.InvalidAddress, words)
            self.assertStatus(member.OFFLINE)

    def test_outside_the_allowed_networks(self):
        _, _, subject = self.make(allowed_networks=['198.51.100.0/24'])
        self.assertRefused(exceptions.InvalidAddress, 'allowed_networks',
                           subject)

    def test_interface_that_is_gone_for_a_while(self):
        self.keepalive.beat()
        address, self.driver.address = self.driver.address, (
            exceptions.InvalidAddress('no interface'))
        self.assertRefused(exceptions.InvalidAddress, 'no interface')
        self.assertStatus(member.OFFLINE)
        self.driver.address = address
        self.keepalive.beat()
        self.assertStatus(member.ONLINE)

    def test_loopback_and_ipv6(self):
        _, _, subject = self.make('::1', allow_loopback=True)
        subject.beat()
        self.assertStatus(member.ONLINE, '[::1]:5555')

    def test_two_claim_one_address(self):
        self.keepalive.beat()
        _, _, other = self.make(host='hm2')
        self.assertRefused(exceptions.AddressConflict, 'hm1', other)
        self.keepalive.beat()
        self.assertEqual(['hm1'], list(self.rows_by_host))
        # The first one goes; the second one takes its place by itself.
        self.keepalive.say_goodbye()
        other.beat()
        self.assertEqual(['hm2'], list(self.rows_by_host))

    def has_further(self, **addresses):
        """Have this machine an address on each of some interfaces."""
        self.patch(psutil, 'net_if_addrs', lambda: {
            name: [test_address.snicaddr(socket.AF_INET, ip)]
            for name, ip in addresses.items()})

    def make_further(self, *args, **kwargs):
        subject = self.make(*args, further_networks=['198.51.100.0/24'],
                            **kwargs)[2]
        self.make_older(models.HealthManager, 'online_since', 100)
        return subject

    def get_further(self):
        return {m.host: m.address for m in hm_repo.get_all(self.engine)
                if m.is_further}

    def test_further_address(self):
        """It comes and goes; each time the health manager settles anew."""
        logged = self.useFixture(fixtures.FakeLogger())
        subject = self.make_further()
        for interfaces, expected in (
                ({}, {}), ({'eth1': '198.51.100.7'},
                           {'hm1': '198.51.100.7:5555'}), ({}, {})):
            self.has_further(**interfaces)
            for _ in range(3):
                subject.beat()
                self.assertEqual(expected, self.get_further())
                self.assertStatus(member.ONLINE)
        self.assertEqual(2, logged.output.count('no interface of this host'))
        self.assertEqual(3, logged.output.count('is ONLINE at'))
        self.assertIn('ONLINE at 192.0.2.1:5555, and at 198.51.100.7 for '
                      'amphorae of 198.51.100.0/24.', logged.output)

    def test_further_address_of_another_one(self):
        """Such as a virtual IP that moves: its own address stays."""
        logged = self.useFixture(fixtures.FakeLogger())
        self.has_further(vip='198.51.100.7')
        one = self.make_further()
        two = self.make_further('192.0.2.2', 'hm2')
        for _ in range(3):
            one.beat()
            two.beat()
            self.assertEqual({'hm1': '198.51.100.7:5555'},
                             self.get_further())
            self.assertStatus(member.ONLINE, '192.0.2.2:5555', 'hm2')
        self.assertEqual(1, logged.output.count(
            '198.51.100.7 is already registered by hm1'))
        one.say_goodbye()
        two.beat()
        self.assertStatus(member.ONLINE, '192.0.2.2:5555', 'hm2')
        self.assertEqual({'hm2': '198.51.100.7:5555'}, self.get_further())

    def test_further_network_that_is_none(self):
        subject = self.make(further_networks=['198.51.100.7/24'])[2]
        self.assertRefused(exceptions.InvalidConfiguration,
                           '[hmsync] further_networks', subject)

    def test_key_that_changes(self):
        """SIGHUP changes what octavia.conf has, not what listens."""
        conf = self.make_conf(DEFAULT={'host': 'hm1'},
                              health_manager={'heartbeat_key': 'first'})
        subject = keepalive.Keepalive(conf, self.engine, self.driver,
                                      self.listener, 'instance')
        logged = self.useFixture(fixtures.FakeLogger())
        for key, told in (('first', 0), ('second', 1), ('second', 1),
                          ('third', 1), ('first', 1), ('second', 2)):
            conf.set_override('heartbeat_key', key, group='health_manager')
            subject.beat()
            row = self.rows(models.HealthManager)[0]
            self.assertEqual(heartbeat_key.digest('first'), row.key_digest)
            self.assertEqual(heartbeat_key.digest(key),
                             row.configured_key_digest)
            self.assertEqual(told, logged.output.count(
                'another [health_manager] heartbeat_key'))

    def test_key_when_it_registers_again(self):
        """Also then it is the listener's."""
        conf = self.make_conf(DEFAULT={'host': 'hm1'},
                              health_manager={'heartbeat_key': 'first'})
        subject = keepalive.Keepalive(conf, self.engine, self.driver,
                                      self.listener, 'instance')
        subject.beat()
        conf.set_override('heartbeat_key', 'second', group='health_manager')
        self.make_older(models.HealthManager, 'keepalive_at', 100)
        subject.beat()
        row = self.rows(models.HealthManager)[0]
        self.assertEqual([heartbeat_key.digest('first'),
                          heartbeat_key.digest('second')],
                         [row.key_digest, row.configured_key_digest])

    def test_two_with_the_same_host_name(self):
        """They must not take the row from each other for ever."""
        _, _, other = self.make('192.0.2.2')
        self.keepalive.beat()
        other.beat()
        self.assertRefused(exceptions.HostConflict, '192.0.2.2:5555')
        other.beat()
        self.assertStatus(member.ONLINE, '192.0.2.2:5555')
        for _ in range(3):
            self.assertRaises(exceptions.HostConflict, self.keepalive.beat)
            other.beat()
            self.assertStatus(member.ONLINE, '192.0.2.2:5555')

    def test_restart_while_the_old_process_goes(self):
        _, _, new = self.make()
        self.keepalive.beat()
        new.beat()
        self.keepalive.say_goodbye()
        self.assertStatus(member.ONLINE)
