# SPDX-License-Identifier: Apache-2.0

"""What a jobboard does with flows: they are saved, and others go on."""

import contextlib
import inspect
import json
import os

import fixtures
from oslo_utils import uuidutils
import sqlalchemy
from taskflow import engines
from taskflow.persistence import backends
from taskflow.persistence.backends.sqlalchemy import tables
from taskflow.persistence import models
from taskflow import states

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.worker import flows
from octavia_hmsync.cluster.worker import tasks
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import cluster as compat_cluster
from tests.unit.cluster import cloud

FACTORIES = {name for name, _function in inspect.getmembers(
    flows, inspect.isfunction) if name.startswith('get_')}


class TestSaved(cloud.CloudTestCase):
    """Each task of a flow is done by another process."""

    def setUp(self):
        super().setUp()
        # In memory, where the other database is: a thousand commits wait for
        # a disk otherwise.
        directory = self.useFixture(fixtures.TempDir(
            os.path.dirname(self.database.path)))
        self.backend = backends.fetch(
            {'connection': f'sqlite:///{directory.join("saved")}'})
        self.addCleanup(self.backend.close)
        with self.connect() as connection:
            connection.upgrade()
        # Each connection makes all tables, and compiles its statements, anew.
        made = tables.fetch(sqlalchemy.MetaData())
        self.useFixture(fixtures.MockPatchObject(tables, 'fetch',
                                                 lambda _metadata: made))
        self.useFixture(fixtures.MockPatchObject(
            compat_cluster, 'make_runner', lambda: self.post))
        self.posted = set()

    def connect(self):
        return contextlib.closing(self.backend.get_connection())

    def post(self, factory, *args, store):
        """Save a flow as Octavia does, and have processes run it."""
        for there in (list(args), store):
            self.assertEqual(there, json.loads(json.dumps(there)))
        book = models.LogBook('book')
        detail = models.FlowDetail('flow', uuidutils.generate_uuid())
        book.add(detail)
        with self.connect() as connection:
            connection.save_logbook(book)
        engines.save_factory_details(detail, factory, args, {},
                                     backend=self.backend)
        number = 0
        while not self.go_on(book.uuid, detail.uuid, store):
            number += 1
        self.assertGreater(number, 1)
        self.posted.add(factory.__name__)

    def go_on(self, book_id, detail_id, store):
        """Do one more task, with nothing but what was saved.

        :returns: whether it was the last one.
        """
        self.reborn()
        with self.connect() as connection:
            detail = connection.get_logbook(book_id).find(detail_id)
        engine = engines.load_from_detail(
            detail, store=json.loads(json.dumps(store)),
            backend=self.backend, engine='serial')
        engine.atom_notifier.register(
            states.SUCCESS, lambda *_, **__: engine.suspend())
        engine.run()
        return engine.storage.get_flow_state() == states.SUCCESS

    def run_saved(self, factory, lb, **more):
        self.post(factory, store={**worker.make_store(
            self.get_cluster(lb),
            compat_amphora.get_load_balancer(lb)), **more})
        self.assertIsNone(self.get_cluster(lb).claimed_by)
        self.assertEqual('ACTIVE', self.get_status(lb))

    def test_each_one(self):
        lb = self.add_load_balancer()
        for port in (80, 443):
            self.records.add_listener(lb, port)
        subject = worker.Worker(compat.CONF)
        subject.create(lb, {'cluster_desired_size': 2,
                            'cluster_min_size': 1})
        self.assertWhole(lb, 2)
        self.members(lb)
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        subject.failover(lb)
        self.keep()
        self.assertWhole(lb, 3)
        self.delete(lb)
        self.assertGone(lb)
        self.assertEqual(FACTORIES, self.posted)

    def members(self, lb):
        first, _second = self.get_members(lb)
        self.run_saved(flows.get_replace_member_flow, lb,
                       **{tasks.OLD_MEMBER_ID: first.id})
        new = self.get_states(lb)
        self.assertEqual({'ACTIVE': 2, 'DRAINING': 1}, new)
        self.run_saved(flows.get_stand_by_flow, lb,
                       **{tasks.MEMBER_ID: first.id})
        self.run_saved(flows.get_build_standby_flow, lb)
        self.assertEqual({'ACTIVE': 2, 'STANDBY': 2}, self.get_states(lb))
        cluster_id = self.get_cluster(lb).id
        cluster_repo.set_sizes(self.engine, cluster_id, desired_size=3,
                               cooldown=0)
        cluster_repo.resize(self.engine, cluster_id, 3)
        self.run_saved(flows.get_add_member_flow, lb)
        member = next(each for each in self.get_members(lb)
                      if each.slot == 0)
        member_repo.set_state(self.engine, member.id, (member_repo.ACTIVE,),
                              member_repo.DRAINING)
        self.run_saved(flows.get_configure_member_flow, lb,
                       **{tasks.MEMBER_ID: member.id})
        self.assertEqual({'ACTIVE': 3, 'STANDBY': 2}, self.get_states(lb))

    def get_states(self, lb):
        found = [member.state for member in self.get_members(lb)]
        return {state: found.count(state) for state in found}
