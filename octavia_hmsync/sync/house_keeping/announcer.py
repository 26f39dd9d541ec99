# SPDX-License-Identifier: Apache-2.0

"""Notifies once of each health manager that comes, drains or goes.

A health manager that is killed cannot record its death, as others record their
news. So the housekeeper that records the new state sends the notification.
"""

from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import member as mem

# UNKNOWN is missing: nothing is known that could be announced.
_KINDS = {
    mem.State.ALIVE: (mem.ONLINE, payloads.HealthManagerUp),
    mem.State.DRAINING: (mem.DRAINING, payloads.HealthManagerDraining),
    mem.State.DEAD: (mem.OFFLINE, payloads.HealthManagerDown),
}


class Announcer:
    """Notifies of health managers that are up, draining or down.

    :param notifier: a notifications.outbox.Outbox. While it is off, nothing
                     is recorded as announced either.
    """

    def __init__(self, engine, notifier):
        self._engine = engine
        self._notifier = notifier

    def run_once(self, managers):
        """Send what has not been announced yet."""
        if not self._notifier.is_on:
            return
        for member in managers.members:
            state = managers.state(member.address)
            if state in _KINDS:
                self._announce(member, *_KINDS[state])

    def _announce(self, member, status, payload_class):
        told = f'{status} {member.address}'
        if told == member.announced or not hm_repo.set_announced(
                self._engine, member.host, member.announced, told):
            return
        if member.announced is None and status == mem.OFFLINE:
            # It was never announced as up.
            return
        before = (member.announced.split() if member.announced
                  else (None, None))
        self._notifier.send(payload_class(member.host, member.address,
                                          *before))
