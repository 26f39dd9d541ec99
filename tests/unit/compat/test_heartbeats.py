# SPDX-License-Identifier: Apache-2.0

"""The message that Octavia calls statistics drivers for."""

import types

from octavia.amphorae.drivers.health import heartbeat_udp

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.cli import finding
from octavia_hmsync.compat import heartbeats
from octavia_hmsync.services.checks import run
from tests.unit import base

# As Octavia's own description of it has them.
LISTENER = {'status': 'OPEN', 'stats': {
    'ereq': 0, 'conns': 0, 'totconns': 0, 'rx': 0, 'tx': 0}}
VERSION_1 = {'id': 'amphora', 'ver': 1, 'listeners': {'listener': {
    **LISTENER, 'pools': {'pool': {'status': 'UP', 'members': {
        'one': 'UP', 'two': 'DOWN'}}}}}}
VERSION_2 = {'id': 'amphora', 'seq': 67, 'ver': 2,
             'listeners': {'listener': LISTENER},
             'pools': {'pool:listener': {'status': 'UP', 'members': {
                 'one': 'UP', 'two': 'DOWN'}}}}


class TestFindMessage(base.TestCase):

    def setUp(self):
        super().setUp()
        self.found = []
        self.patch(heartbeat_udp.stats_base, '_STATS_HANDLERS',
                   types.SimpleNamespace(map_method=self._call))

    def _call(self, *args, **kwargs):
        self.found.append(heartbeats.find_message())

    def test_of_octavia(self):
        for message in (VERSION_1, VERSION_2, {**VERSION_2, 'ver': 3},
                        {**VERSION_2, 'listeners': {}}):
            heartbeat_udp.update_stats(message)
            self.assertIs(message, self.found[-1])
        self.assertIsNone(heartbeats.why_not())

    def test_called_by_another(self):
        """As of a provider driver, or in another release."""
        self.assertIsNone(heartbeats.find_message())
        heartbeat_udp.stats_base.update_stats_via_driver([])
        self.assertEqual([None], self.found)

        def update_stats(health_message):
            return heartbeats.find_message()

        self.assertIsNone(update_stats(VERSION_2))

    def test_upgrade_check_tells(self):
        self.patch(run.known_octavia, 'why_not_replace', lambda: None)
        self.assertEqual(finding.success(),
                         run.check_replacements(None, None))
        self.patch(heartbeats, 'why_not', lambda: 'it is gone')
        self.assertEqual(finding.warning(
            'What an amphora itself says of its members cannot be read in '
            'the installed Octavia: it is gone. A new amphora that reaches '
            'none of them may be taken for a good one. Report it, with the '
            'release of Octavia.'),
            run.check_replacements(None, None))

    def test_another_release(self):
        with self.subTest('another parameter'):
            self.patch(heartbeat_udp, 'update_stats', lambda message: None)
            self.assertIn('has no parameter health_message any more',
                          heartbeats.why_not())
        self.patch(heartbeats, '_FUNCTION', 'gone')
        self.assertEqual('octavia.amphorae.drivers.health.heartbeat_udp.gone '
                         'is gone', heartbeats.why_not())


class TestRead(base.TestCase):

    def test_versions(self):
        for message in (VERSION_1, VERSION_2):
            self.assertEqual(heartbeat.Heartbeat(
                'amphora', frozenset({'listener'}),
                {'one': 'ONLINE', 'two': 'ERROR'}), heartbeat.read(message))

    def test_statuses(self):
        """Those of haproxy and of keepalived."""
        for said, status in (
                ('UP', 'ONLINE'), ('UP 1/3', 'ONLINE'), ('DOWN', 'ERROR'),
                ('DOWN 1/2', 'ERROR'), ('DRAIN', 'DRAINING'),
                ('MAINT', 'OFFLINE'), ('no check', 'NO_MONITOR'),
                ('RESTARTING', 'UNKNOWN'), ('NOLB', 'UNKNOWN')):
            self.assertEqual({'member': status}, heartbeat.read({
                **VERSION_2, 'pools': {'pool:listener': {
                    'status': 'UP', 'members': {'member': said}}}}).members)

    def test_pool_of_several_listeners(self):
        """Each has a view of its own; the worst counts."""
        for one, two in (('UP', 'DOWN'), ('DOWN', 'UP'), ('DOWN', 'DOWN')):
            self.assertEqual({'member': 'ERROR'}, heartbeat.read({
                **VERSION_2, 'pools': {
                    'pool:one': {'status': 'UP', 'members': {'member': one}},
                    'pool:two': {'status': 'UP', 'members': {'member': two}},
                }}).members)

    def test_nothing(self):
        self.assertEqual(
            heartbeat.Heartbeat('amphora', frozenset(), {}), heartbeat.read(
                {'id': 'amphora', 'listeners': {}, 'pools': {}, 'ver': 3}))
