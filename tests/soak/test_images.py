# SPDX-License-Identifier: Apache-2.0

"""Who has which image, asked of a whole Octavia and a real Glance."""

import json

from oslotest import base

from tests.cloud import machines
from tests.cloud import octavia


class TestImages(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(octavia.Octavia(workers=1))
        self.cloud.wait_until_ready()

    def image(self, *argv):
        return json.loads(self.cloud.command(
            'octavia-hmsync', 'image', *argv, '-f', 'json'))

    def assertListed(self, outdated, target):
        row, = self.image('list', '--long')
        self.assertEqual((outdated, target, 'ACTIVE', []), (
            row['outdated'], row['target_image_id'],
            row['provisioning_status'], row['blocked_by']))

    def test_newer_deactivated_and_other_images(self):
        glance = self.cloud.connection.image
        first = next(glance.images(name='first'))
        member = self.useFixture(machines.Member(self.cloud, 'member'))
        made = self.cloud.add_load_balancer('lb1', members=[member])
        self.assertListed('NO', first.id)
        row, = self.image('list', '--ask-agents')
        self.assertRegex(row['haproxy_version'][0], r'^\d+\.\d+')
        newer = self.cloud.add_image('newer')
        self.cloud.add_image('of another tag', tags=['other'])
        self.assertListed('YES', newer.id)
        found = self.image('check', 'lb1')
        self.assertEqual({'Success'}, {row['result'] for row in found}, found)
        self.assertIn(made.id, {one['id'] for row in found
                                for one in row['loadbalancers']})
        glance.deactivate_image(newer.id)
        self.assertListed('NO', first.id)
        glance.reactivate_image(newer.id)
        glance.remove_tag(newer.id, octavia.IMAGE_TAG)
        self.assertListed('NO', first.id)
        glance.delete_image(first.id)
        row, = self.image('list', '--long')
        self.assertEqual(('UNKNOWN', None, ['NO_IMAGE']), (
            row['outdated'], row['target_image_id'], row['blocked_by']))
