# SPDX-License-Identifier: Apache-2.0

"""Units as the amphora agent writes them, and what systemd does with them.

What is left out changes nothing that the agent can see: order, conditions,
limits and SELinux.
"""

import collections
import contextlib
import dataclasses
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import time

SOCKET = '/run/systemctl'
DIRECTORY = '/usr/lib/systemd/system'
# The namespace is made at boot; the rest of it is settings of the kernel that
# all instances share.
BUILT_IN = {'amphora-netns.service'}
# Which units start at a boot, a line for each; in /etc, for where that lasts.
ENABLED = '/etc/systemd/enabled'


@dataclasses.dataclass
class Unit:
    """A service. Commands are lists of arguments."""

    start: list
    start_pre: list = dataclasses.field(default_factory=list)
    reload: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)
    type: str = 'simple'
    pid_file: str = None
    restart: bool = False
    main_only: bool = False

    @classmethod
    def read(cls, text):
        """Read what is in the file of a unit."""
        unit = cls(start=[])
        for line in text.splitlines():
            key, _, value = line.partition('=')
            if key in ('ExecStart', 'ExecStartPre', 'ExecReload'):
                {'ExecStart': unit.start, 'ExecStartPre': unit.start_pre,
                 'ExecReload': unit.reload}[key].append(shlex.split(value))
            elif key == 'Environment':
                unit.environment.update(
                    item.split('=', 1) for item in shlex.split(value))
            elif key == 'Type':
                unit.type = value
            elif key == 'PIDFile':
                unit.pid_file = value
            elif key == 'Restart':
                unit.restart = value == 'always'
            elif key == 'KillMode':
                unit.main_only = value == 'process'
        return unit

    def expand(self, command, **variables):
        """Put the variables of the unit into a command."""
        values = {**self.environment, **variables}
        return [re.sub(r'\$(\w+)', lambda m: values.get(m[1], ''), word)
                for word in command]


class Failed(Exception):
    """What systemctl says of a job that failed."""


class Manager:
    """Starts units, and starts them again when they end."""

    def __init__(self, log_directory):
        self._log_directory = log_directory
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # A unit has one job at a time; what waits for a process releases the
        # other lock.
        self._jobs = collections.defaultdict(threading.Lock)
        self._units = {}
        self._main = {}
        self._ended = {}

    def add(self, name, unit):
        self._units[name] = unit

    # systemctl

    def systemctl(self, command, name, *_):
        """Do it.

        :returns: exit status and output
        """
        name = name if name.endswith('.service') else f'{name}.service'
        if name in BUILT_IN:
            return 0, ''
        if command in ('enable', 'disable'):
            with self._lock:
                self._set_enabled(name, command == 'enable')
            return 0, ''
        try:
            if command == 'status':
                return self._status(name)
            with self._jobs[name], self._lock:
                return getattr(self, f'_{command}')(name) or (0, '')
        except (Failed, OSError) as e:
            return 1, str(e)

    @staticmethod
    def _read_enabled():
        try:
            with open(ENABLED) as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def _set_enabled(self, name, is_enabled):
        names = [each for each in self._read_enabled() if each != name]
        os.makedirs(os.path.dirname(ENABLED), exist_ok=True)
        with open(ENABLED, 'w') as file:
            file.write('\n'.join(names + [name] * is_enabled))

    def start_enabled(self):
        """Start what is to run after a boot; keepalived last."""
        for name in sorted(self._read_enabled(),
                           key=lambda name: 'keepalived.' in name):
            self.systemctl('start', name)

    def _unit(self, name):
        path = os.path.join(DIRECTORY, name)
        with contextlib.suppress(FileNotFoundError):
            with open(path) as file:
                self._units[name] = Unit.read(file.read())
        if name not in self._units:
            raise Failed(f'Unit {name} not found.')
        return self._units[name]

    def _start(self, name):
        unit = self._unit(name)
        if name in self._main:
            return
        for command in unit.start_pre:
            self._run(unit, name, command)
        self._launch(unit, name)

    def _stop(self, name):
        pid = self._main.pop(name, None)
        if pid is None:
            return
        unit = self._units[name]
        self._kill(pid, signal.SIGTERM)
        if not self._wait(pid, 10) or not unit.main_only:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _restart(self, name):
        self._stop(name)
        self._start(name)

    def _reload(self, name):
        if name not in self._main:
            raise Failed(f'{name} is not active, cannot reload.')
        unit = self._unit(name)
        for command in unit.reload:
            self._run(unit, name, command, MAINPID=str(self._main[name]))

    def _status(self, name):
        return (0, 'active') if name in self._main else (3, 'inactive')

    # Processes

    def _log(self, name):
        return open(os.path.join(self._log_directory, f'{name}.log'), 'ab')

    def _spawn(self, unit, name, command, **variables):
        with self._log(name) as log:
            child = subprocess.Popen(
                unit.expand(command, **variables), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **unit.environment, **variables})
        # reap() waits for it, not the library. It cannot have yet, for want of
        # the lock, which is held here: what it knows is of an older process.
        child.returncode = 0
        self._ended.pop(child.pid, None)
        return child.pid

    def _run(self, unit, name, command, **variables):
        pid = self._spawn(unit, name, command, **variables)
        if not self._wait(pid, 30) or self._ended[pid]:
            raise Failed(f'Job for {name} failed: {shlex.join(command)} '
                         f'ended with {self._ended.get(pid)}')

    def _launch(self, unit, name):
        variables = {}
        if unit.type == 'notify':
            path = f'/run/notify-{name}'
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            notify.bind(path)
            notify.settimeout(0.05)
            variables['NOTIFY_SOCKET'] = path
        pid = self._spawn(unit, name, unit.start[0], **variables)
        if unit.type == 'forking':
            if not self._wait(pid, 30) or self._ended[pid]:
                raise Failed(f'Job for {name} failed: ended with '
                             f'{self._ended.get(pid)}')
            pid = self._read_pid(unit.pid_file)
        elif unit.type == 'notify':
            self._wait_ready(name, notify, pid)
        self._main[name] = pid

    @staticmethod
    def _read_pid(path):
        for _ in range(100):
            with contextlib.suppress(OSError, ValueError):
                with open(path) as file:
                    return int(file.read())
            time.sleep(0.05)
        raise Failed(f'no {path}')

    def _wait_ready(self, name, notify, pid):
        with notify:
            for _ in range(200):
                if pid in self._ended:
                    raise Failed(f'Job for {name} failed: ended with '
                                 f'{self._ended[pid]}')
                with contextlib.suppress(TimeoutError):
                    if b'READY=1' in notify.recv(4096):
                        return
                self._changed.wait(0.001)
        raise Failed(f'Job for {name} failed: timed out')

    def _wait(self, pid, timeout):
        """Wait until a process has ended; returns whether it has."""
        return self._changed.wait_for(lambda: pid in self._ended, timeout)

    @staticmethod
    def _kill(pid, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def reap(self):
        """Bury children, for ever; start those again that must run."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.05)
                continue
            with self._changed:
                self._ended[pid] = os.waitstatus_to_exitcode(status)
                self._changed.notify_all()
                again = [name for name, main in self._main.items()
                         if main == pid]
                for name in again:
                    del self._main[name]
            for name in again:
                if self._units[name].restart:
                    threading.Timer(0.1, self.systemctl,
                                    ('start', name)).start()
