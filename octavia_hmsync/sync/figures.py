# SPDX-License-Identifier: Apache-2.0

"""Figures of health managers and amphorae, from the database."""

import collections
import contextlib
import datetime
import time

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.metrics import reading
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import progress as progress_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial

ABSENT = 'ABSENT'
NONE = 'NONE'

_STATUSES = (mem.ONLINE, mem.DRAINING, mem.OFFLINE)
_GENERATION_STATUSES = (*trial.TRIAL_STATUSES, trial.OPEN,
                        trial.ROLLED_BACK)


class Fleet:
    """Reads figures of all; every housekeeper serves the same."""

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        # When each amphora was first seen that is to be uploaded to again.
        self._seen = {}

    def read(self):
        """Return the figures, a list of metrics."""
        members = hm_repo.get_all(self._engine)
        newest = generation_repo.get_newest(self._engine)
        return [*self._health_managers(members),
                *self._uploaders(),
                *self._generation(newest, members),
                *self._amphorae(newest, members)]

    def _health_managers(self, members):
        opts = self._conf.hmsync
        members = [m for m in members if not m.is_further]
        statuses = collections.Counter(mem.effective_status(
            m.status, m.keepalive_age, opts.offline_after) for m in members)
        silent = sum(m.status != mem.OFFLINE and mem.is_silent(
            m.keepalive_age, opts.offline_after) for m in members)
        overloaded = sum(mem.is_overloaded(
            m, self._conf.health_manager.heartbeat_timeout) for m in members)
        pinned = keeper_repo.get_pinned(
            self._engine, opts.offline_after + opts.removal_delay)
        mismatches = heartbeat_key.find_others(
            self._conf.health_manager.heartbeat_key,
            hm_repo.get_key_digests(self._engine, opts.offline_after))
        return [
            reading.gauge_by(
                'status', 'health_managers', 'Registered health managers.',
                {status: statuses[status] for status in _STATUSES}),
            reading.gauge('silent_health_managers', 'Health managers that '
                          'ended without taking their leave.', silent),
            reading.gauge('overloaded_health_managers', 'Health managers '
                          'where Octavia ignored heartbeats within the last '
                          'heartbeat_timeout, as these had waited.',
                          overloaded),
            reading.gauge('pinned_addresses', 'Addresses that are published '
                          'because configuration files list them.',
                          len(pinned)),
            reading.gauge(
                'heartbeat_key_mismatches', 'Health managers that are up '
                'with another heartbeat key than this housekeeper.',
                len(mismatches))]

    def _uploaders(self):
        max_age = self._conf.hmsync.offline_after
        uploaders = uploader_repo.get_all(self._engine)
        blind = reach.get_blind(uploaders, max_age)
        keepers = keeper_repo.get_up(self._engine, max_age)
        return [
            reading.gauge_by(
                'house_keeper', 'house_keeper_stuck', 'Housekeepers that are '
                'up: 1 for one that uploads nothing, and says why.',
                {host: int(problem is not None)
                 for host, problem in keepers.items()}),
            reading.gauge_by(
                'uploader', 'uploader_blind', 'Services that look for '
                'amphorae to upload to: 1 for a service that cannot reach '
                'what others reach.',
                {u.name: int(u in blind) for u in uploaders
                 if reach.is_up(u, max_age)})]

    def _generation(self, newest, members):
        suspects = trial.get_suspects(
            generation_repo.get_suspects(self._engine), members)
        ages = generation_repo.get_ages(self._engine)
        return [
            reading.gauge('generation_number', 'Number of the newest list; 0 '
                          'for none.', newest.number if newest else 0),
            reading.gauge_by(
                'status', 'generation_status', 'Status of the newest list: 1 '
                'if this is the status.',
                {status: int(newest is not None and newest.status == status)
                 for status in _GENERATION_STATUSES}),
            reading.gauge('generation_age_seconds', 'Seconds since the newest '
                          'list was published.', ages.newest),
            reading.gauge(
                'generation_completed', 'Whether every amphora has had the '
                'newest list.', None if newest is None
                else int(newest.completed_at is not None)),
            reading.gauge('published_addresses', 'Addresses in the newest '
                          'list.', len(newest.addresses) if newest else 0),
            reading.gauge('suspect_addresses', 'Addresses that are left out '
                          'since a roll back.', len(suspects)),
            reading.gauge('last_roll_back_age_seconds', 'Seconds since a list '
                          'was rolled back.', ages.roll_back),
            reading.gauge(
                'uploads_paused', 'Whether an operator has paused uploads.',
                int(pause_repo.get(self._engine) is not None)),
            reading.gauge(
                'held_hosts', 'Compute hosts that an operator holds, so that '
                'failovers wait.', len(host_hold_repo.get_all(self._engine))),
            reading.gauge(
                'drained_zones', 'Compute zones that an operator drains.',
                len(drain_repo.get_all(self._engine)))]

    def _amphorae(self, newest, members):
        counts = amphora_repo.count(self._engine,
                                    newest.number if newest else 0)
        adoptions = amphora_repo.count_adoptions(
            self._engine, members, timing.Settings.from_conf(self._conf))
        results = {result: counts.results.get(result, 0)
                   for result in upload_result.ALL}
        results[NONE] = counts.amphorae - sum(results.values())
        return [
            reading.gauge('amphorae', 'Amphorae with an agent.',
                          counts.amphorae),
            reading.gauge('due_amphorae', 'Amphorae that are not at the '
                          'newest list, for any reason.', counts.due),
            reading.gauge('oldest_due_age_seconds', 'For how long the amphora '
                          'that waits longest has been due; 0 for none.',
                          self._oldest_due_age()),
            reading.gauge_by('result', 'amphorae_by_result', 'Amphorae by the '
                             'result of the last attempt.', results),
            reading.gauge_by(
                'adoption', 'amphorae_by_adoption', 'Amphorae that '
                'acknowledged a list, by whether they use it.',
                {state.value: adoptions[state]
                 for state in adoption.Adoption}),
            reading.gauge(
                'amphora_certificates_ending', 'Amphorae whose certificate '
                'ends within three days, or has ended.',
                len(amphora_repo.get_ending_certificates(self._engine))),
            reading.gauge_by(
                'certificate', 'certificate_ends_timestamp_seconds', 'When '
                'it ends: the first one of an amphora, or a certificate of '
                'this octavia.conf.', self._read_certificate_ends())]

    def _read_certificate_ends(self):
        ends = {'amphora': amphora_repo.get_first_certificate_end(
            self._engine)}
        for group in agent_client.CERTIFICATES:
            # The log and "upgrade check" tell what cannot be read.
            with contextlib.suppress(OSError, ValueError):
                ends.update((option, last) for option, (_first, last) in
                            agent_client.get_validity(self._conf,
                                                      group).items())
        return {name: end.replace(tzinfo=datetime.timezone.utc).timestamp()
                for name, end in ends.items() if end is not None}

    def _oldest_due_age(self):
        age = progress_repo.get_oldest_age(self._engine)
        now = self._clock()
        self._seen = {amphora_id: self._seen.get(amphora_id, now)
                      for amphora_id in progress_repo.get_again(self._engine)}
        return max([age, *(now - since for since in self._seen.values())])


class HealthManager:
    """Reads figures of one health manager, and of the failover guards."""

    def __init__(self, conf, engine, instance):
        self._conf = conf
        self._engine = engine
        self._instance = instance

    def read(self):
        """Return the figures, a list of metrics."""
        own = ABSENT
        member = hm_repo.find(self._engine, self._conf.host, self._instance)
        if member is not None:
            own = mem.effective_status(member.status, member.keepalive_age,
                                       self._conf.hmsync.offline_after)
        return [reading.gauge_by(
            'status', 'health_manager_status', 'How this health manager '
            'stands in the database: 1 for the status that it has.',
            {status: int(status == own) for status in (*_STATUSES, ABSENT)}),
            reading.gauge(
                'held_amphorae', 'Amphorae that the failover guards of all '
                'health managers hold back from failover now.',
                hold_repo.count_held(
                    self._engine,
                    self._conf.health_manager.heartbeat_timeout))]
