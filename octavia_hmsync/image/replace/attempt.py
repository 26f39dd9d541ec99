# SPDX-License-Identifier: Apache-2.0

"""What the modes of a replacement share: who is next, may it begin, the lock.

Nothing is touched before the lock, and what can be told before is told then.
"""

import dataclasses

from oslo_log import log as logging

from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import lock as lock_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image import phases
from octavia_hmsync.image.preflight import verdict
from octavia_hmsync.image.replace import known_octavia
from octavia_hmsync.image import target

LOG = logging.getLogger(__name__)

# Seconds before a load balancer that Octavia works on is tried again.
BUSY_WAIT = 60
# Of a pair, one is done, and somebody else was faster for the other one.
_LOCK_TRIES = 30
_LOCK_PAUSE = 1

DIED = 'Whoever worked on it ended in the middle.'


class Gone(Exception):
    """The load balancer was deleted."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a replacement ended.

    :param state: DONE, FAILED, SKIPPED, REFUSED or CANCELLED.
    :param reason: why, in words.
    :param wait: seconds before which this load balancer is not tried again.
    """

    state: str
    reason: str | None = None
    wait: float | None = None


def skip(reason, wait=BUSY_WAIT):
    """Return the Outcome of one that could not be begun, or gone on with."""
    return Outcome(replace_repo.SKIPPED, reason, wait)


def refuse(reason):
    """Return the Outcome of one that has to be put right first.

    Nothing was touched: the fault is its own, and says nothing of the image.
    """
    return Outcome(replace_repo.REFUSED, reason)


def fail(reason):
    """Return the Outcome of one that has to be looked at."""
    return Outcome(replace_repo.FAILED, reason)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why something was not done.

    :param text: in words.
    :param is_passing: whether it is a service that does not answer, which
                       says nothing of the amphora.
    """

    text: str
    is_passing: bool = False

    def __str__(self):
        return self.text


class Attempt:
    """One replacement; a mode is a class below it.

    :param work: a Work.
    :param inventory: an inventory.Inventory.
    """

    # What begins with the lock.
    _first_phase: phases.Phase

    def __init__(self, work, inventory):
        self._work = work
        self._inventory = inventory
        # Ids of amphorae that this one has built.
        self._made: set[str] = set()
        # What is worth telling of those that are done.
        self._notes: list[str | None] = []
        self._is_permitted = False
        # What an operator has to know of the way back, why ever it was gone.
        self._remarks = ''

    def run(self):
        """Do what is left to do.

        :returns: an Outcome.
        :raises Lost: if somebody else has claimed it.
        :raises Stopped: if this process ends.
        :raises DBError: if the database cannot be used.
        """
        outcome = self._run()
        reason = (self._work.find_cancel() if self._work.was_interrupted or
                  outcome.state == replace_repo.SKIPPED else None)
        if reason is not None and outcome.state in (replace_repo.SKIPPED,
                                                    replace_repo.FAILED):
            outcome = Outcome(replace_repo.CANCELLED,
                              _add(reason, self._remarks))
        if outcome.state == replace_repo.DONE:
            return outcome
        return dataclasses.replace(outcome, reason=_add(
            outcome.reason, self._get_notes()))

    def _remark(self, text):
        self._remarks = f'{self._remarks} {text or ""}'.strip()

    def _run(self):
        try:
            following = phases.after_death(self._work.phase)
            if following is not phases.Next.AGAIN:
                LOG.warning('Replacement of load balancer %s is taken up: '
                            'whoever worked on it ended in phase %s.',
                            self._work.load_balancer_id, self._work.phase)
                outcome = self._take_up(following)
                if outcome.state != replace_repo.DONE:
                    return outcome
                self._notes.append(outcome.reason)
            return self._replace_all()
        except Gone:
            return skip('it was deleted', None)

    def _take_up(self, following):
        """Go on with what somebody died with, under the lock.

        :param following: a Next.
        :returns: an Outcome; DONE if there may be more to do.
        """
        raise NotImplementedError

    def _replace(self):
        """Replace .old_id of the work, under the lock, and give it back.

        :returns: an Outcome.
        """
        raise NotImplementedError

    def _end(self):
        """Return the Outcome where nothing is left to be replaced."""
        return Outcome(replace_repo.DONE, self._get_notes() or None)

    def _get_notes(self):
        return ' '.join(filter(None, self._notes))

    def _replace_all(self):
        """Replace one amphora after the other, while one is outdated."""
        while True:
            load_balancer = self._inventory.get(self._work.load_balancer_id)
            if load_balancer is None:
                raise Gone
            old = self._find_old(load_balancer)
            if not old:
                return self._end()
            reason = self._work.find_cancel()
            if reason is not None:
                return Outcome(replace_repo.CANCELLED, reason)
            outcome = (self._check(load_balancer) or
                       self._begin(self._choose(old)))
            if outcome.state != replace_repo.DONE:
                return outcome
            self._notes.append(outcome.reason)

    def _begin(self, old_id):
        self._work.old_id, self._work.new_id = old_id, None
        silent = self._find_silent()
        if silent:
            # Its owner is not locked out for that, again and again.
            return skip(silent)
        if not self._lock(old_id):
            return skip('Octavia, or its owner, works on it')
        # It may have changed before the lock.
        blocks = self._get_blocks(
            self._inventory.get(self._work.load_balancer_id))
        if blocks:
            return self._unlock(self._say_blocked(blocks))
        return self._replace()

    def _find_silent(self):
        """Tell what does not answer, None where that is no matter."""
        return None

    def _find_old(self, load_balancer):
        """Return the amphorae that are left to be replaced."""
        replacement = self._work.replacement
        if not replacement.forced:
            return outdated.get_outdated(load_balancer,
                                         replacement.target_image_id)
        evidence = self._work.read().amphorae
        begun = replacement.started_at
        # Those that were there before it began.
        return [amphora for amphora in outdated.get_allocated(load_balancer)
                if amphora.id not in self._made and
                amphora.id in evidence and
                (evidence[amphora.id].created_at or begun) <= begun]

    def _choose(self, old):
        """Return the id of the next one: that which has the VIP goes last."""
        vip = self._get_model().vip.ip_address
        holding = self._work.find_holders(old, vip)
        return min(old, key=lambda amphora: bool(holding[amphora.id])).id

    def _check(self, load_balancer):
        """Return the Outcome if something is in the way, None if not."""
        blocks = self._get_blocks(load_balancer)
        if blocks:
            return self._say_blocked(blocks)
        if self._is_permitted:
            return None
        replacement = self._work.replacement
        problem = self._why_not()
        if problem:
            return fail(problem)
        targets = target.Targets(self._work.conf)
        found = verdict.judge(self._work.conf, self._work.engine,
                              load_balancer, targets, replacement.mode, True)
        if found.failures:
            reason = ' '.join(found.failures)
            if found.is_passing:
                return skip(reason)
            return refuse(reason) if found.is_tenants else fail(reason)
        image_id = targets.get(load_balancer.tag).image_id
        if image_id != (replacement.target_image_id or image_id):
            return skip(f'the next amphora would be of image {image_id}, '
                        f'which is newer than this replacement', None)
        self._is_permitted = True
        return None

    def _why_not(self):
        """Tell why the installed Octavia is unknown, None if it is not."""
        return known_octavia.why_not(self._work.replacement.mode)

    def _get_blocks(self, load_balancer):
        """Return what is in the way, but for a lock, which may pass."""
        if load_balancer is None:
            raise Gone
        return [str(block) for block in outdated.get_blocks(
            load_balancer, self._work.replacement.target_image_id)
            if block is not outdated.Blocked.PENDING]

    @staticmethod
    def _say_blocked(blocks):
        return skip(f'in the way: {", ".join(blocks)}')

    def _get_model(self):
        try:
            return self._work.get_load_balancer()
        except exceptions.NotProven:
            raise Gone from None

    def _lock(self, old_id):
        for attempt in range(_LOCK_TRIES if self._made else 1):
            if attempt:
                self._work.pause(_LOCK_PAUSE)
            self._work.check()
            if lock_repo.lock(self._work.engine, self._work.replacement,
                              self._work.owner, self._work.expiry,
                              self._first_phase, old_id):
                self._work.phase = self._first_phase
                return True
        return False

    def _unlock(self, outcome):
        lock_repo.unlock(self._work.engine, self._work.replacement,
                         self._work.owner, self._work.expiry,
                         phases.Phase.LOCK)
        self._work.phase = phases.Phase.LOCK
        return outcome

    def _survive(self, function, *arguments):
        """Call what may fail.

        :returns: the Problem, None if it did not fail.
        :raises Lost, Stopped: as Work.check().
        :raises DBError: if the database cannot be used.
        """
        try:
            with self._work.interruptible():
                function(*arguments)
            return None
        except exceptions.Interrupted:
            raise
        except exceptions.HMSyncException as e:
            problem = Problem(str(e), isinstance(
                e, exceptions.CloudUnavailable))
        except Exception as e:
            if api.is_database_error(e):
                raise
            # Octavia's drivers, and the libraries of four services.
            LOG.exception('Replacement of load balancer %s:',
                          self._work.load_balancer_id)
            problem = Problem(
                f'{type(e).__name__}, see the log of the housekeeper '
                f'{self._work.conf.host}.')
        LOG.warning('Replacement of load balancer %s, phase %s: %s',
                    self._work.load_balancer_id, self._work.phase, problem)
        return problem


def _add(reason, more):
    """Add sentences to a reason, which may end without a full stop."""
    return f'{reason.rstrip(".")}. {more}' if more else reason
