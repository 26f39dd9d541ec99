# SPDX-License-Identifier: Apache-2.0

"""How soon a cluster is whole again after one of its members died.

A real manager of clusters, two real distributors with an Open vSwitch each,
MariaDB, and members with a real haproxy; Neutron and health managers are not
there. A member loses its link; how it looks from a client, too.
"""

import argparse
import asyncio
import collections
import json
import secrets
import signal
import subprocess
import sys
import time

import fixtures
from oslo_config import cfg

from benchmarks import front
from benchmarks import report
from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs_backend
from octavia_hmsync.cluster.distribution.ovs import vips as cluster_vips
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import schema
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import bridges
from tests.cloud import certificates
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import distributor
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import records
from tests.cloud import relay
from tests.cloud import waiting
from tests.functional.distributor import fabric

COLUMNS = ['death', 'seen_s', 'decided_s', 'unregistered_s', 'whole_s',
           'failed_for_s', 'asked', 'failed']

_PORT = 80
_HOUR = 3600
# Seconds of a client between two connections, for one, and after each death.
_EACH, _TIMEOUT, _AFTER = 0.025, 1, 3
# After a member is DOWN for those who look, and until it is whole again.
_PATIENCE = 60


async def _ask(address):
    """Return the name of the member that answers, None if none does."""
    reader, writer = await asyncio.open_connection(address, _PORT)
    try:
        writer.write(b'GET / HTTP/1.0\r\n\r\n')
        answer = await reader.read()
        return answer.rpartition(b'\r\n\r\n')[2].decode() or None
    finally:
        writer.transport.abort()


async def _probe(address):
    """Open connections one after the other, until it is told to end."""
    made, tasks = [], set()

    async def ask():
        began = time.monotonic()
        name = None
        try:
            name = await asyncio.wait_for(_ask(address), _TIMEOUT)
        except (OSError, asyncio.TimeoutError):
            pass
        made.append((began, name))

    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    print('ready', flush=True)
    while not ending.is_set():
        task = asyncio.create_task(ask())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await asyncio.sleep(_EACH)
    await asyncio.gather(*tasks)
    print(json.dumps(sorted(made)), flush=True)


class _Ports:
    """As much of Neutron as a VIP needs that nobody moves."""

    def get_network(self, _network_id):
        return {'id': 'network', 'name': 'network', 'mtu': 1450,
                'l2_adjacency': True}

    def ensure(self, cluster_id, host, network, _subnets):
        number = int(host[-1])
        return cluster_ports.Port(
            records.new_id(), cluster_ports.make_mac(cluster_id, host),
            network['mtu'], (f'10.0.0.{200 + number}',))

    def switch(self, _port_id, _is_on):
        """Have a port carry traffic: nothing keeps it from that."""

    def read(self, port_ids):
        """Return those that are there: nobody deletes one."""
        return dict.fromkeys(port_ids)


class Site(fixtures.Fixture):
    """A cluster that is looked after, and a client.

    :param size: how many members serve.
    :param standbys: how many more wait.
    """

    def __init__(self, size, standbys):
        super().__init__()
        self._size = size
        self._standbys = standbys

    def _setUp(self):
        self._directory = self.useFixture(fixtures.TempDir()).path
        self._certificates = self.useFixture(certificates.Certificates(
            self._directory))
        self._control = self.useFixture(openvswitch.Namespace(
            'control', self._directory))
        self.nodes = [self.useFixture(fabric.Node(
            f'network{n}', n, self._directory)) for n in (1, 2)]
        first, second = self.nodes
        first.vswitch.link(second.vswitch, 'link1')
        self._distributors = [self._add_distributor(number, node) for
                              number, node in enumerate(self.nodes, 1)]
        self.client = self.useFixture(fabric.Host(
            'client', first.namespace, first.vswitch, 100, self._directory))
        self._hosts = [self._add_host(number) for number in
                       range(self._size + self._standbys)]
        self._database = self.useFixture(database.MariaDBDatabase())
        self.engine = self._database.engine
        schema.upgrade(self.engine)
        self.useFixture(relay.Relay(self._control, self.engine.url.port))
        for each in self._distributors:
            waiting.wait_for(each.is_ready, f'sign of {each.name}', 60,
                             processes=[each])
        self._add_cluster()
        self._start_manager()

    def _add_distributor(self, number, node):
        self._control.link(node.namespace, f'node{number}', 'ctl0')
        address = f'10.98.{number}.2'
        for namespace, name, each in (
                (self._control, f'node{number}', f'10.98.{number}.1'),
                (node.namespace, 'ctl0', address)):
            namespace.run('ip', 'address', 'add', f'{each}/30', 'dev', name)
        return self.useFixture(distributor.Distributor(
            node.name, address, 9444, self._certificates, self._directory,
            self._directory, vswitch=node.vswitch, namespace=node.namespace))

    def _add_host(self, number):
        node = self.nodes[0]
        host = self.useFixture(fabric.Host(
            f'm{number}', node.namespace, node.vswitch, 10 + number,
            self._directory))
        host.take_vip()
        self.useFixture(front.Front(host, _PORT, self._directory)
                        ).wait_until_ready()
        return host

    def _add_cluster(self):
        made = self._database.records
        lb = records.new_id()
        made.insert_all({
            'load_balancer': [{
                **records.load_balancer_row(lb, 'ACTIVE_ACTIVE'),
                'provider': 'amphora_cluster'}],
            'vip': [{**records.vip_row(lb), 'ip_address': fabric.VIP}]})
        made.add_listener(lb, _PORT)
        self.cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            self.cluster_id, lb, 'web', self._size, 1, 'hmsync_ovs',
            standby=self._standbys, cluster_type='reference'))
        self.hosts = {}
        for number, host in enumerate(self._hosts):
            member = member_repo.add(self.engine, self.cluster_id,
                                     records.new_id(),
                                     self._size if number < self._size else 0)
            self.hosts[member.id] = host
            member_repo.assign_amphora(
                self.engine, member.id, made.add_amphora(
                    f'192.0.2.{10 + number}', lb, None))
            member_repo.set_mac(self.engine, member.id, host.mac)
            member_repo.set_state(
                self.engine, member.id, (member_repo.BUILDING,),
                member_repo.ACTIVE if number < self._size
                else member_repo.STANDBY, config_digest='1')
        cluster_repo.set_ports(self.engine, self.cluster_id, {_PORT})
        cluster_repo.set_status(self.engine, self.cluster_id, 'ACTIVE',
                                'ONLINE')
        # What takes its time, building, is left to somebody else.
        claim_repo.claim(self.engine, self.cluster_id, 'nobody', _HOUR)
        self._control.call(self._add_vip)
        for node in self.nodes:
            # As the agent does.
            node.vswitch.vsctl(
                'set', 'Port', bridges.Names.of(self.cluster_id).peer,
                'tag=1')

    def _options(self):
        return octavia_conf.merge(
            octavia_conf.controller(
                self.engine.url.render_as_string(hide_password=False),
                self._certificates, secrets.token_hex(16), 9443),
            octavia_conf.HMSYNC, {
                'controller_worker': {'distributor_driver': 'hmsync_ovs'},
                'hmsync_cluster': {
                    'keep_in_housekeeping': False,
                    'distributors': [f'{each.host}={each.url}' for each in
                                     self._distributors]}})

    def _add_vip(self):
        conf = cfg.ConfigOpts()
        conf([])
        groups.register(conf)
        for name, value in (
                ('distributors', self._options()['hmsync_cluster'][
                    'distributors']),
                ('distributor_ca',
                 self._certificates.server_authority.certificate_path),
                ('distributor_client_cert', self._certificates.client_path)):
            conf.set_override(name, value, group=cluster_conf.GROUP)
        told = ovs_backend.Distributors(conf, self.engine, _Ports())
        outcome = cluster_vips.VIPs(conf, self.engine, told).add(
            self.cluster_id)
        if outcome.problems:
            raise RuntimeError(str(outcome))

    def _start_manager(self):
        manager = controllers.ClusterManager(
            'manager', self._options(), self._directory, self._directory)
        manager.command = self._control.wrap(manager.command)
        self.manager = self.useFixture(manager)
        number = 2 * self._size
        waiting.wait_for(
            lambda: len(self.get_probes(probe_repo.UP)) == number,
            lambda: f'members that are seen: {self.get_probes()} '
                    f'{manager.log_tail()}', 120,
            processes=[manager, *self._distributors])

    def get_probes(self, *states):
        """Return what is seen, {(id of a member, who): state}."""
        return {(one.member_id, one.distributor_id): one.state for one in
                probe_repo.get_of_cluster(self.engine, self.cluster_id)
                if not states or one.state in states}

    def get_active(self):
        """Return the ACTIVE members, by slot."""
        return [member for member in member_repo.get_of_cluster(
            self.engine, self.cluster_id)
            if member.state == member_repo.ACTIVE]

    def watch(self, member):
        """Wait until both distributors do without a member, and have another.

        What they have is in force when they say that they have it, and their
        answers are rows: nobody has to ask them all the time.

        :returns: {what happened: when, by the database's clock}.
        """
        waiting.wait_for(
            lambda: self._is_whole(member),
            lambda: f'another one in place of {member.id}: '
                    f'{self.manager.log_tail()}', _PATIENCE,
            processes=[self.manager, *self._distributors], interval=0.2)
        first = None
        for each in self._distributors:
            found = each.ask('get_vip', self.cluster_id)
            active = {one['id'] for one in found['document']['members']
                      if one['state'] == doc.ACTIVE}
            first = first or active
            if (not found['in_force'] or active != first or
                    len(active) != self._size or
                    member.amphora_id in active):
                raise RuntimeError(f'{each.host} has {found}')
        probe, = [one for one in probe_repo.get_of_cluster(
            self.engine, self.cluster_id) if one.member_id == member.id and
            one.is_active]
        applied = [vip.applied_at for vip in vip_repo.get_of_cluster(
            self.engine, self.cluster_id)]
        return {'seen_s': probe.changed_at, 'decided_s': member_repo.get(
            self.engine, member.id).updated_at, 'unregistered_s': applied[0],
            'whole_s': max(applied)}

    def _is_whole(self, member):
        ids = {each.id for each in self.get_active()}
        cluster = cluster_repo.get(self.engine, self.cluster_id)
        return len(ids) == self._size and member.id not in ids and all(
            vip.applied_version == cluster.version for vip in
            vip_repo.get_of_cluster(self.engine, self.cluster_id))

    def get_time(self):
        """Return the database's, and the monotonic one, of one moment."""
        return (cluster_repo.get(self.engine, self.cluster_id).now,
                time.monotonic())


def measure(size=4, deaths=5, after=_AFTER):
    """Have members die, one after the other.

    :param after: seconds for which clients go on after each.
    :returns: a row for each.
    """
    with Site(size, deaths) as site:
        return [_measure_one(site, number, after) for number in
                range(1, deaths + 1)]


def _measure_one(site, number, after):
    victim = site.get_active()[number % 2]
    host = site.hosts[victim.id]
    probe = subprocess.Popen(
        site.client.namespace.wrap([
            sys.executable, '-m', 'benchmarks.deaths', 'probe', fabric.VIP]),
        stdout=subprocess.PIPE, text=True)
    try:
        probe.stdout.readline()
        # Anywhere between two looks.
        time.sleep(2 + secrets.randbelow(1000) / 1000)
        host.namespace.run('ip', 'link', 'set', 'eth0', 'down')
        began = time.monotonic()
        times = site.watch(victim)
        time.sleep(after)
        probe.terminate()
        made = json.loads(probe.communicate()[0])
    finally:
        probe.kill()
        probe.wait()
        probe.stdout.close()
    theirs, ours = site.get_time()
    row = collections.OrderedDict(death=number, **{
        name: ours - began - (theirs - when).total_seconds()
        for name, when in times.items()})
    failed = [when - began for when, name in made if name is None]
    row.update(
        failed_for_s=max(failed, default=0.0), asked=len(made),
        failed=len(failed), victim=host.name,
        answered={name for when, name in made
                  if name and when > began + row['whole_s']})
    return row


def main():
    if sys.argv[1:2] == ['probe']:
        asyncio.run(_probe(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--members', type=int, default=4)
    parser.add_argument('--deaths', type=int, default=5)
    args = parser.parse_args()
    rows = measure(args.members, args.deaths)
    for row in rows:
        row['answered'] = sorted(row['answered'])
    report.print_results('deaths of members', COLUMNS, rows)


if __name__ == '__main__':
    main()
