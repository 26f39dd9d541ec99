# SPDX-License-Identifier: Apache-2.0

"""Puts the program of a VIP into its bridge, in the place of what is there."""

import contextlib
import dataclasses
import logging
import typing

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import beginnings
from octavia_hmsync.distributor.ovs import counters
from octavia_hmsync.distributor.ovs import keeping
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import proof
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import transition as transitions
from octavia_hmsync.distributor.ovs import wire
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# How many connections that begin are remembered: more are a flood.
_MAX_BEGUN = 2000
# Of a bundle: deletes all that there is, by whomever.
_CLEAR = ('flow delete cookie=0/0', 'group delete group_id=all')
# Tables of what is remembered of a member's connections.
PINS = (sharing.PINS, sharing.HANDSHAKES)


class Applied(typing.NamedTuple):
    """What is in force for a VIP, or is to be.

    :param bridge: the name of its bridge.
    :param in_port: the OpenFlow port of its patch port.
    :param boot: the run of ovs-vswitchd that has it, see Ofctl.get_boot().
    """

    vip_id: str
    bridge: str
    document: doc.Document
    transition: transitions.Transition
    in_port: int
    program: openflow.Program
    boot: object
    room: pipeline.Room


class Programmer:
    """Programs bridges. All methods may raise VswitchUnavailable.

    :param switch: an Ofctl.
    :param rooms: Rooms.
    :param keeper: a Keeper.
    """

    def __init__(self, switch, rooms, keeper, options):
        self._ofctl = switch
        self._rooms = rooms
        self._keeper = keeper
        self._options = options
        # Whether the data path has meters, once that is known.
        self._has_meters = None
        self._said_refused = set()

    def dial(self, bridge, in_port):
        return wire.Line(self._ofctl.get_socket(bridge), in_port)

    def compile(self, document, transition, in_port, vip_room, **kwargs):
        return pipeline.compile_vip(
            document, transition, in_port, room=vip_room,
            max_copied=self._options.max_copied
            if self._has_meters else None, **kwargs)

    def find_meters(self, bridge, in_port):
        """Find out once whether the data path has meters."""
        if self._has_meters is not None:
            return
        with contextlib.closing(self.dial(bridge, in_port)) as line:
            self._has_meters = line.add_meters(
                [openflow.Meter(0, self._options.max_copied)],
                self._options.openvswitch_timeout)
        if not self._has_meters:
            LOG.warning('The data path of Open vSwitch has no meters: '
                        '[hmsync_distributor] max_copied is not kept, and '
                        'each ICMP error or fragment goes to all members.')

    def _add_meters(self, after):
        # Gone with ovs-vswitchd, as flows are. There is no other rate as long
        # as this process lives.
        if after.program.meters:
            with contextlib.closing(self.dial(after.bridge,
                                              after.in_port)) as line:
                line.add_meters(after.program.meters,
                                self._options.openvswitch_timeout)

    def begin(self, after):
        """Program a bridge that was just made."""
        self._add_meters(after)
        # One of before may have come and gone unseen by ovs-vswitchd, which
        # has its flows then.
        self._ofctl.apply(after.bridge,
                          [*_CLEAR, *after.program.to_bundle((), ())])

    def take_over(self, after):
        """Program what may have been programmed by another process."""
        bridge, program = after.bridge, after.program
        every, own = self._ofctl.count(bridge, openflow.PROGRAMS,
                                       program.match)
        if every == own == len(program.flows):
            return
        if not every:
            # As ovs-vswitchd was started anew.
            self._add_meters(after)
            self._program(after)
            return
        there = counters.read_program(self._ofctl.get_flows(
            bridge, openflow.PROGRAMS))
        self._add_meters(after)
        self._program(after, there.flows, self._ofctl.get_groups(bridge),
                      there.macs)

    def change(self, before, after, now, keep, down=()):
        """Program what was programmed by this process before.

        :param keep: see Backend.apply(), also for down.
        :returns: what is in force then.
        """
        if (before.program.cookie == after.program.cookie and
                self.has(after)):
            return after
        between = self._hand_over(before, after, down)
        if between:
            seen = self._read_cache(before)
            self.replace(before, between)
            self._pin(before, seen, down)
            after = self._prove(after, seen, now, keep)
            # The cache is brought up to date flow by flow: all members must
            # get what goes on before first packets of the same port go
            # elsewhere.
            proven = self._hand_over(before, after, down)
            if proven.program.cookie != between.program.cookie:
                self.replace(between, proven)
            # First packets that its cache has forwarded meanwhile are pinned
            # now, where they went.
            self._ofctl.wait_for_cache()
            before = proven
        self.replace(before, after)
        if not (between or after.transition.is_over) and (
                after.transition.unproven):
            # In the place of a dead member; its answers come now.
            before, after = after, self._prove(after, [], now, keep)
            if after is not before:
                self.replace(before, after)
        return after

    def _hand_over(self, before, after, down):
        """Return what is to be in force between two; None for nothing."""
        handover = transitions.make_handover(
            before.transition, after.transition, after.document, down)
        return handover and after._replace(program=self.compile(
            after.document, handover, after.in_port, after.room,
            pins_all=True))

    def _prove(self, after, seen, now, keep):
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
            with contextlib.closing(self.dial(after.bridge,
                                              after.in_port)) as line:
                found = proof.prove(line, document, unproven)
        proven = dataclasses.replace(
            transition, proven=transition.proven | found.proven)
        if found.refuse:
            self._say_refused(after.vip_id, found)
        if proven.doubles:
            # Before first packets go elsewhere.
            self._keeper.begin(after.bridge, document, seen or (), now)
        if proven == transition:
            return after
        keep(proven.to_json())
        return after._replace(transition=proven, program=self.compile(
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

    def forget(self, vip_id):
        """Forget what was logged of a VIP that is removed."""
        self._said_refused.discard(vip_id)

    def _read_cache(self, before):
        """Return what the cache has of a VIP; None if it cannot be read."""
        cached = self._rooms.cached
        if cached is None or cached > keeping.MAX_CACHED:
            return None
        try:
            return self._ofctl.get_cache(self._options.datapath_type,
                                         before.document.port.mac)
        except exceptions.VswitchUnavailable as e:
            # They go by the list of now, as all that begins.
            LOG.info('Connections that begin are not known: %s', e)
            return None

    def _pin(self, before, seen, down):
        """Pin connections whose first packet may come again."""
        if seen is None or before.room is not pipeline.Room.ENOUGH:
            return
        begun = beginnings.find(
            seen, mapping.get_living(before.document).difference(down))
        if begun:
            try:
                self._ofctl.apply(before.bridge, [
                    one.to_text() for one in begun[:_MAX_BEGUN]])
            except exceptions.VswitchUnavailable as e:
                LOG.info('Connections that begin are not remembered: %s', e)

    def replace(self, before, after):
        """Put a program in the place of another one of this process."""
        self._program(after, [before.program.cookie],
                      [group.id for group in before.program.groups],
                      mapping.get_living(before.document))

    def _program(self, after, cookies=(), groups=(), macs=()):
        gone = set(macs) - mapping.get_living(after.document)
        forget = [sharing.match_pins(mac, table).to_text()
                  for mac in sorted(gone) for table in PINS]
        if after.document.partners:
            # They may be others now: all that has packets is told anew.
            forget.append(f'table={sharing.SHARED}')
        self._ofctl.apply(after.bridge, [
            *after.program.to_bundle(cookies, groups, forget),
            *self._keeper.forget_dead(after.bridge, gone)])

    def has(self, applied):
        """Tell whether a bridge has all flows of its program."""
        program = applied.program
        return self._ofctl.count(applied.bridge, program.match) == [
            len(program.flows)]
