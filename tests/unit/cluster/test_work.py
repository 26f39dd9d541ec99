# SPDX-License-Identifier: Apache-2.0

import threading

import fixtures

from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster import work
from tests.unit import base


class TestOfThisProcess(base.TestCase):
    """Threads that begin at once share what remembers something."""

    def run_at_once(self, function):
        found = []
        threads = [threading.Thread(target=lambda: found.append(function()))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(4, len(found))
        self.assertEqual(1, len(set(map(id, found))))

    def setUp(self):
        super().setUp()
        self.barrier = threading.Barrier(4)

    def make(self, *_args, **_values):
        self.barrier.wait(30)
        return object()

    def test_context(self):
        self.useFixture(fixtures.MockPatchObject(work, '_contexts',
                                                 {-1: 'of a parent'}))
        self.useFixture(fixtures.MockPatchObject(work, 'Context', self.make))
        self.useFixture(fixtures.MockPatchObject(work.api, 'create_engine'))
        self.run_at_once(work.get_context)
        self.assertEqual(1, len(work._contexts))

    def test_distributors(self):
        context = work.Context(self.make_conf(), None)
        self.useFixture(fixtures.MockPatchObject(work, 'get_context',
                                                 lambda: context))
        self.useFixture(fixtures.MockPatchObject(backends, 'make',
                                                 self.make))
        self.run_at_once(backends.get)
