# SPDX-License-Identifier: Apache-2.0

"""Starts programs of Octavia without importing it once more for each.

Octavia's modules and the plugin's take four seconds of a processor to import,
which is most of what a controller of the tests costs. A server beside each
process that runs tests has imported them, and done nothing else: a controller
is a fork of it, with an environment, a directory, a log, a session and a
network namespace of its own, which calls what its console script calls. It is
a child of the process that runs tests, as one started with subprocess is.

This file is also the program of that server.
"""

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import setproctitle

# What each console script calls.
PROGRAMS = {
    'amphora-agent': 'octavia.cmd.agent',
    'octavia-api': 'octavia.cmd.api',
    'octavia-driver-agent': 'octavia.cmd.driver_agent',
    'octavia-health-manager': 'octavia.cmd.health_manager',
    'octavia-hmsync-cluster-manager': 'octavia_hmsync.cmd.cluster_manager',
    'octavia-housekeeping': 'octavia.cmd.house_keeping',
    'octavia-worker': 'octavia.cmd.octavia_worker',
}
# What is imported beforehand: what they and the plugin import, but neither of
# them. The plugin tells by octavia.cmd which service it is in, and has an id
# for a process since its import; gunicorn reads the current directory then.
_IMPORTED = (
    'cotyledon.oslo_config_glue',
    'octavia.amphorae.backends.agent.api_server.server',
    'octavia.amphorae.drivers.haproxy.rest_api_driver',
    'octavia.amphorae.drivers.keepalived.vrrp_rest_driver',
    'octavia.api.drivers.amphora_driver.v2.driver',
    'octavia.common.keystone',
    'octavia.controller.healthmanager.health_manager',
    'octavia.controller.housekeeping.house_keeping',
    'octavia.controller.queue.v2.consumer',
    'openstack.connection',
    'oslo_reports.guru_meditation_report',
    'pecan',
    'prometheus_client',
    'pymysql',
)
_LEFT = ('octavia_hmsync', 'octavia.cmd', 'octavia.api.app', 'gunicorn')
_CLONE_NEWNET = 0x40000000


class Child:
    """A process that the server started: what is used of subprocess.Popen."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None
        self._lock = threading.Lock()

    def poll(self):
        """Return its exit status, negative for a signal; None: it runs."""
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout=None):
        """Wait for its end; returns its exit status.

        :raises subprocess.TimeoutExpired: it runs still.
        """
        deadline = timeout and time.monotonic() + timeout
        while self.poll() is None:
            if deadline and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.pid, timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        with self._lock:
            # Where it is reaped, its id may be somebody else's.
            if self.returncode is None:
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The server, as the process that runs tests sees it.

    :param environment: of the server; a program is started with one that has
                        the same PYTHONPATH.
    """

    def __init__(self, environment):
        self._lock = threading.Lock()
        self._environment = environment
        self._socket = None
        self._server = None
        self._said = None

    def can_start(self, command, environment):
        """Whether the server does the same as the command would."""
        program = _split(command)[1]
        return bool(
            program and
            os.path.basename(program[0]) in PROGRAMS and
            os.path.dirname(program[0]) == os.path.dirname(sys.executable) and
            environment and environment.get('PYTHONPATH') ==
            self._environment['PYTHONPATH'])

    def start(self, command, environment, directory, log):
        """Start a program; the process has to be a subreaper.

        :param log: file object that gets what it prints.
        :returns: a Child, in a session of its own.
        """
        namespace, program = _split(command)
        with self._lock:
            if self._socket is None:
                self._launch()
            self._socket.sendmsg(
                [json.dumps([namespace, program, environment,
                             directory or os.getcwd()]).encode()],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                  array.array('i', [log.fileno()]))])
            answer = self._socket.recv(100)
        if not answer:
            self._said.seek(0)
            raise RuntimeError(f'the fork server has ended: '
                               f'{self._said.read()}')
        return Child(int(answer))

    def _launch(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX,
                                         socket.SOCK_SEQPACKET)
        self._said = tempfile.TemporaryFile('w+')
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, '-P', __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=self._said,
                stderr=subprocess.STDOUT, cwd='/', env=self._environment,
                pass_fds=[theirs.fileno()], start_new_session=True)
        self._socket = ours


def _split(command):
    """Split off the network namespace that a command is to run in."""
    if command[0] == 'nsenter' and command[1].startswith('--net='):
        return command[1].removeprefix('--net='), command[2:]
    return None, command


# In the server

def _receive(server):
    """Return what is to be started, and the log; None where tests ended."""
    data, descriptors, _, _ = socket.recv_fds(server, 1 << 18, 1)
    return (*json.loads(data), descriptors[0]) if data else None


def _fork():
    """Fork a process that is no child of the server.

    :returns: in the fork a descriptor to write a line to once it is to be
              known of; in the server None, and what was written.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        os.waitpid(child, 0)
        with open(reading, 'rb') as answer:
            return None, answer.readline()
    if os.fork():
        os._exit(0)
    os.close(reading)
    return writing, None


def _become(namespace, program, environment, directory, log):
    os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    if namespace:
        with open(namespace) as entered:
            if ctypes.CDLL(None, use_errno=True).setns(
                    entered.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), 'setns')
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv[:] = program
    sys.path.insert(0, os.path.dirname(program[0]))
    setproctitle.setproctitle(' '.join([sys.executable, *program]))
    with contextlib.suppress(KeyError):
        # As sitecustomize, which Python has imported before all else.
        os.environ['OCTAVIA_HMSYNC_TESTS_STEPS']
        importlib.import_module('hmsync_tests_steps').install()


def main(descriptor):
    server = socket.socket(fileno=int(descriptor))
    for name in _IMPORTED:
        importlib.import_module(name)
    early = sorted({name for name in _LEFT if name in sys.modules})
    if early:
        sys.exit(f'{early} are to be imported later')
    # It looks for where to write a title, and finds that only as it was then.
    setproctitle.getproctitle()
    # Forks then share the pages of what was imported.
    gc.collect()
    gc.freeze()
    while request := _receive(server):
        writing, pid = _fork()
        if writing is None:
            os.close(request[-1])
            server.send(pid)
            continue
        server.close()
        try:
            _become(*request)
        finally:
            os.write(writing, b'%d' % os.getpid())
            os.close(writing)
        program = os.path.basename(sys.argv[0])
        return importlib.import_module(PROGRAMS[program]).main()


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
