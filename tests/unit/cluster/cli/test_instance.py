# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync distributor instance list, delete."""

from octavia_hmsync.cluster.db import instance as booted_repo
from tests.unit.cli import base

FIRST = '00000000-0000-4000-8000-000000000001'
SECOND = '00000000-0000-4000-8000-000000000002'
COLUMNS = ['id', 'state', 'address']
LIST = ('distributor', 'instance', 'list')
DELETE = ('distributor', 'instance', 'delete')


class TestInstance(base.CommandTestCase):

    def make(self):
        booted_repo.reserve(self.engine, FIRST, [], 'owner', 60)
        booted_repo.record(self.engine, FIRST, 'owner', 60, state='READY',
                           compute_id='server', address='192.0.2.7')
        booted_repo.release(self.engine, FIRST, 'owner')
        booted_repo.reserve(self.engine, SECOND, [FIRST], 'owner', 60)

    def test_none(self):
        self.assertEqual([], self.run_json(*LIST))
        self.assertFails('There is no instance server of a distributor: see '
                         '"octavia-hmsync distributor instance list".',
                         *DELETE, 'server')

    def test_list(self):
        self.make()
        rows = self.run_json(*LIST)
        self.assertEqual([dict(zip(COLUMNS, values)) for values in (
            (FIRST, 'READY', '192.0.2.7'), (SECOND, 'BUILDING', None))],
            rows)
        first, second = self.run_json(*LIST, '--long')
        self.assertEqual((None, 'owner', None), (
            first['claimed_by'], second['claimed_by'], first['expires_at']))
        self.assertTrue(first['created_at'])

    def test_purge(self):
        """Nobody would know of them any more."""
        self.make()
        self.addCleanup(self.run_ok, 'db', 'upgrade')
        self.assertFails('2 distributors are booted in instances', 'db',
                         'purge', '--yes')
        self.assertIn('Deleted ', self.run_ok('db', 'purge', '--yes',
                                              '--force'))

    def test_delete(self):
        """By either id, and once; what is being booted is not READY."""
        self.make()
        self.assertIn(f'The instance {FIRST} would be deleted as soon',
                      self.run_ok(*DELETE, 'server', '--dry-run'))
        self.assertIn(f'The instance {FIRST} is deleted as soon as its '
                      f'clusters are elsewhere.',
                      self.run_ok(*DELETE, 'server'))
        self.assertEqual('an operator has ordered it',
                         self.run_json(*LIST, '--long')[0]['reason'])
        self.assertIn('is already being deleted', self.run_ok(*DELETE, FIRST))
        self.assertFails('is BUILDING, and only a READY one', *DELETE, SECOND)
