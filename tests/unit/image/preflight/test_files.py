# SPDX-License-Identifier: Apache-2.0

import datetime
import os

from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives import serialization
import fixtures
from oslo_utils import timeutils

from octavia_hmsync.cli import finding
from octavia_hmsync.image.preflight import files
from tests.cloud import certificates
from tests.unit import base

SUCCESS, WARNING, FAILURE = finding.Severity
SECRET = 'correct horse'
AGENTS, CONTROLLERS, TEMPLATES = (
    'Authority of agents', 'Authority of controllers', 'Templates')


class TestFiles(base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = fixtures.TempDir()
        cls.addClassCleanup(cls.made.cleanUp)
        cls.made.setUp()
        cls.authority, cls.other = (
            certificates.Authority(cls.made.path, name)
            for name in ('authority', 'other'))
        cls.key = rsa.generate_private_key(65537, 2048)
        cls.client_path = os.path.join(cls.made.path, 'client.pem')
        cls.write(cls.client_path, cls.authority.issue('client', cls.key))

    @staticmethod
    def write(path, data):
        with open(path, 'wb') as file:
            file.write(data)

    def make_file(self, data):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'file')
        self.write(path, data)
        return path

    def check(self, name, is_builder=False, **groups):
        """Return what a check finds, with these options instead."""
        options = {
            'certificates': {
                'ca_certificate': self.authority.certificate_path,
                'ca_private_key': self.authority.key_path,
                'ca_private_key_passphrase': None,
                'cert_validity_time': 86400},
            'haproxy_amphora': {
                'server_ca': self.authority.certificate_path,
                'client_cert': self.client_path},
            'controller_worker': {
                'client_ca': self.authority.certificate_path}}
        for group, values in groups.items():
            options.setdefault(group, {}).update(values)
        found = dict(files.check_all(self.make_conf(**options), is_builder))
        return found[name]

    def assertFound(self, severity, found, *words):
        self.assertEqual(severity, found.severity, found)
        for word in words:
            self.assertIn(word, found.details)
        self.assertNotIn('\n', found.details or '')
        self.assertNotIn(SECRET, found.details or '')

    def read(self, path):
        with open(path, 'rb') as file:
            return file.read()

    def test_all_is_well(self):
        for name in (AGENTS, CONTROLLERS, TEMPLATES):
            self.assertFound(SUCCESS, self.check(name, True))

    def test_not_there(self):
        """It counts where this process builds, and elsewhere says nothing."""
        for name, group, option in (
                (AGENTS, 'certificates', 'ca_certificate'),
                (AGENTS, 'certificates', 'ca_private_key'),
                (AGENTS, 'haproxy_amphora', 'server_ca'),
                (CONTROLLERS, 'haproxy_amphora', 'client_cert'),
                (CONTROLLERS, 'controller_worker', 'client_ca'),
                (TEMPLATES, 'haproxy_amphora', 'haproxy_template'),
                (TEMPLATES, 'amphora_agent', 'logging_template_override')):
            for is_builder, severity in ((True, FAILURE), (False, None)):
                self.assertFound(
                    severity, self.check(name, is_builder, **{
                        group: {option: '/no/such/file'}}),
                    f'[{group}] {option} /no/such', 'No such file')

    def test_logging_template(self):
        """As Octavia looks for it: beside what the option names."""
        directory = self.useFixture(fixtures.TempDir()).path
        self.write(os.path.join(directory, '10-rsyslog.conf.template'), b'')
        self.assertFound(SUCCESS, self.check(TEMPLATES, amphora_agent={
            'logging_template_override': f'{directory}/'}))

    def test_log_targets(self):
        for name in ('admin_log_targets', 'tenant_log_targets'):
            self.assertFound(FAILURE, self.check(TEMPLATES, amphora_agent={
                name: ['192.0.2.1:514', '192.0.2.2']}), name, '192.0.2.2')

    def test_garbage(self):
        path = self.make_file(b'no certificate')
        for name, group, option in (
                (AGENTS, 'certificates', 'ca_certificate'),
                (AGENTS, 'haproxy_amphora', 'server_ca'),
                (CONTROLLERS, 'haproxy_amphora', 'client_cert'),
                (CONTROLLERS, 'controller_worker', 'client_ca')):
            self.assertFound(FAILURE, self.check(name, **{
                group: {option: path}}), option, path)

    def test_another_key(self):
        self.assertFound(FAILURE, self.check(AGENTS, certificates={
            'ca_private_key': self.other.key_path}), 'ca_private_key')

    def test_passphrase(self):
        encrypted = self.make_file(serialization.load_pem_private_key(
            self.read(self.authority.key_path), None).private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(SECRET.encode())))
        for path, passphrase, severity in (
                (encrypted, SECRET, SUCCESS),
                (encrypted, f'{SECRET}!', FAILURE),
                (encrypted, None, FAILURE),
                # Octavia fails with one too much, too.
                (self.authority.key_path, SECRET, FAILURE),
                (self.make_file(b'no key'), None, FAILURE)):
            self.assertFound(severity, self.check(AGENTS, certificates={
                'ca_private_key': path,
                'ca_private_key_passphrase': passphrase}))

    def test_digest(self):
        self.assertFound(FAILURE, self.check(AGENTS, certificates={
            'signing_digest': 'sha257'}), 'sha257')

    def test_kind_of_key(self):
        key = ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption())
        self.assertFound(FAILURE, self.check(AGENTS, certificates={
            'ca_private_key': self.make_file(key)}), 'of a kind')

    def test_not_trusted(self):
        for name, group, option in (
                (AGENTS, 'haproxy_amphora', 'server_ca'),
                (CONTROLLERS, 'controller_worker', 'client_ca')):
            self.assertFound(FAILURE, self.check(name, **{
                group: {option: self.other.certificate_path}}), option)
            both = self.make_file(self.read(self.other.certificate_path) +
                                  self.read(self.authority.certificate_path))
            self.assertFound(SUCCESS, self.check(name, **{
                group: {option: both}}))

    def test_expired(self):
        for name, option in ((AGENTS, 'ca_certificate'),
                             (CONTROLLERS, 'client_cert')):
            for days, severity in ((certificates.DAYS + 1, FAILURE),
                                   (-1, FAILURE)):
                with self.at(days):
                    self.assertFound(severity, self.check(name), option)

    def test_ends_soon(self):
        with self.at(certificates.DAYS - 0.5):
            self.assertFound(WARNING, self.check(AGENTS), 'ends at')
            self.assertFound(SUCCESS, self.check(CONTROLLERS))

    def at(self, days):
        """Move the clock by some days."""
        then = timeutils.utcnow() + datetime.timedelta(days=days)
        return fixtures.MockPatchObject(timeutils, 'utcnow', lambda: then)

    def test_others_generate(self):
        """What another generator of certificates needs is not known."""
        self.assertFound(SUCCESS, self.check(AGENTS, True, certificates={
            'cert_generator': 'another', 'ca_certificate': '/no/file'}))
        conf = self.make_conf(controller_worker={'amphora_driver': 'another'})
        self.assertEqual([], files.check_all(conf, True))
