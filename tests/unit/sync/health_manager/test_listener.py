# SPDX-License-Identifier: Apache-2.0

import multiprocessing
import os
import signal
import socket
import threading
import time

from octavia_hmsync import compat
from octavia_hmsync.sync.health_manager import listener
from octavia_hmsync.sync.rules import member
from tests.unit import base

FORK = multiprocessing.get_context('fork')

NO_LISTENER = ['The process that receives heartbeats has ended, or does not '
               'listen.']
NO_HEALTH_CHECK = ['The process that fails over amphorae has ended.']


def listen(address, pipe, with_child):
    """Hold the socket, as octavia-health-manager's listener does."""
    signal.signal(signal.SIGTERM, lambda *args: os._exit(0))
    if address:
        family = socket.AF_INET6 if ':' in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.bind(address)
    child = os.fork() if with_child else None
    if child == 0:
        time.sleep(60)
        os._exit(0)
    pipe.send(child)
    time.sleep(60)


class TestListener(base.TestCase):

    def start(self, ip='127.0.1.1', bind=True, with_child=False):
        family = socket.AF_INET6 if ':' in ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((ip, 0))
            port = sock.getsockname()[1]
        here, there = FORK.Pipe()
        self.process = FORK.Process(
            target=listen, name=compat.LISTENER_PROCESS,
            args=((ip, port) if bind else None, there, with_child))
        self.process.start()
        self.addCleanup(self.process.join)
        self.addCleanup(self.process.kill)
        self.assertTrue(here.poll(30))
        self.child = here.recv()
        if self.child:
            self.addCleanup(os.kill, self.child, signal.SIGKILL)
        self.address = ip, port
        return listener.Listener(self.process, ip, port)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def test_listening(self):
        for ip in ('127.0.1.1', '0.0.0.0', '::1', '::'):  # nosec B104
            subject = self.start(ip)
            self.assertTrue(subject.is_listening())
            self.assertFalse(subject.has_stopped())

    def test_starting(self):
        """A busy node may take seconds until it binds its socket."""
        now = 0
        self.start(bind=False)
        subject = listener.Listener(self.process, *self.address,
                                    clock=lambda: now)
        self.assertTrue(subject.is_starting())
        # Not for good.
        now = 61
        self.assertFalse(subject.is_starting())
        # One that is through with it, or has ended.
        subject = self.start()
        self.assertFalse(subject.is_starting())
        subject.is_listening = lambda: False
        self.assertFalse(subject.is_starting())
        self.start(bind=False)
        self.kill()
        self.assertFalse(listener.Listener(
            self.process, *self.address).is_starting())

    def test_could_not_bind(self):
        self.assertFalse(self.start(bind=False).is_listening())

    def test_other_address(self):
        self.start()
        for ip, port in (('127.0.1.2', self.address[1]),
                         ('127.0.1.1', self.address[1] ^ 1)):
            subject = listener.Listener(self.process, ip, port)
            self.assertFalse(subject.is_listening())

    def test_killed(self):
        subject = self.start()
        self.kill()
        self.assertFalse(subject.is_listening())
        self.assertFalse(subject.has_stopped())

    def test_killed_while_its_child_holds_the_socket(self):
        subject = self.start(with_child=True)
        self.kill()
        # The child does hold it.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            self.assertRaises(OSError, sock.bind, self.address)
        self.assertFalse(subject.is_listening())

    def test_stopped_in_good_order(self):
        subject = self.start()
        self.process.terminate()
        self.process.join()
        self.assertTrue(subject.has_stopped())
        self.assertFalse(subject.is_listening())

    def test_is_stopping(self):
        subject = self.start()
        timer = threading.Timer(0.3, self.process.terminate)
        timer.start()
        self.addCleanup(timer.join)
        self.assertTrue(subject.is_stopping())

    def test_killed_is_not_stopping(self):
        subject = self.start()
        os.kill(self.process.pid, signal.SIGKILL)
        self.assertFalse(subject.is_stopping())

    def test_wait_for_exit(self):
        subject = self.start(with_child=True)
        waiting = threading.Thread(target=subject.wait_for_exit, daemon=True)
        waiting.start()
        waiting.join(0.2)
        self.assertTrue(waiting.is_alive())
        self.kill()
        waiting.join(10)
        self.assertFalse(waiting.is_alive())
        subject.wait_for_exit()

    def test_find_process(self):
        self.assertIsNone(listener.find_process())
        self.start()
        self.assertIs(self.process, listener.find_process())


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
        self.processes = listener.Processes(
            self.listener, clock=lambda: self.now)

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
        self.assertEqual(NO_LISTENER, listener.Processes(None).find_faults())

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
        return listener.make_probes(
            self.make_conf(hmsync={'offline_after': 20}), self.processes,
            self.keepalive, [self.thread])

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
