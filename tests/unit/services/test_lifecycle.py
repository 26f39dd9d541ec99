# SPDX-License-Identifier: Apache-2.0

"""When the parts begin, in processes that fork as octavia-health-manager."""

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import time

from tests.unit import base

# A listener that ends at once, or lives on.
SCRIPT = """
import logging
import multiprocessing
import sys
import time

from octavia_hmsync.services import lifecycle
from tests.unit import base

logging.basicConfig(stream=sys.stdout, level=logging.INFO)
conf = base.TestCase('make_conf').make_conf(
    database={'connection': 'sqlite://'},
    hmsync={'health_manager_metrics_address': '127.0.0.1:PORT', **OPTIONS})
lifecycle._FORKS_TIMEOUT = 0.5
lifecycle.Lifecycle(conf, 'health_manager').begin()


def start(name, seconds):
    process = multiprocessing.Process(name=name, target=time.sleep,
                                      args=(seconds,))
    process.start()
    return process
"""
OFF = 'octavia-hmsync is off in this process: The listener of this health'
WRONG = 'octavia-hmsync is off in this process: [hmsync] offline_after ='
SERVED = 'Probes alone are answered at http://127.0.0.1:'
BEGUN = 'octavia-hmsync: The tables of octavia-hmsync are not in the'


class TestHealthManager(base.TestCase):

    def run_script(self, expected, *lines, **options):
        """Run it until each text of {text: count} came so often.

        And a little longer: it might come more often than that.

        :param options: of [hmsync].
        :returns: what was written.
        """
        with socket.socket() as sock:
            sock.bind(('127.0.0.1', 0))
            self.port = sock.getsockname()[1]
        text = SCRIPT.replace('PORT', str(self.port)).replace(
            'OPTIONS', repr(options))
        script = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-c',
             '\n'.join((text, *lines, 'time.sleep(120)'))],
            stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(script.stdout.close)
        self.addCleanup(script.wait)
        self.addCleanup(os.killpg, script.pid, signal.SIGKILL)
        output, deadline = '', time.monotonic() + 60
        while select.select([script.stdout], [], [], max(
                0, deadline - time.monotonic()))[0]:
            data = os.read(script.stdout.fileno(), 65536)
            if not data:
                break
            output += data.decode()
            if all(output.count(text) >= count
                   for text, count in expected.items()):
                deadline = min(deadline, time.monotonic() + 0.5)
        return output

    def ask(self, path):
        """Ask the script, which runs on; returns status and text."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port,
                                                timeout=20)
        self.addCleanup(connection.close)
        connection.request('GET', path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_listener_lives(self):
        # The extension, and the live options of the health check.
        output = self.run_script(
            {BEGUN: 2}, 'start("HM_listener", 120)',
            'start("HM_health_check", 120)')
        self.assertEqual(2, output.count(BEGUN), output)
        self.assertNotIn(OFF, output)

    def test_listener_ends_before_the_second_fork(self):
        """Nobody else says that the plugin is off."""
        output = self.run_script(
            {OFF: 1, BEGUN: 1}, 'start("HM_listener", 0).join()',
            'start("HM_health_check", 120)')
        self.assertEqual(1, output.count(OFF), output)
        # The health check builds amphorae all the same.
        self.assertEqual(1, output.count(BEGUN), output)
        status, text = self.ask('/healthz')
        self.assertEqual(503, status)
        self.assertIn('The process that receives heartbeats has ended', text)

    def test_option_that_is_wrong(self):
        """It may be wrong for all of them: none may be restarted for it."""
        self.run_script(
            {WRONG: 1, SERVED: 1}, 'start("HM_listener", 120)',
            'start("HM_health_check", 120)', keepalive_interval=15)
        # Its listener does not listen yet.
        self.assertEqual((200, 'ok\n'), self.ask('/healthz'))
        for path in ('/readyz', '/metrics'):
            self.assertEqual(
                (503, 'octavia-hmsync is off in this process; its log says '
                 'why.\n'), self.ask(path))

    def test_something_else_forks_before(self):
        output = self.run_script(
            {BEGUN: 1}, 'start("something", 0).join()',
            'start("HM_listener", 120)', 'start("HM_health_check", 120)')
        self.assertIn(BEGUN, output)
        self.assertNotIn(OFF, output)


IMPORTS = """
import sys

from octavia_hmsync.services import health_manager as extension
from octavia_hmsync.services import house_keeping as extension
from octavia_hmsync.services import lifecycle

print('alembic' in sys.modules)
"""


class TestImports(base.TestCase):

    def test_what_only_an_upgrade_needs(self):
        """A health manager that starts has no time for that."""
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', IMPORTS],
            stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual('False', done.stdout.strip())


FLOOR_SCRIPT = """
import os

from sqlalchemy import orm

from octavia_hmsync.services import lifecycle
from tests.unit import base

# Nothing else of it is to begin.
os.register_at_fork = lambda **_: None
for service, show_status in (
        ('worker', True), ('health_manager', False),
        ('health_manager', True)):
    conf = base.TestCase('make_conf').make_conf(
        database={'connection': 'sqlite://'},
        hmsync_cluster={'show_status': show_status})
    lifecycle.Lifecycle(conf, service).begin()
    read, write = os.pipe()
    if not os.fork():
        # As a process of the pools of the listener, which it starts.
        if not os.fork():
            seen_by = orm.Session().dispatch.do_orm_execute
            os.write(write, b'%d' % len(list(seen_by)))
        os._exit(0)
    os.close(write)
    print(service, show_status, os.read(read, 9).decode(), flush=True)
os._exit(0)
"""


class TestStatusFloor(base.TestCase):

    def test_where(self):
        """In children of health managers' children, and nowhere else."""
        result = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', FLOOR_SCRIPT],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual([
            'worker True 0', 'health_manager False 0',
            'health_manager True 1'], result.stdout.splitlines(),
            result.stderr)
