# SPDX-License-Identifier: Apache-2.0

"""Distributors of the image that operators build, in virtual machines."""

from tests.cloud import clusters
from tests.cloud.compute import disk_image
from tests.cloud.compute import distributor_image
from tests.cloud.compute import machine
from tests.soak import test_distributor_boot

# Those of the image, after it has booted.
_SERVICES = ('cloud-final', 'openvswitch-switch',
             'octavia-hmsync-distributor')


class TestImage(test_distributor_boot.TestBoot):
    """As with the stand-in; Open vSwitch has the data path of the kernel."""

    boot_timeout = machine.BOOT
    timeout = 300

    def make_cloud(self):
        try:
            files = distributor_image.make()
        except disk_image.NoImage as e:
            self.skipTest(str(e))
        return clusters.BootedClusterOctavia(
            workers=1, distributor_image=machine.Image(files=files),
            # What runs in it takes ten times longer.
            options={'hmsync_cluster': {'distributor_timeout': 60}})

    def check_instances(self, names):
        identities = []
        for name in names:
            instance = self.cloud.compute.instances[name].wait_until_up()

            def run(*command):
                return instance.run_in_guest(*command).stdout

            self.assertEqual(
                ['active'] * len(_SERVICES),
                run('systemctl', 'is-active', *_SERVICES).split())
            self.assertIn('system@ovs-system', run('ovs-appctl', 'dpif/show'))
            # Networks of tenants reach nothing of it.
            addresses = run('ip', '-o', 'address', 'show', 'scope', 'global')
            self.assertEqual(1, len(addresses.splitlines()), addresses)
            self.assertEqual(
                ['600'] * 3, run('sh', '-c', 'stat -c %a '
                                 '/etc/octavia-hmsync/*').split())
            identities += [run(*command) for command in (
                ('ovs-vsctl', 'get', 'Open_vSwitch', '.',
                 'external_ids:system-id'), ('cat', '/etc/machine-id'))]
        self.assertEqual(2 * len(names), len(set(identities)), identities)
