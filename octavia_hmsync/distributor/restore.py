# SPDX-License-Identifier: Apache-2.0

"""Sees to it that the data plane does what is remembered.

After a start of this process, of ovs-vswitchd or of the node, after a time
without Open vSwitch, and when a change of members has lasted long enough.
"""

from collections import abc
from concurrent import futures
import dataclasses
import threading
import time
import typing

from oslo_log import log as logging

from octavia_hmsync.distributor import vips as vips_
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Rounds between two searches for bridges of no known VIP.
_STRAY_ROUNDS = 30
# Seconds, above what a call of Open vSwitch may take: a round that takes
# longer than this is hanging.
_HANGING = 60
# How many are put in force at a time: what ovs-vswitchd is told while it looks
# at all its bridges it does with one look.
_AT_ONCE = 32
# After how many failures in a row the others would fail, too: each may take
# as long as a call of Open vSwitch does at most.
_ENOUGH = 2 * _AT_ONCE
# The error of a VIP that was not tried.
_LEFT = ''


@dataclasses.dataclass(frozen=True)
class Health:
    """How Open vSwitch is.

    :ivar version: of Open vSwitch; None if it does not work.
    :ivar error: why not.
    :ivar load: how much of it is used; None if that is not known.
    """

    version: str | None
    error: str | None
    load: dict[str, typing.Any] | None = None


class Restorer:
    """A thread that checks each interval, in seconds."""

    def __init__(self, vips: vips_.Vips, interval: float,
                 clock: abc.Callable[[], float] = time.monotonic) -> None:
        self._vips = vips
        self._interval = interval
        self._clock = clock
        self._stopping = threading.Event()
        self._health = Health(None, 'not checked yet since the start')
        self._checked_at = clock()
        self._said: str | None = None
        self._failed: frozenset[str] = frozenset()
        self._rounds = 0
        self._thread = threading.Thread(
            target=self._run, name='restorer', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread; wait so many seconds for what it does just now."""
        self._stopping.set()
        self._thread.join(timeout)

    def get_health(self) -> Health:
        """Return how Open vSwitch was when it was last checked."""
        seconds = self._clock() - self._checked_at
        if seconds > _HANGING + self._interval:
            return Health(None, f'Open vSwitch has not answered for '
                                f'{seconds:.0f} s')
        return self._health

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.run_once()
            except Exception:
                LOG.exception('A round of checking the VIPs failed. The '
                              'next one begins in %s s.', self._interval)
            self._stopping.wait(self._interval)

    def run_once(self) -> None:
        """Do one round."""
        try:
            version = str(self._vips.backend.check())
            self._note(Health(version, None,
                              self._vips.backend.measure_load()))
            lost = self._vips.mark_lost()
            if lost:
                LOG.warning(
                    'The flows of %d VIPs were gone, as after a restart of '
                    'Open vSwitch, and are put back, among them those of %s.',
                    len(lost), min(lost))
            self._follow_all()
            if self._rounds % _STRAY_ROUNDS == 0:
                self._find_strays()
            self._rounds += 1
        except exceptions.VswitchUnavailable as e:
            self._note(Health(None, str(e)))
        finally:
            self._checked_at = self._clock()

    def _follow_all(self) -> None:
        # The VIP that failed last is last in turn, so that it delays no other.
        due = sorted(self._vips.list_due(),
                     key=lambda vip_id: vip_id in self._failed)
        failed: dict[str, str] = {}
        done = in_a_row = 0
        started = self._clock()

        def follow(vip_id: str) -> str | None:
            nonlocal in_a_row
            if self._stopping.is_set() or in_a_row >= _ENOUGH:
                return _LEFT
            error = self._follow(vip_id)
            in_a_row = 0 if error is None else in_a_row + 1
            # It lives.
            self._checked_at = self._clock()
            return error

        with futures.ThreadPoolExecutor(
                min(_AT_ONCE, len(due)) or 1,
                thread_name_prefix='restorer') as pool:
            for vip_id, error in zip(due, pool.map(follow, due)):
                if error is None:
                    done += 1
                elif error != _LEFT:
                    failed[vip_id] = error
        if self._stopping.is_set():
            return
        if done:
            LOG.info('%d VIPs were checked in %.1f s and are in force.',
                     done, self._clock() - started)
        self._failed = frozenset(failed)
        self._say_failed(failed, len(due) - done)

    def _follow(self, vip_id: str) -> str | None:
        try:
            self._vips.follow(vip_id)
            return None
        except (exceptions.VswitchUnavailable, exceptions.StoreFailed,
                exceptions.VipBusy) as e:
            return str(e)
        except Exception as e:
            LOG.exception('The VIP %s cannot be put in force.', vip_id)
            return f'{type(e).__name__}: {e}'

    def _say_failed(self, failed: dict[str, str], count: int) -> None:
        # Once, and again when it is something else.
        reasons = ' '.join(sorted(set(failed.values()))[:3])
        if failed and reasons != self._said:
            LOG.warning('%d VIPs are not in force as they should be, among '
                        'them %s: %s', count, min(failed), reasons)
        self._said = reasons if failed else None

    def _find_strays(self) -> None:
        strays = self._vips.find_strays()
        if strays:
            LOG.warning(
                'Open vSwitch has bridges of %d VIPs that this distributor '
                'does not remember, among them %s: it leaves them alone. Was '
                '[hmsync_distributor] state_path changed? A controller that '
                'needs them sends them anew, others can be deleted.',
                len(strays), strays[0])

    def _note(self, health: Health) -> None:
        before, self._health = self._health, health
        if health.error and health.error != before.error:
            LOG.warning('Open vSwitch does not work: %s What it forwards '
                        'already goes on, if it runs at all.', health.error)
        elif health.version and not before.version:
            LOG.info('Open vSwitch %s works.', health.version)
