# SPDX-License-Identifier: Apache-2.0

"""Who of several tells of a change, and that it is told once."""

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member as mem
from tests.db_cases import base
from tests.db_cases.sync import doubt
from tests.unit import fakes
from tests.unit.sync.rules import cases

OFFLINE_AFTER = cases.SETTINGS.offline_after
STEADY = 1000
ADDRESS = '192.0.2.1:5555'


class HealthManagerCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.notifier = fakes.Notifier()
        self.subject = planner.Announcer(self.engine, self.notifier)

    def register(self, ip='192.0.2.1', instance='a', host='hm1'):
        hm_repo.register(self.engine, host, ip, 5555, instance,
                         OFFLINE_AFTER)

    def silence(self, seconds=100):
        self.make_older(models.HealthManager, 'keepalive_at', seconds)

    def look(self, steady_for=STEADY, subject=None):
        """Have one of the housekeepers look; returns what it tells."""
        (subject or self.subject).run_once(self.get_listeners(steady_for))
        return self.notifier.take()

    def get_listeners(self, steady_for=STEADY):
        return listening.HealthManagers(hm_repo.get_all(self.engine), (),
                                        cases.SETTINGS,
                                        reader_steady_for=steady_for)

    def test_life(self):
        self.register()
        self.assertEqual([payloads.HealthManagerUp(
            'hm1', ADDRESS, None, None)], self.look())
        self.assertEqual([], self.look())
        hm_repo.change_status(self.engine, 'hm1', mem.ONLINE, mem.DRAINING)
        self.assertEqual([payloads.HealthManagerDraining(
            'hm1', ADDRESS, 'ONLINE', ADDRESS)], self.look())
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.assertEqual([payloads.HealthManagerDown(
            'hm1', ADDRESS, 'DRAINING', ADDRESS)], self.look())
        self.assertEqual([], self.look())
        self.register('2001:db8::9', instance='b')
        self.assertEqual([payloads.HealthManagerUp(
            'hm1', '[2001:db8::9]:5555', 'OFFLINE', ADDRESS)], self.look())

    def test_restart_between_two_looks(self):
        self.register()
        self.look()
        hm_repo.set_offline(self.engine, 'hm1', 'a')
        self.register(instance='b')
        self.assertEqual([], self.look())

    def test_another_address(self):
        self.register()
        self.look()
        self.register('192.0.2.9')
        self.assertEqual([payloads.HealthManagerUp(
            'hm1', '192.0.2.9:5555', 'ONLINE', ADDRESS)], self.look())

    def test_killed(self):
        self.register()
        self.look()
        self.silence()
        self.assertEqual([payloads.HealthManagerDown(
            'hm1', ADDRESS, 'ONLINE', ADDRESS)], self.look())

    def test_nobody_can_tell(self):
        """Whoever looks was cut off from the database himself."""
        self.register()
        self.look()
        self.silence()
        self.assertEqual([], self.look(steady_for=OFFLINE_AFTER))
        self.silence(seconds=0)
        self.assertEqual([], self.look())

    def test_gone_before_anybody_was_told(self):
        self.register()
        self.silence()
        self.assertEqual([], self.look())
        self.register(instance='b')
        self.assertEqual([payloads.HealthManagerUp(
            'hm1', ADDRESS, 'OFFLINE', ADDRESS)], self.look())

    def test_while_it_is_off(self):
        """What is told to nobody is not recorded as told."""
        self.register()
        off = planner.Announcer(self.engine, fakes.Notifier(is_on=False))
        self.assertEqual([], self.look(subject=off))
        self.assertEqual(1, len(self.look()))

    def test_several_at_once(self):
        for n in range(1, 6):
            self.register(f'192.0.2.{n}', host=f'hm{n}')
        listeners = self.get_listeners()
        self.run_at_once([lambda: planner.Announcer(
            self.engine, self.notifier).run_once(listeners)
            for _ in range(4)])
        self.assertEqual([f'hm{n}' for n in range(1, 6)],
                         sorted(p.host for p in self.notifier.take()))

    def test_two_that_see_something_else(self):
        """The last word is the truth, whoever had an old view."""
        self.register()
        self.look()
        self.silence()
        old_view = self.get_listeners()
        self.silence(seconds=0)
        self.subject.run_once(old_view)
        self.assertEqual(payloads.HealthManagerDown,
                         type(self.notifier.take()[0]))
        other = planner.Announcer(self.engine, self.notifier)
        self.assertEqual(payloads.HealthManagerUp,
                         type(self.look(subject=other)[0]))


class AdoptionCases(doubt.AdoptionCases):

    def set_not_adopted(self, unproven=None):
        return doubt_repo.set_not_adopted(
            self.engine, [unproven or self.unproven()])

    def not_adopted_at(self):
        return self.row(self.amphora_id).not_adopted_at

    def test_once(self):
        self.upload(doubt.A)
        seen = self.unproven()
        self.assertFalse(seen.is_named)
        found = self.run_at_once(
            [lambda: self.set_not_adopted(seen) for _ in range(4)])
        self.assertEqual([[], [], [], [self.amphora_id]], sorted(found))
        self.assertTrue(self.unproven().is_named)

    def test_another_list_since(self):
        self.upload(doubt.A)
        self.make_older(models.Amphora, 'applied_at', 100)
        seen = self.unproven()
        self.upload(doubt.B)
        self.assertEqual([], self.set_not_adopted(seen))
        self.assertIsNone(self.not_adopted_at())

    def test_it_does_after_all(self):
        self.upload(doubt.A)
        self.set_not_adopted()
        self.assertIsNotNone(self.not_adopted_at())
        self.assertEqual(1, self.adopt(doubt.HERE))
        self.assertIsNone(self.not_adopted_at())

    def test_until_the_next_list(self):
        self.upload(doubt.A)
        self.set_not_adopted()
        since = self.not_adopted_at()
        # The same list tells nothing new, nor does one that did not arrive.
        self.upload(doubt.A)
        self.upload(doubt.B, result='UNREACHABLE')
        self.assertEqual(since, self.not_adopted_at())
        self.upload(doubt.B)
        self.assertIsNone(self.not_adopted_at())

    def test_many(self):
        self.upload(doubt.A)
        self.patch(rows, 'AT_ONCE', 10)
        self.add_amphorae(24)
        amphora_repo.add_missing(self.engine)
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Amphora).values(
                applied_at=types.utcnow(), result='APPLIED',
                controller_ip_port_list=doubt.HERE))
        unproven = doubt_repo.get_unproven(self.engine)
        self.assertEqual(
            {row.amphora_id for row in unproven},
            set(doubt_repo.set_not_adopted(self.engine, unproven)))
