# SPDX-License-Identifier: Apache-2.0

"""A whole Octavia with clusters: distributors on network nodes of OVN."""

import contextlib

from openstack import exceptions
import sqlalchemy as sa

from tests.cloud.compute import distributor_agent
from tests.cloud.compute import instance
from tests.cloud import controllers
from tests.cloud import distributor
from tests.cloud import networking
from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import waiting

PORT = 9444
PROVIDER = 'amphora_cluster'
DISTRIBUTOR_TAG = 'hmsync-distributor'


class ClusterManager(controllers.InNamespace, controllers.ClusterManager):
    pass


class ClusterOctavia(octavia.Octavia):
    """An octavia.Octavia whose tenants may have clusters.

    .distributors are distributor.Distributors, by their names.

    :param options: as octavia.Octavia has them.
    :param cluster_managers: how many octavia-hmsync-cluster-manager there
                             are, in .cluster_managers; with any of them
                             housekeepers do not keep clusters.
    :param nodes: names of network nodes that have a distributor.
    :param network: a kind of networking.KINDS that has such nodes.
    """

    def __init__(self, options=None, nodes=networking.NETWORK_NODES,
                 network='ovn', cluster_managers=0, **kwargs):
        super().__init__(options=options, network=network, **kwargs)
        self._nodes = nodes
        self._cluster_manager_count = cluster_managers
        self.distributors = {}
        self.cluster_managers = []

    def _start_services(self):
        super()._start_services()
        for number, host in enumerate(self._nodes, 1):
            self.distributors[host] = self._add_distributor(number, host)
        waiting.wait_for(
            lambda: all(each.is_ready()
                        for each in self.distributors.values()),
            'distributors', processes=list(self.distributors.values()))

    def _add_distributor(self, number, host):
        node = self.networking.chassis[host]
        # The network that controllers and network nodes have in common.
        ours, theirs = f'node{number}', 'ctl0'
        self.namespace.link(node.namespace, ours, theirs)
        address = f'10.98.{number}.2'
        for namespace, name, each in (
                (self.namespace, ours, f'10.98.{number}.1'),
                (node.namespace, theirs, address)):
            namespace.run('ip', 'address', 'add', f'{each}/30', 'dev', name)
            namespace.run('ip', 'link', 'set', name, 'up')
        return self.useFixture(distributor.Distributor(
            host, address, PORT, self.certificates, self.directory,
            self.directory, vswitch=node.vswitch, namespace=node.namespace))

    def _start_controllers(self):
        super()._start_controllers()
        for number in range(self._cluster_manager_count):
            self.cluster_managers.append(self._add(
                ClusterManager, f'manager{number + 1}'))

    def _options(self):
        return octavia_conf.merge({
            'api_settings': {'enabled_provider_drivers':
                             f'amphora:Octavia,{PROVIDER}:Clusters'},
            'controller_worker': {'distributor_driver': 'hmsync_ovs'},
            'hmsync_cluster': {
                'distributors': [f'{name}={each.url}' for name, each in
                                 self.distributors.items()],
                'keep_in_housekeeping': not self._cluster_manager_count,
                'keeper_interval': 1, 'drain_timeout': 5,
                'update_timeout': 60},
            # Neutron, on a busy machine.
            'hmsync_network': {'api_timeout': 60}},
            super()._options(),
            # A busy machine boots several at once slowly.
            {'controller_worker': {'amphora_driver': 'hmsync',
                                   'amp_active_retries': 180}})

    def delete_cluster(self, load_balancer, wait=True):
        """Delete a load balancer as soon as nobody works at it."""
        api = self.connection.load_balancer

        def is_accepted():
            with contextlib.suppress(exceptions.ConflictException):
                api.delete_load_balancer(load_balancer.id, cascade=True)
                return True

        self.wait_for(is_accepted, f'{load_balancer.name} that can be '
                                   f'deleted')
        if wait:
            self.wait_until_gone(load_balancer)

    def wait_until_gone(self, load_balancer):
        """Wait until there is no such load balancer."""
        api = self.connection.load_balancer
        self.wait_for(
            lambda: api.find_load_balancer(load_balancer.id) is None,
            f'end of {load_balancer.name}', 180)

    def add_cluster(self, name, members=(), desired_size=2, min_size=1,
                    affinity='FLOW', wait=True, **kwargs):
        """Make a load balancer on a cluster; see add_load_balancer()."""
        kwargs.setdefault('flavor_id', self.add_flavor(
            PROVIDER, cluster_desired_size=desired_size,
            cluster_min_size=min_size, cluster_affinity=affinity))
        made = self.add_load_balancer(name, members=members, wait=False,
                                      provider=PROVIDER, **kwargs)
        return self.wait_until_active(made.id, 240) if wait else made

    # What becomes of one

    def set_size(self, load_balancer, size):
        """Have a cluster get another size; wait until it has it."""
        self.command('octavia-hmsync', 'cluster', 'set', load_balancer.id,
                     '--desired', str(size), '--cooldown', '0')
        self.wait_for(
            lambda: len(self.get_serving(load_balancer)) == size,
            f'{size} members of {load_balancer.name}', 240)

    def get_serving(self, load_balancer):
        """Ids of the amphorae that new connections go to."""
        with self.engine.connect() as connection:
            return set(connection.execute(sa.text(
                'SELECT amphora_id FROM hmsync_cluster_member '
                'JOIN hmsync_cluster ON hmsync_cluster.id = cluster_id '
                "WHERE load_balancer_id = :id AND state = 'ACTIVE' "
                'AND slot IS NOT NULL'), {'id': load_balancer.id}).scalars())

    def replace(self, load_balancer, amphora_id):
        """Have another amphora take the place of one; wait until it has."""
        self.connection.load_balancer.failover_amphora(amphora_id)
        self.wait_until_replaced(load_balancer, amphora_id)

    def wait_until_replaced(self, load_balancer, amphora_id):
        """Wait until a cluster is whole without one of its amphorae."""
        with self.engine.connect() as connection:
            size = connection.execute(sa.text(
                'SELECT size FROM hmsync_cluster '
                'WHERE load_balancer_id = :id'),
                {'id': load_balancer.id}).scalar_one()

        def is_replaced():
            serving = self.get_serving(load_balancer)
            return amphora_id not in serving and len(serving) == size

        self.wait_for(is_replaced, f'another one than {amphora_id}', 240)
        self.wait_until_active(load_balancer.id, 240)

    def get_sessions(self, load_balancer, port=80):
        """Ports of clients, by the id of the amphora that has them."""
        return {amphora_id: self._get_sessions_of(amphora_id, port)
                for amphora_id in self.get_serving(load_balancer)}

    def _get_sessions_of(self, amphora_id, port):
        lines = self.compute.by_amphora(amphora_id).run_inside(
            'ss', '-Htn', 'state', 'established', 'sport', '=',
            f':{port}').stdout.splitlines()
        return {int(line.split()[3].rpartition(':')[2]) for line in lines}

    def get_active_distributor(self, load_balancer):
        """Return the one that answers for the VIP; None if there is none."""
        for each in self.distributors.values():
            if not each.running:
                continue
            for vip in each.ask('list_vips'):
                found = each.ask('get_vip', vip['id'])
                document = (found or {}).get('document', {})
                if (document.get('active') and load_balancer.vip_address in
                        document['addresses']):
                    return each
        return None

    def set_link(self, host, state):
        """Have controllers reach a network node, or not: up or down."""
        self.networking.chassis[host].namespace.run('ip', 'link', 'set',
                                                    'ctl0', state)

    @contextlib.contextmanager
    def without_management(self, host):
        """Have a node of ML2/OVS reach neither controllers nor Neutron."""
        with self.networking.chassis[host].without_rabbitmq():
            self.set_link(host, 'down')
            try:
                yield
            finally:
                self.set_link(host, 'up')

    def kill_node(self, host):
        """What a node without power leaves: nothing that runs, or answers."""
        node = self.networking.chassis[host]
        self.compute.dead_hosts.add(host)
        self.set_link(host, 'down')
        for child in (self.distributors[host], *node.agents,
                      node.vswitch.vswitchd, node.vswitch.server,
                      *self.compute.get_instances(host)):
            child.kill_tree()

    def start_node(self, host):
        """Give it power again; its instances are gone."""
        node = self.networking.chassis[host]
        node.vswitch.start()
        for agent in node.agents:
            agent.start()
        self.set_link(host, 'up')
        self.distributors[host].start()
        self.compute.dead_hosts.discard(host)


class OVNClusterOctavia(ClusterOctavia):
    """One where OVN distributes, and no network node has anything to do."""

    def __init__(self, options=None, **kwargs):
        super().__init__(options, nodes=(), **kwargs)

    def _options(self):
        central = self.networking.central
        return octavia_conf.merge(super()._options(), {
            'controller_worker': {'distributor_driver': 'hmsync_ovn'},
            'ovn': {'ovn_nb_connection': central.connection('nb'),
                    'ovn_sb_connection': central.connection('sb')}})


class BootedClusterOctavia(ClusterOctavia):
    """One where housekeeping boots distributors, and no node has any.

    :param distributor_image: an instance.Image of theirs.
    """

    def __init__(self, options=None, distributor_image=instance.Image(
            agent=distributor_agent.__file__), **kwargs):
        super().__init__(options, nodes=(), **kwargs)
        self._distributor_image = distributor_image

    def _make_networks(self):
        super()._make_networks()
        self.add_image('distributor', (DISTRIBUTOR_TAG,),
                       self._distributor_image)

    def _options(self):
        return octavia_conf.merge({'hmsync_cluster': {
            'distributor_instances': 2,
            'distributor_image_tag': DISTRIBUTOR_TAG,
            'distributor_flavor_id': 'distributor',
            'distributor_secgroup_list': self._group.id}},
            super()._options())
