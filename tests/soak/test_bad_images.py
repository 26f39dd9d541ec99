# SPDX-License-Identifier: Apache-2.0

"""That bad images of tests/cloud are bad in the way that they say."""

import json

from tests.cloud.compute import bad_images
from tests.functional import images


class TestBadImages(images.ImageTestCase):

    def add(self, kind, **kwargs):
        """Begin to make a load balancer of a bad image; returns it."""
        self.cloud.add_image(kind, tags=[kind], like=getattr(
            bad_images, kind)())
        return self.cloud.add_load_balancer(
            kind, members=self.members, wait=False,
            flavor_id=self.cloud.add_flavor(amp_image_tag=kind), **kwargs)

    def wait_until(self, load_balancer, status):
        self.cloud.wait_for(
            lambda: self.api.get_load_balancer(
                load_balancer.id).provisioning_status == status,
            f'{load_balancer.name} {status}', 200)

    def ask(self, load_balancer, path):
        """Ask the agent of a SINGLE load balancer."""
        amphora, = self.amphorae(load_balancer).values()
        return json.loads(self.cloud.namespace.run(
            'curl', '-sSk', '--cert', self.cloud.certificates.client_path,
            f"https://{amphora['lb_network_ip']}:9443/{path}").stdout)

    def test_each(self):
        made = {kind: self.add(kind) for kind in (
            'never_boots', 'refuses_listeners', 'other_api_version',
            'never_sends_heartbeats', 'fails_with_vip')}
        # Octavia itself finds out about these, where it makes them.
        for kind in ('never_boots', 'refuses_listeners',
                     'other_api_version'):
            self.wait_until(made[kind], 'ERROR')
        self.assertIn("KeyError: '2.0'", self.cloud.workers[0].log())
        for kind in ('never_sends_heartbeats', 'fails_with_vip'):
            self.wait_until(made[kind], 'ACTIVE')
        self.wait_until_online(made['fails_with_vip'])
        listener, = self.ask(made['fails_with_vip'], '1.0/listeners')
        self.assertEqual('ERROR', listener['status'])
        mute = made['never_sends_heartbeats']
        self.client.get(mute.vip_address)
        listener, = self.ask(mute, '1.0/listeners')
        self.assertEqual('ACTIVE', listener['status'])
        self.assertEqual('OFFLINE', self.api.get_load_balancer(
            mute.id).operating_status)
