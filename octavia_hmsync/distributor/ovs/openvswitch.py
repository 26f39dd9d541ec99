# SPDX-License-Identifier: Apache-2.0

"""The data plane of a distributor: VIP documents in, packets forwarded."""

import collections
import contextlib
import logging
import threading
import time

from octavia_hmsync.distributor import announcement
from octavia_hmsync.distributor.ovs import announcer
from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync.distributor.ovs import conf as ovs_conf
from octavia_hmsync.distributor.ovs import counters
from octavia_hmsync.distributor.ovs import interfaces
from octavia_hmsync.distributor.ovs import keeping
from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import programming
from octavia_hmsync.distributor.ovs import room
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import state as states
from octavia_hmsync.distributor.ovs import transition as transitions
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# How many bridges has_lost_flows() looks into at a time, where there is no
# sign that anything has happened: each takes some 30 ms of a processor, and
# who deletes flows of one bridge alone is rare.
_SHARE = 3
# By which ovs-vswitchd says that it has sent what it was given.
_SENT = b'sent'


class OpenVSwitch:
    """The Open vSwitch of this node: see distributor.backend.Backend.

    All methods may be called by several threads, and raise
    VswitchUnavailable, saying what is wrong. Where now is None it is the
    present, in seconds since the epoch.

    :param flows: what programs them; an Ofctl by default.
    :param links: what makes bridges; Bridges by default.
    :param clock: seconds.
    """

    def __init__(self, conf, flows=None, links=None, clock=time.monotonic):
        ovs_conf.register_opts(conf)
        options = self._options = conf.hmsync_distributor
        self._ofctl = flows or ofctl.Ofctl(options.openvswitch_rundir,
                                           options.openvswitch_timeout)
        self._bridges = links or (
            interfaces.Interfaces(conf)
            if options.connect_by == ovs_conf.INTERFACE
            else bridges.Bridges(conf))
        self._rooms = room.Rooms(self._ofctl, options, clock)
        self.keeper = keeping.Keeper(self._ofctl, self._bridges, self._rooms,
                                     options)
        self._programmer = programming.Programmer(
            self._ofctl, self._rooms, self.keeper, options)
        self._announcer = announcer.Announcer(self._send)
        self._locks = collections.defaultdict(threading.Lock)
        self._clock = clock
        self._told_at = clock()
        # By VIP: what apply() left; None where it failed.
        self._applied = {}
        self._next = 0

    def start(self):
        self.keeper.start()

    def stop(self):
        self.keeper.stop()

    def advance(self, document, previous=None, now=None):
        return states.advance(document, previous, now,
                              self.keeper.get_known_since(document))

    def is_due(self, document, state, now=None):
        return states.is_due(document, state, now,
                             self.keeper.get_known_since(document))

    share = staticmethod(states.share)
    adopt = staticmethod(states.adopt)
    describe = staticmethod(states.describe)

    def apply(self, vip_id, document, previous=None, now=None, keep=None,
              down=()):
        """Put a document in force; again does no harm.

        What is right already is not touched. It must be called again, with
        the same document, when is_due() says so.

        :param previous: what advance() or apply() returned last for this VIP,
                         a dict; None if there was nothing.
        :param down: MAC addresses of members whose front ends are seen DOWN.
        :returns: the state of the VIP, a dict for JSON, to be kept: by it
                  connections stay where they are over the next change.
        """
        now = time.time() if now is None else now
        transition = transitions.Transition.from_json(
            self.advance(document, previous, now))
        with self._locks[vip_id]:
            return self._apply(vip_id, document, transition, now,
                               keep or (lambda _state: None), down).to_json()

    def _apply(self, vip_id, document, transition, now, keep, down):
        bridge = _name_bridge(vip_id)
        self._applied.setdefault(vip_id)
        if self._ofctl.get_boot(bridge) is None:
            # Fail at once if Open vSwitch could not make the bridge.
            self.check()
        is_new = not self._bridges.has(vip_id)
        in_port = self._bridges.ensure(vip_id, document.port)
        self._programmer.find_meters(bridge, in_port)
        vip_room = self._rooms.get(vip_id)
        after = programming.Applied(
            vip_id, bridge, document, transition, in_port,
            self._programmer.compile(document, transition, in_port, vip_room),
            self._ofctl.get_boot(bridge), vip_room)
        before = self._applied.get(vip_id)
        if before:
            # Should this fail, it is done once more.
            self.keeper.pin(bridge, before.transition, transition, document,
                            now)
        # Not known any more, should this fail.
        self._applied[vip_id] = None
        if before and before.boot == after.boot:
            after = self._programmer.change(before, after, now, keep,
                                            down)
        elif is_new:
            self._programmer.begin(after)
        else:
            self._programmer.take_over(after)
        self._applied[vip_id] = after
        self.keeper.follow(bridge, document, after.transition, now)
        if document.active and not is_new and not (
                before and before.document.active):
            self.keeper.begin_pins(bridge, document)
        self._announce_change(vip_id, document)
        return after.transition

    def read_pins(self, vip_id):
        return self.keeper.read_pins(_name_bridge(vip_id))

    def take_pins(self, vip_id, document, pins):
        bridge = _name_bridge(vip_id)
        with self._locks[vip_id]:
            if self._ofctl.get_boot(bridge) is None:
                raise _not_in_force(vip_id)
            self.keeper.take_pins(bridge, document, pins)

    def _announce_change(self, vip_id, document):
        """Announce a VIP that becomes this distributor's."""
        announced = (','.join((document.port.mac, *document.addresses))
                     if document.active else '')
        mark = f'{announced} {document.version}' if announced else ''
        there = self._bridges.get_announced(vip_id)
        before, _, version = there.partition(' ')
        # Another one may have had it in a version that this one never got.
        if announced != before or (
                version and document.version > int(version) + 1):
            self._announcer.stop(vip_id)
            if announced:
                self._announcer.start(vip_id)
        # Then only: who dies in between announces it again, and not never.
        if mark != there:
            self._bridges.set_announced(vip_id, mark)

    def announce(self, vip_id):
        """Say to all in the network whose the addresses of a VIP are.

        It is said several times, by a thread. apply() does that by itself
        when the VIP becomes this distributor's.
        """
        applied = self._applied.get(vip_id)
        if applied is None:
            raise _not_in_force(vip_id)
        if applied.document.active:
            self._announcer.start(vip_id)

    def _send(self, vip_id):
        applied = self._applied.get(vip_id)
        if applied:
            document = applied.document
            with self._dial(applied) as line:
                line.send([
                    frame for address in document.addresses
                    for frame in announcement.make_frames(
                        address, document.port.mac)], _SENT)
                # Who hangs up sooner is not listened to.
                line.wait_for(_SENT, self._options.openvswitch_timeout)

    def _dial(self, applied):
        return contextlib.closing(self._programmer.dial(applied.bridge,
                                                        applied.in_port))

    def count_lost(self):
        return self._ofctl.count_lost()

    def dial(self, vip_id):
        """Connect to the bridge of a VIP whose flows are there."""
        applied = self._applied.get(vip_id)
        if applied is None or self._ofctl.get_boot(
                applied.bridge) != applied.boot:
            raise _not_in_force(vip_id)
        return self._programmer.dial(applied.bridge, applied.in_port)

    def close(self):
        """Announce nothing more; what is in force stays."""
        self._announcer.close()

    def remove(self, vip_id):
        """Delete all there is of a VIP; return True if there was something."""
        with self._locks[vip_id]:
            self._announcer.stop(vip_id)
            self._applied.pop(vip_id, None)
            self._programmer.forget(vip_id)
            self.keeper.forget(_name_bridge(vip_id))
            return self._bridges.remove(vip_id)

    def list_vips(self):
        return self._bridges.list_vips()

    def read_traffic(self, vip_id, macs):
        """Return what was sent to members, since their flows were made.

        :returns: a dict from each MAC address to packets and bytes.
        """
        return {mac: {'packets': sent.packets, 'bytes': sent.bytes}
                for mac, sent in zip(macs, self._ofctl.sum(
                    _name_bridge(vip_id),
                    *(sharing.match_sent(mac, pipeline.OUTPUT)
                      for mac in macs)))}

    def read_counters(self, vip_id, macs, now=None):
        """Return what went through the bridge of a VIP.

        :returns: a dict with members, a dict from the MAC address to packets,
                  bytes, pins and connections, which is None where it has none
                  that are known and not all are; and claims, the number of
                  frames by which others said that the VIP were theirs.
        """
        bridge = _name_bridge(vip_id)
        members = self.read_traffic(vip_id, macs)
        tables = programming.PINS
        counts = self._ofctl.count(bridge, *(
            sharing.match_pins(mac, table) for mac in members
            for table in tables))
        applied = self._applied.get(vip_id)
        others, is_complete = self.keeper.count(
            bridge, applied.document, applied.transition,
            time.time() if now is None else now) if applied else ({}, False)
        for number, (mac, one) in enumerate(members.items()):
            one['pins'] = sum(counts[number * len(tables):][:len(tables)])
            one['connections'] = one['pins'] + others.get(mac, 0) or (
                0 if is_complete else None)
        return {'members': members,
                'claims': counters.sum_claims(self._ofctl.get_flows(
                    bridge, openflow.Match(pipeline.CLASSIFY)))}

    def measure_load(self):
        applied = {vip_id: one for vip_id, one in self._applied.copy().items()
                   if one}
        self._rooms.measure({
            vip_id: one.bridge for vip_id, one in applied.items()
            if not one.transition.is_over})
        self._bridges.bound(self._rooms.bound)
        for vip_id, one in applied.items():
            if one.room is not self._rooms.get(vip_id):
                self._make_room(vip_id)
        if self._clock() - self._told_at >= sharing.INTERVAL:
            self._told_at = self._clock()
            for vip_id, one in applied.items():
                if one.document.active and one.document.partners:
                    self._tell_again(one)
        return self._rooms.describe()

    def _tell_again(self, applied):
        """Tell other distributors anew of connections that go on."""
        try:
            with self._dial(applied) as line:
                line.empty(sharing.SHARED, self._options.openvswitch_timeout)
        except exceptions.VswitchUnavailable as e:
            # The restorer puts its flows back, and tells them then.
            LOG.debug('Others are not told anew of VIP %s: %s',
                      applied.vip_id, e)

    @contextlib.contextmanager
    def _at_rest(self, vip_id):
        """Hold a VIP that no thread is changing; whether there is none."""
        lock = self._locks[vip_id]
        taken = lock.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                lock.release()

    def _make_room(self, vip_id):
        """Program a VIP for the room that there is now."""
        with self._at_rest(vip_id) as is_at_rest:
            before = self._applied.get(vip_id)
            # What is being changed is looked at again.
            if (not is_at_rest or before is None or
                    self._ofctl.get_boot(before.bridge) != before.boot):
                return
            vip_room = self._rooms.get(vip_id)
            after = before._replace(
                room=vip_room, program=self._programmer.compile(
                    before.document, before.transition, before.in_port,
                    vip_room))
            if after.program.cookie != before.program.cookie:
                self._applied[vip_id] = None
                self._programmer.replace(before, after)
            self._applied[vip_id] = after

    def has_lost_flows(self):
        """Look whether what apply() programmed is still there.

        All are named when ovs-vswitchd has been started anew. Else some are
        looked at, and others at the next call.

        :returns: the ids of VIPs for which apply() must be called again.
        """
        vips = sorted(self._applied)
        first = self._next = self._next % max(1, len(vips))
        self._next += _SHARE
        turn = {*vips[first:first + _SHARE]}
        return [vip_id for vip_id in vips if self._has_lost(
            vip_id, vip_id in turn)]

    def _has_lost(self, vip_id, look):
        with self._at_rest(vip_id) as is_at_rest:
            # The thread that changes it sees whether it works. Or it was
            # removed meanwhile.
            if not is_at_rest or vip_id not in self._applied:
                return False
            applied = self._applied[vip_id]
            return (applied is None or
                    self._ofctl.get_boot(applied.bridge) != applied.boot or
                    look and not self._programmer.has(applied))

    def check(self):
        """Check that Open vSwitch can be used; return its version."""
        version = self._bridges.check()
        self._ofctl.check(self._options.integration_bridge)
        return version


def _name_bridge(vip_id):
    return bridges.Names.of(vip_id).bridge


def _not_in_force(vip_id):
    return exceptions.VswitchUnavailable(
        f'Nothing is in force for the VIP {vip_id}: put it first.')
