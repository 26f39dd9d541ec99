# SPDX-License-Identifier: Apache-2.0

"""What is remembered of the ports of nodes, and who may send there."""

import random

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import models
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network.db import used_lists as used_repo
from octavia_hmsync.network import retention as port_retention
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from tests.db_cases import base
from tests.unit.sync.rules import cases

MAC = 'fa:16:3e:00:00:01'
IP = '192.0.2.1'


class PortCases(base.DatabaseTestCase):

    def claim(self, owner='one', host='node1', seconds=60):
        return port_repo.claim(self.engine, host, owner, seconds)

    def record(self, owner='one', port_id='port1', repairs=0):
        return port_repo.record(self.engine, owner, 'node1', port_id, MAC,
                                (IP, '2001:db8::1'), 'node1', repairs)

    def make(self):
        self.claim()
        self.record()
        port_repo.release(self.engine, 'node1', 'one')

    def get(self):
        return port_repo.get(self.engine, 'node1')

    def register(self):
        hm_repo.register(self.engine, 'node1', IP, 5555, 'instance', 20)

    def test_none(self):
        self.assertIsNone(self.get())
        self.assertEqual([], port_repo.get_all(self.engine))
        self.assertFalse(port_repo.set_plugged(self.engine, 'node1'))

    def test_made(self):
        self.make()
        found = self.get()
        self.assertEqual(
            ('port1', MAC, (IP, '2001:db8::1'), 'node1', False, 0),
            (found.port_id, found.mac, found.ip_addresses,
             found.binding_host, found.is_registered, found.repairs))
        self.assertEqual([found.host],
                         [p.host for p in port_repo.get_all(self.engine)])
        self.claim()
        self.record(port_id='port2', repairs=1)
        self.assertEqual(('port2', 1),
                         (self.get().port_id, self.get().repairs))

    def test_claim(self):
        self.assertTrue(self.claim())
        # What is not made yet is not remembered.
        self.assertIsNone(self.get())
        self.assertFalse(self.claim('two'))
        self.assertTrue(self.claim('two', 'node2'))
        self.assertFalse(self.record('two'))
        self.assertFalse(port_repo.forget(self.engine, 'node1', 'two'))
        port_repo.release(self.engine, 'node1', 'two')
        self.assertFalse(self.claim('two'))
        port_repo.release(self.engine, 'node1', 'one')
        self.assertTrue(self.claim('two'))

    def test_claim_of_one_that_died(self):
        self.claim()
        self.make_older(models.Port, 'claim_expires_at', 1)
        self.assertTrue(self.claim('two'))
        self.assertFalse(self.record('one'))
        self.assertTrue(self.record('two'))

    def test_claim_that_takes_long(self):
        self.claim()
        self.make_older(models.Port, 'claim_expires_at', 1)
        self.assertTrue(port_repo.renew(self.engine, 'node1', 'one', 60))
        self.assertFalse(self.claim('two'))
        self.make_older(models.Port, 'claim_expires_at', 100)
        self.assertTrue(self.claim('two'))
        self.assertFalse(port_repo.renew(self.engine, 'node1', 'one', 60))
        # Nor when that one has done its work.
        port_repo.release(self.engine, 'node1', 'two')
        self.assertFalse(port_repo.renew(self.engine, 'node1', 'one', 60))

    def test_claims_at_once(self):
        claimed = self.run_at_once([
            lambda n=n: self.claim(f'owner{n}') for n in range(4)])
        self.assertEqual(1, sum(claimed))

    def test_forget(self):
        self.make()
        self.claim()
        self.assertTrue(port_repo.forget(self.engine, 'node1', 'one'))
        self.assertEqual([], self.rows(models.Port))

    def test_registered(self):
        self.make()
        self.assertEqual(0, port_repo.set_registered(self.engine))
        self.register()
        self.assertEqual(1, port_repo.set_registered(self.engine))
        self.assertEqual(0, port_repo.set_registered(self.engine))
        self.assertTrue(self.get().is_registered)

    def test_plugged_again(self):
        """It begins anew only if its health manager is not known."""
        self.make()
        self.register()
        port_repo.set_registered(self.engine)
        # By nobody, for all that is known.
        self.assertIsNone(self.get().plugged_age)
        port_repo.set_plugged(self.engine, 'node1')
        self.make_older(models.Port, 'plugged_at', 100)
        self.assertTrue(port_repo.set_plugged(self.engine, 'node1'))
        self.assertTrue(self.get().is_registered)
        self.assertAge(0, self.get().plugged_age)
        hm_repo.delete(self.engine, 'node1', hm_repo.get_rows(
            self.engine)[0].keepalive_at)
        self.assertTrue(self.get().is_registered)
        port_repo.set_plugged(self.engine, 'node1')
        self.assertFalse(self.get().is_registered)


class SenderCases(base.DatabaseTestCase):

    def may_send(self):
        return {amphora_id for amphora_id, sender in
                used_repo.get_senders(self.engine).items()
                if port_retention.may_send((IP,), sender)}

    def upload(self, number, addresses, result='APPLIED', is_recorded=True):
        """Publish a list and claim what is due; record how it ended."""
        generation_repo.publish(
            self.engine, number, dict(zip(addresses, range(9))), 'because',
            'controller1')
        owner = f'batch{number}'
        # One that was never recorded is taken over.
        self.make_older(models.Amphora, 'claim_expires_at', 1)
        claim_repo.claim_due(self.engine, number, owner, 10, 60)
        if is_recorded:
            outcome_repo.record(self.engine, number, owner, [
                outcome_repo.Outcome(amphora_id, result, addresses)
                if result == 'APPLIED' else outcome_repo.Outcome(
                    amphora_id, result, addresses, 'silence', 0)
                for amphora_id in self.ids])
            claim_repo.release(self.engine, owner)

    def add(self):
        """Begin with one amphora and nothing else."""
        with self.engine.begin() as connection:
            for table in (*models.Base.metadata.tables.values(),
                          self.records.tables['amphora']):
                connection.execute(sa.delete(table))
        self.ids = self.add_amphorae(1)
        amphora_repo.add_missing(self.engine)

    def adopt(self):
        doubt_repo.set_adopted(self.engine, [
            row for row in doubt_repo.get_unproven(self.engine)
            if row.is_certain])

    def test_list_that_nobody_knows(self):
        self.add()
        self.assertEqual(set(self.ids), self.may_send())

    def test_adopted(self):
        self.add()
        self.upload(1, cases.addresses(2, 3))
        self.assertEqual(set(self.ids), self.may_send())
        self.adopt()
        self.assertEqual(set(), self.may_send())

    def test_booting(self):
        amphora_id = self.records.add_amphora(None, status='BOOTING')
        self.assertEqual({amphora_id}, self.may_send())

    def test_failed_and_deleted_ones(self):
        self.records.add_amphora(None, status='ERROR')
        self.records.add_amphora('192.0.2.9', status='DELETED')
        self.assertEqual(set(), self.may_send())

    def test_upload_that_may_have_arrived(self):
        self.add()
        self.upload(1, cases.addresses(2, 3))
        self.adopt()
        self.upload(2, cases.addresses(1, 2, 3), 'UNREACHABLE')
        self.assertEqual(set(self.ids), self.may_send())
        self.upload(3, cases.addresses(2, 3), 'UNREACHABLE')
        self.assertEqual(set(self.ids), self.may_send())
        self.upload(4, cases.addresses(2, 3))
        self.assertEqual(set(self.ids), self.may_send())
        self.adopt()
        self.assertEqual(set(), self.may_send())

    def test_upload_under_way(self):
        self.add()
        self.upload(1, cases.addresses(2, 3))
        self.adopt()
        self.upload(2, cases.addresses(1, 2, 3), is_recorded=False)
        self.assertEqual(set(self.ids), self.may_send())

    def test_history_that_is_gone(self):
        self.add()
        self.upload(1, cases.addresses(2, 3))
        self.adopt()
        for number in (2, 3, 4):
            self.upload(number, cases.addresses(2, number), 'UNREACHABLE')
        self.assertEqual(set(), self.may_send())
        generation_repo.delete_old(self.engine, 1)
        self.assertEqual(set(self.ids), self.may_send())

    def test_never_free_while_it_sends(self):
        """Whatever happens to an amphora, for long."""
        self.add()
        chance = random.Random(6)  # nosec B311
        # What it booted with; nobody knows.
        file = used = cases.addresses(1, 2)
        freed = 0
        for number in range(1, 40):
            # Now and then the list has the address of the port.
            addresses = cases.addresses(
                *((1,) if chance.random() < 0.3 else ()), 2, 10 + number)
            result = chance.choice(['APPLIED', 'APPLIED', 'UNREACHABLE',
                                    None])
            self.upload(number, addresses, result, result is not None)
            if result == 'APPLIED' or chance.random() < 0.5:
                file = addresses
            if chance.random() < 0.5:
                used = file
            row, = amphora_repo.get_rows(self.engine)
            if used == addr.split_list(row.controller_ip_port_list):
                self.adopt()
            if self.may_send():
                continue
            freed += 1
            for one in (file, used):
                self.assertFalse(port_retention.has_address((IP,), one))
        # It is not held for ever either.
        self.assertGreater(freed, 3)
