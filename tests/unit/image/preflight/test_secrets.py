# SPDX-License-Identifier: Apache-2.0

import threading

from barbicanclient import exceptions as barbican_exc
from keystoneauth1 import exceptions as ks_exc
import requests

from octavia_hmsync.cli import finding
from octavia_hmsync.compat import certificates
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import secrets
from tests.unit.image.preflight import test_preflight

LOAD_MANAGER = certificates.load_manager
NEEDS = facts.Needs(secrets=frozenset({'cert', 'sni'}),
                    authorities=frozenset({'ca'}))


class Manager:
    """A certificate manager that has some things."""

    def __init__(self, certificates=(), secrets=()):
        self.certificates, self.secrets = certificates, secrets
        self.asked = []
        self.gate = self.error = None

    def get_cert(self, context, ref, check_only=False):
        self._get(context, ref, self.certificates)
        assert check_only

    def get_secret(self, context, ref):
        self._get(context, ref, self.secrets)

    def _get(self, context, ref, known):
        if self.gate:
            self.gate.wait(60)
        self.asked.append((context.project_id, ref))
        if ref not in known:
            raise ValueError(f'No {ref}.\nSorry.')
        if self.error:
            # As of Octavia's manager, after its second way.
            raise ValueError(f'{ref} incorrectly specified') from self.error


class TestSecrets(test_preflight.CheckTestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf(hmsync_image={'image_timeout': 60})
        self.manager = Manager({'cert', 'sni'}, {'ca'})
        self.patch(certificates, 'load_manager', lambda name: self.manager)

    def read(self, needs=NEEDS):
        return secrets.read_faults(self.conf, 'project', needs)

    def test_all_there(self):
        """Asked for as a worker does, for the project of the owner."""
        self.assertEqual({}, self.read())
        self.assertEqual({('project', ref) for ref in ('cert', 'sni', 'ca')},
                         set(self.manager.asked))

    def test_gone(self):
        self.manager.certificates = {'sni'}
        self.assertEqual({'cert': facts.SecretFault(
            'ValueError: No cert. Sorry')}, self.read())
        self.manager.secrets = ()
        self.assertEqual({'cert', 'ca'}, set(self.read()))

    def test_nothing_needed(self):
        self.assertEqual({}, self.read(facts.Needs()))
        self.assertEqual([], self.manager.asked)

    def test_no_manager(self):
        def fail(name):
            raise RuntimeError(f'there is no {name}')

        self.patch(certificates, 'load_manager', fail)
        self.assertEqual({facts.SecretFault(
            'RuntimeError: there is no barbican_cert_manager',
            finding.Whose.OPERATOR)},
            set(self.read().values()))

    def test_no_answer(self):
        self.conf.set_override('image_timeout', 1, 'hmsync_image')
        self.manager.gate = threading.Event()
        self.addCleanup(self.manager.gate.set)
        self.assertEqual(dict.fromkeys(
            ('cert', 'sni', 'ca'), facts.SecretFault(
                'no answer within 1 s', finding.Whose.CLOUD)), self.read())

    def test_service_is_away(self):
        """A secret that is gone is told apart from a service that is."""
        tenant, cloud = finding.Whose.TENANT, finding.Whose.CLOUD
        for error, whose in (
                (barbican_exc.HTTPClientError('Not Found', 404), tenant),
                (barbican_exc.HTTPClientError('Forbidden', 403), tenant),
                (barbican_exc.HTTPServerError('Internal', 500), cloud),
                (barbican_exc.HTTPAuthError('Unauthorized'), cloud),
                (ks_exc.ConnectFailure('refused'), cloud),
                (requests.ReadTimeout(), cloud)):
            self.manager.error = error
            self.assertEqual({whose}, {
                fault.whose for fault in self.read().values()}, error)

    def test_managers_of_octavia(self):
        """One of them keeps nothing, and asks nobody."""
        manager = LOAD_MANAGER('noop_cert_manager')
        for fetch in (certificates.fetch_certificate,
                      certificates.fetch_secret):
            fetch(manager, 'project', 'ref')

    def test_check(self):
        gone = {'ca': facts.SecretFault('gone'),
                'sni': facts.SecretFault('403')}
        away = {**gone, 'cert': facts.SecretFault(
            'refused', finding.Whose.CLOUD)}
        for needs, faults, severity, words in (
                (facts.Needs(), None, finding.Severity.SUCCESS, ()),
                (NEEDS, {}, finding.Severity.SUCCESS, ()),
                (NEEDS, None, None, ('the 3 secrets',)),
                (NEEDS, gone, finding.Severity.FAILURE,
                 ('does not hand out ca (gone); sni (403)',)),
                (NEEDS, away, finding.Severity.FAILURE,
                 ('gives no proper answer', 'cert (refused)'))):
            self.assertFound(severity, secrets.check_secrets,
                             test_preflight.make(
                                 needs=needs, secret_faults=faults), *words)

    def test_whose(self):
        def check(fault):
            found = secrets.check_secrets(test_preflight.make(
                needs=NEEDS, secret_faults={'ca': fault}))
            return found.whose, found.is_passing

        for whose, is_passing in ((finding.Whose.TENANT, False),
                                  (finding.Whose.OPERATOR, False),
                                  (finding.Whose.CLOUD, True)):
            self.assertEqual((whose, is_passing),
                             check(facts.SecretFault('why', whose)))
