# SPDX-License-Identifier: Apache-2.0

"""The distributors' own application, over TLS, told by controllers."""

import os
import threading

import fixtures
from oslo_config import cfg
from werkzeug import serving

from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs_backend
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync.distributor import api
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import probe_results
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import tls
from octavia_hmsync.distributor import vips
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud.site import hmsync_tests_distributor
from tests.cloud import waiting
from tests.unit.cluster import distributors

NAMES = ('127.0.3.1', '127.0.3.2')


class Quiet(serving.WSGIRequestHandler):

    def log(self, *args):
        pass


class Distributor(fixtures.Fixture):
    """One in a thread of this process, with a data plane of files."""

    def __init__(self, name, certificates, directory, own=None):
        self.name = name
        self._certificates = certificates
        self._directory = os.path.join(directory, name)
        self._own = own or name

    def _setUp(self):
        conf = cfg.ConfigOpts()
        distributor_conf.register_opts(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override('openvswitch_rundir', f'{self._directory}/vswitch',
                          distributor_conf.GROUP)
        kept = store.Store(f'{self._directory}/state', timeout=0)
        self.addCleanup(kept.close)
        self.backend = hmsync_tests_distributor.Backend(conf)
        self.vips = vips.Vips(kept, self.backend)
        restorer = restore.Restorer(self.vips, 1)
        restorer.run_once()
        for name, path in (
                ('server_cert', self._certificates.server_path(self._own)),
                ('client_ca',
                 self._certificates.client_authority.certificate_path)):
            conf.set_override(name, path, distributor_conf.GROUP)
        server = serving.make_server(
            self.name, 0, api.create_app(
                self.vips, restorer, probe_results.Results(), self.name),
            threaded=True, request_handler=Quiet)
        context, accept = tls.create_context(conf), server.get_request

        def get_request():
            connection, address = accept()
            return context.wrap_socket(connection, server_side=True), address

        server.get_request = get_request
        self.url = f'https://{self.name}:{server.server_port}'
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)

    def order(self, name, text):
        """Have the data plane fail or be slow; None ends it."""
        path = os.path.join(self.backend.directory, name)
        if text is None:
            os.unlink(path)
            return
        with open(path, 'w') as order:
            order.write(text)


class TestDistributors(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(
            certificates.Certificates(self.directory))
        for name, value in (
                ('distributor_ca',
                 self.certificates.server_authority.certificate_path),
                ('distributor_client_cert', self.certificates.client_path),
                ('distributor_timeout', 20)):
            self.set(name, value)
        self.one, self.other = (self.useFixture(Distributor(
            name, self.certificates, self.directory)) for name in NAMES)
        self.set('distributors', [self.one.url, self.other.url])
        self.subject = ovs_backend.Distributors(
            self.conf, self.engine, self.ports)
        self.vips = cluster_vips.VIPs(self.conf, self.engine, self.subject)
        self.watch = distributor_watch.DistributorWatch(
            self.engine, self.subject, self.vips, lambda: self.now)
        self.cluster_id = self.add_cluster()

    def set(self, name, value):
        self.conf.set_override(name, value, group='hmsync_cluster')

    def look(self):
        self.now += 100
        return self.watch.run_once()

    def look_until_well(self):
        waiting.wait_for(lambda: not self.look().failed and all(
            vip.error is None
            for vip in self.get_rows(self.cluster_id).values()),
            'slow distributor that is told')

    def assertWhole(self, active):
        version = self.get_version(self.cluster_id)
        self.assertEqual(
            {(one.name, version, one is active)
             for one in (self.one, self.other)},
            {(one.name, document.version, document.active)
             for one in (self.one, self.other)
             for document in [one.vips.get(self.cluster_id).document]})
        for vip in self.get_rows(self.cluster_id).values():
            self.assertEqual((version, None, True), (
                vip.applied_version, vip.error,
                self.ports.is_on[vip.port_id]))

    def test_life(self):
        self.vips.add(self.cluster_id)
        self.assertWhole(self.one)
        self.add_member(self.cluster_id)
        self.subject.apply(self.cluster_id)
        self.assertWhole(self.one)
        self.assertEqual(({}, 0), (self.look().problems, self.look().told))
        self.assertEqual({}, self.vips.remove(self.cluster_id))
        for one in (self.one, self.other):
            self.assertEqual([], list(one.backend.list_vips()))
        # Its deletion is known there, and this is newer.
        self.vips.add(self.cluster_id)
        self.assertWhole(self.one)

    def test_open_vswitch_does_not_work(self):
        self.vips.add(self.cluster_id)
        self.one.order('fail-apply', 'ovsdb-server does not answer')
        self.add_member(self.cluster_id)
        outcome = self.subject.apply(self.cluster_id)
        self.assertEqual(self.other.name, outcome.active)
        self.assertIn('ovsdb-server does not answer',
                      outcome.problems[self.one.name])
        self.one.order('fail-apply', None)
        self.look()
        self.look()
        self.assertWhole(self.other)

    def test_it_is_slow(self):
        self.vips.add(self.cluster_id)
        self.set('distributor_timeout', 2)
        self.one.order('slow-apply', '6')
        self.add_member(self.cluster_id)
        self.assertEqual(self.other.name,
                         self.subject.apply(self.cluster_id).active)
        self.one.order('slow-apply', None)
        self.set('distributor_timeout', 20)
        # It is still at what it was asked for.
        self.look_until_well()
        self.assertWhole(self.other)

    def test_another_one_is_slow(self):
        self.vips.add(self.cluster_id)
        self.other.order('slow-apply', '6')
        self.add_member(self.cluster_id)
        outcome = self.subject.apply(self.cluster_id)
        self.assertIn('is slow', outcome.problems[self.other.name])
        self.other.order('slow-apply', None)
        self.look_until_well()
        self.assertWhole(self.one)

    def test_somebody_newer_has_been_there(self):
        self.vips.add(self.cluster_id)
        document = self.one.vips.get(self.cluster_id).document
        client = self.subject.client_of(self.one.url)
        client.put_vip(self.cluster_id, type(document)(**{
            **{field: getattr(document, field)
               for field in document.__dataclass_fields__}, 'version': 70}))
        self.subject.apply(self.cluster_id)
        self.assertLess(70, self.get_version(self.cluster_id))
        self.assertWhole(self.one)

    def test_another_certificate(self):
        """Of a controller that distributors do not know."""
        self.set('distributor_client_cert',
                 self.certificates.server_path('somebody'))
        e = self.assertRaises(exceptions.NoDistributor, self.vips.add,
                              self.cluster_id)
        self.assertIn('does not take the certificate', str(e))
        self.assertEqual(2, len(self.look().problems))

    def test_another_name(self):
        """One has the certificate of another one."""
        stranger = self.useFixture(Distributor(
            '127.0.3.3', self.certificates, self.directory, own=NAMES[0]))
        self.set('distributors', [stranger.url, self.other.url])
        self.assertEqual(self.other.name,
                         self.vips.add(self.cluster_id).active)
        self.assertIn('another name', self.look().problems[stranger.name])

    def test_no_certificate_at_all(self):
        self.set('distributor_client_cert', '/nowhere')
        e = self.assertRaises(exceptions.InvalidConfiguration,
                              self.vips.add, self.cluster_id)
        self.assertIn('/nowhere', str(e))
