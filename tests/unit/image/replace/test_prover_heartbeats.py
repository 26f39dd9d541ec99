# SPDX-License-Identifier: Apache-2.0

"""The proof of a new amphora by heartbeats that Octavia itself hears."""

import types
from unittest import mock

import fixtures

from octavia_hmsync.amphora import agent
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.replace import prover
from octavia_hmsync.sync.db import amphora_view as view_repo
from tests.db_cases import base
from tests.db_cases.sync import amphora_view
from tests.unit.db import sqlite
from tests.unit.image.replace import test_prover

INTERVAL = test_prover.INTERVAL


class TestProver(amphora_view.HeartbeatMixin, sqlite.SqliteMixin,
                 base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.begin()
        self.clock = test_prover.Clock()
        self.useFixture(fixtures.MockPatchObject(prover, 'time', self.clock))
        self.records.add_health_monitor(self.pool_id, 5, 5, 1)
        self.replace()
        self.beat(self.old)
        # The new one exists later.
        self.records.set_status(self.new, 'DELETED')
        one = mock.Mock(spec=agent.Agent)
        one.get_listeners.return_value = {self.listener_id: 'ACTIVE'}
        one.count_haproxies.return_value = 1
        work = types.SimpleNamespace(
            conf=types.SimpleNamespace(
                health_manager=types.SimpleNamespace(
                    heartbeat_interval=INTERVAL),
                controller_worker=types.SimpleNamespace(
                    statistics_drivers=['stats_db', 'hmsync'])),
            options=types.SimpleNamespace(proof_timeout=60),
            replacement=types.SimpleNamespace(target_image_id=None),
            old_id=self.old, new_id=self.new,
            read=lambda: evidence_repo.read(self.engine, self.lb_id),
            read_views=lambda since: view_repo.get(self.engine, self.lb_id,
                                                   since),
            agent_of=lambda amphora: one,
            # So that a look is not a matter of chance.
            pause=lambda seconds=0.2: self.clock.pause(0.5),
            get_load_balancer=lambda: types.SimpleNamespace(
                vip=types.SimpleNamespace(ip_address='192.0.2.5')),
            find_holders=lambda amphorae, vip: {self.old: True,
                                                self.new: False})
        self.prover = prover.Prover(work, lambda *args: frozenset())
        self.clock.at = [(INTERVAL, lambda: self.beat(self.old))]
        self.prover.remember()
        self.records.set_status(self.new, 'ALLOCATED')
        self.driver._pid = None

    def beat_by_turns(self, *beats):
        """Have these heartbeats at once, in each interval."""
        began = int(self.clock.now)
        for second in range(began, began + 1000, INTERVAL):
            self.clock.at += [
                (second, lambda each=each: self.beat(*each))
                for each in beats]

    def add_statistics(self):
        self.records.insert_all({'listener_statistics': [{
            'listener_id': self.listener_id, 'amphora_id': self.new,
            'bytes_in': 0, 'bytes_out': 0, 'active_connections': 0,
            'total_connections': 0, 'request_errors': 0}]})

    def test_reaches_no_member(self):
        """The old one says last that all is well, and the row has that."""
        self.add_statistics()
        self.beat_by_turns((self.new, 'DOWN'), (self.old, 'UP'))
        e = self.assertRaises(exceptions.NotProven, self.prover.prove, False)
        self.assertIn(f'members that were better before: {self.member_id}',
                      str(e))
        self.assertEqual('ONLINE', self.get_row())
        self.assertFalse(self.prover.were_members_at_fault())

    def test_old_one_sees_it_worse(self):
        """The row has what the old one says, and that is no matter."""
        self.add_statistics()
        self.beat_by_turns((self.new, 'UP'), (self.old, 'DOWN'))
        self.prover.prove(False)
        self.assertEqual('ERROR', self.get_row())

    def test_both(self):
        self.add_statistics()
        self.beat_by_turns((self.old, 'UP'), (self.new, 'UP'))
        self.prover.prove(False)
