# SPDX-License-Identifier: Apache-2.0

"""The management network, in a real Neutron."""

import json
import subprocess

import fixtures

from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network import marks
from octavia_hmsync.network import port
from octavia_hmsync.network import reconcile
from tests.cloud import http_proxy
from tests.cloud import keystone
from tests.cloud import mariadb
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.functional import mgmt_network

EGRESS = {('egress', 'IPv4', None, None, None, None),
          ('egress', 'IPv6', None, None, None, None)}


class TestEnsure(mgmt_network.NetworkTestCase):

    def test_made_and_again(self):
        made = self.ensure()
        self.assertEqual([made['network_id']], made['amp_boot_network_list'])
        self.assertEqual([made['amphora_security_group_id']],
                         made['amp_secgroup_list'])
        self.assertEqual(7, len(made['changes']), made['changes'])
        self.assertAllThere()
        subnet = self.network.get_subnet(made['subnet_id'])
        self.assertEqual(
            (made['network_id'], mgmt_network.CIDR, True, None),
            (subnet.network_id, subnet.cidr, subnet.is_dhcp_enabled,
             subnet.gateway_ip))
        amphorae = made['amphora_security_group_id']
        managers = made['health_manager_security_group_id']
        self.assertEqual(
            EGRESS | {('ingress', 'IPv4', 'tcp', 9443, 9443, managers)},
            self.rules(amphorae))
        self.assertEqual(
            EGRESS | {('ingress', 'IPv4', 'udp', 5555, 5555, amphorae),
                      ('ingress', 'IPv4', 'udp', 514, 514, amphorae)},
            self.rules(managers))

        again = self.ensure()
        self.assertEqual([], again['changes'])
        self.assertEqual([], again['notes'])
        for column in ('network_id', 'subnet_id', 'amp_secgroup_list',
                       'health_manager_security_group_id'):
            self.assertEqual(made[column], again[column], column)
        shown = self.run_json('network', 'show')
        self.assertEqual(made['network_id'], shown['network_id'])
        self.assertEqual([], shown['differences'])

    def test_ipv6(self):
        self.set_options(management_subnet_cidr='fd00:1::/64',
                         allow_icmp=True)
        made = self.ensure()
        subnet = self.network.get_subnet(made['subnet_id'])
        self.assertEqual(
            ('fd00:1::/64', 'dhcpv6-stateful', None),
            (subnet.cidr, subnet.ipv6_address_mode, subnet.gateway_ip))
        managers = made['health_manager_security_group_id']
        self.assertEqual(
            EGRESS | {('ingress', 'IPv6', 'tcp', 9443, 9443, managers),
                      ('ingress', 'IPv6', 'ipv6-icmp', None, None,
                       managers)},
            self.rules(made['amphora_security_group_id']))
        self.assertEqual([], self.ensure()['changes'])

    def test_other_options_later(self):
        """Rules come and go with the options; those of others stay."""
        made = self.ensure()
        group = made['amphora_security_group_id']
        before = self.rules(group)
        self.network.create_security_group_rule(
            security_group_id=group, direction='ingress', protocol='tcp',
            port_range_min=80, port_range_max=90,
            remote_ip_prefix='10.0.0.0/8')
        self.set_options(allow_ssh=True)
        self.assertEqual(1, len(self.ensure()['changes']))
        ssh = {('ingress', 'IPv4', 'tcp', 22, 22,
                made['health_manager_security_group_id'])}
        foreign = {('ingress', 'IPv4', 'tcp', 80, 90, None)}
        self.assertEqual(before | ssh | foreign, self.rules(group))
        self.set_options()
        again = self.ensure()
        self.assertEqual(1, len(again['changes']))
        self.assertEqual(before | foreign, self.rules(group))
        note, = again['notes']
        self.assertIn('ingress IPv4 tcp 80-90 with 10.0.0.0/8', note)

    def test_dry_run(self):
        told = self.ensure('--dry-run')
        self.assertEqual(7, len(told['changes']))
        self.assertIsNone(told['network_id'])
        self.assertNothingThere()
        self.assertEqual([], self.rows(network_repo.models.Network))
        self.ensure()
        self.assertEqual([], self.ensure('--dry-run')['changes'])

    def test_two_names_in_one_project(self):
        first = self.ensure()
        one, self.name = self.name, f'{self.name}-b'
        self.set_options()
        second = self.ensure()
        self.assertNotEqual(first['network_id'], second['network_id'])
        self.delete()
        self.name = one
        self.set_options()
        self.assertEqual([], self.ensure()['changes'])

    def test_row_lost(self):
        """Found again by its tags, also under another name."""
        made = self.ensure()
        self.network.update_network(made['network_id'], name='something')
        with self.engine.begin() as connection:
            connection.execute(
                network_repo.sa.delete(network_repo.models.Network))
        again = self.ensure()
        self.assertEqual(made['network_id'], again['network_id'])
        change, = again['changes']
        self.assertIn(f'set name = {self.name}', change)

    def test_nothing_to_show(self):
        self.assertFails('run "octavia-hmsync network ensure"', 'network',
                         'show')


class TestInTheWay(mgmt_network.NetworkTestCase):
    """What is there already, and is not ours."""

    def make_foreign(self, cidr=mgmt_network.CIDR, **attributes):
        made = self.network.create_network(name=self.name, **attributes)
        self.network.create_subnet(network_id=made.id, name='foreign',
                                   ip_version=4, cidr=cidr)
        return made

    def assertRefused(self, *words, argv=()):
        code, out, err = self.run_command('network', 'ensure', *argv)
        self.assertEqual((1, '', 1), (code, out, err.count('\n')), err)
        for word in words:
            self.assertIn(word, err)
        self.assertEqual([], self.names()['security_groups'])

    def test_network_of_the_name(self):
        foreign = self.make_foreign()
        self.assertRefused(foreign.id, 'has not made it', '--adopt')
        self.make_foreign()
        for argv in ((), ('--adopt',)):
            self.assertRefused(foreign.id, 'There are 2 networks', argv=argv)

    def test_group_of_the_name(self):
        group = self.network.create_security_group(
            name=f'{self.name}-amphorae')
        self.assertFails(group.id, 'network', 'ensure')
        self.assertEqual({'networks': [], 'subnets': [],
                          'security_groups': ['-amphorae']}, self.names())

    def test_overlapping(self):
        self.make_foreign(cidr='172.16.0.0/16')
        self.assertRefused('overlaps with 172.16.0.0/16', 'foreign',
                           argv=['--adopt'])

    def test_no_port_security(self):
        self.make_foreign(port_security_enabled=False)
        self.assertRefused('--enable-port-security', argv=['--adopt'])

    def test_another_cidr_later(self):
        self.ensure()
        self.set_options(management_subnet_cidr='172.17.0.0/24')
        self.assertFails('which cannot be changed', 'network', 'ensure')

    def test_adopted_and_let_go(self):
        foreign = self.make_foreign()
        self.network.set_tags(foreign, ['theirs'])
        group = self.network.create_security_group(
            name=f'{self.name}-amphorae')
        before = self.rules(group.id)
        made = self.ensure('--adopt')
        self.assertEqual(
            (foreign.id, foreign.id, group.id),
            (made['network_id'], self.network.get_subnet(
                made['subnet_id']).network_id,
             made['amphora_security_group_id']))
        self.assertEqual([], self.ensure()['changes'])
        # Somebody takes all its tags: it does not become ours by that.
        self.network.set_tags(foreign, ['theirs'])
        self.assertEqual(1, len(self.ensure()['changes']))
        self.assertEqual(
            {f'network {self.name}': ('released', []),
             'subnet foreign': ('released', []),
             f'security group {self.name}-amphorae': ('released', []),
             f'security group {self.name}-managers': ('deleted', [])},
            self.delete())
        self.assertEqual(['theirs'],
                         self.network.get_network(foreign.id).tags)
        self.assertEqual(before, self.rules(group.id))
        self.assertFails('has not made it', 'network', 'ensure')

    def test_adopted_under_another_name_before(self):
        """It has some of the tags, and Neutron takes none twice."""
        foreign = self.make_foreign()
        tags = [*marks.Mark('before', marks.NETWORK).tags, 'theirs']
        self.network.set_tags(foreign, tags)
        self.ensure('--adopt')
        self.assertEqual(
            {*tags, *marks.Mark(self.name, marks.NETWORK).tags},
            set(self.network.get_network(foreign.id).tags))
        self.assertEqual([], self.ensure()['changes'])

    def test_failed_adoption(self):
        """What was there is as it was, and what was made is gone."""
        foreign = self.make_foreign()
        group = self.network.create_security_group(
            name=f'{self.name}-managers')
        self.network.create_security_group(name=f'{self.name}-managers')
        self.assertFails('There are 2 security groups', 'network', 'ensure',
                         '--adopt')
        self.assertEqual([], self.network.get_network(foreign.id).tags)
        self.assertEqual([], self.network.get_security_group(group.id).tags)
        self.assertEqual(['-managers'] * 2, self.names()['security_groups'])


class TestWrittenOtherwise(mgmt_network.NetworkTestCase):
    """What Neutron takes for the same, however it was written."""

    ANYWHERE = {'IPv4': '0.0.0.0/0', 'IPv6': '::/0'}

    def setUp(self):
        super().setUp()
        self.set_options(allow_icmp=True, reconcile_interval=0)

    def make_groups(self):
        """Make those that are to be adopted, without a rule."""
        made = [self.network.create_security_group(
            name=f'{self.name}-{suffix}') for suffix in
            ('amphorae', 'managers')]
        for group in made:
            for rule in group.security_group_rules:
                self.network.delete_security_group_rule(rule['id'])
        return [group.id for group in made]

    def add_rules(self, group, *rules):
        for rule in rules:
            self.network.create_security_group_rule(
                security_group_id=group, **rule)

    def add_old_rule(self, group, protocol, **rule):
        """Add one as releases before wrote it; the API corrects it now."""
        made = self.network.create_security_group_rule(
            security_group_id=group, protocol='vrrp', **rule)
        self.neutron.execute(
            'UPDATE securitygrouprules SET protocol = ? WHERE id = ?',
            protocol, made.id)

    def assertSettled(self, *argv):
        """Adopt the groups; no rule is made or missed, then or later."""
        self.assertEqual(
            ['adopt the security', 'adopt the security', 'create network',
             'create subnet'],
            sorted(' '.join(change.split()[:3 if change[0] == 'a' else 2])
                   for change in self.ensure('--adopt')['changes']))
        self.assertEqual(([], []), (self.ensure()['changes'],
                                    self.ensure()['notes']))
        self.assertEqual(0, reconcile.Reconciler(
            compat.CONF, self.engine).run_once())

    def test_default_rules_of_the_cloud(self):
        """The operator has written them with an address."""
        for rule in list(self.network.default_security_group_rules()):
            self.network.delete_default_security_group_rule(rule)
            self.addCleanup(
                self.network.create_default_security_group_rule,
                **{name: getattr(rule, name) for name in (
                    'direction', 'ether_type', 'used_in_default_sg',
                    'used_in_non_default_sg', 'remote_group_id')})
        for ether_type, anywhere in self.ANYWHERE.items():
            made = self.network.create_default_security_group_rule(
                direction='egress', ether_type=ether_type,
                remote_ip_prefix=anywhere, used_in_default_sg=True,
                used_in_non_default_sg=True)
            self.addCleanup(
                self.network.delete_default_security_group_rule, made)
        self.assertEqual(8, len(self.ensure()['changes']))
        again = self.ensure()
        self.assertEqual(([], []), (again['changes'], again['notes']))

    def test_rules_of_an_operator(self):
        amphorae, managers = self.make_groups()
        for group in (amphorae, managers):
            self.add_rules(group, *(
                {'direction': 'egress', 'ether_type': ether_type,
                 'remote_ip_prefix': anywhere}
                for ether_type, anywhere in self.ANYWHERE.items()))
        ingress = {'direction': 'ingress', 'ether_type': 'ipv4'}
        self.add_rules(
            amphorae,
            {**ingress, 'protocol': '6', 'port_range_min': '9443',
             'port_range_max': '09443', 'remote_group_id': managers},
            {**ingress, 'protocol': '1', 'port_range_min': 1,
             'port_range_max': 65535, 'remote_group_id': managers})
        self.add_rules(managers, *(
            {**ingress, 'protocol': protocol, 'port_range_min': port,
             'port_range_max': port, 'remote_group_id': amphorae}
            for protocol, port in (('17', 5555), ('UDP', 514))))
        self.assertSettled()

    def test_rules_of_an_older_release(self):
        for protocol in ('icmp', '1', '58', 'icmpv6'):
            self.name = f'{self.name}{protocol[-1]}'
            self.set_options(management_subnet_cidr='FD00:1:0::0/64',
                             allow_icmp=True, reconcile_interval=0)
            amphorae, managers = self.make_groups()
            for group in (amphorae, managers):
                self.add_rules(group, {'direction': 'egress',
                                       'ether_type': 'IPv6',
                                       'remote_ip_prefix': '0::0/0'})
            ingress = {'direction': 'ingress', 'ether_type': 'IPv6'}
            self.add_old_rule(amphorae, protocol, **ingress,
                              remote_group_id=managers)
            self.add_rules(
                amphorae, {**ingress, 'protocol': 'tcp',
                           'port_range_min': 9443, 'port_range_max': 9443,
                           'remote_group_id': managers})
            self.add_rules(managers, *(
                {**ingress, 'protocol': 'udp', 'port_range_min': port,
                 'port_range_max': port, 'remote_group_id': amphorae}
                for port in (5555, 514)))
            self.assertSettled()

    def test_not_the_same(self):
        """What is narrower, or protocol 0: OVN lets only that through."""
        amphorae, managers = self.make_groups()
        ingress = {'direction': 'ingress', 'ether_type': 'IPv4',
                   'remote_group_id': managers}
        self.add_rules(
            amphorae,
            {'direction': 'egress', 'ether_type': 'IPv4', 'protocol': '0'},
            {'direction': 'egress', 'ether_type': 'IPv4',
             'remote_ip_prefix': '10.0.0.5/0'},
            *({**ingress, 'protocol': 'icmp', 'port_range_min': kind,
               'port_range_max': code}
              for kind, code in ((0, 0), (8, None), (8, 0))))
        changes = self.ensure('--adopt')['changes']
        for wanted in ('egress IPv4 anything', 'ingress IPv4 tcp 9443',
                       'ingress IPv4 icmp'):
            self.assertEqual(1, sum(
                f'create rule "{wanted}" of the security group '
                f'{self.name}-amphorae' in change for change in changes),
                changes)
        self.assertEqual([], self.ensure()['changes'])

    def test_addresses(self):
        """A node's port, whatever was written into it."""
        self.set_options(management_subnet_cidr='fd00:1::/64')
        made = self.ensure()
        port = self.add_port(
            made, mac_address='FA-16-3E-00-00-0A', fixed_ips=[
                {'subnet_id': made['subnet_id'],
                 'ip_address': 'FD00:1:0:0:0:0:0:00AB'}])
        self.assertEqual(('fa:16:3e:00:00:0a', 'fd00:1::ab'),
                         (port.mac_address, port.fixed_ips[0]['ip_address']))

    def test_subnet_with_host_bits(self):
        foreign = self.network.create_network(name=self.name)
        self.network.create_subnet(
            network_id=foreign.id, name='foreign', ip_version=4,
            cidr='172.16.0.77/255.255.255.0')
        self.assertIn('adopt the subnet foreign',
                      ' '.join(self.ensure('--adopt')['changes']))
        self.assertEqual([], self.ensure()['changes'])


class TestOnMariaDB(mgmt_network.NetworkTestCase):
    """Neutron as clouds have it: names are the same in either case there."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = fixtures.TempDir(rootdir=mariadb.LASTING_DIRECTORY)
        directory.setUp()
        cls.addClassCleanup(directory.cleanUp)
        server = neutron.OnMariaDB(
            directory.path, mariadb.shared_server(),
            # No limit is known, so that networks have none.
            {'DEFAULT': {'global_physnet_mtu': 0}})
        server.setUp()
        cls.addClassCleanup(server.cleanUp)
        server.wait_until_ready()
        cls.neutron = server
        cls.cloud = neutron.connect(server)
        cls.addClassCleanup(cls.cloud.close)
        cls.network = cls.cloud.network

    def test_name_in_capitals(self):
        other = self.network.create_network(name=self.name.upper())
        group = self.network.create_security_group(
            name=f'{self.name}-AMPHORAE')
        self.assertEqual([other.id], [found.id for found in
                                      self.network.networks(name=self.name)])
        made = self.ensure('--adopt')
        self.assertNotEqual(other.id, made['network_id'])
        self.assertNotEqual(group.id, made['amphora_security_group_id'])
        self.assertEqual([], self.ensure()['changes'])

    def test_port_of_a_host_in_capitals(self):
        self.ensure()
        ports = port.NodePorts(compat.CONF, self.cloud, network_repo.get_ids(
            self.engine, self.name))
        theirs = ports.create('CTL1', '')
        self.assertIsNone(ports.find('ctl1'))
        ours = ports.create('ctl1', '')
        self.assertNotEqual(theirs.id, ours.id)
        self.assertEqual(ours.id, ports.find('ctl1').id)

    def test_no_mtu(self):
        made = self.ensure()
        self.assertEqual(0, self.network.get_network(made['network_id']).mtu)
        self.assertEqual(1500, port.NodePorts(
            compat.CONF, self.cloud, network_repo.get_ids(
                self.engine, self.name)).get_mtu())


class TestRefused(mgmt_network.NetworkTestCase):
    """Neutron says no, or nothing."""

    def test_policy(self):
        self.neutron.write_policy({'create_security_group_rule': '!'})
        self.addCleanup(self.neutron.write_policy, {})
        self.assertFails(
            'Neutron does not let the user of [service_auth] create the rule',
            'network', 'ensure')
        self.assertNothingThere()
        self.assertEqual([], self.rows(network_repo.models.Network))

    def test_quota(self):
        used = len(list(self.network.security_groups(
            project_id=neutron.PROJECT_ID)))
        self.network.update_quota(neutron.PROJECT_ID,
                                  security_groups=used + 1)
        self.addCleanup(self.network.update_quota, neutron.PROJECT_ID,
                        security_groups=-1)
        self.assertFails('the quota of security_group', 'network', 'ensure')
        self.assertNothingThere()

    def test_no_free_address(self):
        self.set_options(management_subnet_cidr='172.16.0.0/29')
        made = self.ensure()
        subnet = {'subnet_id': made['subnet_id']}
        self.add_port(made, fixed_ips=[subnet] * 5)
        self.add_port(made)
        e = self.assertRaises(exceptions.CloudRefused, self.add_port_of_ours,
                              made)
        self.assertIn('Could not create a port: no address of the subnet is '
                      'free', str(e))

    def add_port_of_ours(self, made):
        with cloud.reported(compat.CONF, 'create a port'):
            self.add_port(made)

    def test_wrong_cidr(self):
        for cidr, words in ((None, 'is not set'),
                            ('172.16.0.1/24', 'has host bits set'),
                            ('many', 'is no network'),
                            ('172.16.0.0/30', 'too few'),
                            ('127.0.0.0/16', 'could not be reached')):
            self.set_options(management_subnet_cidr=cidr)
            self.assertFails(words, 'network', 'ensure')
        self.assertNothingThere()

    def test_neutron_is_down(self):
        self.set_options('http://127.0.0.1:1')
        for command in ('ensure', 'delete'):
            self.assertFails('See whether Neutron and Keystone run',
                             'network', command)

    def test_neutron_hangs(self):
        self.neutron.pause()
        self.addCleanup(self.neutron.resume)
        self.set_options(api_timeout=1)
        self.assertFails('[neutron] endpoint_override', 'network', 'ensure')


class TestCredentials(mgmt_network.NetworkTestCase):
    """With passwords and a catalog; each command in a process of its own.

    (Octavia registers their options for good.)
    """

    def run_with(self, **kwargs):
        """Run "network ensure" with options of the fake Keystone."""
        server = self.useFixture(keystone.FakeKeystone(self.neutron.url,
                                                       'service-project'))
        self.groups = octavia_conf.merge(
            {'hmsync_network': self.groups['hmsync_network']},
            server.octavia_options(**kwargs))
        return subprocess.run(
            [process.program('octavia-hmsync'), '--config-file',
             self.write_conf(), 'network', 'ensure', '-f', 'json'],
            env=process.environment(self.directory), capture_output=True,
            text=True, timeout=240)

    def test_own_project(self):
        """Neither made nor looked for in another one's."""
        self.network.create_network(name=self.name, project_id='theirs')
        done = self.run_with()
        self.assertEqual('', done.stderr)
        made = json.loads(done.stdout)
        for get, column in (
                (self.network.get_network, 'network_id'),
                (self.network.get_subnet, 'subnet_id'),
                (self.network.get_security_group,
                 'amphora_security_group_id')):
            self.assertEqual('service-project', get(made[column]).project_id)
        self.assertEqual(['', ''], self.names()['networks'])

    def test_wrong(self):
        for kwargs, words in (
                ({'password': 'wrong'}, 'does not accept the user octavia'),
                ({'region': 'RegionTwo'}, 'RegionTwo')):
            done = self.run_with(**kwargs)
            self.assertEqual((1, ''), (done.returncode, done.stdout))
            self.assertIn(words, done.stderr)
            self.assertEqual(1, done.stderr.count('\n'), done.stderr)
            self.assertNotIn('wrong', done.stderr)
        self.assertNothingThere()


class TestDelete(mgmt_network.NetworkTestCase):

    def test_all_of_it(self):
        self.ensure()
        told = self.delete('--dry-run')
        self.assertAllThere()
        self.assertEqual({'deleted'}, {outcome for outcome, _ in
                                       told.values()})
        self.assertEqual(4, len(told))
        gone = self.delete()
        self.assertLessEqual(set(gone), set(told))
        self.assertNothingThere()
        self.assertEqual({}, self.delete())
        self.assertEqual([], self.rows(network_repo.models.Network))

    def test_orphaned(self):
        made = self.ensure()
        port = self.add_port(
            made, name='amphora1', device_owner='compute:nova',
            security_group_ids=[made['amphora_security_group_id']])
        users = [f'port amphora1 ({port.id}) of compute:nova']
        expected = {
            f'network {self.name}': ('orphaned', users),
            f'subnet {self.name}-subnet': ('orphaned', users),
            f'security group {self.name}-amphorae': ('orphaned', users),
            f'security group {self.name}-managers': ('deleted', [])}
        self.assertEqual(expected, self.delete('--dry-run'))
        self.assertAllThere()
        self.assertEqual(expected, self.delete())
        orphans = {'networks': ['-orphaned'],
                   'subnets': ['-subnet-orphaned'],
                   'security_groups': ['-amphorae-orphaned']}
        self.assertEqual(orphans, self.names())
        self.assertEqual(
            [marks.ORPHANED_TAG],
            self.network.get_network(made['network_id']).tags)
        # And never used again.
        again = self.ensure()
        self.assertEqual(7, len(again['changes']))
        self.assertNotEqual(made['network_id'], again['network_id'])
        self.delete()
        self.assertEqual(orphans, self.names())

    def test_subnet_of_somebody_else(self):
        made = self.ensure()
        other = self.network.create_subnet(
            network_id=made['network_id'], ip_version=4, cidr='10.9.9.0/24',
            name='mine')
        found = self.delete()
        self.assertEqual(('orphaned', [f'subnet mine ({other.id})']),
                         found[f'network {self.name}'])
        self.assertEqual(('deleted', []),
                         found[f'subnet {self.name}-subnet'])
        self.assertEqual([other.id], self.network.get_network(
            made['network_id']).subnet_ids)

    def test_orphaned_half_way(self):
        made = self.ensure()
        self.add_port(made)
        proxy = self.useFixture(http_proxy.FaultyProxy(self.neutron.port))
        self.set_options(proxy.url)
        number = 0
        while self.names()['networks'] != ['-orphaned']:
            number += 1
            proxy.fail_at(number, http_proxy.LOSES)
            self.run_command('network', 'delete')
        # Its new tags may be missing: it is not taken for ours all the same.
        proxy.heal()
        self.assertNotEqual(made['network_id'], self.ensure()['network_id'])
