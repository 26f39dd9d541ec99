# SPDX-License-Identifier: Apache-2.0

"""The options of tools/demo.sh, and what it says of an image upgrade."""

import importlib.util
import io
import pathlib
from unittest import mock

from tests.unit import base

TOOLS = pathlib.Path(__file__).resolve().parents[2] / 'tools'


def load(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestArguments(base.TestCase):

    def parse(self, *argv):
        return load('demo').parse_arguments(argv)

    def refuse(self, *argv):
        with mock.patch('sys.stderr', io.StringIO()) as stderr:
            self.assertRaises(SystemExit, self.parse, *argv)
        return stderr.getvalue()

    def test_none(self):
        arguments = self.parse()
        self.assertEqual((6, False, False, None), (
            arguments.amphorae, arguments.image_upgrade,
            arguments.without_hmsync, arguments.keep_logs))

    def test_image_upgrade(self):
        arguments = self.parse('--image-upgrade', '--without-hmsync')
        self.assertTrue(arguments.image_upgrade)
        self.assertTrue(arguments.without_hmsync)

    def test_real(self):
        arguments = self.parse('--real')
        self.assertTrue(arguments.image_upgrade)
        self.assertIn('--cluster', self.refuse('--real', '--cluster'))

    def test_cluster(self):
        self.assertTrue(self.parse('--cluster').cluster)
        for other in (['--image-upgrade'], ['--without-hmsync'],
                      ['--amphorae', '6']):
            self.assertIn('--cluster', self.refuse('--cluster', *other))

    def test_abbreviation(self):
        """What demo.sh would not see is none of ours."""
        self.assertIn('--image', self.refuse('--image'))

    def test_amphorae(self):
        self.assertEqual(150, self.parse('--amphorae', '150').amphorae)
        for number in ('0', '151'):
            self.assertIn('from 1 to 150', self.refuse('--amphorae', number))
        self.assertIn('--image-upgrade', self.refuse(
            '--image-upgrade', '--amphorae', '6'))


class TestImageUpgrade(base.TestCase):

    def setUp(self):
        super().setUp()
        self.demo = load('demo_image')

    def row(self, topology='SINGLE', failed=0, is_upgraded=True):
        return self.demo.Row('web', topology, 500, failed, failed / 50,
                             is_upgraded)

    def test_table(self):
        self.assertEqual(
            'load balancer  topology        requests  failed  dark time\n'
            '----------------------------------------------------------\n'
            'web            SINGLE               500       0     0.00 s\n'
            'web            ACTIVE_STANDBY       500      31     0.62 s',
            self.demo.make_table([self.row(),
                                  self.row('ACTIVE_STANDBY', 31)]))

    def test_promise(self):
        find = self.demo.find_broken_promise
        # Who keeps a connection to a pair sees it move.
        self.assertIsNone(find([self.row(), self.row('ACTIVE_STANDBY', 3)]))
        self.assertIn('1 requests to web', find([self.row(failed=1)]))
        self.assertIn('newer image', find([
            self.row(), self.row('ACTIVE_STANDBY', is_upgraded=False)]))


class TestCluster(base.TestCase):

    def setUp(self):
        super().setUp()
        self.demo = load('demo_cluster')

    def row(self, broken=0, own=0):
        return self.demo.Row('a member is killed', 200, broken, own, 500, 0,
                             12.34)

    def test_table(self):
        head, line, row = self.demo.make_table([self.row(51, 51)]).split('\n')
        self.assertEqual(len(head), len(line))
        self.assertEqual(
            ['200', '51', '51', '500', '0', '12.3', 's'],
            row.removeprefix('a member is killed').split())

    def test_promise(self):
        find = self.demo.find_broken_promise
        self.assertIsNone(find([self.row(), self.row(3, 4)]))
        self.assertIn('5 connections broke', find([self.row(5, 4)]))
