# SPDX-License-Identifier: Apache-2.0

"""What holds in any world: established connections stay where they are."""

import dataclasses
import math

import hypothesis
from hypothesis import strategies as st
from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import transition as transitions
from tests.unit.distributor.ovs import documents
from tests.unit.distributor.ovs import switch

MACS = ('fa:16:3e:00:00:98', 'fa:16:3e:00:00:99')
PIN_TIMEOUT = 600
SLOTS = 5
CLIENTS = 4
PORTS = 12


class Distributor:
    """One of those of the VIP.

    :ivar switch: what it has
    :ivar room: for more pins
    :ivar pending: learned of packets whose way was known, and when; not yet
                   in force
    :ivar cached: first packets that came again, and are not accounted for
    """

    def __init__(self, number, now, proves):
        self.port = doc.Port(documents.PORT.id, MACS[number], 1450)
        self.partners = [mac for mac in MACS if mac != MACS[number]]
        self.switch = switch.Switch(now)
        self.room = pipeline.Room.ENOUGH
        self.scarce_at = -math.inf
        self.transition = None
        self.pending = []
        self.cached = []
        self.proves = proves
        self.recorder = None
        # What the data path would show.
        self.seen = []

    def apply(self, document, now, meanwhile=lambda: None):
        """As Programmer.change(); meanwhile is called in a handover."""
        document = self.document = self._own(document)
        before = self.transition
        self.transition = transitions.advance(
            before, document, now,
            self.recorder.known_since if self.recorder else math.inf)
        # As a restart would find it.
        assert self.transition == transitions.Transition.from_json(
            self.transition.to_json())
        if before:
            self.pin_known(before, document, now)
        handover = before and transitions.make_handover(
            before, self.transition, document)
        accounted = []
        if handover:
            self.install(document, handover, pins_all=True)
            meanwhile()
            self.prove()
            self.install(document, transitions.make_handover(
                before, self.transition, document), pins_all=True)
            meanwhile()
            accounted = self.account()
        elif not self.transition.is_over:
            self.prove()
        late = handover and self.find(switch.ACK)
        self.install(document, self.transition)
        if handover and not self.transition.unproven:
            # The cache may know the way of all but the first packet still.
            for one, others in zip(self.find(switch.SYN), late):
                assert one <= others, (one, others)
        # Once more; who is to get no more would not have answered.
        for frame, sent in accounted:
            if self.transition.current.macs.issuperset(sent):
                self.switch.receive(frame)
                assert self.switch.sent == sent, (sent, self.switch.sent)

        if not (self.transition.doubles and document.active):
            self.recorder = None
        elif self.recorder is None:
            # All that was there is seen as it was, and nothing is missed.
            self.recorder = recorder.Recorder(1e9, 1000, -1e9)
            self.recorder._idle = 1e8
            self.recorder.change(self.seen, now)
            self.recorder._changed_at = -1e9
        self.seen = []
        if document.active and before and before.stands_by:
            taken = self.switch.get_taken()
            self.switch.forget_taken()
            self.switch.take(taken, PIN_TIMEOUT + transitions.MARGIN)

    def find(self, flag):
        """Return where packets go of which nothing is known."""
        found = []
        for port in range(PORTS):
            self.switch.receive(switch.packet(
                '10.0.0.99', port, flags={flag}, eth_dst=self.port.mac),
                learns=False)
            found.append({*self.switch.sent})
        return found

    def make_room(self, room, now):
        """As measure_load(), of all distributors at once."""
        if self.room in (pipeline.Room.SCARCE, pipeline.Room.NONE):
            self.scarce_at = now
        if (room is pipeline.Room.ENOUGH and
                now < self.scarce_at + sharing.YOUNG_TIMEOUT):
            room = pipeline.Room.RETURNING
        self.room = room
        self.install(self.document, self.transition)

    def prove(self):
        self.transition = dataclasses.replace(
            self.transition, proven=self.transition.proven | {
                mac for mac in self.transition.macs if self.proves(mac)})

    def pin_known(self, before, document, now):
        after, living = self.transition, mapping.get_living(document)
        if not before.doubles or {
                mapping.without_dead(one, living, after.current, False)
                for one in before.formers} <= {*after.formers, after.current}:
            if self.recorder and after.formers != before.formers:
                self.recorder.reorder(now)
            return
        if self.recorder:
            self.switch.take(self.recorder.find_pins(
                after.is_over and not before.between, living),
                PIN_TIMEOUT + transitions.MARGIN)
            self.recorder.reorder(now)

    def see(self, frame, flag, now):
        """Note where the last packet went, as the cache shows it."""
        one = recorder.Seen(
            self.port.mac, recorder.Key(
                frame['family'], frame['src'], frame['tcp_src'],
                frame['dst'], frame['tcp_dst']), tuple(self.switch.sent),
            any(self.switch.are_marked) and frame['flags'] != {switch.SYN},
            flag == switch.SYN, flag == switch.FIN, False)
        if not one.macs:
            return
        self.seen.append(one)
        if self.recorder:
            self.recorder.note([one], now, PIN_TIMEOUT + transitions.MARGIN)

    def _own(self, document):
        return dataclasses.replace(document, port=self.port,
                                   partners=tuple(self.partners))

    def adopt(self, other, document):
        """What the active one has, as a controller passes it on."""
        self.switch.forget_taken()
        self.switch.take(other.switch.get_taken(), math.inf)
        adopted = transitions.adopt(self.transition, other.transition,
                                    document)
        if adopted != self.transition:
            self.transition = adopted
            self.install(self._own(document), adopted)

    def install(self, document, transition, **kwargs):
        self.switch.install(
            pipeline.compile_vip(document, transition, 1, room=self.room,
                                 **kwargs),
            mapping.get_living(document))

    def account(self):
        """Returns pairs of a frame and those it was sent to."""
        accounted = []
        for frame in self.cached:
            self.switch.receive(frame)
            accounted.append((frame, self.switch.sent))
        self.cached = []
        return accounted

    def learn(self, now=None):
        still = []
        for due, learned in self.pending:
            if now is None or due <= now:
                self.switch.learn(learned)
            else:
                still.append((due, learned))
        self.pending = still


class World:
    """Two distributors, members that come and go, and clients.

    :param affinity: FLOW or SOURCE_IP
    :param delay: seconds until the switch learns of a packet whose way it
                  knew
    """

    def __init__(self, affinity, delay, proves=lambda _: False):
        self.affinity = affinity
        self.delay = delay
        self.proves = proves
        self.now = 1000.0
        self.members = {slot: (doc.ACTIVE, slot) for slot in range(3)}
        self.numbers = SLOTS
        # The first one is active.
        self.distributors = [Distributor(n, self.now, proves)
                             for n in range(2)]
        # Whether the second one is told nothing.
        self.is_away = False
        # Whether there are packets of connections in handovers.
        self.is_busy = False
        # By client and port: the member, and the time of the last packet.
        self.connections = {}
        # When they said that they were closed.
        self.closed = {}
        self.apply()

    @property
    def active(self):
        return self.distributors[0].switch

    def take_over(self):
        self.is_away = False
        self.apply()
        self.distributors.reverse()
        self.apply()

    @property
    def document(self):
        states = [self.members.get(slot) for slot in range(SLOTS)]
        return documents.make_document(
            *states, affinity=self.affinity, pin_timeout=PIN_TIMEOUT)

    def apply(self):
        first, second = self.distributors
        living = mapping.get_living(self.document)
        self.connections = {
            key: (member, seen) for key, (member, seen)
            in self.connections.items() if member in living}
        first.apply(self.document, self.now,
                    self.be_busy if self.is_busy else lambda: None)
        if not self.is_away:
            document = dataclasses.replace(self.document, active=False)
            second.apply(document, self.now)
            second.adopt(first, document)

    def be_busy(self):
        """Connections go on, and others begin, by the list of before."""
        self.send_all()
        for port in range(1, PORTS, 2):
            self.open(CLIENTS - 1, port, False, is_handover=True)

    def change(self, slot, what):
        state, number = self.members.get(slot, (None, None))
        if what == 'add' and state in (None, doc.DEAD):
            self.members[slot] = (doc.ACTIVE, self.numbers)
            self.numbers += 1
        elif what == 'drain' and state == doc.ACTIVE:
            self.members[slot] = (doc.DRAINING, number)
        elif what == 'resume' and state in (doc.DRAINING, doc.DEAD):
            self.members[slot] = (doc.ACTIVE, number)
        elif what == 'die' and state:
            self.members[slot] = (doc.DEAD, number)
        elif what == 'remove' and state:
            del self.members[slot]
        elif what == 'replace' and state:
            self.members[slot] = (doc.ACTIVE, self.numbers)
            self.numbers += 1
        elif what == 'drain all':
            self.members = {
                slot: (doc.DRAINING if state == doc.ACTIVE else state, number)
                for slot, (state, number) in self.members.items()}
        elif what == 'affinity':
            self.affinity = (doc.FLOW if self.affinity == doc.SOURCE_IP
                             else doc.SOURCE_IP)
        self.apply()

    def let_pass(self, seconds):
        """Time passes; nobody is silent for pin_timeout."""
        end = self.now + seconds
        while self.now < end:
            until = min([end, *(seen + PIN_TIMEOUT - 1 for _, seen in
                                self.connections.values())])
            self.now = max(until, self.now)
            for one in self.distributors:
                one.switch.now = self.now
                # Before packets follow what had its time meanwhile.
                one.switch.expire()
            for key, (_, seen) in list(self.connections.items()):
                if self.now - seen >= PIN_TIMEOUT - 1:
                    self.send(key)
            for one in self.distributors:
                one.switch.expire()
                one.account()
                one.learn(self.now)
            self.apply()

    def open(self, client, port, is_sent_twice, is_taken_over=False,
             is_handover=False):
        key = client, port
        # Until then what is left of one that was closed may be in the way.
        if self.now - self.closed.get(key, 0) < sharing.FIN_TIMEOUT:
            return
        # The second one forgets some time later, and nobody tells it of what
        # needs no pin.
        here, there = [self.find_pin(one, key) for one in self.distributors]
        if there and (self.is_away or not here):
            return
        self.connections.pop(key, None)
        # What was to be learned of an earlier one is not learned after it.
        for one in self.distributors:
            one.account()
            one.learn()
        self.receive(key, switch.SYN)
        if is_sent_twice:
            first = self.distributors[0]
            first.cached.append({**self.packet(key, switch.SYN),
                                 'eth_dst': first.port.mac})
        active = (mapping.get_living(self.document) if is_handover else
                  {documents.mac(number) for state, number
                   in self.members.values() if state == doc.ACTIVE})
        if not active:
            assert self.active.sent == [], self.active.sent
            return
        member, = self.active.sent
        assert member in active, (member, active)
        self.connections[key] = member, self.now
        if is_taken_over:
            self.take_over()
        # The handshake ends: a packet whose way is not known yet.
        self.send(key, delay=0)

    def find_pin(self, one, key):
        return any(one.switch._find_pin(self.packet(key, switch.SYN), table)
                   for table in (sharing.PINS, sharing.HANDSHAKES))

    def receive(self, key, flag, learns=True):
        """The first one gets a packet, the second one what that tells."""
        first, second = self.distributors
        learned = first.switch.receive(
            {**self.packet(key, flag), 'eth_dst': first.port.mac}, learns)
        told, sent = first.switch.told, first.switch.sent
        first.see({**self.packet(key, flag)}, flag, self.now)
        for frame in told:
            second.switch.receive(frame)
            assert second.switch.sent == second.switch.told == []
        assert sent == first.switch.sent
        return learned

    def send(self, key, flag=switch.ACK, delay=None):
        delay = self.delay if delay is None else delay
        member, _ = self.connections[key]
        learned = self.receive(key, flag, learns=not delay)
        if learned:
            self.distributors[0].pending.append((self.now + delay, learned))
        self.check_sent(key, member)
        self.connections[key] = member, self.now

    def check_sent(self, key, member):
        """It came to its member, and to no other one that resets it."""
        sent = self.active.sent
        assert member in sent and len(sent) == len(set(sent)) and all(
            one == member or is_marked and self.proves(one)
            for one, is_marked in zip(sent, self.active.are_marked)), (
                key, member, sent, self.distributors[0].transition)

    def send_all(self):
        for key in list(self.connections):
            self.send(key)

    def open_some(self, client, are_sent_twice=False, are_taken_over=False):
        for port in range(0, PORTS, 2):
            self.open(client, port, are_sent_twice, are_taken_over)

    def close_some(self, client, politely):
        for key in [key for key in self.connections if key[0] == client]:
            if politely:
                self.send(key, switch.FIN)
                self.closed[key] = self.now
            del self.connections[key]

    @staticmethod
    def packet(key, flag):
        client, port = key
        # Some speak IPv6.
        return (switch.packet(f'fd00::1:{client}', port, 'fd00::5', {flag})
                if client % 2 else
                switch.packet(f'10.0.0.{client}', port, flags={flag}))


SLOT = st.integers(0, SLOTS - 1)
CHANGE = st.tuples(SLOT, st.sampled_from(
    ('add', 'add', 'drain', 'resume', 'die', 'remove', 'replace', 'affinity',
     'drain all')))
# What may follow a change, in this order.
ROUND = st.fixed_dictionaries({
    'room': st.sampled_from(pipeline.Room),
    'away': st.booleans(),
    'busy': st.booleans(),
    'changes': st.lists(CHANGE, min_size=0, max_size=2),
    'send': st.booleans(),
    'restart': st.booleans(),
    'take over': st.sampled_from((None, 'before', 'after')),
    'open': st.none() | st.tuples(st.integers(0, CLIENTS - 1),
                                  st.booleans(), st.booleans()),
    'close': st.none() | st.tuples(st.integers(0, CLIENTS - 1),
                                   st.booleans()),
    'pass': st.sampled_from((
        0, 0.5, 100, PIN_TIMEOUT - 20, PIN_TIMEOUT - 20,
        PIN_TIMEOUT + transitions.MARGIN, 2 * PIN_TIMEOUT)),
    'send again': st.booleans()})


# Who bears packets of connections of others.
PROVES = {'all': lambda mac: True, 'some': lambda mac:
          int(mac[-2:], 16) % 3 > 0}


class TestConnections(base.BaseTestCase):

    @hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
    @hypothesis.given(st.sampled_from((doc.FLOW, doc.SOURCE_IP)),
                      st.sampled_from((0, 1, 10)), st.booleans(),
                      st.lists(ROUND, min_size=2, max_size=6))
    def test_they_stay(self, affinity, delay, are_sent_twice, rounds):
        world = World(affinity, delay)
        for one in rounds:
            if one['open'] or one['busy']:
                # Who is away hears of no pins of members it does not know.
                one['away'] = False
        self.live(world, are_sent_twice, rounds)
        self.assertTrue(world.distributors[1].transition.is_over)

    @hypothesis.settings(max_examples=150, deadline=None, derandomize=True)
    @hypothesis.given(st.sampled_from(sorted(PROVES)),
                      st.sampled_from((doc.FLOW, doc.SOURCE_IP)),
                      st.sampled_from((0, 1, 10)), st.booleans(),
                      st.lists(ROUND, min_size=2, max_size=6))
    def test_some_get_packets_of_others(self, proves, affinity, delay,
                                        are_sent_twice, rounds):
        world = World(affinity, delay, PROVES[proves])
        for one in rounds:
            # What is pinned is not known to who was away.
            if proves == 'some':
                one['away'] = False
            if one['room'] is pipeline.Room.NONE:
                one['room'] = pipeline.Room.SCARCE
        self.live(world, are_sent_twice, rounds)

    def live(self, world, are_sent_twice, rounds):
        for client in range(CLIENTS - 1):
            world.open_some(client, are_sent_twice)
        for one in rounds:
            was_away, world.is_away = world.is_away, one['away']
            if was_away and not world.is_away:
                # Controllers tell it, before it hears of anything new.
                world.apply()
            world.is_busy = one['busy']
            if are_sent_twice:
                # Without much room what is sent twice as it begins may break.
                one['room'] = pipeline.Room.ENOUGH
            for each in world.distributors:
                # It is looked at more often than room changes.
                each.account()
                each.make_room(one['room'], world.now)
            for slot, what in one['changes']:
                world.change(slot, what)
            if one['send']:
                world.send_all()
            if one['restart']:
                for each in world.distributors:
                    each.recorder, each.seen = None, []
                world.apply()
            if one['take over'] == 'before':
                world.take_over()
            if one['open'] is not None:
                world.open_some(*one['open'])
            if one['close']:
                world.close_some(*one['close'])
            if one['take over'] == 'after':
                world.take_over()
            world.let_pass(one['pass'])
            if one['send again']:
                world.send_all()
        world.is_away = False
        world.let_pass(2 * PIN_TIMEOUT)
        world.send_all()
        self.assertTrue(world.distributors[0].transition.is_over)

    def test_one_that_missed_a_change(self):
        """Its base is that of who knows what has happened meanwhile."""
        world = World(doc.FLOW, 0)
        world.is_away = True
        for what in ('die', 'remove', 'add'):
            world.change(1, what)
        world.take_over()
        self.check_taken_over(world)

    def test_there_and_back(self):
        """Of a member that must not get what is of others nothing is lost.

        What it had before the first change is not pinned.
        """
        world = World(doc.FLOW, 0, PROVES['some'])
        for client in range(CLIENTS):
            world.open_some(client)
        self.assertIn(documents.mac(0),
                      [member for member, _ in world.connections.values()])
        for _ in range(2):
            world.change(0, 'affinity')
        world.let_pass(2 * PIN_TIMEOUT)
        world.send_all()
        self.assertTrue(world.distributors[0].transition.is_over)

    def test_port_that_comes_again_as_room_returns(self):
        """Its pin of before was for a minute, and so is the new one."""
        world = World(doc.FLOW, 0)
        world.is_busy = True
        for room, what in ((pipeline.Room.SCARCE, 'drain'),
                           (pipeline.Room.ENOUGH, 'resume')):
            for one in world.distributors:
                one.make_room(room, world.now)
            world.change(0, what)
        self.assertIs(pipeline.Room.RETURNING, world.distributors[0].room)
        self.assertTrue(world.connections)
        world.is_busy = False
        world.let_pass(2 * PIN_TIMEOUT)
        world.send_all()

    def test_young_of_who_gets_no_more(self):
        """By an older list a member that gets its own alone has it."""
        world = World(doc.FLOW, 0, PROVES['some'])
        world.change(0, 'affinity')
        world.open_some(0)
        world.change(0, 'drain all')
        world.let_pass(2 * PIN_TIMEOUT)
        world.send_all()

    def test_back_in_a_handover(self):
        """The list that comes again is one of before already."""
        for proves in PROVES.values():
            world = World(doc.FLOW, 0, proves)
            world.is_busy = True
            for client in range(CLIENTS):
                world.open_some(client)
            world.change(3, 'add')
            for what in ('drain', 'resume', 'drain'):
                world.change(3, what)
                world.open_some(0)

    def test_port_comes_again_where_pins_are_scarce(self):
        """What is pinned for a minute alone is pinned anew."""
        world = World(doc.FLOW, 0, PROVES['all'])
        world.is_busy = True
        for one in world.distributors:
            one.make_room(pipeline.Room.SCARCE, world.now)
        for _ in range(2):
            world.change(0, 'affinity')
            world.let_pass(100)
        world.send_all()

    def test_one_that_heard_of_a_change_late(self):
        """It pins what begins for no longer than the active one."""
        world = World(doc.FLOW, 0)
        world.is_away = True
        world.change(3, 'add')
        world.let_pass(PIN_TIMEOUT - 10)
        world.is_away = False
        world.let_pass(40)
        self.assertTrue(world.distributors[0].transition.is_over)
        self.check_taken_over(world)

    @staticmethod
    def check_taken_over(world):
        for client in range(CLIENTS):
            world.open_some(client)
        world.take_over()
        world.send_all()
