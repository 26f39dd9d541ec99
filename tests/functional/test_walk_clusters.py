# SPDX-License-Identifier: Apache-2.0

"""The walk over the page of clusters' roll-out, without amphorae.

Commands and distributors are real, and so are Octavia's flows for a cluster,
on a cloud that is a few dictionaries. tests/soak/test_walk.py goes through the
same page with traffic.
"""

import http.server
import json
import pathlib

import fixtures

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.distribution import distributor_status
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync import version
from tests.cloud import certificates
from tests.cloud import distributor
from tests.cloud import http_server
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import waiting
from tests.cloud import walk
from tests.functional import walks
from tests.unit.cluster.keeping import test_upkeep

NODES = ('network1', 'network2')
KEY = 'secret'
SIZE = 4


class _NoAgents(http.server.BaseHTTPRequestHandler):

    def do_GET(self):
        answer = json.dumps({'agents': [], 'versions': [{
            'id': 'v2.0', 'status': 'CURRENT', 'links': [{
                'rel': 'self',
                'href': f'http://{self.headers["Host"]}/v2.0/'}]}]}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Neutron(http_server.HTTPServer):
    """As much of Neutron as is asked for: it has no agents."""

    def _handler(self):
        return _NoAgents


class TestWalkClusters(walks.ClusterPages, test_upkeep.ManagedTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.made = self.useFixture(certificates.Certificates(
            f'{self.directory}/certs'))
        self.distributors = {name: self.useFixture(distributor.Distributor(
            name, '127.0.0.1', network.free_port(), self.made,
            self.directory, self.directory)) for name in NODES}
        neutron = self.useFixture(Neutron())
        self.options = octavia_conf.merge(octavia_conf.controller(
            self.database.connection, self.made, KEY, network.free_port()),
            octavia_conf.HMSYNC, {
                'hmsync': {'offline_after': 600},
                'health_manager': {'bind_ip': '127.0.0.1'},
                'service_auth': {'auth_type': 'none',
                                 'endpoint': neutron.url},
                'neutron': {'auth_section': 'service_auth',
                            'endpoint_override': neutron.url}})
        self.before = {group: self.options.get(group, {}) for group in (
            'api_settings', 'controller_worker', 'hmsync_cluster')}
        self.shell = walk.Shell(self.directory)
        for each in self.distributors.values():
            waiting.wait_for(each.is_ready, each.name, processes=[each])

    def stop_clock(self):
        """Commands run in processes of their own, with the machine's clock."""

    def let_time_pass(self):
        pass

    def watch(self):
        """Have there be a health manager and a housekeeper."""
        hm_repo.register(
            self.engine, 'controller1', '192.0.2.1', 5555, 'instance', 600,
            heartbeat_key.digest(KEY), is_observing=True,
            plugin_version=version.version_string())
        keeper_repo.touch(self.engine, 'controller1', ())

    def test_walk(self):
        self.walk_clusters()

    def configure(self, lines):
        """With addresses, since nothing resolves the names of nodes."""
        named = lines['hmsync_cluster']['distributors']
        for name, each in self.distributors.items():
            self.assertIn(f'https://{name}:9444', named)
            named = named.replace(f'https://{name}:9444',
                                  f'{name}={each.url}')
        self.write(octavia_conf.merge(lines, {'hmsync_cluster': {
            'distributors': named}}))

    def write(self, lines):
        self.options = octavia_conf.merge(self.options, lines)
        directory = pathlib.Path(self.directory, '.octavia')
        directory.mkdir(exist_ok=True)
        octavia_conf.write(directory / 'octavia.conf', self.options)

    def restart(self):
        """Look at distributors, as the services do."""
        self.one, self.two = distributor_repo.sync(
            self.engine, 'hmsync_ovs',
            {name: each.url for name, each in self.distributors.items()})
        for row in (self.one, self.two):
            distributor_status.record(
                self.engine, row, distributor_status.ask(
                    self.distributors[row.name].make_client()))

    def add_cluster(self):
        self.assertEqual(SIZE, int(
            self.options['hmsync_cluster']['desired_size']))
        self.lb_id = self.make(SIZE, int(
            self.options['hmsync_cluster']['min_size']))
        self.records.change('load_balancer', self.lb_id, name='try')

    def let_a_member_die(self):
        self.see_all(self.lb_id)
        dead = self.get_members(self.lb_id)[1]
        self.see(dead.id, test_upkeep.DOWN, test_upkeep.SILENT)
        self.urge()
        self.keep()
        self.assertWhole(self.lb_id, SIZE)
        self.assertNotIn(dead.id, {
            each.id for each in self.get_members(self.lb_id)})

    def delete_cluster(self):
        self.delete(self.lb_id)
        self.assertGone(self.lb_id)
        code, output = self.shell.run('octavia-hmsync cluster list -f json')
        self.assertEqual((0, []), (code, json.loads(output)))

    def switch_off(self):
        self.write({
            group: {**dict.fromkeys(self.options[group]), **options}
            for group, options in self.before.items()})
