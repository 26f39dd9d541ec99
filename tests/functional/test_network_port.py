# SPDX-License-Identifier: Apache-2.0

"""A node's port: real Neutron API, real Open vSwitch, our command."""

import contextlib
import io
import json
import logging
import subprocess
import threading

import fixtures
from oslotest import base
import sqlalchemy as sa

from octavia_hmsync import cloud
from octavia_hmsync.cmd import hmsync
from octavia_hmsync import compat
from octavia_hmsync.conf import opts
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.network import address
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import link
from octavia_hmsync.network import network
from octavia_hmsync.network import node
from octavia_hmsync.network import port
from octavia_hmsync.network import port_keeper
from octavia_hmsync.network import reconcile
from octavia_hmsync.network import removal
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from tests.cloud import database
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import process
from tests.cloud import relay
from tests.cloud import waiting

NAME = 'o-hm0'


class Agent(fixtures.Fixture):
    """Wires what is plugged, as far as Neutron can see.

    :param server: a neutron.Neutron
    :param vswitch: the openvswitch.OpenVswitch of its node
    """

    def __init__(self, server, vswitch):
        super().__init__()
        self._server = server
        self._vswitch = vswitch

    def _setUp(self):
        self._stopping = threading.Event()
        thread = threading.Thread(target=self._run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._stopping.set)

    def _run(self):
        wired = None
        while not self._stopping.wait(0.1):
            try:
                ids = self._vswitch.get_external_ids(NAME)
            except RuntimeError:
                continue
            plugged = ids.get('iface-id'), ids.get('attached-mac')
            if plugged != wired and ids.get('iface-status') == 'active':
                # Neutron writes to the same file: no more than needed.
                self._server.execute(
                    "UPDATE ports SET status = 'ACTIVE' WHERE id = ? AND "
                    "mac_address = ?", *plugged)
                wired = plugged


class NodePortTestCase(base.BaseTestCase):
    """One node, and all that it needs, for the tests of a class."""

    # The Neutron is shared with other tests.
    NETWORK = 'node-ports'
    # Six addresses.
    CIDR = '172.31.0.0/29'
    BIND_IP = '0.0.0.0'  # nosec B104

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = cls.use_for_class(fixtures.TempDir()).path
        cls.neutron = neutron.shared_server()
        cls.namespace = cls.use_for_class(openvswitch.Namespace(
            'node1', cls.directory))
        cls.ovs = cls.use_for_class(openvswitch.OpenVswitch(
            cls.namespace, 'node1', cls.directory))
        cls.use_for_class(relay.Relay(cls.namespace, cls.neutron.port))
        cls.database = cls.use_for_class(
            database.SqliteDatabase(cls.directory))
        schema.upgrade(cls.database.engine)
        cls.neutron.add_agent('node1')
        cls.addClassCleanup(cls.neutron.remove_agent, 'node1')

    @classmethod
    def use_for_class(cls, fixture):
        fixture.setUp()
        cls.addClassCleanup(fixture.cleanUp)
        return fixture

    def setUp(self):
        super().setUp()
        self.conf = self.load_conf()
        self.engine = api.create_engine(self.conf)
        self.addCleanup(self.engine.dispose)
        connection = cloud.connect(self.conf)
        self.api = connection.network
        network.ensure(self.conf, self.engine, connection, adopt=True)
        self.ids = port_keeper.get_ids(self.conf, self.engine)
        self.use(self.conf)
        self.addCleanup(self.clean)

    def clean(self):
        self.ovs.vsctl('--if-exists', 'del-port', NAME)
        for found in self.get_ports():
            self.api.delete_port(found)
        with self.engine.begin() as connection:
            for model in (models.Port, models.HealthManager):
                connection.execute(sa.delete(model.__table__))

    def write_conf(self, **groups):
        path = f'{self.directory}/octavia.conf'
        octavia_conf.write(path, octavia_conf.merge(
            {'DEFAULT': {'host': 'node1'},
             'database': {'connection': self.database.connection},
             'health_manager': {'bind_ip': self.BIND_IP},
             # What a test registers stays alive until its end.
             'hmsync': {'offline_after': 600},
             'hmsync_network': {'ovsdb_connection': self.ovs.connection,
                                'network_name': self.NETWORK,
                                'api_timeout': 60,
                                'amphora_security_group':
                                    f'{self.NETWORK}-amp',
                                'health_manager_security_group':
                                    f'{self.NETWORK}-hm',
                                'management_subnet_cidr': self.CIDR}},
            self.neutron.octavia_options(), groups))
        return path

    def load_conf(self, **groups):
        compat.CONF.reset()
        self.addCleanup(compat.CONF.reset)
        conf = compat.load_configuration(
            ['--config-file', self.write_conf(**groups)])
        opts.register(conf)
        return conf

    def use(self, conf):
        """Have node1's octavia.conf say this."""
        self.ports = port.NodePorts(conf, cloud.connect(conf), self.ids)
        self.keeper = port_keeper.PortKeeper(conf, self.engine, self.ports)
        self.node = node.Node(conf, self.engine, self.ports, self.keeper)

    def plug(self, timeout=60, **kwargs):
        return self.namespace.call(self.node.plug, timeout, **kwargs)

    def start_agent(self):
        self.useFixture(Agent(self.neutron, self.ovs))

    def refused(self, kind, words, function, *args, **kwargs):
        error = self.assertRaises(kind, function, *args, **kwargs)
        self.assertIn(words, str(error))
        self.assertNotIn('\n', str(error))
        return str(error)

    def look(self):
        """What the kernel of the node has."""
        return self.namespace.call(link.get, NAME)

    def get_ports(self):
        return list(self.api.ports(network_id=self.ids.network_id))

    def make_older(self):
        """As if the node had plugged its port a day ago."""
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Port.__table__).values(
                plugged_at=types.utcnow_plus(-86400)))

    def assertPlugged(self):
        self.assertLess(port_repo.get(self.engine, 'node1').plugged_age, 3600)

    def run_on_node(self, *arguments, code=0, wrap=()):
        """Run octavia-hmsync as the node would; return output or error."""
        done = subprocess.run(
            self.namespace.wrap([
                *wrap, process.program('octavia-hmsync'), '--config-file',
                f'{self.directory}/octavia.conf', *arguments]),
            env=process.environment(self.directory), cwd=self.directory,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, timeout=240)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        return done.stderr if code else done.stdout

    def command(self, *arguments, code=0):
        """The same in this process, which takes no seconds to start."""
        compat.CONF.reset()
        out, err = io.StringIO(), io.StringIO()
        root = logging.getLogger()
        handlers = list(root.handlers)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                found = self.namespace.call(hmsync.main, [
                    '--config-file', f'{self.directory}/octavia.conf',
                    'network', 'port', *arguments])
            finally:
                root.handlers = handlers
        self.assertEqual(code, found, err.getvalue())
        self.assertEqual(int(code != 0), err.getvalue().count('\n'))
        return err.getvalue() if code else out.getvalue()


class TestLife(NodePortTestCase):

    def test_command(self):
        self.start_agent()
        self.assertIn('Would make the port octavia-health-manager-node1-',
                      self.command('plug', '--dry-run'))
        self.assertEqual([], self.get_ports())

        out = self.run_on_node('network', 'port', 'plug')
        self.assertIn('of node1 is ACTIVE with 172.31.0.', out)
        made, = self.get_ports()
        self.assertEqual(
            ('octavia-health-manager-node1-listen-port', 'Octavia:health-mgr',
             'node1', [self.ids.health_manager_security_group_id]),
            (made.name, made.device_owner, made.binding_host_id,
             made.security_group_ids))
        self.assertIn('octavia-hmsync', made.tags)
        ip = made.fixed_ips[0]['ip_address']
        self.assertEqual((made.mac_address, [ip]), self.look())
        self.assertEqual(
            {'iface-id': made.id, 'attached-mac': made.mac_address,
             'iface-status': 'active', 'skip_cleanup': 'true',
             'hmsync-host': 'node1'},
            {key: value for key, value in
             self.ovs.get_external_ids(NAME).items()
             if key != 'hmsync-plugged-at'})

        # Nothing to be done, and nothing is.
        out = self.command('plug')
        self.assertEqual(
            f'The port {made.id} of node1 is ACTIVE with {ip}.\n', out)
        shown = json.loads(self.command('show', '-f', 'json'))
        self.assertEqual(
            ('node1', made.id, 'ACTIVE', [ip], made.id, [ip], 1450),
            tuple(shown[key] for key in (
                'host', 'id', 'status', 'ip_address', 'interface_port',
                'interface_ip_address', 'interface_mtu')))
        listed = json.loads(self.command('list', '--long', '-f', 'json'))
        self.assertEqual([made.id], [row['id'] for row in listed])

        self.assertIn('is deleted. Its port stays.',
                      self.command('unplug'))
        # ovs-vswitchd is not waited for: it may not run.
        waiting.wait_for(lambda: self.look() is None, 'end of o-hm0')
        self.assertEqual([made.id], [p.id for p in self.get_ports()])
        self.assertIn(f'The port {made.id} of node1 is deleted',
                      self.command('delete', 'node1'))
        self.assertEqual([], self.get_ports())
        self.assertIn('There is no port of node1', self.command(
            'show', code=1))

    def test_reboot(self):
        self.start_agent()
        before, _changes = self.plug()
        self.ovs.reboot()
        after, changes = self.plug()
        self.assertEqual((before.id, before.ip_addresses),
                         (after.id, after.ip_addresses))
        self.assertEqual((after.mac, list(after.ip_addresses)), self.look())
        self.assertIn('gave the interface o-hm0 the address', changes[-1])
        # No default route by way of the management network.
        self.assertEqual('0\n', self.namespace.run(
            'cat', f'/proc/sys/net/ipv6/conf/{NAME}/accept_ra').stdout)

    def test_reboot_while_neutron_is_down(self):
        self.start_agent()
        made, _changes = self.plug()
        self.ovs.reboot()
        self.use(self.load_conf(neutron={
            'endpoint_override': 'http://127.0.0.1:1',
            'auth_section': 'service_auth'}))
        self.make_older()
        self.refused(exceptions.CloudUnavailable,
                     'The interface o-hm0 has its address as before',
                     self.plug)
        self.assertEqual((made.mac, list(made.ip_addresses)), self.look())
        self.assertPlugged()

    def test_two_at_once(self):
        self.start_agent()
        threads = [threading.Thread(target=self.plug) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(self.get_ports()))
        self.assertFalse(self.plug()[1])

    def test_port_that_was_lost(self):
        """It is made again as it was, and the interface follows."""
        self.start_agent()
        before, _changes = self.plug()
        self.api.delete_port(before.id)
        after, changes = self.plug()
        self.assertNotEqual(before.id, after.id)
        self.assertEqual((before.mac, before.ip_addresses),
                         (after.mac, after.ip_addresses))
        self.assertIn('was gone from Neutron', changes[0])
        self.assertEqual(after.id,
                         self.ovs.get_external_ids(NAME)['iface-id'])
        self.assertEqual(1, port_repo.get(self.engine, 'node1').repairs)

    def test_port_that_was_lost_and_cannot_be_plugged(self):
        """Amphorae may send there: its address is not given back."""
        self.start_agent()
        before, _changes = self.plug()
        self.api.delete_port(before.id)
        self.ovs.vswitchd.pause()
        self.addCleanup(self.ovs.vswitchd.resume)
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_hmsync.network.ovs._APPLY_TIMEOUT', 1))
        self.refused(exceptions.VswitchUnavailable,
                     'ovs-vswitchd did not answer', self.plug)
        after = self.ports.find('node1')
        self.assertEqual(before.ip_addresses, after.ip_addresses)
        self.assertEqual(after.id, port_repo.get(
            self.engine, 'node1').port_id)

    def test_port_that_was_lost_and_its_address(self):
        self.start_agent()
        before, _changes = self.plug()
        self.api.delete_port(before.id)
        self.api.create_port(network_id=self.ids.network_id, fixed_ips=[
            {'subnet_id': self.ids.subnet_id,
             'ip_address': before.ip_addresses[0]}])
        after, changes = self.plug()
        self.assertNotEqual(before.ip_addresses, after.ip_addresses)
        self.assertIn(f'because another port has {before.ip_addresses[0]}',
                      changes[0])
        self.assertEqual((after.mac, list(after.ip_addresses)), self.look())

    def test_repairs(self):
        self.start_agent()
        made, _changes = self.plug()
        self.api.update_port(made.id, security_group_ids=[])
        self.api.set_tags(self.api.get_port(made.id), ['mine'])
        _port, changes = self.plug()
        self.assertEqual(2, len(changes), changes)
        found = self.api.get_port(made.id)
        self.assertEqual([self.ids.health_manager_security_group_id],
                         found.security_group_ids)
        self.assertLessEqual({'mine', 'octavia-hmsync'}, set(found.tags))
        # Another MAC and IP address, by an administrator.
        self.api.update_port(made.id, binding_host_id='')
        self.api.update_port(made.id, mac_address='fa:16:3e:00:00:99')
        _port, changes = self.plug()
        self.assertIn('the MAC address of the port', ' '.join(changes))
        self.assertEqual('fa:16:3e:00:00:99', self.look()[0])

    def test_other_subnet_of_the_network(self):
        """A SLAAC one: Neutron gives the port an address there, too."""
        self.start_agent()
        before, _changes = self.plug()
        subnet = self.api.create_subnet(
            network_id=self.ids.network_id, cidr='fd00:9::/64', ip_version=6,
            ipv6_address_mode='slaac', ipv6_ra_mode='slaac')
        self.addCleanup(self.api.delete_subnet, subnet)
        self.addCleanup(self.clean)
        self.assertEqual(
            2, len(self.api.get_port(before.id).fixed_ips))
        self.assertEqual([], self.plug()[1])
        self.assertEqual((before.mac, list(before.ip_addresses)), self.look())
        # A lost one gets its address back all the same.
        self.api.delete_port(before.id)
        after, _changes = self.plug()
        self.assertEqual(before.ip_addresses, after.ip_addresses)

    def test_address_that_came_after_another_one(self):
        """The kernel deletes it with the first one."""
        self.start_agent()
        made, _changes = self.plug()
        ip = made.ip_addresses[0]
        first = next(f'172.31.0.{n}' for n in (5, 6)
                     if f'172.31.0.{n}' != ip)
        for command in (['flush'], ['add', f'{first}/29'],
                        ['add', f'{ip}/29']):
            self.namespace.run('ip', 'address', *command, 'dev', NAME)
        self.plug()
        self.assertEqual((made.mac, [ip]), self.look())

    def test_address_driver(self):
        self.start_agent()
        driver = address.NeutronPortDriver(self.conf)
        self.refused(exceptions.InvalidAddress, 'no network interface o-hm0',
                     self.namespace.call, driver.get)
        made, _changes = self.plug()
        # Neutron is not asked.
        self.neutron.pause()
        self.addCleanup(self.neutron.resume)
        self.assertEqual(made.ip_addresses[0],
                         self.namespace.call(driver.get))
        self.namespace.run('ip', 'address', 'replace', '172.31.0.6/29',
                           'dev', NAME)
        self.assertEqual(made.ip_addresses[0],
                         self.namespace.call(driver.get))
        self.namespace.run('ip', 'address', 'delete',
                           f'{made.ip_addresses[0]}/29', 'dev', NAME)
        self.refused(exceptions.InvalidAddress, f'and its port {made.id} has',
                     self.namespace.call, driver.get)

    def test_delete_while_it_is_used(self):
        self.start_agent()
        made, _changes = self.plug()
        hm_repo.register(self.engine, 'node1', made.ip_addresses[0], 5555,
                         'instance', 20)
        self.assertIn('Health manager node1 is alive', self.command(
            'delete', 'node1', '--force', code=1))
        self.assertEqual(1, len(self.get_ports()))


class TestReconcile(NodePortTestCase):
    """What a housekeeper does while the node does nothing."""

    def setUp(self):
        super().setUp()
        self.made = self.keeper.ensure('node1', 'node1').port
        self.log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.reconciler = reconcile.Reconciler(self.conf, self.engine)

    def run_once(self):
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Network.__table__).values(
                reconciled_at=None))
        return self.reconciler.run_once()

    def test_nothing_to_do(self):
        self.assertEqual(0, self.run_once())

    def test_lost(self):
        self.api.delete_port(self.made.id)
        self.assertEqual(1, self.run_once())
        found = self.ports.find('node1')
        self.assertEqual(
            (self.made.mac, self.made.ip_addresses, 'node1'),
            (found.mac, found.ip_addresses, found.binding_host))
        self.assertIn('see to the port of the node node1, which is gone',
                      self.log.output)
        known = port_repo.get(self.engine, 'node1')
        self.assertEqual((found.id, 1), (known.port_id, known.repairs))
        self.assertEqual(0, self.run_once())

    def test_changed(self):
        self.api.update_port(self.made.id, security_group_ids=[],
                             binding_host_id='')
        self.api.update_port(self.made.id, mac_address='fa:16:3e:00:00:99')
        self.assertEqual(1, self.run_once())
        found = self.ports.find('node1')
        self.assertEqual('node1', found.binding_host)
        self.assertEqual({self.ids.health_manager_security_group_id},
                         found.security_groups)
        self.assertEqual('fa:16:3e:00:00:99',
                         port_repo.get(self.engine, 'node1').mac)
        self.assertEqual(0, self.run_once())

    def test_renamed(self):
        """Another one would have another address."""
        for repair in (self.run_once, self.plug):
            self.api.update_port(self.made.id, name='mine')
            self.start_agent()
            repair()
            self.assertEqual(self.made.id, self.ports.find('node1').id)
            self.assertEqual(1, len(self.get_ports()))
        self.assertIn('which is called "mine"', self.log.output)

    def test_renamed_and_deleted(self):
        self.api.update_port(self.made.id, name='mine')
        self.assertIn(self.made.id, self.command(
            'delete', 'node1', '--dry-run'))
        self.assertIn(self.made.id, self.command('delete', 'node1'))
        self.assertEqual([], list(self.api.ports(id=self.made.id)))
        self.assertIsNone(port_repo.get(self.engine, 'node1'))

    def test_gone_and_deleted(self):
        self.api.delete_port(self.made.id)
        self.assertIn('Would forget the port of node1.', self.command(
            'delete', 'node1', '--dry-run'))
        self.assertIn('The port of node1 was gone already',
                      self.command('delete', 'node1'))
        self.assertEqual(0, self.run_once())
        self.assertEqual([], self.get_ports())
        self.assertIn('There is no port of node1', self.command(
            'delete', 'node1', code=1))

    def test_one_that_is_not_seen(self):
        """There is no other one for it: amphorae send to its address."""
        known = port_repo.get(self.engine, 'node1')

        def refuse():
            self.refused(exceptions.CloudRefused, 'is in use', self.run_once)
            self.refused(exceptions.CloudRefused, 'is in use',
                         self.keeper.ensure, 'node1', 'node1')
            self.assertEqual(known, port_repo.get(self.engine, 'node1'))

        # As for a user who lost a role.
        self.addCleanup(self.neutron.write_policy, {})
        self.neutron.write_policy({'get_port': '!'})
        refuse()
        self.neutron.write_policy({})
        self.assertEqual([self.made.id], [p.id for p in self.get_ports()])

    def test_one_that_cannot_be_repaired(self):
        """The others are."""
        other = self.keeper.ensure('node0', 'node1').port
        self.api.update_port(other.id, binding_host_id='node9')
        self.api.update_port(other.id, security_group_ids=[])
        self.api.delete_port(self.made.id)
        self.assertRaises(exceptions.PortConflict, self.run_once)
        self.assertIsNotNone(self.ports.find('node1'))

    def test_one_that_cannot_be_bound(self):
        """Nothing is put right before its node is up."""
        self.keeper.ensure('node0', 'node0')
        self.assertEqual(0, self.run_once())
        self.neutron.add_agent('node0')
        self.addCleanup(self.neutron.remove_agent, 'node0')
        self.assertEqual(1, self.run_once())
        self.assertEqual(0, self.run_once())

    def test_one_that_its_node_works_on(self):
        self.api.delete_port(self.made.id)
        port_repo.claim(self.engine, 'node1', 'the node', 60)
        self.assertEqual(0, self.run_once())
        self.assertIsNone(self.ports.find('node1'))

    def test_one_that_is_given_back(self):
        """Between the look at what is known and the look at Neutron."""
        get_all = port.NodePorts.get_all
        patch = fixtures.MonkeyPatch(
            'octavia_hmsync.network.port.NodePorts.get_all', None)

        def give_back_and_get_all(ports):
            patch.cleanUp()
            self.keeper.delete('node1')
            return get_all(ports)

        patch.new_value = give_back_and_get_all
        patch.setUp()
        self.assertEqual(0, self.run_once())
        self.assertIsNone(self.ports.find('node1'))
        self.assertEqual([], port_repo.get_all(self.engine))

    def test_one_that_nobody_remembers(self):
        self.ports.create('node7', 'node7')
        self.assertEqual(0, self.run_once())
        self.run_once()
        self.assertEqual(1, self.log.output.count('is not recorded: run'))


class TestNetworkIsDeleted(NodePortTestCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(self.delete_orphans, self.ids.network_id)

    def delete_orphans(self, network_id):
        for left in self.api.ports(network_id=network_id):
            self.api.delete_port(left)
        self.api.delete_network(network_id)

    def delete(self, dry_run=False):
        """Delete the network; return what became of network and ports."""
        compat.CONF.reset()
        conf = self.load_conf()
        return [(found.title.partition(' (')[0], found.outcome, found.users)
                for found in removal.delete(conf, self.engine,
                                            cloud.connect(conf), dry_run)
                if not found.title.startswith(('s', 'security'))]

    def test_ports_of_nodes_that_are_gone(self):
        self.keeper.ensure('node1', 'node1')
        self.keeper.ensure('node2', 'node2')
        # One of devstack, which gives it the same name.
        theirs = self.api.create_port(
            network_id=self.ids.network_id, device_owner=port.DEVICE_OWNER,
            name=port.get_name('node3'))
        expected = [
            ('port octavia-health-manager-node1-listen-port', 'deleted', []),
            ('port octavia-health-manager-node2-listen-port', 'deleted', []),
            (f'network {self.NETWORK}', 'orphaned',
             [f'port {theirs.name} ({theirs.id}) of {port.DEVICE_OWNER}'])]
        self.assertEqual(expected, self.delete(dry_run=True))
        self.assertEqual(3, len(self.get_ports()))
        self.assertEqual(expected, self.delete())
        self.assertEqual([theirs.name], [p.name for p in self.get_ports()])
        self.assertEqual([], port_repo.get_all(self.engine))

    def test_address_that_the_port_has_lost(self):
        """It may come back, and amphorae send there."""
        made = self.keeper.ensure('node1', 'node1').port
        ip, = made.ip_addresses
        self.api.update_port(made.id, fixed_ips=[])
        keeper_repo.touch(self.engine, 'controller1', (f'{ip}:5555',))
        self.addCleanup(keeper_repo.delete_expired, self.engine, -60)
        self.assertEqual(
            ('port octavia-health-manager-node1-listen-port', 'orphaned',
             ['list of all amphorae']), self.delete()[0])

    def test_port_in_use(self):
        """It stays as it is for its node, until that gets another one."""
        self.start_agent()
        made, _changes = self.plug()
        ip = made.ip_addresses[0]
        hm_repo.register(self.engine, 'node1', ip, 5555, 'instance', 20)
        title = 'port octavia-health-manager-node1-listen-port'
        expected = [
            (title, 'orphaned',
             ['interface of the node node1', 'health manager node1']),
            (f'network {self.NETWORK}', 'orphaned', [
                f'{title} ({made.id}) of {port.DEVICE_OWNER}'])]
        self.assertEqual(expected, self.delete(dry_run=True))
        expected[1][2][0] = expected[1][2][0].replace(' (', '-orphaned (')
        self.assertEqual(expected, self.delete())
        left, = self.get_ports()
        self.assertEqual(['octavia-hmsync-orphaned'], left.tags)
        driver = address.NeutronPortDriver(self.conf)
        self.assertEqual(ip, self.namespace.call(driver.get))
        self.assertEqual([], self.delete())

        # Nobody takes it for the port of the next network, and no
        # housekeeper gives the node another address behind its back.
        connection = cloud.connect(self.conf)
        old_ids = self.ids
        network.ensure(self.conf, self.engine, connection)
        self.ids = port_keeper.get_ids(self.conf, self.engine)
        self.assertNotEqual(old_ids, self.ids)
        with self.engine.begin() as database_connection:
            database_connection.execute(sa.update(
                models.Network.__table__).values(reconciled_at=None))
        log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.assertEqual(0, reconcile.Reconciler(
            self.conf, self.engine).run_once())
        self.assertIn(f'the port {made.id} of node1 was left in another one',
                      log.output)
        self.assertEqual(made.id,
                         port_repo.get(self.engine, 'node1').port_id)
        self.assertEqual(ip, self.namespace.call(driver.get))

        self.use(self.conf)
        after, _changes = self.plug()
        self.assertNotEqual(made.id, after.id)
        self.assertEqual(after.ip_addresses[0],
                         self.namespace.call(driver.get))


class TestBadInput(NodePortTestCase):

    def test_no_network(self):
        self.write_conf(hmsync_network={'network_name': 'other'})
        self.assertIn('run "octavia-hmsync network ensure" once',
                      self.command('plug', code=1))
        self.assertEqual([], json.loads(self.command('list', '-f', 'json')))

    def test_neutron_that_is_down(self):
        self.write_conf(neutron={'endpoint_override': 'http://127.0.0.1:1',
                                 'auth_section': 'service_auth'})
        self.assertEqual(1, self.command(
            'plug', code=1).count('\n'))
        self.assertIsNone(port_repo.get(self.engine, 'node1'))

    def test_no_bridge(self):
        self.use(self.load_conf(hmsync_network={
            'integration_bridge': 'br-none'}))
        self.refused(exceptions.VswitchUnavailable, 'has no bridge br-none',
                     self.plug)
        self.assertEqual([], self.get_ports())

    def test_failure_after_the_port_was_made(self):
        """Here because the command runs in another network namespace."""
        self.ovs.vswitchd.pause()
        self.addCleanup(self.ovs.vswitchd.resume)
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_hmsync.network.ovs._APPLY_TIMEOUT', 1))
        self.refused(exceptions.VswitchUnavailable,
                     'ovs-vswitchd did not answer', self.plug)
        self.assertEqual([], self.get_ports())
        self.assertIsNone(port_repo.get(self.engine, 'node1'))

    def test_no_right_to_configure_interfaces(self):
        """In a container without NET_ADMIN."""
        error = self.run_on_node(
            'network', 'port', 'plug', code=1, wrap=(
                'setpriv', '--bounding-set=-net_admin', '--'))
        self.assertIn('Operation not permitted. Run this as root', error)
        self.assertEqual([], self.get_ports())
        self.assertIsNone(self.look())
        self.assertIsNone(port_repo.get(self.engine, 'node1'))

    def test_no_agent_of_the_node(self):
        self.use(self.load_conf(hmsync_network={
            'binding_host': 'elsewhere'}))
        words = self.refused(
            exceptions.NotPossible, 'could not bind the port', self.plug)
        self.assertIn('no agent reports to Neutron from elsewhere (agents '
                      'report from: node1)', words)
        self.assertIn('Open vSwitch here goes by the name node1', words)
        # The agent comes; nobody has to do more than run it again.
        rename = 'UPDATE agents SET host = ? WHERE host = ?'
        self.neutron.execute(rename, 'elsewhere', 'node1')
        self.addCleanup(self.neutron.execute, rename, 'node1', 'elsewhere')
        self.start_agent()
        _port, changes = self.plug()
        self.assertIn('could not be bound', changes[0])

    def test_agent_that_died(self):
        self.neutron.execute(
            "UPDATE agents SET heartbeat_timestamp = '2020-01-01 00:00:00'")
        self.addCleanup(
            self.neutron.execute, "UPDATE agents SET heartbeat_timestamp = "
            "started_at")
        self.refused(
            exceptions.NotPossible, 'the Open vSwitch agent of node1 does '
            'not report to Neutron any more', self.plug, 1)

    def test_agent_that_does_not_wire(self):
        self.refused(
            exceptions.NotPossible, 'the Open vSwitch agent of node1 is '
            'alive and does not wire it', self.plug, 1)
        # The port is plugged and stays, for the next attempt.
        self.assertEqual(1, len(self.get_ports()))
        self.make_older()
        self.refused(exceptions.NotPossible, 'does not wire it', self.plug, 1)
        self.assertPlugged()
        self.start_agent()
        self.plug()

    def test_port_that_is_switched_off(self):
        made = self.keeper.ensure('node1', 'node1').port
        self.api.update_port(made.id, admin_state_up=False)
        self.refused(exceptions.NotPossible, 'openstack port set --enable',
                     self.plug)

    def test_port_that_lost_its_address(self):
        self.start_agent()
        made, _changes = self.plug()
        self.api.update_port(made.id, fixed_ips=[])
        for _ in range(2):
            error = self.refused(
                exceptions.NotPossible, 'has no address in the management '
                'subnet', self.plug)
            self.assertNotIn('as before', error)

    def test_port_of_another_host(self):
        self.neutron.add_agent('node2')
        self.addCleanup(self.neutron.remove_agent, 'node2')
        self.keeper.ensure('node1', 'node2')
        self.refused(exceptions.PortConflict, 'is bound to the node node2, '
                     'and this one is node1', self.plug)

    def test_two_nodes_of_one_host(self):
        """The other one has plugged the port, and works."""
        self.neutron.add_agent('node2')
        self.addCleanup(self.neutron.remove_agent, 'node2')
        self.use(self.load_conf(DEFAULT={'host': 'node2'}))
        made = self.keeper.ensure('node2', 'node2').port
        self.neutron.execute("UPDATE ports SET status = 'ACTIVE' WHERE "
                             "id = ?", made.id)
        self.refused(exceptions.PortConflict, 'This node is node1, says Open '
                     'vSwitch, and not node2', self.plug)
        self.assertIsNone(self.look())

    def test_foreign_port_of_the_name(self):
        foreign = self.api.create_port(network_id=self.ids.network_id,
                                       name=port.get_name('node1'))
        self.refused(exceptions.PortConflict,
                     f'The port {foreign.id} has the name', self.plug)
        self.assertEqual([foreign.id], [p.id for p in self.get_ports()])
        self.assertIsNone(port_repo.get(self.engine, 'node1'))

    def test_two_ports_of_the_name(self):
        ids = sorted(self.api.create_port(
            network_id=self.ids.network_id, name=port.get_name('node1'),
            device_owner=port.DEVICE_OWNER).id for _ in range(2))
        self.refused(exceptions.PortConflict, ', '.join(ids), self.plug)

    def test_no_free_address(self):
        for _number in range(6):
            self.api.create_port(network_id=self.ids.network_id)
        self.refused(exceptions.CloudRefused, 'no address of the subnet is '
                     'free', self.plug)
        self.assertEqual(6, len(self.get_ports()))

    def test_interface_of_somebody_else(self):
        self.ovs.vsctl('add-port', 'br-int', NAME, '--', 'set', 'Interface',
                       NAME, 'type=internal')
        self.refused(exceptions.InterfaceConflict, 'was not plugged by',
                     self.plug)
        self.assertEqual([], self.get_ports())

    def test_host_name_that_is_too_long(self):
        self.use(self.load_conf(DEFAULT={
            'host': '.'.join(['n' * 60] * 4)[:230]}))
        self.refused(exceptions.InvalidConfiguration, 'is too long for the '
                     'name of a port', self.plug)
