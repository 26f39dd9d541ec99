# SPDX-License-Identifier: Apache-2.0

"""As much of a cloud as distributors are booted on: a few dictionaries."""

import contextlib
import logging

import fixtures
from oslo_utils import uuidutils
import sqlalchemy as sa

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.distribution.ovs import vips
from octavia_hmsync.cluster.instances import data as instance_data
from octavia_hmsync.cluster.instances import flow as instance_flow
from octavia_hmsync.cluster.instances import keeper as instance_keeper
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from tests.db_cases import base
from tests.unit.cluster import cloud
from tests.unit.db import sqlite


class Platform(cloud.Cloud):
    """Stands in for instance_cloud.InstanceCloud, and for distributors.

    .instances is {id: name}, .ports {name: address}; .late has those that
    the compute service boots later, {id: name}, with .is_late.
    """

    def __init__(self):
        super().__init__()
        self.is_late = False
        self.late = {}
        self.statuses = {}
        self.silent = set()

    def plug(self, instance_id):
        self.step(f'create port {instance_id}')
        self.ports[instance_id] = f'192.0.2.{len(self.steps) % 250 + 1}'
        self.step(f'created port {instance_id}')
        return f'port-{instance_id}', self.ports[instance_id]

    def boot(self, instance_id, port_id, user_data):
        self.step(f'boot {instance_id}')
        compute_id = uuidutils.generate_uuid()
        if self.is_late:
            self.late[compute_id] = instance_id
            raise exceptions.BuildFailed('no answer')
        self.instances[compute_id] = instance_id
        self.step(f'booted {instance_id}')
        return compute_id

    def get_status(self, compute_id):
        self.step(f'look at {compute_id}')
        if compute_id not in self.instances:
            return None
        return self.statuses.get(compute_id, 'ACTIVE')

    def find(self, instance_id, compute_id=None):
        self.step(f'find {instance_id}')
        return {key for key, name in self.instances.items()
                if name == instance_id}

    def delete(self, compute_id):
        self.step(f'delete {compute_id}')
        self.instances.pop(compute_id, None)

    def unplug(self, instance_id):
        self.step(f'delete port {instance_id}')
        self.ports.pop(instance_id, None)

    # Distributors

    def client_of(self, url):
        return _Client(self, url)


class _Client:
    def __init__(self, platform, url):
        self._platform = platform
        self._url = url

    def get_status(self):
        self._platform.step(f'ask {self._url}')
        if self._url in self._platform.silent:
            raise exceptions.DistributorUnreachable('it does not answer')
        return {'status': 'ONLINE', 'host': 'somebody'}


class PlatformTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):
    """A keeper on a Platform, .platform; .keeper is the one of now."""

    limit = 4
    size = 4

    def setUp(self):
        super().setUp()
        self.conf.set_override('distributor_instances', self.limit,
                               'hmsync_cluster')
        self.conf.set_override('distributor_instance_vips', self.size,
                               'hmsync_cluster')
        for name, value in (('distributor_flavor_id', 'flavor'),
                            ('distributor_network_id', 'network'),
                            ('distributor_secgroup_list', ['group'])):
            self.conf.set_override(name, value, 'hmsync_cluster')
        # TaskFlow tells of each of its thousand steps.
        logging.disable(logging.DEBUG)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.platform = Platform()
        self.now = 0.0
        sa.event.listen(self.engine, 'before_cursor_execute', self._execute)
        self.useFixture(fixtures.MockPatchObject(
            instance_data, 'make', lambda conf, address: (
                self.platform.step('make data') or '#cloud-config', None)))
        self.reborn()

    def _execute(self, *_):
        if self.platform.is_dead:
            raise cloud.Death('database')

    def make_keeper(self):
        return instance_keeper.InstanceKeeper(instance_flow.Site(
            self.conf, self.engine, self.platform, self.platform.client_of,
            instance_flow.make_claims(self.engine, 'controller1'), 0,
            lambda: self.now))

    def reborn(self):
        """Have another process go on, with what the database has."""
        self.platform.is_dead = False
        self.platform.rules.clear()
        self.keeper = self.make_keeper()

    def lapse(self):
        """Have so much time pass that no claim counts any more."""
        for column in ('claim_expires_at', 'booted_at', 'created_at'):
            self.make_older(models.DistributorInstance, column, 3600)
        self.now += 3600

    def keep(self, times=1):
        """Have the keeper do what it does, to its end."""
        for _ in range(times):
            with contextlib.suppress(*cloud.DEATHS):
                self.keeper.run_once()
            self.wait()

    def wait(self):
        self.keeper._crew.join(600)

    def settle(self, times=8):
        """Have all be done that is to be done."""
        quiet = 0
        for _ in range(times):
            before = len(self.platform.steps), self.get_states()
            self.keep()
            self.sync()
            self.lapse()
            quiet = (quiet + 1 if before == (
                len(self.platform.steps), self.get_states()) else 0)
            if quiet == 2:
                break

    def sync(self, status='ONLINE'):
        """Have there be rows of distributors, that answer."""
        rows = distributor_repo.sync(
            self.engine, vips.DRIVER, vips.get_wanted(self.conf, self.engine))
        for row in rows:
            if row.name in self.platform.instances and (
                    row.url not in self.platform.silent):
                distributor_repo.set_status(self.engine, row.id, status)
        return rows

    def get_states(self):
        return [one.state for one in booted_repo.get_all(self.engine)]

    def assertWhole(self, number=2):
        """There are so many that are ready, and nothing else at all."""
        found = booted_repo.get_all(self.engine)
        self.assertEqual(['READY'] * number, [one.state for one in found],
                         self.platform.steps)
        self.assertEqual({one.compute_id: one.id for one in found},
                         self.platform.instances, self.platform.steps)
        self.assertEqual({one.id: one.address for one in found},
                         self.platform.ports)
