# SPDX-License-Identifier: Apache-2.0

"""Secrets of tenants, where Octavia's local certificate manager has them."""

import os
import uuid

import fixtures

_KEY = b'-----BEGIN RSA PRIVATE KEY-----'


class Secrets(fixtures.Fixture):
    """What listeners and pools refer to, in place of a Barbican."""

    def _setUp(self):
        self._directory = self.useFixture(fixtures.TempDir()).path

    def octavia_options(self):
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {'certificates': {'cert_manager': 'local_cert_manager',
                                 'storage_path': self._directory}}

    def go_away(self):
        """Have none of them be found, as by a Barbican that is away."""
        os.rename(self._directory, f'{self._directory}-away')

    def come_back(self):
        os.rename(f'{self._directory}-away', self._directory)

    def add(self, pem):
        """Keep a certificate authority, or a list; returns its reference."""
        return self._write(str(uuid.uuid4()), 'crt', pem)

    def add_pair(self, path):
        """Keep a certificate and its key; returns their reference.

        :param path: of a file with both, as certificates.Certificates has.
        """
        with open(path, 'rb') as file:
            pem = file.read()
        certificate, mark, key = pem.partition(_KEY)
        return self.add_pair_of(certificate, mark + key)

    def add_pair_of(self, certificate, key):
        """As add_pair(), of PEM; the key may be that of another one."""
        return self._write(self.add(certificate), 'key', key)

    def _write(self, ref, ending, content):
        path = os.path.join(self._directory, f'{ref}.{ending}')
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), 'wb') as file:
            file.write(content)
        return ref
