# SPDX-License-Identifier: Apache-2.0

"""Deleting what leaked: what has changed since it was listed is kept."""

import dataclasses
import datetime
import itertools
import time
from unittest import mock

from octavia_hmsync import cloud
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.recovery import amphora_ports
from octavia_hmsync.image.recovery import leaks
from tests.cloud import records
from tests.db_cases import base
from tests.unit.db import sqlite

OLD = datetime.datetime(2026, 1, 1)


class Compute:
    """Instances, {id: Instance}; lingers is how often a deleted one shows."""

    def __init__(self):
        self.instances = {}
        self.lingers = 0

    def add(self, amphora_id, instance_id):
        self.instances[instance_id] = compute.Instance(
            instance_id, f'amphora-{amphora_id}', amphora_id, 'ACTIVE', OLD)

    def list_instances(self, amphora_id=None):
        return [each for each in self.instances.values()
                if amphora_id in (None, each.amphora_id)]

    def get_status(self, compute_id):
        if compute_id not in self.instances and self.lingers:
            self.lingers -= 1
            return 'ACTIVE'
        found = self.instances.get(compute_id)
        return found and found.status

    def delete(self, compute_id):
        self.instances.pop(compute_id, None)


class Ports:
    """Ports, {id: Port}; .error is raised by delete()."""

    def __init__(self):
        self.ports = {}
        self.vips = {}
        self.error = None

    def add(self, amphora_id, port_id, device_id=None, vips=()):
        self.ports[port_id] = amphora_ports.Port(
            port_id, f'octavia-lb-vrrp-{amphora_id}', amphora_id, device_id,
            OLD, None, 'net', True, vips)

    def list_ports_of(self, amphora_id):
        return [each for each in self.ports.values()
                if each.amphora_id == amphora_id]

    def get_addresses(self, compute_id):
        return []

    def find_vip(self, network_id, address):
        return self.vips.get(address)

    def list_ports(self):
        return list(self.ports.values())

    def get(self, port_id):
        return self.ports.get(port_id)

    def delete(self, port_id):
        if self.error is not None:
            raise self.error
        self.ports.pop(port_id, None)


class TestDelete(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.compute, self.ports = Compute(), Ports()
        clock = itertools.count()
        for owner, name, kwargs in (
                (compute, 'connect', {'return_value': self.compute}),
                (cloud, 'connect', {}),
                (amphora_ports, 'Ports', {'return_value': self.ports}),
                (time, 'sleep', {}),
                (time, 'monotonic', {'side_effect': clock})):
            patch = mock.patch.object(owner, name, autospec=True, **kwargs)
            patch.start()
            self.addCleanup(patch.stop)
        self.leaks = leaks.Leaks(self.conf, self.engine, 3600)

    def find(self):
        found, is_complete = self.leaks.find()
        self.assertTrue(is_complete)
        return found

    def delete(self, leak):
        (_leak, kept, error), = leaks.delete_all(self.leaks, [leak])
        self.assertIsNone(error)
        return kept

    def add_row(self, **values):
        amphora_id, = self.add_amphorae(1, status='BOOTING')
        self.records.change('amphora', amphora_id, **{
            'created_at': OLD, 'compute_id': 'own', 'vrrp_port_id': 'port',
            **values})
        return amphora_id

    def test_instance(self):
        self.compute.add('a', 'one')
        leak, = self.find()
        self.assertIsNone(self.delete(leak))
        self.assertEqual({}, self.compute.instances)
        # Somebody was faster.
        self.assertIsNone(self.delete(leak))

    def test_instance_that_an_amphora_has_now(self):
        self.compute.add('a', 'one')
        leak, = self.find()
        self.add_row(compute_id='one', created_at=records.utcnow())
        self.assertIn('It has changed', self.delete(leak))
        self.assertEqual({'one'}, self.compute.instances.keys())

    def test_port(self):
        self.ports.add('a', 'one')
        leak, = self.find()
        self.assertIsNone(self.delete(leak))
        self.assertEqual({}, self.ports.ports)
        self.assertIsNone(self.delete(leak))

    def test_port_that_an_amphora_has_now(self):
        self.ports.add('a', 'one')
        leak, = self.find()
        self.add_row(vrrp_port_id='one', created_at=records.utcnow())
        self.assertIn('It has changed', self.delete(leak))

    def test_port_that_is_in_use(self):
        self.ports.add('a', 'one', device_id='another')
        self.compute.add('b', 'another')
        _instance, leak = self.find()
        self.assertIn('which is there still', self.delete(leak))
        self.assertEqual({'one'}, self.ports.ports.keys())

    def test_instance_goes_before_its_port(self):
        self.compute.add('a', 'one')
        self.ports.add('a', 'port', device_id='one')
        self.compute.lingers = 3
        self.assertEqual(
            [('one', None, None), ('port', None, None)],
            [(leak.id, kept, error) for leak, kept, error
             in leaks.delete_all(self.leaks, self.find())])
        self.assertEqual(({}, {}), (self.compute.instances,
                                    self.ports.ports))

    def test_instance_that_does_not_go(self):
        self.compute.add('a', 'one')
        self.ports.add('a', 'port', device_id='one')
        self.compute.lingers = 10 ** 6
        (_, kept, _), (_, kept_port, _) = leaks.delete_all(self.leaks,
                                                           self.find())
        self.assertIsNone(kept)
        self.assertIn('which is there still', kept_port)

    def test_row(self):
        amphora_id = self.add_row()
        self.compute.add(amphora_id, 'own')
        self.compute.add(amphora_id, 'second')
        self.ports.add(amphora_id, 'port')
        self.ports.add('b', 'other')
        leak = self.find()[0]
        self.assertEqual(amphora_id, leak.id)
        self.assertIsNone(self.delete(leak))
        self.assertEqual({}, self.compute.instances)
        self.assertEqual({'other'}, self.ports.ports.keys())
        self.assertEqual('DELETED', self.status(amphora_id))
        # Somebody was faster.
        self.assertIn('It has changed', self.delete(leak))

    def status(self, amphora_id):
        return leak_repo.get(self.engine).amphorae[amphora_id].status

    def test_row_that_came_to_be(self):
        amphora_id = self.add_row()
        self.compute.add(amphora_id, 'own')
        leak, = self.find()
        self.records.set_status(amphora_id, 'ALLOCATED')
        self.assertIn('It has changed', self.delete(leak))
        self.assertEqual({'own'}, self.compute.instances.keys())
        self.assertEqual('ALLOCATED', self.status(amphora_id))

    def test_row_of_one_that_is_locked_now(self):
        lb = self.records.add_load_balancer()
        amphora_id = self.add_row(load_balancer_id=lb)
        leak, = self.find()
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        self.assertIn('It has changed', self.delete(leak))
        self.assertEqual('BOOTING', self.status(amphora_id))

    def test_half_deleted(self):
        """The next look finds it again, after a while."""
        amphora_id = self.add_row()
        self.ports.add(amphora_id, 'port')
        self.ports.error = exceptions.CloudUnavailable('Neutron is down')
        (_, kept, error), = leaks.delete_all(self.leaks, self.find())
        self.assertEqual((None, 'Neutron is down'), (kept, str(error)))
        self.assertEqual('PENDING_DELETE', self.status(amphora_id))
        self.assertEqual([], self.find())
        self.records.change('amphora', amphora_id, updated_at=OLD)
        self.ports.error = None
        self.assertIsNone(self.delete(self.find()[0]))
        self.assertEqual('DELETED', self.status(amphora_id))

    def serve(self, amphora_id):
        """Have an amphora have the VIP of a load balancer."""
        lb = self.records.add_load_balancer()
        self.compute.add(amphora_id, 'one')
        self.ports.add(amphora_id, 'port', 'one', ('198.51.100.1',))
        self.ports.vips['198.51.100.1'] = amphora_ports.VIP('vip', lb)
        return lb

    def test_database_of_before(self):
        """It knows nothing of amphorae that serve, or not all."""
        for add in (lambda: 'unknown', self.add_row):
            amphora_id = add()
            lb = self.serve(amphora_id)
            for leak in self.find():
                self.assertIn(f'has the VIP 198.51.100.1 of load balancer '
                              f'{lb}', leak.keep)
                # What was listed may have begun to serve since.
                self.assertEqual(leak.keep, self.delete(
                    dataclasses.replace(leak, keep=None)))
            self.assertIn('one', self.compute.instances)
            self.assertIn('port', self.ports.ports)

    def test_database_that_is_complete(self):
        self.records.set_health(*self.add_amphorae(
            1, load_balancer_id=self.serve('a')))
        self.assertEqual([None, None], [
            self.delete(leak) for leak in self.find()])
        self.assertEqual({}, self.compute.instances)

    def test_kept(self):
        self.compute.add('a', 'one')
        leak, = self.find()
        self.assertEqual('why', self.delete(
            dataclasses.replace(leak, keep='why')))
        self.assertEqual({'one'}, self.compute.instances.keys())
