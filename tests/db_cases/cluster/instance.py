# SPDX-License-Identifier: Apache-2.0

"""Distributors that are booted: who works on which."""

import functools

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.db import models
from tests.db_cases import base

IDS = [f'00000000-0000-4000-8000-00000000000{n}' for n in range(9)]


class DistributorInstanceCases(base.DatabaseTestCase):

    def make(self, number, **values):
        known = [one.id for one in booted_repo.get_all(self.engine)]
        self.assertTrue(booted_repo.reserve(
            self.engine, IDS[number], known, 'owner', 60))
        if values:
            booted_repo.record(self.engine, IDS[number], 'owner', 60,
                               **values)
        return IDS[number]

    def make_ready(self, number):
        made = self.make(number, state='READY', compute_id=f'server{number}',
                         address=f'192.0.2.{number}')
        booted_repo.release(self.engine, made, 'owner')
        return made

    def test_reserved(self):
        made = self.make(1)
        # The answer was lost, and the same one comes again.
        self.assertTrue(booted_repo.reserve(self.engine, made, [], 'owner',
                                            60))
        # Decided before there was one.
        self.assertFalse(booted_repo.reserve(self.engine, IDS[2], [],
                                             'other', 60))
        found, = booted_repo.get_all(self.engine)
        self.assertEqual(found.id, made)
        self.assertEqual(
            ('BUILDING', None, None, None, 'owner', False),
            (found.state, found.compute_id, found.address, found.booted_at,
             found.claimed_by, found.is_free))
        self.assertIsNone(booted_repo.get(self.engine, 'nobody'))

    def test_reserved_at_once(self):
        answers = self.run_at_once([
            functools.partial(booted_repo.reserve, self.engine, each, [],
                              each, 60) for each in IDS[:4]])
        self.assertEqual([False] * 3 + [True], sorted(answers))
        self.assertEqual(1, len(booted_repo.get_all(self.engine)))

    def test_claimed(self):
        made = self.make(1)
        self.assertFalse(booted_repo.claim(self.engine, made, 'other', 60))
        self.assertTrue(booted_repo.claim(self.engine, made, 'owner', 60))
        self.make_older(models.DistributorInstance, 'claim_expires_at', 61)
        self.assertTrue(booted_repo.get(self.engine, made).is_free)
        # Nobody took it: it goes on.
        booted_repo.record(self.engine, made, 'owner', 60)
        self.assertFalse(booted_repo.get(self.engine, made).is_free)
        self.make_older(models.DistributorInstance, 'claim_expires_at', 61)
        self.assertTrue(booted_repo.claim(self.engine, made, 'other', 60))
        self.assertFalse(booted_repo.record(self.engine, made, 'owner', 60,
                                            state='READY'))
        self.assertFalse(booted_repo.release(self.engine, made, 'owner'))
        self.assertFalse(booted_repo.forget(self.engine, made, 'owner'))
        self.assertEqual('BUILDING',
                         booted_repo.get(self.engine, made).state)
        self.assertTrue(booted_repo.release(self.engine, made, 'other'))
        self.assertTrue(booted_repo.get(self.engine, made).is_free)
        self.assertFalse(booted_repo.claim(self.engine, 'nobody', 'other',
                                           60))

    def test_booting(self):
        made = self.make(1)
        booted_repo.record(self.engine, made, 'owner', 60, is_booted=True)
        found = booted_repo.get(self.engine, made)
        self.assertAge(0, (found.now - found.booted_at).total_seconds())

    def test_ready(self):
        self.make(3)
        self.make_ready(1)
        self.assertEqual({'server1': '192.0.2.1'},
                         booted_repo.get_ready(self.engine))

    def test_ordered(self):
        made = self.make(1)
        self.assertFalse(booted_repo.order(self.engine, made, 'ordered'))
        ready = self.make_ready(2)
        self.assertTrue(booted_repo.order(self.engine, ready, 'ordered'))
        self.assertFalse(booted_repo.order(self.engine, ready, 'again'))
        self.assertEqual('ordered',
                         booted_repo.get(self.engine, ready).reason)

    def test_left(self):
        first, second, building = (self.make_ready(1), self.make_ready(2),
                                   self.make(3))
        both = [first, second]
        self.assertFalse(booted_repo.leave(self.engine, building, 'why',
                                           both))
        self.assertTrue(booted_repo.leave(self.engine, first, 'why', both))
        # What was decided when there were two more counts no longer.
        self.assertFalse(booted_repo.leave(self.engine, second, 'why',
                                           both))
        self.assertEqual({'server2': '192.0.2.2'},
                         booted_repo.get_ready(self.engine))
        found = booted_repo.get(self.engine, first)
        self.assertEqual(('LEAVING', 'why'), (found.state, found.reason))

    def test_left_at_once(self):
        both = [self.make_ready(1), self.make_ready(2)]
        self.assertEqual([False, True], sorted(self.run_at_once([
            functools.partial(booted_repo.leave, self.engine, each, 'why',
                              both) for each in both])))

    def test_forgotten(self):
        """Not while a distributor goes by it, whatever it has."""
        made = self.make_ready(1)
        distributor_repo.sync(self.engine, 'hmsync_ovs', {
            'server1': 'https://192.0.2.1:9444'})
        booted_repo.claim(self.engine, made, 'owner', 60)
        self.assertFalse(booted_repo.forget(self.engine, made, 'owner'))
        distributor_repo.sync(self.engine, 'hmsync_ovs', {})
        self.assertTrue(booted_repo.forget(self.engine, made, 'owner'))
        self.assertFalse(booted_repo.forget(self.engine, made, 'owner'))
        self.assertEqual([], booted_repo.get_all(self.engine))
