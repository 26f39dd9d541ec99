# SPDX-License-Identifier: Apache-2.0

"""New authorities of controllers and amphorae, as operations.rst has it."""

import os

from tests.cloud import certificates
from tests.cloud import records
from tests.functional import fleets


def _read(path):
    with open(path) as file:
        return file.read()


def _write(path, *contents):
    """Replace a file at once, as services read it at any time."""
    with open(f'{path}.new', 'w') as file:
        file.write(''.join(contents))
    os.replace(f'{path}.new', path)


class TestNewAuthorities(fleets.FleetTestCase):

    options = {'hmsync_image': {'proof_timeout': 60,
                                'rollout_watch_time': 5}}
    topologies = ('SINGLE', 'ACTIVE_STANDBY')

    def setUp(self):
        super().setUp()
        self.old = self.cloud.certificates
        # They have the names of the old ones, as renewed ones often do.
        self.new = self.useFixture(certificates.Certificates(
            os.path.join(self.cloud.directory, 'new')))

    def hmsync(self, *arguments):
        return self.cloud.command('octavia-hmsync', *arguments)

    def get_all_amphorae(self):
        return {each for lb in self.fleet for each in self.amphorae(lb)}

    def upload(self):
        """Have agents and controllers prove themselves to each other."""
        self.hmsync('sync', 'run', '--all', '--wait', '--timeout', '60')

    def test_old_and_new_meanwhile(self):
        server, client = self.old.server_authority, self.old.client_authority
        server_ca, client_ca = (_read(each.certificate_path)
                                for each in (server, client))
        new_server_ca, new_client_ca = (
            _read(each.certificate_path)
            for each in (self.new.server_authority, self.new.client_authority))
        before = self.get_all_amphorae()
        with self.under_probes({lb.name: lb for lb in self.fleet}):
            # Here the file of server_ca is that of ca_certificate, too, of
            # which Octavia issues by the first one.
            _write(server.certificate_path, server_ca, new_server_ca)
            _write(client.certificate_path, client_ca, new_client_ca)
            self.upload()
            _write(server.key_path, _read(self.new.server_authority.key_path))
            _write(server.certificate_path, new_server_ca, server_ca)
            self.hmsync('image', 'rollout', 'start', '--built-before',
                        records.utcnow().isoformat(timespec='seconds'),
                        '--reason', 'new authorities', '--wait')
            self.assertFalse(before & self.get_all_amphorae())
            _write(self.old.client_path, _read(self.new.client_path))
            _write(server.certificate_path, new_server_ca)
            _write(client.certificate_path, new_client_ca)
            self.upload()
        for lb in self.fleet:
            self.assertSane(lb.name, lb)
            # Octavia's own driver and builds.
            self.api.failover_load_balancer(lb.id)
            self.cloud.wait_until_active(lb.id)
            self.assertSane(lb.name, lb)
        self.assertNothingLeft('rollout')
        self.assertEqual([], self.errors)
