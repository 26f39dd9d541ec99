# SPDX-License-Identifier: Apache-2.0

"""The soak tests that step in are told of each step.

They are run seldom, and a name that has changed leaves them without a step.
"""

import functools
import importlib.util
import pathlib
import re

from oslo_utils import uuidutils
from oslotest import base

import octavia_hmsync

_PACKAGE = pathlib.Path(octavia_hmsync.__file__).parent
_STEPS = (pathlib.Path(__file__).parents[1] /
          'cloud/site/hmsync_tests_steps.py')


class TestSteps(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        spec = importlib.util.spec_from_file_location('steps', _STEPS)
        self.steps = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.steps)

    def test_each_call_is_there(self):
        names = [(module, name) for module, calls in self.steps._STEPS.items()
                 for name in calls if module.startswith('octavia_hmsync.')]
        self.assertGreater(len(names), 20)
        for module, name in names:
            self.assertTrue(callable(functools.reduce(
                getattr, name.split('.'), importlib.import_module(module))))

    def test_each_crew_is_known(self):
        """By the names of its threads."""
        crews = [name for path in _PACKAGE.rglob('*.py') for name in
                 re.findall(r"\bcrew\.Crew[^=]*= crew\.Crew\(\s*'([a-z-]+)'",
                            path.read_text())]
        # No test steps in where distributors are booted.
        self.assertEqual({'hmsync-replace', 'hmsync-cluster',
                          'hmsync-cluster-urgent', 'hmsync-distributor'},
                         set(crews))
        for name in set(crews) - {'hmsync-distributor'}:
            key = uuidutils.generate_uuid()
            found = self.steps._THREAD.match(f'{name}-{key}')
            self.assertTrue(found, name)
            self.assertEqual(key, found[1])
