# SPDX-License-Identifier: Apache-2.0

"""What owners of networks delete and change in Neutron."""

import collections
import dataclasses
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import admission
from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import groups
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync import compat
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from tests.cloud import records
from tests.unit import base
from tests.unit.cluster import distributors

LISTENERS = st.lists(st.builds(
    admission.Listener, st.sampled_from(('HTTP', 'UDP', 'TCP')),
    st.sampled_from((80, 443, 1025)), st.sampled_from((None, 1025, 1026)),
    st.sets(st.sampled_from(('192.0.2.7/24', 'fd00::/64', '0.0.0.0/0'))).map(
        tuple)), max_size=3)
NEEDED = st.builds(
    admission.Admission, st.just('lb'), st.lists(st.sampled_from(
        ('192.0.2.5', 'fd00::5')), min_size=1).map(tuple),
    st.sampled_from(((), ('own',))), LISTENERS.map(tuple))


def to_neutron(rule):
    return {'direction': rule.direction, 'ethertype': rule.version,
            'protocol': rule.protocol, 'port_range_min': rule.port,
            'port_range_max': rule.port, 'remote_ip_prefix': rule.prefix,
            'remote_group_id': 'group' if rule.is_of_group else None}


class TestRules(base.TestCase):

    @given(NEEDED, st.booleans(), st.integers(0, 20))
    def test_any(self, needed, is_of_group, number):
        """What is lost of the rules is found, and nothing else."""
        rules = groups.find_missing(needed, (), is_of_group)
        self.assertEqual(len(set(rules)), len(rules))
        there = set(rules)
        self.assertEqual([], groups.find_missing(needed, there, is_of_group))
        lost = rules[number % len(rules)]
        there.discard(lost)
        self.assertEqual([lost], groups.find_missing(needed, there,
                                                     is_of_group))
        self.assertEqual(there, groups.read_rules(map(to_neutron, there)))

    def test_peers(self):
        """As Octavia may open them, and as it never does."""
        needed = admission.Admission('lb', ('192.0.2.5',), ('own',), (
            admission.Listener('TCP', 80, 1025),))
        egress = groups.find_missing(needed, (), True)[:2]
        of_group = groups.Rule('ingress', 'IPv4', 'tcp', 1025,
                               is_of_group=True)
        to_all = dataclasses.replace(of_group, is_of_group=False)
        for there, missing in (
                ([of_group], []), ([to_all], []), ([], [of_group]),
                ([dataclasses.replace(to_all, prefix='192.0.2.9/32')],
                 [of_group])):
            self.assertEqual(missing, groups.find_missing(
                needed, [*egress, *there], True))

    def test_by_number(self):
        self.assertEqual(
            {groups.Rule('ingress', 'IPv4', 'udp', 53),
             groups.Rule('ingress', 'IPv4', 'tcp', -1)},
            groups.read_rules(
                {**to_neutron(groups.Rule('ingress', 'IPv4')),
                 'protocol': protocol, 'port_range_min': least,
                 'port_range_max': 53}
                for protocol, least in (('17', 53), ('6', 1))))


class TestGroups(base.TestCase):

    _ids = st.lists(st.sampled_from('abcdef'), unique=True)

    @given(_ids, _ids.filter(bool), _ids)
    def test_any(self, there, needed, foreign):
        """Nothing is taken away but what admission requires."""
        foreign = set(foreign).difference(needed)
        found = groups.choose(there, needed, foreign)
        self.assertLessEqual(set(needed), set(found))
        self.assertFalse(foreign.intersection(found))
        self.assertEqual(found, groups.choose(found, needed, foreign))
        if len(needed) == 1 or set(needed) <= set(there):
            self.assertEqual({*there, *needed} - foreign, set(found))
        else:
            # It may be one that the tenant chose before.
            self.assertEqual(sorted(needed), found)
        self.assertEqual(sorted(there), groups.choose(there, (), foreign))

    def test_made(self):
        lb_id = records.new_id()
        self.assertEqual(
            [True, True, False, False],
            [groups.is_made(name) for name in (
                f'lb-{lb_id}', groups.DISTRIBUTORS, 'lb-mine', lb_id)])


class TestPortWatch(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        # Those of other tests are not over.
        self.patch(periodic, '_PROBLEMS', periodic._Problems())
        self.repaired = collections.Counter()
        self.clusters = [self.add_cluster() for _number in range(3)]
        for cluster_id in self.clusters:
            self.vips.add(cluster_id)

    def check_ports(self):
        self.now += 61
        self.repaired.update(self.watch.run_once().repairs)
        return self.log.output

    def lose_vip_port(self):
        """Have the VIPs of all clusters lose their port, but for its row."""
        with self.engine.begin() as connection:
            connection.execute(compat.VIP.update().values(port_id='vip1'))
        self.check_ports()
        self.assertNotIn('vip1', self.log.output)
        self.ports.gone.add('vip1')

    def restore_vip(self, load_balancer_id):
        with self.engine.begin() as connection:
            connection.execute(
                compat.VIP.update().where(compat.VIP.c.load_balancer_id ==
                                          load_balancer_id)
                .values(port_id='vip2'))
        return 'vip2'

    def test_port_of_a_vip(self):
        """It is made anew, by one process, and that is said once."""
        self.lose_vip_port()
        busy, *rest = self.clusters
        self.assertTrue(claim_repo.claim(self.engine, busy, 'other', 600))
        with mock.patch.object(compat_cluster, 'restore_vip', autospec=True,
                               side_effect=self.restore_vip):
            for _ in range(3):
                output = self.check_ports()
        for cluster_id in rest:
            self.assertEqual(1, output.count(
                f'The port vip1 of the VIP of the cluster {cluster_id} was '
                f'gone from Neutron, and is made anew: the VIP has the port '
                f'vip2'))
        self.assertEqual(1, output.count(
            f'The port vip1 of the VIP of the cluster {busy} is gone from '
            f'Neutron, and is not made anew: another process works on it'))
        self.assertEqual(len(rest), self.repaired['vip_port'])

    def test_port_of_a_vip_cannot_be_made(self):
        """It is said once, and tried again."""
        self.lose_vip_port()
        with mock.patch.object(
                compat_cluster, 'restore_vip', autospec=True,
                side_effect=ValueError('quota\nexceeded')) as restore:
            for _ in range(2):
                output = self.check_ports()
        for cluster_id in self.clusters:
            self.assertEqual(1, output.count(
                f'of the cluster {cluster_id} is gone from Neutron, and is '
                f'not made anew: Octavia could not make it: ValueError: '
                f'quota exceeded.'))
        self.assertEqual(2 * len(self.clusters), restore.call_count)

    def test_address_of_a_vip_is_taken(self):
        """Its load balancer says ERROR; nothing is made."""
        self.lose_vip_port()
        self.ports.holders[distributors.ADDRESS] = 'thief'
        with mock.patch.object(compat_cluster, 'restore_vip',
                               autospec=True) as restore:
            output = self.check_ports()
        restore.assert_not_called()
        for cluster_id in self.clusters:
            self.assertEqual('ERROR', lock_repo.get_status(self.engine,
                                                           cluster_id))
        self.assertIn(f'The address {distributors.ADDRESS} of its VIP is '
                      f'that of the port thief now', output)
        # It is free again.
        self.ports.holders.clear()
        with mock.patch.object(compat_cluster, 'restore_vip', autospec=True,
                               side_effect=self.restore_vip):
            output = self.check_ports()
        self.assertEqual(len(self.clusters), output.count('is made anew'))

    def change_vip_port(self, **changes):
        """Let somebody change the port of all VIPs, which is the same one."""
        with self.engine.begin() as connection:
            connection.execute(compat.VIP.update().values(port_id='vip1'))
        # Of all clusters: each repairs it.
        self.patch(self.ports, 'change', lambda *change:
                   self.ports.changes.append(change))
        self.ports.states.pop('vip1', None)
        self.ports.states['vip1'] = dataclasses.replace(
            self.ports.read({'vip1'})['vip1'], **changes)
        self.ports.changes.clear()

    def test_port_of_a_vip_is_another_one(self):
        """It is set right as it is, and keeps its floating IP."""
        right = {'fixed_ips': [{'ip_address': distributors.ADDRESS,
                                'subnet_id': distributors.SUBNET}]}
        subnet = distributors.SUBNET
        for changes, values in (
                ({'addresses': {'192.0.2.77': subnet}}, right),
                ({'addresses': {'192.0.2.1': subnet,
                                distributors.ADDRESS: subnet}}, right),
                ({'groups': ('others',)},
                 {'security_group_ids': ['group', 'others']}),
                ({'is_secured': False, 'groups': (), 'pairs': ()},
                 {'security_group_ids': ['group'],
                  'port_security_enabled': True})):
            self.change_vip_port(**changes)
            with mock.patch.object(compat_cluster, 'restore_vip',
                                   autospec=True) as restore:
                output = self.check_ports()
            restore.assert_not_called()
            self.assertEqual(('vip1', values), self.ports.changes[0])
            self.assertIn(
                f'The port vip1 of the VIP of the cluster '
                f'{sorted(self.clusters)[0]} was changed from outside '
                f'({", ".join(sorted(values))}), and is repaired', output)
        # What nobody minds.
        self.change_vip_port(is_on=False, pairs=(), groups=('group', 'more'),
                             addresses={distributors.ADDRESS: subnet,
                                        '2001:db8::7': 'of a router'})
        self.check_ports()
        self.assertEqual([], self.ports.changes)

    def test_port_of_a_vip_is_in_use(self):
        self.change_vip_port(owner='compute:nova', device='server1')
        for _ in range(2):
            output = self.check_ports()
        self.assertEqual([], self.ports.changes)
        for cluster_id in self.clusters:
            self.assertEqual(1, output.count(
                f'The port vip1 of the VIP of the cluster {cluster_id} is '
                f'plugged into server1 (compute:nova)'))
        self.change_vip_port(owner='')
        output = self.check_ports()
        values = [values for _, values in self.ports.changes]
        self.assertEqual('Octavia', values[0]['device_owner'])
        self.assertIn('octavia-hmsync works again', output)

    def read_groups(self):
        """What a port has before Octavia restores its VIP, and after."""
        read, groups_ = self.ports.read, iter([('more',)])
        return lambda ids: {
            port_id: dataclasses.replace(state, groups=found)
            for found in [next(groups_, ('group',))]
            for port_id, state in read(ids).items()}

    def test_group_of_a_vip(self):
        """It is made anew; Neutron lets it go once no port has it."""
        self.lose_vip_port()
        self.ports.gone = {
            groups.get_name(cluster_repo.get(self.engine,
                                             each).load_balancer_id)
            for each in self.clusters}
        # Octavia sets its own groups only; what somebody added is kept.
        with mock.patch.object(
                compat_cluster, 'restore_vip', autospec=True,
                side_effect=lambda _id: self.ports.gone.clear() or 'vip1'), \
                mock.patch.object(
                    self.ports, 'list_groups', autospec=True,
                    side_effect=self.ports.list_groups) as listed, \
                mock.patch.object(self.ports, 'read', autospec=True,
                                  side_effect=self.read_groups()):
            output = self.check_ports()
        # All was looked at again, with the new group.
        self.assertEqual(2, len([
            call for call in listed.call_args_list
            if groups.DISTRIBUTORS in call.args[0]]))
        self.assertEqual(('vip1', {'security_group_ids': ['group', 'more']}),
                         self.ports.changes[0])
        self.assertEqual(len(self.clusters), output.count(
            'The security group of the VIP of the cluster'))
        self.assertNotIn('floating', output)

    def test_rules(self):
        """Those of distributors, and those of a load balancer."""
        self.check_ports()
        self.assertNotIn('gone from Neutron', self.log.output)
        self.ports.rules.clear()
        output = self.check_ports()
        self.assertIn('4 rules of the security group group (octavia-hmsync-'
                      'distributors), of distributors, were gone', output)
        self.ports.rules[:] = [
            rule for rule in groups.find_missing_of_distributors(())
            if rule.direction == groups.INGRESS]
        output = self.check_ports()
        self.assertIn(f', of the cluster {self.clusters[0]}, were gone',
                      output)

    def test_full_group(self):
        """The others are looked at all the same."""
        self.ports.rules.clear()
        with mock.patch.object(self.ports, 'add_rule', autospec=True,
                               side_effect=exceptions.CloudRefused(
                                   'Quota exceeded')):
            for _ in range(3):
                output = self.check_ports()
        self.assertIn('they are not added: Quota exceeded', output)
        # It is said once, and once that it is over.
        for cluster_id in self.clusters:
            self.assertEqual(1, output.count(
                f', of the cluster {cluster_id}, lacks rules'))
        self.assertNotIn('works again', output)
        for _ in range(2):
            output = self.check_ports()
        self.assertEqual(1, output.count('octavia-hmsync works again'))

    def make_ports_of_members(self):
        """Let two members have port0 and port1; return the members."""
        members = member_repo.get_of_cluster(self.engine, self.clusters[0])
        lb_id = cluster_repo.get(self.engine,
                                 self.clusters[0]).load_balancer_id
        self.records.insert_all({'amphora': [
            {**records.amphora_row(member.amphora_id, f'10.0.0.{number}',
                                   lb_id), 'vrrp_port_id': f'port{number}'}
            for number, member in enumerate(members)]})
        return members

    def test_port_of_a_member(self):
        """Whose is gone is replaced; whose was changed is set right."""
        members = self.make_ports_of_members()
        pair = f'{distributors.ADDRESS}/32'
        right = cluster_ports.State(True, (pair,), ('group',))
        other = dataclasses.replace(right, groups=('another',))
        self.ports.states = {'port0': right, 'port1': right}
        self.check_ports()
        self.assertEqual([], self.ports.changes)
        paired = {'allowed_address_pairs': [{'ip_address': pair}]}
        grouped = {'security_group_ids': ['group']}
        # Octavia deletes what has the group of a load balancer, with it.
        self.ports.others = {'foreign': f'lb-{records.new_id()}',
                             'own': 'lb-mine'}
        for states, changes in (
                ({'port1': dataclasses.replace(right, pairs=())},
                 [('port1', paired)]),
                ({'port1': dataclasses.replace(right, groups=())},
                 [('port1', grouped)]),
                ({'port1': dataclasses.replace(right, is_on=False)},
                 [('port1', {'admin_state_up': True})]),
                ({'port1': dataclasses.replace(right, is_secured=False,
                                               groups=(), pairs=())},
                 [('port1', {**paired, **grouped,
                             'port_security_enabled': True})]),
                ({'port1': dataclasses.replace(
                    right, groups=('foreign', 'group', 'own'))},
                 [('port1', {'security_group_ids': ['group', 'own']})]),
                # Of both: what is right is not what most have.
                ({'port0': other, 'port1': other},
                 [(port_id, {'security_group_ids': ['another', 'group']})
                  for port_id in ('port0', 'port1')])):
            self.ports.changes.clear()
            self.ports.states = {'port0': right, 'port1': right, **states}
            self.assertIn('The port port1 of a member', self.check_ports())
            self.assertCountEqual(changes, self.ports.changes)
        # Neutron does not do it for one; the others are seen to.
        self.ports.states['port1'] = other
        self.ports.refusal = exceptions.CloudRefused('no such group')
        self.ports.gone.add('port0')
        for _ in range(2):
            output = self.check_ports()
        self.assertEqual(1, output.count('is not repaired: no such group'))
        self.assertEqual(['REPLACE', None], [
            member.ordered for member in member_repo.get_of_cluster(
                self.engine, self.clusters[0])])
        self.assertIn(f'The port port0 of the member {members[0].id}',
                      self.log.output)
        self.assertEqual(8, self.repaired['member_port'])
