# SPDX-License-Identifier: Apache-2.0

"""For how many more pins ovs-vswitchd has room, in each VIP and in all.

Each pin is a flow, and takes memory of a process that all tenants of a node
share. Open vSwitch itself bounds the tables of each VIP (bridges.py); what
all have together is measured. Before a bound is reached beginnings
are remembered for a minute alone, as a flood of them has no second packet; at
the bound, beginnings that need no pin get none, see pipeline.Room.
"""

from collections import abc
import math
import time
import typing

from oslo_log import log as logging

from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Of a bound: from where on room is scarce, and that there is none; and where
# either ends.
_SCARCE, _NONE = 0.5, 0.95
_LESS = 0.8
# How many VIPs are counted at a time: each takes some 30 ms of a processor.
_SHARE = 3
# Seconds until pins of beginnings are gone that were made as room was scarce,
# and until that is noticed.
RETURN = sharing.YOUNG_TIMEOUT + 30


class _Switch(typing.Protocol):
    def read_load(self) -> ofctl.Load:
        """Return what there is; may raise VswitchUnavailable."""

    def count(self, bridge: str, *matches: openflow.Match) -> list[int]:
        """Count flows; may raise VswitchUnavailable."""


class Rooms:
    """How much room there is. One thread may measure, others may ask.

    :param options: max_pins and max_flows.
    :param clock: returns seconds.
    """

    def __init__(self, switch: _Switch, options: typing.Any,
                 clock: abc.Callable[[], float] = time.monotonic) -> None:
        self._switch = switch
        self._clock = clock
        self._max_pins = options.max_pins
        self._max_flows = options.max_flows
        # None if unknown.
        self._load: ofctl.Load | None = ofctl.Load(0, 0, 0)
        self._whole = pipeline.Room.ENOUGH
        self._cache = pipeline.Room.ENOUGH
        self._of_vips: dict[str, pipeline.Room] = {}
        # By VIP: when get() told last that it is scarce.
        self._scarce_at: dict[str, float] = {}
        self._next = 0

    def get(self, vip_id: str) -> pipeline.Room:
        """Return for how many pins of a VIP there is room."""
        found = max(self._whole, self._of_vips.get(vip_id, self._whole),
                    key=lambda room: room.value)
        now = self._clock()
        if found is not pipeline.Room.ENOUGH:
            self._scarce_at[vip_id] = now
        elif now < self._scarce_at.get(vip_id, -math.inf) + RETURN:
            return pipeline.Room.RETURNING
        return found

    @property
    def cached(self) -> int | None:
        """How many flows the data path had at the last measurement."""
        return self._load.cached if self._load else None

    @property
    def bound(self) -> int:
        """How many pins each table of a VIP may have just now."""
        return 0 if self._whole is pipeline.Room.NONE else self._max_pins

    def measure(self, changing: abc.Mapping[str, str]) -> None:
        """Measure how much room there is.

        :param changing: VIPs whose connections may be pinned: the id and the
                         name of the bridge. Some are counted, and others
                         at the next call.
        :raises VswitchUnavailable: if a bridge does not answer.
        """
        self._measure_all()
        for vip_id, scarce_at in list(self._scarce_at.items()):
            if scarce_at + RETURN <= self._clock():
                self._scarce_at.pop(vip_id, None)
        for vip_id in set(self._of_vips) - set(changing):
            del self._of_vips[vip_id]
        vips = sorted(changing)
        first = self._next = self._next % max(1, len(vips))
        self._next += _SHARE
        for vip_id in vips[first:first + _SHARE]:
            self._measure_one(vip_id, changing[vip_id])

    def _measure_all(self) -> None:
        try:
            load = self._switch.read_load()
        except exceptions.VswitchUnavailable as e:
            # Traffic goes on all the same.
            if self._load is not None:
                LOG.warning('Whether ovs-vswitchd has more flows than '
                            '[hmsync_distributor] max_flows is not known: '
                            '%s', e)
            self._load = None
            return
        self._load = load
        before, self._whole = self._whole, _judge(
            self._whole, load.flows / self._max_flows)
        if (before is pipeline.Room.NONE) != (
                self._whole is pipeline.Room.NONE):
            self._say_whole(load.flows)
        before, self._cache = self._cache, _judge(
            self._cache, load.cached / max(1, load.cache_limit))
        if self._is_cache_full and before is not self._cache:
            LOG.warning(
                'The cache of ovs-vswitchd has %d flows, of %d that it allows '
                'for just now: further connections cost it more, and changes '
                'of members last longer. If it has processors to spare, raise '
                'other_config:flow-limit of Open vSwitch.', load.cached,
                load.cache_limit)

    @property
    def _is_cache_full(self) -> bool:
        return self._cache is pipeline.Room.NONE

    def _measure_one(self, vip_id: str, bridge: str) -> None:
        most = max(self._switch.count(bridge, *(
            openflow.Match(table)
            for table in (sharing.PINS, sharing.HANDSHAKES))))
        before = self._of_vips.get(vip_id, pipeline.Room.ENOUGH)
        after = self._of_vips[vip_id] = _judge(before, most / self._max_pins)
        if after is pipeline.Room.NONE and before is not after:
            LOG.warning(
                'VIP %s: %d connections are remembered since its members '
                'changed, of [hmsync_distributor] max_pins = %d: no more '
                'are. New ones go to members of before. If it is no flood, '
                'raise max_pins.', vip_id, most, self._max_pins)

    def _say_whole(self, flows: int) -> None:
        if self._whole is pipeline.Room.NONE:
            LOG.warning(
                'ovs-vswitchd has %d flows, of [hmsync_distributor] '
                'max_flows = %d: no more connections are remembered when '
                'members change, of any VIP. If it has memory to spare, raise '
                'max_flows, or have fewer load balancers on this node.', flows,
                self._max_flows)
        else:
            LOG.info('ovs-vswitchd has %d flows: connections are remembered '
                     'again.', flows)

    def describe(self) -> dict[str, typing.Any]:
        """Return what /v1/status has of it."""
        load = self._load
        return {
            'flows': load.flows if load else None,
            'max_flows': self._max_flows,
            'cached_flows': load.cached if load else None,
            'max_cached_flows': load.cache_limit if load else None,
            'full': self._whole is pipeline.Room.NONE,
            'cache_full': self._is_cache_full,
            'full_vips': sorted(
                vip_id for vip_id, room in list(self._of_vips.items())
                if room is pipeline.Room.NONE)}


def _judge(before: pipeline.Room, share: float) -> pipeline.Room:
    """Return how much room there is, and do not go to and fro."""
    for room, begins in ((pipeline.Room.NONE, _NONE),
                         (pipeline.Room.SCARCE, _SCARCE)):
        if share >= begins * (_LESS if before.value >= room.value else 1):
            return room
    return pipeline.Room.ENOUGH
