# SPDX-License-Identifier: Apache-2.0

"""Who may work on a management network, and what is recorded of it."""

from octavia_hmsync.db import models
from octavia_hmsync.network.db import network as network_repo
from tests.db_cases import base

IDS = network_repo.Ids('network', 'subnet', 'amphorae', 'health-managers')


class NetworkCases(base.DatabaseTestCase):

    def claim(self, owner, seconds=60, name='net'):
        return network_repo.claim(self.engine, name, owner, seconds)

    def make(self, name='net'):
        self.claim('first', name=name)
        self.assertTrue(network_repo.record(self.engine, name, 'first', IDS))
        network_repo.release(self.engine, name, 'first')

    def look(self, owner, interval=60):
        return network_repo.claim_unreconciled(self.engine, 'net', owner, 60,
                                               interval)

    def row(self):
        return network_repo.get_row(self.engine, 'net')

    def ids(self, name='net'):
        return network_repo.get_ids(self.engine, name)

    def test_none(self):
        self.assertIsNone(self.row())
        self.assertIsNone(self.ids())
        self.assertFalse(self.look('one'))

    def test_made(self):
        self.make()
        self.assertEqual(IDS, self.ids())
        self.assertIsNone(self.row().claim_owner)
        self.assertIsNotNone(self.row().ensured_at)

    def test_not_made_after_all(self):
        self.assertTrue(self.claim('one'))
        self.assertIsNone(self.ids())
        network_repo.release(self.engine, 'net', 'one')
        self.assertIsNone(self.row())

    def test_claimed_by_another(self):
        self.assertTrue(self.claim('one'))
        self.assertFalse(self.claim('two'))
        self.assertEqual('one', network_repo.get_owner(self.engine, 'net'))
        self.assertTrue(self.claim('two', name='other'))
        # Who has no claim changes nothing.
        network_repo.release(self.engine, 'net', 'two')
        self.assertFalse(network_repo.record(self.engine, 'net', 'two', IDS))
        self.assertFalse(network_repo.forget(self.engine, 'net', 'two'))
        self.assertEqual('one', self.row().claim_owner)
        self.assertIsNone(self.ids())

    def test_claim_of_one_that_died(self):
        self.make()
        self.claim('one')
        self.make_older(models.Network, 'claim_expires_at', 1)
        self.assertTrue(self.claim('two'))
        # The dead one comes back.
        self.assertFalse(network_repo.record(self.engine, 'net', 'one', IDS))
        network_repo.release(self.engine, 'net', 'one')
        self.assertEqual('two', self.row().claim_owner)

    def test_claimed_again(self):
        self.make()
        self.claim('one', 5)
        before = self.row().claim_expires_at
        self.assertTrue(self.claim('one', 60))
        self.assertGreater(self.row().claim_expires_at, before)
        self.make_older(models.Network, 'claim_expires_at', 1)
        self.claim('two')
        self.assertFalse(self.claim('one'))

    def test_several_at_once(self):
        for prepare in (lambda: None, self.make):
            prepare()
            taken = self.run_at_once([
                lambda n=n: self.claim(f'owner{n}') for n in range(6)])
            self.assertEqual(1, taken.count(True), taken)
            owner = f'owner{taken.index(True)}'
            self.assertEqual(owner, self.row().claim_owner)
            network_repo.release(self.engine, 'net', owner)

    def test_one_looks_per_interval(self):
        self.make()
        looks = self.run_at_once([
            lambda n=n: self.look(f'keeper{n}') for n in range(4)])
        self.assertEqual(1, looks.count(True))
        network_repo.release(self.engine, 'net',
                             f'keeper{looks.index(True)}')
        self.assertFalse(self.look('another'))
        self.make_older(models.Network, 'reconciled_at', 61)
        self.claim('ensure')
        self.assertFalse(self.look('another'))
        network_repo.release(self.engine, 'net', 'ensure')
        self.assertTrue(self.look('another'))

    def test_what_is_not_made_is_not_looked_at(self):
        self.claim('one')
        self.make_older(models.Network, 'claim_expires_at', 1)
        self.assertFalse(self.look('keeper'))

    def test_repairs_are_counted(self):
        self.make()
        for repairs, expected in ((None, 0), (2, 2), (None, 2), (3, 3)):
            self.claim('one')
            network_repo.record(self.engine, 'net', 'one', IDS, repairs)
            network_repo.release(self.engine, 'net', 'one')
            self.assertEqual(expected, self.row().repairs)

    def test_forgotten(self):
        self.make()
        self.make('other')
        self.claim('one')
        self.assertTrue(network_repo.forget(self.engine, 'net', 'one'))
        self.assertIsNone(self.row())
        self.assertEqual(IDS, self.ids('other'))
