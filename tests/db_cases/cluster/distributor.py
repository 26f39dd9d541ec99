# SPDX-License-Identifier: Apache-2.0

"""Distributors, and the VIPs of clusters on them."""

import functools

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.db import models
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

DRIVER = cluster_calls.DRIVER
URLS = {f'network{n}': f'https://network{n}:9444' for n in (1, 2, 3)}


class _Cases(base.DatabaseTestCase):

    def sync(self, *names, **urls):
        return distributor_repo.sync(self.engine, DRIVER, {
            **{name: URLS[name] for name in names}, **urls})

    def ids(self):
        return {d.name: d.id for d in distributor_repo.get_all(self.engine)}

    def make_clusters(self, number=1):
        for n in range(1, number + 1):
            cluster_repo.add(self.engine, cluster_calls.new(n))

    def add(self, cluster_id, *names):
        ids = self.ids()
        return [vip_repo.add(self.engine, cluster_id, ids[name])
                for name in names]


class DistributorCases(_Cases):

    def shown(self):
        return [(d.name, d.enabled, d.vips)
                for d in distributor_repo.get_all(self.engine)]

    def test_drained(self):
        """It gets no VIP, until it is resumed; the option says nothing."""
        self.sync('network1', 'network2')
        one, two = self.ids().values()
        # Nobody answers beside it.
        self.assertFalse(distributor_repo.drain(self.engine, one))
        for each in (one, two):
            distributor_repo.set_status(self.engine, each, 'ONLINE')
        self.assertTrue(distributor_repo.drain(self.engine, one))
        self.assertFalse(distributor_repo.drain(self.engine, one))
        self.assertFalse(distributor_repo.drain(self.engine, two))
        self.assertFalse(distributor_repo.drain(self.engine, 'nobody'))
        self.sync('network1', 'network2')
        self.assertEqual([False, True], [
            d.takes_vips for d in distributor_repo.get_all(self.engine)])
        self.assertEqual([two], [d.id for d in distributor_repo.choose(
            self.engine, DRIVER, 2)])
        self.assertTrue(distributor_repo.resume(self.engine, one))
        self.assertFalse(distributor_repo.resume(self.engine, one))
        self.assertEqual(2, len(distributor_repo.choose(self.engine, DRIVER,
                                                        2)))

    def test_two_drained_at_once(self):
        self.sync('network1', 'network2')
        ids = list(self.ids().values())
        for each in ids:
            distributor_repo.set_status(self.engine, each, 'ONLINE')
        self.assertEqual([False, True], sorted(self.run_at_once([
            functools.partial(distributor_repo.drain, self.engine, each)
            for each in ids])))

    def test_new(self):
        found = self.sync('network2', 'network1')
        self.assertEqual(
            [('network1', 'https://network1:9444', DRIVER, True, 'OFFLINE',
              None, None, 0),
             ('network2', 'https://network2:9444', DRIVER, True, 'OFFLINE',
              None, None, 0)],
            [(d.name, d.url, d.driver, d.enabled, d.status,
              d.software_version, d.last_seen, d.vips) for d in found])
        self.assertEqual(found[0].id, distributor_repo.get(
            self.engine, found[0].id).id)
        self.assertIsNone(distributor_repo.get(self.engine, 'nobody'))

    def test_nothing_is_written_where_nothing_changes(self):
        self.sync('network1', 'network2')
        with self.count_statements() as statements:
            self.sync('network2', 'network1')
        self.assertEqual(1, len(statements))

    def test_several_at_once(self):
        self.run_at_once([functools.partial(self.sync, *URLS)] * 4)
        self.assertEqual(3, len(self.shown()))

    def test_one_leaves_the_option(self):
        """With VIPs it stays, until somebody has moved them."""
        self.make_clusters()
        self.sync(*URLS)
        vip, = self.add('cluster1', 'network2')
        found = self.sync('network1')
        self.assertEqual([('network1', True, 0), ('network2', False, 1)],
                         self.shown())
        self.assertEqual(2, len(found))
        self.assertEqual(found, [
            d.__class__(**{**d.__dict__, 'now': f.now}) for d, f in
            zip(self.sync('network1'), found)])
        # It comes back; it leaves without VIPs.
        self.sync('network1', 'network2')
        self.assertEqual([('network1', True, 0), ('network2', True, 1)],
                         self.shown())
        vip_repo.delete(self.engine, vip.id)
        self.sync('network1')
        self.assertEqual([('network1', True, 0)], self.shown())

    def test_url(self):
        before = self.sync('network1')[0]
        after = self.sync(network1='https://192.0.2.1:9444')[0]
        self.assertEqual((before.id, 'https://192.0.2.1:9444'),
                         (after.id, after.url))

    def test_drivers(self):
        """Each has its own."""
        self.sync('network1')
        distributor_repo.sync(self.engine, 'another',
                              {'network1': 'https://a:1'})
        self.assertEqual(2, len(self.shown()))
        self.sync('network2')
        self.assertEqual([('network1', 'another'), ('network2', DRIVER)], [
            (d.name, d.driver)
            for d in distributor_repo.get_all(self.engine)])

    def test_status(self):
        distributor, = self.sync('network1')

        def set_status(*values):
            self.assertTrue(distributor_repo.set_status(
                self.engine, distributor.id, *values))
            found, = self.sync('network1')
            return found

        found = set_status('ONLINE', '1.0')
        self.assertEqual(('ONLINE', '1.0'),
                         (found.status, found.software_version))
        self.assertAge(0, (found.now - found.last_seen).total_seconds())
        seen = found.last_seen
        found = set_status('OFFLINE')
        self.assertEqual(('OFFLINE', '1.0', seen), (
            found.status, found.software_version, found.last_seen))
        self.assertFalse(distributor_repo.set_status(self.engine, 'nobody',
                                                     'ONLINE'))

    def choose(self, number=2, without=()):
        return [d.name for d in distributor_repo.choose(
            self.engine, DRIVER, number, without)]

    def set_all(self, status):
        for distributor_id in self.ids().values():
            distributor_repo.set_status(self.engine, distributor_id, status)

    def test_choose(self):
        self.assertEqual([], self.choose())
        self.make_clusters(2)
        self.sync(*URLS)
        # Nobody has asked them so far: it may work.
        self.assertEqual(['network1', 'network2'], self.choose())
        self.set_all('ONLINE')
        self.add('cluster1', 'network1', 'network2')
        self.assertEqual(['network3', 'network1'], self.choose())
        self.add('cluster2', 'network3', 'network1')
        self.assertEqual(['network2', 'network3'], self.choose())
        ids = self.ids()
        self.assertEqual(['network3', 'network1'],
                         self.choose(without=[ids['network2']]))
        distributor_repo.set_status(self.engine, ids['network2'], 'OFFLINE')
        self.assertEqual(['network3', 'network1'], self.choose())
        self.sync('network1', 'network2')
        self.assertEqual(['network1'], self.choose())

    def test_choose_those_that_answer_first(self):
        self.make_clusters()
        self.sync(*URLS)
        self.add('cluster1', 'network3')
        distributor_repo.set_status(self.engine, self.ids()['network3'],
                                    'ONLINE')
        self.assertEqual(['network3', 'network1'], self.choose())


class DistributorVIPCases(_Cases):

    def setUp(self):
        super().setUp()
        self.make_clusters(2)
        self.sync('network1', 'network2')

    def version(self):
        return cluster_repo.get(self.engine, 'cluster1').version

    def active(self, cluster_id='cluster1'):
        return [(v.distributor_name, v.active) for v in
                vip_repo.get_of_cluster(self.engine, cluster_id)]

    def set_active(self, name, cluster_id='cluster1'):
        return vip_repo.set_active(self.engine, cluster_id, self.ids()[name])

    def test_add(self):
        vip, = self.add('cluster1', 'network2')
        self.assertEqual(
            ('cluster1', 'network2', 'https://network2:9444', 'OFFLINE',
             None, None, False, None, None, None),
            (vip.cluster_id, vip.distributor_name, vip.url, vip.status,
             vip.port_id, vip.mac, vip.active, vip.applied_version,
             vip.applied_at, vip.error))
        version = self.version()
        self.assertEqual([vip], self.add('cluster1', 'network2'))
        self.assertEqual(version, self.version())
        self.assertIsNone(vip_repo.add(self.engine, 'cluster1', 'nobody'))
        self.assertIsNone(vip_repo.add(self.engine, 'nobody',
                                       vip.distributor_id))
        self.assertEqual([vip], vip_repo.get_all(self.engine))
        self.assertEqual([vip], vip_repo.get_of_distributor(
            self.engine, vip.distributor_id))

    def test_added_at_once(self):
        added = self.run_at_once([functools.partial(
            self.add, 'cluster1', 'network1', 'network2')] * 3)
        self.assertEqual(1, len(set(map(tuple, added))))
        self.assertEqual(2, len(vip_repo.get_all(self.engine)))

    def test_added_to_one_that_leaves(self):
        """Never is there a VIP without its distributor."""
        leaving = self.ids()['network2']
        vip, _found = self.run_at_once([
            functools.partial(vip_repo.add, self.engine, 'cluster1', leaving),
            functools.partial(self.sync, 'network1')])
        rows = self.rows(models.DistributorVIP)
        self.assertEqual(vip is not None, bool(rows))
        self.assertLessEqual({row.distributor_id for row in rows},
                             set(self.ids().values()))

    def test_one_is_active(self):
        self.add('cluster1', 'network1', 'network2')
        self.add('cluster2', 'network1')
        version = self.version()
        self.assertTrue(self.set_active('network1'))
        self.assertTrue(self.set_active('network1', 'cluster2'))
        self.assertEqual(version + 1, self.version())
        self.assertFalse(self.set_active('network1'))
        self.assertEqual(version + 1, self.version())
        self.assertTrue(self.set_active('network2'))
        self.assertEqual(version + 2, self.version())
        self.assertEqual([('network2', True), ('network1', False)],
                         self.active())
        self.assertEqual([('network1', True)], self.active('cluster2'))
        self.assertFalse(self.set_active('network2', 'cluster2'))
        self.assertEqual([('network1', True)], self.active('cluster2'))

    def test_two_at_once(self):
        self.add('cluster1', 'network1', 'network2')
        self.run_at_once([functools.partial(self.set_active, name)
                          for name in ('network1', 'network2') * 2])
        self.assertEqual([True, False],
                         [is_active for _name, is_active in self.active()])

    def test_port(self):
        """A part of what distributors are told, and told once."""
        vip, = self.add('cluster1', 'network1')
        version = self.version()
        for port, mac, mtu in (('port', 'fa:1', 1450), ('port', 'fa:2', 1450),
                               ('port', 'fa:2', 9000)):
            self.assertTrue(vip_repo.set_port(self.engine, vip.id, port, mac,
                                              mtu))
            version += 1
            self.assertEqual(version, self.version())
            self.assertTrue(vip_repo.set_port(self.engine, vip.id, port, mac,
                                              mtu))
            self.assertEqual(version, self.version())
        found, = vip_repo.get_all(self.engine)
        self.assertEqual(('port', 'fa:2', 9000),
                         (found.port_id, found.mac, found.mtu))
        self.assertFalse(vip_repo.set_port(self.engine, 'nobody', 'port',
                                           'fa:1', 1450))

    def test_move_is_remembered(self):
        self.add('cluster1', 'network1', 'network2')
        ids = self.ids()

        def read():
            found = cluster_repo.get(self.engine, 'cluster1')
            return found.vip_hold, found.vip_moved_at

        self.assertTrue(self.set_active('network1'))
        self.assertEqual((None, None), read())
        self.assertTrue(vip_repo.set_active(
            self.engine, 'cluster1', ids['network2'], hold=30.0))
        hold, moved_at = read()
        self.assertEqual((30, False), (hold, moved_at is None))
        # What an operator orders is no sign of trouble; nor is what comes to
        # nothing.
        self.assertTrue(self.set_active('network1'))
        self.assertFalse(vip_repo.set_active(
            self.engine, 'cluster1', ids['network1'], hold=60.0))
        self.assertEqual((hold, moved_at), read())

    def test_active_for_a_version(self):
        self.add('cluster1', 'network1', 'network2')
        version = self.version()
        ids = self.ids()

        def set_active(name, version):
            return vip_repo.set_active(self.engine, 'cluster1', ids[name],
                                       version)

        self.assertTrue(set_active('network1', version))
        # Decided for what was there before.
        self.assertFalse(set_active('network2', version))
        self.assertEqual(version + 1, self.version())
        self.assertTrue(set_active('network2', version + 1))

    def test_behind(self):
        vip, other = self.add('cluster1', 'network1', 'network2')
        self.assertEqual([], vip_repo.get_behind(self.engine))
        for one in (vip, other):
            vip_repo.set_port(self.engine, one.id, one.id, 'fa:1', 1450)
            vip_repo.record_applied(self.engine, one.id, self.version())

        def behind():
            return [v.id for v in vip_repo.get_behind(self.engine)]

        self.assertEqual([vip.id], behind())
        vip_repo.record_applied(self.engine, vip.id, self.version())
        self.assertEqual([], behind())
        self.assertTrue(vip_repo.forget_applied(self.engine, vip.id,
                                                self.version()))
        self.assertFalse(vip_repo.forget_applied(self.engine, vip.id,
                                                 self.version()))
        self.assertEqual([vip.id], behind())
        cluster_repo.delete(self.engine, 'cluster1')
        self.assertEqual([], behind())
        self.assertEqual({vip.id, other.id}, {
            v.id for v in vip_repo.get_left(self.engine)})

    def test_whether_it_answers(self):
        vip, = self.add('cluster1', 'network1')

        def answers():
            found, = vip_repo.get_all(self.engine)
            return found.applied_active

        self.assertIsNone(answers())
        vip_repo.record_applied(self.engine, vip.id, 3, True)
        self.assertIs(True, answers())
        self.assertFalse(vip_repo.forget_active(self.engine, vip.id, 2))
        self.assertIs(True, answers())
        self.assertTrue(vip_repo.forget_active(self.engine, vip.id, 3))
        self.assertIsNone(answers())
        vip_repo.record_applied(self.engine, vip.id, 3)
        self.assertIs(False, answers())

    def test_error_of_a_version(self):
        vip, = self.add('cluster1', 'network1')
        record = functools.partial(vip_repo.record_error, self.engine, vip.id)
        self.assertTrue(record('down', 3))
        vip_repo.record_applied(self.engine, vip.id, 3)
        # It comes late.
        self.assertFalse(record('down', 3))
        found, = vip_repo.get_all(self.engine)
        self.assertIsNone(found.error)
        self.assertTrue(record('down', 4))

    def test_applied(self):
        vip, = self.add('cluster1', 'network1')

        def record(version):
            return vip_repo.record_applied(self.engine, vip.id, version)

        def get():
            found, = vip_repo.get_all(self.engine)
            return found.applied_version, found.error

        self.assertTrue(vip_repo.record_error(self.engine, vip.id, 'slow'))
        self.assertEqual((None, 'slow'), get())
        self.assertTrue(record(3))
        self.assertEqual((3, None), get())
        self.assertTrue(vip_repo.record_error(self.engine, vip.id, 'gone'))
        # An answer that comes late.
        self.assertFalse(record(2))
        self.assertEqual((3, 'gone'), get())
        self.assertTrue(record(3))
        self.assertEqual((3, None), get())
        self.assertFalse(vip_repo.record_error(self.engine, 'nobody', 'x'))

    def test_delete(self):
        vip, other = self.add('cluster1', 'network1', 'network2')
        self.assertTrue(vip_repo.delete(self.engine, vip.id))
        self.assertFalse(vip_repo.delete(self.engine, vip.id))
        self.assertEqual([other], vip_repo.get_all(self.engine))
