# SPDX-License-Identifier: Apache-2.0

"""What looks at members of clusters need of Octavia's rows."""

import math

import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync import compat
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls


class MemberFactsCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb_id))
        cluster_repo.set_status(self.engine, 'cluster1', 'ACTIVE')

    def add_listener(self, port, **values):
        listener_id = self.records.add_listener(self.lb_id, port)
        if values:
            self.records.change('listener', listener_id, **values)
        return listener_id

    def test_ports(self):
        self.assertEqual({'cluster1': (None, set())},
                         facts_repo.get_ports(self.engine))
        self.add_listener(80)
        self.add_listener(443, protocol='TERMINATED_HTTPS')
        self.add_listener(81, enabled=False)
        self.add_listener(53, protocol='UDP')
        self.add_listener(84, provisioning_status='ERROR')
        closed = self.add_listener(82)
        self.records.insert_all({'listener_cidr': [
            {'listener_id': closed, 'cidr': '192.0.2.0/24'},
            {'listener_id': closed, 'cidr': '198.51.100.0/24'}]})
        self.assertEqual({'cluster1': (None, {80, 443})},
                         facts_repo.get_ports(self.engine))
        # Whom its owner admits may be anybody.
        self.records.insert_all({'vip_security_group': [
            {'load_balancer_id': self.lb_id, 'sg_id': 'group1'}]})
        self.assertEqual({'cluster1': (None, set())},
                         facts_repo.get_ports(self.engine))
        with self.engine.begin() as connection:
            connection.execute(compat.VIP_SECURITY_GROUP.delete())
        self.assertEqual({'cluster1': (None, {80, 443})},
                         facts_repo.get_ports(self.engine))
        # Where nobody is served all refuse whoever looks.
        self.records.change('load_balancer', self.lb_id, enabled=False)
        self.assertEqual({'cluster1': (None, set())},
                         facts_repo.get_ports(self.engine))
        # Somebody changes it now.
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='PENDING_UPDATE')
        self.assertEqual({}, facts_repo.get_ports(self.engine))

    def test_listened_to(self):
        """A port that OVN would look at by TCP is one of TCP."""
        self.add_listener(80)
        self.add_listener(53, protocol='UDP')
        self.add_listener(5000, protocol='SCTP')
        self.add_listener(81, enabled=False)
        self.assertEqual({'cluster1': {80}},
                         front_repo.get_listener_ports(self.engine))
        self.add_listener(53)
        self.assertEqual({'cluster1': {53, 80}},
                         front_repo.get_listener_ports(self.engine))

    def test_record_ports(self):
        version = cluster_repo.get(self.engine, 'cluster1').version
        for ports, expected in (([443, 80], True), ([80, 443], False),
                                ([], True), ([], False)):
            self.assertEqual(expected, cluster_repo.set_ports(
                self.engine, 'cluster1', ports))
            version += expected
            cluster = cluster_repo.get(self.engine, 'cluster1')
            self.assertEqual((version, ','.join(map(str, sorted(ports)))),
                             (cluster.version, cluster.ports))
        self.assertFalse(cluster_repo.set_ports(self.engine, 'nobody', [1]))

    def add_member(self, name, state):
        amphora_id = records.new_id()
        member_repo.add(self.engine, 'cluster1', name, 8)
        member_repo.assign_amphora(self.engine, name, amphora_id)
        member_repo.set_state(self.engine, name, ('BUILDING',), state)
        return amphora_id

    def count(self, amphora_id, *numbers):
        self.records.insert_all({'listener_statistics': [
            {'listener_id': records.new_id(), 'amphora_id': amphora_id,
             'bytes_in': 0, 'bytes_out': 0, 'active_connections': number,
             'total_connections': 9, 'request_errors': 0}
            for number in numbers]})

    def test_heard(self):
        silent, heard = (self.add_member(name, 'ACTIVE')
                         for name in ('silent', 'heard'))
        self.records.set_health(heard, age=5, busy=True)
        self.count(heard, 3, 0)
        self.count(records.new_id(), 1)
        self.assertEqual(facts_repo.Heard(None, frozenset()),
                         facts_repo.get_heard(self.engine, silent))
        found = facts_repo.get_heard(self.engine, heard)
        self.assertIsNotNone(found.last_update)
        self.assertEqual(2, len(found.listeners))

    def test_connections(self):
        ids = {name: self.add_member(name, state) for name, state in (
            ('well', 'ACTIVE'), ('told', 'DRAINING'), ('before', 'DRAINING'),
            ('soon', 'DRAINING'), ('never', 'DRAINING'),
            ('none', 'DRAINING'))}
        for name, seconds in (('well', 60), ('told', 60), ('before', -60),
                              ('soon', 5), ('none', 60)):
            self.records.set_health(ids[name], age=-seconds, busy=True)
            if name != 'none':
                self.count(ids[name], 3, 4)
        member_repo.record(self.engine, 'told', connections=9)

        def get():
            return facts_repo.get_connections(self.engine, 12)

        # Nobody has told distributors so far.
        unknown = {name: facts_repo.Drain(
            'cluster1', ids[name], 9 if name == 'told' else None, None,
            math.inf) for name in ids if name != 'well'}
        self.assertEqual(unknown, get())
        row, = distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                                     {'network1': 'https://network1:9444'})
        vip = vip_repo.add(self.engine, 'cluster1', row.id)
        vip_repo.set_active(self.engine, 'cluster1', row.id)
        self.assertEqual(unknown, get())
        version = cluster_repo.get(self.engine, 'cluster1').version
        # It never falls: a haproxy of before goes on.
        for seconds in (500, 50, 500):
            member_repo.raise_idle_timeout(self.engine, 'cluster1', seconds)
        # Distributors are told of what is more.
        version += 1
        self.assertEqual(version, cluster_repo.get(self.engine,
                                                   'cluster1').version)
        vip_repo.record_applied(self.engine, vip.id, version, True)
        found = get()
        rests = {name: one.rest for name, one in found.items()}
        self.assertTrue(all(400 < rest <= 500 for rest in rests.values()),
                        rests)
        self.assertEqual(
            {**{name: None for name in unknown}, 'told': 7, 'none': 0},
            {name: one.told for name, one in found.items()})
        # No heartbeat counts what goes on by datagrams.
        listener_id = self.add_listener(53, protocol='UDP')
        self.assertEqual(
            {**{name: None for name in unknown}, 'told': 7},
            {name: one.told for name, one in get().items()})
        self.records.change('listener', listener_id, enabled=False)
        self.assertEqual(0, get()['none'].told)
        # There is something newer that they do not know.
        cluster_repo.raise_version(self.engine, 'cluster1', version)
        self.assertEqual(unknown, get())

    def execute(self, statement):
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement))

    def get_rest(self):
        return facts_repo.get_connections(self.engine, 12)['drains'].rest

    def test_rest(self):
        """It begins when distributors know that the member drains."""
        self.add_member('drains', 'DRAINING')
        row, = distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                                     {'network1': 'https://network1:9444'})
        vip = vip_repo.add(self.engine, 'cluster1', row.id)
        vip_repo.set_active(self.engine, 'cluster1', row.id)
        member_repo.raise_idle_timeout(self.engine, 'cluster1', 100)
        vip_repo.record_applied(
            self.engine, vip.id,
            cluster_repo.get(self.engine, 'cluster1').version, True)
        for table, column in (('hmsync_distributor_vip', 'applied_at'),
                              ('hmsync_cluster_member', 'updated_at')):
            self.assertGreater(self.get_rest(), 0)
            self.execute(f"UPDATE {table} SET {column} = "
                         f"'2026-01-01 00:00:00.000000'")
        self.assertLess(self.get_rest(), 0)

    def test_rest_over_later_changes(self):
        """What is changed later sends nothing new to it either."""
        self.add_member('drains', 'DRAINING')
        row, = distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                                     {'network1': 'https://network1:9444'})
        vip = vip_repo.add(self.engine, 'cluster1', row.id)
        vip_repo.set_active(self.engine, 'cluster1', row.id)
        member_repo.raise_idle_timeout(self.engine, 'cluster1', 100)

        def apply():
            vip_repo.record_applied(
                self.engine, vip.id,
                cluster_repo.get(self.engine, 'cluster1').version, True)

        def count():
            return member_facts.count_connections(
                self.engine, lambda url: None, 1)

        count()
        # Nobody knows that it drains.
        self.assertIsNone(member_repo.get(self.engine, 'drains').drained_at)
        apply()
        count()
        self.assertIsNotNone(
            member_repo.get(self.engine, 'drains').drained_at)
        self.execute("UPDATE hmsync_cluster_member SET drained_at = "
                     "'2026-01-01 00:00:00.000000'")
        cluster_repo.raise_version(
            self.engine, 'cluster1',
            cluster_repo.get(self.engine, 'cluster1').version)
        for _ in range(2):
            count()
            self.assertLess(self.get_rest(), 0)
            apply()
        # One that serves again, and drains again, begins anew.
        for old, new in (('DRAINING', 'FAILED'), ('FAILED', 'DRAINING')):
            member_repo.set_state(self.engine, 'drains', (old,), new)
        self.assertIsNone(member_repo.get(self.engine, 'drains').drained_at)
        self.assertEqual(math.inf, self.get_rest())

    def test_forget_connections(self):
        self.add_member('well', 'ACTIVE')
        self.add_member('drains', 'DRAINING')
        for name in ('well', 'drains'):
            member_repo.record(self.engine, name, connections=3)
        self.assertEqual([1, 0], [facts_repo.forget_connections(self.engine)
                                  for _ in range(2)])
        self.assertEqual([None, 3], [
            member_repo.get(self.engine, name).connections
            for name in ('well', 'drains')])

    def test_where_haproxy_is_asked(self):
        amphora_id = self.records.add_amphora('192.0.2.1', self.lb_id)
        self.records.change('amphora', amphora_id, vrrp_ip='10.0.0.20')
        member_repo.add(self.engine, 'cluster1', 'one', 8)
        member_repo.assign_amphora(self.engine, 'one', amphora_id)
        self.add_member('without', 'ACTIVE')
        self.assertEqual({amphora_id: '10.0.0.20'},
                         front_repo.get_own_addresses(self.engine,
                                                      'cluster1'))
        row, = distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                                     {'network1': 'https://network1:9444'})
        vip = vip_repo.add(self.engine, 'cluster1', row.id)
        cluster_repo.set_ports(self.engine, 'cluster1', [80])
        self.assertEqual({}, front_repo.get_probers(self.engine))
        vip_repo.set_port(self.engine, vip.id, 'port1', 'fa:16:3e:00:00:01',
                          1450, ('10.0.0.9', 'fd00::9'))
        self.assertEqual({self.lb_id: {'10.0.0.9', 'fd00::9'}},
                         front_repo.get_probers(self.engine))
        # Nobody looks.
        cluster_repo.set_ports(self.engine, 'cluster1', [])
        self.assertEqual({}, front_repo.get_probers(self.engine))

    def test_forget_probes(self):
        for name in ('a', 'b', 'c'):
            self.add_member(name, 'ACTIVE')
            for observer in ('d1', 'd2'):
                probe_repo.record(self.engine, observer, {
                    name: probe_repo.Result('DOWN', 'no answer')})
        self.assertEqual(2, probe_repo.forget(self.engine, 'd1',
                                              {'a', 'b', 'nobody'}))
        self.assertEqual(0, probe_repo.forget(self.engine, 'd1', set()))
        self.assertEqual([{'c'}, {'a', 'b', 'c'}], [
            set(probe_repo.get_of_observer(self.engine, observer))
            for observer in ('d1', 'd2')])
