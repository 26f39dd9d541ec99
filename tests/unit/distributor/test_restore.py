# SPDX-License-Identifier: Apache-2.0

import os
from unittest import mock

import fixtures

from octavia_hmsync.distributor import restore
from octavia_hmsync import exceptions
from tests.cloud import waiting
from tests.unit.distributor import distributors
from tests.unit.distributor import examples

VIP_ID = examples.VIP_ID
IDS = [examples.make_id(0x100 + number) for number in range(20)]


class TestRestorer(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def put(self, *vip_ids):
        for vip_id in vip_ids or [VIP_ID]:
            self.vips.put(vip_id, examples.make_document())

    def lose(self, *vip_ids):
        for vip_id in vip_ids:
            os.unlink(os.path.join(self.backend.directory, f'vip-{vip_id}'))

    def test_nothing_to_do(self):
        self.put()
        self.restorer.run_once()
        self.restorer.run_once()
        self.assertEqual([VIP_ID], self.read_calls('apply'))
        self.assertEqual(('0.tests', None),
                         (self.restorer.get_health().version,
                          self.restorer.get_health().error))

    def test_start_of_the_process(self):
        """All is looked at, and what is right is left as it is."""
        self.put(*IDS)
        self.start()
        self.assertFalse(any(vip.is_in_force for vip in self.vips.list_all()))
        self.restorer.run_once()
        self.assertTrue(all(vip.is_in_force for vip in self.vips.list_all()))
        self.assertEqual(sorted(IDS), self.read_calls('change'))
        self.assertIn('20 VIPs were checked', self.log.output)

    def test_restart_of_open_vswitch(self):
        self.put(*IDS)
        self.lose(*IDS[:5])
        self.restorer.run_once()
        self.assertEqual(sorted(IDS), self.list_forwarded())
        self.assertIn('The flows of 5 VIPs were gone', self.log.output)

    def test_lost_and_not_put_back(self):
        """It is said once that flows are gone, not each time."""
        self.put(*IDS)
        self.lose(*IDS[:5])
        self.order('fail-apply', 'br-int is gone.')
        self.restorer.run_once()
        self.restorer.run_once()
        self.assertEqual(1, self.log.output.count('flows of 5 VIPs'))

    def test_order(self):
        """First what carries traffic, in whatever order it came."""
        self.put(*IDS)
        for vip_id in IDS[1:12]:
            self.vips.put(vip_id, examples.make_document(8, active=False))
        self.start()
        self.assertEqual([IDS[0], *IDS[12:], *IDS[1:12]],
                         self.vips.list_due())

    def test_both(self):
        self.put(*IDS)
        self.lose(*IDS)
        self.start()
        self.restorer.run_once()
        self.assertEqual(sorted(IDS), self.list_forwarded())

    def test_open_vswitch_that_does_not_work(self):
        for number in range(3):
            self.order('fail-check', 'ovsdb-server does not answer.')
            self.restorer.run_once()
            self.restorer.run_once()
            self.assertEqual('ovsdb-server does not answer.',
                             self.restorer.get_health().error)
            self.order('fail-check', None)
            self.restorer.run_once()
            self.assertIsNone(self.restorer.get_health().error)
        # Each time once.
        self.assertEqual(3, self.log.output.count('does not answer'))
        self.assertEqual(3, self.log.output.count('0.tests works'))

    def test_hanging(self):
        """Whoever asks is told, though the thread gets no answer."""
        self.restorer.run_once()
        self.clock.now += 200
        health = self.restorer.get_health()
        self.assertEqual((None, 'Open vSwitch has not answered for 200 s'),
                         (health.version, health.error))

    def test_some_that_cannot_be_put_in_force(self):
        """A round ends before each of many has waited for its own limit."""
        for name, value in (('_AT_ONCE', 4), ('_ENOUGH', 8)):
            self.useFixture(fixtures.MockPatchObject(restore, name, value))
        self.put(*IDS)
        self.lose(*IDS)
        self.start()
        self.order('fail-apply', 'br-int is gone.')
        self.restorer.run_once()
        tried = len(self.read_calls('apply')) - 20
        self.assertLessEqual(restore._ENOUGH, tried)
        # Others were under way.
        self.assertGreater(restore._ENOUGH + restore._AT_ONCE, tried)
        self.assertIn('20 VIPs are not in force', self.log.output)
        self.restorer.run_once()
        self.assertEqual(1, self.log.output.count('br-int is gone.'))
        self.order('fail-apply', None)
        self.restorer.run_once()
        self.assertEqual(sorted(IDS), self.list_forwarded())

    def test_those_that_fail_stop_nobody_else(self):
        self.put(*IDS)
        self.lose(*IDS)
        self.start()
        apply = self.backend.apply

        def refuse(vip_id, *args, **kwargs):
            if vip_id in IDS[:6]:
                raise exceptions.VswitchUnavailable('its port is gone.')
            return apply(vip_id, *args, **kwargs)

        with mock.patch.object(self.backend, 'apply', autospec=True,
                               side_effect=refuse):
            self.restorer.run_once()
            self.restorer.run_once()
        self.assertEqual(sorted(IDS[6:]), self.list_forwarded())

    def test_fault(self):
        self.put(*IDS)
        self.lose(*IDS[:2])
        self.start()
        self.order('break-apply', 'yes')
        self.restorer.run_once()
        self.assertIn('Traceback', self.log.output)
        self.order('break-apply', None)
        self.restorer.run_once()
        self.assertEqual(sorted(IDS), self.list_forwarded())

    def test_strays(self):
        """What nobody remembers is left alone, and said once."""
        self.put(*IDS[:3])
        self.kept.forget(IDS[0])
        os.rename(self.kept._path(IDS[1]), self.kept._path(IDS[1]) +
                  '.corrupt')
        self.start()
        for _ in range(2 * restore._STRAY_ROUNDS):
            self.restorer.run_once()
        self.assertEqual(IDS[:3], self.list_forwarded())
        unknown = {vip.id: vip.error for vip in self.vips.list_all()
                   if vip.document is None}
        self.assertEqual({
            IDS[0]: 'Open vSwitch has it, and it is not remembered',
            IDS[1]: 'what was remembered of it cannot be read'}, unknown)
        self.assertEqual(1, self.log.output.count('state_path changed'))
        # Either way it is known again.
        self.assertTrue(self.vips.delete(IDS[0]))
        self.put(IDS[1])
        self.assertEqual(IDS[1:3],
                         [vip.id for vip in self.vips.list_all()])
        self.assertEqual(IDS[1:3], self.list_forwarded())
        self.assertFalse(os.path.exists(self.kept._path(IDS[1]) +
                                        '.corrupt'))

    def test_transition_that_cannot_be_read(self):
        self.put()
        entry = self.kept.load()[VIP_ID]
        entry.transition.clear()
        self.kept.save(VIP_ID, entry)
        self.start()
        self.restorer.run_once()
        self.assertTrue(self.vips.get(VIP_ID).is_in_force)
        self.assertIn('since', self.kept.load()[VIP_ID].transition)

    def test_thread(self):
        self.put()
        restorer = restore.Restorer(self.vips, .01)
        with mock.patch.object(restorer, 'run_once', autospec=True,
                               side_effect=[KeyError('x'), None] * 1000):
            restorer.start()
            waiting.wait_for(lambda: restorer.run_once.call_count > 5,
                             'sign of more rounds')
            restorer.stop(60)
        self.assertFalse(restorer._thread.is_alive())
        self.assertIn('A round of checking the VIPs failed',
                      self.log.output)
