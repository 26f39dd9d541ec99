# SPDX-License-Identifier: Apache-2.0

"""Who ordered what."""

import os
import pwd
import socket
from unittest import mock

import fixtures
from oslo_db import exception as db_exc

from octavia_hmsync.cmd import hmsync
from octavia_hmsync.db import models
from octavia_hmsync.db import order as order_repo
from octavia_hmsync.image.rollout import keeper
from octavia_hmsync.notifications import outbox
from octavia_hmsync.services import announcer
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync import payloads
from tests.unit.cli import base

# Words of commands that change something; others only read.
READ = {'list', 'show', 'status', 'check', 'watch', 'current', 'history',
        'leaks'}


class TestOrders(base.CommandTestCase):

    def list(self, *argv):
        return self.run_json('order', 'list', '--long', *argv)

    def test_recorded(self):
        self.run_ok('sync', 'pause', '--for', '60', '--reason',
                    'new switches')
        row, = self.list()
        user = pwd.getpwuid(os.geteuid()).pw_name
        self.assertEqual(
            (user, socket.gethostname(), 'sync pause', 'DONE',
             "--for 60 --reason 'new switches'", 'new switches', None, user),
            tuple(row[name] for name in (
                'user', 'host', 'command', 'state', 'arguments', 'reason',
                'error', 'os_user')))
        self.assertGreaterEqual(row['finished_at'], row['created_at'])
        row, = self.run_json('order', 'list')
        self.assertEqual(['created_at', 'user', 'host', 'state', 'command'],
                         list(row))

    def test_behind_sudo(self):
        self.useFixture(fixtures.EnvironmentVariable('SUDO_USER', 'alice'))
        for user_id, name, sudo_user in ((0, 'alice', 'alice'),
                                         (99999, '99999', None)):
            with mock.patch.object(os, 'geteuid', autospec=True,
                                   return_value=user_id):
                self.run_ok('sync', 'resume')
            row = self.list('--limit', '1')[0]
            self.assertEqual((name, sudo_user),
                             (row['user'], row['sudo_user']))

    def test_what_is_no_order(self):
        self.run_ok('sync', 'status')
        self.run_ok('sync', 'pause', '--dry-run')
        self.run_command('sync', 'pause', '--for', 'ever')
        self.assertEqual([], self.list())

    def test_refused(self):
        self.assertFails('There is no health manager hm9', 'health',
                         'manager', 'drain', 'hm9')
        row, = self.list()
        self.assertEqual(('health manager drain', 'hm9', 'FAILED'), (
            row['command'], row['arguments'], row['state']))
        self.assertIn('There is no health manager hm9', row['error'])

    def test_cannot_be_recorded(self):
        """Then it does not take effect either."""
        with mock.patch.object(order_repo, 'add', autospec=True,
                               side_effect=db_exc.DBError('full')):
            self.assertFails('full', 'sync', 'pause')
        self.assertIsNone(pause_repo.get(self.engine))
        with mock.patch.object(order_repo, 'finish', autospec=True,
                               side_effect=db_exc.DBError('full')):
            code, out, err = self.run_command('sync', 'pause')
        self.assertEqual((0, 1), (code, err.count('\n')))
        self.assertIn('How this order ended is not recorded', err)
        row, = self.list()
        self.assertEqual(('GIVEN', None), (row['state'], row['finished_at']))

    def test_killed(self):
        with mock.patch.object(generation_repo, 'get_newest', autospec=True,
                               side_effect=KeyboardInterrupt):
            self.assertEqual(130, self.run_command('sync', 'pause')[0])
        self.assertEqual(['GIVEN'], [row['state'] for row in self.list()])

    def test_tables_that_come_and_go(self):
        """Of a purge no row is left: it is only sent."""
        self.run_ok('db', 'upgrade', '--reason', 'new release')
        row, = self.list()
        self.assertEqual(('db upgrade', 'new release', 'DONE'), (
            row['command'], row['reason'], row['state']))
        sent = []
        self.patch(outbox, 'send_and_wait',
                   lambda conf, found: sent.extend(found))
        self.run_ok('db', 'purge', '--yes', '--reason', 'enough')
        self.addCleanup(self.run_ok, 'db', 'upgrade')
        self.assertEqual([('db purge', '--yes --reason enough', 'DONE')], [
            (p.command, p.arguments, p.state) for p in sent])

    def test_pages(self):
        for _ in range(3):
            self.run_ok('sync', 'resume')
        ids = [row['id'] for row in self.list()]
        self.assertEqual(ids[1:2], [row['id'] for row in self.list(
            '--limit', '1', '--marker', ids[0])])
        self.assertFails('There is no order x to go on from', 'order', 'list',
                         '--marker', 'x')

    def test_sent(self):
        """By a housekeeper, once for each state."""
        self.run_ok('sync', 'pause', '--reason', 'new switches')
        sent = []

        class _Notifier:
            is_on = True
            send = sent.append

        told = announcer.Announcer(self.engine, _Notifier())
        for _ in range(2):
            told.run_once()
        given, payload = sent
        self.assertEqual('GIVEN', given.state)
        self.assertIsInstance(payload, payloads.OrderGiven)
        self.assertEqual(('sync pause', 'new switches', 'DONE'), (
            payload.command, payload.reason, payload.state))

    def test_bounded_in_age(self):
        self.run_ok('sync', 'resume')
        self.make_older(models.Order, 'created_at', 91 * 86400)
        for days, left in ((0, 1), (90, 0)):
            keeper.purge(self.make_conf(hmsync_image={
                'history_days': days}), self.engine)
            self.assertEqual(left, len(self.list()))


class TestEachCommand(base.CommandTestCase):

    def test_changes_are_orders(self):
        """What changes something has --dry-run and --reason."""
        app = hmsync.HMSyncApp()
        for name, command in sorted(app.command_manager.commands.items()):
            words = name.replace('_', ' ').split()
            factory = command.load()
            options = set(factory(app, None, cmd_name=name).get_parser(
                name)._option_string_actions)
            if words[:2] == ['image', 'clone'] or words[0] in (
                    'help', 'complete'):
                continue
            found = bool({'--dry-run', '--delete'} & options)
            self.assertEqual(words[-1] not in READ or '--delete' in options,
                             found, name)
            self.assertEqual(found, '--reason' in options, name)
