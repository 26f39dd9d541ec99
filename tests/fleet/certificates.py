# SPDX-License-Identifier: Apache-2.0

"""TLS contexts, one for each amphora."""

import ssl
import tempfile

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives import serialization
from cryptography import x509

from tests.cloud import certificates


class _LoadedAuthority(certificates.Authority):
    """An authority that another process has made."""

    def __init__(self, certificate_path, key_path):
        with open(certificate_path, 'rb') as pem:
            self._certificate = x509.load_pem_x509_certificate(pem.read())
        with open(key_path, 'rb') as pem:
            self._key = serialization.load_pem_private_key(pem.read(), None)


class Contexts:
    """Makes the context of an agent when it is first asked for.

    :param server_ca, server_ca_key, client_ca: paths, see the package.
    """

    def __init__(self, server_ca, server_ca_key, client_ca):
        self._authority = _LoadedAuthority(server_ca, server_ca_key)
        with open(client_ca) as pem:
            self._client_ca = pem.read()
        # One for all: it is the name in the certificate that is checked.
        self._key = rsa.generate_private_key(65537, 2048)
        self._key_pem = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption())
        self._contexts = {}

    def get(self, name):
        """The context with the certificate of that name."""
        context = self._contexts.get(name)
        if context is None:
            context = self._contexts[name] = self._make(name)
        return context

    def _make(self, name):
        # As gunicorn makes it for the agent.
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH,
                                             cadata=self._client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        # The ssl module loads certificates from files only.
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(self._authority.issue(name, self._key) + self._key_pem)
            pem.flush()
            context.load_cert_chain(pem.name)
        return context
