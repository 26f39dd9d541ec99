# SPDX-License-Identifier: Apache-2.0

"""A whole Octavia whose management network is one of Neutron's."""

import ipaddress
import subprocess

from tests.cloud import clusters
from tests.cloud import networking
from tests.cloud import neutron
from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import relay
from tests.cloud import waiting

# Of the page on the move of a management network; the first node has the
# address that is given there.
OLD = ipaddress.ip_network('10.20.0.0/24')
NEW = ipaddress.ip_network('172.16.0.0/22')
NODES = networking.NETWORK_NODES
ADDRESSES = dict(zip(NODES, ('10.20.0.11', '10.20.0.12'), strict=True))
OLD_NAME = 'lb-mgmt-net'
OLD_INTERFACE = 'mgmt0'
# Where the services are; each goes by the name of its node.
_PLACES = {'hm1': NODES[0], 'hm2': NODES[1], 'worker1': NODES[0],
           'hk': NODES[1]}


class Octavia(clusters.ClusterOctavia):
    """An Octavia in a provider network, OLD, which all nodes have.

    Health managers, the worker and the housekeeper are at the network nodes,
    beside their Open vSwitch, and amphorae have ports in the network, with
    the security groups that Octavia gives them.
    """

    def __init__(self, **kwargs):
        super().__init__(network='ovn-provider', health_managers=len(NODES),
                         **kwargs)
        # Beside .options, {group: {option: value}} of each node.
        self.node_options = {}

    def _start_services(self):
        super()._start_services()
        first, second = (self.networking.chassis[node] for node in NODES)
        for node in (first, second):
            for service in (self.rabbitmq, self.neutron, self.glance):
                self.useFixture(relay.Relay(node.namespace, service.port))
        # Controllers reach the distributor of the other node, too.
        for number, (node, other) in enumerate(
                ((second, first), (first, second)), 1):
            node.namespace.run('ip', 'route', 'add', f'10.98.{number}.2',
                               'via', other.address)

    def _make_management_network(self):
        api = self.connection.network
        self._management = api.create_network(
            name=OLD_NAME, project_id=neutron.PROJECT_ID,
            provider_network_type='flat',
            provider_physical_network=networking.PROVIDER)
        api.create_subnet(
            network_id=self._management.id, cidr=str(OLD), ip_version=4,
            enable_dhcp=False, gateway_ip=None, project_id=neutron.PROJECT_ID,
            allocation_pools=[{'start': str(OLD[100]), 'end': str(OLD[200])}])
        self._group = api.create_security_group(
            name='lb-mgmt-sec-grp', project_id=neutron.PROJECT_ID)
        api.create_security_group_rule(
            security_group_id=self._group.id, project_id=neutron.PROJECT_ID,
            direction='ingress', ethertype='IPv4', protocol='tcp',
            port_range_min=octavia.AMPHORA_PORT,
            port_range_max=octavia.AMPHORA_PORT)
        for node, address in ADDRESSES.items():
            self.networking.chassis[node].join_provider(
                OLD_INTERFACE, f'{address}/{OLD.prefixlen}')
        self.addresses = [None, *ADDRESSES.values()]

    def _get_namespace(self, host):
        return (self.networking.chassis[host].namespace if host in NODES
                else super()._get_namespace(host))

    def _get_node_options(self, node):
        return octavia_conf.merge({
            'DEFAULT': {'host': node},
            'health_manager': {'bind_ip': ADDRESSES[node]},
            'hmsync_network': {
                'ovsdb_connection':
                    self.networking.chassis[node].vswitch.connection}},
            self.options, self.node_options.get(node))

    def _add(self, kind, host, *layers):
        node = _PLACES.get(host)
        return (super()._add(kind, node, self._get_node_options(node))
                if node else super()._add(kind, host, *layers))

    def restart(self, child):
        """Start a service again, with the octavia.conf of its node by now."""
        child.options = octavia_conf.merge(
            self._options(), self._get_node_options(child.host))
        child.stop()
        child.start()
        waiting.wait_for(child.is_ready, f'sign of {child.name}',
                         processes=[child])

    def run(self, *arguments, node=NODES[0], codes=(0,)):
        """Run octavia-hmsync at a node; returns what it printed.

        :param codes: with which it may end.
        """
        command, how = self.make_command(
            'octavia-hmsync', *arguments, host=node,
            options=self._get_node_options(node))
        done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, **how)
        if done.returncode not in codes:
            raise RuntimeError(f'{arguments} at {node} failed with '
                               f'{done.returncode}:\n{done.stdout}\n'
                               f'{done.stderr}')
        return done.stdout
