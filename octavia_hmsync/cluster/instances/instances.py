# SPDX-License-Identifier: Apache-2.0

"""What is to be done for distributors that controllers boot. Pure rules.

There is always room for more VIPs on two of them, ahead of who needs it: a
load balancer waits for no instance to boot.
"""

import dataclasses
import datetime
import enum

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo

# On so many of them is each VIP.
NUMBER = 2
# Without an answer for so long, though others answer, one is not waited for.
DEAD_AFTER = datetime.timedelta(minutes=5)
# So long before its certificate ends one is replaced; after two thirds of its
# time if that is short, because its authority ends then: others made at that
# moment have no longer one, and none at all in the last day.
RENEW_BEFORE = datetime.timedelta(days=30)
_LAST_DAY = datetime.timedelta(days=1)
# The compute service may do what it was asked for so much later, where it has
# not answered.
LATE = datetime.timedelta(minutes=10)


class Kind(enum.Enum):
    """What is done."""

    # What somebody died with, or what failed.
    TAKE_BACK = 'is taken back'
    # One that no cluster is on any more.
    DELETE = 'is deleted'
    LEAVE = 'is left by its clusters, and deleted then'
    BUILD = 'is booted'


@dataclasses.dataclass(frozen=True)
class Action:
    """One thing to do.

    :param kind: what.
    :param instance_id: to which; None for a new one.
    :param reason: why, for who reads logs.
    """

    kind: Kind
    instance_id: str | None = None
    reason: str = ''


def decide(instances, distributors, limit, size):
    """Return what is to be done now.

    :param instances: a list of Instance, all of them.
    :param distributors: {name: Distributor}, all that have a row.
    :param limit: so many are booted at most, but those that are to go; with 0
                  nothing is booted, and what nobody ordered stays.
    :param size: VIPs that are put on one.
    :returns: a list of Actions.
    """
    actions = []
    for one in instances:
        if one.state == booted_repo.BUILDING:
            if one.is_free:
                actions.append(Action(Kind.TAKE_BACK, one.id,
                                      'somebody died with it'))
        elif (one.state == booted_repo.LEAVING and one.is_free and
              one.compute_id not in distributors):
            actions.append(Action(Kind.DELETE, one.id, one.reason or ''))
    world = _World(instances, distributors, size)
    leaving = world.find_leaving(limit)
    if leaving:
        actions.append(leaving)
    elif limit:
        missing = min(NUMBER - len(world.roomy) - world.building,
                      limit - len(world.staying) - world.building)
        actions.extend([Action(Kind.BUILD, reason='others have no room')] *
                       missing)
    return actions


def find_silent(instances, distributors):
    """Return Instances that may be gone: the compute service tells. Pure.

    :param instances: a list of Instance.
    :param distributors: {name: Distributor}.
    """
    return [one for one in instances
            if one.state == booted_repo.READY and not one.reason and
            _is_silent(one, distributors.get(one.compute_id))]


def _is_silent(one, row):
    if row is None or row.status == distributor_repo.ONLINE:
        return False
    # It may have died before anybody asked it again.
    return row.now - (row.last_seen or one.booted_at) >= DEAD_AFTER


def _is_expiring(one):
    if one.expires_at is None:
        return False
    validity = one.expires_at - one.created_at
    return (validity > _LAST_DAY and
            one.expires_at - one.now <= min(RENEW_BEFORE, validity / 3))


class _World:
    """Those that are READY, told apart."""

    def __init__(self, instances, distributors, size):
        self._distributors = distributors
        self._size = size
        self.ready = [one for one in instances
                      if one.state == booted_repo.READY]
        self.building = sum(
            one.state == booted_repo.BUILDING for one in instances)
        booted = {one.compute_id for one in instances}
        # Those that nobody has booted have room for any number.
        self._others = [row for name, row in distributors.items()
                        if name not in booted and row.takes_vips and
                        row.status == distributor_repo.ONLINE]
        self.reasons = {one.id: reason for one in self.ready
                        if (reason := self._find_reason(one))}
        self.staying = [one for one in self.ready
                        if one.id not in self.reasons]
        self.roomy = self._find_roomy()

    def _get_row(self, one):
        return self._distributors.get(one.compute_id)

    def _is_empty(self, one):
        row = self._get_row(one)
        return row is None or not row.vips

    def is_dead(self, one):
        """Tell whether one does not answer, and something else does."""
        row = self._get_row(one)
        return _is_silent(one, row) and any(
            other.status == distributor_repo.ONLINE
            for other in self._distributors.values()
            if other.driver == row.driver)

    def _find_reason(self, one):
        """Return why one is to go, None if it is not."""
        if one.reason:
            return one.reason
        if self.is_dead(one):
            return 'it does not answer'
        if _is_expiring(one):
            return f'its certificate ends at {one.expires_at:%Y-%m-%d %H:%M}'
        return None

    def _find_roomy(self, times=1, without=None, is_sure=False):
        """Return those that more VIPs can be put on.

        :param times: how often the room is wanted that there is to be.
        :param without: one that does not count.
        :param is_sure: whether those do not count that do not answer at this
                        moment; for a while nobody is booted for them.
        """
        reserve = times * max(1, self._size // 4)
        found = []
        for one in self.staying:
            row = self._get_row(one)
            # One that was booted a moment ago is known by nobody yet.
            if one is not without and (row is None and not is_sure or (
                    row is not None and row.takes_vips and
                    row.vips + reserve <= self._size and
                    (row.status == distributor_repo.ONLINE or not is_sure))):
                found.append(one)
        return found

    def find_leaving(self, limit):
        """Return an Action for one that its clusters are to leave, or None."""
        has_room = len(self._find_roomy(is_sure=True)) + len(
            self._others) >= NUMBER
        for one in self.ready:
            reason = self.reasons.get(one.id)
            # Others have room for what is on it, or nothing is lost.
            if reason and (has_room or self.is_dead(one) or
                           not limit and self._is_empty(one)):
                return Action(Kind.LEAVE, one.id, reason)
        for one in reversed(self.staying):
            row = self._get_row(one)
            # By twice the room that others are booted for.
            if (limit and row is not None and not row.vips and
                    not self.building and
                    len(self._find_roomy(2, one, is_sure=True)) >= NUMBER):
                return Action(Kind.LEAVE, one.id, 'nobody needs it')
        return None
