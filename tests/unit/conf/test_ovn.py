# SPDX-License-Identifier: Apache-2.0

"""[ovn] of ovn-octavia-provider, in the files of Octavia."""

import os

import fixtures
from oslo_config import cfg
from ovs import stream

from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.conf import ovn
from tests.cloud import octavia_conf
from tests.unit import base

FILES = ('private_key', 'certificate', 'ca_cert')


class TestOVN(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def parse(self, **options):
        path = os.path.join(self.directory, 'octavia.conf')
        octavia_conf.write(path, {'ovn': options} if options else {})
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[path], default_config_dirs=[])
        return conf

    def test_what_the_file_has(self):
        conf = self.parse(ovn_nb_connection='ssl:192.0.2.1:6641,'
                                            'ssl:192.0.2.2:6641',
                          ovn_nb_private_key='/nb.key')
        self.assertEqual(
            ovn.Database(('ssl:192.0.2.1:6641', 'ssl:192.0.2.2:6641'), True,
                         {'ovn_nb_private_key': '/nb.key',
                          'ovn_nb_certificate': None,
                          'ovn_nb_ca_cert': None}),
            ovn.read(conf, ovn.NORTHBOUND))
        # The provider registers these in octavia-api, and may.
        self.assertNotIn('ovn', conf)

    def test_file_that_changes(self):
        for address in ('tcp:192.0.2.1:6642', 'tcp:192.0.2.2:6642'):
            conf = self.parse(ovn_sb_connection=address)
            path, = conf.config_file
            os.utime(path, ns=(0, int(address[-6])))
            self.assertEqual((address,),
                             ovn.read(conf, ovn.SOUTHBOUND).remotes)

    def test_not_set(self):
        found = ovn.read(self.parse(), ovn.SOUTHBOUND)
        self.assertEqual(('unix:/var/run/ovn/ovnsb_db.sock',), found.remotes)
        self.assertFalse(found.is_set)

    def test_defaults_of_the_provider(self):
        conf = self.parse()
        conf.register_opts([cfg.ListOpt('ovn_nb_connection',
                                        default=['tcp:127.0.0.1:6641']),
                            *(cfg.StrOpt(f'ovn_nb_{name}', default='')
                              for name in FILES)], group='ovn')
        self.assertFalse(ovn.read(conf, ovn.NORTHBOUND).is_set)
        conf.set_override('ovn_nb_connection', ['tcp:192.0.2.1:6641'], 'ovn')
        self.assertEqual(('tcp:192.0.2.1:6641',),
                         ovn.read(conf, ovn.NORTHBOUND).remotes)


class TestKeys(base.TestCase):
    """Each database has its own, and other users of the library theirs."""

    def test_keys(self):
        used = []

        def record(suffix, dscp):
            used.append((suffix, stream.Stream._SSL_private_key_file))
            return 0, None

        self.patch(stream.SSLStream, '_open', staticmethod(record))
        self.addCleanup(stream.Stream.register_method, 'ssl',
                        stream.SSLStream)
        self.patch(stream.Stream, '_SSL_private_key_file', '/of/others')
        directory = self.useFixture(fixtures.TempDir()).path
        options = {}
        for database, port in (('nb', 6641), ('sb', 6642)):
            options[f'ovn_{database}_connection'] = [f'ssl:127.0.0.1:{port}']
            for name in FILES:
                path = os.path.join(directory, f'{database}_{name}')
                open(path, 'w').close()
                options[f'ovn_{database}_{name}'] = path
        conf = self.make_conf(ovn=options)
        for database in (connections.NORTHBOUND, connections.SOUTHBOUND):
            connections.prepare(conf, database)
        for port in (6641, 6642, 6643):
            stream.Stream._find_method('ssl:')._open(f'127.0.0.1:{port}', 0)
        self.assertEqual(
            [('127.0.0.1:6641', f'{directory}/nb_private_key'),
             ('127.0.0.1:6642', f'{directory}/sb_private_key'),
             ('127.0.0.1:6643', '/of/others')], used)
        self.assertEqual('/of/others', stream.Stream._SSL_private_key_file)
