# SPDX-License-Identifier: Apache-2.0

"""Managers that ask for it know on which hosts members are."""

import types

import fixtures
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.keeping import hosts
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.managers import reference
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from tests.unit.cluster.keeping import test_upkeep


class Follower(reference.ReferenceManager):

    FOLLOWS_HOSTS = True


class TestHosts(test_upkeep.ManagedTestCase):

    def setUp(self):
        super().setUp()
        installed = {'follower': Follower(),
                     'reference': managers.get('reference')}
        for name, value in (('get', installed.__getitem__),
                            ('get_names', lambda: sorted(installed))):
            self.useFixture(fixtures.MockPatchObject(managers, name, value))
        managers.get_followers.cache_clear()
        self.addCleanup(managers.get_followers.cache_clear)
        self.asked = 0
        self.problem = None
        self.on = {}
        self.useFixture(fixtures.MockPatchObject(
            compute, 'connect', lambda _conf: types.SimpleNamespace(
                get_hosts=self.get_hosts)))
        self.make(2)

    def get_hosts(self):
        """Answer as Nova does: by instance, and not of others alone."""
        self.asked += 1
        if self.problem:
            raise self.problem
        return {**self.on, 'another': 'host9'}

    def follow(self):
        cluster_repo.set_sizes(self.engine, self.cluster_id,
                               cluster_type='follower')
        with self.engine.connect() as connection:
            self.instances = connection.execute(sa.text(
                'SELECT compute_id FROM amphora ORDER BY id')).scalars().all()
        self.on = dict(zip(self.instances, ('host1', 'host2'), strict=True))

    def record(self):
        """Look once; returns the hosts that a manager is given."""
        hosts.record(self.conf, self.engine)
        return sorted(each.host or '' for each in situation.read(
            self.context, self.cluster_id).members)

    def test_others_do_not_ask(self):
        self.assertEqual(['', ''], self.record())
        self.assertEqual(0, self.asked)

    def test_they_move(self):
        self.follow()
        self.assertEqual(['host1', 'host2'], self.record())
        with self.count_statements() as statements:
            hosts.record(self.conf, self.engine)
        self.assertEqual(1, len(statements), statements)
        self.on[self.instances[0]] = 'host3'
        self.assertEqual(['host2', 'host3'], self.record())
        del self.on[self.instances[0]]
        self.assertEqual(['', 'host2'], self.record())

    def test_nova_does_not_tell(self):
        """An outage is over some time; a refusal is not."""
        self.follow()
        self.record()
        self.problem = exceptions.CloudUnavailable('it is down')
        self.assertRaises(exceptions.CloudUnavailable, self.record)
        self.problem = None
        self.assertEqual(['host1', 'host2'], self.record())
        self.problem = exceptions.CloudRefused('only for administrators')
        log = self.useFixture(fixtures.FakeLogger())
        self.addCleanup(periodic.note_problem, 'member hosts', None)
        for _ in range(2):
            self.assertEqual(['', ''], self.record())
        self.assertEqual(1, log.output.count('only for administrators'))
