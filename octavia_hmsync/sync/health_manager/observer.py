# SPDX-License-Identifier: Apache-2.0

"""Learns from heartbeats which amphorae use the list they acknowledged."""

import time

from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member as mem

# Seconds after which an overdue amphora may prove adoption again, for example
# after a restart of its agent.
_RENEWAL = 3600
# Up to this many amphorae in doubt are read at once. During a sync of a large
# fleet there are thousands, and each process of a health manager hears only
# few of them before it reads again.
_FEW = 500
# Beyond that, up to this many are looked up one by one before all are read
# again. The limit matters because a sender with the heartbeat key can make up
# any number of ids.
_LOOK_UPS = 2000
# Amphorae may be overdue (in doubt for long) for ever. In each
# heartbeat_timeout the ids of one page of them are read, in turn. So many are
# looked up when they are heard, until all is read again.
_OVERDUE_PAGE = 500
_OVERDUE_LOOK_UPS = 5
_OVERDUE_INTERVAL = 600


class AdoptionObserver:
    """Judges each heartbeat that this health manager receives.

    The row of its host says at which address heartbeats arrive. If that row
    belongs to another process under the same name, the last known address of
    this process counts, or none.

    Every half heartbeat_interval it reads which amphorae are in doubt. When
    these are many, it looks up the sender of a heartbeat instead. It writes
    only what is new. Overdue amphorae cost the same however many they are:
    each is looked up now and then, as its agent may have restarted. While an
    operator waits for this health manager to drain, all are looked up.
    """

    def __init__(self, conf, engine, instance, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._instance = instance
        self._clock = clock
        self._read_at = None
        self._are_many = False
        self._unproven = {}
        self._heard = {}
        self._looked_up = {}
        # When each overdue amphora was last looked up; the page of this turn,
        # and where the next page begins.
        self._overdue = {}
        self._turn = []
        self._after = None
        self._page_read_at = None
        # The first is its own, the others are in further networks.
        self._addresses = []
        self._is_heard = None
        self._is_draining = False
        self._key_digest = None

    def observe_any(self):
        """Note a heartbeat of any amphora; DBError may be raised."""
        self._refresh()
        if self._is_heard is False:
            hm_repo.set_heard(self._engine, self._conf.host, self._instance)
            self._is_heard = True

    def observe(self, amphora_id, delay=0.0):
        """Note a heartbeat with statistics.

        :raises DBError: if the database cannot be used; the next heartbeat
                         makes up for this one.
        """
        self._refresh()
        if not self._addresses:
            return
        unproven, ages, read_at = self._look_up(amphora_id)
        if unproven is None or not unproven.is_certain:
            return
        interval = self._conf.health_manager.heartbeat_interval
        since_read = self._clock() - read_at - delay
        doubt = adoption.Doubt(
            unproven.doubt.addresses, unproven.doubt.previous,
            unproven.doubt.age + since_read)
        if not adoption.has_had_time(doubt.age, interval):
            return
        address = adoption.find_receiver(doubt, self._addresses)
        if address is None:
            return
        heard = {
            each: since_read + age for each, age in ages.items()
            if adoption.has_had_time(unproven.doubt.age - age, interval)}
        period = heard.get(address)
        # If the keys differ, the heartbeat was not signed with the key that
        # came with the list.
        has_key = None in (self._key_digest, unproven.key_digest) or (
            self._key_digest == unproven.key_digest)
        if has_key and adoption.is_proven_by_receivers(
                doubt, address, set(heard), period, interval):
            doubt_repo.set_adopted(self._engine, [unproven],
                                   address)
            self._unproven.pop(amphora_id, None)
            self._looked_up[amphora_id] = None, {}, read_at
        elif (adoption.is_worth_noting(doubt, address, interval) and
                self._is_news(doubt, address, period)):
            heartbeat_repo.note_heartbeat(self._engine, amphora_id,
                                          address, delay)
            ages[address] = -since_read
            if amphora_id in self._overdue:
                # Until its next heartbeat, which may prove it.
                self._overdue[amphora_id] = float('-inf')

    def _look_up(self, amphora_id):
        """Return (its Unproven or None, {address: seconds since}, when)."""
        if amphora_id in self._unproven:
            return (self._unproven[amphora_id],
                    self._heard.setdefault(amphora_id, {}), self._read_at)
        if amphora_id not in self._looked_up:
            if not self._are_many and not self._is_its_turn(amphora_id):
                return None, {}, self._read_at
            if len(self._looked_up) >= _LOOK_UPS:
                # A later heartbeat makes up for this one.
                return None, {}, self._read_at
            self._looked_up[amphora_id] = self._read(amphora_id)
        return self._looked_up[amphora_id]

    def _is_its_turn(self, amphora_id):
        """Tell whether to look up an amphora that may be overdue."""
        if (amphora_id not in self._overdue or
                len(self._looked_up) >= _OVERDUE_LOOK_UPS):
            return False
        now = self._clock()
        rounds = len(self._overdue) // _OVERDUE_LOOK_UPS
        interval = self._conf.health_manager.heartbeat_interval
        if now - self._overdue[amphora_id] < max(
                _OVERDUE_INTERVAL, rounds * interval / 2):
            return False
        self._overdue[amphora_id] = now
        return True

    def _read_overdue(self, now, min_age):
        if (self._page_read_at is not None and now - self._page_read_at <
                self._conf.health_manager.heartbeat_timeout):
            return
        self._page_read_at = now
        page = doubt_repo.get_overdue_page(self._engine, self._after,
                                           _OVERDUE_PAGE, min_age)
        self._turn += [amphora_id for _, amphora_id in page]
        for amphora_id in self._turn[-len(page):] if page else ():
            self._overdue.setdefault(amphora_id, float('-inf'))
        self._after = page[-1] if len(page) == _OVERDUE_PAGE else None
        if self._after is None:
            # That was the last page; amphorae on none are no longer in doubt.
            self._overdue = {amphora_id: self._overdue[amphora_id]
                             for amphora_id in self._turn}
            self._turn = []

    def _read(self, amphora_id):
        read_at = self._clock()
        rows = doubt_repo.get_unproven(self._engine, amphora_id=amphora_id)
        if not rows:
            return None, {}, read_at
        heard = heartbeat_repo.get_heartbeats(self._engine, amphora_id)
        return rows[0], heard.get(amphora_id, {}), read_at

    def _is_news(self, doubt, address, period):
        if period is None:
            return True
        if adoption.is_same(period,
                            self._conf.health_manager.heartbeat_interval):
            # Too early for an amphora to send.
            return False
        if self._is_draining and address not in doubt.addresses:
            # The drain waits for the last proof.
            return True
        if not adoption.is_overdue(
                doubt.age, self._conf.health_manager.heartbeat_timeout):
            return True
        return period > _RENEWAL

    def _refresh(self):
        now = self._clock()
        interval = self._conf.health_manager.heartbeat_interval
        if (self._read_at is not None and
                now - self._read_at < interval / 2):
            return
        # Before the query, so that a database that is down is not asked
        # with each heartbeat.
        self._read_at = now
        self._are_many = False
        self._unproven = {}
        self._heard = {}
        self._looked_up = {}
        own, further = hm_repo.find_all(self._engine, self._conf.host,
                                        self._instance)
        if own is not None:
            self._addresses = [own.address, *further]
        self._is_heard = own and own.is_heard
        self._is_draining = own is not None and own.status == mem.DRAINING
        self._key_digest = own and own.key_digest
        max_age = None if self._is_draining else 2 * adoption.time_to_wait(
            self._conf.health_manager.heartbeat_timeout)
        rows = doubt_repo.get_unproven(self._engine, max_age=max_age,
                                       limit=_FEW + 1)
        self._are_many = len(rows) > _FEW
        if rows and not self._are_many:
            self._heard = heartbeat_repo.get_heartbeats(self._engine,
                                                        max_age=max_age)
            self._unproven = {row.amphora_id: row for row in rows}
        if max_age is not None:
            self._read_overdue(now, max_age)
