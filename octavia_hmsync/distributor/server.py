# SPDX-License-Identifier: Apache-2.0

"""The process: gunicorn with one worker, like the agent in an amphora.

With one worker only one process writes the files, and its threads share what
it knows. The arbiter starts a new worker when it dies.
"""

from collections import abc
import logging as python_logging
import signal
import sys
import threading
import typing

from gunicorn.app import base
from gunicorn import arbiter
from gunicorn import glogging
from oslo_config import cfg
from oslo_log import log as logging
import stevedore
from stevedore import exception as stevedore_errors

from octavia_hmsync.distributor import api
from octavia_hmsync.distributor import backend
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import probe_results
from octavia_hmsync.distributor import prober
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import tls
from octavia_hmsync.distributor import vips
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

NAMESPACE = 'octavia_hmsync.distributor.backends'
# Seconds in which requests must end when the process ends.
_GRACE = 15
# Seconds after which the arbiter takes its worker for dead.
_WORKER_TIMEOUT = 60


class _Logger(glogging.Logger):
    """Makes gunicorn log with oslo.log."""

    def setup(self, cfg: typing.Any) -> None:
        self.error_log = python_logging.getLogger('gunicorn.error')
        self.error_log.propagate = True
        self.access_log = python_logging.getLogger('gunicorn.access')
        self.access_log.propagate = True

    def exception(self, msg: typing.Any, *args: typing.Any,
                  **kwargs: typing.Any) -> None:
        # Any client can break a connection, or let it hang.
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self.error_log.debug(f'{msg} (%r)', *args, error)
        else:
            self.error_log.exception(msg, *args, **kwargs)

    def reopen_files(self) -> None:
        """Leave files to oslo.log, which notices rotation itself."""

    def close_on_exec(self) -> None:
        """Leave files to oslo.log."""


class _Arbiter(arbiter.Arbiter):
    """Reads certificates again at SIGHUP, and keeps the worker.

    gunicorn's own would start another worker beside it, and both would write.
    """

    def handle_hup(self) -> None:
        self.kill_workers(signal.SIGHUP)

    # These signals would add a second worker.
    def handle_ttin(self) -> None:
        LOG.info('There is one worker, always: SIGTTIN does nothing.')

    def handle_usr2(self) -> None:
        LOG.info('There is one worker, always: SIGUSR2 does nothing.')


def find_backend(conf: cfg.ConfigOpts) -> abc.Callable[..., backend.Backend]:
    """Return the class of the backend; raise InvalidConfiguration for none."""
    name = conf[distributor_conf.GROUP].backend
    try:
        found: abc.Callable[..., backend.Backend] = stevedore.DriverManager(
            NAMESPACE, name).driver
    except stevedore_errors.NoMatches as e:
        raise exceptions.InvalidConfiguration(
            f'[{distributor_conf.GROUP}] backend = {name} is none of the '
            f'entry points of {NAMESPACE}: install it on this node, or '
            f'choose openvswitch.') from e
    return found


def check(conf: cfg.ConfigOpts) -> None:
    """Check what the worker needs, before it starts.

    :raises InvalidConfiguration: if something cannot be used.
    :raises StoreBusy: if another process has the directory.
    """
    store.Store(conf[distributor_conf.GROUP].state_path).close()
    find_backend(conf)


class Server(base.BaseApplication):
    """The REST API, the thread that restores, and the thread that probes.

    :raises InvalidConfiguration: if it cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._contexts = tls.Contexts(conf)
        self._restorer: restore.Restorer | None = None
        self._prober: prober.Prober | None = None
        self._vips: vips.Vips | None = None
        self._results: probe_results.Results | None = None
        super().__init__()

    def load_config(self) -> None:
        options = self._conf[distributor_conf.GROUP]
        host = options.bind_host
        settings = {
            'bind': (f'[{host}]' if ':' in host else host) +
            f':{options.bind_port}',
            'proc_name': distributor_conf.PROG,
            'workers': 1,
            'worker_class': 'gthread',
            'threads': options.threads,
            'timeout': _WORKER_TIMEOUT,
            'graceful_timeout': _GRACE,
            # Each request has its own connection: no thread waits for a
            # second request.
            'keepalive': 0,
            # Set only to tell gunicorn that it serves TLS.
            'certfile': options.server_cert,
            'ssl_context': self._get_context,
            'logger_class': _Logger,
            'post_worker_init': self._begin,
            'worker_exit': self._end,
            # Newer releases would open a socket for commands.
            'control_socket_disable': True,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> typing.Any:
        """Make the application, in the worker."""
        options = self._conf[distributor_conf.GROUP]
        # Clients that wait for news take threads away from others.
        self._results = probe_results.Results(options.threads // 2)
        try:
            all_vips = vips.Vips(store.Store(options.state_path),
                                 find_backend(self._conf)(self._conf),
                                 is_down=self._results.is_down)
        except exceptions.HMSyncException as e:
            LOG.error('The distributor cannot begin: %s', e)
            # With this code the arbiter ends, instead of trying again.
            sys.exit(arbiter.Arbiter.WORKER_BOOT_ERROR)
        self._vips = all_vips
        self._restorer = restore.Restorer(all_vips, options.restore_interval)
        self._prober = prober.Prober(all_vips, self._results,
                                     options.probe_interval,
                                     options.probe_misses,
                                     patience=options.hang_timeout)
        return api.create_app(all_vips, self._restorer, self._results,
                              distributor_conf.get_host(self._conf),
                              options.allowed_clients,
                              lambda: self._contexts.expiry)

    def run(self) -> None:
        """Serve until SIGTERM. Packets are forwarded even after it."""
        _Arbiter(self).run()

    def _get_context(self, _config: object, _make_default: object) -> object:
        return self._contexts.get()

    def _begin(self, worker: typing.Any) -> None:
        # In a thread: it waits for a lock that the main thread may hold.
        signal.signal(signal.SIGHUP, lambda _number, _frame: threading.Thread(
            target=self._contexts.reload, daemon=True).start())
        if (self._restorer and self._prober and self._results and
                self._vips):
            self._results.end_when(lambda: not worker.alive)
            self._vips.backend.start()
            self._restorer.start()
            self._prober.start()
        LOG.info('The distributor %s serves at port %s.',
                 distributor_conf.get_host(self._conf),
                 self._conf[distributor_conf.GROUP].bind_port)

    def _end(self, _arbiter: object, _worker: object) -> None:
        if self._prober:
            self._prober.stop(_GRACE)
        if self._restorer:
            self._restorer.stop(_GRACE)
        if self._vips:
            self._vips.backend.stop()
        LOG.info('The distributor ends. Open vSwitch forwards as before.')
