# SPDX-License-Identifier: Apache-2.0

"""Distributors, and Neutron, that are objects here; and a cluster of rows."""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import groups
from octavia_hmsync.cluster.distribution.ovs import distributor_watch
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs_backend
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import probe_results
from octavia_hmsync import exceptions
from tests.cloud import records
from tests.db_cases import base
from tests.unit.db import sqlite

ADDRESS = '192.0.2.5'
NAMES = ('network1', 'network2', 'network3')
NETWORK = 'f0000000-0000-4000-8000-000000000001'
SUBNET = 'f0000000-0000-4000-8000-000000000002'


class Killed(BaseException):
    """A controller dies: nothing of it goes on."""


class FakeDistributor:
    """One that obeys as a real one does, and may be ill.

    .documents is what is in force. .before and .after are called with each
    document that is put, before and after it is in force.
    """

    def __init__(self, name):
        self.name = name
        self.documents = {}
        self.adopted = {}
        self.requests = []
        self.remembered = {}
        self.results = probe_results.Results()
        # Clusters for whose VIP it answers no more, in a version.
        self.left = {}
        self.is_down = False
        self.loses_answers = False
        self.load = None
        self.error = self.ovs_error = None
        self.before = self.after = None

    def _ask(self, what):
        self.requests.append(what)
        if self.is_down:
            raise exceptions.DistributorUnreachable(f'{self.name} is down')
        if self.error:
            raise self.error

    def _answer(self):
        if self.loses_answers:
            raise exceptions.DistributorUnreachable(
                f'{self.name} lost its answer')

    def put_vip(self, vip_id, document):
        if self.before:
            self.before(document)
        self._ask('PUT')
        try:
            is_due = doc.is_due(document, self.documents.get(vip_id))
        except exceptions.VersionConflict as e:
            raise exceptions.DistributorRefused(str(e), e.in_force) from e
        self.documents[vip_id] = document
        if self.after:
            self.after(document)
        self._answer()
        return is_due

    def get_transition(self, vip_id):
        self._ask('GET')
        document = self.documents.get(vip_id)
        return document and {'version': document.version, 'of': self.name}

    def put_transition(self, vip_id, transition):
        self._ask('PUT')
        document = self.documents[vip_id]
        if document.active or document.version != transition['version']:
            raise exceptions.DistributorRefused('it is another one',
                                                document.version)
        changed = self.adopted.get(vip_id) != transition
        self.adopted[vip_id] = transition
        return changed

    def delete_vip(self, vip_id, version=None):
        self._ask('DELETE')
        self.documents.pop(vip_id, None)
        self._answer()

    def get_versions(self):
        self._ask('GET')
        return {'software_version': '1.2.3', 'host': self.name,
                'versions': [{'id': 'v1'}]}

    def get_status(self):
        self._ask('GET')
        if self.ovs_error:
            return {'status': 'OFFLINE', 'host': self.name,
                    'error': self.ovs_error}
        return {'status': 'ONLINE', 'host': self.name, 'load': self.load,
                'certificates': {}}

    def list_vips(self):
        self._ask('GET')
        return [{'id': key, 'version': one.version,
                 'probed': bool(one.probe),
                 'has_left': self.left.get(key) == one.version}
                for key, one in self.documents.items()]

    def get_statistics(self, vip_id):
        self._ask('GET')
        document = self.documents.get(vip_id)
        return document and {'members': [
            {'id': member.id,
             'connections': self.remembered.get(member.id, 0)}
            for member in document.members]}

    def get_probes(self, run=None, after=0, timeout=0):
        self._ask('GET')
        news = self.results.read(run, after, 0)
        return {'run': news.run, 'sequence': news.sequence,
                'whole': news.is_whole, 'probes': [
                    {'vip': one.vip_id, 'member': one.member_id,
                     'state': one.state, 'error': one.error,
                     'since': one.since} for one in news.results]}


class FakePorts:
    """Neutron, as far as distributors need it.

    .is_on tells by port whether it carries traffic; .refused are hosts that
    it cannot bind ports to. .gone has ports, and names of security groups.
    """

    def __init__(self):
        self.is_on = {}
        self.hosts = {}
        # {id: State} of those that are otherwise than at first; of members
        # those that are gone.
        self.states = {}
        self.gone, self.made = set(), set()
        self.changes = []
        # {id of a security group of something else: its name}
        self.others = {}
        # Of all security groups.
        self.rules = groups.find_missing_of_distributors(())
        # {address: id of the port that has it}
        self.holders = {}
        self.refusal = None
        self.refused = set()
        self.error = None
        self.network = {'id': NETWORK, 'name': 'net1', 'mtu': 1450,
                        'l2_adjacency': True}

    def _ask(self):
        if self.error:
            raise self.error

    def get_network(self, network_id):
        self._ask()
        return self.network

    def ensure(self, cluster_id, host, network, subnets):
        self._ask()
        if host in self.refused:
            raise exceptions.PortConflict(f'no port at {host}')
        for port_id, key in self.hosts.items():
            if key == (cluster_id, host):
                break
        else:
            port_id = records.new_id()
            self.hosts[port_id] = (cluster_id, host)
            self.is_on[port_id] = True
            self.made.add(port_id)
        self.states.pop(port_id, None)
        return cluster_ports.Port(
            port_id, cluster_ports.make_mac(cluster_id, host),
            network['mtu'], self.get_addresses(port_id))

    def read(self, port_ids):
        self._ask()
        right = cluster_ports.State(
            True, (ADDRESS, '0.0.0.0/0'), ('group',), owner='Octavia',
            addresses={ADDRESS: SUBNET})
        return {port_id: self.states.get(port_id, right)
                for port_id in port_ids if port_id not in self.gone and
                (port_id in self.hosts or port_id not in self.made)}

    is_right = staticmethod(cluster_ports.Ports.is_right)

    def change(self, port_id, values):
        self._ask()
        if self.refusal:
            raise self.refusal
        self.changes.append((port_id, values))
        self.states.pop(port_id, None)

    def find_holder(self, network_id, address):
        self._ask()
        return self.holders.get(address)

    def list_groups(self, values, by='name'):
        self._ask()
        if by == 'id':
            return [groups.Group(one, name) for one, name
                    in self.others.items() if one in values]
        return [groups.Group('group', name, frozenset(self.rules))
                for name in values if name not in self.gone]

    def add_rule(self, group_id, rule):
        self._ask()
        self.rules.append(rule)
        return True

    def get_addresses(self, port_id):
        self._ask()
        if port_id not in self.hosts:
            return None
        return (f'192.0.2.{100 + int(port_id[:2], 16) % 100}',)

    def switch(self, port_id, is_on):
        self._ask()
        if port_id in self.is_on:
            self.is_on[port_id] = is_on

    def get_switched_off(self):
        self._ask()
        return {port_id for port_id, is_on in self.is_on.items()
                if not is_on}

    def delete(self, cluster_id, host=None):
        self._ask()
        for port_id, key in list(self.hosts.items()):
            if key[0] == cluster_id and host in (None, key[1]):
                del self.hosts[port_id], self.is_on[port_id]


class DistributorTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):
    """A cluster of rows, and three distributors.

    .one_more() is what another controller has; .fakes are the distributors.
    """

    def setUp(self):
        super().setUp()
        self.conf.set_override(
            'distributors', [f'https://{name}:9444' for name in NAMES],
            group='hmsync_cluster')
        self.reset()

    def reset(self):
        """Begin anew, with a database that is empty."""
        self.fakes = {name: FakeDistributor(name) for name in NAMES}
        self.ports = FakePorts()
        self.subject = self.one_more()
        self.vips = cluster_vips.VIPs(self.conf, self.engine, self.subject)
        self.now = 0.0
        self.watch = distributor_watch.DistributorWatch(
            self.engine, self.subject, self.vips, lambda: self.now)

    def one_more(self):
        return ovs_backend.Distributors(
            self.conf, self.engine, self.ports,
            lambda url: self.fakes[url.split('/')[2].split(':')[0]])

    def add_cluster(self, members=2):
        """Add a load balancer with a cluster.

        :returns: the id of the cluster.
        """
        load_balancer_id = records.new_id()
        self.records.insert_all({
            'load_balancer': [{
                **records.load_balancer_row(load_balancer_id),
                'topology': 'ACTIVE_ACTIVE'}],
            'vip': [{
                **records.vip_row(load_balancer_id), 'ip_address': ADDRESS,
                'subnet_id': SUBNET, 'network_id': NETWORK}]})
        cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            cluster_id, load_balancer_id, 'web', 8, 1, 'hmsync_ovs'))
        for _number in range(members):
            self.add_member(cluster_id)
        return cluster_id

    def add_member(self, cluster_id, state=member_repo.ACTIVE):
        """Add a member with an amphora.

        :returns: its Member.
        """
        member = member_repo.add(self.engine, cluster_id, records.new_id(), 8)
        member_repo.assign_amphora(self.engine, member.id, records.new_id())
        member_repo.set_mac(
            self.engine, member.id,
            cluster_ports.make_mac(cluster_id, member.id))
        if state != member_repo.BUILDING:
            member_repo.set_state(self.engine, member.id,
                                  [member_repo.BUILDING], state)
        return member_repo.get(self.engine, member.id)

    def delete_cluster(self, cluster_id):
        for member in member_repo.get_of_cluster(self.engine, cluster_id):
            member_repo.set_state(self.engine, member.id,
                                  member_repo.STATES, member_repo.FAILED)
            member_repo.delete(self.engine, member.id)
        cluster_repo.delete(self.engine, cluster_id)

    def get_version(self, cluster_id):
        return cluster_repo.get(self.engine, cluster_id).version

    def get_rows(self, cluster_id):
        """Return the VIPs of a cluster by the name of the distributor."""
        return {vip.distributor_name: vip for vip in
                vip_repo.get_of_cluster(self.engine, cluster_id)}

    def get_answering(self, cluster_id):
        """Return the names of those that would answer ARP."""
        return [name for name, vip in self.get_rows(cluster_id).items()
                if self.ports.is_on[vip.port_id] and
                (document := self.fakes[name].documents.get(cluster_id)) and
                document.active]
