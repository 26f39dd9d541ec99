#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""When, and in which process of a service, the plugin begins to work.

A configuration source is opened while the service parses its configuration:
before logging, before any fork. What touches the database or starts a thread
has to wait until the process that it is for exists:

* octavia-housekeeping does not fork; its logging being set up tells that the
  configuration is parsed.
* octavia-worker: each child of the main process.
* octavia-health-manager: the main process after its second fork (a database
  connection or a thread before it breaks the listener), and the second
  child, the health check, which renders the configuration of the amphorae
  that it builds in a failover. The listener needs nothing.
"""

import atexit
import logging as std_logging
import os
import threading
import time

from oslo_log import log as logging
from stevedore import driver as stevedore_driver

from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync import controller_list
from octavia_hmsync import exceptions
from octavia_hmsync.health_manager import listener

LOG = logging.getLogger(__name__)

EXTENSIONS = 'octavia_hmsync.extensions'

_LOGGING_TIMEOUT = 10


class Lifecycle:
    """Starts the parts of the plugin in one service.

    :param conf: the oslo.config object that Octavia reads, being parsed.
    :param service: health_manager, house_keeping or worker.
    """

    def __init__(self, conf, service):
        self._conf = conf
        self._service = service
        self._main_pid = os.getpid()
        self._problem = hmsync_conf.neutralize(conf)
        self._pinned = controller_list.PinnedAddresses(conf)
        self._extension_started = False
        self._live_list = None
        self._live_list_pid = None

    def begin(self):
        """Have everything started when its time comes."""
        if self._service == 'house_keeping':
            threading.Thread(target=self._start_when_configured,
                             name='hmsync-start', daemon=True).start()
        else:
            os.register_at_fork(after_in_parent=self._after_fork_in_parent,
                                after_in_child=self._after_fork_in_child)

    def controller_list(self):
        """Return the live list, for a reader in this process.

        :returns: a list of addresses, or None if this process has none.
        """
        if self._live_list is None or self._live_list_pid != os.getpid():
            return None
        return self._live_list.get()

    def _start_when_configured(self):
        deadline = time.monotonic() + _LOGGING_TIMEOUT
        while (not std_logging.getLogger().handlers and
               time.monotonic() < deadline):
            time.sleep(0.05)
        self._start(self._start_live_list, self._start_extension)

    def _after_fork_in_parent(self):
        if (self._service == 'health_manager' and
                os.getpid() == self._main_pid and
                not self._extension_started and
                listener.find_process() is not None):
            # The fork of the health check: the listener was there before.
            self._extension_started = True
            self._start(self._start_extension)

    def _after_fork_in_child(self):
        if os.getppid() != self._main_pid:
            return
        if self._service == 'worker':
            self._start(self._start_live_list)
        elif listener.find_process() is not None:
            # Its parent has the same reason not to work, and tells it.
            self._start(self._start_live_list, level=std_logging.DEBUG)

    def _start(self, *parts, level=std_logging.ERROR):
        """Start parts of the plugin; Octavia runs on if they cannot be."""
        try:
            if self._problem:
                raise exceptions.InvalidConfiguration(self._problem)
            hmsync_conf.check(self._conf)
            for part in parts:
                part()
            return
        except exceptions.HMSyncException as e:
            problem = e
        except Exception as e:
            LOG.exception('octavia-hmsync failed to start:')
            problem = e
        # Not in the except block, where oslo.log would say it twice.
        LOG.log(level, 'octavia-hmsync is off in this process: %s', problem)

    def _start_live_list(self):
        live_list = controller_list.LiveControllerList(self._conf)
        live_list.start()
        self._live_list = live_list
        self._live_list_pid = os.getpid()

    def _start_extension(self):
        extension = stevedore_driver.DriverManager(
            EXTENSIONS, self._service, invoke_on_load=True,
            invoke_args=(self._conf, self._pinned.get)).driver
        extension.start()
        atexit.register(extension.stop)
