# SPDX-License-Identifier: Apache-2.0

"""Options of Octavia that follow the database, in one process."""

import threading

from oslo_log import log as logging

from octavia_hmsync.db import api
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)


class LiveOptions:
    """Keeps options of one group at what the database has, as overrides.

    An override takes effect at once, where oslo.config keeps for good what a
    configuration source has returned.

    :param conf: the oslo.config object that Octavia reads.
    :param name: what it follows, for the log.
    :param group: the group of the options.
    :param options: their names.
    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    # A reader that comes before the first look waits for it this long.
    FIRST_LOOK_TIMEOUT = 10

    def __init__(self, conf, name, group, options):
        self._conf = conf
        self._name = name
        self.group = group
        self._options = tuple(options)
        self._engine = api.create_engine(conf)
        self._looked = threading.Event()
        self._values = {}
        # What was logged last of each.
        self._said = {}
        self._thread = periodic.PeriodicThread(
            name, self._look, conf.hmsync.poll_interval, self._engine)

    def start(self):
        """Begin to follow the database."""
        # Drops what was cached before the fork, so that a reader that comes
        # before the first look asks get().
        for option in self._options:
            self._conf.clear_override(option, group=self.group)
        self._thread.start()

    def stop(self):
        """Stop following it."""
        self._thread.stop(timeout=1)

    def get(self, option):
        """Return an option's value for a reader that comes too early.

        :param option: its name.
        :returns: a list, or None if none is known.
        """
        if option not in self._options:
            return None
        if threading.current_thread().name != f'hmsync-{self._name}':
            self._looked.wait(self.FIRST_LOOK_TIMEOUT)
        return self._values.get(option)

    def _read(self):
        """Read the values.

        :returns: ({option: list}, what to add to the log line); None to
                  leave all as it is.
        """
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
            # Each time: a reader that was under way while the override was
            # set can have put the old value back into oslo.config's cache.
            if value is None:
                self._conf.clear_override(option, group=self.group)
            else:
                self._conf.set_override(option, value, group=self.group)
            said = value and f'{", ".join(value)}{comment}'
            if said != self._said.get(option):
                LOG.info('[%s] %s is now %s.', self.group, option,
                         said or 'empty')
            self._said[option] = said
        self._values = values
