# SPDX-License-Identifier: Apache-2.0

import os
import socket
import subprocess
import sys

from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import start
from octavia_hmsync.sync.rules import member
from tests.db_cases import base as db_base
from tests.unit import base
from tests.unit.db import sqlite

SCRIPT = """
import multiprocessing
import time

import psutil

from octavia_hmsync.services import lifecycle
from octavia_hmsync.sync.health_manager import start
from tests.unit import base

conf = base.TestCase('make_conf').make_conf(
    DEFAULT={'host': 'hm1'}, database={'connection': 'URL'})
start._PATIENCE = PATIENCE
subject = lifecycle.Lifecycle(conf, 'health_manager')
subject.begin()
print('begun', flush=True)
"""
# What follows does not wait for it.
REAP = """
start.reap(subject._teller)
start.reap(subject._teller)
print('told', flush=True)
"""
RUN_ON = """
processes = [multiprocessing.Process(name=name, target=time.sleep, args=(60,),
                                     daemon=True)
             for name in ('HM_listener', 'HM_health_check')]
for process in processes:
    process.start()
while len(psutil.Process().children()) > len(processes):
    time.sleep(0.05)
print('reaped', flush=True)
"""


def run(url, *parts, patience=20):
    """Run a health manager up to there; returns what it wrote."""
    text = SCRIPT.replace('URL', url).replace('PATIENCE', str(patience))
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', ''.join((text, *parts))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=240)
    return done.stdout.split(), done.stderr


class TestTell(sqlite.SqliteMixin, db_base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for number in (1, 2):
            hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                             5555, f'instance-{number}', 20)
        hm_repo.set_offline(self.engine, 'hm1', 'instance-1')
        self.url = self.engine.url.render_as_string(hide_password=False)

    def starting(self):
        return [m.host for m in hm_repo.get_all(self.engine)
                if m.starting_age is not None]

    def test_before_anything_else(self):
        self.assertEqual((['begun', 'told'], ''), run(self.url, REAP))
        self.assertEqual(['hm1'], self.starting())
        # It is not back by that.
        status, = (m.status for m in hm_repo.get_all(self.engine)
                   if m.host == 'hm1')
        self.assertEqual(member.OFFLINE, status)

    def test_nothing_is_left_of_it(self):
        output, _log = run(self.url, RUN_ON)
        self.assertEqual(['begun', 'reaped'], output)

    def test_database_that_is_away(self):
        """Refused, and without our tables: Octavia starts as it would."""
        with socket.socket() as sock:
            sock.bind(('127.0.0.1', 0))
            port = sock.getsockname()[1]
            for url in (f'mysql+pymysql://a:b@127.0.0.1:{port}/octavia',
                        'sqlite://', 'nonsense'):
                self.assertEqual((['begun', 'told'], ''), run(url, REAP))

    def test_database_that_hangs(self):
        """Nothing waits for it, and it ends by itself."""
        with socket.create_server(('127.0.0.1', 0)) as server:
            port = server.getsockname()[1]
            self.assertEqual((['begun', 'told'], ''), run(
                f'mysql+pymysql://a:b@127.0.0.1:{port}/octavia', REAP,
                patience=1))


class TestAge(base.TestCase):

    def test_of_this_process(self):
        before = start.get_age()
        self.assertGreaterEqual(before, 0)
        self.assertGreater(start.get_age(), before)

    def test_is_of_the_process(self):
        """Not of the interpreter's imports, nor of the machine's boot."""
        with open('/proc/uptime') as uptime:
            machine = float(uptime.read().split()[0])
        age = float(subprocess.run(
            [sys.executable, '-c', 'import time; time.sleep(0.5); '
             'from octavia_hmsync.sync.health_manager import start; '
             'print(start.get_age())'], stdout=subprocess.PIPE,
            cwd=os.getcwd()).stdout)
        self.assertGreaterEqual(age, 0.49)
        self.assertLess(age, machine)
