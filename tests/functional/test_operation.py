# SPDX-License-Identifier: Apache-2.0

"""What an operator does by hand: pause, watch, roll back, try again."""

import json
import os
import pty
import subprocess
import time

from tests.cloud import database
from tests.cloud import process
from tests.functional import base


class TestOperation(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def command(self, *arguments, code=0):
        done = self.cloud.command('octavia-hmsync', *arguments)
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stdout + done.stderr

    def watch_on_a_terminal(self):
        """Start "sync watch"; returns it, and the terminal's other end."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        watch = subprocess.Popen(
            [process.program('octavia-hmsync'), '--config-file',
             self.cloud.write_conf('watch'), 'sync', 'watch', '--interval',
             '0.5', '--timeout', '120'],
            env={**process.environment(self.cloud.directory),
                 'TERM': 'xterm', 'COLUMNS': '120'},
            cwd=self.cloud.directory, stdin=slave, stdout=slave, stderr=slave)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        os.close(slave)
        return watch, master

    def read(self, watch, master):
        """Read what it draws, until it ends; returns that and its code."""
        drawn = b''
        try:
            while data := os.read(master, 65536):
                drawn += data
        except OSError:
            # Linux says so when the last one has closed the terminal.
            pass
        return drawn.decode(), watch.wait()

    def configured(self):
        return [set(agent.configured_list())
                for agent in self.cloud.amphorae.values()]

    def test_pause_watch_and_roll_back(self):
        cloud = self.make_cloud(amphorae=4, boot_numbers=(1,), options={
            'hmsync': {'canary_size': 0}})
        first, = self.start(1)
        self.wait_until_synced([first.address])
        self.assertIn('Every amphora has generation',
                      self.command('sync', 'watch'))

        self.command('sync', 'pause', '--for', '600', '--reason', 'switches')
        second = cloud.add_health_manager(cloud.address(2))
        both = {first.address, second.address}
        self.wait_until_published(both)
        time.sleep(3)
        self.assertEqual([{first.address}] * 4, self.configured())
        self.assertIn('UTC (switches)', self.command(
            'sync', 'watch', '--timeout', '1', code=1))
        self.wait_for(lambda: 'No amphora is uploaded to until' in
                      self.housekeeping.log(), 'line of the pause')

        watch, terminal = self.watch_on_a_terminal()
        self.command('sync', 'resume')
        drawn, code = self.read(watch, terminal)
        self.assertEqual(0, code, drawn)
        self.assertIn('━', drawn)
        self.assertIn('4 of 4 amphorae', drawn)
        self.wait_until_synced(both)

        self.assertIn(f'without {second.address}',
                      self.command('generation', 'rollback'))
        self.wait_until_synced([first.address])
        status = json.loads(self.command('sync', 'status', '-f', 'json'))
        self.assertEqual([second.address], status['suspects'])
        self.command('sync', 'retry')
        self.wait_until_synced(both)
        self.assertEqual(4, len(json.loads(self.command(
            'amphora', 'list', '--health-manager', second.host, '-f',
            'json'))))
        self.assert_nothing_failed_over()
