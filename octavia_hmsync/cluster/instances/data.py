# SPDX-License-Identifier: Apache-2.0

"""The user data of an instance of a distributor.

It has the configuration, and a certificate for its address from the CA that
issues the certificates of amphorae.
"""

import datetime
import ipaddress
import json

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509

from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions

DIRECTORY = '/etc/octavia-hmsync'
CONFIG_FILE = f'{DIRECTORY}/distributor.conf'
SERVER_FILE = f'{DIRECTORY}/server.pem'
CLIENT_CA_FILE = f'{DIRECTORY}/client_ca.pem'

_VALIDITY = datetime.timedelta(days=365)
# Clocks of instances may be behind.
_BEFORE = datetime.timedelta(hours=1)


def make(conf, address):
    """Make the user data of a distributor.

    :returns: the user data for cloud-init, and the end of its certificate in
              UTC.
    :raises InvalidConfiguration: if a certificate that octavia.conf names
                                  cannot be used.
    """
    pem, expires_at = _issue(conf, address)
    files = {
        CONFIG_FILE: _render_conf(address, _get_clients(conf)),
        SERVER_FILE: pem,
        CLIENT_CA_FILE: _read('controller_worker', 'client_ca',
                              conf.controller_worker.client_ca).decode()}
    # JSON is valid YAML.
    return '#cloud-config\n' + json.dumps({'write_files': [
        {'path': path, 'permissions': '0600', 'content': content}
        for path, content in files.items()]}, indent=1), expires_at


def _render_conf(address, clients):
    return (f'[hmsync_distributor]\n'
            f'bind_host = {address}\n'
            f'connect_by = interface\n'
            f'server_cert = {SERVER_FILE}\n'
            f'client_ca = {CLIENT_CA_FILE}\n'
            f'allowed_clients = {",".join(clients)}\n')


def _read(group, name, path):
    try:
        with open(path, 'rb') as file:
            return file.read()
    except (OSError, TypeError) as e:
        raise _refuse(group, name, path, e) from e


def _refuse(group, name, path, reason):
    return exceptions.InvalidConfiguration(
        f'No certificate can be made for a distributor: [{group}] {name} = '
        f'{path} cannot be used ({reason}).')


def _get_clients(conf):
    """Return the common names that a distributor accepts."""
    clients = conf[cluster_conf.GROUP].distributor_instance_clients
    if clients:
        return clients
    own = conf[cluster_conf.GROUP].distributor_client_cert
    group, name, path = (
        (cluster_conf.GROUP, 'distributor_client_cert', own) if own else
        ('haproxy_amphora', 'client_cert', conf.haproxy_amphora.client_cert))
    try:
        found = x509.load_pem_x509_certificate(_read(group, name, path))
    except ValueError as e:
        raise _refuse(group, name, path, e) from e
    names = [str(one.value) for one in found.subject.get_attributes_for_oid(
        x509.NameOID.COMMON_NAME)]
    if not names:
        raise _refuse(group, name, path, 'it has no common name: list those '
                      'of all controllers in [hmsync_cluster] '
                      'distributor_instance_clients')
    return names


def _issue(conf, address):
    """Issue a certificate; return it with its key as PEM, and its end."""
    options = conf.certificates
    certificate = _load(options, 'ca_certificate',
                        x509.load_pem_x509_certificate)
    passphrase = options.ca_private_key_passphrase
    authority = _load(
        options, 'ca_private_key',
        lambda text: serialization.load_pem_private_key(
            text, passphrase.encode() if passphrase else None))
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    # It is not valid for longer than the CA.
    expires_at = min(now + _VALIDITY, certificate.not_valid_after_utc)
    issued = (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .subject_name(x509.Name([x509.NameAttribute(
            x509.NameOID.COMMON_NAME, address)]))
        .issuer_name(certificate.subject)
        .public_key(key.public_key())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(expires_at)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(
            ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(
            [x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_get_authority_key_id(certificate), critical=False)
        .sign(authority, _get_digest(options.signing_digest)))
    text = issued.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption())
    return text.decode(), expires_at.replace(tzinfo=None)


def _load(options, name, load):
    path = options[name]
    text = _read('certificates', name, path)
    try:
        return load(text)
    except (ValueError, TypeError) as e:
        raise _refuse('certificates', name, path, e) from e


def _get_authority_key_id(certificate):
    try:
        return (x509.AuthorityKeyIdentifier
                .from_issuer_subject_key_identifier(
                    certificate.extensions.get_extension_for_class(
                        x509.SubjectKeyIdentifier).value))
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(
            certificate.public_key())


def _get_digest(name):
    digest = getattr(hashes, name.upper(), None)
    if digest is None:
        raise exceptions.InvalidConfiguration(
            f'No certificate can be made for a distributor: [certificates] '
            f'signing_digest = {name} is not known: correct it.')
    return digest()
