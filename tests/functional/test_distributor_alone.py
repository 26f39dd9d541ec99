# SPDX-License-Identifier: Apache-2.0

"""A member dies while nobody can control: its distributor acts by itself.

The process of the distributor, its Open vSwitch and its API, what controllers
ask it and tell it, and the rows are real; Neutron and the manager are not.
"""

import contextlib
import itertools
import threading

import fixtures
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs_backend
from octavia_hmsync.cluster.distribution.ovs import probe_watch
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync.db import api
from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import distributor
from tests.cloud import process
from tests.cloud import waiting
from tests.functional.distributor import fabric
from tests.unit.cluster import distributors

# Of controllers and of the node in the management network.
CONTROLLER, NODE = '198.51.100.1', '198.51.100.2'
PORT = 9444
OWN = '10.0.0.240'
# Seconds: a member has to be DOWN for ten.
LIMIT = 90


class Controllers:
    """As housekeeping does: records what is seen, and drains who is DOWN."""

    def __init__(self, engine, distributors_, cluster_id):
        self._engine = engine
        self._distributors = distributors_
        self._cluster_id = cluster_id
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._watch = probe_watch.ProbeWatch(
            engine, distributors_.client_of, lambda: None)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._stopping.set()
        self._watch.stop()
        self._thread.join()

    def _run(self):
        while not self._stopping.wait(0.5):
            try:
                self._watch.run_once()
                self._drain()
            except exceptions.HMSyncException:
                pass
            except Exception as e:
                if not api.is_database_error(e):
                    raise

    def _drain(self):
        down = {probe.member_id for probe in probe_repo.get_of_cluster(
            self._engine, self._cluster_id)
            if probe.state == probe_repo.DOWN}
        for member_id in down:
            member_repo.set_state(self._engine, member_id,
                                  (member_repo.ACTIVE,), member_repo.DRAINING)
        if down:
            self._distributors.apply(self._cluster_id)


class TestAlone(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.patch(distributors, 'ADDRESS', fabric.VIP)
        self.patch(distributors.FakePorts, 'get_addresses',
                   lambda *_: (OWN,))
        directory = self.useFixture(fixtures.TempDir()).path
        self.node = self.useFixture(fabric.Node('network1', 1, directory))
        self.connect()
        self.servers = self.useFixture(fabric.Servers())
        self.hosts = [self.make_host(f'm{number}', 10 + number, directory)
                      for number in range(3)]
        for host in self.hosts:
            self.servers.serve(host)
        self.clients = self.useFixture(fabric.Clients(
            self.make_host('client', 20, directory)))
        self.process = self.start(directory)
        self.subject = ovs_backend.Distributors(
            self.conf, self.engine, self.ports)
        self.members = self.make_cluster()

    def make_host(self, name, number, directory):
        return self.useFixture(fabric.Host(
            name, self.node.namespace, self.node.vswitch, number, directory))

    def connect(self):
        """Have a management network: a pair of interfaces."""
        process.run('ip', 'link', 'set', 'lo', 'up')
        process.run('ip', 'link', 'add', 'mgmt0', 'type', 'veth', 'peer',
                    'mgmt1', 'netns', str(self.node.namespace.pid))
        self.addCleanup(process.run, 'ip', 'link', 'del', 'mgmt0')
        process.run('ip', 'address', 'add', f'{CONTROLLER}/24', 'dev',
                    'mgmt0')
        process.run('ip', 'link', 'set', 'mgmt0', 'up')
        run = self.node.namespace.run
        run('ip', 'address', 'add', f'{NODE}/24', 'dev', 'mgmt1')
        run('ip', 'link', 'set', 'mgmt1', 'up')

    def start(self, directory):
        made = self.useFixture(certificates.Certificates(directory))
        started = self.useFixture(distributor.Distributor(
            'network1', NODE, PORT, made, directory, directory,
            self.node.vswitch, self.node.namespace))
        started.wait_until_ready()
        for name, value in (
                ('distributors', [f'network1={started.url}']),
                ('distributor_ca', made.server_authority.certificate_path),
                ('distributor_client_cert', made.client_path)):
            self.conf.set_override(name, value, group='hmsync_cluster')
        return started

    def make_cluster(self):
        """Have a cluster of these hosts; return {id of a member: Host}."""
        self.cluster_id = self.add_cluster(0)
        cluster_repo.set_ports(self.engine, self.cluster_id, [fabric.PORT])
        members = {}
        for host in self.hosts:
            member = self.add_member(self.cluster_id)
            member_repo.set_mac(self.engine, member.id, host.mac)
            members[member.id] = host
        cluster_vips.VIPs(self.conf, self.engine,
                          self.subject).add(self.cluster_id)
        # As Neutron's agent does.
        self.node.vswitch.vsctl('set', 'Port', bridges.Names.of(
            self.cluster_id).peer, 'tag=1')
        return members

    # What is seen

    def get_version_in_force(self):
        return self.process.ask('get_vip', self.cluster_id)['document'][
            'version']

    def get_states(self):
        """{name of a host: whether it answers}, as the distributor sees it."""
        names = {member.amphora_id: self.members[member.id].name
                 for member in member_repo.get_of_cluster(
                     self.engine, self.cluster_id)}
        return {names[one['member']]: one['state'] for one in
                self.process.ask('get_probes')['probes']}

    def get_chosen(self):
        """Names of hosts that the current mapping leads to."""
        macs = fabric.find_chosen(self.node.vswitch, self.cluster_id,
                                  [host.mac for host in self.hosts])
        return {host.name for host in self.hosts if host.mac in macs}

    def wait_until_chosen(self, hosts, why):
        names = {host.name for host in hosts}
        waiting.wait_for(lambda: self.get_chosen() == names, lambda: (
            f'{sorted(names)} instead of {sorted(self.get_chosen())} with '
            f'{why}; seen are {self.get_states()}'), LIMIT)

    def wait_until_up(self):
        waiting.wait_for(
            lambda: self.get_states() == {
                host.name: probe_repo.UP for host in self.hosts},
            lambda: f'all UP: {self.get_states()}', LIMIT)

    # What happens

    @contextlib.contextmanager
    def without_database(self):
        def refuse(*_):
            raise sa.exc.OperationalError('connect', {}, 'it is gone', None,
                                          True)
        sa.event.listen(self.engine, 'before_cursor_execute', refuse)
        try:
            yield
        finally:
            sa.event.remove(self.engine, 'before_cursor_execute', refuse)

    @contextlib.contextmanager
    def without_network(self):
        process.run('ip', 'link', 'set', 'mgmt0', 'down')
        try:
            yield
        finally:
            process.run('ip', 'link', 'set', 'mgmt0', 'up')

    @contextlib.contextmanager
    def dead(self, host):
        host.namespace.run('ip', 'link', 'set', 'eth0', 'down')
        try:
            yield
        finally:
            host.namespace.run('ip', 'link', 'set', 'eth0', 'up')

    def lose(self, host, *kinds):
        """Have a member die, and nothing new go to it.

        :returns: whether a controller has said so.
        """
        others = [each for each in self.hosts if each is not host]
        self.clients.open(12, [fabric.VIP])
        version = self.get_version_in_force()
        with contextlib.ExitStack() as faults:
            if 'controllers' not in kinds:
                faults.enter_context(Controllers(
                    self.engine, self.subject, self.cluster_id))
            if 'database' in kinds:
                faults.enter_context(self.without_database())
            if 'network' in kinds:
                faults.enter_context(self.without_network())
            with self.dead(host):
                self.wait_until_chosen(others, kinds)
                told = self.get_version_in_force() != version
                # None of them waits for an answer.
                new = self.clients.open(20, [fabric.VIP])
                self.assertEqual({each.name for each in others},
                                 {one.member for one in new})
                self.clients.close(*new)
                broken = [one for one in self.clients.connections
                          if one.member == host.name]
                self.clients.close(*broken)
                self.assertEqual([], self.clients.find_broken())
            self.clients.close(*list(self.clients.connections))
        return told

    def recover(self):
        """Have controllers there again, who use all members."""
        self.wait_until_up()
        for member_id in self.members:
            member_repo.set_state(self.engine, member_id,
                                  (member_repo.DRAINING,), member_repo.ACTIVE)
        # Else one that is seen UP by now is drained again.
        for each in distributor_repo.get_enabled(self.engine):
            probe_repo.forget(self.engine, each.id)
        cluster_repo.raise_version(self.engine, self.cluster_id,
                                   self.get_version(self.cluster_id))
        self.subject.apply(self.cluster_id)
        self.wait_until_chosen(self.hosts, 'nothing')

    def test_nobody_controls(self):
        """With whatever keeps controllers from saying so, alone or at once."""
        self.wait_until_up()
        self.assertTrue(self.lose(self.hosts[0]))
        self.recover()
        faults = ('controllers', 'database', 'network')
        for number, kinds in enumerate(
                kinds for size in range(1, 4)
                for kinds in itertools.combinations(faults, size)):
            with self.subTest(kinds):
                self.assertFalse(self.lose(self.hosts[number % 3], *kinds))
                self.recover()
