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

"""A thread that does one thing again and again, and never dies of it."""

import threading

from oslo_log import log as logging

from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)


class PeriodicThread:
    """Calls a function at an interval, whatever it raises.

    The database being down is one WARNING when it begins and one INFO when
    it ends, whatever else comes is logged with its traceback; the next
    interval is the retry. No call is made before the plugin's tables are
    there.

    :param name: what it does, for the log.
    :param function: called without arguments.
    :param interval: seconds between the end of a call and the next.
    :param engine: an SQLAlchemy engine.
    """

    def __init__(self, name, function, interval, engine):
        self._name = name
        self._function = function
        self._interval = interval
        self._engine = engine
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._schema_checked = False
        self._problem = None
        self._thread = threading.Thread(
            target=self._run, name=f'hmsync-{name}', daemon=True)

    @property
    def stopping(self):
        """The threading.Event that stop() sets."""
        return self._stopping

    def start(self):
        """Begin, with a first call at once."""
        self._thread.start()

    def wake(self):
        """Have the next call made now."""
        self._wake.set()

    def stop(self, timeout):
        """Make no more calls, and wait for the one that is under way.

        :param timeout: seconds to wait.
        """
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout)

    def _run(self):
        while not self._stopping.is_set():
            self._wake.clear()
            self._call()
            self._wake.wait(self._interval)

    def _call(self):
        try:
            if not self._schema_checked:
                self._check_schema()
            self._function()
        except exceptions.HMSyncException as e:
            self._report(str(e))
        except Exception as e:
            if api.is_database_error(e):
                # The tables may be others when it comes back.
                self._schema_checked = False
                self._report('The database cannot be used: '
                             f'{api.describe(e)}. octavia-hmsync tries again '
                             f'every {self._interval} s; Octavia runs on.')
            else:
                LOG.exception('octavia-hmsync: %s failed; it is tried again '
                              'in %s s.', self._name, self._interval)
        else:
            if self._problem:
                LOG.info('octavia-hmsync: %s works again.', self._name)
            self._problem = None

    def _check_schema(self):
        with self._engine.connect() as connection:
            try:
                schema.check(connection)
            except exceptions.SchemaNewer as e:
                LOG.warning('%s It goes on working with them meanwhile.', e)
        self._schema_checked = True

    def _report(self, problem):
        if problem != self._problem:
            LOG.warning('octavia-hmsync (%s): %s', self._name, problem)
        self._problem = problem
