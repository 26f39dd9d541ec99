# SPDX-License-Identifier: Apache-2.0

"""What instances are booted with: a certificate that both sides take."""

import datetime
import json
import os
import pathlib
import ssl

import fixtures

from octavia_hmsync.cluster.instances import data as instance_data
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.unit import base


def set_certificates(conf, issued):
    """Have octavia.conf name certificates as Octavia's own does."""
    for group, options in {
            'certificates': {
                'ca_certificate': issued.server_authority.certificate_path,
                'ca_private_key': issued.server_authority.key_path,
                'ca_private_key_passphrase': None},
            'controller_worker': {
                'client_ca': issued.client_authority.certificate_path},
            'haproxy_amphora': {
                'server_ca': issued.server_authority.certificate_path,
                'client_cert': issued.client_path}}.items():
        for name, value in options.items():
            conf.set_override(name, value, group)


def write_files(user_data, directory):
    """Do what cloud-init does in an instance whose root is elsewhere.

    :returns: the path of what was /etc/octavia-hmsync.
    """
    first, _, text = user_data.partition('\n')
    if first != '#cloud-config':
        raise ValueError(first)
    for one in json.loads(text)['write_files']:
        path = pathlib.Path(directory + one['path'])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one['content'].replace(
            instance_data.DIRECTORY, directory + instance_data.DIRECTORY))
        path.chmod(int(one['permissions'], 8))
    return directory + instance_data.DIRECTORY


class TestData(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.conf = self.make_conf()
        self.certificates = self.useFixture(
            certificates.Certificates(self.directory))
        set_certificates(self.conf, self.certificates)

    def parse(self, address):
        user_data, expires_at = instance_data.make(self.conf, address)
        etc = write_files(user_data, self.directory)
        conf = distributor_conf.parse(
            ['--config-file', f'{etc}/distributor.conf'])
        return conf.hmsync_distributor, expires_at

    def test_conf(self):
        """The process takes it, with files for root alone."""
        for address in ('192.0.2.7', 'fd00::7'):
            options, _ = self.parse(address)
            self.assertEqual(
                (address, 'interface', ['client']),
                (options.bind_host, options.connect_by,
                 options.allowed_clients))
            self.assertEqual(0, os.stat(options.server_cert).st_mode & 0o77)

    def test_certificate(self):
        """It is for that address, and ends no later than its authority."""
        options, expires_at = self.parse('192.0.2.7')
        shown = ssl._ssl._test_decode_cert(options.server_cert)
        self.assertEqual((('IP Address', '192.0.2.7'),),
                         shown['subjectAltName'])
        authority = ssl._ssl._test_decode_cert(
            self.certificates.server_authority.certificate_path)
        self.assertEqual(authority['notAfter'], shown['notAfter'])
        self.assertEqual(
            ssl.cert_time_to_seconds(shown['notAfter']),
            expires_at.replace(tzinfo=datetime.timezone.utc).timestamp())

    def test_other_clients(self):
        self.conf.set_override('distributor_instance_clients', ['one', 'two'],
                               'hmsync_cluster')
        self.assertEqual(['one', 'two'],
                         self.parse('192.0.2.7')[0].allowed_clients)

    def test_unusable(self):
        wrong = os.path.join(self.directory, 'wrong')
        with open(wrong, 'w') as file:
            file.write('nonsense')
        for group, name in (('certificates', 'ca_certificate'),
                            ('certificates', 'ca_private_key'),
                            ('haproxy_amphora', 'client_cert'),
                            ('controller_worker', 'client_ca')):
            for value in (wrong, '/nowhere', None):
                if (name, value) == ('client_ca', wrong):
                    continue
                before = self.conf[group][name]
                self.conf.set_override(name, value, group)
                e = self.assertRaises(
                    exceptions.InvalidConfiguration, instance_data.make,
                    self.conf, '192.0.2.7')
                self.assertIn(f'[{group}] {name} = {value} cannot', str(e))
                self.assertNotIn('\n', str(e))
                self.conf.set_override(name, before, group)
