# SPDX-License-Identifier: Apache-2.0

"""What doc/source/install and doc/source/admin/operations.rst tell to do."""

import json
import subprocess
import threading
import time

from tests.cloud import database
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.functional import base

OTHER_KEY = {'health_manager': {'heartbeat_key': 'another-key-0123456789'}}


class OperationsCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def run_command(self, *arguments):
        result = self.cloud.command('octavia-hmsync', *arguments)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def restart(self, controller, options=None):
        """Restart one controller, with all its options if given."""
        controller.stop()
        if options is not None:
            controller.options = options
        controller.start()
        controller.wait_until_ready()

    def upload_again(self):
        """Have every amphora uploaded to once more; waits for it."""
        before = {i: row.applied_at for i, row in self.results().items()}
        self.run_command('sync', 'run', '--all')
        self.wait_for(
            lambda: all(row.applied_at and row.applied_at != before[i]
                        for i, row in self.results().items()) and
            not self.due(), 'upload to all')


class TestRollOut(OperationsCase):

    hmsync = False

    def switch(self, on, *controllers, pinned):
        """Restart controllers with the plugin or without, one by one."""
        for controller in controllers:
            host = controller.options['DEFAULT']['host']
            kept = {group: options for group, options in
                    controller.options.items() if group != 'hmsync'}
            kept['DEFAULT'] = {name: value for name, value in
                               kept['DEFAULT'].items()
                               if name != 'config_source'}
            kept['controller_worker'] = {
                **kept['controller_worker'], 'statistics_drivers': 'stats_db'}
            self.restart(controller, octavia_conf.merge(
                kept, octavia_conf.HMSYNC if on else {},
                {'DEFAULT': {'host': host}, 'health_manager': {
                    'controller_ip_port_list': pinned}}))
            self.assertEqual(set(), self.cloud.failovers_begun())

    def test_on_and_off(self):
        cloud = self.make_cloud(amphorae=3, boot_numbers=(1, 2))
        pinned = [f'{cloud.address(n)}:5555' for n in (1, 2)]
        managers = [cloud.add_health_manager(
            cloud.address(n), controller_ip_port_list=pinned)
            for n in (1, 2)]
        keepers = [cloud.add_housekeeping(host) for host in ('hk1', 'hk2')]
        cloud.wait_until_ready()
        cloud.wait_until_known(pinned)

        self.switch(True, *managers, *keepers, pinned=pinned)
        self.wait_until_synced(pinned)
        self.switch(True, *managers, *keepers, pinned=None)
        self.wait_until_synced(pinned)

        # Without pins one that goes leaves the list.
        managers[0].stop()
        self.wait_until_synced(pinned[1:])
        managers[0].start()
        self.wait_until_synced(pinned)

        self.switch(False, *keepers, *managers, pinned=pinned)
        cloud.wait_until_known(pinned)
        self.watch(12)
        self.assert_nothing_failed_over()


class TestHeartbeatKey(OperationsCase):

    def change(self, *controllers):
        for controller in controllers:
            self.restart(controller, octavia_conf.merge(controller.options,
                                                        OTHER_KEY))

    def status(self):
        return json.loads(self.run_command('sync', 'status', '-f', 'json'))

    def watch_ages(self, stop, ages):
        while not stop.wait(0.5):
            ages.append(max(self.cloud.records.health_ages().values()))

    def test_change(self):
        """As doc/source/admin/heartbeat-key.rst tells."""
        cloud = self.make_cloud(amphorae=3, boot_numbers=(1, 2, 3, 4))
        managers = self.start(1, 2, 3, 4)
        first, second = managers[:2], managers[2:]
        self.wait_until_synced([manager.address for manager in managers])
        cloud.sniffer.add_key(OTHER_KEY['health_manager']['heartbeat_key'])
        since = time.time()
        stop, ages = threading.Event(), []
        watcher = threading.Thread(target=self.watch_ages, args=(stop, ages))
        watcher.start()
        self.addCleanup(watcher.join)
        self.addCleanup(stop.set)

        self.change(*first)
        self.wait_until_synced([manager.address for manager in second])
        self.change(self.housekeeping)
        self.wait_until_synced([manager.address for manager in first])
        self.wait_for(lambda: self.status()['other_key'] == 0, 'the new key')
        self.change(*second)
        self.wait_until_synced([manager.address for manager in managers])
        # Longer than the wait of the failover loop and heartbeat_timeout.
        self.watch(25)
        self.assert_nothing_failed_over()
        self.assertEqual({None}, {
            row.held_since for row in self.results().values()})
        # As Octavia has them heard, and as they send.
        self.assertLess(max(ages), 10)
        for amphora_id in cloud.amphora_ids:
            sent = [beat.time for beat in cloud.sniffer.heartbeats(since)
                    if beat.amphora_id == amphora_id]
            self.assertLess(max(after - before for before, after
                                in zip(sent, sent[1:])), 10)


class TestRestore(OperationsCase):

    def _client(self, program, *arguments, **kwargs):
        server = self.cloud.database.server
        return subprocess.run(
            [process.system_program(*program), '--host=127.0.0.1',
             f'--port={server.port}', '--user=octavia', '--password=octavia',
             *arguments, self.cloud.database.name], check=True, **kwargs)

    def test_of_a_backup_with_other_addresses(self):
        self.make_cloud(amphorae=3, boot_numbers=(1, 2))
        managers = self.start(1, 2)
        self.wait_until_synced([manager.address for manager in managers])
        backup = self._client(('mariadb-dump', 'mysqldump'),
                              '--single-transaction',
                              stdout=subprocess.PIPE).stdout
        for number, manager in enumerate(managers, 11):
            manager.stop()
            manager.move(self.cloud.address(number))
            manager.start()
        moved = [manager.address for manager in managers]
        self.wait_until_synced(moved)

        services = [self.housekeeping, *managers]
        for service in services:
            service.stop()
        self._client(('mariadb', 'mysql'), input=backup)
        for manager in managers:
            manager.start()
        self.wait_for(lambda: {m.address for m in self.members().values()
                               if m.status == 'ONLINE'} == set(moved),
                      'health managers')
        self.housekeeping.start()
        self.housekeeping.wait_until_ready()
        self.upload_again()
        self.wait_until_synced(moved)
        self.watch(12)
        self.assert_nothing_failed_over()
