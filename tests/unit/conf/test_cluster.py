# SPDX-License-Identifier: Apache-2.0

import itertools

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions
from tests.unit import base

# URLs as somebody writes them, by chance.
PIECES = st.lists(st.sampled_from(
    ['https://', 'http://', 'network1', '10.0.0.7', '[fd00::7]', ':', '9444',
     '0', '99999', '/', '=', '@', '?', '#', ' ', 'é', '%', '[', ']']),
    max_size=6).map(''.join)


class TestDistributors(base.TestCase):

    def test_names(self):
        self.assertEqual(
            (cluster_conf.Distributor('network1', 'https://network1:9444'),
             cluster_conf.Distributor('network2', 'https://10.0.0.7:9555'),
             cluster_conf.Distributor('fd00::7', 'https://[fd00::7]:9444')),
            cluster_conf.parse_distributors([
                'https://network1', ' network2 = https://10.0.0.7:9555/',
                'https://[fd00::7]:9444']))

    def assertRefused(self, words, *texts):
        e = self.assertRaises(exceptions.InvalidConfiguration,
                              cluster_conf.parse_distributors, list(texts))
        self.assertIn('[hmsync_cluster] distributors cannot be used', str(e))
        self.assertIn(words, str(e))
        self.assertNotIn('\n', str(e))

    def test_bad_ones(self):
        for words, text in (
                ('only https', 'http://network1:9444'),
                ('only https', 'network1:9444'),
                ('only https', 'network1'),
                ('only https', ''),
                ('no host', 'https://'),
                ('no host', 'https://:9444'),
                ('no host', 'https://network 1:9444'),
                ('no host', 'https://network1:0'),
                ('Port', 'https://network1:https'),
                ('ort', 'https://network1:123456'),
                ('nvalid IPv6', 'https://[fd00::7:9444'),
                ('more than a host', 'https://network1:9444/v1'),
                ('more than a host', 'https://network1:9444?a=b'),
                ('more than a host', 'https://admin@network1:9444'),
                ('no name of a node', '=https://network1:9444'),
                ('no name of a node', 'a b=https://network1:9444'),
                ('no name of a node', 'a\nb=https://network1:9444')):
            self.assertRefused(words, text)

    def test_twice(self):
        self.assertRefused('twice', 'a=https://h:1', 'b=https://h:1')
        self.assertRefused('has the name a, too', 'a=https://h:1',
                           'A=https://h:2')

    @given(st.lists(PIECES, max_size=3))
    def test_anything(self, texts):
        try:
            found = cluster_conf.parse_distributors(texts)
        except exceptions.InvalidConfiguration:
            return
        # What was read is written in one way, and read the same again.
        self.assertEqual(found, cluster_conf.parse_distributors(
            [d.url if d.name in d.url else f'{d.name}={d.url}'
             for d in found]))
        for one, other in itertools.combinations(found, 2):
            self.assertNotEqual(one.name, other.name)
            self.assertNotEqual(one.url, other.url)


class TestCheck(base.TestCase):

    def test_defaults(self):
        cluster_conf.check(self.make_conf())

    def test_sizes(self):
        for words, options in (
                ('min_size = 3 is more than desired_size = 2',
                 {'min_size': 3}),
                ('desired_size = 9 is more than size_limit = 8',
                 {'desired_size': 9})):
            e = self.assertRaises(
                exceptions.InvalidConfiguration, cluster_conf.check,
                self.make_conf(hmsync_cluster=options))
            self.assertIn(words, str(e))

    def test_distributors(self):
        e = self.assertRaises(
            exceptions.InvalidConfiguration, cluster_conf.check,
            self.make_conf(hmsync_cluster={'distributors': ['network1']}))
        self.assertIn('"network1"', str(e))
