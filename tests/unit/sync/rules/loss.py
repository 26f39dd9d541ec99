# SPDX-License-Identifier: Apache-2.0

"""How many amphorae are failed over for datagrams that are lost.

A cloud second by second, as in simulation.py, with the trial of a list, the
failover guard and Octavia's health check. What happens to an amphora without
a loss is certain; how likely it is that losses bring it over
heartbeat_timeout is then calculated, not drawn: of so rare an event a drawing
would tell nothing.
"""

import collections

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import silence
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from tests.unit.sync.rules import cases
from tests.unit.sync.rules import simulation

CANARIES = 3
CANARY_WAIT = 60
GUARD_INTERVAL = 2
# octavia [health_manager] health_check_interval.
CHECK_INTERVAL = 3
# Of an agent's interval: it sleeps between two heartbeats, and works besides.
JITTER = 1.01
# Nothing less likely is followed any further.
_NEVER = 1e-15


class Amphora:
    """Sends heartbeats in turn, some of which are lost.

    .failed_over is how likely it was failed over by now.
    """

    def __init__(self, key, settings, phase, loss):
        self.key = key
        self._settings = settings
        self._loss = loss
        self._next = float(phase)
        self._uploads = collections.deque()
        self._destinations = []
        self.addresses = None
        self._other = ()
        self.applied_at = None
        self.failed_over = 0.0
        # How likely each is: (last_update, since when it is held).
        self._states = {(0, None): 1.0}
        self._is_read = True

    def upload(self, slots, at):
        addresses = subset.subset(self.key, slots,
                                  self._settings.max_list_length)
        if addresses != (self._uploads[-1][1] if self._uploads
                         else self.addresses):
            self._uploads.append((at, addresses))

    def send(self, now, listening_at):
        """Acknowledge a list, and send the heartbeat that is due."""
        if self._uploads and self._uploads[0][0] <= now:
            _at, addresses = self._uploads.popleft()
            self._other = (self.addresses,) if self.addresses else ()
            self.addresses, self.applied_at = addresses, now
            self._is_read = False
        if now < self._next:
            return
        self._next += JITTER * self._settings.heartbeat_interval
        if self._destinations:
            address = self._destinations.pop(0)
            self._destinations.append(address)
            if address in listening_at:
                self._arrive(now)
        if self.addresses and not self._is_read:
            self._destinations = list(self.addresses)
            self._is_read = True

    def _arrive(self, now):
        lost = {state: self._loss * p for state, p in self._states.items()}
        heard = sum(self._states.values()) * (1 - self._loss)
        self._states = {s: p for s, p in lost.items() if p > _NEVER}
        self._states[now, None] = self._states.get((now, None), 0.0) + heard

    def guard(self, now, listeners, hold_max):
        """Hold it back, as every health manager does."""
        timeout = self._settings.heartbeat_timeout
        for state, p in list(self._states.items()):
            last_update, held_since = state
            if now - last_update <= timeout / 2:
                continue
            age = None if self.applied_at is None else now - self.applied_at
            silent = silence.SilentAmphora(
                self.addresses,
                self._other if age is not None and age <= 2.5 *
                self._settings.heartbeat_interval else (), age, 0,
                None if held_since is None else now - held_since)
            if silence.must_hold(silent, listeners, hold_max):
                del self._states[state]
                since = (now if held_since is None else held_since)
                held = now, since
                self._states[held] = self._states.get(held, 0.0) + p

    def check(self, now):
        """Fail it over, as Octavia does."""
        for state, p in list(self._states.items()):
            if now - state[0] > self._settings.heartbeat_timeout:
                self.failed_over += self._states.pop(state)


class Cloud(simulation.Simulation):
    """Health managers, housekeepers, and a sample of the amphorae.

    :param loss: the share of datagrams that are lost.
    :param hold_max: ``[hmsync] failover_hold_max``, seconds.
    """

    def __init__(self, numbers, settings=cases.SETTINGS, pinned=(),
                 amphorae=20, loss=0.001, hold_max=300):
        self._hold_max = hold_max
        self._count = amphorae
        self.good = cases.addresses(*sorted(numbers))
        self._status = trial.OPEN
        self._opens_at = 0
        self._has_planner = True
        self._started = {}
        self._checks_from = 0
        super().__init__(numbers, settings, pinned, amphorae=0)
        self._amphorae = [
            Amphora(f'amphora-{n}', settings,
                    n * settings.heartbeat_interval / amphorae, loss)
            for n in range(amphorae)]
        self._upload(0)

    def failovers(self, fleet=10000):
        """Return how many of a fleet are failed over, on the average."""
        return fleet * sum(a.failed_over for a in self._amphorae) / (
            self._count)

    def start(self, number, host=None):
        super().start(number, host)
        self._started[host or f'hm{number}'] = self.now

    def stop_housekeepers(self):
        self._has_planner = False

    def start_housekeepers(self):
        self._has_planner = True

    def bring_back_database(self):
        super().bring_back_database()
        # Octavia waits as long after a lost connection.
        self._checks_from = self.now + self.settings.heartbeat_timeout

    def _listeners(self):
        return listening.HealthManagers(
            self.members(), self.pinned, self.settings,
            reader_steady_for=self.now - self._steady_since)

    def _step(self):
        if not self._database_down:
            self._write_keepalives()
            if self._has_planner and (
                    self.now % simulation.POLL_INTERVAL == 0):
                self._plan()
        up = {row.address for row in self.rows.values() if row.up}
        for amphora in self._amphorae:
            amphora.send(self.now, up if not self._database_down else ())
        if self._database_down or not up:
            return
        listeners = self._listeners()
        for amphora in self._amphorae:
            if self._hold_max and self.now % GUARD_INTERVAL == 0:
                amphora.guard(self.now, listeners, self._hold_max)
            if self.now % CHECK_INTERVAL == 0 and self._checks():
                amphora.check(self.now)

    def _checks(self):
        """Whether Octavia looks for stale amphorae: not after a start."""
        timeout = self.settings.heartbeat_timeout
        return self.now >= self._checks_from and any(
            row.up and self.now - self._started.get(host, -timeout) > timeout
            for host, row in self.rows.items())

    def _plan(self):
        listeners = self._listeners()
        if self._status == trial.CANARY and (
                self.now >= self._opens_at or listening.has_nothing_to_lose(
                    self.good, self.addresses, listeners)):
            self._open()
        decision = plan.plan(listeners, self.addresses, (), self.good)
        if decision.addresses is None:
            return
        self.published.append((self.now, decision.addresses))
        self._status = trial.first_status(
            self.good, decision.addresses, listeners, CANARIES, 0)
        self._slots = subset.assign_slots(self._slots, decision.addresses)
        if self._status == trial.OPEN:
            self._open()
            return
        self._opens_at = self.now + trial.time_to_watch(
            CANARY_WAIT, len(decision.addresses), self.settings)
        for amphora in self._amphorae[:CANARIES]:
            amphora.upload(self._slots, self.now + simulation.UPLOAD_TIME)

    def _open(self):
        self._status, self.good = trial.OPEN, self.addresses
        self._upload(self.now + simulation.UPLOAD_TIME)
