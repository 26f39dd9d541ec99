# SPDX-License-Identifier: Apache-2.0

"""Health managers, a housekeeper and amphorae, second by second.

Only the rules are real. An amphora does what health_sender and the agent do:
it sends each heartbeat to the next address of its list, and reads an uploaded
list after its next heartbeat.
"""

import dataclasses
import math

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import subset
from tests.unit.sync.rules import cases

KEEPALIVE_INTERVAL = 5
POLL_INTERVAL = 2
UPLOAD_TIME = 3


@dataclasses.dataclass
class HealthManager:
    """The row of a host, and whether its process runs."""

    address: str
    online_since: int
    keepalive_at: int
    status: str = member.ONLINE
    up: bool = True
    starting_at: int | None = None
    restart_took: int | None = None


class Amphora:
    """Sends heartbeats in turn."""

    def __init__(self, key, settings, phase):
        self._key = key
        self._settings = settings
        self._phase = phase
        self._uploads = []
        self._destinations = []
        self.heard_at = 0

    def upload(self, slots, at):
        self._uploads.append((at, list(subset.subset(
            self._key, slots, self._settings.max_list_length))))

    def step(self, now, listening):
        if (now + self._phase) % self._settings.heartbeat_interval:
            return
        if self._destinations:
            address = self._destinations.pop(0)
            self._destinations.append(address)
            if address in listening:
                self.heard_at = now
        while self._uploads and self._uploads[0][0] <= now:
            self._destinations = self._uploads.pop(0)[1]


class Simulation:
    """A cloud whose first health managers are known to all amphorae.

    :param numbers: of the health managers that run at the beginning.
    :param amphorae: how many.
    """

    def __init__(self, numbers, settings=cases.SETTINGS, pinned=(),
                 amphorae=10):
        self.settings = settings
        self.pinned = pinned
        self.now = 0
        self.rows = {}
        self.published = [(0, cases.addresses(*sorted(numbers)))]
        self.held = []
        self.longest_silence = 0
        self._steady_since = -math.inf
        self._database_down = False
        self._amphorae = [
            Amphora(f'amphora-{n}', settings,
                    n % settings.heartbeat_interval)
            for n in range(amphorae)]
        self._slots = {}
        self._upload(0)
        for number in numbers:
            self.start(number)
            self.rows[f'hm{number}'].online_since = -1000

    def start(self, number, host=None):
        """Start the health manager of a host, at an address."""
        host = host or f'hm{number}'
        before = self.rows.get(host)
        took = None
        if before is not None and before.status == member.OFFLINE:
            took = self.now - before.keepalive_at
        self.rows[host] = HealthManager(cases.address(number), self.now,
                                        self.now, restart_took=took)

    def begin_to_start(self, host):
        """Have a process of it there that does not listen yet."""
        self.rows[host].starting_at = self.now

    def kill(self, host):
        """End it without a word."""
        self.rows[host].up = False

    def stop(self, host):
        """End it in good order."""
        row = self.rows[host]
        row.up, row.status, row.keepalive_at = False, member.OFFLINE, self.now

    def drain(self, host):
        self.rows[host].status = member.DRAINING

    def cut_off_database(self):
        self._database_down = True

    def bring_back_database(self):
        self._database_down = False
        self._steady_since = self.now

    @property
    def addresses(self):
        """The newest published list."""
        return self.published[-1][1]

    def run(self, seconds):
        """Let time pass.

        :returns: the lists published meanwhile.
        """
        known = len(self.published)
        for _ in range(seconds):
            self.now += 1
            self._step()
        return [addresses for _at, addresses in self.published[known:]]

    def _step(self):
        if not self._database_down:
            self._write_keepalives()
            if self.now % POLL_INTERVAL == 0:
                self._plan()
        listening = {row.address for row in self.rows.values() if row.up}
        for amphora in self._amphorae:
            amphora.step(self.now, listening)
            self.longest_silence = max(self.longest_silence,
                                       self.now - amphora.heard_at)

    def _write_keepalives(self):
        for row in self.rows.values():
            if row.up and self.now - row.keepalive_at >= KEEPALIVE_INTERVAL:
                row.keepalive_at = self.now

    def members(self):
        return [member.Member(host, row.address, row.status,
                              self.now - row.keepalive_at,
                              self.now - row.online_since,
                              starting_age=None if row.starting_at is None
                              else self.now - row.starting_at,
                              restart_took=row.restart_took)
                for host, row in self.rows.items()]

    def _plan(self):
        decision = plan.plan(listening.HealthManagers(
            self.members(), self.pinned, self.settings,
            reader_steady_for=self.now - self._steady_since), self.addresses)
        if decision.held:
            self.held.append((self.now, decision.held))
        if decision.addresses is not None:
            self.published.append((self.now, decision.addresses))
            self._upload(self.now + UPLOAD_TIME)

    def _upload(self, at):
        self._slots = subset.assign_slots(self._slots, self.addresses)
        for amphora in self._amphorae:
            amphora.upload(self._slots, at)
