# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync-cluster-manager, without a real start."""

import contextlib
import io
import os
import signal
import sys
import threading
import time

import fixtures
from octavia.common import config  # noqa: F401 network_tasks reads it
from octavia.controller.worker.v2.tasks import network_tasks

from octavia_hmsync.cluster.keeping import threads as cluster_threads
from octavia_hmsync.cmd import cluster_manager
from octavia_hmsync import compat
from octavia_hmsync.sync import controller_list
from tests.cloud import octavia_conf
from tests.unit import base


class _Thread:
    def __init__(self, log, name):
        self._log = log
        self._name = name

    def start(self):
        self._log.append(f'start {self._name}')

    def stop(self, timeout=None):
        self._log.append(f'stop {self._name}')


class _Clusters:
    def __init__(self, log):
        self.log = log
        self.threads = [_Thread(log, 'keeper'), _Thread(log, 'watch')]

    def stop(self, timeout):
        self.log.append('stop')


class TestProcess(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = []
        self.useFixture(fixtures.MockPatchObject(
            cluster_threads, 'ClusterThreads',
            lambda _conf, _engine: _Clusters(self.log)))
        self.useFixture(fixtures.MockPatchObject(
            controller_list, 'LiveControllerList',
            lambda _conf: _Thread(self.log, 'list')))
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.addCleanup(compat.CONF.reset)

    def run_main(self, **groups):
        path = os.path.join(self.directory, 'octavia.conf')
        octavia_conf.write(path, octavia_conf.merge({
            'DEFAULT': {'transport_url': 'fake:/'},
            'database': {'connection': f'sqlite:///{self.directory}/db'},
        }, groups))
        return self.run_with('--config-file', path)

    def run_with(self, *arguments):
        compat.CONF.reset()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.useFixture(fixtures.MockPatchObject(
            sys, 'argv', [cluster_manager.PROG, *arguments]))
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            code = cluster_manager.main()
        return code, err.getvalue()

    def test_until_it_is_told_to_end(self):
        def end():
            while len(self.log) < 3:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        self.assertEqual((0, ''), self.run_main())
        thread.join(30)
        self.assertEqual(['start list', 'start keeper', 'start watch',
                          'stop keeper', 'stop watch', 'stop', 'stop list'],
                         self.log)
        self.assertTrue(hasattr(
            network_tasks.CalculateAmphoraDelta.execute, 'hmsync_stock'))

    def test_signal_that_another_thread_gets(self):
        def end():
            while len(self.log) < 3:
                time.sleep(0.01)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

        threading.Thread(target=end, daemon=True).start()
        self.assertEqual((0, ''), self.run_main())

    def test_configuration_breaks_meanwhile(self):
        """It goes on with what it has read before."""
        said = threading.Event()
        error = self.useFixture(fixtures.MockPatchObject(
            cluster_manager.LOG, 'error',
            side_effect=lambda *_: said.set())).mock

        def end():
            while len(self.log) < 3:
                time.sleep(0.01)
            with open(f'{self.directory}/octavia.conf', 'w') as stream:
                stream.write('nonsense')
            os.kill(os.getpid(), signal.SIGHUP)
            said.wait(30)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=end, daemon=True).start()
        self.assertEqual((0, ''), self.run_main())
        self.assertIn('cannot be read anew', error.call_args[0][0])

    def test_bad_configuration(self):
        for groups, words in (
                ({'hmsync_cluster': {'min_size': 5, 'desired_size': 3}},
                 'min_size = 5 is more than'),
                ({'hmsync_cluster': {'keeper_interval': 'soon'}},
                 'keeper_interval'),
                ({'database': {'connection': 'nonsense'}}, 'connection')):
            code, err = self.run_main(**groups)
            self.assertEqual(2, code)
            self.assertIn(words, err)
            self.assertEqual(1, err.count('\n'), err)

    def test_no_file(self):
        code, err = self.run_with('--config-file',
                                  f'{self.directory}/nobody.conf')
        self.assertEqual((2, 1), (code, err.count('\n')))
        self.assertIn('nobody.conf', err)


class TestThreads(base.TestCase):

    def test_nothing_is_made_before_its_time(self):
        """The configuration may not be parsed yet."""
        conf = self.make_conf()
        subject = cluster_threads.ClusterThreads(conf, None)
        self.assertLessEqual({'cluster keeper', 'distributor watch'},
                             {thread.name for thread in subject.threads})
        subject.wake()
        subject.stop(timeout=1)
