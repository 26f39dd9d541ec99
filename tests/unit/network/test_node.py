# SPDX-License-Identifier: Apache-2.0

"""What is said of a port that does not work."""

from unittest import mock

import fixtures

from octavia_hmsync.network import node
from octavia_hmsync.network import ovs
from octavia_hmsync.network import port as node_port
from tests.unit import base


class TestBlame(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            ovs.Vswitch, 'get_host_name', autospec=True, return_value=None))

    def describe(self, hosts):
        """What is said where agents report from these, and not from ours."""
        ports = mock.create_autospec(node_port.NodePorts, instance=True)
        ports.get_agents.return_value = [
            ('Open vSwitch agent', host, True) for host in hosts]
        return node.Node(self.make_conf(), None, ports, None)._blame(
            node_port.NodePort(
                'port1', 'name1', 'node1', 'fa:16:3e:00:00:01',
                ('192.0.2.3',), 'DOWN', True, 'node1',
                node_port.BINDING_FAILED, frozenset(), frozenset()), 10)

    def test_agents_elsewhere(self):
        self.assertIn('(agents report from: nowhere)', self.describe([]))
        self.assertIn('(agents report from: host2, host3)',
                      self.describe(['host3', 'host2', 'host3']))

    def test_many_agents(self):
        """Thousands of nodes are no line of a log."""
        text = self.describe([f'host{number}' for number in range(1000)])
        self.assertIn('and 990 others)', text)
        self.assertLess(len(text), 600)
