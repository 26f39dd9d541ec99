# SPDX-License-Identifier: Apache-2.0

"""Where load balancers as tenants have them are: networks, members, secrets.

A cloud gets this once, before its first load balancer::

    self.secrets = self.useFixture(tenant_secrets.Secrets())
    self.cloud = self.useFixture(octavia.Octavia(
        options=octavia_conf.merge(self.secrets.octavia_options(), ...),
        neutron_options=places.NEUTRON))
    self.cloud.wait_until_ready()
    self.places = self.useFixture(places.Places(self.cloud, self.secrets))
"""

import functools
import os

import fixtures

from tests.cloud import certificates
from tests.cloud import machines
from tests.cloud import neutron

# Of neutron.conf: QoS policies, and floating IPs, for which a clone asks.
NEUTRON = {'DEFAULT': {'service_plugins': 'qos,router'},
           'ml2': {'extension_drivers': 'port_security,qos'}}
NAMES = ('a.example', 'b.example')


class Places(fixtures.Fixture):
    """The VIP's network with three subnets, another one, and who is there.

    .network and .subnet are the tenant's, .subnet6 and .second_subnet are
    beside it in the same network. .near are two members with an address of
    both families in the VIP's network, .second is one in its second subnet,
    .far one in another network, .far_subnet. .client is in all of these.

    :param cloud: an octavia.Octavia with bridges that is ready, and has no
                  load balancers yet.
    :param secrets: the tenant_secrets.Secrets of its octavia.conf.
    """

    def __init__(self, cloud, secrets):
        super().__init__()
        self.cloud = cloud
        self._secrets = secrets
        self.network = cloud.network
        self.subnet = cloud.subnet

    def _setUp(self):
        cloud = self.cloud
        self.subnet6 = cloud.add_subnet(self.network, 'fd00:1::/64')
        self.second_subnet = cloud.add_subnet(self.network, '10.1.1.0/24')
        self.far_network, self.far_subnet = cloud.add_network(
            'far', '10.2.0.0/24')
        both = [self.subnet, self.subnet6]
        self.near = [self._add(machines.Member, f'near{number}', *both)
                     for number in (1, 2)]
        self.second = self._add(machines.Member, 'second', self.second_subnet)
        self.far = self.useFixture(machines.Member(
            cloud, 'far', self.far_network))
        self.client = self._add(machines.Client, 'client', *both,
                                self.second_subnet)
        self._make_secrets()

    def _add(self, kind, name, *subnets):
        return self.useFixture(kind(self.cloud, name, fixed_ips=[
            {'subnet_id': subnet.id} for subnet in subnets]))

    def _make_secrets(self):
        """Make a certificate for each of NAMES, and what clients show."""
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.cloud.directory, 'tenant')))
        self.tls_refs = [
            self._secrets.add_pair(self.certificates.server_path(name))
            for name in NAMES]
        with open(self.certificates.client_authority.certificate_path,
                  'rb') as pem:
            self.client_ca_ref = self._secrets.add(pem.read())

    def add_qos_policy(self):
        """Make a QoS policy of the owner; returns its id."""
        return self.cloud.connection.network.create_qos_policy(
            name='of the owner', project_id=neutron.PROJECT_ID).id

    def add_security_group(self):
        """Make a security group of the owner; returns its id."""
        return self.cloud.add_open_group(neutron.PROJECT_ID).id

    @functools.cached_property
    def availability_zone(self):
        """The name of one with this cloud's compute zone."""
        api = self.cloud.connection.load_balancer
        profile = api.create_availability_zone_profile(
            name='zone', provider_name='amphora',
            availability_zone_data='{"compute_zone": "nova"}')
        return api.create_availability_zone(
            name='zone', is_enabled=True,
            availability_zone_profile_id=profile.id).name
