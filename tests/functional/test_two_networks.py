# SPDX-License-Identifier: Apache-2.0

"""The management network moves: health managers have an address in each."""

from octavia_hmsync.sync.rules import trial
from tests.cloud import database
from tests.cloud import process
from tests.functional import base

# Health managers share the address of this machine in the new network, so
# each has a port of its own.
PORT = 5550
# In the upper half of the network of the cloud.
HERE, FIRST_AMPHORA = 200, 140


class TestTwoNetworks(base.FunctionalTestCase):
    make_database = database.MariaDBDatabase

    def old(self, *numbers):
        return [f'{self.cloud.address(n)}:{PORT + n}' for n in numbers]

    def new(self, *numbers):
        return [f'{self.cloud.address(HERE)}:{PORT + n}' for n in numbers]

    def add(self, number, **hmsync):
        return self.cloud.add_health_manager(
            '0.0.0.0', options={  # nosec B104
                'health_manager': {'bind_port': PORT + number},
                'hmsync': {'address_driver': 'static',
                           'static_address': self.cloud.address(number),
                           **hmsync}})

    def restart(self, manager, **hmsync):
        manager.options['hmsync'].update(hmsync)
        manager.stop()
        manager.start()
        self.cloud.wait_until_ready()

    def wait_until_each_has(self, **lists):
        """Wait until the agents and heartbeats of amphorae show a list."""
        for agents, addresses in lists.values():
            for agent in agents:
                self.wait_for(
                    lambda agent=agent, addresses=addresses:
                    agent.configured_list() == addresses,
                    lambda agent=agent, addresses=addresses:
                    f'{addresses} in place of {agent.configured_list()} of '
                    f'{agent.lb_network_ip}; {self.newest()}')
                self.cloud.wait_until_known(addresses, {agent.amphora_id})
        self.assertEqual(set(), self.cloud.failovers_begun())

    def test_from_one_network_to_the_other(self):
        cloud = self.make_cloud(options={'hmsync': {'canary_size': 1,
                                                    'canary_wait': 1}})
        network = f'{cloud.address(128)}/25'
        process.run('ip', 'address', 'add', f'{cloud.address(HERE)}/32',
                    'dev', 'lo')
        self.addCleanup(process.run, 'ip', 'address', 'del',
                        f'{cloud.address(HERE)}/32', 'dev', 'lo')
        managers = [self.add(n) for n in (1, 2, 3)]
        self.housekeeping = cloud.add_housekeeping()
        old = [*cloud.add_load_balancer(self.old(1, 2, 3)),
               *cloud.add_load_balancer(self.old(1, 2, 3))]
        cloud.wait_until_ready()
        self.wait_until_published(self.old(1, 2, 3))
        self.wait_until_each_has(old=(old, self.old(1, 2, 3)))

        # Each announces a second address; nothing changes for amphorae.
        for manager in managers:
            self.restart(manager, further_networks=network)
        self.wait_until_published([*self.old(1, 2, 3), *self.new(1, 2, 3)])
        self.wait_for(lambda: self.newest().status == trial.OPEN,
                      'list for all')
        cloud._next_amphora = FIRST_AMPHORA
        new = [*cloud.add_load_balancer(
            [self.old(1)[0], self.new(1)[0]], 'ACTIVE_STANDBY')]
        cloud.wait_until_ready()
        self.wait_until_each_has(old=(old, self.old(1, 2, 3)),
                                 new=(new, self.new(1, 2, 3)))

        # One is killed, and comes back as another one: in both networks.
        managers[0].kill_tree()
        self.wait_until_each_has(old=(old, self.old(2, 3)),
                                 new=(new, self.new(2, 3)))
        managers.append(self.add(4, further_networks=network))
        cloud.wait_until_ready()
        self.wait_until_each_has(old=(old, self.old(2, 3, 4)),
                                 new=(new, self.new(2, 3, 4)))
        wait = cloud.command('octavia-hmsync', 'health', 'manager', 'drain',
                             'hm2', '--wait')
        self.assertEqual((0, ''), (wait.returncode, wait.stderr))
        self.wait_until_each_has(old=(old, self.old(3, 4)),
                                 new=(new, self.new(3, 4)))
        self.restart(managers[1])
        self.wait_until_each_has(old=(old, self.old(2, 3, 4)),
                                 new=(new, self.new(2, 3, 4)))

        # All amphorae have moved: health managers leave the old network.
        for agent in old:
            cloud.records.set_status(agent.amphora_id, 'DELETED')
            agent.stop()
        left = [2, 3, 4]
        for manager in managers[1:]:
            self.restart(manager, further_networks='',
                         static_address=cloud.address(HERE))
            left.remove(int(manager.options['health_manager']['bind_port']) -
                        PORT)
            self.wait_until_published([*self.old(*left),
                                       *self.new(2, 3, 4)])
        # Only a dead health manager has a further address.
        deleted = cloud.command('octavia-hmsync', 'health', 'manager',
                                'delete', 'hm1')
        self.assertEqual((0, ''), (deleted.returncode, deleted.stderr))
        self.wait_for(lambda: not self.newest().zones, 'list without zones')
        self.wait_until_applied({agent.amphora_id for agent in new})
        for agent in new:
            self.assertEqual(self.new(2, 3, 4), agent.configured_list())
        cloud.wait_until_known(self.new(2, 3, 4),
                               {agent.amphora_id for agent in new})
        # Deleted health managers count as such.
        self.assertEqual({agent.amphora_id for agent in old},
                         cloud.failovers_begun())
