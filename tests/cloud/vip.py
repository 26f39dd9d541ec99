# SPDX-License-Identifier: Apache-2.0

"""A VIP behind distributors without Octavia: members are mere machines."""

import uuid

import fixtures

from octavia_hmsync.cluster.members import silent_vip
from octavia_hmsync.distributor import document
from tests.cloud import distributor
from tests.cloud import machines
from tests.cloud import networking
from tests.cloud import neutron
from tests.cloud import waiting

# What Neutron takes for all addresses; it refuses ::/0.
EVERYWHERE = ('0.0.0.0/0', '2000::/3', 'fc00::/7')


class Distributors(fixtures.Fixture):
    """The process on each network node; each listens there alone.

    :param cloud: a tenants.Networks on nodes.
    :param certs: a certificates.Certificates.
    """

    def __init__(self, cloud, certs):
        super().__init__()
        self._cloud = cloud
        self._certs = certs

    def _setUp(self):
        cloud = self._cloud
        self.all = []
        for host in networking.NETWORK_NODES:
            node = cloud.networking.chassis[host]
            self.all.append(self.useFixture(distributor.Distributor(
                host, '127.0.0.1', 9444, self._certs, cloud.directory,
                cloud.directory, vswitch=node.vswitch,
                namespace=node.namespace)))
        for each in self.all:
            each.wait_until_ready()


class Vip(fixtures.Fixture):
    """A VIP, with an address of each subnet of a network.

    .members are machines.Members that have it on lo and answer no ARP;
    .states of them, for apply(). .ports has those of the distributors.

    :param cloud: a tenants.Networks on nodes.
    :param distributors: those that have it; the first answers for it.
    :param network: of Neutron.
    :param size: how many members.
    :param have_nft: whether members drop the answers to packets of
                     connections of others, as amphorae do.
    """

    def __init__(self, cloud, distributors, network, size, name='member',
                 have_nft=True):
        super().__init__()
        self._have_nft = have_nft
        self._cloud = cloud
        self._network = network
        self._size = size
        self._name = name
        self.id = str(uuid.uuid4())
        self.distributors = distributors
        self.active = distributors[0]
        self.version = 0
        self.affinity = document.FLOW
        self.members = []
        self.states = []

    def _setUp(self):
        api = self._cloud.connection.network
        # As Octavia makes it.
        self.port = api.create_port(
            network_id=self._network.id, name=f'octavia-lb-{self.id}',
            device_id=f'lb-{self.id}', device_owner='Octavia',
            is_admin_state_up=False, project_id=neutron.PROJECT_ID)
        self.addresses = sorted(
            (each['ip_address'] for each in self.port.fixed_ips), key=len)
        for _ in range(self._size):
            self.add_member()
        self._connect()

    def _connect(self):
        """Have somebody distribute it."""
        api = self._cloud.connection.network
        security = self._make_security()
        self.ports = {each.host: api.create_port(
            network_id=self._network.id, name=f'distributor-{each.host}',
            binding_host_id=each.host, project_id=neutron.PROJECT_ID,
            **security) for each in self.distributors}
        self.apply()
        for port in self.ports.values():
            waiting.wait_for(
                lambda: api.get_port(port.id).status == 'ACTIVE',
                f'ACTIVE {port.name}')

    def _make_security(self):
        """What the ports of distributors may send and get."""
        if isinstance(self._cloud.networking, networking.OVS):
            # Its firewall follows connections, and would see half of each.
            return {'is_port_security_enabled': False}
        group = self._cloud.add_open_group(neutron.PROJECT_ID, stateful=False)
        return {'security_group_ids': [group.id], 'allowed_address_pairs': [
            {'ip_address': address}
            for address in (*self.addresses, *EVERYWHERE)]}

    def add_member(self):
        """Add a member, which no distributor knows before apply()."""
        number = len(self.members)
        hosts = self._cloud.fabric.hosts
        member = self.useFixture(machines.Member(
            self._cloud, f'{self._name}{number}', self._network,
            host=hosts[number % len(hosts)], allowed_address_pairs=[
                {'ip_address': f'{address}/{128 if ":" in address else 32}'}
                for address in self.addresses]))
        member.id = str(uuid.uuid4())
        member.namespace.run(
            'sysctl', '-q', '-w', 'net.ipv4.conf.all.arp_ignore=1',
            'net.ipv4.conf.all.arp_announce=2')
        for address in self.addresses:
            member.namespace.run('ip', 'address', 'add', address, 'dev', 'lo')
        if self._have_nft:
            member.namespace.run('sh', '-c', silent_vip.render_script(
                'eth0', member.mac))
        self.members.append(member)
        self.states.append(document.ACTIVE)
        return member

    def apply(self):
        """Tell the distributors; the active one last."""
        self.version += 1
        for each in sorted(self.distributors,
                           key=lambda one: one is self.active):
            each.ask('put_vip', self.id, self._make_document(each))

    def _make_document(self, distributor):
        port = self.ports[distributor.host]
        return document.parse({
            'version': self.version, 'active': distributor is self.active,
            'algorithm': 'HASH', 'affinity': self.affinity,
            'addresses': self.addresses, 'pin_timeout': 3600,
            'probe': {'ports': [80], 'addresses': [
                each['ip_address'] for each in port.fixed_ips]},
            'port': {'id': port.id, 'mac': port.mac_address, 'mtu': 1442},
            'members': [
                {'id': member.id, 'slot': slot, 'peer_group': slot // 2,
                 'mac': member.mac, 'state': state}
                for slot, (member, state) in enumerate(
                    zip(self.members, self.states))],
            'partners': [port.mac_address
                         for host, port in self.ports.items()
                         if host != distributor.host]})

    @property
    def remembers_each(self):
        """Whether the active one remembers connections one by one."""
        change = self.active.ask('get_vip', self.id)['change']
        return bool(change and change['one_by_one'])

    def packets(self, distributor):
        """How many packets a distributor has passed on."""
        found = distributor.ask('get_vip', self.id)
        return sum(each['packets'] for each in found['members'])

    def get_connections(self, member):
        """The ports of clients of a member."""
        return {int(line.split()[3].rpartition(':')[2])
                for line in member.namespace.run(
                    'ss', '-Htn', 'state', 'established').stdout.splitlines()}
