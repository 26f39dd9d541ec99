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

"""The live controller_ip_port_list in an Octavia process."""

import threading
import typing

from oslo_log import log as logging

from octavia_hmsync.db import api
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync import exceptions
from octavia_hmsync.membership import addresses as addr
from octavia_hmsync.membership import subset
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

GROUP = 'health_manager'
OPTION = 'controller_ip_port_list'


class PinnedAddresses:
    """What the configuration itself lists, before the live list covers it.

    :param conf: a parsed oslo.config object on which no override is set yet.
    """

    def __init__(self, conf):
        self._configured: typing.Sequence[str] = conf[GROUP][OPTION] or []
        self._reported: set[str] = set()
        conf.register_mutate_hook(self._on_mutate)

    def get(self):
        """Return the well-formed ones among them.

        A malformed one is reported once: an amphora would drop it and every
        address after it.

        :returns: a tuple of addresses.
        """
        pinned = []
        for entry in self._configured:
            try:
                pinned.append(addr.format_address(*addr.parse_address(entry)))
            except exceptions.InvalidAddress as e:
                if entry not in self._reported:
                    self._reported.add(entry)
                    LOG.error('[%s] %s: %s This entry is ignored; correct or '
                              'remove it.', GROUP, OPTION, e)
        return addr.canonical(pinned)

    def _on_mutate(self, conf, fresh):
        if (GROUP, OPTION) in fresh:
            _old, new = fresh[GROUP, OPTION]
            # What comes from the file here is not converted yet.
            raw = ','.join(new) if isinstance(new, list) else new or ''
            self._configured = addr.split_list(raw)


class LiveControllerList:
    """Keeps the option at the newest good generation, as an override.

    An override takes effect at once, where oslo.config keeps for good what a
    configuration source has returned.

    :param conf: the oslo.config object that Octavia reads.
    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    # A reader that comes before the first look waits for it this long.
    FIRST_LOOK_TIMEOUT = 10

    def __init__(self, conf):
        self._conf = conf
        self._engine = api.create_engine(conf)
        self._looked = threading.Event()
        self._addresses = None
        self._number = None
        self._thread = periodic.PeriodicThread(
            'controller list', self._look, conf.hmsync.poll_interval,
            self._engine)

    def start(self):
        """Begin to follow the newest good generation."""
        # Drops what was cached before the fork, so that a reader that comes
        # before the first look asks get().
        self._conf.clear_override(OPTION, group=GROUP)
        self._thread.start()

    def stop(self):
        """Stop following it."""
        self._thread.stop(timeout=1)

    def get(self):
        """Return the list for a reader that comes before the override.

        :returns: a list of addresses, or None if none is known.
        """
        if threading.current_thread().name != 'hmsync-controller list':
            self._looked.wait(self.FIRST_LOOK_TIMEOUT)
        return self._addresses

    def _look(self):
        try:
            # A new amphora is no canary, unless there is nothing better.
            generation = (generation_repo.get_last_good(self._engine) or
                          generation_repo.get_newest(self._engine))
            if generation is not None:
                self._apply(generation)
        finally:
            self._looked.set()

    def _apply(self, generation):
        health_manager = self._conf.health_manager
        addresses = list(subset.subset(
            self._conf.host, generation.slots, subset.max_list_length(
                health_manager.heartbeat_timeout,
                health_manager.heartbeat_interval)))
        # Each time: a reader that was under way while the override was set
        # can have put the old value back into oslo.config's cache.
        self._conf.set_override(OPTION, addresses, group=GROUP)
        self._addresses = addresses
        if generation.number != self._number:
            LOG.info('[%s] %s is now %s (generation %d).', GROUP, OPTION,
                     addr.join_list(addresses), generation.number)
        self._number = generation.number
