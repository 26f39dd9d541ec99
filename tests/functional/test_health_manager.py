# SPDX-License-Identifier: Apache-2.0

"""What a real health manager says of itself, and when it may not."""

import os
import signal

import fixtures
import psutil

from octavia_hmsync.sync.rules import member
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import waiting
from tests.functional import base


class TestHealthManager(base.FunctionalTestCase):

    def wait_until_status(self, host, status, timeout=waiting.LIMIT):
        self.wait_for(
            lambda: host in self.members() and
            self.members()[host].status == status,
            lambda: f'{status} of {host}: {self.members()}', timeout)

    def wait_until_logged(self, process, text, timeout=waiting.LIMIT):
        self.wait_for(lambda: text in process.log(),
                      f'"{text}" in the log of {process.name}', timeout)

    def listener_pid(self, manager):
        """The child that holds the socket and is a child of the main one."""
        for child in psutil.Process(manager.pid).children():
            if any(c.laddr and c.laddr.port == manager.bind_port
                   for c in child.net_connections('udp')):
                return child.pid
        raise AssertionError('nobody listens')

    def test_life(self):
        """Goodbye, restart at the same address, death of the listener."""
        self.make_cloud(options={'hmsync': {'removal_delay': 300}})
        manager, other = self.start(1, 2)
        self.wait_until_published([manager.address, other.address])
        first = self.newest().number

        # SIGTERM: OFFLINE is said, not found out by silence.
        self.assertTrue(manager.stop(), 'it did not end by itself')
        self.assertEqual(member.OFFLINE, self.members()[manager.host].status)
        self.assertNotIn('No process listens', manager.log())
        # A restart within removal_delay changes nothing for amphorae.
        manager.start()
        self.wait_until_status(manager.host, member.ONLINE)
        self.assertEqual(first, self.newest().number)
        self.assertGreater(self.members()[manager.host].restart_took, 0)

        # The listener dies, the parent and the health check live on. Its
        # own children still hold the socket, and never read it.
        os.kill(self.listener_pid(manager), signal.SIGKILL)
        self.wait_until_status(manager.host, member.OFFLINE)
        self.assertTrue(manager.running)
        self.wait_until_logged(manager, 'No process listens for heartbeats')

        # The main process dies: its children keep the port, and the next
        # one of that address cannot bind, so it is never ONLINE.
        manager.kill_tree()
        manager.start()
        self.wait_until_status(manager.host, member.ONLINE)
        manager.kill()
        orphans = manager.descendants()
        self.assertNotEqual([], orphans)
        second = self.cloud.add_health_manager(manager.bind_ip, host='second')
        self.wait_until_logged(second, 'Address already in use')
        self.wait_until_logged(second, 'octavia-hmsync')
        self.assertNotIn('second', self.members())

    def test_starts_and_never_listens(self):
        """It says that it starts; its place is kept, but not for ever."""
        self.make_cloud()
        manager, other = self.start(1, 2)
        self.wait_until_published([manager.address, other.address])
        # Its children keep the port.
        manager.kill()
        second = self.cloud.add_health_manager(manager.bind_ip,
                                               host=manager.host)
        self.wait_until_logged(second, 'Address already in use')
        self.wait_for(lambda: self.members()[manager.host].starting_age,
                      'word of the one that starts')
        self.wait_until_published([other.address])
        self.assertTrue(second.running)

    def test_row_gone(self):
        """A row that was deleted is written again."""
        self.make_cloud()
        manager = self.start(1, housekeeping=False)[0]
        self.wait_until_status(manager.host, member.ONLINE)
        with self.engine.begin() as connection:
            connection.exec_driver_sql('DELETE FROM hmsync_health_manager')
        self.wait_until_status(manager.host, member.ONLINE)

    def test_environment(self):
        """As a pod has it: lines in a directory, the rest in variables.

        A variable counts before the files; of two files the last counts.
        """
        self.make_cloud()
        manager = self.cloud.add_health_manager(
            self.cloud.address(1), host='pod-7f9c')
        manager.stop()
        lines = {group: manager.options.pop(group) for group in ['hmsync']}
        manager.options['DEFAULT'].pop('config_source')
        manager.options['hmsync'] = {'keepalive_interval': 'often'}
        directory = self.useFixture(fixtures.TempDir()).path
        octavia_conf.write(os.path.join(directory, 'octavia-hmsync.conf'), {
            'DEFAULT': {'config_source': 'hmsync'}, **lines})
        metrics = f'127.0.0.1:{network.free_port()}'
        variables = {'OS_DEFAULT__HOST': 'node-1',
                     'OS_HMSYNC__HEALTH_MANAGER_METRICS_ADDRESS': metrics}
        manager.env.update(variables)
        manager.command += ['--config-dir', directory]
        manager.start()
        self.wait_until_status('node-1', member.ONLINE)
        self.assertEqual(manager.address, self.members()['node-1'].address)
        self.wait_until_logged(manager, f'served at http://{metrics}/')
        # The command of a hook finds the same host.
        shown = process.run(
            process.program('octavia-hmsync'), *manager.command[1:],
            'health', 'manager', 'show', '--self', '-f', 'value', '-c', 'host',
            env=manager.env)
        self.assertEqual('node-1', shown.splitlines()[-1])

    def test_ipv6(self):
        self.make_cloud()
        manager = self.cloud.add_health_manager('::1', options={
            'health_manager': {'bind_port': network.free_port()}})
        self.cloud.add_housekeeping()
        self.wait_until_published([manager.address])
        self.assertTrue(manager.address.startswith('[::1]:'))

    def test_refused_addresses(self):
        """Each is refused with one line that names it and what to do."""
        self.make_cloud()
        cases = {
            # A port of its own, which it takes at every address.
            'wildcard': ({'health_manager': {
                'bind_ip': '0.0.0.0',
                'bind_port': network.free_port()}},
                '0.0.0.0 is a wildcard'),
            'loopback': ({'hmsync': {'allow_loopback': False}},
                         'is a loopback address'),
            'outside': ({'hmsync': {'allowed_networks': '192.0.2.0/24'}},
                        'is outside [hmsync] allowed_networks'),
            'driver': ({'hmsync': {'address_driver': 'none_such'}},
                       'address_driver = none_such is not installed'),
            'option': ({'hmsync': {'keepalive_interval': 'often'}},
                       'keepalive_interval'),
        }
        managers = {
            name: self.cloud.add_health_manager(
                options.get('health_manager', {}).get(
                    'bind_ip', self.cloud.address(number)),
                host=name, options=options)
            for number, (name, (options, _text)) in enumerate(
                cases.items(), 1)}
        for name, (_options, text) in cases.items():
            self.wait_until_logged(managers[name], text)
            lines = [line for line in managers[name].log().splitlines()
                     if text in line and 'DEBUG' not in line]
            self.assertEqual(1, len(lines), lines)
            self.assertNotIn('Traceback', managers[name].log())
            # Octavia runs as without the plugin.
            self.assertTrue(managers[name].running)
        self.assertEqual({}, self.members())

    def test_same_host_twice(self):
        """Two health managers with one name: one is in, one says why not."""
        self.make_cloud(options={'hmsync': {'offline_after': 60}})
        first = self.start(1, housekeeping=False)[0]
        self.wait_until_status(first.host, member.ONLINE)
        namesake = self.cloud.add_health_manager(self.cloud.address(2),
                                                 host=first.host)
        self.wait_until_logged(
            first, f'is registered as host {first.host} too')
        self.assertEqual(namesake.address,
                         self.members()[first.host].address)

    def test_same_address_twice(self):
        """Two that advertise one address: the first is in, one says why."""
        self.make_cloud(options={'hmsync': {
            'address_driver': 'static', 'static_address': '127.0.0.99',
            'offline_after': 60}})
        first = self.start(1, housekeeping=False)[0]
        self.wait_until_status(first.host, member.ONLINE)
        second = self.cloud.add_health_manager(self.cloud.address(2))
        self.wait_until_logged(
            second, f'is already registered by {first.host}, which is alive')
        self.assertEqual([first.host], list(self.members()))
        # It takes over once the first is gone.
        first.stop()
        self.wait_until_status(second.host, member.ONLINE)
        self.assertEqual([second.host], list(self.members()))
