# SPDX-License-Identifier: Apache-2.0

"""The walk over the pages of image upgrades' and clusters' roll-outs.

In clouds whose load balancers carry traffic; tests/functional/test_walk.py
tells what a walk is.
"""

import json
import pathlib
import re

from tests.cloud import clusters as cluster_clouds
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import walk
from tests.functional import clusters
from tests.functional import images
from tests.functional import walks


class _Operator:
    """Types commands where the controllers of .cloud are."""

    def begin(self):
        # In the directory of the cloud is an octavia-hmsync.conf, which would
        # be read, too.
        self.home = pathlib.Path(self.cloud.directory, 'operator')
        self.home.mkdir()
        self.shell = walk.Shell(
            str(self.home), self.cloud.namespace.wrap,
            **self.cloud.compute.environment)
        self.options = self.cloud.workers[0].options
        self.configure({})

    def configure(self, lines):
        """Change the octavia.conf of all; what is None is taken out."""
        self.options = octavia_conf.merge(self.options, lines)
        for controller in self.cloud.controllers:
            controller.options = octavia_conf.merge(controller.options, lines)
        directory = self.home / '.octavia'
        directory.mkdir(exist_ok=True)
        octavia_conf.write(directory / 'octavia.conf', self.options)

    def show(self, command):
        code, output = self.shell.run(f'{command} -f json')
        self.assertEqual(0, code, output)
        return json.loads(output)


class TestImages(_Operator, walks.ImagePages, images.ImageTestCase):

    def test_walk(self):
        self.load_balancers = {
            name: self.add_load_balancer(name=name)
            for name in ('shop', 'mail')}
        self.begin()
        # It is always Saturday night here.
        self.shell.names.update({'Sat 01:00-05:00': '00:00-24:00',
                                 'PROJECT': neutron.PROJECT_ID})
        self.walk_images()

    def add_image(self):
        self.image = self.cloud.add_image('second')

    def take_image_back(self):
        self.cloud.connection.image.remove_tag(
            self.image, cluster_clouds.octavia.IMAGE_TAG)

    def expect_left_out(self, plan):
        self.expect(re.search(r'shop +\| excluded by project', plan), plan)

    def expect_images(self, **names):
        """See of which image load balancers are, and that they serve."""
        found = {name: {row['image_id'] for row in self.amphorae(
            self.load_balancers[name]).values()} for name in names}
        wanted = {name: {self.cloud.connection.image.find_image(image).id}
                  for name, image in names.items()}
        self.expect(found == wanted, f'images: {found}, not {wanted}')
        for load_balancer in self.load_balancers.values():
            self.client.get(load_balancer.vip_address)


class NotYet(cluster_clouds.ClusterOctavia):
    """With distributors that no octavia.conf names yet."""

    def _options(self):
        return octavia_conf.merge(super()._options(), {
            'api_settings': {'enabled_provider_drivers': None},
            'controller_worker': {
                'amphora_driver': 'amphora_haproxy_rest_driver',
                'distributor_driver': None},
            'hmsync_cluster': {'distributors': None}})


class TestClusters(_Operator, walks.ClusterPages, clusters.ClusterTestCase):

    kind = NotYet

    def test_walk(self):
        self.begin()
        self.before = {group: self.options[group] for group in (
            'api_settings', 'controller_worker', 'hmsync_cluster')}
        self.walk_clusters()

    def configure(self, lines):
        """With addresses, since nothing resolves the names of nodes."""
        for group, options in lines.items():
            if group == 'hmsync_cluster':
                named = options['distributors']
                for name, each in self.cloud.distributors.items():
                    self.assertIn(f'https://{name}:9444', named)
                    named = named.replace(f'https://{name}:9444',
                                          f'{name}={each.url}')
                lines = octavia_conf.merge(lines, {group: {
                    'distributors': named}})
        super().configure(lines)

    def restart(self):
        for controller in sorted(self.cloud.controllers,
                                 key=lambda each: each is self.cloud.api):
            self.assertTrue(controller.stop(), controller.name)
            controller.start()
        self.cloud.wait_until_ready()

    def add_cluster(self):
        self.lb = self.cloud.add_load_balancer(
            'try', members=self.members, wait=False,
            provider=cluster_clouds.PROVIDER)
        self.cloud.wait_until_active(self.lb.id, 240)

    def let_a_member_die(self):
        self.assertServes(self.lb)
        member = self.get_members()[1]
        self.cloud.compute.by_amphora(member).kill_tree()
        self.cloud.wait_until_replaced(self.lb, member)
        self.wait_until_whole(self.lb, 4)
        self.assertServes(self.lb)

    def delete_cluster(self):
        self.cloud.delete_cluster(self.lb)
        self.assertEqual([], self.show('octavia-hmsync cluster list'))

    def switch_off(self):
        _Operator.configure(self, {
            group: {**dict.fromkeys(self.options[group]), **options}
            for group, options in self.before.items()})
        self.restart()
