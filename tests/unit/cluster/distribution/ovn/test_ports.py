# SPDX-License-Identifier: Apache-2.0

import types
import uuid

from octavia_hmsync.cluster.distribution.ovn import ports
from tests.unit import base

CLUSTER = 'c0000000-0000-4000-8000-000000000001'
NETWORK = {'id': 'n', 'name': 'net1', 'mtu': 1450}


class FakeNeutron:
    """As much of the SDK as ports take; .there is {id: port}."""

    current_project_id = 'octavia'

    def __init__(self):
        self.there = {}
        # {name of a node: agents there}
        self.on_nodes = {}
        self.network = self

    def agents(self, host):
        return self.on_nodes[host]

    def ports(self, **filters):
        filters.pop('project_id', None)
        return [port for port in self.there.values() if all(
            getattr(port, name) == value for name, value in filters.items())]

    def create_port(self, **values):
        port = types.SimpleNamespace(id=str(uuid.uuid4()), **values)
        self.there[port.id] = port
        return port

    def delete_port(self, port_id):
        del self.there[port_id]


class TestSourcePorts(base.TestCase):

    def setUp(self):
        super().setUp()
        self.neutron = FakeNeutron()
        self.subject = ports.SourcePorts(
            self.make_conf(hmsync_network={'api_timeout': 60}), self.neutron)

    def ensure(self, cluster_id=CLUSTER):
        return self.subject.ensure_source(cluster_id, NETWORK,
                                          {'192.0.2.5': 's'})

    def test_dead_node(self):
        port = self.neutron.create_port(binding_host_id='compute1')
        for agents, dead in (
                ((), None), ((('OVN Metadata agent', False),), None),
                ((('OVN Controller agent', True),), None),
                ((('OVN Controller agent', False),
                  ('OVN Metadata agent', True)), 'compute1'),
                ((('OVN Controller Gateway agent', False),), 'compute1')):
            self.neutron.on_nodes = {'compute1': [
                types.SimpleNamespace(agent_type=kind, is_alive=is_alive)
                for kind, is_alive in agents]}
            self.assertEqual(dead, self.subject.find_dead_node(port.id))
        for port_id in ('unknown', self.neutron.create_port(
                binding_host_id='').id):
            self.assertIsNone(self.subject.find_dead_node(port_id))

    def test_found_again(self):
        made = self.ensure()
        self.assertEqual(made, self.ensure())
        self.assertEqual([made.id], list(self.neutron.there))

    def test_deleted_with_its_cluster_alone(self):
        other = self.ensure('c0000000-0000-4000-8000-000000000002')
        self.ensure()
        self.subject.delete(CLUSTER)
        self.assertEqual([other.id], list(self.neutron.there))
        self.subject.delete(CLUSTER)
