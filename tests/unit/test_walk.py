# SPDX-License-Identifier: Apache-2.0

"""The walk of tests/functional/test_walk.py, without a cloud.

Whether it has a line for each block of the pages shows in a second so, and
that it does not pass over what is wrong.
"""

import pathlib
import tempfile

from tests.cloud import pages
from tests.cloud import walk
from tests.functional import test_walk
from tests.functional import walks
from tests.unit import base

PAGE = """
Title
=====

.. code-block:: console

    $ octavia-hmsync db upgrade
    The tables are now at revision 0005 (before: none).
    $ echo $?
    0

Run ``octavia-hmsync sync status``, and ``octavia-hmsync`` alone.

Section
-------

.. code-block:: ini

    [DEFAULT]
    host = one

::

    octavia-hmsync sync retry

.. note:: ``tools/demo.sh``
"""


class ObedientShell(walk.Shell):
    """Prints what a page says."""

    def __init__(self):
        self.done = set()
        self.differences = []

    def run(self, command):
        self.done.add(command)
        return 0, ''

    def run_until(self, command, expected):
        self.done.add(command)
        return 0, True, expected


class PreparedShell(ObedientShell):
    """Prints what it was given.

    :param outputs: {command: (exit code, output)}.
    """

    def __init__(self, outputs):
        super().__init__()
        self._outputs = outputs

    def run(self, command):
        return self._outputs.get(command, (0, ''))

    def run_until(self, command, expected):
        code, output = self.run(command)
        return code, pages.normalize(expected) in (
            '', pages.normalize(output)), output


class Service:
    """One that can be configured, and does nothing."""

    address = '192.0.2.1:5555'

    def __init__(self):
        self.options = {}

    def pause(self):
        pass

    resume = pause


class WalkOnTheSpot(test_walk.WalkMixin):
    """Goes where the walk goes; there is nothing there."""

    def start_cloud(self):
        self.shell = ObedientShell()
        self.managers = [Service() for _ in test_walk.CONTROLLERS]
        self.worker, self.keeper = Service(), Service()
        self.statements = []

    def write_conf(self):
        pass

    def restart(self, *services):
        pass

    def wait_until_uploaded(self, amphorae):
        pass

    def wait_until_kept(self):
        pass

    def execute(self, statement):
        self.statements.append(statement)
        return []

    def find_tables(self):
        return []

    def assert_nothing_failed_over(self):
        pass


class OtherPagesOnTheSpot(walks.NetworkPages, walks.ImagePages,
                          walks.ClusterPages):
    """Likewise, for the pages of the other parts."""

    def nothing(self, *_args, **_kwargs):
        pass

    configure = restart = nothing
    expect_supplied = expect_at_its_port = delete_ports = nothing
    add_image = take_image_back = expect_left_out = expect_images = nothing
    add_cluster = let_a_member_die = delete_cluster = switch_off = nothing


class TestOtherPages(OtherPagesOnTheSpot, base.TestCase):

    def test_each_block_has_its_line(self):
        for name in ('network', 'images', 'clusters'):
            self.shell = ObedientShell()
            self.shell.names = {}
            getattr(self, f'walk_{name}')()
            self.assertGreater(len(self.shell.done), 4, name)


class TestPages(WalkOnTheSpot, base.TestCase):

    def test_each_block_has_its_line(self):
        """What is new on a page is to be walked as well."""
        self.walk_all()
        self.assertEqual([], self.shell.differences)
        self.assertGreater(len(self.shell.done), 10)
        self.assertEqual(1, len(self.statements))

    def test_no_exemption_is_stale(self):
        """What is not run, or not walked, is on a page, or is one."""
        names = {path.name for path in (
            pages.TOP / test_walk.INSTALL).glob('*.rst')}
        self.assertEqual(set(), set(test_walk.NOT_WALKED) - names)
        found = {command for name in (test_walk.README, *(
            f'{test_walk.INSTALL}/{name}' for name in names))
            for command in pages.Page(name).inline}
        self.assertEqual(set(), {*test_walk.NOT_RUN, *walks.NOT_RUN} - found)


class TestWalk(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()), 'page.rst')
        self.path.write_text(PAGE)

    def walk(self, **outputs):
        self.shell = PreparedShell({
            'octavia-hmsync db upgrade': outputs.get('upgrade', (
                0, 'The tables are now at revision 0005 (before: none).')),
            'octavia-hmsync sync status': outputs.get('status', (0, 'x')),
            'echo $?': outputs.get('code', (0, '0'))})
        return walk.Walk(self.path, self.shell)

    def test_right(self):
        page = self.walk()
        page.run('octavia-hmsync db upgrade')
        self.assertEqual({'DEFAULT': {'host': 'one'}}, page.lines())
        page.see('octavia-hmsync sync retry')
        page.end()
        page.run_text()
        self.assertEqual([], self.shell.differences)

    def test_other_output(self):
        page = self.walk(upgrade=(
            0, 'The tables are now at revision 0006 (before: none).'))
        page.run('octavia-hmsync db upgrade')
        (said,) = self.shell.differences
        self.assertIn('revision 0005', said)
        self.assertIn('revision 0006', said)

    def test_other_code(self):
        page = self.walk(code=(0, '1'))
        page.run('octavia-hmsync db upgrade')
        self.assertEqual(1, len(self.shell.differences))

    def test_fails_in_the_text(self):
        page = self.walk(status=(1, 'No.'))
        page.run_text()
        (said,) = self.shell.differences
        self.assertIn('octavia-hmsync sync status', said)

    def test_other_block(self):
        page = self.walk()
        self.assertRaises(AssertionError, page.run, 'octavia-hmsync db list')
        page = self.walk()
        self.assertRaises(AssertionError, page.lines)

    def test_goes_on(self):
        page = self.walk()
        page.run('octavia-hmsync db upgrade')
        self.assertRaises(AssertionError, page.end)

    def test_ends_before(self):
        page = self.walk()
        page.run('octavia-hmsync db upgrade')
        page.lines()
        page.see('octavia-hmsync')
        self.assertRaises(AssertionError, page.see, '')


class TestNormalize(base.TestCase):

    def test_same(self):
        for one, other in (
                ('+---+\n| a |\n+---+\n| 1 |\n+---+',
                 '+------+\n| a    |\n+------+\n| 1    |\n+------+'),
                ('127.29.66.1:5555', '127.200.1.1:5555'),
                ('at 2026-11-21T19:37:43', 'at 2027-01-01T00:00:00'),
                ('2175241f-7266-48ff-98db-d50e432c69df',
                 '07d3dc4e-13fc-46be-a593-e4ff17a810de'),
                ('| adopted | 2 |', '| adopted | 6 |')):
            self.assertEqual(pages.normalize(one), pages.normalize(other))

    def test_other(self):
        for one, other in (
                ('revision 0005', 'revision 0006'),
                ('127.29.66.1:5555', '127.29.66.2:5555'),
                ('127.29.66.1:5555', '127.29.66.1:5556'),
                ('| due | 2 |', '| due | 3 |'),
                ('| status | OPEN |', '| status | CANARY |')):
            self.assertNotEqual(pages.normalize(one), pages.normalize(other))
