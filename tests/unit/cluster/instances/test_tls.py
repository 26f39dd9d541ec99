# SPDX-License-Identifier: Apache-2.0

"""What instances are booted with is what their distributors serve with."""

import pathlib
import threading

import fixtures
from werkzeug import serving

from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.instances import data as instance_data
from octavia_hmsync.distributor import api
from octavia_hmsync.distributor import client
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import probe_results
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import tls
from octavia_hmsync.distributor import vips
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud.site import hmsync_tests_distributor
from tests.unit.cluster.distribution import test_distributors_tls
from tests.unit.cluster.instances import test_data as test_instance_data
from tests.unit.cluster import platform

make_data = instance_data.make


class Booted(fixtures.Fixture):
    """A distributor, in a thread, of the files that cloud-init wrote."""

    def __init__(self, directory, user_data):
        self._directory = directory
        etc = test_instance_data.write_files(user_data, directory)
        self._conf = distributor_conf.parse(
            ['--config-file', f'{etc}/distributor.conf'])
        self._conf.set_override('openvswitch_rundir', f'{directory}/vswitch',
                                distributor_conf.GROUP)

    def _setUp(self):
        options = self._conf[distributor_conf.GROUP]
        kept = store.Store(f'{self._directory}/state', timeout=0)
        self.addCleanup(kept.close)
        all_vips = vips.Vips(kept, hmsync_tests_distributor.Backend(
            self._conf))
        restorer = restore.Restorer(all_vips, 1)
        restorer.run_once()
        server = serving.make_server(
            options.bind_host, options.bind_port, api.create_app(
                all_vips, restorer, probe_results.Results(), 'somewhere'),
            threaded=True, request_handler=test_distributors_tls.Quiet)
        context, accept = tls.create_context(self._conf), server.get_request

        def get_request():
            connection, address = accept()
            return context.wrap_socket(connection, server_side=True), address

        server.get_request = get_request
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)


class TestTLS(platform.PlatformTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(
            certificates.Certificates(f'{self.directory}/pki'))
        test_instance_data.set_certificates(self.conf, self.certificates)
        self.patch(instance_data, 'make', make_data)
        self.patch(platform.Platform, 'client_of', lambda _platform, url:
                   distributors.make_client(self.conf, url))
        self.patch(platform.Platform, 'plug', self.plug)
        self.boot = platform.Platform.boot
        self.patch(platform.Platform, 'boot', self.serve)
        self.keeper = self.make_keeper()

    def plug(self, instance_id):
        self.platform.ports[instance_id] = '127.0.6.1'
        return 'port', '127.0.6.1'

    def serve(self, instance_id, port_id, user_data):
        directory = pathlib.Path(self.directory, instance_id)
        directory.mkdir()
        self.useFixture(Booted(str(directory), user_data))
        return self.boot(self.platform, instance_id, port_id, user_data)

    def test_booted(self):
        """They answer to controllers, and to nobody else."""
        self.platform.rules.append(
            lambda _text: setattr(self, 'now', self.now + 300))
        self.conf.set_override('distributor_instances', 1, 'hmsync_cluster')
        self.keep()
        self.assertWhole(1)
        found, = booted_repo.get_all(self.engine)
        self.assertIsNotNone(found.expires_at)
        stranger = client.Client(
            f'https://{found.address}:9444', client.create_context(
                self.certificates.server_authority.certificate_path,
                self.certificates.server_path('amphora')))
        self.assertRaises(exceptions.DistributorUntrusted,
                          stranger.get_status)

    def test_another_name(self):
        """Whoever has another's certificate is not taken for it."""
        self.patch(instance_data, 'make', lambda conf, address: tuple(
            part.replace('127.0.6.2', address)
            if isinstance(part, str) else part
            for part in make_data(conf, '127.0.6.2')))
        self.conf.set_override('distributor_instances', 1, 'hmsync_cluster')
        self.platform.rules.append(
            lambda _text: setattr(self, 'now', self.now + 300))
        self.keep()
        found, = booted_repo.get_all(self.engine)
        self.assertEqual('LEAVING', found.state)
        self.assertIn('has the certificate of another name', found.reason)
        self.assertEqual(({}, {}), (self.platform.instances,
                                    self.platform.ports))
