# SPDX-License-Identifier: Apache-2.0

"""A flow that ends where nobody wants it any more."""

from taskflow import engines
from taskflow.patterns import linear_flow
from taskflow import retry
from taskflow import task

from octavia_hmsync import watched_flow
from tests.unit import base


class Unwanted(Exception):
    pass


class Step(task.Task):
    """Fails as often as it is told to.

    :param done: a list, of what was done.
    """

    def __init__(self, name, done, failures=0):
        super().__init__(name)
        self._done = done
        self._left = failures

    def execute(self):
        self._done.append(self.name)
        if self._left:
            self._left -= 1
            raise ValueError(self.name)
        return f'result of {self.name}'

    def revert(self, *args, **kwargs):
        self._done.append(f'undo {self.name}')


class TestWatch(base.TestCase):

    def setUp(self):
        super().setUp()
        self.done, self.asked = [], []

    def run_flow(self, unwanted_at=None, failures=1, attempts=9):
        """Run one, step, wait, last, that is unwanted some time."""
        waiting = linear_flow.Flow(
            'waiting', retry=retry.Times(attempts, revert_all=True))
        waiting.add(Step('wait', self.done, failures))
        engine = engines.load(linear_flow.Flow('flow').add(
            Step('step', self.done), waiting, Step('last', self.done)))

        def check(name, result):
            self.asked.append((name, result))
            if len(self.asked) == unwanted_at:
                raise Unwanted

        watch = watched_flow.Watch(engine, check)
        engine.run()
        watch.finish()

    def test_wanted(self):
        """It is asked before each attempt, too."""
        self.run_flow()
        self.assertEqual(['step', 'wait', 'undo wait', 'wait', 'last'],
                         self.done)
        self.assertEqual(['step', '', '', 'wait', 'last'],
                         [name for name, _ in self.asked])
        self.assertEqual(('wait', 'result of wait'), self.asked[3])

    def test_unwanted(self):
        self.assertRaises(Unwanted, self.run_flow, unwanted_at=1)
        self.assertEqual(['step'], self.done)

    def test_unwanted_while_it_waits(self):
        """It does not wait as long as it may, and undoes nothing."""
        self.assertRaises(Unwanted, self.run_flow, unwanted_at=4, failures=8)
        self.assertEqual(2, self.done.count('wait'))
        self.assertNotIn('undo step', self.done)
        self.assertNotIn('last', self.done)

    def test_it_fails(self):
        """What fails at last is undone, as without a watch."""
        self.assertRaises(ValueError, self.run_flow, failures=9, attempts=2)
        self.assertIn('undo step', self.done)
