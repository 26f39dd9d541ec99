# SPDX-License-Identifier: Apache-2.0

import multiprocessing
import time

from octavia_hmsync import compat
from octavia_hmsync.sync.health_manager import probes
from octavia_hmsync.sync.rules import member
from tests.unit import base

FORK = multiprocessing.get_context('fork')
NO_LISTENER = ['The process that receives heartbeats has ended, or does not '
               'listen.']
NO_HEALTH_CHECK = ['The process that fails over amphorae has ended.']


class Listener:
    """Listens, until it is told not to."""

    def __init__(self):
        self.starting, self.listening = False, True

    def is_starting(self):
        return self.starting

    def is_listening(self):
        return self.listening


class Keepalive:
    """Has written one a moment ago."""

    def __init__(self):
        self.age, self.status = 3, member.ONLINE

    def get_age(self):
        return self.age


class Thread:
    name = 'keepalive'
    living = True

    def is_alive(self):
        return self.living


class TestProbes(base.TestCase):

    def setUp(self):
        super().setUp()
        self.now = 0
        self.listener = Listener()
        self.processes = probes.Processes(self.listener,
                                          clock=lambda: self.now)

    def start_health_check(self):
        process = FORK.Process(target=time.sleep, args=(120,),
                               name=compat.HEALTH_CHECK_PROCESS)
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(process.kill)
        return process

    def test_listener(self):
        self.start_health_check()
        self.assertEqual([], self.processes.find_faults())
        self.listener.listening = False
        self.assertEqual(NO_LISTENER, self.processes.find_faults())
        self.listener.starting = True
        self.assertEqual([], self.processes.find_faults())

    def test_no_listener_at_all(self):
        self.start_health_check()
        self.assertEqual(NO_LISTENER, probes.Processes(None).find_faults())

    def test_health_check(self):
        # Octavia starts it last.
        self.assertEqual([], self.processes.find_faults())
        process = self.start_health_check()
        self.assertEqual([], self.processes.find_faults())
        self.now = 1000
        self.assertEqual([], self.processes.find_faults())
        process.kill()
        process.join()
        self.assertEqual(NO_HEALTH_CHECK, self.processes.find_faults())

    def test_health_check_that_nobody_ever_saw(self):
        self.now = 59
        self.assertEqual([], self.processes.find_faults())
        self.now = 61
        self.assertEqual(NO_HEALTH_CHECK, self.processes.find_faults())

    def make(self):
        self.keepalive, self.thread = Keepalive(), Thread()
        return probes.make(self.make_conf(hmsync={'offline_after': 20}),
                           self.processes, self.keepalive, [self.thread])

    def test_ready(self):
        subject = self.make()
        self.assertEqual([], subject.find_lacks())
        self.keepalive.age = 20
        self.assertEqual([], subject.find_lacks())

    def test_not_ready(self):
        """None of it is a reason for a restart."""
        for age, status, reason in (
                (None, None, 'It is not registered; its log says why.'),
                (3, None, 'It is not registered; its log says why.'),
                (20.6, member.ONLINE, 'It has written no keepalive for 21 s, '
                 'longer than offline_after = 20 s; its log says why.'),
                (3, member.DRAINING, 'It is DRAINING, and not ONLINE.')):
            subject = self.make()
            self.keepalive.age, self.keepalive.status = age, status
            self.assertEqual([reason], subject.find_lacks())
            self.assertEqual([], subject.find_faults())

    def test_not_alive(self):
        subject = self.make()
        self.thread.living, self.listener.listening = False, False
        expected = [*NO_LISTENER, 'The thread "keepalive" has ended.']
        self.assertEqual(expected, subject.find_faults())
        self.assertEqual(expected, subject.find_lacks())
