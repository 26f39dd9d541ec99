# SPDX-License-Identifier: Apache-2.0

"""Compute zones that an operator drains, and health managers of them."""

import datetime

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync.sync.rules import member as mem
from tests.cloud import records
from tests.db_cases import base


class ZoneDrainCases(base.DatabaseTestCase):

    def drain(self, zone='az1', seconds=3600, with_health_managers=True,
              build_in=None):
        drain_repo.begin(
            self.engine, zone, records.utcnow().replace(microsecond=0) +
            datetime.timedelta(seconds=seconds), with_health_managers,
            build_in)

    def lapse(self):
        """Time passes until each drain has ended."""
        self.make_older(models.ZoneDrain, 'ends_at', 7201)

    def get(self):
        return set(drain_repo.get_all(self.engine))

    def register(self, host, zone, instance='first'):
        hm_repo.register(self.engine, host, f'192.0.2.{host[2:]}', 5555,
                         instance, 20, zone=zone)

    def statuses(self):
        return {m.host: (m.status, m.is_zone_drained)
                for m in hm_repo.get_all(self.engine)}

    def test_rows(self):
        self.assertEqual(set(), self.get())
        self.assertFalse(drain_repo.end(self.engine, 'az1'))
        self.drain()
        self.drain('az2')
        self.drain(seconds=7200)
        self.assertEqual({'az1', 'az2'}, self.get())
        ends_at = drain_repo.get_all(self.engine)
        self.assertLess(ends_at['az2'] + datetime.timedelta(seconds=3000),
                        ends_at['az1'])
        self.assertEqual(set(), drain_repo.get_ended(self.engine))
        self.assertTrue(drain_repo.end(self.engine, 'az1'))
        self.assertFalse(drain_repo.end(self.engine, 'az1'))
        self.assertEqual(({'az2'}, {'az1'}), (
            self.get(), drain_repo.get_ended(self.engine)))

    def test_it_ends_by_itself(self):
        self.drain()
        self.lapse()
        self.assertEqual((set(), {'az1'}), (
            self.get(), drain_repo.get_ended(self.engine)))
        self.assertFalse(drain_repo.end(self.engine, 'az1'))
        drain_repo.forget(self.engine, {'az1', 'az2'})
        self.assertEqual([], self.rows(models.ZoneDrain))

    def test_drained_again(self):
        """What begins meanwhile is not forgotten."""
        self.drain()
        self.lapse()
        ended = drain_repo.get_ended(self.engine)
        self.drain()
        drain_repo.forget(self.engine, ended)
        self.assertEqual({'az1'}, self.get())

    def test_several_at_once(self):
        self.run_at_once([self.drain] * 4)
        self.assertEqual({'az1'}, self.get())

    def test_where_is_built_meanwhile(self):
        """Neither in a drained zone, nor elsewhere than octavia.conf says."""
        def find():
            return [drain_repo.get_build_zone(self.engine, default)
                    for default in (None, '', 'az1', 'az1:host1', 'az3')]

        before = [None, '', 'az1', 'az1:host1', 'az3']
        self.drain()
        self.assertEqual(before, find())
        self.drain(build_in='az2')
        self.assertEqual({'az1': 'az2'}, drain_repo.get_builds(self.engine))
        self.assertEqual(['az2'] * 4 + ['az3'], find())
        # That one, too, and then both into a third one.
        self.drain('az2')
        self.assertEqual(before, find())
        self.drain('az2', build_in='az3')
        self.assertEqual(['az3'] * 5, find())
        self.lapse()
        self.assertEqual(before, find())

    # Health managers

    def test_health_managers_drain_with_their_zone(self):
        for host, zone in (('hm1', 'az1'), ('hm2', 'az2'), ('hm3', None)):
            self.register(host, zone)
        hm_repo.change_status(self.engine, 'hm2', mem.ONLINE, mem.DRAINING)
        self.drain()
        self.drain('az2')
        expected = {'hm1': (mem.DRAINING, True),
                    'hm2': (mem.DRAINING, False), 'hm3': (mem.ONLINE, False)}
        self.assertEqual(expected, self.statuses())
        self.assertEqual(mem.DRAINING, hm_repo.find(self.engine, 'hm1',
                                                    'first').status)
        self.lapse()
        self.assertEqual({**expected, 'hm1': (mem.ONLINE, False)},
                         self.statuses())

    def test_what_registers_meanwhile(self):
        """It drains, too, and is not left so by its own row."""
        self.drain()
        for instance in ('first', 'first', 'second'):
            self.register('hm1', 'az1', instance)
            self.assertEqual({'hm1': (mem.DRAINING, True)}, self.statuses())
        drain_repo.end(self.engine, 'az1')
        self.assertEqual({'hm1': (mem.ONLINE, False)}, self.statuses())

    def test_one_that_has_left(self):
        self.register('hm1', 'az1')
        hm_repo.set_offline(self.engine, 'hm1', 'first')
        self.drain()
        self.assertEqual({'hm1': (mem.OFFLINE, False)}, self.statuses())

    def test_without_health_managers(self):
        self.register('hm1', 'az1')
        self.drain(with_health_managers=False)
        self.assertEqual({'hm1': (mem.ONLINE, False)}, self.statuses())

    def test_others_are_checked_as_they_count(self):
        """The last one elsewhere is told that those of the zone drain."""
        self.register('hm1', 'az1')
        self.register('hm2', 'az2')
        self.drain()
        found = []
        hm_repo.change_status(self.engine, 'hm2', mem.ONLINE, mem.DRAINING,
                              found.extend)
        self.assertEqual({mem.DRAINING}, {m.status for m in found})
