# SPDX-License-Identifier: Apache-2.0

"""The data plane of a distributor: VIP documents in, packets forwarded."""

import collections
import contextlib
import dataclasses
import logging
import threading
import time

from octavia_hmsync.distributor.ovs import announcer
from octavia_hmsync.distributor.ovs import beginnings
from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync.distributor.ovs import conf as ovs_conf
from octavia_hmsync.distributor.ovs import counters
from octavia_hmsync.distributor.ovs import frames
from octavia_hmsync.distributor.ovs import interfaces
from octavia_hmsync.distributor.ovs import keeping
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import proof
from octavia_hmsync.distributor.ovs import room
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import state as states
from octavia_hmsync.distributor.ovs import transition as transitions
from octavia_hmsync.distributor.ovs import wire
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# How many bridges has_lost_flows() looks into at a time, where there is no
# sign that anything has happened: each takes some 30 ms of a processor, and
# who deletes flows of one bridge alone is rare.
_SHARE = 3
# Of more flows than that in the cache, none is looked at for connections that
# begin: 20 000 take 0.1 s. Of more of these none is remembered: they are a
# flood.
_MAX_READ, _MAX_BEGUN = 20000, 2000
# Of a bundle: deletes all that there is, by whomever.
_CLEAR = ('flow delete cookie=0/0', 'group delete group_id=all')
# By which ovs-vswitchd says that it has sent what it was given.
_SENT = b'sent'
# Tables of what is remembered of a member's connections.
_PINS = (sharing.PINS, sharing.HANDSHAKES)


# What apply() left of a VIP: its Document, the OpenFlow port, the Program, and
# the run of ovs-vswitchd that has it.
_Applied = collections.namedtuple(
    '_Applied', 'document transition in_port program boot room')


class OpenVSwitch:
    """The Open vSwitch of this node.

    All methods may be called by several threads, and raise
    VswitchUnavailable, saying what is wrong.

    :param flows: what programs them; an Ofctl by default.
    :param links: what makes bridges; Bridges by default.
    :param clock: seconds.
    """

    def __init__(self, conf, flows=None, links=None, clock=time.monotonic):
        ovs_conf.register_opts(conf)
        self._conf = conf
        options = conf.hmsync_distributor
        self._ofctl = flows or ofctl.Ofctl(options.openvswitch_rundir,
                                           options.openvswitch_timeout)
        self._bridges = links or (
            interfaces.Interfaces(conf)
            if options.connect_by == ovs_conf.INTERFACE
            else bridges.Bridges(conf))
        self._rooms = room.Rooms(self._ofctl, options)
        # Whether the data path has meters, once that is known.
        self._has_meters = None
        self._announcer = announcer.Announcer(self._send)
        self._locks = collections.defaultdict(threading.Lock)
        self._clock = clock
        self._told_at = clock()
        # By VIP: what apply() left; None where it failed.
        self._applied = {}
        self._next = 0
        self._options = options
        self._said_refused = set()
        self.keeper = keeping.Keeper(self._ofctl, self._bridges, self._rooms,
                                     options)

    def start(self):
        """Begin what is done all the time."""
        self.keeper.start()

    def stop(self):
        """End that."""
        self.keeper.stop()

    def advance(self, document, previous=None, now=None):
        """Return the state that apply() would return; see states.advance()."""
        return states.advance(document, previous, now,
                              self.keeper.get_known_since(document))

    def is_due(self, document, state, now=None):
        """Tell whether apply() is due, by time; see states.is_due()."""
        return states.is_due(document, state, now,
                             self.keeper.get_known_since(document))

    @staticmethod
    def share(state, now=None):
        """Return what others adopt; see states.share()."""
        return states.share(state, now)

    @staticmethod
    def adopt(document, state, shared, now=None):
        """Return the state to go on with; see states.adopt()."""
        return states.adopt(document, state, shared, now)

    @staticmethod
    def describe(state):
        """Return what is to be shown of a state; see states.describe()."""
        return states.describe(state)

    def apply(self, vip_id, document, previous=None, now=None, keep=None):
        """Put a document in force; again does no harm.

        What is right already is not touched. It must be called again, with
        the same document, when is_due() says so.

        :param previous: what advance() or apply() returned last for this VIP,
                         a dict; None if there was nothing.
        :param now: seconds since the epoch; None for now.
        :param keep: called with a state that is to be kept before it is in
                     force, where more is known than advance() knows.
        :returns: the state of the VIP, a dict for JSON, to be kept: by it
                  connections stay where they are over the next change.
        """
        now = time.time() if now is None else now
        transition = transitions.Transition.from_json(
            self.advance(document, previous, now))
        with self._locks[vip_id]:
            return self._apply(vip_id, document, transition, now,
                               keep or (lambda _state: None)).to_json()

    def _apply(self, vip_id, document, transition, now, keep):
        names = bridges.Names.of(vip_id)
        self._applied.setdefault(vip_id)
        if self._ofctl.get_boot(names.bridge) is None:
            # Fail at once if Open vSwitch could not make the bridge.
            self._bridges.check()
            self._ofctl.check(
                self._conf.hmsync_distributor.integration_bridge)
        is_new = not self._bridges.has(vip_id)
        in_port = self._bridges.ensure(vip_id, document.port)
        self._find_meters(names.bridge, in_port)
        vip_room = self._rooms.get(vip_id)
        program = self._compile(document, transition, in_port, vip_room)
        boot = self._ofctl.get_boot(names.bridge)
        before = self._applied.get(vip_id)
        after = _Applied(document, transition, in_port, program, boot,
                         vip_room)
        if before:
            # Should this fail, it is done once more.
            self.keeper.pin(names.bridge, before.transition, transition,
                            document, now)
        # Not known any more, should this fail.
        self._applied[vip_id] = None
        if before and before.boot == boot:
            after = self._change(vip_id, before, after, now, keep)
        elif is_new:
            # One of before may have come and gone unseen by ovs-vswitchd,
            # which has its flows then.
            self._add_meters(names.bridge, after)
            self._ofctl.apply(names.bridge,
                              [*_CLEAR, *program.to_bundle((), ())])
        else:
            self._take_over(names.bridge, after)
        self._applied[vip_id] = after
        self.keeper.follow(names.bridge, document, after.transition, now)
        if document.active and not is_new and not (
                before and before.document.active):
            self.keeper.begin_pins(names.bridge, document)
        self._announce_change(vip_id, document)
        return after.transition

    def _compile(self, document, transition, in_port, vip_room, **kwargs):
        return pipeline.compile_vip(
            document, transition, in_port, room=vip_room,
            max_copied=self._conf.hmsync_distributor.max_copied
            if self._has_meters else None, **kwargs)

    def _find_meters(self, bridge, in_port):
        """Find out once whether the data path has meters."""
        if self._has_meters is not None:
            return
        options = self._conf.hmsync_distributor
        with contextlib.closing(self._dial(bridge, in_port)) as line:
            self._has_meters = line.add_meters(
                [openflow.Meter(0, options.max_copied)],
                options.openvswitch_timeout)
        if not self._has_meters:
            LOG.warning('The data path of Open vSwitch has no meters: '
                        '[hmsync_distributor] max_copied is not kept, and '
                        'each ICMP error or fragment goes to all members.')

    def _add_meters(self, bridge, after):
        # Gone with ovs-vswitchd, as flows are. There is no other rate as long
        # as this process lives.
        if after.program.meters:
            with contextlib.closing(self._dial(
                    bridge, after.in_port)) as line:
                line.add_meters(
                    after.program.meters,
                    self._conf.hmsync_distributor.openvswitch_timeout)

    def _change(self, vip_id, before, after, now, keep):
        """Program what was programmed by this process before.

        :returns: what is in force then.
        """
        bridge = bridges.Names.of(vip_id).bridge
        if (before.program.cookie == after.program.cookie and
                self._has(bridge, after.program)):
            return after
        handover = transitions.make_handover(
            before.transition, after.transition, after.document)
        if handover:
            between = after._replace(program=self._compile(
                after.document, handover, after.in_port, after.room,
                pins_all=True))
            seen = self._read_cache_of(before)
            self._replace(bridge, before, between)
            self._pin(bridge, self._find_beginnings(before, seen))
            after = self._prove(vip_id, after, seen, now, keep)
            # First packets that its cache has forwarded meanwhile are pinned
            # now, where they went.
            self._ofctl.wait_for_cache()
            before = between
        self._replace(bridge, before, after)
        if not handover and after.transition.doubles and (
                after.transition.unproven):
            # In the place of a dead member; its answers come now.
            before, after = after, self._prove(vip_id, after, [], now, keep)
            if after is not before:
                self._replace(bridge, before, after)
        return after

    def _prove(self, vip_id, after, seen, now, keep):
        """Find out who bears packets of connections of others.

        :returns: what is to be in force then.
        """
        document, transition = after.document, after.transition
        unproven = transition.unproven
        cached = self._rooms.cached
        if (seen is None or cached is None or cached > keeping.MAX_CACHED or
                not unproven):
            found = proof.Proof()
        else:
            with contextlib.closing(self._dial(
                    bridges.Names.of(vip_id).bridge, after.in_port)) as line:
                found = proof.prove(line, document, unproven)
        proven = dataclasses.replace(
            transition, proven=transition.proven | found.proven)
        if found.refuse:
            self._say_refused(vip_id, found)
        if proven.doubles:
            # Before first packets go elsewhere.
            self.keeper.begin(bridges.Names.of(vip_id).bridge, document,
                              seen or (), now)
        if proven == transition:
            return after
        keep(proven.to_json())
        return after._replace(transition=proven, program=self._compile(
            document, proven, after.in_port, after.room))

    def _say_refused(self, vip_id, found):
        if vip_id not in self._said_refused:
            self._said_refused.add(vip_id)
            LOG.warning(
                'VIP %s: the members with the MAC addresses %s answer packets '
                'of connections of others, so connections are remembered one '
                'by one when its members change, which costs more: their '
                'image has no nft, or the network changes DSCP.', vip_id,
                ', '.join(sorted(found.refuse)))

    def _read_cache_of(self, before):
        """Return what the cache has of a VIP; None if it cannot be read."""
        cached = self._rooms.cached
        if cached is None or cached > keeping.MAX_CACHED:
            return None
        if cached > _MAX_READ:
            # Nothing of it is worth the time.
            return []
        try:
            return self._ofctl.get_cache(self._options.datapath_type,
                                         before.document.port.mac)
        except exceptions.VswitchUnavailable as e:
            # They go by the list of now, as all that begins.
            LOG.info('Connections that begin are not known: %s', e)
            return None

    def read_pins(self, vip_id):
        """Return the pins of a VIP that another distributor is to have.

        :returns: a list for JSON, bounded.
        """
        return self.keeper.read_pins(bridges.Names.of(vip_id).bridge)

    def take_pins(self, vip_id, document, pins):
        """Have the pins that the active distributor has.

        :param document: by which it is not active.
        :param pins: what read_pins() returned there.
        """
        bridge = bridges.Names.of(vip_id).bridge
        with self._locks[vip_id]:
            if self._ofctl.get_boot(bridge) is None:
                raise exceptions.VswitchUnavailable(
                    f'Nothing is in force for the VIP {vip_id}: put it '
                    f'first.')
            self.keeper.take_pins(bridge, document, pins)

    def _find_beginnings(self, before, seen):
        """Find connections whose first packet may come again."""
        if (seen is None or
                before.room is not pipeline.Room.ENOUGH):
            return []
        return beginnings.find(seen, mapping.get_living(before.document))

    def _pin(self, bridge, begun):
        if begun:
            try:
                self._ofctl.apply(bridge, [
                    one.to_text() for one in begun[:_MAX_BEGUN]])
            except exceptions.VswitchUnavailable as e:
                LOG.info('Connections that begin are not remembered: %s', e)

    def _replace(self, bridge, before, after):
        self._program(
            bridge, after.program, after.document, [before.program.cookie],
            [group.id for group in before.program.groups],
            mapping.get_living(before.document))

    def _take_over(self, bridge, after):
        """Program what may have been programmed by another one."""
        program = after.program
        every, own = self._ofctl.count(bridge, openflow.PROGRAMS,
                                       program.match)
        if every == own == len(program.flows):
            return
        if not every:
            # As ovs-vswitchd was started anew.
            self._add_meters(bridge, after)
            self._program(bridge, program, after.document)
            return
        there = counters.read_program(self._ofctl.get_flows(
            bridge, openflow.PROGRAMS))
        self._add_meters(bridge, after)
        self._program(bridge, program, after.document, there.flows,
                      self._ofctl.get_groups(bridge), there.macs)

    def _program(self, bridge, program, document, cookies=(), groups=(),
                 macs=()):
        gone = set(macs) - mapping.get_living(document)
        forget = [sharing.match_pins(mac, table).to_text()
                  for mac in sorted(gone)
                  for table in _PINS]
        if document.partners:
            # They may be others now: all that has packets is told anew.
            forget.append(f'table={sharing.SHARED}')
        self._ofctl.apply(bridge, [
            *program.to_bundle(cookies, groups, forget),
            *self.keeper.forget_dead(bridge, gone)])

    def _has(self, bridge, program):
        return self._ofctl.count(bridge, program.match) == [
            len(program.flows)]

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

        :param vip_id: of a VIP that was passed to apply().
        """
        applied = self._applied.get(vip_id)
        if applied is None:
            raise exceptions.VswitchUnavailable(
                f'Nothing is in force for the VIP {vip_id}: put it first.')
        if applied.document.active:
            self._announcer.start(vip_id)

    def _send(self, vip_id):
        applied = self._applied.get(vip_id)
        if applied:
            document = applied.document
            with contextlib.closing(self._dial(
                    bridges.Names.of(vip_id).bridge,
                    applied.in_port)) as line:
                line.send([
                    frame for address in document.addresses
                    for frame in frames.make_announcements(
                        address, document.port.mac)], _SENT)
                # Who hangs up sooner is not listened to.
                line.wait_for(
                    _SENT, self._conf.hmsync_distributor.openvswitch_timeout)

    def count_lost(self):
        """Return how many packets were lost as it is busy, None if unknown."""
        return self._ofctl.count_lost()

    def dial(self, vip_id):
        """Connect to the bridge of a VIP, for frames in and out of it.

        :param vip_id: of a VIP whose flows are there as far as is known.
        :returns: a wire.Line.
        """
        applied = self._applied.get(vip_id)
        bridge = bridges.Names.of(vip_id).bridge
        if applied is None or self._ofctl.get_boot(bridge) != applied.boot:
            raise exceptions.VswitchUnavailable(
                f'Nothing is in force for the VIP {vip_id}: put it first.')
        return self._dial(bridge, applied.in_port)

    def _dial(self, bridge, in_port):
        return wire.Line(self._ofctl.get_socket(bridge), in_port)

    def remove(self, vip_id):
        """Delete all there is of a VIP; return True if there was something."""
        with self._locks[vip_id]:
            self._announcer.stop(vip_id)
            self._applied.pop(vip_id, None)
            self._said_refused.discard(vip_id)
            self.keeper.forget(bridges.Names.of(vip_id).bridge)
            return self._bridges.remove(vip_id)

    def list_vips(self):
        """Return the ids of all VIPs that this node has something of."""
        return self._bridges.list_vips()

    def read_traffic(self, vip_id, macs):
        """Return what was sent to members, since their flows were made.

        :param macs: MAC addresses of the members, a list.
        :returns: a dict from each of them to packets and bytes.
        """
        return {mac: {'packets': sent.packets, 'bytes': sent.bytes}
                for mac, sent in zip(macs, self._ofctl.sum(
                    bridges.Names.of(vip_id).bridge,
                    *(sharing.match_sent(mac, pipeline.OUTPUT)
                      for mac in macs)))}

    def read_counters(self, vip_id, macs):
        """Return what went through the bridge of a VIP.

        :returns: a dict with members, a dict from the MAC address to packets,
                  bytes and pins; and claims, the number of frames by which
                  others said that the VIP were theirs.
        """
        bridge = bridges.Names.of(vip_id).bridge
        members = self.read_traffic(vip_id, macs)
        counts = self._ofctl.count(bridge, *(
            sharing.match_pins(mac, table) for mac in members
            for table in _PINS))
        for number, one in enumerate(members.values()):
            one['pins'] = sum(counts[number * len(_PINS):][:len(_PINS)])
        return {'members': members,
                'claims': counters.sum_claims(self._ofctl.get_flows(
                    bridge, openflow.Match(pipeline.CLASSIFY)))}

    def measure_load(self):
        """Measure how much there is of flows, and keep within the bounds.

        To be called again and again.

        :returns: what of it is to be shown, a dict.
        """
        applied = {vip_id: one for vip_id, one in self._applied.copy().items()
                   if one}
        self._rooms.measure({
            vip_id: bridges.Names.of(vip_id).bridge
            for vip_id, one in applied.items()
            if not one.transition.is_over})
        self._bridges.bound(self._rooms.bound)
        for vip_id, one in applied.items():
            if one.room is not self._rooms.get(vip_id):
                self._make_room(vip_id)
        if self._clock() - self._told_at >= sharing.INTERVAL:
            self._told_at = self._clock()
            for vip_id, one in applied.items():
                if one.document.active and one.document.partners:
                    self._tell_again(vip_id, one)
        return self._rooms.describe()

    def _tell_again(self, vip_id, applied):
        """Tell other distributors anew of connections that go on."""
        try:
            with contextlib.closing(self._dial(
                    bridges.Names.of(vip_id).bridge,
                    applied.in_port)) as line:
                line.empty(sharing.SHARED,
                           self._conf.hmsync_distributor.openvswitch_timeout)
        except exceptions.VswitchUnavailable as e:
            # The restorer puts its flows back, and tells them then.
            LOG.debug('Others are not told anew of VIP %s: %s', vip_id, e)

    def _make_room(self, vip_id):
        """Program a VIP for the room that there is now."""
        lock = self._locks[vip_id]
        if not lock.acquire(blocking=False):
            # It is being changed, and looked at again.
            return
        try:
            before = self._applied.get(vip_id)
            bridge = bridges.Names.of(vip_id).bridge
            if before is None or self._ofctl.get_boot(bridge) != before.boot:
                return
            vip_room = self._rooms.get(vip_id)
            after = before._replace(
                room=vip_room, program=self._compile(
                    before.document, before.transition, before.in_port,
                    vip_room))
            if after.program.cookie != before.program.cookie:
                self._applied[vip_id] = None
                self._replace(bridge, before, after)
            self._applied[vip_id] = after
        finally:
            lock.release()

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
        lock = self._locks[vip_id]
        if not lock.acquire(blocking=False):
            # It is being changed: that thread sees whether it works.
            return False
        try:
            return self._is_lost(vip_id, look)
        finally:
            lock.release()

    def _is_lost(self, vip_id, look):
        if vip_id not in self._applied:
            return False  # It was removed meanwhile.
        applied = self._applied[vip_id]
        if applied is None:
            return True
        bridge = bridges.Names.of(vip_id).bridge
        if self._ofctl.get_boot(bridge) != applied.boot:
            return True
        return look and not self._has(bridge, applied.program)

    def check(self):
        """Check that Open vSwitch can be used; return its version."""
        version = self._bridges.check()
        self._ofctl.check(self._conf.hmsync_distributor.integration_bridge)
        return version
