# SPDX-License-Identifier: Apache-2.0

"""The management network moves while clients use load balancers.

From a provider network to the network that "network ensure" makes, with the
commands and the lines of octavia.conf that the page has, in its order.
"""

from concurrent import futures
import configparser
import contextlib
import ipaddress
import json
import shlex

import sqlalchemy as sa

from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import member
from tests.cloud.compute import instance
from tests.cloud import octavia_conf
from tests.cloud import pages
from tests.cloud import two_networks
from tests.functional import replacements
from tests.soak import traffic

PAGE = 'doc/source/admin/management-network-move.rst'
OLD, NEW, NODES = two_networks.OLD, two_networks.NEW, two_networks.NODES
LEFT_OVER = ('amp_boot_network_list', 'amp_secgroup_list')
AMPHORAE = 5


def is_in(network, address):
    """Tell whether an address, with a port or without, is in a network."""
    return ipaddress.ip_address(address.partition(':')[0]) in network


class TestNetworkMove(traffic.TrafficTestCase):

    kind = two_networks.Octavia
    # Each member goes, and one of them has the connection that a probe keeps.
    drain_timeout = 20
    cluster_size = 2
    options = {'hmsync': {'canary_size': 1, 'canary_wait': 1},
               # On a busy machine.
               'health_manager': {'heartbeat_timeout': 60}}

    def setUp(self):
        super().setUp()
        self.blocks = iter(pages.Page(PAGE).blocks)
        self.lists = {OLD: {f'{address}:5555' for address in
                            two_networks.ADDRESSES.values()}}

    # The page

    def take_options(self):
        """Return what its next block has for octavia.conf."""
        block = next(self.blocks)
        self.assertEqual('ini', block.language, block)
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(block.text)
        return {group: dict(parser[group]) for group in parser.sections()}

    def take_commands(self):
        """Return the arguments of octavia-hmsync in its next block."""
        block = next(self.blocks)
        found = [shlex.split(line) for line in block.text.splitlines()]
        self.assertEqual({'octavia-hmsync'}, {each[0] for each in found})
        return [[two_networks.OLD_NAME if word == 'OLD' else word
                 for word in each[1:]] for each in found]

    def configure(self, groups):
        """Change octavia.conf of each controller."""
        self.cloud.options = octavia_conf.merge(self.cloud.options, groups)

    def show(self, *arguments):
        return json.loads(self.cloud.run(*arguments, '-f', 'json'))

    def check_network(self):
        """Return what "upgrade check" says of the management network."""
        rows = json.loads(self.cloud.run('upgrade', 'check', '-f', 'json',
                                         codes=(0, 1, 2)))
        return next((row['result'], row['details']) for row in rows
                    if row['check'] == 'Management network')

    # What there is

    def read_amphorae(self):
        """Return {id: lb_network_ip} of those in service."""
        return {row.id: row.lb_network_ip for row in
                self.cloud.connection.load_balancer.amphorae()
                if row.status == 'ALLOCATED'}

    def find_wrong_lists(self):
        """Return amphorae that have, or use, another list than theirs."""
        rows = {row.id: row for row in
                amphora_repo.get_rows(self.cloud.engine)}
        wrong = {}
        for amphora_id, address in self.read_amphorae().items():
            expected = next(addresses for network, addresses in
                            self.lists.items() if is_in(network, address))
            booted = self.cloud.compute.by_amphora(amphora_id)
            found = booted and self.read_list(booted)
            row = rows.get(amphora_id)
            if found != expected or row is None or row.adopted_at is None:
                wrong[address] = found, row and (
                    row.controller_ip_port_list, row.adopted_at)
        return wrong

    def read_list(self, booted):
        """Return the addresses in the file of an agent; none of one dead."""
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        # It may be being written.
        with contextlib.suppress(OSError, IndexError, configparser.Error):
            parser.read_string(booted.read_file(instance.AGENT_CONF))
        return {each.strip() for each in parser.get(
            'health_manager', 'controller_ip_port_list',
            fallback='').split(',')} - {''}

    def wait_for_lists(self):
        """Wait until each amphora uses the addresses of its network alone."""
        self.cloud.wait_for(lambda: not self.find_wrong_lists(),
                            lambda: f'lists {self.lists}; not of '
                                    f'{self.find_wrong_lists()}')

    def count_bad(self):
        """How many lists have what is out of reach; how much is in ERROR."""
        mixed = 0
        for booted in list(self.cloud.compute.instances.values()):
            # An amphora that boots has no interface yet.
            for interface in list(booted.interfaces.values())[:1]:
                own = interface['fixed_ips'][0]['ip_address']
                mixed += is_in(OLD, own) and any(
                    is_in(NEW, each) for each in self.read_list(booted))
        with self.cloud.engine.connect() as connection:
            return mixed, connection.execute(sa.text(
                "SELECT (SELECT COUNT(*) FROM amphora WHERE status = 'ERROR')"
                " + (SELECT COUNT(*) FROM load_balancer "
                "WHERE provisioning_status = 'ERROR')")).scalar_one()

    def read_published(self):
        return set(generation_repo.get_newest(self.cloud.engine).addresses)

    def assert_apart(self, network, address):
        """Check that no amphora in a network has a way to an address."""
        for amphora_id, own in self.read_amphorae().items():
            self.assertTrue(is_in(network, own))
            found = self.cloud.compute.by_amphora(amphora_id).run(
                'ip', 'route', 'get', address, check=False)
            self.assertIn('unreachable', found.stderr)

    # The steps

    def make_network(self):
        self.configure(self.take_options())
        made = self.show('network', 'ensure')
        self.assertTrue(made['changes'])
        self.assertEqual([], self.show('network', 'ensure')['changes'])
        for node in NODES:
            self.assertIn('is ACTIVE', self.cloud.run('network', 'port',
                                                      'plug', node=node))
        self.new = {port.host: port.ip_addresses[0] for port in
                    port_repo.get_all(self.cloud.engine)}
        self.assertEqual(set(NODES), set(self.new))
        self.lists[NEW] = {f'{each}:5555' for each in self.new.values()}
        self.assert_apart(OLD, self.new[NODES[0]])
        result, details = self.check_network()
        self.assertEqual('Warning', result)
        for option in LEFT_OVER:
            self.assertIn(f'[controller_worker] {option} = ', details)

    def announce_both(self):
        options = self.take_options()
        self.assertEqual(two_networks.ADDRESSES[NODES[0]],
                         options['hmsync'].pop('static_address'))
        self.configure(options)
        published = self.read_published()
        for manager in self.cloud.health_managers:
            node = manager.host
            self.cloud.node_options[node] = {'hmsync': {
                'static_address': two_networks.ADDRESSES[node]}}
            published.add(f'{self.new[node]}:5555')
            self.restart(manager, published)
        shown, watched = self.take_commands()
        self.assertEqual(
            {node: f'{address}:5555' for node, address in self.new.items()},
            {row['host']: row['further_addresses']
             for row in self.show(*shown)})
        self.cloud.run(*watched)
        self.wait_for_lists()

    def restart(self, manager, published):
        """Restart a health manager, until amphorae send to all again."""
        self.cloud.restart(manager)
        self.cloud.wait_for(
            lambda: {row.status for row in hm_repo.get_rows(
                self.cloud.engine)} == {member.ONLINE} and
            self.read_published() == published,
            lambda: f'{published}, and no more: {self.read_published()}')
        self.wait_for_lists()

    def build_in_new(self):
        self.configure({'hmsync_network': {'supply_options': 'True'}})
        details = self.check_network()[1]
        for option in LEFT_OVER:
            self.assertRegex(details, f'{option} = [^:]*: take it out')
        self.configure({'controller_worker': dict.fromkeys(LEFT_OVER)})
        self.assertEqual('Success', self.check_network()[0])
        for each in (*self.cloud.workers, *self.cloud.house_keepers):
            self.cloud.restart(each)
        for manager in self.cloud.health_managers:
            self.restart(manager, set().union(*self.lists.values()))
        self.wait_for_lists()

    def change_members(self):
        """As tenants do at any time; nothing goes to the new ones."""
        api = self.cloud.connection.load_balancer
        for lb in self.load_balancers.values():
            pool = next(each for each in api.pools(loadbalancer_id=lb.id)
                        if each.protocol == 'HTTP')
            idle = [each for each in api.members(pool) if not each.weight]
            if idle:
                api.delete_member(idle[0], pool)
            else:
                api.create_member(pool, address='10.1.0.250',
                                  protocol_port=80, weight=0)
        for lb in self.load_balancers.values():
            self.cloud.wait_until_active(lb.id)
        for amphora_id, address in self.read_amphorae().items():
            self.assertIn(address, {
                each['fixed_ips'][0]['ip_address'] for each in
                self.cloud.compute.by_amphora(amphora_id).interfaces.values()})

    def replace(self):
        self.assertEqual(self.first, set(self.read_amphorae()))
        dry_run, start = self.take_commands()
        self.cloud.run(*dry_run)
        with futures.ThreadPoolExecutor(1) as executor:
            rollout = executor.submit(self.cloud.run, *start)
            self.cloud.wait_for(
                lambda: rollout.done() or len({
                    is_in(NEW, each)
                    for each in self.read_amphorae().values()}) == 2,
                'amphorae in both networks', 600)
            self.wait_for_lists()
            rollout.result()
        # The last member of a cluster may still drain.
        self.cloud.wait_for(
            lambda: [is_in(NEW, each) for each in
                     self.read_amphorae().values()] == [True] * AMPHORAE,
            lambda: f'amphorae in {NEW}: {self.read_amphorae()}')
        self.wait_for_lists()
        self.assert_apart(NEW, two_networks.ADDRESSES[NODES[0]])

    def leave_old(self):
        left = self.read_published()
        self.configure(octavia_conf.merge(
            {'hmsync': dict.fromkeys(('static_address',
                                      'further_networks'))},
            self.take_options()))
        for manager in self.cloud.health_managers:
            address = two_networks.ADDRESSES[manager.host]
            self.cloud.node_options.pop(manager.host)
            left.remove(f'{address}:5555')
            self.restart(manager, left)
        self.assertEqual(self.lists[NEW], left)
        self.assertEqual(sorted(left), sorted(self.show(
            'sync', 'status')['controller_ip_port_list']))
        self.wait_for_lists()
        for node in NODES:
            self.cloud.networking.chassis[node].namespace.run(
                'ip', 'link', 'delete', two_networks.OLD_INTERFACE)

    def test_move(self):
        self.wait_for_lists()
        self.first = set(self.read_amphorae())
        self.assertEqual(AMPHORAE, len(self.first))
        self.begin()
        # A member that goes ends them after that.
        for each in self.held['cluster']:
            self.assertEqual({}, each.report().broken)
            each.stop()
        bad = self.useFixture(replacements.Numbers(self.count_bad))
        self.make_network()
        self.announce_both()
        self.build_in_new()
        self.change_members()
        self.wait_for_lists()
        self.replace()
        self.leave_old()
        self.change_members()
        self.assertHardlyNoticed()
        self.assertHealthy()
        self.wait_for_lists()
        self.assertEqual({(0, 0)}, bad.seen)
        self.assertEqual([], list(self.blocks))
        self.assertEqual([], self.show('network', 'ensure')['changes'])
        self.assertEqual('Success', self.check_network()[0])
        # Each was replaced once by the rollout: none was failed over.
        with self.cloud.engine.connect() as connection:
            self.assertEqual(2 * AMPHORAE, connection.execute(sa.text(
                'SELECT COUNT(*) FROM amphora')).scalar_one())
