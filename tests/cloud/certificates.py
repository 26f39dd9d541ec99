# SPDX-License-Identifier: Apache-2.0

"""The certificates of a cloud, in the shape that Octavia gives them."""

import datetime
import ipaddress
import os

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
import fixtures


# For so long they are valid: no check warns that they end soon.
DAYS = 45


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key):
    return key.private_bytes(serialization.Encoding.PEM,
                             serialization.PrivateFormat.TraditionalOpenSSL,
                             serialization.NoEncryption())


def _builder(common_name, issuer, public_key):
    now = datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([
        x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common_name)])
    return (x509.CertificateBuilder()
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=DAYS))
            .subject_name(name)
            .issuer_name(issuer or name)
            .public_key(public_key))


def _general_name(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(authority):
    return x509.KeyUsage(
        digital_signature=True, key_encipherment=not authority,
        data_encipherment=not authority, key_agreement=not authority,
        content_commitment=False, key_cert_sign=authority,
        crl_sign=authority, encipher_only=False, decipher_only=False)


class Authority:
    """A certificate authority, in memory and as two files."""

    def __init__(self, directory, name):
        self._key = rsa.generate_private_key(65537, 2048)
        public_key = self._key.public_key()
        self._certificate = (
            _builder(name, None, public_key)
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(public_key),
                critical=False)
            .sign(self._key, hashes.SHA256()))
        self.certificate_path = os.path.join(directory, f'{name}.cert.pem')
        self.key_path = os.path.join(directory, f'{name}.key.pem')
        _write(self.certificate_path, _pem(self._certificate))
        _write(self.key_path, key_pem(self._key))

    def issue(self, common_name, key):
        """A certificate like those of Octavia's local generator, as PEM."""
        public_key = key.public_key()
        usages = [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH,
                  x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(common_name, self._certificate.subject, public_key)
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([_general_name(common_name)]),
                critical=False)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(public_key),
                critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(
                    self._key.public_key()),
                critical=False)
            .sign(self._key, hashes.SHA256()))
        return _pem(certificate)

    def revoke(self, *paths):
        """A list of certificates that are not to be trusted, as PEM.

        :param paths: their files.
        """
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (x509.CertificateRevocationListBuilder()
                   .issuer_name(self._certificate.subject)
                   .last_update(now - datetime.timedelta(minutes=5))
                   .next_update(now + datetime.timedelta(days=DAYS)))
        for path in paths:
            with open(path, 'rb') as pem:
                certificate = x509.load_pem_x509_certificate(pem.read())
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(certificate.serial_number)
                .revocation_date(now).build())
        return _pem(builder.sign(self._key, hashes.SHA256()))


class Certificates(fixtures.Fixture):
    """Two authorities, the controllers' client certificate, server ones."""

    def __init__(self, directory):
        super().__init__()
        self._directory = directory

    def _setUp(self):
        os.makedirs(self._directory, exist_ok=True)
        self.server_authority = Authority(self._directory, 'server_ca')
        self.client_authority = Authority(self._directory, 'client_ca')
        # One key for all: what is checked is the name in the certificate,
        # and a key takes 0.1 s of CPU.
        self._key = rsa.generate_private_key(65537, 2048)
        self.client_path = self._issue(self.client_authority, 'client')

    def _issue(self, authority, common_name):
        path = os.path.join(self._directory, f'{common_name}.pem')
        _write(path, authority.issue(common_name, self._key) +
               key_pem(self._key))
        return path

    def issue_client(self, common_name):
        """Path of another client certificate and its key."""
        return self._issue(self.client_authority, common_name)

    def server_path(self, amphora_id):
        """Path of the amphora's certificate and key, made when needed.

        Of any other server's as well: by the name or address it is asked at.
        """
        path = os.path.join(self._directory, f'{amphora_id}.pem')
        if not os.path.exists(path):
            self._issue(self.server_authority, amphora_id)
        return path


def _write(path, content):
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), 'wb') as pem:
        pem.write(content)
