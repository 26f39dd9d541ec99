# SPDX-License-Identifier: Apache-2.0

"""Pins that this process makes, of what it finds in the cache.

Packets make others by themselves, see sharing.py.
"""

import collections
import dataclasses
import logging
import math
import threading
import time

from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import transition as transitions
from octavia_hmsync.distributor import schemas
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Of more flows than that in the cache, connections are not found in it: one
# second in ten would go to reading it.
MAX_CACHED = 100000
# How many pins another distributor is told of.
_MAX_TOLD = schemas.MAX_PINS
# Seconds between two looks at whether the cache is to be read.
_IDLE_PAUSE = 1
# How often the cache is read, in shares of the time for which it has what has
# no packets.
_OFTEN = 0.7
_NOT_FOLLOWED = (None, 0, None)


def get_timeout(document):
    """Return the seconds for which a pin may be silent."""
    return transitions.get_pin_timeout(document) + transitions.MARGIN


class Keeper:
    """Keeps connections when a mapping of before is forgotten.

    In all methods bridge is the name of that of the VIP, and now is seconds
    since the epoch. They raise VswitchUnavailable, saying what is wrong.

    :param switch: an Ofctl.
    :param links: Bridges.
    :param rooms: Rooms.
    """

    def __init__(self, switch, links, rooms, options):
        self._ofctl = switch
        self._bridges = links
        self._rooms = rooms
        self._options = options
        # By the MAC address of the VIP, while packets go to several members:
        # the Recorder, for how long a connection may be silent, the bridge.
        self._recorders = {}
        # How many flows the cache had when it was read last.
        self._cached = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def start(self):
        """Read the cache as often as is needed, by a thread."""
        threading.Thread(target=self._read_on, daemon=True,
                         name='recorder').start()

    def stop(self):
        """End the thread."""
        self._stopping.set()

    def get_known_since(self, document):
        """Return since when all connections of a VIP are known.

        :returns: seconds since the epoch; inf if they are not.
        """
        known, *_ = self._recorders.get(document.port.mac, _NOT_FOLLOWED)
        return known.known_since if known else math.inf

    def begin(self, bridge, document, seen, now):
        """Note that members change; seen is what the cache had before that."""
        found = list(recorder.read(seen))
        with self._lock:
            self._ensure(bridge, document, now).change(found, now)

    def follow(self, bridge, document, transition, now):
        """Have the cache read for a VIP as long as that is needed."""
        with self._lock:
            if transition.doubles and document.active:
                self._ensure(bridge, document, now)
            else:
                self._recorders.pop(document.port.mac, None)

    def forget(self, bridge):
        """Stop reading the cache for a VIP that is removed."""
        with self._lock:
            for mac in [mac for mac, followed in self._recorders.items()
                        if followed[2] == bridge]:
                del self._recorders[mac]

    def _ensure(self, bridge, document, now):
        mac = document.port.mac
        known, *_ = self._recorders.get(mac, _NOT_FOLLOWED)
        if known is None:
            known = recorder.Recorder(self._bridges.get_max_idle(),
                                      self._options.max_pins, now)
        self._recorders[mac] = known, get_timeout(document), bridge
        return known

    def pin(self, bridge, before, after, document, now):
        """Pin connections by a mapping that is forgotten, which live on.

        :param before: a Transition.
        :param after: the next one, which is to be in force.
        """
        mac, living = document.port.mac, mapping.get_living(document)
        known, timeout, _ = self._recorders.get(mac, _NOT_FOLLOWED)
        if known is None or not before.doubles:
            return
        formers = {mapping.without_dead(one, living, after.current, False)
                   for one in before.formers}
        done: dict[recorder.Key, recorder.Pin] = {}
        # Once more: some had a packet meanwhile.
        for _ in range(0 if formers <= {*after.formers, after.current} else
                       2):
            self.read_caches(now, mac)
            with self._lock:
                pins = [pin for pin in known.find_pins(
                    after.is_over and not before.between, living)
                    if done.get(pin.key) != pin]
            self._add(bridge, pins, timeout)
            done.update((pin.key, pin) for pin in pins)
        if done:
            LOG.info('%d connections of the bridge %s are remembered as its '
                     'members have changed, %d of them as of one of several '
                     'members.', len(done), bridge,
                     sum(len(pin.macs) > 1 for pin in done.values()))
        if after.formers != before.formers:
            with self._lock:
                known.reorder(now)

    def _add(self, bridge, pins, timeout):
        there, = self._ofctl.count(bridge, openflow.Match(sharing.PINS))
        space = max(0, self._rooms.bound - there)
        if len(pins) > space:
            LOG.warning(
                '%d connections of the bridge %s are not remembered, for '
                'which there is no room: see [hmsync_distributor] max_pins.',
                len(pins) - space, bridge)
        if pins[:space]:
            self._ofctl.apply(bridge, [pin.to_text(timeout)
                                       for pin in pins[:space]])

    def _read_on(self):
        while not self._stopping.is_set():
            pause = _IDLE_PAUSE
            try:
                if self._recorders:
                    began = time.monotonic()
                    self.read_caches(time.time())
                    # On a busy node it takes seconds.
                    pause = max(_IDLE_PAUSE,
                                _OFTEN * self._bridges.get_max_idle() -
                                (time.monotonic() - began))
            except exceptions.VswitchUnavailable as e:
                LOG.info('Connections are not found in the cache: %s', e)
                self._miss()
            except Exception:
                LOG.exception('The cache of Open vSwitch could not be read. '
                              'It is tried again.')
                self._miss()
            self._stopping.wait(pause)

    def _miss(self):
        for known, *_ in self._recorders.copy().values():
            known.miss()

    def read_caches(self, now, mac=None):
        """Note whose connections are, of VIPs whose members change.

        :param mac: of one VIP; None for all.
        """
        with self._lock:
            recorders = {each: followed
                         for each, followed in self._recorders.items()
                         if mac in (None, each)}
            if not recorders:
                return
            began = time.monotonic()
            seen = self._read_cache(next(iter(recorders))
                                    if len(recorders) == 1 else None)
            took = time.monotonic() - began
            found = collections.defaultdict(list)
            for one in recorder.read(seen or ()):
                found[one.vip].append(one)
            for each, (known, timeout, _) in recorders.items():
                if seen is None:
                    known.miss()
                else:
                    known.note(found[each], now, timeout, took)

    def _read_cache(self, mac=None):
        """Return flows of the cache; None if they cannot be read."""
        try:
            load = self._ofctl.read_load()
            before, self._cached = self._cached, load.cached
            if max(before, load.cached) > min(MAX_CACHED, load.cache_limit):
                # It has no complete list then: above its limit, which it
                # lowers when it is busy, Open vSwitch forgets what has had no
                # packet for a tenth of a second, and is below it again.
                return None
            return self._ofctl.get_cache(self._options.datapath_type, mac)
        except exceptions.VswitchUnavailable as e:
            LOG.info('Connections are not found in the cache: %s', e)
            return None

    def count(self, bridge, document, transition, now):
        """Return how many connections each member may have, as one of several.

        :returns: a dict by MAC address; also whether all are known.
        """
        counted: collections.Counter[str] = collections.Counter()
        if self._ofctl.count(bridge, recorder.DOUBTFUL) != [0]:
            for pin in recorder.read_pins(self._ofctl.get_flows(
                    bridge, recorder.DOUBTFUL)):
                counted.update(pin.macs)
        with self._lock:
            known, timeout, _ = self._recorders.get(document.port.mac,
                                                    _NOT_FOLLOWED)
            if known is None:
                return counted, not transition.doubles
            found, is_complete = known.count(now, timeout)
        return counted + found, is_complete

    def read_pins(self, bridge):
        """Return the pins of a VIP that controllers tell other distributors.

        Of pins that packets made, the others are told at once.

        :returns: a list for JSON, bounded.
        """
        kinds = (recorder.CERTAIN, recorder.DOUBTFUL)
        pins = [pin for match, there in zip(
            kinds, self._ofctl.count(bridge, *kinds)) if there
            for pin in recorder.read_pins(self._ofctl.get_flows(
                bridge, match))]
        return [pin.to_json() for pin in pins[:_MAX_TOLD]]

    def take_pins(self, bridge, document, pins):
        """Have the pins that the active distributor has.

        They are forgotten when others are told, or some time after this
        distributor became the active one.

        :param document: by which it is not active.
        :param pins: what read_pins() returned there.
        """
        living = mapping.get_living(document)
        told = [dataclasses.replace(pin, macs=macs) for pin, macs in (
            (pin, tuple(mac for mac in pin.macs if mac in living))
            for pin in map(recorder.Pin.from_json, pins)) if macs]
        there, = self._ofctl.count(bridge, recorder.WAITING)
        if told or there:
            self._ofctl.apply(bridge, [
                f'flow delete {recorder.WAITING.to_text()}',
                *(pin.to_text(None) for pin in told[:self._rooms.bound])])

    def begin_pins(self, bridge, document):
        """Let pins that were told lapse, some time from now on.

        :param document: by which it is active now.
        """
        there, = self._ofctl.count(bridge, recorder.WAITING)
        if there:
            # The same flows, with other cookies.
            self._ofctl.apply(bridge, [
                pin.to_text(get_timeout(document))
                for pin in recorder.read_pins(self._ofctl.get_flows(
                    bridge, recorder.WAITING))])

    def forget_dead(self, bridge, gone):
        """Return what has a pin of several members lead to the others.

        :param gone: MAC addresses of members that are dead.
        :returns: lines of a bundle.
        """
        lines: list[str] = []
        if not gone or self._ofctl.count(bridge, recorder.DOUBTFUL) == [0]:
            return lines
        for flow in self._ofctl.get_flows(bridge, recorder.DOUBTFUL):
            for pin in recorder.read_pins([flow]):
                left = tuple(mac for mac in pin.macs if mac not in gone)
                if left and left != pin.macs:
                    lines.append(dataclasses.replace(pin, macs=left).to_text(
                        None if recorder.waits(flow)
                        else recorder.get_timeout(flow)))
        return lines
