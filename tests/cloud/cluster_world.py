# SPDX-License-Identifier: Apache-2.0

"""A cluster under traffic, and what has to be true of it at any time."""

import collections
import contextlib
import re
import threading
import time

from openstack import exceptions
import sqlalchemy as sa

from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync import exceptions as hmsync_exceptions
from tests.cloud import waiting

# Seconds within which a cluster that is too small has to be said to be so:
# longer than anything that happens lasts, and whoever is to say it needs to
# start.
SAID_AFTER = 120
# Seconds without an answer after which a connection counts as broken. Nobody
# makes another distributor active before a controller has started; what went
# nowhere until then comes again after twice that time.
BROKEN_AFTER = 150
# Milliseconds: haproxy waits longer. A member that drains stays for as long.
_TIMEOUT = 180000
# Seconds after which nobody works on a load balancer any more that is
# PENDING_UPDATE: an amphora that hangs is waited for.
_HALF_WAY = 90
_INTERVAL = 0.5
_TABLES = ('hmsync_cluster', 'hmsync_cluster_member', 'hmsync_distributor',
           'hmsync_distributor_vip')
# Of the bridge of a VIP: what distributors remember of single connections.
_PIN_TABLES = (20, 25)
_PIN = re.compile(r'[, ]tp_src=(\d+)')


# Where connections outlive what a new configuration does to HTTP.
TCP_PORT = 81


def make(cloud, members, **kwargs):
    """Make a cluster that serves HTTP at port 80, and TCP at TCP_PORT.

    :param cloud: a clusters.ClusterOctavia.
    :param members: machines.Members.
    :param kwargs: as ClusterOctavia.add_cluster() takes them.
    """
    return cloud.add_cluster('web', listeners=get_listeners(members),
                             **kwargs)


def get_listeners(members, timeout=_TIMEOUT):
    """Return those of make(), as the API takes them."""
    backends = [{'address': member.address, 'protocol_port': 80}
                for member in members]
    return [
        {'name': protocol, 'protocol': protocol, 'protocol_port': port,
         'timeout_client_data': timeout, 'timeout_member_data': timeout,
         'default_pool': {'name': protocol, 'protocol': protocol,
                          'lb_algorithm': 'ROUND_ROBIN',
                          'members': backends}}
        for protocol, port in (('HTTP', 80), ('TCP', TCP_PORT))]


def get_pinned(cloud, host, cluster_id):
    """Ports of the clients whose connections a node remembers one by one."""
    vswitch = cloud.networking.chassis[host].vswitch
    bridge = bridges.Names.of(cluster_id).bridge
    return {int(port) for table in _PIN_TABLES for port in _PIN.findall(
        vswitch.ofctl('dump-flows', bridge, f'table={table}'))}


class World:
    """A cluster of a ClusterOctavia, and its clients.

    .lost has the ports of connections that may break, .violations what was
    never to be, in words.

    :param cloud: a clusters.ClusterOctavia.
    :param lb: its only load balancer.
    :param sizes: those that it may be told to have; the first one is its
                  size.
    :param standby: how many amphorae wait.
    """

    def __init__(self, cloud, lb, sizes, standby):
        self.cloud = cloud
        self.lb = lb
        self.sizes = sizes
        self.size = sizes[0]
        self.standby = standby
        self.haproxy_unit = f'haproxy-{lb.id}'
        self.lost = set()
        self.violations = []
        self.held = []
        self._dead = set()
        self._rows = self._read()
        self._small_since = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    # What is seen

    def start(self):
        self._thread.start()

    def stop(self):
        self._ended.set()
        self._thread.join(60)

    def _read(self):
        with self.cloud.engine.connect() as connection:
            return {table: [dict(row) for row in connection.execute(
                sa.text(f'SELECT * FROM {table}')).mappings()]
                for table in _TABLES}

    def _watch(self):
        while not self._ended.wait(_INTERVAL):
            # The database may be what is missing.
            with contextlib.suppress(sa.exc.DBAPIError):
                self._rows = self._read()
                self._judge(self._rows)

    def _judge(self, rows):
        slots = collections.Counter(
            member['slot'] for member in rows['hmsync_cluster_member']
            if member['slot'] is not None)
        twice = [slot for slot, number in slots.items() if number > 1]
        if twice:
            self.violations.append(f'slots {twice} have two members: {rows}')
        cluster = rows['hmsync_cluster'][0]
        active = [member for member in rows['hmsync_cluster_member']
                  if member['state'] == 'ACTIVE' and
                  member['slot'] is not None]
        if (len(active) >= cluster['min_size'] or
                cluster['operating_status'] == 'ERROR'):
            self._small_since = None
        elif self._small_since is None:
            self._small_since = time.monotonic()
        elif time.monotonic() - self._small_since > SAID_AFTER:
            self.violations.append(f'it is too small, and not said so: {rows}')
            self._small_since = time.monotonic()

    @property
    def cluster(self):
        return self._rows['hmsync_cluster'][0]

    @property
    def members(self):
        return self._rows['hmsync_cluster_member']

    def get_serving(self):
        """Ids of amphorae that new connections go to, and that live."""
        return {member['amphora_id'] for member in self.members
                if member['state'] == 'ACTIVE' and member['slot'] is not None
                and self._lives(member['amphora_id'])}

    def get_member(self, slot):
        """Return the id of the amphora that has a slot."""
        return next(member['amphora_id'] for member in self.members
                    if member['slot'] == slot)

    def _lives(self, amphora_id):
        return self._runs(amphora_id) and amphora_id not in self._dead

    def _runs(self, amphora_id):
        found = self.cloud.compute.by_amphora(amphora_id)
        return found is not None and found.running

    @property
    def controllers(self):
        return [child for child in (*self.cloud.workers,
                                    *self.cloud.health_managers,
                                    *self.cloud.house_keepers)
                if child.running]

    def choose_distributor(self, chance):
        """Return one of them; more often the one that has the packets."""
        found = sorted(self.cloud.distributors.values(),
                       key=lambda each: each.host)
        active = self.get_active_host()
        return chance.choice(found + [each for each in found
                                      if each.host == active] * 2)

    def get_active_host(self):
        """The name of the distributor that is active, as rows have it."""
        active = {vip['distributor_id'] for vip in
                  self._rows['hmsync_distributor_vip'] if vip['active']}
        return next((row['name'] for row in self._rows['hmsync_distributor']
                     if row['id'] in active), None)

    def get_active_port(self):
        """The id of the port that has the VIP, as rows have it."""
        return next((vip['port_id'] for vip in
                     self._rows['hmsync_distributor_vip'] if vip['active']),
                    None)

    def get_vip_port(self):
        """The id of the port of the VIP, as Octavia has it."""
        return self.cloud.connection.load_balancer.get_load_balancer(
            self.lb.id).vip_port_id

    def get_port(self, amphora_id):
        """The id of the port of an amphora in the network of the VIP."""
        with self.cloud.engine.connect() as connection:
            return connection.execute(sa.text(
                'SELECT vrrp_port_id FROM amphora WHERE id = :id'),
                {'id': amphora_id}).scalar_one()

    # What is done

    def lose(self, amphora_id):
        """Have connections of an amphora be such as may break."""
        self._dead.add(amphora_id)
        self.lost |= self.get_ports(amphora_id)

    def lose_pinned(self, host):
        """As lose(), of connections that a node remembers one by one."""
        self.lost |= get_pinned(self.cloud, host, self.cluster['id'])

    def lose_all(self):
        """As lose(), of all connections."""
        for each in self.held:
            self.lost |= each.report().opened

    def lose_outside(self):
        """As lose(), of connections to the floating IP."""
        self.lost |= self.held[-1].report().opened

    def get_ports(self, amphora_id):
        """Ports of the clients that are connected to an amphora."""
        lines = self.cloud.compute.by_amphora(amphora_id).run_inside(
            'ss', '-Htn', 'state', 'established').stdout.splitlines()
        return {int(line.split()[3].rpartition(':')[2]) for line in lines}

    def order(self, *arguments):
        """Run a command of octavia-hmsync."""
        self.cloud.command('octavia-hmsync', *arguments)

    def update(self):
        """Have a tenant change a listener; returns what came of it."""
        api = self.cloud.connection.load_balancer
        listener = next(iter(api.listeners(load_balancer_id=self.lb.id)))
        timeout = _TIMEOUT + (listener.timeout_client_data + 1) % 1000
        try:
            api.update_listener(listener, timeout_client_data=timeout)
        except exceptions.ConflictException:
            return 'refused'
        return str(timeout)

    def hold(self, ways, number, port):
        """Open connections that are used until release().

        :param ways: [(a machines.Client, an address)].
        """
        self.lost.clear()
        self._dead.clear()
        self.held = [client.hold(address, number, port=port,
                                 timeout=BROKEN_AFTER)
                     for client, address in ways]
        for each in self.held:
            each.wait_until_open(120)

    def release(self):
        for each in self.held:
            each.stop()
        self.held = []

    @property
    def opened(self):
        return set().union(*(each.report().opened for each in self.held))

    @property
    def broken(self):
        return {port: error for each in self.held
                for port, error in each.report().broken.items()}

    def find_unused(self, since):
        """Tell which connections were neither used nor broken of late.

        :param since: seconds since the epoch.
        """
        for each in self.held:
            used = {request.port for request in each.requests
                    if request.error or request.began > since}
            unused = each.report().opened - used
            if unused:
                return f'an exchange over {sorted(unused)}'
        return None

    def restore(self):
        """Do what an operator does after an octavia-worker died.

        Nobody but him knows that it was at work at a change of a tenant's.
        """
        def is_over():
            if self._find_pending() is None:
                return True
            with contextlib.suppress(RuntimeError):
                self.order('cluster', 'restore', self.lb.id,
                           '--older-than', str(_HALF_WAY))
            return False

        waiting.wait_for(is_over, 'load balancer that nobody works on',
                         3 * _HALF_WAY, 5)

    def _find_pending(self):
        status = self.cloud.connection.load_balancer.get_load_balancer(
            self.lb.id).provisioning_status
        return status if status.startswith('PENDING') else None

    # What has to be true in the end

    def find_unsettled(self):
        """Tell what is missing, but for what waits for connections."""
        api = self.cloud.connection.load_balancer
        found = api.get_load_balancer(self.lb.id)
        rows = self._read()
        serving = sorted(member['slot'] for member in
                         rows['hmsync_cluster_member']
                         if member['state'] == 'ACTIVE')
        status = rows['hmsync_cluster'][0]['operating_status']
        if (found.provisioning_status == 'ACTIVE' and status == 'ONLINE' and
                serving == list(range(self.size)) and
                not any(member['ordered'] == 'REPLACE' and
                        member['slot'] is not None
                        for member in rows['hmsync_cluster_member']) and
                all(self._runs(member['amphora_id']) for member in
                    rows['hmsync_cluster_member']
                    if member['state'] == 'ACTIVE') and
                not [each for each in self.cloud.distributors.values()
                     if each.running and not each.is_ready()]):
            return None
        return (f'{found.provisioning_status}, {status}, slots {serving}, '
                f'{rows}')

    def find_left(self):
        """Tell what there is too much, or too little, with no connections."""
        number = self.size + self.standby
        instances = [booted.instance_name for booted in
                     list(self.cloud.compute.instances.values())]
        rows = self._read()['hmsync_cluster_member']
        with self.cloud.engine.connect() as connection:
            amphorae = connection.execute(sa.text(
                "SELECT id, status FROM amphora WHERE status != 'DELETED'")
            ).all()
        states = collections.Counter(row['state'] for row in rows)
        if ({len(instances), len(rows), len(amphorae)} == {number} and
                states['ACTIVE'] == self.size and
                states['STANDBY'] == self.standby and
                {row['health'] for row in rows} <= {None, 'HEALTHY'} and
                all(self._runs(row['amphora_id']) for row in rows)):
            return None
        return f'{instances}, {rows}, {amphorae}'

    def find_ports(self, expected):
        """Tell which ports there are if not these; see count_ports()."""
        found = self.count_ports()
        return None if found == expected else f'{found}, not {expected}'

    def count_ports(self):
        """How many ports Neutron has of each owner."""
        return collections.Counter(
            port.device_owner for port in
            self.cloud.connection.network.ports())

    def find_wrong(self):
        """Tell what distributors have in force that rows do not have."""
        expected = {(row['slot'], row['amphora_id'], row['state'])
                    for row in self._read()['hmsync_cluster_member']
                    if row['slot'] is not None}
        documents = [each.ask('get_vip', vip['id'])['document']
                     for each in self.cloud.distributors.values()
                     for vip in each.ask('list_vips')]
        # Who is dead has left an empty slot.
        found = [(document['active'], sorted(
            (member['slot'], member['id'], member['state'])
            for member in document['members'] if member['state'] != 'DEAD'))
            for document in documents]
        if (sorted(active for active, _ in found) == [False, True] and
                all(members == sorted(expected) for _, members in found)):
            return None
        return f'{found}, not {sorted(expected)}'

    def wait_until(self, find, what, timeout):
        """Wait until there is nothing that a function finds."""
        found = ['']

        def is_none():
            try:
                found[0] = find()
            except (exceptions.SDKException, sa.exc.DBAPIError,
                    hmsync_exceptions.DistributorError) as e:
                # What was gone is hardly back.
                found[0] = repr(e)
            return found[0] is None

        waiting.wait_for(is_none, lambda: f'{what}: {found[0]}', timeout, 1)
