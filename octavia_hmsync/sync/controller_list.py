# SPDX-License-Identifier: Apache-2.0

"""The live controller_ip_port_list in an Octavia process."""

import typing

from oslo_log import log as logging

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions
from octavia_hmsync import live_options
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import timing

LOG = logging.getLogger(__name__)

GROUP = 'health_manager'
OPTION = 'controller_ip_port_list'


class PinnedAddresses:
    """The addresses of the configuration itself, before any override."""

    def __init__(self, conf):
        self._configured: typing.Sequence[str] = conf[GROUP][OPTION] or []
        # As they stand there.
        self.unreadable: set[str] = set()
        conf.register_mutate_hook(self._on_mutate)

    def get(self):
        """Return the well-formed addresses.

        Malformed ones are reported once: an amphora would drop such an entry
        and every address after it.
        """
        pinned = []
        for entry in filter(None, self._configured):
            try:
                pinned.append(addr.format_address(*addr.parse_address(entry)))
            except exceptions.InvalidAddress as e:
                if entry not in self.unreadable:
                    self.unreadable.add(entry)
                    LOG.error('[%s] %s: %s This entry is ignored; correct or '
                              'remove it.', GROUP, OPTION, e)
        return addr.canonical(pinned)

    def _on_mutate(self, conf, fresh):
        if (GROUP, OPTION) in fresh:
            _old, new = fresh[GROUP, OPTION]
            # A value from the file is not converted yet at this point.
            raw = ','.join(new) if isinstance(new, list) else new or ''
            self._configured = addr.split_list(raw)


class LiveControllerList(live_options.LiveOptions):
    """Keeps the option at the newest good generation.

    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    def __init__(self, conf):
        super().__init__(conf, 'controller list', GROUP, (OPTION,))

    def _read(self):
        # A new amphora should not become a canary.
        generation = (generation_repo.get_last_good(self.engine) or
                      generation_repo.get_newest(self.engine))
        if generation is None:
            return None
        length = timing.Settings.from_conf(self._conf).max_list_length
        # The zone of an amphora that is to be built is unknown here.
        addresses, where = (generation.boot_part(self._conf.host, length),
                            f' (generation {generation.number})')
        own = heartbeat_key.digest(self._conf.health_manager.heartbeat_key)
        if None not in (own, generation.key_digest) and (
                own != generation.key_digest):
            # An amphora boots with the key of this controller. During a change
            # of the key it may be ahead of the list, or behind it.
            hearing = self._find_hearing(own)
            if hearing:
                addresses, where = (
                    subset.subset(self._conf.host, hearing, length),
                    ' (those with this heartbeat_key)')
        return {OPTION: addr.for_agents(addresses)}, where

    def _find_hearing(self, own):
        """Return the addresses that listen with a key, with their slots."""
        members = hm_repo.get_all(self.engine)
        hearing = addr.canonical(
            m.address for m in members if m.key_digest == own and
            m.status == mem.ONLINE and not mem.is_silent(
                m.keepalive_age, self._conf.hmsync.offline_after))
        return {address: slot for slot, address in enumerate(hearing)}
