# SPDX-License-Identifier: Apache-2.0

"""What tenants change of a VIP while a member of its cluster is built."""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from tests.unit.cluster import cloud

OWN_GROUP = 'group'


class TestMemberPort(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.lb = self.create(size=2)

    def change_vip(self, policy_id, group_ids=()):
        vip, groups = (self.records.tables[name] for name in
                       ('vip', 'vip_security_group'))
        with self.engine.begin() as connection:
            connection.execute(vip.update().values(qos_policy_id=policy_id))
            connection.execute(groups.delete())
        if group_ids:
            self.records.insert_all({'vip_security_group': [
                {'load_balancer_id': self.lb, 'sg_id': group_id}
                for group_id in group_ids]})

    def change_while_built(self, *change):
        """Have it changed once a port is made, before its instance is."""
        pending = [change]

        def rule(text):
            if text.startswith('build amphora') and pending:
                self.change_vip(*pending.pop())

        self.cloud.rules.append(rule)

    def grow(self, size):
        cluster_id = self.get_cluster(self.lb).id
        cluster_repo.set_sizes(self.engine, cluster_id, desired_size=size,
                               cooldown=0)
        self.keep()
        self.assertWhole(self.lb, size)

    def find_port(self, slot):
        member = self.get_members(self.lb)[slot]
        return self.cloud.find_port(
            f'octavia-lb-vrrp-{member.amphora_id}')

    def assertPort(self, slot, policy_id, *group_ids):
        port = self.find_port(slot)
        self.assertEqual((policy_id, {OWN_GROUP, *group_ids}),
                         (port.qos_policy_id, set(port.security_group_ids)))

    def assertLeftAlone(self):
        self.assertEqual([], [step for step in self.cloud.steps if
                              step.startswith(('apply QoS', 'update groups'))])

    def test_left_alone(self):
        """What is there when the port is made is not given twice."""
        self.change_vip('slow', ['tenant'])
        self.grow(3)
        self.assertPort(2, 'slow', 'tenant')
        self.assertLeftAlone()

    def test_changed(self):
        self.change_vip('slow', ['old'])
        self.change_while_built('slower', ['new', 'newer'])
        self.grow(3)
        self.assertPort(2, 'slower', 'new', 'newer')

    def test_given(self):
        """Nobody is sent to one that its tenant has not limited yet."""
        self.change_while_built('slow', ['tenant'])
        self.grow(3)
        self.assertPort(2, 'slow', 'tenant')
        steps = self.cloud.steps
        last = max(number for number, step in enumerate(steps)
                   if step == 'distributors: register')
        self.assertLess(steps.index('apply QoS slow'), last)

    def test_taken_away(self):
        self.change_vip('slow', ['tenant'])
        self.change_while_built(None)
        self.grow(3)
        self.assertPort(2, None)

    def test_refused(self):
        """It is built anew; others serve, and the tenant may change things."""
        self.change_while_built('slow')
        self.cloud.refuse('apply QoS')
        cluster_id = self.get_cluster(self.lb).id
        cluster_repo.set_sizes(self.engine, cluster_id, desired_size=3,
                               cooldown=0)
        self.keep(1)
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.assertEqual(
            [], [each for each in self.get_members(self.lb)[2:]
                 if each.state == member_repo.ACTIVE])
        self.keep()
        self.assertWhole(self.lb, 3)
        self.assertPort(2, 'slow')

    def test_one_that_missed_a_change(self):
        """It is brought to it with whatever else it missed."""
        member = self.get_members(self.lb)[0]
        member_repo.set_state(self.engine, member.id, (member_repo.ACTIVE,),
                              member_repo.DRAINING)
        self.change_vip('slow')
        self.keep()
        self.assertWhole(self.lb, 2)
        self.assertPort(0, 'slow')
