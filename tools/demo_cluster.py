# SPDX-License-Identifier: Apache-2.0

"""One load balancer on four amphorae, and connections that live on.

A part of demo.py: demo.sh --cluster.
"""

import dataclasses
import os
import time
import warnings

SIZE = 4
# Of each of two clients, one in the network of the VIP and one outside.
CONNECTIONS = 100
RATE = 10
# Before and after, seconds in which the clients ask.
PAUSE = 5
# In seconds: until a connection to who is dead has failed.
PATIENCE = 30
DRAINING = {'hmsync_cluster': {'drain_timeout': 3600}}


@dataclasses.dataclass(frozen=True)
class Row:
    """What clients saw of one thing that happened.

    :param name: what it was.
    :param connections: how many were open before.
    :param broken: how many of them broke.
    :param own: how many of them ended where it happened, and cannot live on.
    :param requests: how many were made meanwhile, each by a new connection.
    :param failed: how many of them failed.
    :param seconds: until it was over.
    """

    name: str
    connections: int
    broken: int
    own: int
    requests: int
    failed: int
    seconds: float


def make_table(rows):
    """Return the text of the table."""
    cells = [('what happens', 'open', 'broken', 'its own', 'requests',
              'failed', 'time')]
    cells += [(row.name, str(row.connections), str(row.broken), str(row.own),
               str(row.requests), str(row.failed), f'{row.seconds:.1f} s')
              for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ['  '.join([
        line[0].ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))])
        for line in cells]
    lines.insert(1, '-' * len(lines[0]))
    return '\n'.join(lines)


def find_broken_promise(rows):
    """Tell which promise was not kept; None if all were."""
    for row in rows:
        if row.broken > row.own:
            return (f'{row.broken} connections broke when {row.name}, and '
                    f'{row.own} were its own')
    return None


class ClusterDemo:
    """The story, told on a whole Octavia.

    :param cloud: a clusters.ClusterOctavia that is ready.
    """

    def __init__(self, cloud, terminal):
        self.cloud = cloud
        self.terminal = terminal
        self.rows = []

    def run(self):
        """Run all of it; fills .rows."""
        self._make()
        self._observe('a member is added', self._add)
        self._observe('a member is drained', self._drain)
        self._observe('a distributor is killed', self._kill_distributor)
        self._observe('a member is killed', self._kill)
        self.terminal.heading(make_table(self.rows))

    def _make(self):
        from tests.cloud import machines

        cloud, hosts = self.cloud, self.cloud.fabric.hosts
        servers = [cloud.useFixture(machines.Member(cloud, f'web-{host}',
                                                    host=host))
                   for host in hosts]
        clients = (machines.Client(cloud, 'inside', host=hosts[0]),
                   machines.Client(cloud, 'outside', cloud.external_network))
        for client in clients:
            cloud.useFixture(client)
        self.terminal.say(f'making a load balancer on {SIZE} amphorae, by '
                          f'"--provider amphora_cluster"')
        began = time.monotonic()
        self._cluster = cloud.add_cluster('web', servers, desired_size=SIZE,
                                          min_size=2)
        cloud.wait_for(
            lambda: len(cloud.get_serving(self._cluster)) == SIZE,
            f'{SIZE} amphorae', 240)
        addresses = (self._cluster.vip_address,
                     cloud.add_floating_ip(self._cluster.vip_port_id))
        for client, address in zip(clients, addresses):
            client.get(address)
        self.terminal.say(
            f'it answers at {addresses[0]}, and outside at {addresses[1]}, '
            f'after {time.monotonic() - began:.0f} s')
        self._ways = tuple(zip(clients, addresses))
        self._held = [client.hold(address, CONNECTIONS).wait_until_open()
                      for client, address in self._ways]
        self.terminal.say(f'{len(self._see("opened"))} connections are open, '
                          f'half of them by the floating address')

    def _see(self, name):
        return set().union(*(getattr(each.report(), name)
                             for each in self._held))

    def _observe(self, name, happen):
        """Have something happen; adds a row."""
        self.terminal.heading(name)
        alive = self._see('alive')
        probes = [client.start_probe(address, rate=RATE, timeout=5)
                  for client, address in self._ways]
        time.sleep(PAUSE)
        began = time.monotonic()
        own = happen() & alive
        seconds = time.monotonic() - began
        self._wait_for_end(own)
        seen = [probe.stop() for probe in probes]
        broken = alive & self._see('broken')
        self.rows.append(Row(
            name, len(alive), len(broken), len(own),
            sum(each.requests for each in seen),
            sum(each.failed for each in seen), seconds))
        self.terminal.say(f'{len(broken)} of {len(alive)} connections broke')

    def _wait_for_end(self, ports):
        """Until connections have broken that cannot live on."""
        time.sleep(PAUSE)
        deadline = time.monotonic() + PATIENCE
        while (ports - self._see('broken') and
               time.monotonic() < deadline):
            time.sleep(1)

    def _busiest(self):
        """The amphora with most connections, and which they are."""
        return max(self.cloud.get_sessions(self._cluster).items(),
                   key=lambda item: len(item[1]))

    def _add(self):
        self._show('octavia-hmsync', 'cluster', 'set', self._cluster.id,
                   '--desired', str(SIZE + 1))
        self.cloud.set_size(self._cluster, SIZE + 1)
        self.terminal.say('it gets new connections')
        return set()

    def _drain(self):
        amphora_id, _ = self._busiest()
        self._show('openstack', 'loadbalancer', 'amphora', 'failover',
                   amphora_id)
        self.cloud.replace(self._cluster, amphora_id)
        self.terminal.say('another one has its place')
        # It keeps its connections for drain_timeout.
        return set()

    def _kill(self):
        amphora_id, ports = self._busiest()
        self.terminal.say(f'amphora {amphora_id} loses its power')
        self.cloud.compute.by_amphora(amphora_id).kill_tree()
        self.cloud.wait_until_replaced(self._cluster, amphora_id)
        self.terminal.say('it was found to be dead, and another one has its '
                          'place')
        return ports

    def _kill_distributor(self):
        cloud = self.cloud
        active = cloud.get_active_distributor(self._cluster)
        self.terminal.say(f'{active.host}, which answers for the VIP, loses '
                          f'its power')
        cloud.kill_node(active.host)
        cloud.wait_for(lambda: cloud.get_active_distributor(self._cluster),
                       'another distributor that answers for the VIP', 120)
        return set()

    def _show(self, *command):
        self.terminal.heading(f'$ {" ".join(command)}')


def run(arguments, terminal, interruption):
    """Run it; returns the exit status."""
    # Of libraries, about each other.
    warnings.simplefilter('ignore')
    import demo_image
    from tests.cloud import clusters

    terminal.say('starting a whole Octavia with two network nodes: RabbitMQ, '
                 'MariaDB, Neutron, Glance, OVN, Open vSwitch')
    with clusters.ClusterOctavia(workers=1, options=DRAINING) as cloud:
        cloud.addCleanup(interruption.ignore)
        if arguments.keep_logs:
            cloud.addCleanup(demo_image.keep_logs, cloud.directory,
                             os.path.abspath(arguments.keep_logs))
        cloud.wait_until_ready()
        terminal.say('Octavia is ready')
        demo = ClusterDemo(cloud, terminal)
        demo.run()
        broken = find_broken_promise(demo.rows)
        if broken:
            print(f'PROMISE NOT KEPT: {broken}', flush=True)
        else:
            print('No connection broke but those of the amphora that was '
                  'killed.', flush=True)
        terminal.say('ending all processes')
    return 1 if broken else 0
