# SPDX-License-Identifier: Apache-2.0

"""Controllers, and real processes on network nodes that they tell."""

import fixtures

from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs_backend
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import distributor
from tests.cloud import network
from tests.unit.cluster import distributors

NAMES = ('127.0.3.1', '127.0.3.2', '127.0.3.3')


class TestDistributors(distributors.DistributorTestCase):
    """Neutron alone is one that is not real."""

    # Seconds for which distributors are waited for.
    patience = 60

    def setUp(self):
        super().setUp()
        self.patch(ovs_backend, '_GRACE', 60)
        directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(
            certificates.Certificates(directory))
        self.processes = {}
        for name in NAMES[:2]:
            self.processes[name] = self.useFixture(distributor.Distributor(
                name, name, network.free_port(), self.certificates,
                directory, directory))
        for process in self.processes.values():
            process.wait_until_ready()
        self.set('distributors', [f'{name}={process.url}' for name, process
                                  in self.processes.items()])
        self.set('distributor_ca',
                 self.certificates.server_authority.certificate_path)
        self.set('distributor_client_cert', self.certificates.client_path)
        self.subject = ovs_backend.Distributors(
            self.conf, self.engine, self.ports, self.make_client)
        self.vips = cluster_vips.VIPs(self.conf, self.engine, self.subject)
        self.watch = distributor_watch.DistributorWatch(
            self.engine, self.subject, self.vips, lambda: self.now)
        self.cluster_id = self.add_cluster()
        self.vips.add(self.cluster_id)
        self.one, self.other = self.processes.values()

    def set(self, name, value):
        self.conf.set_override(name, value, group='hmsync_cluster')

    def make_client(self, url):
        made = ovs_backend.make_client(self.conf, url)
        made._timeouts = self.patience, self.patience
        return made

    def look(self):
        self.now += 100
        return self.watch.run_once()

    def documents(self):
        """What is in force, by the name of the distributor."""
        return {name: process.ask('get_vip', self.cluster_id)['document']
                for name, process in self.processes.items()}

    def assertWhole(self, active):
        version = self.get_version(self.cluster_id)
        self.assertEqual(
            {process.host: (version, process is active)
             for process in self.processes.values()},
            {name: (document['version'], document['active'])
             for name, document in self.documents().items()})
        for vip in self.get_rows(self.cluster_id).values():
            self.assertEqual((version, None),
                             (vip.applied_version, vip.error))
            self.assertTrue(self.ports.is_on[vip.port_id])

    def test_changes(self):
        self.assertWhole(self.one)
        self.add_member(self.cluster_id)
        self.subject.apply(self.cluster_id)
        self.assertWhole(self.one)
        for document in self.documents().values():
            self.assertEqual(
                [(0, 'ACTIVE'), (1, 'ACTIVE'), (2, 'ACTIVE')],
                [(m['slot'], m['state']) for m in document['members']])
        self.assertEqual({}, self.vips.remove(self.cluster_id))
        for process in self.processes.values():
            process.wait_until_forwarded()
        self.assertEqual({}, self.ports.is_on)

    def test_killed_and_back(self):
        self.one.kill_tree()
        self.add_member(self.cluster_id)
        outcome = self.subject.apply(self.cluster_id)
        self.assertEqual(self.other.host, outcome.active)
        self.assertIn('Connection refused', outcome.problems[self.one.host])
        self.look()
        self.one.start()
        self.one.wait_until_ready()
        # It believes that it is the active one, and nobody hears it.
        self.assertFalse(self.ports.is_on[
            self.get_rows(self.cluster_id)[self.one.host].port_id])
        self.look()
        self.assertWhole(self.other)

    def test_it_hangs(self):
        self.patience = 10
        self.one.pause()
        self.assertEqual(self.other.host,
                         self.subject.apply(self.cluster_id).active)
        self.patience = 60
        self.one.resume()
        self.one.wait_until_ready()
        self.look()
        self.look()
        self.assertWhole(self.other)

    def test_open_vswitch_does_not_answer(self):
        self.one.fail('apply', 'VswitchUnavailable')
        self.add_member(self.cluster_id)
        self.assertEqual(self.other.host,
                         self.subject.apply(self.cluster_id).active)
        self.one.fail('apply', None)
        self.look()
        self.look()
        self.assertWhole(self.other)

    def test_another_certificate(self):
        """Of a controller that distributors do not know."""
        self.set('distributor_client_cert',
                 self.certificates.server_path(self.one.host))
        e = self.assertRaises(exceptions.NoDistributor, self.subject.apply,
                              self.cluster_id)
        self.assertIn('does not take the certificate', str(e))
        self.assertWhole(self.one)

    def test_another_name(self):
        self.set('distributors', [
            f'{self.one.host}=https://localhost:{self.one.port}',
            f'{self.other.host}={self.other.url}'])
        self.vips.sync()
        problem = self.subject.apply(self.cluster_id).problems[self.one.host]
        self.assertTrue('another name' in problem or
                        'cannot be asked' in problem, problem)

    def test_a_deletion_that_one_does_not_hear(self):
        self.look()
        self.one.kill_tree()
        self.assertEqual([self.one.host],
                         list(self.vips.remove(self.cluster_id)))
        self.other.wait_until_forwarded()
        self.assertEqual({}, self.ports.is_on)
        self.delete_cluster(self.cluster_id)
        self.look()
        self.one.start()
        self.one.wait_until_ready()
        self.look()
        self.look()
        self.one.wait_until_forwarded()
        self.assertEqual({}, self.get_rows(self.cluster_id))

    def test_a_node_that_was_made_anew(self):
        self.one.ask('delete_vip', self.cluster_id)
        self.assertEqual(1, self.look().told)
        self.assertWhole(self.one)
