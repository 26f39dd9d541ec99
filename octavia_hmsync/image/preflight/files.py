# SPDX-License-Identifier: Apache-2.0

"""Checks of the files that the build of an amphora reads.

They are the files of this host. If this process does not build amphorae
itself, the files of the building hosts may differ.
"""

import os

from cryptography import exceptions as crypto_exc
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from oslo_utils import timeutils

from octavia_hmsync.cli import finding
from octavia_hmsync import compat

_LOGGING_TEMPLATE = '10-rsyslog.conf.template'
_TIME = '%Y-%m-%d %H:%M'
# Kinds of keys that can sign a digest.
_KEYS = (dsa.DSAPrivateKey, ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)


class _NotGood(Exception):
    """A file is not as required; with the Finding."""

    def __init__(self, found):
        super().__init__(found.details)
        self.found = found


def check_all(conf, is_builder):
    """Check the files that a worker or a housekeeper reads for a build.

    :param is_builder: whether this process is to build the amphora. Then a
                       file that cannot be read is a failure, otherwise it is
                       not checked.
    """
    if conf.controller_worker.amphora_driver not in compat.REST_DRIVERS:
        return []
    return [(name, _run(check, conf, is_builder)) for name, check in (
        ('Authority of agents', _check_authority),
        ('Authority of controllers', _check_client),
        ('Templates', _check_templates))]


def _run(check, conf, is_builder):
    try:
        check(conf, is_builder)
    except _NotGood as e:
        return e.found
    return finding.success()


def _check_authority(conf, is_builder):
    """Check the authority that signs the certificate of a new agent."""
    options = conf.certificates
    if options.cert_generator != compat.LOCAL_GENERATOR:
        return
    certificate = _load_certificates(
        '[certificates] ca_certificate', options.ca_certificate,
        is_builder)[0]
    key = _load_key(options, is_builder)
    if _get_bytes(certificate.public_key()) != _get_bytes(key.public_key()):
        _fail('The key of [certificates] ca_private_key is not that of '
              'ca_certificate: no controller would believe a new agent. Set '
              'both of one authority.')
    if not hasattr(hashes, options.signing_digest.upper()):
        _fail(f'[certificates] signing_digest {options.signing_digest} is no '
              f'digest: set sha256.')
    trusted = _load_certificates(
        '[haproxy_amphora] server_ca', conf.haproxy_amphora.server_ca,
        is_builder)
    if not any(_is_same(certificate, one) for one in trusted):
        _fail('[haproxy_amphora] server_ca does not have the certificate of '
              '[certificates] ca_certificate: no controller would believe a '
              'new agent. Add it there.')
    _check_time('[certificates] ca_certificate', certificate)
    left = (certificate.not_valid_after_utc.replace(tzinfo=None) -
            timeutils.utcnow()).total_seconds()
    if left < options.cert_validity_time:
        raise _NotGood(finding.warning(
            f'The certificate of [certificates] ca_certificate ends at '
            f'{certificate.not_valid_after_utc:{_TIME}} UTC, before that of '
            f'an agent which is signed now: set a new authority before.'))


def _load_key(options, is_builder):
    data = _read('[certificates] ca_private_key', options.ca_private_key,
                 is_builder)
    passphrase = options.ca_private_key_passphrase
    try:
        key = serialization.load_pem_private_key(
            data, passphrase if passphrase is None else passphrase.encode())
    except (TypeError, ValueError, crypto_exc.UnsupportedAlgorithm):
        # The library's text may hold a part of the file.
        _fail('The key of [certificates] ca_private_key cannot be loaded with '
              'ca_private_key_passphrase: correct the one or the other.')
    if not isinstance(key, _KEYS):
        _fail('The key of [certificates] ca_private_key is of a kind that '
              'Octavia does not sign with: take an RSA key, or one of an '
              'elliptic curve.')
    return key


def _check_client(conf, is_builder):
    """Check the certificates by which a new agent trusts controllers."""
    authorities = _load_certificates(
        '[controller_worker] client_ca', conf.controller_worker.client_ca,
        is_builder)
    chain = _load_certificates(
        '[haproxy_amphora] client_cert', conf.haproxy_amphora.client_cert,
        is_builder)
    _check_time('[haproxy_amphora] client_cert', chain[0])
    if not _is_vouched(chain[0], chain[1:], authorities):
        _fail('[controller_worker] client_ca does not vouch for [haproxy_'
              'amphora] client_cert: a new agent would answer no controller. '
              'Set both of one authority.')


def _is_vouched(certificate, chain, authorities):
    if any(_is_issued(certificate, one) for one in authorities):
        return True
    return any(_is_vouched(one, [other for other in chain if other != one],
                           authorities)
               for one in chain if _is_issued(certificate, one))


def _is_issued(certificate, issuer):
    try:
        certificate.verify_directly_issued_by(issuer)
    except (TypeError, ValueError, crypto_exc.InvalidSignature,
            crypto_exc.UnsupportedAlgorithm):
        return False
    return True


def _check_templates(conf, is_builder):
    agent = conf.amphora_agent
    if agent.logging_template_override:
        _read('[amphora_agent] logging_template_override', os.path.join(
            os.path.dirname(agent.logging_template_override),
            _LOGGING_TEMPLATE), is_builder)
    for name in ('admin_log_targets', 'tenant_log_targets'):
        for target in agent[name] or ():
            if ':' not in target:
                _fail(f'[amphora_agent] {name} {target} has no port, and '
                      f'Octavia builds no amphora with it: write HOST:PORT.')
    if conf.haproxy_amphora.haproxy_template:
        _read('[haproxy_amphora] haproxy_template',
              conf.haproxy_amphora.haproxy_template, is_builder)


def _load_certificates(option, path, is_builder):
    data = _read(option, path, is_builder)
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        _fail(f'{option} {path} has no readable certificate: put one '
              f'there, as PEM.')


def _read(option, path, is_builder):
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError as e:
        if is_builder:
            _fail(f'{option} {path} cannot be read here ({e.strerror}), and '
                  f'nothing is built without it: put it there, readable for '
                  f'this process.')
        raise _NotGood(finding.not_checked(
            f'{option} {path} cannot be read here ({e.strerror}): run the '
            f'command where Octavia builds, as its user.')) from e


def _check_time(option, certificate):
    now = timeutils.utcnow()
    first = certificate.not_valid_before_utc.replace(tzinfo=None)
    last = certificate.not_valid_after_utc.replace(tzinfo=None)
    if not first <= now <= last:
        _fail(f'The certificate of {option} is valid from {first:{_TIME}} to '
              f'{last:{_TIME}} UTC only, and no new agent could be reached: '
              f'renew it.')


def _is_same(one, other):
    return (one.subject == other.subject and
            _get_bytes(one.public_key()) == _get_bytes(other.public_key()))


def _get_bytes(key):
    return key.public_bytes(serialization.Encoding.DER,
                            serialization.PublicFormat.SubjectPublicKeyInfo)


def _fail(details):
    raise _NotGood(finding.failure(details))
