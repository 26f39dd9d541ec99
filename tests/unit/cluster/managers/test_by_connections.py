# SPDX-License-Identifier: Apache-2.0

"""The example of a manager that follows the open connections."""

import datetime
import importlib.util
import tomllib

import fixtures
import hypothesis
from hypothesis import strategies as st
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.managers import base as managers_base
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.rules import load as load_rules
from octavia_hmsync.db import models
from tests.cloud import records
from tests.unit import base
from tests.unit.cluster.keeping import test_upkeep
from tests.unit import examples

FOLDER = examples.EXAMPLES / 'cluster-manager'
NAME = 'by_connections'
Kind = managers_base.Kind
LIMITS = managers_base.Limits(300)


def load():
    spec = importlib.util.spec_from_file_location(NAME,
                                                  FOLDER / f'{NAME}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


by_connections = load()


def member(slot, connections=None, age=5.0, state='ACTIVE'):
    return managers_base.Member(
        str(slot), slot, state, 0, load=None if connections is None else
        managers_base.Load(connections, 1.0, 1.0, age))


class TestDecisions(base.TestCase):

    def decide(self, *members, desired_size=2, **values):
        manager = by_connections.ByConnections()
        return [action.size for action in manager.decide(
            managers_base.Cluster('ACTIVE', 'ACTIVE', desired_size, 1,
                                  size=desired_size, **values),
            members, LIMITS) if action.kind is Kind.RESIZE]

    def test_follows(self):
        for each, expected in ((20000, []), (20001, [3]), (90000, [8]),
                               (13000, []), (5000, [1])):
            self.assertEqual(expected, self.decide(
                member(0, each), member(1, each)), each)

    def test_not_known(self):
        """One that is new, or not heard, may have any load."""
        for other in (member(1), member(1, 9, age=61.0)):
            self.assertEqual([], self.decide(member(0, 90000), other))
        self.assertEqual([], self.decide())

    def test_who_does_not_count(self):
        self.assertEqual([], self.decide(
            member(0, 15000), member(1, 15000),
            member(None, 90000, state='DRAINING'),
            member(None, state='STANDBY')))

    @hypothesis.given(st.integers(0, 10 ** 7), st.integers(1, 8))
    def test_settles(self, connections, current):
        """With the same connections it wants the same a second time."""
        wanted = by_connections.choose(connections, current, 1, 8)
        self.assertEqual(wanted, by_connections.choose(connections, wanted,
                                                       1, 8))

    def test_entry_point(self):
        """As "pip install" of the folder makes it known."""
        project = tomllib.loads((FOLDER / 'pyproject.toml').read_text())
        points = project['project']['entry-points']
        self.assertEqual(
            {managers.NAMESPACE: {NAME: f'{NAME}:ByConnections'}}, points)
        self.assertEqual([NAME], project['tool']['setuptools']['py-modules'])
        self.assertTrue(issubclass(by_connections.ByConnections,
                                   managers_base.ClusterManager))


class TestRows(test_upkeep.ManagedTestCase):
    """With what heartbeats have brought into Octavia's tables."""

    def setUp(self):
        super().setUp()
        installed = {NAME: by_connections.ByConnections(),
                     'reference': managers.get('reference')}
        self.useFixture(fixtures.MockPatchObject(
            managers, 'get', installed.__getitem__))
        self.total = 0

    def hear(self, lb, connections):
        """Have each member's heartbeat come, later than the last one."""
        self.total += 100
        members = [each for each in self.get_members(lb) if each.amphora_id]
        for each in members:
            with self.engine.begin() as connection:
                for table in ('listener_statistics', 'amphora_health'):
                    connection.execute(
                        sa.text(f'DELETE FROM {table} '  # noqa: S608
                                f'WHERE amphora_id = :id'),
                        {'id': each.amphora_id})
        heard_at = records.utcnow().replace(microsecond=0)
        self.records.insert_all({
            'amphora_health': [
                {'amphora_id': each.amphora_id, 'busy': True,
                 'last_update': heard_at} for each in members],
            'listener_statistics': [
                {'listener_id': records.new_id(),
                 'amphora_id': each.amphora_id, 'bytes_in': self.total,
                 'bytes_out': 0, 'active_connections': connections,
                 'total_connections': self.total, 'request_errors': 0}
                for each in members]})
        # Those of before are from a while ago.
        table = models.MemberLoad.__table__
        with self.engine.begin() as connection:
            connection.execute(sa.update(table).values(
                heard_at=heard_at - datetime.timedelta(seconds=20)))
        return load_repo.record(self.engine, load_rules.find_measured(
            load_repo.scan(self.engine, [NAME])))

    def sizes(self):
        found = cluster_repo.get(self.engine, self.cluster_id)
        return found.desired_size, found.size

    def test_follows(self):
        lb = self.make(2)
        self.see_all(lb)
        cluster_repo.set_sizes(self.engine, self.cluster_id, cooldown=0)
        # Other managers do not ask for it.
        self.assertEqual(0, self.hear(lb, 30000))
        cluster_repo.set_sizes(self.engine, self.cluster_id,
                               cluster_type=NAME)
        for _ in range(2):
            self.assertEqual(2, self.hear(lb, 30000))
        self.urge()
        self.assertEqual((3, 3), self.sizes())
        self.keep()
        self.assertWhole(lb, 3)
        # Nothing happens before the newcomer's load is known.
        self.see_all(lb)
        self.urge()
        self.assertEqual((3, 3), self.sizes())
        for connections in (100, 100):
            self.hear(lb, connections)
        self.urge()
        self.assertEqual((1, 1), self.sizes())

    def test_bounds(self):
        """What it wants stays within min_size and size_limit."""
        lb = self.make(2, min_size=2)
        self.see_all(lb)
        cluster_repo.set_sizes(self.engine, self.cluster_id, cooldown=0,
                               cluster_type=NAME)
        for connections, expected in ((0, 2), (10 ** 6, 8)):
            for _ in range(2):
                self.hear(lb, connections)
            self.urge()
            self.assertEqual((expected, expected), self.sizes())

    def test_cooldown(self):
        lb = self.make(2)
        self.see_all(lb)
        cluster_repo.set_sizes(self.engine, self.cluster_id, cooldown=600,
                               desired_size=3, cluster_type=NAME)
        self.urge()
        self.keep()
        self.see_all(lb)
        for _ in range(2):
            self.hear(lb, 30000)
        self.urge()
        self.assertEqual((3, 3), self.sizes())
