# SPDX-License-Identifier: Apache-2.0

"""The example of a manager of clusters outside the plugin."""

import importlib.util
import subprocess

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import cluster as cluster_repo
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.cli import base
from tests.unit import examples


def load():
    spec = importlib.util.spec_from_file_location(
        'elastic', examples.EXAMPLES / 'cluster-manager/elastic.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


elastic = load()
CLUSTER = 'cluster1'


class TestChoose(base.CommandTestCase):

    def test_follows(self):
        for load, current, expected in (
                (0, 1, 1), (100, 1, 1), (101, 1, 2), (399, 2, 4),
                # One less would be full again soon.
                (290, 4, 4), (270, 4, 4), (200, 4, 3), (0, 4, 1),
                (5000, 4, 8)):
            self.assertEqual(expected, elastic.choose(load, current, 100, 1,
                                                      8), (load, current))

    @hypothesis.given(st.floats(0, 1e6), st.integers(1, 8))
    def test_settles(self, load, current):
        """At the same load it wants the same a second time."""
        wanted = elastic.choose(load, current, 1000.0, 1, 8)
        self.assertEqual(wanted, elastic.choose(load, wanted, 1000.0, 1, 8))
        self.assertTrue(wanted == 8 or wanted * 1000 >= load)


class TestFollow(base.CommandTestCase):
    """By the commands, on real rows."""

    def setUp(self):
        super().setUp()
        lb = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.change('load_balancer', lb, name='name1')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=lb, desired_size=2, min_size=2))
        cluster_repo.set_status(self.engine, CLUSTER, 'ACTIVE', 'ONLINE')
        self.load = '0'
        self.options = elastic.parse([
            '--cluster', 'name1', '--per-member', '100', '--most', '6', '--',
            'load', 'name1'])

    def ask(self, command):
        if command[0] == 'load':
            return self.load
        self.assertEqual('octavia-hmsync', command[0])
        code, out, err = self.run_command(*command[1:])
        if code:
            raise subprocess.CalledProcessError(code, command, out, err)
        return out

    def follow(self, load):
        self.load = load
        elastic.follow(self.options, self.ask)
        return cluster_repo.get(self.engine, CLUSTER).desired_size

    def test_follow(self):
        self.assertEqual([2, 5, 5, 4, 6, 2], [
            self.follow(each) for each in ('150\n', '420', '400', '270',
                                           '9000', '0')])

    def test_no_number(self):
        for load in ('', 'down', 'nan', 'inf', '-3'):
            self.assertRaises(ValueError, self.follow, load)
        self.assertEqual(2, cluster_repo.get(self.engine,
                                             CLUSTER).desired_size)

    def test_refused(self):
        """As of one that is deleted by now."""
        cluster_repo.delete(self.engine, CLUSTER)
        self.assertRaises(subprocess.CalledProcessError, self.follow, '500')
