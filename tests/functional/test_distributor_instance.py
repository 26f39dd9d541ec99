# SPDX-License-Identifier: Apache-2.0

"""A distributor in an instance: networks come as interfaces, real packets."""

import logging

import fixtures
from oslo_config import cfg
from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import conf as ovs_conf
from octavia_hmsync.distributor.ovs import openvswitch
from octavia_hmsync import exceptions
from tests.cloud import openvswitch as cloud_ovs
from tests.functional.distributor import fabric

VIP_ID = '11111111-1111-4111-8111-111111111111'


class Instance(fabric.Node):
    """A namespace with an Open vSwitch that has no bridge of an agent.

    :param network: the OpenVswitch of the node that wires it
    """

    def __init__(self, name, number, directory, network_node, network):
        super().__init__(name, number, directory)
        self._network_node = network_node
        self._network = network

    def _setUp(self):
        self.namespace = self.useFixture(cloud_ovs.Namespace(
            self.name, self._directory))
        self.vswitch = self.useFixture(cloud_ovs.OpenVswitch(
            self.namespace, self.name, self._directory, bridge=None))
        self.distributor = self.make_distributor()

    def make_distributor(self):
        conf = cfg.ConfigOpts()
        ovs_conf.register_opts(conf)
        conf([])
        for name, value in (
                ('connect_by', ovs_conf.INTERFACE),
                ('ovsdb_connection', self.vswitch.connection),
                ('openvswitch_rundir', self.vswitch.directory),
                ('openvswitch_timeout', 60),
                ('datapath_type', 'netdev')):
            conf.set_override(name, value, ovs_conf.GROUP)
        made = openvswitch.OpenVSwitch(conf)
        self.addCleanup(made.close)
        return made

    def plug(self, name, mac):
        """As the compute service does."""
        tap = f'tap{name}'
        self._network_node.link(self.namespace, tap, name)
        self.namespace.run('ip', 'link', 'set', name, 'down')
        self.namespace.run('ip', 'link', 'set', name, 'address', mac)
        self._network.vsctl('add-port', 'br-int', tap, 'tag=1')

    def unplug(self, name):
        self._network.vsctl('del-port', 'br-int', f'tap{name}')
        self._network_node.run('ip', 'link', 'delete', f'tap{name}')


class Vip(fabric.Vip):

    def apply(self, *nodes):
        for node in nodes or self.nodes:
            self.states[node] = node.namespace.call(
                node.distributor.apply, self.id, self.document(node),
                self.states.get(node), self.now)


class TestInstance(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        # It logs each message of the kernel.
        logging.getLogger('pyroute2').setLevel(logging.INFO)
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.node = self.useFixture(cloud_ovs.Namespace(
            'network', self.directory))
        self.network = self.useFixture(cloud_ovs.OpenVswitch(
            self.node, 'network', self.directory))
        servers = self.useFixture(fabric.Servers())
        self.members = []
        for number in (11, 12):
            host = self.useFixture(fabric.Host(
                f'm{number}', self.node, self.network, number,
                self.directory))
            servers.serve(host)
            self.members.append(host)
        self.client = self.useFixture(fabric.Host(
            'client', self.node, self.network, 100, self.directory))
        self.instances = [self.useFixture(Instance(
            f'd{number}', number, self.directory, self.node, self.network))
            for number in (1, 2)]
        self.vip = Vip(VIP_ID, *self.instances)
        for slot, host in enumerate(self.members):
            self.vip.set(host, doc.ACTIVE, slot)

    def get_mac(self, instance):
        return self.vip.document(instance).port.mac

    def plug_all(self, name='eth5'):
        for number, instance in enumerate(self.instances):
            instance.plug(f'{name}{number}', self.get_mac(instance))

    def get_link(self, instance, name):
        return instance.namespace.run('ip', '-details', 'address', 'show',
                                      name).stdout

    def test_life(self):
        first, second = self.instances
        for instance in self.instances:
            self.assertTrue(instance.namespace.call(
                instance.distributor.check))
        self.assertEqual('"2000"', first.vswitch.vsctl(
            'get', 'Open_vSwitch', '.', 'other_config:max-idle').strip())
        # Not plugged yet: it says whose port is missing.
        error = self.assertRaises(exceptions.VswitchUnavailable,
                                  self.vip.apply, first)
        self.assertIn(self.get_mac(first), str(error))
        self.plug_all()
        self.vip.apply()
        clients = self.useFixture(fabric.Clients(self.client))
        clients.open(30)
        self.assertEqual([], clients.find_broken())
        # The kernel has nothing of the tenant's network.
        shown = self.get_link(first, 'eth50')
        self.assertNotIn('inet', shown)
        self.assertIn('LOWER_UP', shown)

        # A new process, and a new list of members: all stay.
        first.distributor = first.make_distributor()
        self.vip.set(self.members[1], doc.DRAINING)
        self.vip.apply()
        clients.open(10)
        self.assertEqual([], clients.find_broken())

        # The other instance takes over.
        self.vip.active = second
        self.vip.version += 1
        self.vip.apply()
        clients.open(10)
        self.assertEqual([], clients.find_broken())

        # Gone: nobody hears that interface any more.
        self.assertTrue(first.namespace.call(first.distributor.remove,
                                             VIP_ID))
        self.assertNotIn('LOWER_UP', self.get_link(first, 'eth50'))
        self.assertEqual([], first.distributor.list_vips())

    def test_boot(self):
        """Interfaces get other names, one that of another VIP's."""
        instance = self.instances[0]
        self.vip.nodes = (instance,)
        other = Vip('22222222-2222-4222-8222-222222222222', instance, tag=7,
                    addresses=('10.0.0.6', 'fd00::6'))
        other.set(self.members[0], doc.ACTIVE, 0)
        instance.plug('eth1', self.get_mac(instance))
        instance.plug('eth2', other.document(instance).port.mac)
        self.vip.apply()
        other.apply()
        instance.vswitch.vswitchd.stop()
        run = instance.namespace.run
        for before, after in (('eth1', 'eth3'), ('eth2', 'eth1'),
                              ('eth3', 'eth2')):
            run('ip', 'link', 'set', before, 'down')
            run('ip', 'link', 'set', before, 'name', after)
        instance.vswitch.start_vswitchd()
        instance.distributor = instance.make_distributor()
        self.vip.apply()
        other.apply()
        ports = {one.id: instance.vswitch.vsctl('list-ports', one.bridge)
                 for one in (self.vip, other)}
        self.assertEqual({self.vip.id: 'eth2', other.id: 'eth1'}, ports)
        clients = self.useFixture(fabric.Clients(self.client))
        clients.open(20)
        self.assertEqual([], clients.find_broken())
