# SPDX-License-Identifier: Apache-2.0

"""A whole Octavia whose amphorae are virtual machines of a real image."""

import json
import re

from oslotest import base
from testtools import content

from tests.cloud.compute import amphora_image
from tests.cloud.compute import disk_image
from tests.cloud.compute import machine
from tests.cloud import machines
from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import waiting


class RealTestCase(base.BaseTestCase):
    """Has .cloud, .members and .client.

    Skipped where QEMU or the image cannot be had.
    """

    def get_image(self, release=None):
        """Return a machine.Image with the agent of some Octavia's."""
        try:
            return machine.Image(files=amphora_image.make(
                release and amphora_image.get_octavia(release)))
        except disk_image.NoImage as e:
            return self.skipTest(str(e))

    def make_cloud(self, kind=octavia.Octavia, options=None, release=None,
                   **kwargs):
        """Make it; its image is of a release, or of this environment."""
        self.image = self.get_image(release)
        self.cloud = self.useFixture(kind(
            options=octavia_conf.merge(machine.SLOW, options), workers=1,
            image=self.image, **kwargs))
        # The last of a machine that did not come up is gone with the cloud.
        self.addOnException(self._keep_consoles)
        self.cloud.wait_until_ready()
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member{number}'))
            for number in (1, 2)]
        self.client = self.useFixture(machines.Client(self.cloud, 'client'))
        return self.cloud

    def _keep_consoles(self, _exc_info):
        for each in self.cloud.compute.instances.values():
            self.addDetail(f'console of {each.name}',
                           content.text_content(each.console()))

    def add_load_balancer(self, name, topology='SINGLE', **kwargs):
        """Make one; returns it once it is ACTIVE, minutes later."""
        made = self.cloud.add_load_balancer(
            name, topology, self.members, wait=False, **kwargs)
        return self.cloud.wait_until_active(made.id, machine.BOOT)

    def get_machines(self, load_balancer):
        """Return {amphora id: its machine}."""
        return {each.id: self.cloud.compute.by_amphora(each.id) for each in
                self.cloud.connection.load_balancer.amphorae(
                    loadbalancer_id=load_balancer.id)}

    def assert_answers(self, load_balancer):
        self.assertEqual(
            {each.name for each in self.members},
            {self.client.get(load_balancer.vip_address) for _ in range(4)})

    def wait_until_online(self, load_balancer):
        """Wait until a heartbeat said that its members answer."""
        api = self.cloud.connection.load_balancer
        self.cloud.wait_for(
            lambda: api.get_load_balancer(
                load_balancer.id).operating_status == 'ONLINE',
            'heartbeat with members')

    def move_health_manager(self):
        """Start one at another address, and end the first one.

        :returns: the list that amphorae are to have.
        """
        first = self.cloud.health_managers[0]
        self.cloud.add_health_manager().wait_until_ready()
        first.stop()
        return [f'{self.cloud.addresses[-1]}:5555']

    def wait_until_adopted(self, amphora_id, addresses):
        amphora = self.cloud.compute.by_amphora(amphora_id)
        self.cloud.wait_for(lambda: self.get_list(amphora) == addresses,
                            'new list')
        self.cloud.wait_for(
            lambda: self.get_adoptions()[amphora_id] == 'ADOPTED',
            'heartbeat by the new list')

    # In an amphora

    def get_list(self, amphora):
        """Return what its agent would start with."""
        conf = amphora.run_in_guest(
            'cat', '/etc/octavia/amphora-agent.conf').stdout
        return re.search('controller_ip_port_list = (.*)', conf)[1].split(', ')

    def get_agent_pid(self, amphora):
        """Return what systemd says."""
        return amphora.run_in_guest(
            'systemctl', 'show', '--value', '-p', 'MainPID',
            'amphora-agent').stdout.strip()

    def reboot(self, amphora):
        """Have it reboot, by itself; returns once commands run in it."""
        path = '/proc/sys/kernel/random/boot_id'
        before = amphora.run_in_guest('cat', path).stdout
        amphora.run_in_guest('systemctl', 'reboot', '--no-block')

        def has_booted():
            return (amphora.agent.is_ready() and
                    amphora.run_in_guest('cat', path).stdout != before)

        waiting.wait_for(has_booted, f'reboot of {amphora.name}',
                         machine.BOOT, 2, processes=[amphora])

    def get_adoptions(self):
        """Return {amphora id: what the plugin knows of its list}."""
        return {row['id']: row['adoption'] for row in json.loads(
            self.cloud.command('octavia-hmsync', 'amphora', 'list', '-f',
                               'json'))}
