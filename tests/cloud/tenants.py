# SPDX-License-Identifier: Apache-2.0

"""What tenants have of Neutron: networks, routers, floating addresses."""

import os
import tempfile

import fixtures

from tests.cloud import networking
from tests.cloud import neutron

# Of documentation, RFC 5737.
EXTERNAL_CIDR = '203.0.113.0/24'
EXTERNAL_CIDR6 = 'fd00:99::/64'


class Tenants:
    """For what has .connection, of openstacksdk, and .networking.

    .network and .subnet are a tenant's; unless networks are mere bridges, it
    has a router to .external_network, where there are floating addresses.
    """

    external_network = None
    router = None

    @property
    def fabric(self):
        return self.networking.fabric

    def add_network(self, name, cidr, gateway=None, router=None,
                    project_id=neutron.PROJECT_ID):
        """Make a network of Neutron with a subnet; returns both."""
        made = self.connection.network.create_network(name=name,
                                                      project_id=project_id)
        return made, self.add_subnet(made, cidr, gateway, router)

    def add_subnet(self, network, cidr, gateway=None, router=None):
        """Add a subnet to a network, and to a router; returns it."""
        api = self.connection.network
        subnet = api.create_subnet(
            network_id=network.id, cidr=cidr, enable_dhcp=False,
            ip_version=6 if ':' in cidr else 4, gateway_ip=gateway,
            project_id=network.project_id)
        if router:
            api.add_interface_to_router(router, subnet_id=subnet.id)
        return subnet

    def _make_tenant(self):
        api = self.connection.network
        # Whoever shall be reached from everywhere: members and clients.
        self.open_group = self.add_open_group(neutron.PROJECT_ID)
        if isinstance(self.networking, networking.Bridges):
            self.network, self.subnet = self.add_network('tenant',
                                                         '10.1.0.0/24')
            return
        self.external_network = api.create_network(
            name='external', project_id=neutron.PROJECT_ID,
            is_router_external=True, provider_network_type='flat',
            provider_physical_network=networking.EXTERNAL)
        self.add_subnet(self.external_network, EXTERNAL_CIDR,
                        EXTERNAL_CIDR.replace('.0/24', '.1'))
        self.fabric.set_external(self.external_network.id)
        self.router = api.create_router(
            name='router', project_id=neutron.PROJECT_ID,
            external_gateway_info={'network_id': self.external_network.id})
        self.network, self.subnet = self.add_network(
            'tenant', '10.1.0.0/24', '10.1.0.1', self.router)

    def add_open_group(self, project_id, stateful=True):
        """Make a security group that lets everything in; returns it."""
        api = self.connection.network
        group = api.create_security_group(name='open', project_id=project_id,
                                          stateful=stateful)
        for ethertype in ('IPv4', 'IPv6'):
            api.create_security_group_rule(
                security_group_id=group.id, project_id=project_id,
                direction='ingress', ethertype=ethertype)
        return group

    def open_ipv6(self):
        """Have the router go outside by IPv6, too; returns its address.

        Machines outside that are made later have one as well.
        """
        api = self.connection.network
        subnet = self.add_subnet(self.external_network, EXTERNAL_CIDR6,
                                 EXTERNAL_CIDR6.replace('::/64', '::1'))
        ours = self._get_outer(subnet)
        if ours is None:
            fixed_ips = [
                {'subnet_id': each['subnet_id'],
                 'ip_address': each['ip_address']}
                for each in self._get_outer_addresses()]
            api.update_router(self.router, external_gateway_info={
                'network_id': self.external_network.id,
                'external_fixed_ips': [*fixed_ips,
                                       {'subnet_id': subnet.id}]})
            ours = self._get_outer(subnet)
        return ours

    def _get_outer_addresses(self):
        return self.connection.network.get_router(
            self.router.id).external_gateway_info['external_fixed_ips']

    def _get_outer(self, subnet):
        return next((each['ip_address']
                     for each in self._get_outer_addresses()
                     if each['subnet_id'] == subnet.id), None)

    def add_floating_ip(self, port_id):
        """Have an address of a port be reached from outside; returns it."""
        return self.connection.network.create_ip(
            floating_network_id=self.external_network.id, port_id=port_id,
            project_id=neutron.PROJECT_ID).floating_ip_address


class Networks(Tenants, fixtures.Fixture):
    """A cloud of networks alone, for machines.Machine and others.

    :param network: a kind of networking.KINDS.
    :param how: what that takes besides a directory.
    """

    def __init__(self, network='ovn', **how):
        super().__init__()
        self._kind = network
        self._how = how

    def _setUp(self):
        self.directory = self.useFixture(
            fixtures.TempDir(rootdir=tempfile.gettempdir())).path
        os.makedirs(os.path.join(self.directory, 'tmp'))
        self.networking = self.useFixture(
            networking.KINDS[self._kind](self.directory, **self._how))
        self.networking.wait_until_ready()
        self.connection = neutron.connect(self.networking.neutron)
        self.addCleanup(self.connection.close)
        self._make_tenant()
