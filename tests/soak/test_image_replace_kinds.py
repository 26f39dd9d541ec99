# SPDX-License-Identifier: Apache-2.0

"""Load balancers of other kinds, and what their clients have to lose.

There is no secret store here, and so no listener that ends TLS.
"""

from tests.functional import replacements


class TestKinds(replacements.ReplacementTestCase):

    # A proof takes longer on a busy machine; none is to fail here.
    options = {'hmsync_image': {'replacements_at_once': 8,
                                'proof_timeout': 300}}

    def make_pool(self, **kwargs):
        return {'name': 'members', 'protocol': 'HTTP',
                'lb_algorithm': 'ROUND_ROBIN', 'members': [
                    {'address': member.address, 'protocol_port': 80}
                    for member in self.members], **kwargs}

    def make_listener(self, **kwargs):
        return {'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
                **kwargs}

    def wait_until_replaced(self, made, image):
        begun = {name: self.begin(lb, image) for name, lb in made.items()}
        for each in begun.values():
            self.assertDone(self.wait_until_ended(each))
        for name, lb in made.items():
            self.assertEqual(
                {('ALLOCATED', image.id)},
                {(row['status'], row['image_id'])
                 for row in self.amphorae(lb).values()}, name)
            self.assertEqual('ACTIVE', self.api.get_load_balancer(
                lb.id).provisioning_status)

    def test_odd_ones(self):
        disabled = [self.make_listener(admin_state_up=False,
                                       default_pool=self.make_pool())]
        empty = [self.make_listener()]
        watched = self.make_pool(healthmonitor={
            'type': 'HTTP', 'delay': 1, 'timeout': 1, 'max_retries': 2})
        mixed = [self.make_listener(default_pool=watched),
                 {'name': 'off', 'protocol': 'TCP', 'protocol_port': 81,
                  'admin_state_up': False}]
        made = {
            name: self.cloud.add_load_balancer(name, **kwargs)
            for name, kwargs in {
                'bare': {}, 'disabled': {'listeners': disabled},
                'empty': {'listeners': empty}, 'mixed': {'listeners': mixed},
                'bare-pair': {'topology': 'ACTIVE_STANDBY'}}.items()}
        self.wait_until_online(made['mixed'])
        image = self.cloud.add_image('second')
        with self.under_probe(made['mixed']) as seen:
            self.wait_until_replaced(made, image)
        self.assertHardlyNoticed(seen.report)
        # What was disabled serves once it is enabled.
        listener, = self.api.listeners(load_balancer_id=made['disabled'].id)
        self.api.update_listener(listener.id, is_admin_state_up=True)
        self.cloud.wait_until_active(made['disabled'].id)
        self.assertEqual({member.name for member in self.members}, {
            self.client.get(made['disabled'].vip_address)
            for _ in range(4)})

    def test_persistence(self):
        """Who went where is known to those that are new."""
        made = self.cloud.add_load_balancer(
            'pair', 'ACTIVE_STANDBY', listeners=[self.make_listener(
                default_pool=self.make_pool(
                    session_persistence={'type': 'SOURCE_IP'}))])
        self.wait_until_online(made)
        self.cloud.wait_for(lambda: self.holders(made), 'holder')
        answer = {self.client.get(made.vip_address) for _ in range(8)}
        self.assertEqual(1, len(answer))
        image = self.cloud.add_image('second')
        with self.under_probe(made) as seen:
            self.wait_until_replaced({'pair': made}, image)
        self.assertEqual(answer, {self.client.get(made.vip_address)
                                  for _ in range(8)})
        # A haproxy is loaded anew in each that shares, in the one with the
        # VIP, too, as after each change by its owner.
        print(seen.report, seen.holders)
        self.assertLess(seen.report.dark, 0.5, seen.report)
