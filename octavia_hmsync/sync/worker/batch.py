# SPDX-License-Identifier: Apache-2.0

"""The work on one batch of claimed amphorae."""

import collections
import contextlib
import random
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import agent_config
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import zones as zn
from octavia_hmsync.sync.worker import targets

LOG = logging.getLogger(__name__)

# Of the pauses between two attempts at the same amphora, in retry_interval:
# what is gone for good is tried rarely, and a new list always at once.
_LONGEST_PAUSE = 60

_FAILURES = {
    upload_result.UNREACHABLE: payloads.AmphoraUnreachable,
    upload_result.REJECTED: payloads.AmphoraRejected,
    upload_result.UNSUPPORTED: payloads.AmphoraUnsupported,
}


class Batch:
    """Claims amphorae, uploads to them, and records the results.

    As a context manager it releases all its claims in the end, whatever
    happens.

    :param generation: the Generation that they get.
    """

    def __init__(self, conf, engine, generation: generation_repo.Generation,
                 owner, uploads_from, notifier=outbox.NOWHERE):
        self._scout = uploads_from
        self._conf = conf
        self._engine = engine
        self._generation = generation
        self._number = generation.number
        self._owner = owner
        self._notifier = notifier
        # Digests of the key of the list, and of the key that is uploaded.
        self._wanted_key = generation.key_digest
        self._key_digest: str | None = None
        self._counts: collections.Counter[str] = collections.Counter()
        self._is_wanted = True
        self._asked_at = time.monotonic()
        self._claimed: dict = {}
        self._claimed_until = 0.0
        # Most claims of this batch that the database may have.
        self._left = 0
        # Whether an agent may have a list that is not recorded.
        self._is_uploading = False

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc, traceback):
        if not self._left:
            return
        give_back = (claim_repo.release if self._is_uploading
                     else claim_repo.give_back)
        try:
            give_back(self._engine, self._owner)
        except Exception as e:
            if exc is None:
                raise
            # The first error matters to the operator.
            LOG.info('The claims of batch %s are not given back (%s); they '
                     'lapse by themselves.', self._owner, type(e).__name__)

    def claim(self, limit, admitted_to=None, not_admitted_to=None):
        """Claim what is due, as claim_due(); tell if run() has work."""
        asked_at = time.monotonic()
        # Set before: the answer may be lost.
        self._left = limit
        self._claimed = {a.id: a for a in claim_repo.claim_due(
            self._engine, self._number, self._owner, limit,
            self._conf.hmsync.claim_expiry, admitted_to, not_admitted_to,
            self._scout.name)}
        self._left = len(self._claimed)
        self._claimed_until = asked_at + min(
            (a.claimed_for for a in self._claimed.values()), default=0)
        return bool(self._claimed)

    def run(self, uploader, on_all_begun):
        """Upload, record each result as it comes; return {result: number}."""
        claimed = self._claimed
        lists = self._choose_lists(claimed)
        unconcerned = [amphora for amphora in claimed.values() if
                       amphora.addresses == lists[amphora.id] and
                       amphora.result == upload_result.APPLIED and
                       self._wanted_key in (None, amphora.key_digest)]
        self._record([outcome_repo.Outcome(a.id, upload_result.APPLIED,
                                           lists[a.id], uploaded=False)
                      for a in unconcerned])
        others = [claimed[amphora_id] for amphora_id in
                  claimed.keys() - {a.id for a in unconcerned}]
        # Amphorae that failed come last, because they take long.
        others.sort(key=lambda a: a.result not in (None,
                                                   upload_result.APPLIED))
        uploads = self._render(others, lists)
        client = agent_client.create_client(self._conf)
        self._is_uploading = True
        chunks = uploader.upload_all(client, uploads, self._may_begin,
                                     on_all_begun)
        with contextlib.closing(chunks):
            try:
                for answers in chunks:
                    answers = self._leave_gone(answers)
                    self._scout.note({upload.amphora_id: answer
                                      for upload, answer in answers})
                    outcomes = [self._outcome(claimed[upload.amphora_id],
                                              lists[upload.amphora_id],
                                              answer)
                                for upload, answer in answers]
                    recorded = self._record(outcomes)
                    self._notify(claimed, [o for o in outcomes
                                           if o.amphora_id in recorded])
                    self._ask_whether_wanted()
            finally:
                self._is_wanted = False
        self._is_uploading = False
        return dict(self._counts)

    def _choose_lists(self, amphora_ids):
        length = timing.Settings.from_conf(self._conf).max_list_length
        zones = self._generation.zones
        names = zone_repo.get_names(self._engine, zones.values(),
                                    amphora_ids) if zones else {}
        return {amphora_id: self._generation.part_for(
            amphora_id, names.get(amphora_id, zn.NOWHERE), length)
            for amphora_id in amphora_ids}

    def _render(self, amphorae, lists):
        renderer = agent_config.AgentConfigRenderer(self._conf)
        self._key_digest = heartbeat_key.digest(renderer.heartbeat_key)
        # SIGHUP may change the key at any time.
        if self._wanted_key not in (None, self._key_digest):
            raise exceptions.InvalidConfiguration(
                'No amphora is configured: [health_manager] heartbeat_key '
                'was changed here meanwhile.')
        return [agent_client.Upload(
            a.id, a.lb_network_ip, renderer.render(
                a.id, agent_config.topology_for(a.topology, a.role,
                                                self._conf), lists[a.id]))
                for a in amphorae]

    def _may_begin(self):
        """Tell whether another upload may begin."""
        # An upload must end before the claim lapses and another batch may
        # claim the amphora.
        return self._is_wanted and (time.monotonic() <
                                    self._claimed_until -
                                    self._conf.hmsync.upload_timeout)

    def _ask_whether_wanted(self):
        """Begin no more uploads after a later generation, or in a pause."""
        now = time.monotonic()
        if now - self._asked_at >= self._conf.hmsync.poll_interval:
            self._asked_at = now
            self._is_wanted = targets.is_wanted(self._engine, self._number)

    def _leave_gone(self, answers):
        """Leave out failures of amphorae that were deleted or replaced since.

        Nothing is recorded for them.
        """
        failed = {upload.amphora_id for upload, answer in answers
                  if answer.error}
        gone = failed and failed - amphora_repo.find_wanted(self._engine,
                                                            failed)
        return [(upload, answer) for upload, answer in answers
                if upload.amphora_id not in gone]

    def _outcome(self, amphora, addresses, answer):
        retry_after = None
        if answer.error:
            retry_after = self._retry_after(amphora.attempts)
            if self._is_news(amphora, answer):
                LOG.warning('Amphora %s is %s: %s. It is tried again in '
                            '%d s.', amphora.id, answer.result, answer.error,
                            retry_after)
        return outcome_repo.Outcome(amphora.id, answer.result, addresses,
                                    answer.error, retry_after,
                                    is_unanswered=answer.is_unanswered,
                                    seconds=answer.seconds)

    def _record(self, outcomes):
        self._counts.update(outcome.result for outcome in outcomes)
        if not outcomes:
            return set()
        recorded = outcome_repo.record(self._engine, self._number,
                                       self._owner, outcomes, self._key_digest,
                                       self._scout.name,
                                       self._conf.hmsync.offline_after)
        self._left -= len(recorded)
        return recorded

    def _notify(self, claimed, outcomes):
        for outcome in outcomes:
            amphora = claimed[outcome.amphora_id]
            told = (amphora.id, amphora.load_balancer_id, self._number)
            if not self._is_news(amphora, outcome):
                continue
            if outcome.error:
                self._notifier.send(_FAILURES[outcome.result](
                    *told, types.storable(outcome.error)))
            elif amphora.has_failed:
                self._notifier.send(payloads.AmphoraRecovered(*told))

    def _retry_after(self, attempts):
        delay = self._conf.hmsync.retry_interval * (
            min(2 ** min(attempts, 16), _LONGEST_PAUSE))
        # Amphorae that failed together must not be retried together.
        return delay * random.uniform(1, 1.25)  # nosec B311

    def _is_news(self, amphora, answer):
        """Tell whether the last attempt ended in another way.

        Failures of an uploader that is blind, and has logged so, are no news.
        """
        return answer.result != amphora.result and not (
            answer.is_unanswered and self._scout.is_blind)
