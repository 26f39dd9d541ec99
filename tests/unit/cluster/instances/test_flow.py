# SPDX-License-Identifier: Apache-2.0

"""Distributors are booted, and whoever dies with it leaves nothing."""

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync import exceptions
from tests.unit.cluster import platform


class TestBoot(platform.PlatformTestCase):

    def test_booted(self):
        self.keep()
        self.assertWhole()
        self.keep(2)
        self.assertWhole()
        self.assertEqual({one.compute_id: one.address for one in
                          booted_repo.get_all(self.engine)},
                         booted_repo.get_ready(self.engine))
        steps = [step.split()[0] for step in self.platform.steps]
        self.assertEqual(2, steps.count('boot'))

    def test_refused(self):
        """Whatever says no: nothing is left, and it is tried again."""
        for part in ('create port', 'created port', 'make data', 'boot ',
                     'booted'):
            with self.subTest(part):
                self.empty()
                self.platform.instances.clear()
                self.platform.ports.clear()
                self.reborn()
                self.platform.refuse(part, times=2)
                self.keep()
                self.assertEqual({}, self.platform.ports)
                self.assertEqual({}, self.platform.instances)
                self.assertEqual(
                    {f'no {part}'}, {
                        one.reason[:len(f'no {part}')]
                        for one in booted_repo.get_all(self.engine)})
                # Not at once.
                self.keep(3)
                self.assertEqual({}, self.platform.instances)
                self.settle()
                self.assertWhole()

    def test_fault(self):
        """An instance that Nova cannot boot does not wait for its time."""
        self.platform.silent |= {
            f'https://192.0.2.{n}:9444' for n in range(255)}

        def rule(text):
            if text.startswith('look at'):
                self.platform.statuses[text.split()[-1]] = 'ERROR'

        self.platform.rules.append(rule)
        self.keep()
        self.assertEqual({'LEAVING'}, set(self.get_states()))
        self.assertIn('is ERROR before it ever answered',
                      booted_repo.get_all(self.engine)[0].reason)
        self.platform.silent.clear()
        self.platform.rules.clear()
        self.settle()
        self.assertWhole()

    def test_silent(self):
        self.platform.silent |= {
            f'https://192.0.2.{n}:9444' for n in range(255)}
        self.platform.rules.append(
            lambda text: setattr(self, 'now', self.now + 60))
        self.keep()
        self.assertIn('it does not answer within',
                      booted_repo.get_all(self.engine)[0].reason)
        self.platform.silent.clear()
        self.settle()
        self.assertWhole()

    def test_nobody_tells(self):
        """Nova is away for a moment: the boot goes on."""
        self.platform.silent |= {
            f'https://192.0.2.{n}:9444' for n in range(255)}
        looks = []

        def rule(text):
            if text.startswith('look at'):
                looks.append(text)
                if len(looks) == 4:
                    self.platform.silent.clear()
                raise exceptions.CloudUnavailable('away')

        self.platform.rules.append(rule)
        self.keep()
        self.assertWhole()

    def test_late(self):
        """Nova boots what it gave no answer for: it is found and deleted."""
        self.platform.is_late = True
        self.keep()
        self.assertEqual(['LEAVING'] * 2, self.get_states())
        self.platform.is_late = False
        self.platform.instances.update(self.platform.late)
        # It has not been so long.
        self.keep()
        self.assertEqual({}, self.platform.instances)
        self.assertIn('LEAVING', self.get_states())
        self.settle()
        self.assertWhole()

    def test_stopped(self):
        """A process that ends takes back what it was booting."""
        self.platform.rules.append(
            lambda text: text.startswith('booted') and
            self.keeper.begin_to_stop())
        self.keep()
        self.assertEqual({}, self.platform.instances)
        self.assertEqual({}, self.platform.ports)
        self.keep()
        self.reborn()
        self.settle()
        self.assertWhole()

    def test_lost(self):
        """Somebody else took it back while Nova took its time."""
        def rule(text):
            if text.startswith('booted'):
                self.lapse()
                instance_id = text.split()[-1]
                self.assertTrue(booted_repo.claim(
                    self.engine, instance_id, 'other', 60))
                self.assertTrue(booted_repo.forget(
                    self.engine, instance_id, 'other'))
                self.platform.ports.pop(instance_id)

        self.platform.rules.append(rule)
        self.keep()
        self.assertEqual(({}, []), (self.platform.instances,
                                    self.get_states()))
        self.platform.rules.clear()
        self.settle()
        self.assertWhole()

    def test_two_at_once(self):
        others = [self.make_keeper() for _ in range(3)]
        self.run_at_once([one.run_once for one in (self.keeper, *others)])
        for keeper in (*others, self.keeper):
            self.keeper = keeper
            self.wait()
        self.assertWhole()

    def test_option_missing(self):
        self.conf.set_override('distributor_flavor_id', None,
                               'hmsync_cluster')
        e = self.assertRaises(exceptions.InvalidConfiguration,
                              self.keeper.run_once)
        self.assertIn('distributor_flavor_id is not set', str(e))
        self.assertEqual([], self.get_states())

    def test_none(self):
        self.conf.set_override('distributor_instances', 0, 'hmsync_cluster')
        self.keep()
        self.assertEqual([], self.platform.steps)

    def test_gone(self):
        """Somebody deleted both instances: two others are booted."""
        self.limit = 2
        self.conf.set_override('distributor_instances', 2, 'hmsync_cluster')
        self.settle(2)
        old = set(self.platform.instances)
        self.platform.instances.clear()
        self.set_silent()
        self.settle()
        self.assertWhole()
        self.assertFalse(old & set(self.platform.instances))

    def set_silent(self):
        for row in self.sync(status='OFFLINE'):
            platform.distributor_repo.set_status(self.engine, row.id,
                                                 'OFFLINE')
        self.make_older(platform.models.Distributor, 'last_seen', 600)

    def test_away(self):
        """Nobody answers, and all instances run: nothing is done."""
        self.settle(2)
        before = dict(self.platform.instances)
        self.set_silent()
        self.keep(3)
        self.assertEqual(before, self.platform.instances)
        self.assertEqual(['READY'] * 2, self.get_states())

    def test_dead(self):
        """One alone does not answer: another one is booted, and it goes."""
        self.settle(2)
        dead = booted_repo.get_all(self.engine)[0]
        self.platform.silent.add(f'https://{dead.address}:9444')
        row = next(row for row in self.sync() if row.name == dead.compute_id)
        platform.distributor_repo.set_status(self.engine, row.id, 'OFFLINE')
        self.make_older(platform.models.Distributor, 'last_seen', 600,
                        id=row.id)
        self.settle()
        self.assertWhole()
        self.assertNotIn(dead.compute_id, self.platform.instances)

    def test_ordered(self):
        """The new one is there before the old one goes, at the limit too."""
        self.conf.set_override('distributor_instances', 2, 'hmsync_cluster')
        self.settle(2)
        old = booted_repo.get_all(self.engine)[0]
        self.assertTrue(booted_repo.order(self.engine, old.id, 'ordered'))
        self.assertFalse(booted_repo.order(self.engine, old.id, 'ordered'))
        self.keep()
        self.assertEqual(['READY'] * 3, self.get_states())
        self.settle()
        self.assertWhole()
        self.assertNotIn(old.compute_id, self.platform.instances)


class TestDeaths(platform.PlatformTestCase):
    """Whoever dies, and wherever: somebody else goes on."""

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.lists(st.integers(0, 25), min_size=1, max_size=3),
                      st.booleans())
    def test_boot(self, deaths, lapses):
        self.start()
        for step in deaths:
            self.platform.die_at(step)
            self.keep(2)
            self.reborn()
            if lapses:
                self.lapse()
        self.settle()
        self.assertWhole()

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.lists(st.integers(0, 25), min_size=1, max_size=3))
    def test_replace(self, deaths):
        self.start()
        self.settle(2)
        old = booted_repo.get_all(self.engine)[0]
        booted_repo.order(self.engine, old.id, 'ordered')
        for step in deaths:
            self.platform.die_at(step)
            self.keep(2)
            self.reborn()
            self.sync()
            self.assertLessEqual(2, len(self.platform.instances))
            self.lapse()
        self.settle()
        self.assertWhole()
        self.assertNotIn(old.compute_id, self.platform.instances)

    def start(self):
        self.empty()
        self.reborn()
        self.platform.instances.clear()
        self.platform.ports.clear()
