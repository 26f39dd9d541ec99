# SPDX-License-Identifier: Apache-2.0

"""What holds in any world: established connections stay where they are."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import pipeline
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

    def __init__(self, number, now):
        self.port = doc.Port(documents.PORT.id, MACS[number], 1450)
        self.partners = [mac for mac in MACS if mac != MACS[number]]
        self.switch = switch.Switch(now)
        self.room = pipeline.Room.ENOUGH
        self.transition = None
        self.pending = []
        self.cached = []

    def apply(self, document, now):
        document = self._own(document)
        before = self.transition
        self.transition = transitions.advance(before, document, now)
        # As a restart would find it.
        assert self.transition == transitions.Transition.from_json(
            self.transition.to_json())
        handover = before and transitions.make_handover(
            before, self.transition, document)
        accounted = []
        if handover:
            self.install(document, handover, pins_all=True)
            accounted = self.account()
        self.install(document, self.transition)
        # Once more; who is to get no more would not have answered.
        for frame, sent in accounted:
            if self.transition.current.macs.issuperset(sent):
                self.switch.receive(frame)
                assert self.switch.sent == sent, (sent, self.switch.sent)

    def _own(self, document):
        return dataclasses.replace(document, port=self.port,
                                   partners=tuple(self.partners))

    def adopt(self, other, document):
        """What the active one has, as a controller passes it on."""
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

    def __init__(self, affinity, delay):
        self.affinity = affinity
        self.delay = delay
        self.now = 1000.0
        self.members = {slot: (doc.ACTIVE, slot) for slot in range(3)}
        self.numbers = SLOTS
        # The first one is active.
        self.distributors = [Distributor(n, self.now) for n in range(2)]
        # Whether the second one is told nothing.
        self.is_away = False
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
        first.apply(self.document, self.now)
        if not self.is_away:
            document = dataclasses.replace(self.document, active=False)
            second.apply(document, self.now)
            second.adopt(first, document)
        living = mapping.get_living(self.document)
        self.connections = {
            key: (member, seen) for key, (member, seen)
            in self.connections.items() if member in living}

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
            for key, (_, seen) in list(self.connections.items()):
                if self.now - seen >= PIN_TIMEOUT - 1:
                    self.send(key)
            for one in self.distributors:
                one.switch.expire()
                one.account()
                one.learn(self.now)
            self.apply()

    def open(self, client, port, is_sent_twice, is_taken_over=False):
        key = client, port
        # Until then what is left of one that was closed may be in the way.
        if self.now - self.closed.get(key, 0) < sharing.FIN_TIMEOUT:
            return
        # The second one forgets some time later, and nobody tells it of what
        # needs no pin.
        here, there = [self.find_pin(one, key) for one in self.distributors]
        if there and not here:
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
        active = {documents.mac(number) for state, number
                  in self.members.values() if state == doc.ACTIVE}
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
        for frame in first.switch.told:
            second.switch.receive(frame)
            assert second.switch.sent == second.switch.told == []
        return learned

    def send(self, key, flag=switch.ACK, delay=None):
        delay = self.delay if delay is None else delay
        member, _ = self.connections[key]
        learned = self.receive(key, flag, learns=not delay)
        if learned:
            self.distributors[0].pending.append((self.now + delay, learned))
        assert self.active.sent == [member], (
            key, member, self.active.sent, self.distributors[0].transition)
        self.connections[key] = member, self.now

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
    'changes': st.lists(CHANGE, min_size=0, max_size=2),
    'send': st.booleans(),
    'take over': st.sampled_from((None, 'before', 'after')),
    'open': st.none() | st.tuples(st.integers(0, CLIENTS - 1),
                                  st.booleans(), st.booleans()),
    'close': st.none() | st.tuples(st.integers(0, CLIENTS - 1),
                                   st.booleans()),
    'pass': st.sampled_from((
        0, 0.5, 100, PIN_TIMEOUT - 20, PIN_TIMEOUT - 20,
        PIN_TIMEOUT + transitions.MARGIN, 2 * PIN_TIMEOUT)),
    'send again': st.booleans()})


class TestConnections(base.BaseTestCase):

    @hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
    @hypothesis.given(st.sampled_from((doc.FLOW, doc.SOURCE_IP)),
                      st.sampled_from((0, 1, 10)), st.booleans(),
                      st.lists(ROUND, min_size=2, max_size=6))
    def test_they_stay(self, affinity, delay, are_sent_twice, rounds):
        world = World(affinity, delay)
        for client in range(CLIENTS - 1):
            world.open_some(client, are_sent_twice)
        for one in rounds:
            world.is_away = one['away']
            for each in world.distributors:
                each.room = one['room']
            for slot, what in one['changes']:
                world.change(slot, what)
            if one['send']:
                world.send_all()
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
        for one in world.distributors:
            self.assertTrue(one.transition.is_over)

    def test_one_that_missed_a_change(self):
        """Its base is that of who knows what has happened meanwhile."""
        world = World(doc.FLOW, 0)
        world.is_away = True
        for what in ('die', 'remove', 'add'):
            world.change(1, what)
        world.take_over()
        self.check_taken_over(world)

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
