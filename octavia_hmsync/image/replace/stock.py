# SPDX-License-Identifier: Apache-2.0

"""Mode failover: Octavia's own, one amphora after the other.

It is for load balancers that mode replace cannot handle. An octavia-worker
does the failover under a lock that is taken for it, and unlocks the load
balancer or marks it ERROR. The result is proven before another amphora is
touched, because Octavia ignores listeners that a new amphora does not take.

A message may wait in a queue for workers that are down. So no message is sent
twice, and a load balancer is never unlocked here after one was sent.
"""

import enum
import time
import typing

from oslo_log import log as logging

from octavia_hmsync import compat
from octavia_hmsync.compat import workers as compat_workers
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import phases
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import whole_prover

LOG = logging.getLogger(__name__)

# Seconds between two looks at the worker's progress.
_INTERVAL = 1
# Seconds after which another node of Galera must have received the lock.
_LAG = 15


class Progress(enum.Enum):
    """How far a worker has got with a failover."""

    NOT_BEGUN = enum.auto()
    GOES_ON = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()
    GIVEN_BACK = enum.auto()
    """Another process unlocked the load balancer; nothing was done."""


def judge(load_balancer, old_id):
    """Tell how far a worker has got.

    It marks the old amphora before anything else, and unlocks the load
    balancer at the end.
    """
    is_untouched = any(
        amphora.status == compat.AMPHORA_ALLOCATED and not amphora.is_busy
        for amphora in load_balancer.amphorae if amphora.id == old_id)
    if load_balancer.status == compat.ERROR:
        return Progress.FAILED
    if load_balancer.status == compat.ACTIVE:
        return Progress.GIVEN_BACK if is_untouched else Progress.DONE
    return Progress.NOT_BEGUN if is_untouched else Progress.GOES_ON


class Stock(attempt.Attempt):
    """One replacement, by failovers."""

    _first_phase = phases.Phase.ASK

    def __init__(self, work, inventory):
        super().__init__(work, inventory)
        self._prover = whole_prover.WholeProver(work)
        self._workers: typing.Any = None
        self._is_proven = False

    def _take_up(self, following):
        if following is phases.Next.WAIT:
            return self._wait(self._get_others())
        # No worker was asked.
        return self._unlock(attempt.Outcome(replace_repo.DONE))

    def _begin(self, old_id):
        # No failover beside an amphora that does not serve.
        if not self._is_proven:
            error = self._survive(self._prove_others, old_id)
            if error:
                return attempt.skip(f'Nothing was begun. {error}')
        with compat_workers.Workers() as workers:
            error = self._survive(self._connect, workers)
            if error:
                return attempt.skip(str(error))
            self._workers = workers
            self._prover.remember()
            return super()._begin(old_id)

    def _prove_others(self, old_id):
        others = set(self._work.read().amphorae) - {old_id}
        if others:
            self._prover.prove_all(others)

    @staticmethod
    def _connect(workers):
        try:
            workers.connect()
        except Exception as e:
            # Any error of the messaging library; its text may hold a password.
            raise exceptions.CloudUnavailable(
                f'The octavia-workers cannot be asked for a failover, '
                f'because what takes the messages for them does not answer '
                f'({type(e).__name__}). See whether RabbitMQ runs, and '
                f'[DEFAULT] transport_url in octavia.conf.') from e

    def _replace(self):
        others = self._get_others()
        self._work.enter(phases.Phase.FAILOVER)
        try:
            self._workers.ask_for_failover(self._work.old_id)
        except compat_workers.Undeliverable:
            self._work.enter(phases.Phase.ASK)
            return self._unlock(attempt.skip(
                'there is no octavia-worker that could be asked for a '
                'failover: start one'))
        except Exception as e:
            LOG.warning('It is not known whether an octavia-worker was asked '
                        'to fail amphora %s over (%s). If none does so within '
                        '%s s its replacement has failed.',
                        self._work.old_id, type(e).__name__,
                        self._work.options.failover_timeout)
        # The failover may take half an hour.
        self._workers.close()
        return self._wait(others)

    def _get_others(self):
        """Return the ids of the amphorae from before the new one.

        A housekeeper that takes the work up finds the new one there already,
        and usually in the row.
        """
        return set(self._work.read().amphorae) - {self._work.old_id,
                                                  self._work.new_id}

    def _wait(self, others):
        """Wait for the worker, and check the result; others are not new."""
        timeout = self._work.options.failover_timeout
        deadline = time.monotonic() + timeout
        given_back_at = None
        while True:
            load_balancer = self._inventory.get(self._work.load_balancer_id)
            if load_balancer is None:
                raise attempt.Gone
            self._record_new(load_balancer, others)
            progress = judge(load_balancer, self._work.old_id)
            if progress is Progress.DONE:
                return self._go_on()
            now = time.monotonic()
            if progress is not Progress.GIVEN_BACK:
                given_back_at = None
            elif given_back_at is None:
                given_back_at = now
            elif now - given_back_at >= _LAG:
                break
            if progress is Progress.FAILED or now > deadline:
                break
            self._work.pause(_INTERVAL)
        return attempt.fail(self._explain(progress, timeout))

    def _record_new(self, load_balancer, others):
        for amphora in load_balancer.amphorae:
            if self._work.new_id is None and amphora.id not in {
                    *others, self._work.old_id}:
                self._work.new_id = amphora.id
                self._made.add(amphora.id)
                self._work.enter(phases.Phase.FAILOVER,
                                 new_amphora_id=amphora.id)

    def _explain(self, progress, timeout):
        old_id, lb_id = self._work.old_id, self._work.load_balancer_id
        if progress is Progress.GIVEN_BACK:
            return (f'Load balancer {lb_id} was unlocked before a '
                    f'worker had failed amphora {old_id} over.')
        if progress is Progress.FAILED:
            return (f'Octavia could not fail amphora {old_id} over, and load '
                    f'balancer {lb_id} is in ERROR: the log of octavia-worker '
                    f'says why. See "octavia-hmsync image restore {lb_id}".')
        if progress is Progress.NOT_BEGUN:
            return (f'No octavia-worker has begun to fail amphora {old_id} '
                    f'over within {timeout} s. Load balancer {lb_id} stays '
                    f'as it is, for one may still do so: see whether they and '
                    f'RabbitMQ run, and then "octavia-hmsync image restore '
                    f'{lb_id}".')
        return (f'The octavia-worker that fails amphora {old_id} over is not '
                f'done after {timeout} s. Load balancer {lb_id} is left to '
                f'it: see its log, and where it has died "octavia-hmsync '
                f'image restore {lb_id}".')

    def _go_on(self):
        """Check that all is well, so that another one may be failed over."""
        blocks = self._get_blocks(
            self._inventory.get(self._work.load_balancer_id))
        error = (f'in the way: {", ".join(blocks)}.' if blocks
                 else self._survive(self._check_place) or
                 self._survive(self._prover.prove_all))
        if error:
            return attempt.fail(
                f'Amphora {self._work.old_id} was failed over, and what came '
                f'of it is not as it should be: {error} No other one was '
                f'touched.')
        self._is_proven = True
        self._work.enter(phases.Phase.LOCK)
        return attempt.Outcome(replace_repo.DONE)
