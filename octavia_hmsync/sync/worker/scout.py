# SPDX-License-Identifier: Apache-2.0

"""How an uploader finds out whether it can reach amphorae, and acts on it."""

import contextlib
import threading
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import reach

LOG = logging.getLogger(__name__)

HOUSEKEEPING = 'octavia-housekeeping'
WORKER = 'octavia-worker'

# Seconds between two probes while no amphora answers.
PROBE_INTERVAL = 30


def get_name(service, host):
    """Return an uploader's name; services of a host may differ in reach."""
    return f'{service} on {host}'


def is_worker(uploader):
    """Tell whether a reach.Uploader is an octavia-worker."""
    return uploader.name.startswith(f'{WORKER} ')


class Scout:
    """Tells how many amphorae an uploader may claim.

    Any number while it reaches amphorae, none while only other uploaders do.
    It learns from its uploads whether it does; while these fail, it probes
    amphorae that another uploader has reached.

    :param probe: called with a list of lb_network_ip; tells whether one of
                  them answers.
    """

    def __init__(self, conf, engine, service, clock=time.monotonic,
                 probe=None):
        self.name = get_name(service, conf.host)
        self.is_blind = False
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._probe = probe or (
            lambda ips: agent_client.does_anybody_answer(conf, ips))
        self._lock = threading.Lock()
        self._has_reached = False
        # The last errors of agents that answered and took no request, by
        # amphora, since the last agent that took one.
        self._refusals: dict[str, str] = {}
        self._own = None
        # Whether uploads have ended since that was read.
        self._is_stale = False
        self._is_starting = False
        self._touched_at = None
        self._probed_at = None

    def may_claim(self):
        """Tell whether allowance() would allow anything now."""
        with self._lock:
            allowed, is_slow = self._look(1)
            return allowed > 0 and not (is_slow and self._is_starting)

    @contextlib.contextmanager
    def allowance(self, limit):
        """Enter to claim so many, leave when the batch has ended."""
        with self._lock:
            allowed, is_slow = self._look(limit)
            if is_slow and self._is_starting:
                allowed = 0
            is_start = is_slow and allowed > 0
            self._is_starting = self._is_starting or is_start
        try:
            yield allowed
        finally:
            if is_start:
                with self._lock:
                    self._is_starting = False

    def find_problem(self):
        """Return why uploads from here reach no amphora, or None."""
        if self._is_stale:
            self._is_stale = False
            with self._lock:
                self._own, _others = self._get()
        if self._own is not None and (reach.is_suspect(self._own) or
                                      self._are_many(self._own.failures)):
            return (f'No agent of an amphora answers here: check the route '
                    f'from here to TCP {self._conf.haproxy_amphora.bind_port} '
                    f'of amphorae, their security group and firewalls.')
        refusals = dict(self._refusals)
        if self._are_many(len(refusals)):
            return (f'None of the last {len(refusals)} agents that answered '
                    f'here could be used, the last one as '
                    f'{list(refusals.values())[-1]}.')
        return None

    def _are_many(self, failures):
        """Tell whether too many failed for chance; in a small fleet, all."""
        return reach.is_systematic(failures) or 0 < failures and (
            failures >= amphora_repo.count(self._engine, 0).amphorae)

    def note(self, answers):
        """Note {id of an amphora: agent_client.Answer}."""
        if not all(answer.is_unanswered for answer in answers.values()):
            self._has_reached = True
        self._is_stale = True
        for amphora_id, answer in answers.items():
            if answer.result != upload_result.UNREACHABLE:
                self._refusals = {}
            elif not answer.is_unanswered:
                self._refusals[amphora_id] = answer.error

    def _look(self, limit):
        self._touch()
        own, others = self._get()
        if own.failing_since is not None and self._find_way(own):
            own, others = self._get()
        self._own = own
        max_age = self._conf.hmsync.offline_after
        allowed = reach.batch_limit(own, others, max_age, limit,
                                    self._has_reached)
        self._report(reach.is_suspect(own))
        return allowed, reach.is_slow_start(own, others, max_age,
                                            self._has_reached)

    def _touch(self):
        now = self._clock()
        opts = self._conf.hmsync
        if (self._touched_at is None or
                now - self._touched_at >= opts.keepalive_interval):
            uploader_repo.touch(self._engine, self.name, opts.offline_after)
            self._touched_at = now

    def _get(self):
        uploaders = {u.name: u for u in uploader_repo.get_all(self._engine)}
        if self.name not in uploaders:
            # An operator has emptied the table.
            uploader_repo.touch(self._engine, self.name,
                                self._conf.hmsync.offline_after)
            uploaders = {u.name: u for u in
                         uploader_repo.get_all(self._engine)}
        own = uploaders.pop(self.name)
        return own, list(uploaders.values())

    def _find_way(self, own):
        """Probe amphorae, not too often; True if that changed anything."""
        now = self._clock()
        if (self._probed_at is not None and
                now - self._probed_at < PROBE_INTERVAL):
            return False
        self._probed_at = now
        reachable = uploader_repo.get_reachable(self._engine, self.name)
        if self._probe(list(reachable)):
            uploader_repo.set_reached(self._engine, self.name)
            self._has_reached = True
            return True
        overtaken = reach.count_overtaken(own, reachable.values())
        if overtaken and not reach.is_suspect(own):
            uploader_repo.set_overtaken(self._engine, self.name,
                                        own.overtaken + overtaken)
            return True
        return False

    def _report(self, is_blind):
        if is_blind and not self.is_blind:
            LOG.warning(
                'This controller cannot reach the agents of amphorae that '
                'others reach, so %s leaves the uploads to these. Check the '
                'route to the amphora management network, its security group '
                'and firewalls: TCP %d of amphorae from this controller.',
                self.name, self._conf.haproxy_amphora.bind_port)
        elif self.is_blind and not is_blind:
            LOG.info('This controller can reach the agents of amphorae '
                     'again: %s uploads to them.', self.name)
        self.is_blind = is_blind
