# SPDX-License-Identifier: Apache-2.0

"""Records which members of clusters the health managers do not hear.

Managers of clusters read it from hmsync_member_probe. Octavia has no part in
it.
"""

import dataclasses
import datetime
import time

from oslo_log import log as logging
from oslo_utils import timeutils

from octavia_hmsync.cluster.db import member_health as health_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import shown_status
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.sync.health_manager import hearing

LOG = logging.getLogger(__name__)

# Rounds in each heartbeat_timeout.
_ROUNDS = 8

_HEARD = probe_repo.Result(probe_repo.UP)
_UNHEARD = probe_repo.Result(probe_repo.UP, 'No health manager could hear it.')


@dataclasses.dataclass(frozen=True)
class _Sign:
    """A last heartbeat, and when this process first saw it as the last.

    :param last_update: when it came, by the clock of its health manager.
    :param since: by the clock of this watch, seconds.
    """

    last_update: datetime.datetime
    since: float


class MemberWatch:
    """Checks the members of clusters once per run_once().

    A member is silent if all of this holds: none of its heartbeats was
    recorded for heartbeat_timeout, by the clocks of this controller and of the
    database; this process saw no new one for half of that; and a health
    manager could have heard it. While the control plane cannot hear a member,
    the member is not declared dead.

    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._checked_at = None
        # Last heartbeats of members that were not heard for half a
        # heartbeat_timeout, by amphora id.
        self._signs = {}

    def run_once(self):
        """Check the members, if it is time.

        :raises DBError: if the database cannot be used.
        """
        if self._conf[cluster_conf.GROUP].show_status:
            self._lower()
        now = self._clock()
        timeout = self._conf.health_manager.heartbeat_timeout
        if (self._checked_at is not None and
                now - self._checked_at < timeout / _ROUNDS):
            return
        found = health_repo.scan(self._engine, timeout / 2)
        if found.unmarked:
            self._keep_from_failover(found.unmarked)
        self._check(found.late, now, timeout)
        # Only after success: a failed check is repeated at once.
        self._checked_at = now

    def _lower(self):
        for load_balancer_id, status in shown_status.lower(
                self._engine).items():
            LOG.info('Load balancer %s is shown as %s, as its cluster is.',
                     load_balancer_id, status)

    def _keep_from_failover(self, unmarked):
        for amphora_id in health_repo.keep_from_failover(self._engine,
                                                         unmarked):
            LOG.warning('Amphora %s is a member of a cluster, and Octavia '
                        'would have failed it over when it fell silent: its '
                        'row in amphora_health had been changed. It is right '
                        'again.', amphora_id)

    def _check(self, late, now, timeout):
        if (self._checked_at is None or
                now - self._checked_at > 3 * timeout / _ROUNDS):
            # We have not watched meanwhile.
            self._signs = {}
        rows = health_repo.get_late(self._engine, late) if late else []
        known = {member_id for member_id, result in
                 probe_repo.get_of_observer(
                     self._engine, probe_repo.HEARTBEATS).items()
                 if result.state == probe_repo.DOWN}
        before, self._signs = self._signs, {}
        silent = []
        for row in rows:
            sign = before.get(row.id)
            is_same = sign and sign.last_update == row.last_update
            self._signs[row.id] = (sign if is_same else
                                   _Sign(row.last_update, now))
            # A silent member stays silent until its next heartbeat.
            if (row.member_id in known and (is_same or not sign) or
                    self._is_silent(row, now, timeout)):
                silent.append(row)
        unheard = set(hearing.find_unheard(self._conf, self._engine, silent,
                                           None))
        self._record(known, {row.member_id: row for row in silent
                             if row.id not in unheard},
                     {row.member_id for row in silent if row.id in unheard})

    def _record(self, known, silent, unheard):
        results = {member_id: _UNHEARD if member_id in unheard else _HEARD
                   for member_id in known - silent.keys()}
        for member_id in silent.keys() - known:
            results[member_id] = probe_repo.Result(
                probe_repo.DOWN,
                f'No heartbeat since {silent[member_id].last_update:%F %T}, '
                f'though it could have been heard.')
        if not results:
            return
        changed = probe_repo.record(self._engine, probe_repo.HEARTBEATS,
                                    results)
        for member_id in changed:
            # Another health manager may have recorded and logged the same.
            if member_id in silent:
                LOG.warning('Amphora %s, a member of the cluster %s, is '
                            'silent: no heartbeat for %d s, though health '
                            'managers could have heard it.',
                            silent[member_id].id, silent[member_id].cluster_id,
                            self._conf.health_manager.heartbeat_timeout)
            else:
                LOG.info('Member %s of a cluster is not silent any more%s.',
                         member_id, ': no health manager could hear it'
                         if member_id in unheard else '')

    def _is_silent(self, row, now, timeout):
        """Tell whether it was silent for long enough by all clocks."""
        age = timeutils.utcnow() - row.last_update
        age_there = row.now - row.last_update
        return (min(age, age_there).total_seconds() >= timeout and
                now - self._signs[row.id].since >= timeout / 2 - timeout /
                _ROUNDS)
