# SPDX-License-Identifier: Apache-2.0

"""A child process which leaves nothing behind."""

from concurrent import futures
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import fixtures
import psutil

from tests.cloud import forkserver
from tests.cloud import reaper
from tests.cloud import waiting

PR_SET_CHILD_SUBREAPER = 36
KEPT_ENVIRONMENT = ('PATH', 'LANG', 'LC_ALL', 'TZ',
                    'PYTHONDONTWRITEBYTECODE', 'VIRTUAL_ENV')
_SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'site')
_CLOCK = os.path.join(os.path.dirname(_SITE), 'clock')
# For all processes: to find the entry points of all packages takes each one a
# third of a second of CPU, and stevedore keeps them there.
_CACHE = tempfile.TemporaryDirectory()


def program(name):
    """The path of a console script of the Python environment in use."""
    return os.path.join(os.path.dirname(sys.executable), name)


def run(*command, **kwargs):
    """Run a program to its end and return what it printed.

    :raises RuntimeError: it failed; with all that it printed
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **kwargs)
    if done.returncode:
        raise RuntimeError(f'{command} failed with {done.returncode}:\n'
                           f'{done.stdout}')
    return done.stdout


def system_program(*names):
    """The path of the first of these programs that the system has."""
    path = os.pathsep.join([os.environ.get('PATH', ''), '/usr/sbin'])
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return found
    raise RuntimeError(f'{names[0]} is not installed; see bindep.txt')


def environment(home, **variables):
    """An environment without options, proxies or sockets of the user."""
    env = {name: os.environ[name] for name in KEPT_ENVIRONMENT
           if name in os.environ}
    path = [_SITE, *filter(None, [os.environ.get('PYTHONPATH')])]
    return {**env, 'HOME': home, 'XDG_CACHE_HOME': _CACHE.name,
            'PYTHONUNBUFFERED': '1', 'PYTHONPATH': os.pathsep.join(path),
            **variables}


def turn_clock(child, seconds):
    """Have the clock of a Python process be off from its next start.

    :param child: a ChildProcess, which tells of no steps then.
    """
    child.env.update(
        PYTHONPATH=os.pathsep.join([_CLOCK, child.env['PYTHONPATH']]),
        TEST_CLOCK_AHEAD=str(seconds))


class _Guard:
    """Holds the pipe to the process which outlives a killed harness."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process = None

    def _start(self):
        # The children of a controller killed hard become ours, so that none
        # stays behind as a zombie where the init process reaps nothing.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._process = subprocess.Popen(
            [sys.executable, '-I', '-S', reaper.__file__],
            stdin=subprocess.PIPE, start_new_session=True, cwd='/', text=True)

    def tell(self, sign, pgid):
        with self._lock:
            if self._process is None:
                self._start()
            self._process.stdin.write(f'{sign}{pgid}\n')
            self._process.stdin.flush()


_GUARD = _Guard()
_FORK_SERVER = forkserver.ForkServer(environment('/'))


def _reap_adopted():
    """Reap what ended in a process namespace after the parent outside of it.

    Ours it is then, see _Guard, and as long as nobody reaps it the first
    process of that namespace does not end. What subprocess started is in
    none.
    """
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error, OSError):
            if (child.status() == psutil.STATUS_ZOMBIE and
                    _depth(child.pid) > _depth('self')):
                os.waitpid(child.pid, os.WNOHANG)


def _depth(pid):
    """Tell in how many process namespaces one is, counted from ours."""
    with open(f'/proc/{pid}/status') as status:
        return next(len(line.split()) for line in status
                    if line.startswith('NSpid:'))


class ChildProcess(fixtures.Fixture):
    """A child process in a session and process group of its own.

    The group is what makes the clean-up reliable: a child of a process that
    was killed hard is still in it.

    :param name: for messages, and for the name of the log file
    :param command: list of arguments
    :param log_directory: where its output goes; a restart appends
    """

    def __init__(self, name, command, log_directory, env=None, cwd=None):
        super().__init__()
        self.name = name
        self.command = command
        self.log_path = os.path.join(log_directory, f'{name}.log')
        self.env = env
        self.cwd = cwd
        self._popen = None
        self._group_known = False

    def _setUp(self):
        self.addCleanup(self._end, 6)
        self.start()

    @property
    def pid(self):
        return self._popen.pid if self._popen else None

    @property
    def running(self):
        """Whether the main process runs (its children are not asked)."""
        return self._popen is not None and self._popen.poll() is None

    def start(self):
        """Start it; does not wait for it, see wait_until_ready()."""
        if self._group_known:
            raise RuntimeError(f'{self.name} is running already, or children '
                               f'of it are')
        # A group must never run unregistered, so the guard comes first.
        _GUARD.tell('-', 0)
        # Nor does it if the main thread is interrupted in between: only there
        # does a signal raise anything.
        executor = futures.ThreadPoolExecutor(1)
        started = executor.submit(self._spawn)
        executor.shutdown(wait=False)
        started.result()

    def _spawn(self):
        with open(self.log_path, 'ab') as log:
            self._log_start = log.tell()
            if _FORK_SERVER.can_start(self.command, self.env):
                self._popen = _FORK_SERVER.start(self.command, self.env,
                                                 self.cwd, log)
            else:
                self._popen = subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, env=self.env, cwd=self.cwd,
                    start_new_session=True)
        self._group_known = True
        _GUARD.tell('+', self.pid)

    def is_ready(self):
        """Whether it serves; subclasses know better."""
        return self.running

    def wait_until_ready(self, timeout=waiting.LIMIT):
        waiting.wait_for(self.is_ready, f'sign of {self.name} being ready',
                         timeout, processes=[self])
        return self

    def members(self):
        """Pids of the living processes of its group."""
        if not self._group_known:
            return []
        pids = []
        for pid in psutil.pids():
            try:
                if (os.getpgid(pid) == self.pid and
                        psutil.Process(pid).status() != psutil.STATUS_ZOMBIE):
                    pids.append(pid)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return pids

    def descendants(self):
        """Pids of the living processes of its group but the main one."""
        return [pid for pid in self.members() if pid != self.pid]

    def signal(self, number):
        """Send a signal to the main process."""
        if self.running:
            self._popen.send_signal(number)

    def pause(self):
        """Stop the whole group, as a hanging machine would."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.pid, signal.SIGCONT)

    def kill(self):
        """Kill the main process hard; its children live on, as orphans."""
        if self.running:
            self._popen.kill()
            self._popen.wait()

    def kill_tree(self):
        """Kill the process and its children hard, all at the same moment."""
        if not self._group_known:
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._popen.wait()
        self._bury()

    def stop(self, timeout=60):
        """Ask it to end, and kill what is left of it after the time-out.

        :returns: whether it ended, with all of its children, by itself
        """
        if not self._group_known:
            return True
        deadline = time.monotonic() + timeout
        self._stop_main(timeout)
        # Its children may end a little later.
        while (left := self.members()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill_tree()
        return not left

    def _end(self, timeout):
        """As stop(), without waiting for children that outlive it."""
        if self._group_known:
            self._stop_main(timeout)
            self.kill_tree()

    def _stop_main(self, timeout):
        self.request_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)

    def request_stop(self):
        """Ask it to end without waiting; several can so end in parallel."""
        if self.running:
            self._popen.terminate()
            # One that a test has paused could not hear us.
            self._popen.send_signal(signal.SIGCONT)

    def _bury(self):
        deadline = time.monotonic() + 60
        while self.members():
            _reap_adopted()
            if time.monotonic() > deadline:
                raise RuntimeError(f'{self.name} left processes behind: '
                                   f'{self.members()}')
            time.sleep(0.02)
        try:
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        self._group_known = False
        _GUARD.tell('-', self.pid)

    def log(self):
        """What it has written since its last start."""
        with open(self.log_path, 'rb') as log:
            log.seek(self._log_start)
            return log.read().decode(errors='replace')

    def log_tail(self, lines=25):
        try:
            with open(self.log_path, errors='replace') as log:
                return ''.join(log.readlines()[-lines:])
        except OSError as error:
            return f'(no log: {error})'
