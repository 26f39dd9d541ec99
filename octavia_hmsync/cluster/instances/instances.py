# SPDX-License-Identifier: Apache-2.0

"""Decides what to do for distributors that controllers boot. Pure rules.

Two of them have room for more VIPs at any time, so that no new load balancer
waits for an instance to boot.
"""

import dataclasses
import datetime
import enum

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo

# Distributors of each VIP.
NUMBER = 2
# A distributor without an answer for so long, while others answer, is dead.
DEAD_AFTER = datetime.timedelta(minutes=5)
# A distributor is replaced so long before its certificate ends; after two
# thirds of its validity if that is short. It is short because the CA ends: a
# replacement would end with it, too, so a certificate from the last day of
# the CA is not replaced.
RENEW_BEFORE = datetime.timedelta(days=30)
_LAST_DAY = datetime.timedelta(days=1)
# A compute service that did not answer may carry out a request so much later.
LATE = datetime.timedelta(minutes=10)


class Kind(enum.Enum):
    """What is done."""

    # A boot that failed, or whose worker died.
    TAKE_BACK = 'is taken back'
    # No cluster is on it any more.
    DELETE = 'is deleted'
    LEAVE = 'is left by its clusters, and deleted then'
    BUILD = 'is booted'


@dataclasses.dataclass(frozen=True)
class Action:
    """One thing to do.

    :param instance_id: None for a new one.
    :param reason: for the log.
    """

    kind: Kind
    instance_id: str | None = None
    reason: str = ''


def decide(instances, distributors, limit, size):
    """Return what is to be done now.

    :param distributors: {name: Distributor}, all rows.
    :param limit: the most instances, without leaving ones; with 0 none is
                  booted, and idle ones stay.
    :param size: the number of VIPs that an instance carries.
    """
    actions = []
    for one in instances:
        if one.state == booted_repo.BUILDING:
            if one.is_free:
                actions.append(Action(Kind.TAKE_BACK, one.id,
                                      'the process that booted it died'))
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
    """Return Instances that may be gone from the compute service. Pure."""
    return [one for one in instances
            if one.state == booted_repo.READY and not one.reason and
            _is_silent(one, distributors.get(one.compute_id))]


def _is_silent(one, row):
    if row is None or row.status == distributor_repo.ONLINE:
        return False
    # It may have died before it was ever asked.
    return row.now - (row.last_seen or one.booted_at) >= DEAD_AFTER


def _is_expiring(one):
    if one.expires_at is None:
        return False
    validity = one.expires_at - one.created_at
    return (validity > _LAST_DAY and
            one.expires_at - one.now <= min(RENEW_BEFORE, validity / 3))


class _World:
    """The READY instances, sorted by what becomes of them."""

    def __init__(self, instances, distributors, size):
        self._distributors = distributors
        self._size = size
        self.ready = [one for one in instances
                      if one.state == booted_repo.READY]
        self.building = sum(
            one.state == booted_repo.BUILDING for one in instances)
        booted = {one.compute_id for one in instances}
        # Distributors that controllers did not boot have room for any number.
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
        """Tell whether it does not answer while another one does."""
        row = self._get_row(one)
        return _is_silent(one, row) and any(
            other.status == distributor_repo.ONLINE
            for other in self._distributors.values()
            if other.driver == row.driver)

    def _find_reason(self, one):
        """Return why it is to leave, or None."""
        if one.reason:
            return one.reason
        if self.is_dead(one):
            return 'it does not answer'
        if _is_expiring(one):
            return f'its certificate ends at {one.expires_at:%Y-%m-%d %H:%M}'
        return None

    def _find_roomy(self, times=1, without=None, is_sure=False):
        """Return the instances with room for more VIPs.

        :param times: the room to ask for, in multiples of the usual reserve.
        :param without: an instance that does not count.
        :param is_sure: whether an instance must answer now to count. For
                        booting it need not: it may be back soon.
        """
        reserve = times * max(1, self._size // 4)
        found = []
        for one in self.staying:
            row = self._get_row(one)
            # An instance that was just booted has no distributor row yet.
            if one is not without and (row is None and not is_sure or (
                    row is not None and row.takes_vips and
                    row.vips + reserve <= self._size and
                    (row.status == distributor_repo.ONLINE or not is_sure))):
                found.append(one)
        return found

    def find_leaving(self, limit):
        """Return a LEAVE for one instance, or None."""
        has_room = len(self._find_roomy(is_sure=True)) + len(
            self._others) >= NUMBER
        for one in self.ready:
            reason = self.reasons.get(one.id)
            # Others have room for its VIPs, or nothing is lost.
            if reason and (has_room or self.is_dead(one) or
                           not limit and self._is_empty(one)):
                return Action(Kind.LEAVE, one.id, reason)
        for one in reversed(self.staying):
            row = self._get_row(one)
            # Twice the reserve must stay: else another one is booted soon.
            if (limit and row is not None and not row.vips and
                    not self.building and
                    len(self._find_roomy(2, one, is_sure=True)) >= NUMBER):
                return Action(Kind.LEAVE, one.id, 'it is not needed')
        return None
