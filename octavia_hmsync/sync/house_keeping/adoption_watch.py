# SPDX-License-Identifier: Apache-2.0

"""Proves adoption where no health manager can, and reports its absence."""

import functools
import time

from oslo_log import log as logging

from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import heartbeats
from octavia_hmsync.sync.rules import timing

LOG = logging.getLogger(__name__)


class AdoptionWatch:
    """Looks once per run_once() at the amphorae whose list is in doubt."""

    def __init__(self, conf, engine, clock=time.monotonic,
                 notifier=outbox.NOWHERE):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._watch = heartbeats.HeartbeatWatch()
        self._notifier = notifier

    def run_once(self):
        """Look once; return how many were found to use their list."""
        settings = timing.Settings.from_conf(self._conf)
        # During a sync thousands of amphorae cannot be judged yet.
        max_age = 2 * adoption.time_to_wait(settings.heartbeat_timeout)
        unproven = doubt_repo.get_unproven(
            self._engine, min_age=adoption.time_to_adopt(
                settings.heartbeat_interval), max_age=max_age)
        if not unproven:
            self._watch = heartbeats.HeartbeatWatch()
            return 0
        noted = heartbeat_repo.get_heartbeats(self._engine, max_age=max_age)
        managers = listening_repo.get_health_managers(self._engine, settings)
        self._name(unproven, doubt_repo.judge(
            unproven, noted, managers.members, settings))
        left = self._rule_out(
            [row for row in unproven if row.amphora_id not in noted and
             row.is_certain and not row.is_held], managers)
        for row, previous in left:
            if previous and previous != row.doubt.previous:
                doubt_repo.set_previous(self._engine, row, previous)
        proven = [row for row, previous in left if not previous]
        if not proven:
            return 0
        return doubt_repo.set_adopted(self._engine, proven)

    def _rule_out(self, unproven, managers):
        """Return (Unproven, lists that it may still be using) of each."""
        self._watch.sample(self._clock(), {
            _key(row): heartbeats.NO_NEWS if row.last_update is None
            else row.last_update for row in unproven},
            {a for a in managers.addresses if managers.may_listen(a)})
        heard = [row for row in unproven if self._is_heard(_key(row))]
        history = (generation_repo.get_history(self._engine)
                   if any(row.doubt.unknown for row in heard) else ())
        settings = managers.settings
        known_before = functools.partial(_known_before, history,
                                         settings.max_list_length)
        return [(row, adoption.rule_out_by_gaps(
            row.doubt, self._watch.listened(_key(row)), known_before,
            self._watch.longest_gap(_key(row)),
            self._watch.watched_for(_key(row)), settings)) for row in heard]

    def _is_heard(self, key):
        """Tell whether a health manager that is registered by now heard it."""
        heard_for = self._watch.heard_for(key)
        return (heard_for is not None and
                heard_for >= 2 * self._conf.hmsync.keepalive_interval)

    def _name(self, unproven, judged):
        """Report amphorae that go on with an old list, each once."""
        new = doubt_repo.set_not_adopted(self._engine, [
            row for row in unproven if not row.is_named and
            judged[row.amphora_id] is adoption.Adoption.NOT_ADOPTED])
        if new:
            LOG.warning(
                '%d amphorae acknowledge a new controller_ip_port_list and '
                'go on with an old one: their images are from before the fix '
                'of bug 2121691 (or the new addresses are out of their '
                'reach). Bring them to a newer image ("octavia-hmsync image '
                'replace") before the health managers that they know are '
                'gone: %s.', len(new),
                ', '.join(sorted(new)))
        for payload in payloads.split(payloads.AmphoraNotAdopted, new):
            self._notifier.send(payload)


def _key(row):
    return row.amphora_id, row.applied_at


def _known_before(history, max_list_length, number):
    """Return the addresses that an amphora can have had before a generation.

    Before the first generation, these may be the addresses it booted with.
    Where amphorae get subsets, it may be another subset of the same list.
    """
    before = [g for g in history if number is None or g.number < number or
              (g.number == number and len(g.addresses) > max_list_length)]
    return {address for generation in before or history[:1]
            for address in generation.addresses}
