# SPDX-License-Identifier: Apache-2.0

"""How the flow of Octavia is run, and what becomes of its id."""

from unittest import mock

import fixtures
from taskflow.patterns import linear_flow
from taskflow import retry
from taskflow import task

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import build
from octavia_hmsync.image.replace import work as work_
from tests.unit import base

CREATE = 'prefix-' + build.compat_amphora.CREATE_TASK


class Step(task.Task):

    def __init__(self, name, done, error=None):
        super().__init__(name=name)
        self.done = done
        self.error = error

    def execute(self):
        self.done.append(self.name)
        if self.error:
            raise self.error
        return 'new-amphora'

    def revert(self, *args, **kwargs):
        self.done.append(f'undo {self.name}')


class TestBuild(base.TestCase):

    def setUp(self):
        super().setUp()
        self.done = []
        self.work = mock.Mock(spec=work_.Work, new_id=None)
        self.work.enter.side_effect = (
            lambda phase, **ids: self.done.append((str(phase), ids)))

    def build(self, *steps, error=None):
        flow = linear_flow.Flow('build', retry=retry.AlwaysRevert())
        for name in steps:
            flow.add(Step(name, self.done, error if name == steps[-1]
                          else None))
        self.useFixture(fixtures.MockPatchObject(
            build.compat_amphora, 'make_build_flow',
            lambda load_balancer, role: (flow, {})))
        build.build(self.work, mock.sentinel.load_balancer, 'MASTER')

    def test_id_comes_first(self):
        """Nothing is built before the row names the amphora."""
        self.build('before', CREATE, 'boot', 'plug')
        self.assertEqual(
            ['before', CREATE, ('BUILD', {'new_amphora_id': 'new-amphora'}),
             'boot', 'plug'], self.done)
        self.assertEqual('new-amphora', self.work.new_id)

    def test_failed(self):
        e = self.assertRaises(exceptions.BuildFailed, self.build, CREATE,
                              'boot', error=ValueError('No valid\nhost.'))
        self.assertEqual('The new amphora could not be built: ValueError: '
                         'No valid host.', str(e))
        self.assertEqual(['boot', 'undo boot', f'undo {CREATE}'],
                         self.done[2:])

    def test_lost(self):
        """Nothing more is done, and nothing undone: it is somebody else's."""
        self.work.enter.side_effect = exceptions.Lost
        self.assertRaises(exceptions.Lost, self.build, CREATE, 'boot')
        self.assertEqual([CREATE], self.done)

    def test_stopped(self):
        self.work.check.side_effect = [None, None, exceptions.Stopped]
        self.assertRaises(exceptions.Stopped, self.build, 'before', CREATE,
                          'boot', 'plug', 'more')
        self.assertEqual('boot', self.done[-1])

    def test_nobody_can_record(self):
        """Without the database nothing is built, either."""
        self.work.enter.side_effect = OSError('down')
        self.assertRaises(OSError, self.build, CREATE, 'boot')
        self.assertEqual([CREATE], self.done)
