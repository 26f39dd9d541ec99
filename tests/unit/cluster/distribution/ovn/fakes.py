# SPDX-License-Identifier: Apache-2.0

"""OVN's databases and Neutron that are objects here; a cluster of rows."""

import dataclasses

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import groups
from octavia_hmsync.cluster.distribution.ovn import balancers
from octavia_hmsync.cluster.distribution.ovn import northbound as northbound_
from octavia_hmsync.cluster.distribution.ovn import plan
from octavia_hmsync.cluster.distribution.ovn import ports as ovn_ports
from octavia_hmsync.cluster.distribution.ovn import probes
from octavia_hmsync.cluster.distribution.ovn import watch
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync import exceptions
from tests.cloud import records
from tests.db_cases import base
from tests.unit.db import sqlite

VIP, VIP6 = '192.0.2.5', 'fd00::5'
NETWORK = 'f0000000-0000-4000-8000-000000000001'
SUBNET = 'f0000000-0000-4000-8000-000000000002'
SWITCH = f'neutron-{NETWORK}'
SOURCE = '192.0.2.9'


class FakeNorthbound:
    """As Northbound; .balancers is {id: {name: (Balancer, Places)}}.

    .addresses is {port: addresses}, .links those of routers.
    """

    def __init__(self):
        self.balancers = {}
        self.opened = {}
        self.addresses = {}
        self.links = [plan.Link(SWITCH, 'neutron-r', ('192.0.2.1/24',))]
        self.switches = {SWITCH}
        self.floating = None
        self.is_silent = True
        self.error = None
        self.writes = 0
        self.reads = 0
        self.before = None

    def _ask(self):
        if self.error:
            # A new one each time, as a cause of others.
            raise type(self.error)(*self.error.args)

    def read(self, network_id, vip_port_id, port_ids):
        self._ask()
        self.reads += 1
        switch = f'neutron-{network_id}'
        return northbound_.Scene(
            switch if switch in self.switches else None, tuple(self.links),
            self.is_silent, self.floating,
            {port_id: self.addresses[port_id] for port_id in port_ids
             if port_id in self.addresses})

    def get_change(self):
        self._ask()
        # Something changes elsewhere all the time.
        self.writes += 1
        return self.writes

    def apply(self, cluster_id, version, wanted):
        if self.before:
            before, self.before = self.before, None
            before()
        self._ask()
        there = self.balancers.get(cluster_id, {})
        newest = max((one.version for one, _ in there.values()), default=0)
        if newest > version:
            raise exceptions.DistributorRefused('It is newer.', newest)
        wanted = {one.name: (one, places) for one, places in wanted}
        self.balancers[cluster_id] = wanted
        return wanted != there

    def set_open(self, cluster_id, ports):
        self._ask()
        before = self.opened.get(cluster_id, frozenset())
        self.opened[cluster_id] = ports
        return ports != before

    def remove(self, cluster_id):
        self._ask()
        self.balancers.pop(cluster_id, None)

    def list(self):
        self._ask()
        return {key: northbound_.State(
            max(one.version for one, _ in there.values()), len(there),
            self.opened.get(key, frozenset()))
            for key, there in self.balancers.items()}


class FakeSouthbound:
    """As Southbound; .statuses is what it tells."""

    def __init__(self):
        self.statuses = {}
        self.error = None

    def read(self):
        if self.error:
            raise self.error
        return dict(self.statuses)


class FakePorts:
    """Neutron: .sources is {id of a cluster: id of a port}."""

    def __init__(self, northbound):
        self._northbound = northbound
        self.sources = {}
        # {id of a port: name of its node}
        self.dead_nodes = {}
        self.states, self.gone, self.changes = {}, set(), []
        self.asked = []
        self.network = {'id': NETWORK, 'name': 'net1', 'mtu': 1450}
        self.error = None

    def _ask(self):
        if self.error:
            raise self.error

    def get_network(self, network_id):
        self._ask()
        return self.network

    def ensure_source(self, cluster_id, network, subnets):
        self._ask()
        port_id = self.sources.setdefault(cluster_id, records.new_id())
        self._northbound.addresses[port_id] = (SOURCE,)
        return ovn_ports.Source(
            port_id, cluster_ports.make_mac(cluster_id, ovn_ports.HOST),
            network['mtu'])

    def read(self, port_ids):
        self._ask()
        return {port_id: self.states.get(port_id, cluster_ports.State(
            True, (VIP,), ('group',), owner='Octavia',
            addresses={VIP: 'subnet', VIP6: 'subnet6'}))
            for port_id in port_ids if port_id not in self.gone}

    def list_groups(self, values, by='name'):
        return [groups.Group('group', value, frozenset(
            groups.find_missing_of_distributors(()))) for value in values]

    def add_rule(self, group_id, rule):
        # It is there.
        return False

    def find_holder(self, network_id, address):
        return None

    is_right = staticmethod(ovn_ports.SourcePorts.is_right)

    def change(self, port_id, values):
        self.changes.append((port_id, values))

    def find_dead_node(self, port_id):
        self.asked.append(port_id)
        self._ask()
        return self.dead_nodes.get(port_id)

    def delete(self, cluster_id, host=None):
        self._ask()
        self.sources.pop(cluster_id, None)


class OVNTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):
    """.subject are Balancers, .watch looks after them."""

    def setUp(self):
        super().setUp()
        self.fake = self.northbound = FakeNorthbound()
        self.southbound = FakeSouthbound()
        self.ports = FakePorts(self.northbound)
        self.subject = self.one_more()
        self.now = 0.0
        self.woken = 0
        self.make_watches()

    def make_watches(self):
        self.watch = watch.OVNWatch(self.engine, self.subject,
                                    lambda: self.now)
        self.probes = probes.OVNProbeWatch(self.engine, self.subject,
                                           self.southbound, self.wake)

    def wake(self):
        self.woken += 1

    def one_more(self):
        """What another controller has."""
        return balancers.Balancers(self.conf, self.engine, self.ports,
                                   self.northbound)

    def look(self):
        self.now += 100
        return self.watch.run_once()

    def add_cluster(self, members=2, driver='hmsync_ovn', more=()):
        """Add a load balancer with a listener, on a cluster.

        :returns: the id of the cluster.
        """
        load_balancer_id = records.new_id()
        self.records.insert_all({
            'load_balancer': [{
                **records.load_balancer_row(load_balancer_id),
                'topology': 'ACTIVE_ACTIVE'}],
            'vip': [{
                **records.vip_row(load_balancer_id), 'ip_address': VIP,
                'subnet_id': SUBNET, 'network_id': NETWORK}]})
        for address in more:
            self.records.insert_all({'additional_vip': [{
                'load_balancer_id': load_balancer_id, 'ip_address': address,
                'port_id': records.new_id(), 'subnet_id': SUBNET,
                'network_id': NETWORK}]})
        cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            cluster_id, load_balancer_id, 'web', 8, 1, driver))
        self.add_listener(cluster_id)
        for _number in range(members):
            self.add_member(cluster_id)
        return cluster_id

    def add_listener(self, cluster_id, port=80, **values):
        cluster = cluster_repo.get(self.engine, cluster_id)
        self.records.insert_all({'listener': [{**records.listener_row(
            records.new_id(), cluster.load_balancer_id, port), **values}]})

    def add_member(self, cluster_id, state=member_repo.ACTIVE, more=()):
        """Add a member with an amphora, 192.0.2.10 and so on.

        :returns: its Member.
        """
        cluster = cluster_repo.get(self.engine, cluster_id)
        amphora = records.amphora_row(records.new_id(), '198.51.100.9',
                                      cluster.load_balancer_id)
        self.records.insert_all({'amphora': [amphora]})
        member = member_repo.add(self.engine, cluster_id, records.new_id(), 8)
        member_repo.assign_amphora(self.engine, member.id, amphora['id'])
        self.fake.addresses[amphora['vrrp_port_id']] = (
            f'192.0.2.{10 + member.slot}', *more)
        if state != member_repo.BUILDING:
            member_repo.set_state(self.engine, member.id,
                                  [member_repo.BUILDING], state)
        return member_repo.get(self.engine, member.id)

    def set_state(self, member, state):
        member_repo.set_state(self.engine, member.id, member_repo.STATES,
                              state)

    def get_version(self, cluster_id):
        return cluster_repo.get(self.engine, cluster_id).version

    def get_row(self, cluster_id):
        """The row of the VIP, None if there is none."""
        return next(iter(vip_repo.get_of_cluster(self.engine, cluster_id)),
                    None)

    def get_main(self, cluster_id):
        """The Balancer that carries traffic, and its Places."""
        return self.northbound.balancers[cluster_id][
            plan.get_name(cluster_id)]

    def get_probe(self, cluster_id):
        """The Balancer that carries none, but for its places."""
        balancer, places = self.northbound.balancers[cluster_id][
            f'{plan.get_name(cluster_id)}-probe']
        self.assertIsNone(places)
        return balancer

    def get_vips(self, cluster_id):
        return self.get_main(cluster_id)[0].vips

    def unreachable(self):
        return exceptions.DistributorUnreachable('OVN is away.')

    def replace_links(self, *links):
        self.northbound.links = [
            dataclasses.replace(self.northbound.links[0], **link)
            for link in links]
