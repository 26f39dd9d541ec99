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

_FAILURES = (exceptions.BuildFailed, exceptions.NotProven,
             exceptions.UnknownTemplate, *work_.AGENT_ERRORS)


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
        self._replaced = 0

    def run(self):
        """Do what is left to do.

        :returns: an Outcome.
        :raises Lost: if somebody else has claimed it.
        :raises Stopped: if this process ends.
        :raises DBError: if the database cannot be used.
        """
        following = phases.after_death(self._work.phase)
        LOG.info('Replacement of load balancer %s: begun in phase %s by %s.',
                 self._work.load_balancer_id, self._work.phase,
                 self._work.owner)
        if following is phases.Next.AGAIN:
            return self._replace_all()
        self._choose_topology()
        if following is phases.Next.BACK:
            return self._go_back('whoever worked on it ended amid that')
        if following is phases.Next.PROOF:
            return self._go_on_with_proof()
        return self._finish(phases.Phase(self._work.phase))

    def _replace_all(self):
        """Replace one amphora after the other, while one is outdated."""
        while True:
            load_balancer = self._inventory.get(self._work.load_balancer_id)
            if load_balancer is None:
                return skip('it was deleted', None)
            old = self._choose_old(load_balancer)
            if isinstance(old, Outcome):
                return old
            if not self._lock(old):
                return skip(f'Octavia works on it ({load_balancer.status})')
            outcome = self._replace(load_balancer)
            if outcome.state != replace_repo.DONE:
                return outcome
            self._replaced += 1

    def _choose_old(self, load_balancer):
        """Return the id of the next one to be replaced, or an Outcome."""
        wanted = self._work.replacement.target_image_id
        old = outdated.get_outdated(load_balancer, wanted)
        if self._work.replacement.force and (
                not self._replaced and not old):
            old = outdated.get_allocated(load_balancer)
        if not old:
            return Outcome(replace_repo.DONE)
        blocks = [block for block in outdated.get_blocks(
            load_balancer, wanted) if block != outdated.Blocked.PENDING]
        if blocks:
            return skip(f'in the way: {", ".join(blocks)}')
        vip = self._work.get_load_balancer().vip.ip_address
        holding = self._work.find_holders(old, vip)
        # The one that has the VIP goes last.
        return min(old, key=lambda amphora: bool(holding[amphora.id])).id

    def _lock(self, old_id):
        for attempt in range(_LOCK_TRIES if self._replaced else 1):
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
        found = self._work.get_load_balancer()
        kind = (single.Single if found.topology == compat_amphora.SINGLE
                else pair.Pair)
        self._topology = kind(self._work)
        self._prover = prover.Prover(self._work, self._topology.get_holders)

    def _replace(self, load_balancer):
        """Replace the old amphora, under the lock."""
        try:
            self._choose_topology()
            blocks = self._look_again()
            if blocks:
                return self._unlock(skip(f'in the way: {", ".join(blocks)}'))
            self._prover.remember()
            self._build()
            self._work.enter(phases.Phase.PROVE)
            self._topology.configure(self._get(self._work.old_id),
                                     self._get(self._work.new_id))
            self._prover.prove(is_switched=False)
            self._work.enter(phases.Phase.SWITCH)
            self._topology.switch(self._get(self._work.old_id),
                                  self._get(self._work.new_id))
            self._work.enter(phases.Phase.PROVE_SWITCHED)
            self._prover.prove(is_switched=True)
        except _FAILURES as e:
            LOG.warning('Replacement of load balancer %s failed in phase %s, '
                        'and is undone: %s', self._work.load_balancer_id,
                        self._work.phase, e)
            return self._go_back(str(e))
        return self._finish(phases.Phase.DELETE_OLD)

    def _look_again(self):
        """Look whether it is as it was before the lock."""
        now = self._inventory.get(self._work.load_balancer_id)
        return [block for block in outdated.get_blocks(
            now, self._work.replacement.target_image_id)
            if block != outdated.Blocked.PENDING]

    def _build(self):
        found = self._work.get_load_balancer()
        role = next(each.role for each in found.amphorae
                    if each.id == self._work.old_id)
        build.build(self._work, found, role)

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
        try:
            self._work.enter(phases.Phase.PROVE_SWITCHED)
            self._prover.prove(is_switched=True)
        except _FAILURES as e:
            return self._go_back(f'whoever worked on it ended amid that, and '
                                 f'the new amphora does not serve: {e}')
        return self._finish(phases.Phase.DELETE_OLD)

    def _go_back(self, reason):
        """Have everything as it was before.

        What serves is not given up for what does not: with an old amphora
        that is gone the new one stays.
        """
        was_switched = self._work.phase in (
            phases.Phase.SWITCH, phases.Phase.PROVE_SWITCHED,
            phases.Phase.BACK)
        self._work.enter(phases.Phase.BACK)
        evidence = self._work.read()
        old = evidence.amphorae.get(self._work.old_id)
        new = evidence.amphorae.get(self._work.new_id)
        if old is not None and was_switched:
            try:
                self._topology.back(old, new)
            except _FAILURES as e:
                reason = f'{reason} The old amphora cannot have the VIP '                          f'again: {e}'
                if self._prover.serves(new):
                    return self._finish(phases.Phase.DELETE_OLD, reason)
        for amphora_id in self._get_new_ids(evidence):
            removal.remove(self._work, evidence.amphorae.get(
                amphora_id, types.SimpleNamespace(
                    id=amphora_id, compute_id=None, vrrp_port_id=None)))
        if old is not None:
            try:
                self._topology.settle(self._work.new_id)
            except _FAILURES as e:
                LOG.warning('Amphorae of load balancer %s are not told that '
                            'amphora %s is gone: %s',
                            self._work.load_balancer_id, self._work.new_id, e)
        lock_repo.set_right(self._work.engine, [
            amphora_id for amphora_id in evidence.amphorae
            if amphora_id != self._work.new_id])
        lock_repo.set_listeners_right(self._work.engine,
                                      self._prover.listeners)
        return self._unlock(Outcome(replace_repo.FAILED, reason))

    def _get_new_ids(self, evidence):
        ids = {self._work.new_id, *lock_repo.get_unfinished(
            self._work.engine, self._work.load_balancer_id)} - {None}
        return sorted(ids)

    def _finish(self, phase, reason=None):
        """Delete the old amphora, and give the load balancer back."""
        if phase is phases.Phase.DELETE_OLD:
            self._work.enter(phase)
            old = self._work.read().amphorae.get(self._work.old_id)
            if old is not None:
                removal.remove(self._work, old)
            try:
                self._topology.settle(self._work.old_id)
            except _FAILURES as e:
                LOG.warning('Amphorae of load balancer %s are not told that '
                            'amphora %s is gone: %s',
                            self._work.load_balancer_id, self._work.old_id, e)
            self._work.enter(phases.Phase.UNLOCK)
        return self._unlock(Outcome(replace_repo.DONE, reason))

    def _unlock(self, outcome):
        lock_repo.unlock(self._work.engine, self._work.replacement,
                         self._work.owner, self._work.expiry,
                         phases.Phase.LOCK)
        self._work.phase = phases.Phase.LOCK
        return outcome
