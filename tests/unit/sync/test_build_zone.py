# SPDX-License-Identifier: Apache-2.0

"""Where Octavia itself builds while a compute zone is drained."""

import datetime

from octavia_hmsync.sync import build_zone
from octavia_hmsync.sync.db import zone_drain as drain_repo
from tests.cloud import records
from tests.db_cases import base as db_base
from tests.unit.db import sqlite


class TestLiveBuildZone(sqlite.SqliteMixin, db_base.DatabaseTestCase):

    def drain(self, zone, build_in):
        drain_repo.begin(
            self.engine, zone, records.utcnow() + datetime.timedelta(hours=1),
            False, build_in)

    def follow(self, default=None):
        """Return what the option is, before, during and after a drain."""
        self.conf.set_default('availability_zone', default, group='nova')
        live = build_zone.LiveBuildZone(self.conf, self.engine)
        self.addCleanup(live.stop)
        found = []
        for change in (lambda: None, lambda: self.drain('az1', 'az2'),
                       lambda: self.drain('az2', 'az3'),
                       lambda: drain_repo.end(self.engine, 'az2'),
                       lambda: drain_repo.end(self.engine, 'az1')):
            change()
            live._look()
            found.append(self.conf.nova.availability_zone)
        return found

    def test_followed(self):
        self.assertEqual([None, 'az2', 'az3', 'az2', None], self.follow())
        self.assertEqual(['az1', 'az2', 'az3', 'az2', 'az1'],
                         self.follow('az1'))
        self.assertEqual(['az4'] * 5, self.follow('az4'))

    def test_first_build_waits_for_the_first_look(self):
        self.drain('az1', 'az2')
        live = build_zone.LiveBuildZone(self.conf, self.engine)
        live.start()
        self.addCleanup(live.stop)
        self.assertEqual('az2', live.get('availability_zone'))
