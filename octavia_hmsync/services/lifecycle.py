# SPDX-License-Identifier: Apache-2.0

"""When, and in which process of a service, the plugin starts.

A configuration source is opened while the service parses its configuration:
before logging, before any fork. Threads and database connections have to wait
until their process exists:

* octavia-housekeeping does not fork. Once its logging is set up, the
  configuration is parsed.
* octavia-worker: each child of the main process. Where the provider of
  clusters is enabled, it also takes orders for them.
* octavia-health-manager: the main process after its second fork (a database
  connection or a thread before it breaks the listener), and the second
  child, the health check, which renders the configuration of the amphorae
  that it builds in a failover. The listener needs nothing. A separate child
  reports the start, before all of them.
"""

import atexit
import importlib
import logging as std_logging
import os
import threading
import time
import typing

from oslo_log import log as logging
from stevedore import driver as stevedore_driver

from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions
from octavia_hmsync import live_options
from octavia_hmsync.metrics import probes
from octavia_hmsync.network import boot_options
from octavia_hmsync.sync import build_zone
from octavia_hmsync.sync import controller_list
from octavia_hmsync.sync.health_manager import listener
from octavia_hmsync.sync.health_manager import start as hm_start

LOG = logging.getLogger(__name__)

EXTENSIONS = 'octavia_hmsync.extensions'

_LOGGING_TIMEOUT = 10

# Seconds after which octavia-health-manager has surely forked twice.
_FORKS_TIMEOUT = 5


def keep_management_ports():
    """Have this process unplug no amphora from its management network."""
    try:
        importlib.import_module(
            'octavia_hmsync.compat.management_port').keep()
    except (AttributeError, ImportError) as e:
        # All else works as well without it.
        LOG.warning(
            'Octavia plans otherwise which ports of amphorae it unplugs (%s). '
            'Before [controller_worker] amp_boot_network_list is changed, '
            'install a release of octavia-hmsync for this Octavia: a change '
            'of members would unplug the management ports of older amphorae.',
            e)


class Lifecycle:
    """Starts the parts of the plugin in one service.

    :param conf: the oslo.config object that Octavia reads, being parsed.
    :param warning: what to log once, when logging is set up; or None.
    """

    def __init__(self, conf, service, warning=None):
        self._conf = conf
        self._service = service
        self._warning = warning
        self._main_pid = os.getpid()
        self._problem = next(iter(groups.neutralize_all(conf)), None)
        self._pinned = controller_list.PinnedAddresses(conf)
        self._forks = 0
        self._extension_started = False
        self._teller = None
        self._boot_options = ()
        if conf[network_conf.GROUP].supply_options:
            self._boot_options = boot_options.get_free_options(conf)
        self._live: list[live_options.LiveOptions] = []
        self._live_pid = None

    def begin(self):
        """Arrange for each part to start at its time."""
        if self._service == 'health_manager' and self._problem is None:
            # Now, before forks are counted.
            self._teller = hm_start.tell(self._conf)
            # Before any fork: children of the listener need it.
            importlib.import_module(
                'octavia_hmsync.sync.health_manager.lateness'
            ).Lateness(self._conf).register()
        if self._service == 'house_keeping':
            threading.Thread(target=self._start_when_configured,
                             name='hmsync-start', daemon=True).start()
        else:
            os.register_at_fork(after_in_parent=self._after_fork_in_parent,
                                after_in_child=self._after_fork_in_child)
        if self._service == 'health_manager' and self._problem is None and (
                self._conf[cluster_conf.GROUP].show_status):
            # Before any fork: a child of the first child needs it.
            importlib.import_module(
                'octavia_hmsync.cluster.status_floor'
            ).StatusFloor().register()

    def get_value(self, group, option):
        """Return a live list for a reader in this process, or None."""
        if self._live_pid != os.getpid():
            return None
        for live in self._live:
            if live.group == group:
                return live.get(option)
        return None

    def _start_when_configured(self):
        deadline = time.monotonic() + _LOGGING_TIMEOUT
        while (not std_logging.getLogger().handlers and
               time.monotonic() < deadline):
            time.sleep(0.05)
        if not self._start(keep_management_ports, self._start_live_values,
                           self._start_extension):
            self._serve_probes()

    def _after_fork_in_parent(self):
        if self._service != 'health_manager' or os.getpid() != self._main_pid:
            return
        self._forks += 1
        if listener.find_process() is not None:
            # The fork of the health check: the listener exists already.
            self._start_extension_once()
        elif self._forks == 2:
            # Without a third fork: the listener may have died before it.
            timer = threading.Timer(_FORKS_TIMEOUT,
                                    self._start_extension_once)
            timer.daemon = True
            timer.start()

    def _after_fork_in_child(self):
        if os.getppid() != self._main_pid:
            return
        if self._service == 'worker':
            self._start(keep_management_ports, self._start_live_values)
            if readiness.is_enabled(self._conf):
                self._start(self._start_extension)
        elif self._forks or listener.find_process() is not None:
            # Its parent has and logs the same problem.
            self._start(self._start_live_values, level=std_logging.DEBUG)

    def _start_extension_once(self):
        if not self._extension_started:
            self._extension_started = True
            if self._teller is not None:
                threading.Thread(target=hm_start.reap, args=(self._teller,),
                                 name='hmsync-start', daemon=True).start()
            if not self._start(self._start_extension):
                self._serve_probes()

    def _start(self, *parts, level=std_logging.ERROR):
        """Start parts; tell whether all were. If not, Octavia runs on."""
        if self._warning and level == std_logging.ERROR:
            LOG.warning('octavia-hmsync: %s', self._warning)
            # Once in each process.
            self._warning = None
        try:
            if self._problem:
                raise exceptions.InvalidConfiguration(self._problem)
            groups.check(self._conf, hmsync_conf)
            for part in parts:
                part()
            return True
        except exceptions.HMSyncException as e:
            problem: Exception = e
        except Exception as e:
            LOG.exception('octavia-hmsync failed to start:')
            problem = e
        # Outside the except block, as oslo.log would log it twice inside.
        LOG.log(level, 'octavia-hmsync is off in this process: %s', problem)
        return False

    def _serve_probes(self):
        """Answer probes although the plugin is off.

        The same option may be wrong on all health managers. Without an answer
        Kubernetes would restart all of them again and again, although Octavia
        works in them without the plugin.
        """
        option = f'{self._service}_metrics_address'
        try:
            # Imported here, because a broken library may be why the plugin
            # is off.
            exporter = importlib.import_module(
                'octavia_hmsync.metrics.export').Exporter(
                    option, self._conf.hmsync[option],
                    probes.Probes(self._make_fault_finder(), lambda: [
                        'octavia-hmsync is off in this process; its log says '
                        'why.']))
            exporter.start()
        except Exception:
            LOG.exception('octavia-hmsync cannot answer probes:')
        else:
            atexit.register(exporter.stop, 1)

    def _make_fault_finder(self):
        if self._service != 'health_manager':
            return list
        process, bind = listener.find_process(), self._conf.health_manager
        return listener.Processes(process and listener.Listener(
            process, bind.bind_ip, bind.bind_port)).find_faults

    def _start_live_values(self):
        addresses = controller_list.LiveControllerList(self._conf)
        self._live = [addresses, build_zone.LiveBuildZone(self._conf,
                                                          addresses.engine)]
        if self._boot_options:
            self._live.append(boot_options.LiveBootOptions(
                self._conf, self._boot_options))
        for live in self._live:
            live.start()
        self._live_pid = os.getpid()

    def _start_extension(self):
        extension: typing.Any = stevedore_driver.DriverManager(
            EXTENSIONS, self._service, invoke_on_load=True,
            invoke_args=(self._conf, self._pinned.get)).driver
        extension.start()
        atexit.register(extension.stop)
