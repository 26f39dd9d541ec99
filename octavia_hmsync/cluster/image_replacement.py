# SPDX-License-Identifier: Apache-2.0

"""Replaces the members of a cluster by orders, one after the other.

The manager of the cluster builds the new member before the old one leaves.
Here nothing is locked, built or deleted. So both modes do the same.
"""

import dataclasses
import time

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import phases
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import whole_prover

LOG = logging.getLogger(__name__)

# Seconds between two looks at the progress.
_INTERVAL = 1

NOT_WHOLE = 'NOT_WHOLE'


def is_going(member: member_repo.Member) -> bool:
    """Tell whether a member is leaving, or has never served."""
    return member.state in (member_repo.BUILDING, member_repo.FAILED) or (
        member.state == member_repo.DRAINING and member.slot is None)


def is_whole(cluster: cluster_repo.Cluster,
             members: list[member_repo.Member]) -> bool:
    """Tell whether no member is missing, except by an operator's order."""
    there = [member for member in members if member.slot is not None and (
        member.state == member_repo.ACTIVE or
        member.ordered == member_repo.DRAIN)]
    return len(there) >= cluster.size


def find_newest(members, made, since):
    """Return the member that was built last; None if there is none.

    :param made: ids of amphorae that are known already.
    :param since: only members that were made after this time count.
    """
    new = [member for member in members
           if member.amphora_id is not None and member.amphora_id not in made
           and member.created_at >= since]
    return max(new, key=lambda member: member.created_at, default=None)


class _Patience:
    """How long to wait for members, as long as nothing changes."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._seen = None

    def is_over(self, members):
        """Tell whether members have been like that for so long."""
        seen = {(each.id, each.state, each.slot) for each in members}
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() > self._since + self.seconds


class Ordered(attempt.Attempt):
    """One replacement of the members of a cluster."""

    def __init__(self, work, inventory):
        super().__init__(work, inventory)
        self._prover = whole_prover.WholeProver(work, is_vip_shared=True)

    def _take_up(self, following):
        # It may have been ordered already: a second order is harmless.
        self._order()
        return self._follow()

    def _why_not(self):
        # The manager of the cluster checks Octavia where it builds.
        return None

    def _read(self):
        """Return the Cluster and its Members; raise Gone if it is deleted."""
        cluster = cluster_repo.get_by_load_balancer(
            self._work.engine, self._work.load_balancer_id)
        if (cluster is None or
                cluster.provisioning_status == compat.PENDING_DELETE):
            raise attempt.Gone
        return cluster, member_repo.get_of_cluster(self._work.engine,
                                                   cluster.id)

    def _get_blocks(self, load_balancer):
        blocks = super()._get_blocks(load_balancer)
        if not blocks and not is_whole(*self._read()):
            # It is under repair, which a replacement has to wait for.
            return [NOT_WHOLE]
        return blocks

    def _settle(self):
        """Wait for a cluster that grows, is repaired or changed.

        A rollout has others to go on with, and comes back.
        """
        if self._work.replacement.rollout_id is not None:
            return
        patience = _Patience(self._work.options.failover_timeout)
        is_told = False
        while True:
            cluster, members = self._read()
            is_at_rest = lock_repo.get_status(
                self._work.engine, cluster.id) != compat.PENDING_UPDATE
            if (is_whole(cluster, members) and is_at_rest or
                    patience.is_over(members) or
                    self._work.find_cancel() is not None):
                break
            if not is_told:
                self._work.note('It waits for a change of its cluster.')
                is_told = True
            self._work.pause(_INTERVAL)
        if is_told:
            self._work.note(None)

    def _find_old(self, load_balancer):
        _cluster, members = self._read()
        staying = {member.amphora_id for member in members
                   if not is_going(member)}
        return [amphora for amphora in super()._find_old(dataclasses.replace(
            load_balancer, amphorae=tuple(
                each for each in load_balancer.amphorae
                if each.id in staying))) if amphora.id not in self._made]

    def _choose(self, old):
        """Return the id of the next one: standby members first, by slot."""
        ids = {amphora.id for amphora in old}
        _cluster, members = self._read()
        return min((member for member in members
                    if member.amphora_id in ids),
                   key=lambda member: -1 if member.slot is None
                   else member.slot).amphora_id

    def _begin(self, old_id):
        self._prover.remember()
        self._work.old_id, self._work.new_id = old_id, None
        self._work.enter(phases.Phase.ORDER, old_amphora_id=old_id,
                         new_amphora_id=None)
        self._order()
        return self._follow()

    def _order(self):
        member = self._get_old(self._read()[1])
        if member is not None and member.ordered != member_repo.REPLACE:
            # Clear the error of an earlier order.
            member_repo.record(self._work.engine, member.id, error=None)
            member_repo.set_order(self._work.engine, member.id,
                                  member_repo.REPLACE)

    def _get_old(self, members):
        """Return the member to be replaced; None once it is leaving."""
        return next((member for member in members
                     if member.amphora_id == self._work.old_id and
                     not is_going(member)), None)

    def _follow(self):
        """Wait until another amphora is in its place, and proven to serve."""
        patience = _Patience(self._work.options.failover_timeout)
        while True:
            _cluster, members = self._read()
            self._record_new(members)
            member = self._get_old(members)
            if member is None:
                return self._prove()
            reason = self._work.find_cancel()
            if reason is not None and not any(map(_is_leaving, members)):
                self._take_back(member)
                return attempt.Outcome(replace_repo.CANCELLED, reason)
            if member.ordered != member_repo.REPLACE:
                return attempt.fail(
                    f'The order was taken back to replace member '
                    f'{member.id}, amphora {self._work.old_id}.')
            if member.error and not _is_unwell(member):
                self._take_back(member)
                return attempt.fail(
                    f'Member {member.id}, amphora {self._work.old_id}, could '
                    f'not be replaced, and serves on: {member.error}')
            # Members are built one at a time: wait for the other one.
            if not any(map(_is_leaving, members)) and patience.is_over(
                    members):
                self._take_back(member)
                return attempt.fail(
                    f'Member {member.id}, amphora {self._work.old_id}, was '
                    f'not replaced within {patience.seconds} s, and serves '
                    f'on: see the log of octavia-housekeeping, or of '
                    f'whatever manages its cluster.')
            self._work.pause(_INTERVAL)

    def _take_back(self, member):
        member_repo.set_order(self._work.engine, member.id, None)

    def _record_new(self, members):
        new = find_newest(members, {*self._made, self._work.old_id},
                          self._work.replacement.started_at)
        if new is not None and new.amphora_id != self._work.new_id:
            self._work.new_id = new.amphora_id
            self._work.enter(phases.Phase.ORDER,
                             new_amphora_id=new.amphora_id)

    def _prove(self):
        """Check that the new one serves, before another one is ordered."""
        new_id = self._work.new_id
        if new_id is not None:
            self._made.add(new_id)
            error = (self._survive(self._check_place) or
                     self._survive(self._prover.prove_all, {new_id}))
            self._read()
            if error:
                return attempt.fail(
                    f'Amphora {new_id} has taken the place of '
                    f'{self._work.old_id}, and is not as it should be: '
                    f'{error} No other one was touched.')
        self._work.enter(phases.Phase.LOCK)
        return attempt.Outcome(replace_repo.DONE)


def _is_unwell(member):
    """Tell whether its error is about its health, not about an order."""
    return member.health in (member_repo.SUSPECT, member_repo.DEAD)


def _is_leaving(member):
    return (member.state == member_repo.DRAINING and member.slot is None and
            member.ordered == member_repo.REPLACE)
