# SPDX-License-Identifier: Apache-2.0

"""The common part of all modes of a replacement: choice, checks and the lock.

Nothing is changed before the lock, and all checks that need no lock are made
before it.
"""

import dataclasses

from oslo_log import log as logging

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.image import causes
from octavia_hmsync.image.db import lock as lock_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image import phases
from octavia_hmsync.image.preflight import run as preflight
from octavia_hmsync.image.replace import known_octavia
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image import target
from octavia_hmsync.image import whereabouts

LOG = logging.getLogger(__name__)

# Seconds until a load balancer that Octavia works on is tried again.
BUSY_WAIT = 60
# The first amphora of a pair is replaced; another owner may hold the lock for
# the second.
_LOCK_TRIES = 30
_LOCK_PAUSE = 1

DIED = 'The housekeeper that worked on it ended in the middle.'


class Gone(Exception):
    """The load balancer was deleted."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a replacement.

    :param state: DONE, FAILED, SKIPPED, REFUSED or CANCELLED.
    :param wait: seconds until this load balancer may be tried again.
    """

    state: str
    reason: str | None = None
    wait: float | None = None


def skip(reason, wait=BUSY_WAIT):
    """Return the Outcome of an attempt that cannot begin or go on now."""
    return Outcome(replace_repo.SKIPPED, reason, wait)


def refuse(reason):
    """Return the Outcome for a load balancer that must be repaired first.

    Nothing was changed: the fault is its own, not the image's.
    """
    return Outcome(replace_repo.REFUSED, reason)


def fail(reason):
    """Return the Outcome for a replacement that an operator has to look at."""
    return Outcome(replace_repo.FAILED, reason)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why something was not done; is_passing: a service did not answer."""

    text: str
    is_passing: bool = False

    def __str__(self):
        return self.text


class Attempt:
    """One replacement; each mode is a subclass."""

    # The phase that begins with the lock.
    _first_phase: phases.Phase

    def __init__(self, work, inventory):
        self._work = work
        self._inventory = inventory
        # Ids of amphorae that this attempt has built.
        self._made: set[str] = set()
        # Remarks on amphorae that are done.
        self._notes: list[str | None] = []
        self._is_permitted = False
        # Where to build, if that does not depend on Octavia's options.
        self._zone: str | None = None
        # Problems of the way back, for the operator.
        self._remarks = ''

    def run(self):
        """Do what is left to do, or raise Lost, Stopped or DBError."""
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
                            'its housekeeper ended in phase %s.',
                            self._work.load_balancer_id, self._work.phase)
                outcome = self._take_up(following)
                if outcome.state != replace_repo.DONE:
                    return outcome
                self._notes.append(outcome.reason)
            return self._replace_all()
        except Gone:
            return skip('it was deleted', None)

    def _take_up(self, following: phases.Next):
        """Continue a dead owner's work, locked; DONE: more may be left."""
        raise NotImplementedError

    def _replace(self):
        """Replace .old_id of the work, under the lock, and unlock."""
        raise NotImplementedError

    def _end(self):
        """Return the Outcome if nothing is left to be replaced."""
        return Outcome(replace_repo.DONE, self._get_notes() or None)

    def _get_notes(self):
        return ' '.join(filter(None, self._notes))

    def _replace_all(self):
        """Replace amphorae one after the other, while one is outdated."""
        while True:
            self._settle()
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

    def _settle(self):
        """Wait for what is in the way, and passes by itself."""

    def _begin(self, old_id):
        self._work.old_id, self._work.new_id = old_id, None
        silent = self._find_silent()
        if silent:
            # Do not lock out its owner for that, again and again.
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
        """Tell which amphorae do not answer; None if that does not matter."""
        return None

    def _find_old(self, load_balancer):
        """Return the amphorae that are still to be replaced."""
        replacement = self._work.replacement
        if not replacement.forced:
            return self._select().find(load_balancer,
                                       replacement.target_image_id)
        evidence = self._work.read().amphorae
        begun = replacement.started_at
        # Only amphorae from before the replacement.
        return [amphora for amphora in outdated.get_allocated(load_balancer)
                if amphora.id not in self._made and
                amphora.id in evidence and
                (evidence[amphora.id].created_at or begun) <= begun]

    def _select(self):
        """Return a whereabouts.Selection that asks all services anew."""
        return whereabouts.Selection(
            self._work.conf, self._work.engine,
            whereabouts.get_cause(self._work.replacement))

    def _check_place(self):
        """Raise NotProven if the new amphora is where the old one was."""
        selection = self._select()
        if selection.is_by_image:
            return
        load_balancer = self._inventory.get(self._work.load_balancer_id)
        if load_balancer is None:
            raise Gone
        if selection.cause.kind is causes.Kind.BALANCE:
            self._check_balance(selection, load_balancer)
            return
        amphorae = [dataclasses.replace(
            amphora, status=compat.AMPHORA_ALLOCATED)
            for amphora in load_balancer.amphorae
            if amphora.id == self._work.new_id]
        if selection.find(dataclasses.replace(load_balancer,
                                              amphorae=tuple(amphorae))):
            raise exceptions.NotProven(
                f'The new amphora {self._work.new_id} would have to leave '
                f'{selection.cause.describe()}, too, and is not taken.')

    def _check_balance(self, selection, load_balancer):
        """Raise NotProven if the new amphora is in a zone with too many."""
        zones = {amphora.id: amphora.zone
                 for amphora in load_balancer.amphorae}
        zone = zones.get(self._work.new_id)
        if zone in {each.zone for each in selection.find(load_balancer)}:
            raise exceptions.NotProven(
                f'The new amphora {self._work.new_id} came to zone {zone}, '
                f'which has more amphorae than others: see in the log of '
                f'octavia-housekeeping why none could be built elsewhere.')

    def _choose(self, old):
        """Return the id of the next one: the VIP's holder goes last."""
        vip = self._get_model().vip.ip_address
        holding = self._work.find_holders(old, vip)
        return min(old, key=lambda amphora: bool(holding[amphora.id])).id

    def _check(self, load_balancer):
        """Return the Outcome if something blocks it, None if not."""
        blocks = self._get_blocks(load_balancer)
        if blocks:
            return self._say_blocked(blocks)
        self._zone = self._select().find_zone(load_balancer)
        if self._is_permitted:
            return None
        replacement = self._work.replacement
        problem = self._why_not()
        if problem:
            return fail(problem)
        cause = whereabouts.get_cause(replacement)
        problem = whereabouts.why_not(self._work.conf, cause)
        if problem:
            return skip(problem)
        targets = target.Targets(self._work.conf)
        found = preflight.judge(
            self._work.conf, self._work.engine, load_balancer, targets,
            replacement.mode, True, self._count_leaving(cause, load_balancer),
            causes.count_new(cause), self._zone)
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

    def _count_leaving(self, cause, load_balancer):
        """Count amphorae on a host that Nova does not count any more."""
        return (len(self._select().find(load_balancer))
                if cause.kind is causes.Kind.HOST else 0)

    def _why_not(self):
        """Tell why the installed Octavia is not known, None if it is."""
        return known_octavia.why_not(self._work.replacement.mode)

    def _get_blocks(self, load_balancer):
        """Return what blocks it, except for a lock, which may pass."""
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
                              self._work.owner, work_.CLAIM_EXPIRY,
                              self._first_phase, old_id):
                self._work.phase = self._first_phase
                return True
        return False

    def _unlock(self, outcome):
        lock_repo.unlock(self._work.engine, self._work.replacement,
                         self._work.owner, work_.CLAIM_EXPIRY,
                         phases.Phase.LOCK)
        self._work.phase = phases.Phase.LOCK
        return outcome

    def _survive(self, function, *arguments):
        """Call a function; return its Problem, or raise Lost or Stopped."""
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
            # Any error of Octavia's drivers, and of the libraries of services.
            LOG.exception('Replacement of load balancer %s:',
                          self._work.load_balancer_id)
            problem = Problem(
                f'{type(e).__name__}, see the log of the housekeeper '
                f'{self._work.conf.host}.')
        LOG.warning('Replacement of load balancer %s, phase %s: %s',
                    self._work.load_balancer_id, self._work.phase, problem)
        return problem


def _add(reason, more):
    """Append sentences to a reason, which may lack its full stop."""
    return f'{reason.rstrip(".")}. {more}' if more else reason
