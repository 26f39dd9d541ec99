# SPDX-License-Identifier: Apache-2.0

"""Drivers of clusters beside each other: what they carry, what they break.

One cloud of five nodes with real Neutron (ML2/OVN), OVN, Open vSwitch
(netdev) and real haproxies; no Octavia. A client and half of the members are
on one node, the others on another one. ``hmsync_ovs`` has its distributors on
nodes of their own, by which each packet to the VIP goes. While something
changes, new connections come at a steady rate, and others stay open.
"""

import argparse
import os
import time

import fixtures
from oslo_config import cfg

from benchmarks import cluster
from benchmarks import front
from benchmarks import report
from octavia_hmsync.cluster.distribution.ovn import (
    connections as ovn_connections)
from octavia_hmsync.cluster.distribution.ovn import northbound as northbound_
from octavia_hmsync.cluster.distribution.ovn import plan
from octavia_hmsync.cluster.distribution.ovn import ports as ovn_ports
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import ovn as ovn_conf
from octavia_hmsync.distributor import document
from tests.cloud import certificates
from tests.cloud import machines
from tests.cloud import process
from tests.cloud import tenants
from tests.cloud import vip as vip_
from tests.cloud import waiting

RATE_COLUMNS = ['driver', 'members', 'requests_s', 'connections_s']
BROKEN_COLUMNS = ['driver', 'event', 'open', 'broken', 'not_its_own',
                  'apply_ms', 'sent', 'failed', 'cpu_ms', 'to_rest']
OVS, OVN, NOBODY = 'hmsync_ovs', 'hmsync_ovn', 'none'
MEMBERS = 4
# A member answers with its name, of as many bytes as cluster.ask() reads.
_NAMES = {OVS: 's', OVN: 'n'}
REPLACE, AFFINITY = 'one is replaced', 'the affinity changes'
EVENTS = cluster.ADD, cluster.DRAIN, REPLACE, AFFINITY, cluster.KILL
# Seconds after which what was sent is taken for lost, and for which breaks
# are waited for.
_LOST = 10
_WAIT = _LOST + 4
# Seconds for which the processor is looked at, at rest and from some seconds
# after a change on.
_REST, _SETTLE = 8, 3


class _OVNVip(vip_.Vip):
    """One that OVN distributes, without rows of a cluster."""

    def __init__(self, cloud):
        super().__init__(cloud, [None], cloud.network, MEMBERS, _NAMES[OVN])
        conf = cfg.ConfigOpts()
        groups.register(conf)
        conf.register_opts(ovn_conf.OPTS, ovn_conf.GROUP)
        conf([])
        self._central = cloud.networking.central
        conf.set_override('ovn_nb_connection',
                          [self._central.connection('nb')], ovn_conf.GROUP)
        self._northbound = northbound_.Northbound(conf)
        self._source_ports = ovn_ports.SourcePorts(conf, cloud.connection)

    def _connect(self):
        self.addCleanup(ovn_connections.disconnect)
        self._source = self._source_ports.ensure_source(
            self.id, self._cloud.connection.network.get_network(
                self._network.id).to_dict(),
            {each['ip_address']: each['subnet_id']
             for each in self.port.fixed_ips})
        self.apply()

    def apply(self):
        """Tell OVN; returns when all nodes forward so."""
        self.version += 1
        scene = self._northbound.read(
            self._network.id, self.port.id,
            [self._source.id, *(each.port.id for each in self.members)])
        source, = scene.addresses[self._source.id]
        looked_at = [
            (plan.Backend(each.id, each.port.id,
                          scene.addresses[each.port.id]), state)
            for each, state in zip(self.members, self.states)
            if state != document.DEAD]
        what = {'ports': [cluster.PORT], 'source': source}
        self._northbound.apply(self.id, self.version, [
            (plan.make(self.id, self.version, self.affinity, self.addresses,
                       [backend for backend, state in looked_at
                        if state == document.ACTIVE], **what),
             plan.find_places(scene.links, scene.switch, self.addresses)),
            (plan.make_probe(self.id, self.version,
                             [backend for backend, _state in looked_at],
                             **what), None)])
        process.run('ovn-nbctl', '--wait=hv', '--timeout=60',
                    f'--db={self._central.connection("nb")}', 'sync')


class _Site(fixtures.Fixture):
    """A cloud with a VIP of each driver, .vips, and a client."""

    def _setUp(self):
        cloud = self.useFixture(tenants.Networks())
        self._directory = cloud.directory
        self._nodes = cloud.networking.chassis
        distributors = self.useFixture(vip_.Distributors(
            cloud, self.useFixture(certificates.Certificates(
                os.path.join(cloud.directory, 'certs'))))).all
        self.client = self.useFixture(machines.Client(cloud, 'client'))
        self.vips = {
            OVS: self.useFixture(vip_.Vip(cloud, distributors, cloud.network,
                                          MEMBERS, _NAMES[OVS])),
            OVN: self.useFixture(_OVNVip(cloud))}
        for vip in self.vips.values():
            for member in vip.members:
                self._serve(member)
            self.wait_until_answered(vip, vip.members)

    def _serve(self, member):
        self.useFixture(front.Front(member, cluster.PORT, self._directory)
                        ).wait_until_ready()

    def add_member(self, vip):
        """Have there be a member more, which nobody is told of."""
        self._serve(vip.add_member())

    def measure_cpu(self, seconds):
        """Return the share of a processor of all ovs-vswitchd together."""
        def read():
            return time.monotonic(), sum(
                node.vswitch.get_cpu() for node in self._nodes.values())

        began, before = read()
        time.sleep(seconds)
        ended, after = read()
        return (after - before) / (ended - began)

    def wait_until_answered(self, vip, members):
        """Wait until exactly these answer."""
        names = {each.name for each in members}
        waiting.wait_for(
            lambda: names == {self.client.get(vip.addresses[0], cluster.PORT)
                              for _ in range(6 * len(names))},
            f'{names} at {vip.addresses}', 60)


def measure_rates(site, seconds, clients=64):
    """Measure what is carried, beside a member that is asked by itself.

    :returns: rows.
    """
    ways = [(NOBODY, 1, site.vips[OVS].members[0].address)]
    ways += [(driver, MEMBERS, vip.addresses[0])
             for driver, vip in site.vips.items()]
    rows = []
    for driver, members, address in ways:
        requests, opened = (cluster.ask(site.client, address, seconds,
                                        clients, is_kept)
                            for is_kept in (True, False))
        rows.append({'driver': driver, 'members': members,
                     'requests_s': requests, 'connections_s': opened})
    return rows


def measure_broken(site, connections, rate):
    """Change something under load; count what broke, and what it cost.

    :param connections: how many are open.
    :param rate: new ones in a second.
    :returns: rows.
    """
    rows = []
    for driver, vip in site.vips.items():
        for event in EVENTS:
            rows.append({'driver': driver, 'event': event,
                         **_measure_event(site, vip, event, connections,
                                          rate)})
    return rows


def _measure_event(site, vip, event, connections, rate):
    if event in (cluster.ADD, REPLACE):
        # It is built before, as Octavia does.
        site.add_member(vip)
    held = site.client.hold(vip.addresses[0], connections, cluster.PORT,
                            timeout=_LOST).wait_until_open()
    probe = site.client.start_probe(vip.addresses[0], cluster.PORT, rate,
                                    _LOST)
    time.sleep(_SETTLE)
    at_rest = site.measure_cpu(_REST)
    own = set()
    began = time.monotonic()
    if event in (cluster.DRAIN, REPLACE):
        vip.states[0] = document.DRAINING
    elif event == AFFINITY:
        vip.affinity = document.SOURCE_IP
    elif event == cluster.KILL:
        own = vip.get_connections(vip.members[1])
        vip.members[1].kill()
        vip.states[1] = document.DEAD
        began = time.monotonic()
    vip.apply()
    applied = time.monotonic() - began
    time.sleep(_SETTLE)
    after = site.measure_cpu(_WAIT - _SETTLE)
    asked = probe.stop()
    if event != AFFINITY:
        # One client has one member then.
        site.wait_until_answered(vip, [
            member for member, state in zip(vip.members, vip.states)
            if state == document.ACTIVE])
    found = held.stop()
    if event == cluster.DRAIN:
        vip.states[0] = document.ACTIVE
        vip.apply()
    elif event == AFFINITY:
        vip.affinity = document.FLOW
        vip.apply()
    return {'open': len(found.opened), 'broken': len(found.broken),
            'not_its_own': len(found.broken.keys() - own),
            'apply_ms': applied * 1000, 'sent': asked.requests,
            'failed': asked.failed, 'cpu_ms': after / rate * 1000,
            'to_rest': after / at_rest}


def measure(connections=200, seconds=5, rate=60):
    """Measure both drivers in one cloud.

    :returns: rows of both tables.
    """
    with _Site() as site:
        return (measure_rates(site, seconds),
                measure_broken(site, connections, rate))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--connections', type=int, default=200)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--rate', type=int, default=60)
    args = parser.parse_args()
    rates, broken = measure(args.connections, args.seconds, args.rate)
    report.print_results('drivers, what they carry', RATE_COLUMNS, rates)
    report.print_results('drivers, what a change breaks', BROKEN_COLUMNS,
                         broken)


if __name__ == '__main__':
    main()
