# SPDX-License-Identifier: Apache-2.0

"""What fails late."""

import dataclasses
import datetime

from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.rollout import rules
from tests.unit import base

DONE_AT = datetime.datetime(2026, 11, 23)
BEFORE = DONE_AT - datetime.timedelta(seconds=90)
SIGHT = rules.Sight(timeout=60, heard_ago=2, error_for=0)


def amphora(name='new', status='ALLOCATED', created_at=BEFORE, silent_for=3,
            is_busy=False):
    return aftermath_repo.Amphora(name, status, created_at, silent_for,
                                  is_busy)


def watched(*amphorae, provider='amphora', old_status='ONLINE',
            operating_status='ONLINE'):
    return aftermath_repo.Watched(
        'replacement', 'lb', provider, old_status, operating_status, 'new',
        DONE_AT, amphorae or (amphora(), amphora('other')))


class TestWatching(base.TestCase):

    def assertWell(self, *args, sight=SIGHT, **kwargs):
        self.assertIsNone(rules.find_problem(watched(*args, **kwargs),
                                             sight))

    def assertNotWell(self, words, *args, sight=SIGHT, **kwargs):
        self.assertIn(words, rules.find_problem(watched(*args, **kwargs),
                                                sight))

    def test_well(self):
        self.assertWell()

    def test_error(self):
        for provider in ('amphora', rules.compat.CLUSTER_PROVIDER):
            self.assertNotWell('amphora other is in ERROR', amphora(),
                               amphora('other', 'ERROR'), provider=provider)

    def test_failed_over(self):
        later = DONE_AT + datetime.timedelta(seconds=1)
        self.assertNotWell('amphora new is failed over again',
                           amphora(is_busy=True))
        self.assertNotWell('was failed over again, to third',
                           amphora(), amphora('third', created_at=later))
        self.assertNotWell('amphora new is gone', amphora('other'))

    def test_members_of_clusters(self):
        """They come and go, and Octavia marks each as busy."""
        later = DONE_AT + datetime.timedelta(seconds=1)
        provider = rules.compat.CLUSTER_PROVIDER
        self.assertWell(amphora('third', created_at=later, is_busy=True),
                        provider=provider)
        self.assertNotWell('no heartbeat', amphora(silent_for=61),
                           provider=provider)

    def test_silent(self):
        self.assertWell(amphora(silent_for=60))
        for age in (61, None):
            self.assertNotWell('amphora new has sent no heartbeat for more '
                               'than 60 s', amphora(silent_for=age))

    def test_no_amphora_is_heard(self):
        """It is no fault of the image."""
        for heard_ago in (61, None):
            self.assertWell(amphora(silent_for=61), sight=dataclasses.replace(
                SIGHT, heard_ago=heard_ago))

    def test_operating_status(self):
        """One that was not so before, and that lasts."""
        lasting = dataclasses.replace(SIGHT, error_for=60)
        self.assertNotWell('ONLINE before, is ERROR', sight=lasting,
                           operating_status='ERROR')
        self.assertWell(operating_status='ERROR')
        for before in ('ERROR', None):
            self.assertWell(old_status=before, operating_status='ERROR',
                            sight=lasting)
