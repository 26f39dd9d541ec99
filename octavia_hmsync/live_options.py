# SPDX-License-Identifier: Apache-2.0

"""Options of Octavia that follow the database, in one process."""

import threading

from oslo_log import log as logging

from octavia_hmsync.db import api
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)


class LiveOptions:
    """Keeps options of one group at their values in the database.

    It uses overrides, which take effect at once: oslo.config would keep a
    value of a configuration source for good.

    :param engine: that of other LiveOptions of this process, or None.
    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    # Seconds for which an early reader waits for the first look.
    FIRST_LOOK_TIMEOUT = 10

    def __init__(self, conf, name, group, options, engine=None):
        self._conf = conf
        self._name = name
        self.group = group
        self._options = tuple(options)
        self.engine = engine or api.create_engine(conf)
        self._looked = threading.Event()
        self._values = {}
        # The value of each option that was logged last.
        self._said = {}
        self._thread = periodic.PeriodicThread(
            name, self._look, conf.hmsync.poll_interval, self.engine)

    def start(self):
        """Begin to follow the database."""
        # Drops what was cached before the fork. A reader before the first
        # look then calls get().
        for option in self._options:
            self._conf.clear_override(option, group=self.group)
        self._thread.start()

    def stop(self):
        """Stop following the database."""
        self._thread.stop(timeout=1)

    def get(self, option):
        """Return an option's value for an early reader, None if not known."""
        if option not in self._options:
            return None
        if threading.current_thread().name != f'hmsync-{self._name}':
            self._looked.wait(self.FIRST_LOOK_TIMEOUT)
        return self._values.get(option)

    def _read(self):
        """Return ({option: value}, a text for the log), None for no change."""
        raise NotImplementedError()

    def _look(self):
        try:
            found = self._read()
            if found is not None:
                self._apply(*found)
        finally:
            self._looked.set()

    def _apply(self, values, comment):
        for option in self._options:
            value = values.get(option)
            # Set every time: a concurrent reader may have put the old value
            # back into oslo.config's cache.
            if value is None:
                self._conf.clear_override(option, group=self.group)
            else:
                self._conf.set_override(option, value, group=self.group)
            text = value if isinstance(value, str) else ', '.join(value or ())
            said = value and f'{text}{comment}'
            if said != self._said.get(option):
                LOG.info('[%s] %s is now %s.', self.group, option,
                         said or 'as in octavia.conf')
            self._said[option] = said
        self._values = values
