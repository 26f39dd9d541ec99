#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.
"""Carries a replacement out, phase by phase; see octavia_hmsync.image.phases.

What a phase does may have been done in part already, by somebody who died
with it.
"""

import dataclasses
import types
import typing

from oslo_log import log as logging

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.db import api
from octavia_hmsync.db.repositories import image_lock as lock_repo
from octavia_hmsync.db.repositories import image_replacement as replace_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image import outdated
from octavia_hmsync.image import phases
from octavia_hmsync.image.replace import build
from octavia_hmsync.image.replace import pair
from octavia_hmsync.image.replace import prover
from octavia_hmsync.image.replace import removal
from octavia_hmsync.image.replace import single
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)

# Seconds before a load balancer that Octavia works on is tried again.
BUSY_WAIT = 60
# Of a pair, one is done, and somebody else was faster for the other one.
_LOCK_TRIES = 30
_LOCK_PAUSE = 1

# In these the old amphora may have left the VIP.
_SWITCHED = (phases.Phase.SWITCH, phases.Phase.PROVE_SWITCHED,
             phases.Phase.BACK)

_DIED = 'Whoever worked on it ended in the middle.'


class _Gone(Exception):
    """The load balancer was deleted."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a replacement ended.

    :param state: DONE, FAILED or SKIPPED.
    :param reason: why, in words.
    :param wait: seconds before which this load balancer is not tried again.
    """

    state: str
    reason: str | None = None
    wait: float | None = None


def skip(reason, wait=BUSY_WAIT):
    """Return the Outcome of one that could not be begun, or gone on with."""
    return Outcome(replace_repo.SKIPPED, reason, wait)


class Process:
    """One replacement, make before break.

    :param work: a Work.
    :param inventory: an inventory.Inventory.
    """

    def __init__(self, work, inventory):
        self._work = work
        self._inventory = inventory
        self._topology: typing.Any = None
        self._prover: typing.Any = None
        # Ids of amphorae that this one has built.
        self._made: set[str] = set()
        # What is worth telling of those that are done.
        self._notes: list[str | None] = []

    def run(self):
        """Do what is left to do.

        :returns: an Outcome.
        :raises Lost: if somebody else has claimed it.
        :raises Stopped: if this process ends.
        :raises DBError: if the database cannot be used.
        """
        try:
            following = phases.after_death(self._work.phase)
            if following is not phases.Next.AGAIN:
                outcome = self._take_up(following)
                if outcome.state != replace_repo.DONE:
                    return outcome
                self._notes.append(outcome.reason)
            return self._replace_all()
        except _Gone:
            return skip('it was deleted', None)

    def _take_up(self, following):
        """Go on with what somebody died with."""
        LOG.warning('Replacement of load balancer %s is taken up: whoever '
                    'worked on it ended in phase %s.',
                    self._work.load_balancer_id, self._work.phase)
        self._choose_topology()
        if following is phases.Next.BACK:
            return self._go_back(_DIED, skip)
        if following is phases.Next.PROOF:
            return self._go_on_with_proof()
        return self._finish()

    def _replace_all(self):
        """Replace one amphora after the other, while one is outdated."""
        while True:
            load_balancer = self._inventory.get(self._work.load_balancer_id)
            if load_balancer is None:
                raise _Gone
            old = self._choose_old(load_balancer)
            if isinstance(old, Outcome):
                return old
            if not self._lock(old):
                return skip('Octavia, or its owner, works on it')
            outcome = self._replace()
            if outcome.state != replace_repo.DONE:
                return outcome
            self._notes.append(outcome.reason)

    def _choose_old(self, load_balancer):
        """Return the id of the next one to be replaced, or an Outcome."""
        replacement = self._work.replacement
        old = outdated.get_outdated(load_balancer,
                                    replacement.target_image_id)
        if replacement.forced:
            old = self._get_forced(load_balancer)
        if not old:
            return Outcome(replace_repo.DONE,
                           ' '.join(filter(None, self._notes)) or None)
        blocks = self._get_blocks(load_balancer)
        if blocks:
            return skip(f'in the way: {", ".join(blocks)}')
        vip = self._get_model().vip.ip_address
        holding = self._work.find_holders(old, vip)
        # The one that has the VIP goes last.
        return min(old, key=lambda amphora: bool(holding[amphora.id])).id

    def _get_forced(self, load_balancer):
        """Return the amphorae that were there before it began."""
        evidence = self._work.read().amphorae
        begun = self._work.replacement.started_at
        return [amphora for amphora in outdated.get_allocated(load_balancer)
                if amphora.id not in self._made and
                amphora.id in evidence and
                (evidence[amphora.id].created_at or begun) <= begun]

    def _get_blocks(self, load_balancer):
        """Return what is in the way, but for a lock, which may pass."""
        return [str(block) for block in outdated.get_blocks(
            load_balancer, self._work.replacement.target_image_id)
            if block is not outdated.Blocked.PENDING]

    def _get_model(self):
        try:
            return self._work.get_load_balancer()
        except exceptions.NotProven:
            raise _Gone from None

    def _lock(self, old_id):
        for attempt in range(_LOCK_TRIES if self._made else 1):
            if attempt:
                self._work.pause(_LOCK_PAUSE)
            self._work.check()
            if lock_repo.lock(self._work.engine, self._work.replacement,
                              self._work.owner, self._work.expiry,
                              phases.Phase.BUILD, old_id):
                self._work.phase = phases.Phase.BUILD
                self._work.old_id, self._work.new_id = old_id, None
                return True
        return False

    def _choose_topology(self):
        kind = (single.Single
                if self._get_model().topology == compat_amphora.SINGLE
                else pair.Pair)
        self._topology = kind(self._work)
        self._prover = prover.Prover(self._work, self._topology.get_holders)

    def _replace(self):
        """Replace the old amphora, under the lock."""
        self._choose_topology()
        # It may have changed before the lock.
        blocks = self._get_blocks(
            self._inventory.get(self._work.load_balancer_id))
        if blocks:
            return self._unlock(skip(f'in the way: {", ".join(blocks)}'))
        error = self._survive(self._carry_out)
        if error:
            return self._go_back(error)
        return self._finish()

    def _carry_out(self):
        work = self._work
        self._prover.remember()
        found = work.get_load_balancer()
        build.build(work, found, next(each.role for each in found.amphorae
                                      if each.id == work.old_id))
        self._made.add(work.new_id)
        work.enter(phases.Phase.PROVE)
        self._topology.configure(self._get(work.old_id),
                                 self._get(work.new_id))
        self._prover.prove(is_switched=False)
        work.enter(phases.Phase.SWITCH)
        self._topology.switch(self._get(work.old_id), self._get(work.new_id))
        work.enter(phases.Phase.PROVE_SWITCHED)
        self._prover.prove(is_switched=True)

    def _survive(self, function, *arguments):
        """Call what may fail; tell why it did, None if it did not.

        :raises Lost, Stopped: as Work.check().
        :raises DBError: if the database cannot be used.
        """
        try:
            function(*arguments)
            return None
        except (lock_repo.Lost, work_.Stopped):
            raise
        except exceptions.HMSyncException as e:
            problem = str(e)
        except Exception as e:
            if api.is_database_error(e):
                raise
            # Octavia's drivers, and the libraries of four services.
            LOG.exception('Replacement of load balancer %s:',
                          self._work.load_balancer_id)
            problem = (f'{type(e).__name__}, see the log of the housekeeper '
                       f'{self._work.conf.host}.')
        LOG.warning('Replacement of load balancer %s, phase %s: %s',
                    self._work.load_balancer_id, self._work.phase, problem)
        return problem

    def _get(self, amphora_id):
        """Return an Amphora of the evidence.

        :raises NotProven: if there is none any more.
        """
        found = self._work.read().amphorae.get(amphora_id)
        if found is None:
            raise exceptions.NotProven(f'Amphora {amphora_id} is gone.')
        return found

    def _go_on_with_proof(self):
        """Go on where somebody died between the switch and the deletion."""
        self._work.enter(phases.Phase.PROVE_SWITCHED)
        error = self._survive(self._prover.prove, True)
        if error:
            return self._go_back(f'{_DIED} {error}', skip)
        return self._finish()

    def _go_back(self, reason, make_outcome=None):
        """Have everything as it was before.

        What serves is not given up for what does not: with an old amphora
        that cannot serve again the new one stays.
        """
        was_switched = self._work.phase in _SWITCHED
        self._work.enter(phases.Phase.BACK)
        evidence = self._work.read()
        old = evidence.amphorae.get(self._work.old_id)
        new = evidence.amphorae.get(self._work.new_id)
        if old is not None and was_switched:
            error = self._survive(self._topology.back, old, new)
            if error and self._prover.serves(new):
                return self._finish(f'{reason} The old amphora cannot have '
                                    f'the VIP again: {error}')
        for amphora_id in self._get_new_ids():
            self._remove(amphora_id, evidence)
        self._survive(self._topology.settle, self._work.new_id)
        lock_repo.set_right(self._work.engine, [
            amphora_id for amphora_id in evidence.amphorae
            if amphora_id != self._work.new_id])
        lock_repo.set_listeners_right(self._work.engine,
                                      self._prover.listeners)
        return self._unlock((make_outcome or _fail)(reason))

    def _get_new_ids(self):
        return sorted({self._work.new_id, *lock_repo.get_unfinished(
            self._work.engine, self._work.load_balancer_id)} - {None})

    def _remove(self, amphora_id, evidence):
        removal.remove(self._work, evidence.amphorae.get(
            amphora_id, types.SimpleNamespace(
                id=amphora_id, compute_id=None, vrrp_port_id=None)))

    def _finish(self, reason=None):
        """Delete the old amphora, and give the load balancer back."""
        if self._work.phase != phases.Phase.UNLOCK:
            self._work.enter(phases.Phase.DELETE_OLD)
            self._remove(self._work.old_id, self._work.read())
            self._survive(self._topology.settle, self._work.old_id)
            self._work.enter(phases.Phase.UNLOCK)
        return self._unlock(Outcome(replace_repo.DONE, reason))

    def _unlock(self, outcome):
        lock_repo.unlock(self._work.engine, self._work.replacement,
                         self._work.owner, self._work.expiry,
                         phases.Phase.LOCK)
        self._work.phase = phases.Phase.LOCK
        return outcome


def _fail(reason):
    return Outcome(replace_repo.FAILED, reason)
