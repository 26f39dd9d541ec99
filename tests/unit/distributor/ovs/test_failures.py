# SPDX-License-Identifier: Apache-2.0

"""Programs and servers of Open vSwitch that fail, each in its way."""

import contextlib
import dataclasses
import json
import os
import socket
import threading
import types
from unittest import mock

import fixtures
from oslotest import base
from ovs.db import idl
from ovsdbapp.backend.ovs_idl import connection
from ovsdbapp import exceptions as ovsdbapp_exceptions

from octavia_hmsync.distributor.ovs import database
from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync import exceptions


class TestOfctl(base.BaseTestCase):
    """ovs-ofctl is a script."""

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('PATH', os.pathsep.join(
            (self.directory, os.environ['PATH']))))
        self.ofctl = ofctl.Ofctl('/run/nowhere', 1)

    def do(self, script, name='ovs-ofctl'):
        path = os.path.join(self.directory, name)
        with open(path, 'w') as file:
            file.write(f'#!/bin/sh\n{script}\n')
        os.chmod(path, 0o755)  # nosec B103

    def fails(self, words, function, *args):
        error = self.assertRaises(exceptions.VswitchUnavailable, function,
                                  *args)
        self.assertIn(words, str(error))
        self.assertNotIn('\n', str(error))

    def test_apply(self):
        self.do(f'echo "$@" > {self.directory}/args; '
                f'cat > {self.directory}/in')
        self.ofctl.apply('hmb1', ['flow add x', 'group delete y'])
        with open(f'{self.directory}/args') as file:
            self.assertEqual(
                '-O OpenFlow15 --timeout=1 --no-names bundle '
                'unix:/run/nowhere/hmb1.mgmt -\n', file.read())
        with open(f'{self.directory}/in') as file:
            self.assertEqual('flow add x\ngroup delete y\n', file.read())

    def test_refused(self):
        self.do('echo "2026-11-23|warn|something" >&2; '
                'echo "ovs-ofctl: -:3: unknown field" >&2; exit 1')
        self.fails('(bundle: -:3: unknown field): see its log',
                   self.ofctl.apply, 'hmb1', [])

    def test_hangs(self):
        # It ends itself by a signal; or does not even do that.
        self.do('kill -ALRM $$')
        self.fails('no answer within 1 s', self.ofctl.get_groups, 'hmb1')
        self.do('exec sleep 60')
        self.fails('could not be run', self.ofctl.get_groups, 'hmb1')

    def test_not_there(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.directory))
        self.fails('not installed', self.ofctl.get_groups, 'hmb1')

    def test_read(self):
        self.do('echo "OFPST_FLOW reply (OF1.5) (xid=0x2):"; '
                'echo " cookie=0x6d01, duration=1s, table=0 actions=drop"; '
                'echo " cookie=0x6d02, duration=1s, table=0 actions=drop"')
        self.assertEqual(2, len(self.ofctl.get_flows(
            'hmb1', openflow.Match(0))))
        self.do('echo " group_id=1,type=select"; echo " group_id=65536,"')
        self.assertEqual({1, 65536}, self.ofctl.get_groups('hmb1'))

    def test_wait_for_cache(self):
        sleep = self.useFixture(fixtures.MockPatchObject(
            ofctl, 'time', autospec=True)).mock.sleep
        one = ofctl.Ofctl(self.directory, 1)
        args = os.path.join(self.directory, 'args')
        self.do(f'echo "$@" > {args}; '
                f'echo "  dump duration : 1ms"; echo "  dump duration : 20ms"',
                'ovs-appctl')
        with open(f'{self.directory}/ovs-vswitchd.pid', 'w') as file:
            file.write('17\n')
        one.wait_for_cache()
        with open(args) as file:
            self.assertEqual(
                f'--timeout=1 -t {self.directory}/ovs-vswitchd.17.ctl '
                f'upcall/show\n', file.read())
        sleep.assert_called_once_with(0.09)
        # However busy it is, and whatever does not work.
        self.do('echo "dump duration : 2000ms"', 'ovs-appctl')
        one.wait_for_cache()
        self.do('exit 2', 'ovs-appctl')
        one.wait_for_cache()
        os.remove(f'{self.directory}/ovs-vswitchd.pid')
        one.wait_for_cache()
        self.assertEqual(3 * [mock.call(1)], sleep.mock_calls[1:])

    def test_count_lost(self):
        with open(f'{self.directory}/ovs-vswitchd.pid', 'w') as file:
            file.write('17\n')
        self.do('echo "netdev@ovs-netdev:"; '
                'echo "  lookups: hit:1377 missed:245 lost:3"; '
                'echo "  flows: 12"; echo "system@ovs-system:"; '
                'echo "  lookups: hit:1 missed:2 lost:40"', 'ovs-appctl')
        one = ofctl.Ofctl(self.directory, 1)
        self.assertEqual(43, one.count_lost())
        self.do('exit 2', 'ovs-appctl')
        self.assertIsNone(one.count_lost())

    def test_read_load(self):
        self.fails('ovs-appctl does not say', self.ofctl.read_load)
        one = ofctl.Ofctl(self.directory, 1)
        with open(f'{self.directory}/ovs-vswitchd.pid', 'w') as file:
            file.write('17\n')
        for memory, cached, load in (
                ('handlers:1 ports:3 rules:180 udpif keys:3',
                 'netd@x:\n  flows : (current 7) (avg 5) (max 9) (limit 900)'
                 '\nsystem@y:\n  flows : (current 1) (avg 0) (max 1) '
                 '(limit 200)', (180, 8, 1100)),
                # As long as there is no data path.
                ('handlers:1', '', (0, 0, 0))):
            self.do(f'case $4 in memory/show) echo "{memory}";; '
                    f'*) echo "{cached}";; esac', 'ovs-appctl')
            self.assertEqual(load, dataclasses.astuple(one.read_load()))
        self.do('exit 2', 'ovs-appctl')
        self.fails('memory/show', one.read_load)

    def test_check(self):
        self.fails('No such file', self.ofctl.check, 'br-int')
        one = ofctl.Ofctl(self.directory, 0.3)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.join(self.directory, 'br-int.mgmt'))
            self.fails('refused', one.check, 'br-int')
            server.listen(3)
            # It hangs.
            self.fails('timed out', one.check, 'br-int')
            for hello, words in ((b'\6\0\0\x08\0\0\0\1', None),
                                 (b'SSH-2.0-', 'does not speak OpenFlow'),
                                 (b'', 'does not speak OpenFlow')):
                thread = threading.Thread(target=self.greet,
                                          args=(server, hello), daemon=True)
                thread.start()
                if words:
                    self.fails(words, one.check, 'br-int')
                else:
                    # The one that nobody has answered comes first.
                    thread.join()
                    thread = threading.Thread(
                        target=self.greet, args=(server, hello), daemon=True)
                    thread.start()
                    one.check('br-int')
                thread.join()

    @staticmethod
    def greet(server, hello):
        connection, _ = server.accept()
        # One of them has hung up long ago.
        with connection, contextlib.suppress(BrokenPipeError):
            connection.sendall(hello)
            if hello:
                # As ovs-vswitchd does, it leaves hanging up to the other one.
                connection.recv(len(hello))

    def test_boot(self):
        self.assertIsNone(self.ofctl.get_boot('hmb1'))
        one = ofctl.Ofctl(self.directory, 1)
        path = os.path.join(self.directory, 'hmb1.mgmt')
        found = set()
        for _ in range(2):
            with open(path + '.new', 'w'):
                os.replace(path + '.new', path)
            self.assertEqual(one.get_boot('hmb1'), one.get_boot('hmb1'))
            found.add(one.get_boot('hmb1'))
        self.assertEqual(2, len(found))


class TestDatabase(base.BaseTestCase):
    """ovsdb-server is a thread that answers once."""

    def serve(self, answer):
        """Returns where it listens; it answers and waits, None hangs up."""
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 's')
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(1)
        self.addCleanup(server.close)

        def run():
            one, _ = server.accept()
            self.addCleanup(one.close)
            one.recv(4096)
            if answer is None:
                one.close()
            else:
                one.sendall(answer)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return f'unix:{path}'

    def fails(self, words, remote):
        error = self.assertRaises(exceptions.VswitchUnavailable,
                                  database.connect, remote, 0.5)
        self.assertIn(words, str(error))
        self.assertIn('ovsdb-server cannot be reached', str(error))
        self.assertNotIn('\n', str(error))

    def test_nobody(self):
        self.fails('No such file', 'unix:/nowhere/db.sock')
        self.fails('refused', 'tcp:127.0.0.1:1')

    def test_not_a_place(self):
        for remote in ('', 'ssl:127.0.0.1:1', 'tcp:127.0.0.1', 'nowhere'):
            self.fails('it has to be', remote)

    def test_silent(self):
        """It takes the connection, and does not answer."""
        self.fails('timed out', self.serve(b'{"result": '))
        self.fails('timed out', self.serve(b''))

    def test_hangs_up(self):
        self.fails('it closed the connection', self.serve(None))

    def test_another_database(self):
        self.fails('it has no database', self.serve(json.dumps(
            {'id': 0, 'result': None, 'error': 'unknown'}).encode()))


class TestCommit(base.BaseTestCase):
    """A copy of the database that nobody has filled."""

    def setUp(self):
        super().setUp()
        self.idl = database.Idl('unix:/nowhere', idl.SchemaHelper(None, {
            'name': 'Open_vSwitch', 'version': '8.0.0', 'tables': {
                'Open_vSwitch': {'columns': {'cur_cfg': {'type': 'integer'}}},
                'Bridge': {'columns': {'name': {'type': 'string'}}}}}))
        self.api = mock.Mock(
            spec_set=['idl', 'ovsdb_connection'], idl=self.idl,
            ovsdb_connection=mock.create_autospec(
                connection.Connection, instance=True, timeout=0.1))

    def come(self, number, table='Open_vSwitch'):
        self.idl.notify('update', types.SimpleNamespace(
            _table=types.SimpleNamespace(name=table), cur_cfg=number))

    def queue(self, number):
        """The connection's thread, which does it at once."""
        txn = mock.create_autospec(idl.Transaction, instance=True)
        txn.get_increment_new_value.return_value = number

        def run(one):
            self.assertEqual(['command'], one.commands)
            if number is not None:
                one.do_post_commit(txn)
            one.results.put([None])
        self.api.ovsdb_connection.queue_txn.side_effect = run

    def test_done(self):
        self.queue(7)
        self.come(7)
        database.commit(self.api, ['command'])
        self.come(9)
        database.commit(self.api, ['command'])

    def test_done_later(self):
        self.api.ovsdb_connection.timeout = 60
        self.queue(7)
        self.come(6)
        threading.Timer(0.01, self.come, [8]).start()
        database.commit(self.api, ['command'])

    def test_never_done(self):
        self.queue(7)
        self.come(6)
        self.come(7, 'Bridge')
        self.assertRaises(ovsdbapp_exceptions.TimeoutException,
                          database.commit, self.api, ['command'])

    def test_nobody_is_waited_for(self):
        self.queue(None)
        database.note(self.api, ['command'])
