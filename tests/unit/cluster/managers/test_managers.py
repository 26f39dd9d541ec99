# SPDX-License-Identifier: Apache-2.0

"""Managers of clusters that others have written."""

import contextlib
import io
import pathlib
import re
import textwrap
import types

import fixtures
from stevedore import driver as stevedore_driver
from stevedore import exception as stevedore_exc

from octavia_hmsync.cluster.managers import base as managers_base
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.managers import reference
from octavia_hmsync import exceptions
from tests.unit import base

PAGE = (pathlib.Path(__file__).resolve().parents[4] /
        'doc/source/admin/cluster-operations.rst')
Kind = managers_base.Kind


def load_example():
    """Return the class of the documentation."""
    block = re.search(r'code-block:: python\n\n((?:    .*\n|\n)+)',
                      PAGE.read_text()).group(1)
    found = {}
    exec(textwrap.dedent(block), found)  # noqa: S102
    return found['Cautious']


class TestManagers(base.TestCase):

    def setUp(self):
        super().setUp()
        managers.get.cache_clear()
        self.addCleanup(managers.get.cache_clear)

    def test_own(self):
        self.assertIsInstance(managers.get('reference'),
                              reference.ReferenceManager)
        self.assertIs(managers.get('reference'), managers.get('reference'))

    def test_entry_point(self):
        loaded = stevedore_driver.DriverManager(
            managers.NAMESPACE, 'reference', invoke_on_load=True).driver
        self.assertIsInstance(loaded, reference.ReferenceManager)

    def test_unknown(self):
        def load(namespace, name, **_):
            raise stevedore_exc.NoMatches(f'No {namespace!r} driver {name}')

        self.useFixture(fixtures.MockPatchObject(
            stevedore_driver, 'DriverManager', load))
        e = self.assertRaises(exceptions.InvalidConfiguration, managers.get,
                              'other')
        self.assertIn('"other"', str(e))

    def test_example(self):
        """As the documentation has it, and as whoever asks uses it."""
        self.useFixture(fixtures.MockPatchObject(
            stevedore_driver, 'DriverManager',
            lambda namespace, name, invoke_on_load: types.SimpleNamespace(
                driver=load_example()())))
        manager = managers.get('cautious')
        self.assertIs(manager, managers.get('cautious'))
        cluster = managers_base.Cluster('ACTIVE', 'ACTIVE', 1, 1)
        limits = managers_base.Limits(300)
        one = managers_base.Member('a', 0, 'ACTIVE', 0)
        for order, expected in ((None, ()), ('REPLACE', (Kind.REMOVE,))):
            found = manager.decide(cluster, [one, managers_base.Member(
                'b', None, 'FAILED', 0, ordered=order)], limits)
            self.assertEqual(expected, tuple(a.kind for a in found))
        self.assertEqual('ONLINE', manager.get_status(cluster, [one], limits))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            manager.handle(managers_base.Event(
                managers_base.EventKind.STATUS, 'cluster1', detail='ONLINE'))
        self.assertEqual('status cluster1 ONLINE\n', out.getvalue())
