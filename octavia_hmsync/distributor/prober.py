# SPDX-License-Identifier: Apache-2.0

"""The thread that probes the members of all VIPs.

It works in ticks, because ovs-vswitchd wakes up for each message, and then
goes through all of its bridges.

With much traffic Open vSwitch drops packets while ovs-vswitchd is too busy.
A lost probe says nothing about a member, nor that another distributor would
hear more.
"""

from collections import abc
import math
import selectors
import threading
import time
import zlib

from oslo_log import log as logging

from octavia_hmsync.distributor import backend as backend_
from octavia_hmsync.distributor import probe_results as results_
from octavia_hmsync.distributor import probed_vip
from octavia_hmsync.distributor import vips as vips_
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

_TICKS = 20
# Ticks between two updates of the list of VIPs.
_FOLLOW = 2
# Seconds before it goes on after an error.
_PAUSE = 5
# Seconds until a problem is logged again.
_SILENCE = 60

# In shares of the interval between two probes: how long a loss counts, and how
# long a reading.
_COUNTS = 5
_FRESH = 0.4


class Losses:
    """Counts packets that Open vSwitch lost. For one thread only.

    :param count: returns how many packets were lost so far, None if unknown.
    :param interval: seconds between two probes of a member.
    :param clock: seconds.
    """

    def __init__(self, count: abc.Callable[[], int | None], interval: float,
                 clock: abc.Callable[[], float]) -> None:
        self._count = count
        self._interval = interval
        self._clock = clock
        self._before: int | None = None
        self._read_at = self._lost_at = -math.inf

    def are_recent(self) -> bool:
        """Tell whether packets were lost a moment ago.

        The first doubt after a while has no earlier reading to compare with:
        only a second doubt can make a member DOWN.
        """
        now = self._clock()
        age = now - self._read_at
        if age > _FRESH * self._interval:
            number = self._count()
            if (number is not None and self._before is not None and
                    number > self._before and
                    age <= _COUNTS * self._interval):
                self._lost_at = now
            self._before, self._read_at = number, now
        return now - self._lost_at <= _COUNTS * self._interval


class Prober:
    """Probes members, after start().

    :param interval: seconds between two probes of a member; 0 for no probes.
    :param misses: after how many in a row without an answer one is DOWN.
    :param patience: seconds without any answer after which a haproxy hangs;
                     0 to ask no haproxy.
    """

    def __init__(self, vips: vips_.Vips, results: results_.Results,
                 interval: float, misses: int,
                 clock: abc.Callable[[], float] = time.monotonic,
                 patience: float = 0) -> None:
        self._vips = vips
        self._results = results
        self._interval = interval
        self._misses = misses
        self._patience = patience
        self._clock = clock
        self._losses = Losses(vips.backend.count_lost, interval, clock)
        self._probed: dict[str, probed_vip.ProbedVip] = {}
        self._may_begin: dict[str, bool] = {}
        # {VIP: (version, left-out members)}, as given to the data plane.
        self._left_out: dict[str, tuple[
            int | None, frozenset[str]]] = {}
        self._selector = selectors.DefaultSelector()
        # Lines by VIP, as registered with the selector; VIPs that have used up
        # this tick.
        self._lines: dict[str, backend_.Line] = {}
        self._paused: set[str] = set()
        self._ticks = 0
        self._said = -math.inf
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name='prober',
                                        daemon=True)

    def start(self) -> None:
        """Start the thread, if it has something to do.

        From then on each member to probe has a result, at first UNKNOWN.
        """
        if self._interval:
            self._follow()
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread."""
        self._stopping.set()
        if self._interval:
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self.tick()
                except Exception:
                    LOG.exception('Members could not be probed. That goes '
                                  'on in %s s.', _PAUSE)
                    self._stopping.wait(_PAUSE)
        finally:
            for one in self._probed.values():
                one.hang_up()
            self._selector.close()

    def tick(self) -> None:
        """Do what is due, and listen until the next tick."""
        end = self._clock() + self._interval / _TICKS
        if self._ticks % _FOLLOW == 0:
            self._follow()
        self._ticks += 1
        for vip_id, one in self._probed.items():
            try:
                one.step(self._clock(), self._vips.backend.dial,
                         self._may_begin[vip_id])
            except exceptions.VswitchUnavailable as e:
                self._say(str(e))
            self._watch(vip_id, one)
            self._leave_out(vip_id, one)
        for vip_id in self._paused:
            if vip_id in self._lines:
                self._selector.register(self._lines[vip_id],
                                        selectors.EVENT_READ, vip_id)
        self._paused.clear()
        self._hear(end)

    def _leave_out(self, vip_id: str, one: probed_vip.ProbedVip) -> None:
        version, told = self._left_out.get(vip_id, (None, frozenset()))
        # A newer version starts without left-out members.
        if one.left_out != (told if version == one.version else frozenset()):
            self._vips.leave_out(vip_id, one.version or 0, one.left_out)
        self._left_out[vip_id] = one.version, one.left_out

    def _follow(self) -> None:
        there = self._vips.list_probed()
        for vip_id in set(self._probed) - set(there):
            one = self._probed.pop(vip_id)
            self._left_out.pop(vip_id, None)
            one.end()
            self._watch(vip_id, one)
        for vip_id, (document, is_in_force) in there.items():
            if vip_id not in self._probed:
                # Spread VIPs over the interval after a start.
                slot = zlib.crc32(vip_id.encode()) % _TICKS
                self._probed[vip_id] = probed_vip.ProbedVip(
                    vip_id, self._results, self._interval, self._misses,
                    self._clock() + slot * self._interval / _TICKS,
                    self._vips.backend.announce, self._losses.are_recent,
                    self._vips.leave, self._patience)
            self._probed[vip_id].follow(document, self._clock())
            self._may_begin[vip_id] = is_in_force

    def _watch(self, vip_id: str, one: probed_vip.ProbedVip) -> None:
        """Register the present line of a VIP with the selector."""
        before = self._lines.get(vip_id)
        if before is one.line:
            return
        if before is not None:
            del self._lines[vip_id]
            if vip_id in self._paused:
                self._paused.discard(vip_id)
            else:
                # It is closed, so that only its object identifies it.
                self._selector.unregister(before)
        if one.line is not None:
            self._lines[vip_id] = one.line
            self._selector.register(one.line, selectors.EVENT_READ, vip_id)

    def _hear(self, end: float) -> None:
        while not self._stopping.is_set():
            left = end - self._clock()
            if left <= 0:
                return
            for key, _events in self._selector.select(left):
                self._hear_one(key.data)

    def _hear_one(self, vip_id: str) -> None:
        one = self._probed[vip_id]
        try:
            is_more = one.hear(self._clock())
        except exceptions.VswitchUnavailable as e:
            self._say(str(e))
            is_more = False
        self._watch(vip_id, one)
        if is_more and one.line is not None:
            # One VIP's frames must not keep the others from their probes.
            self._selector.unregister(one.line)
            self._paused.add(vip_id)

    def _say(self, problem: str) -> None:
        # The restorer repairs Open vSwitch; here it explains missing probes.
        if self._clock() - self._said > _SILENCE:
            self._said = self._clock()
            LOG.info('Members are not probed everywhere: %s', problem)
