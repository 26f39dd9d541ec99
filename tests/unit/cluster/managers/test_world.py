# SPDX-License-Identifier: Apache-2.0

"""What holds of the reference manager, whatever happens in whatever order."""

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.managers import base as managers
from octavia_hmsync.cluster.managers import reference
from octavia_hmsync.cluster.managers import signs
from tests.unit import base
from tests.unit.cluster.managers import world

Kind = managers.Kind
EVERYBODY = {'d1', 'd2', 'None'}

sizes = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2)).map(
    lambda each: (max(each[:2]), min(each[:2]), each[2]))
_number = st.integers(0, 7)
events = st.lists(st.one_of(
    st.tuples(st.just('act'), st.booleans()),
    st.tuples(st.just('act'), st.just(True)),
    st.tuples(st.just('heard'), _number, st.booleans()),
    st.tuples(st.just('answers'), _number, st.booleans()),
    st.tuples(st.just('dies'), _number),
    st.tuples(st.just('away'), st.sampled_from(sorted(EVERYBODY))),
    st.tuples(st.just('back'), st.sampled_from(sorted(EVERYBODY))),
    st.tuples(st.just('order'), _number,
              st.sampled_from(('DRAIN', 'REPLACE', None))),
    st.tuples(st.just('sizes'), sizes),
    st.tuples(st.just('status'),
              st.sampled_from(('ACTIVE', 'PENDING_UPDATE', 'ERROR'))),
    st.tuples(st.just('wait'), st.sampled_from((1, 20, 400)))), max_size=40)


class Player:
    """Has a world go through events."""

    def __init__(self, desired, minimum, standby):
        self.world = world.World(reference.ReferenceManager(), desired,
                                 minimum, standby)

    def pick(self, number):
        members = self.world.members
        return members[number % len(members)] if members else None

    def play(self, event):
        name, *arguments = event
        getattr(self, f'_{name}')(*arguments)
        self.world.look()

    def _act(self, is_done):
        self.world.act(is_done)

    def _heard(self, number, is_heard):
        if member := self.pick(number):
            member.is_heard = is_heard

    def _answers(self, number, answers):
        if member := self.pick(number):
            member.answers = answers

    def _dies(self, number):
        if member := self.pick(number):
            member.is_heard = member.answers = False

    def _away(self, who):
        self.world.away.add(who)

    def _back(self, who):
        self.world.away.discard(who)

    def _order(self, number, order):
        if member := self.pick(number):
            member.ordered = order

    def _sizes(self, values):
        (self.world.desired, self.world.minimum,
         self.world.standby) = values

    def _status(self, status):
        self.world.lb_status = status

    def _wait(self, seconds):
        self.world.now += seconds

    def heal(self):
        """Have what is not dead be well, and nobody order anything."""
        self.world.away.clear()
        self.world.lb_status = 'ACTIVE'
        for member in self.world.members:
            if member.is_heard != member.answers:
                member.is_heard = member.answers = True
            if member.ordered == 'DRAIN':
                member.ordered = None
            if member.state == 'STANDBY' and not member.is_heard:
                member.is_heard = member.answers = True


class TestWorld(base.TestCase):

    @hypothesis.settings(max_examples=150, deadline=None)
    @hypothesis.given(sizes, events)
    def test_anything(self, values, happens):
        """What is checked after each step, and where it ends."""
        player = Player(*values)
        for event in happens:
            player.play(event)
        player.heal()
        end = player.world
        end.settle()
        self.assertEqual(
            ['ACTIVE'] * end.desired,
            [each.state for each in end.members if each.slot is not None])
        self.assertEqual(end.desired, end.size)
        self.assertEqual(
            ['STANDBY'] * end.standby,
            [each.state for each in end.members if each.slot is None])
        self.assertTrue(all(each.is_configured for each in end.members
                            if each.slot is not None))
        self.assertEqual('ONLINE', end.get_status())

    @hypothesis.settings(max_examples=50, deadline=None)
    @hypothesis.given(sizes, st.sets(_number), st.sampled_from((30, 90000)))
    def test_outage(self, values, dead, seconds):
        """Who sees nothing says nothing, for however long."""
        player = Player(*values)
        player.world.settle()
        player.world.away = set(EVERYBODY)
        for number in dead:
            player.play(('dies', number))
        player.world.now += seconds
        self.assertEqual((), player.world.decide())

    @hypothesis.settings(max_examples=50, deadline=None)
    @hypothesis.given(sizes, st.integers(0, 3), st.booleans())
    def test_one_sign(self, values, number, is_silent):
        """It drains, and nothing is built or deleted; then it is well."""
        player = Player(*values)
        player.world.settle()
        serving = [each for each in player.world.members
                   if each.slot is not None]
        member = serving[number % len(serving)]
        before = {each.id for each in player.world.members}
        player.play(('heard' if is_silent else 'answers',
                     player.world.members.index(member), False))
        player.world.actions.clear()
        player.world.settle()
        kinds = {action.kind for action in player.world.actions}
        self.assertLessEqual(kinds, {Kind.DRAIN, Kind.PROMOTE,
                                     Kind.CONFIGURE})
        self.assertEqual(before, {each.id for each in player.world.members})
        member.is_heard = member.answers = True
        player.world.settle()
        self.assertEqual(before, {each.id for each in player.world.members})
        self.assertEqual('ONLINE', player.world.get_status())

    @hypothesis.settings(max_examples=50, deadline=None)
    @hypothesis.given(sizes, st.sets(_number, min_size=1))
    def test_deaths(self, values, dead):
        """Nobody waits for a cooldown, whatever was resized a moment ago."""
        player = Player(*values)
        player.world.settle()
        player.world.resized_at = player.world.now
        began = player.world.now
        for number in dead:
            player.play(('dies', number))
        unregistered = 0
        while True:
            action = player.world.act()
            if action is None or action.kind not in managers.URGENT:
                break
            unregistered += 1
        self.assertEqual(began, player.world.now)
        # All that is urgent is done before anything that takes its time.
        self.assertFalse([
            each for each in player.world.members if each.slot is not None and
            not (each.is_heard and each.answers)])
        player.heal()
        player.world.settle()
        self.assertEqual('ONLINE', player.world.get_status())

    def test_flapping_distributor(self):
        """The traffic moves once, and back where the other one is blind."""
        player = Player(3, 1, 0)
        end = player.world
        for each in end.members:
            end.probes[each.id, 'd1'] = 'DOWN', end.now
        self.assertEqual(Kind.MOVE_VIP, end.act().kind)
        self.assertEqual('d2', end.active)
        self.assertEqual((), end.decide())

    def test_busy_distributor(self):
        """Whoever has the traffic sees nobody, and the other one sees all."""
        end = Player(4, 2, 0).world
        moves = []
        while end.now < 3600:
            for each in end.members:
                for who in ('d1', 'd2'):
                    state = 'DOWN' if who == end.active else 'UP'
                    if end.probes[each.id, who][0] != state:
                        end.probes[each.id, who] = state, end.now
            if any(action.kind is Kind.MOVE_VIP for action in end.decide()):
                moves.append(end.now)
                end.moved = end.now, signs.choose_hold(end.last_move())
                end.active = {'d1': 'd2', 'd2': 'd1'}[end.active]
            end.now += 1
        self.assertEqual([0, 30, 90, 210, 450, 930, 1890, 2850], moves)

    def test_glitches(self):
        """Capacity comes back whatever somebody does, or died with."""
        for status in ('PENDING_UPDATE', 'ERROR', 'ACTIVE'):
            player = Player(4, 1, 0)
            end = player.world
            for number in (0, 1, 2):
                player.play(('status', status))
                player.play(('answers', number, False))
                self.assertEqual(Kind.DRAIN, end.act().kind)
                end.now += 3
                player.play(('answers', number, True))
                end.now += 61
                self.assertEqual(Kind.RETURN, end.act().kind)
                self.assertEqual(4, end.count_active())

    def test_overload(self):
        """Each misses two looks in turn: never more than one is away."""
        player = Player(4, 1, 0)
        end = player.world
        for turn in range(100):
            player.play(('answers', turn % 4, False))
            end.act()
            end.now += 3
            player.play(('answers', turn % 4, True))
            end.act()
            end.now += 2
            self.assertLessEqual(3, end.count_active())
        end.settle()
        self.assertEqual(4, end.count_active())
