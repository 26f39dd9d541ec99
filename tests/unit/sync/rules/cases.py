# SPDX-License-Identifier: Apache-2.0

"""Members, settings and strategies for the tests of the membership rules."""

import dataclasses

from hypothesis import strategies as st

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import timing

# The defaults of Octavia and of the plugin.
SETTINGS = timing.Settings(heartbeat_interval=10, heartbeat_timeout=60,
                           offline_after=20, settle_time=2, removal_delay=60,
                           restart_grace=20)


def address(number):
    """Return the number-th address of a management network."""
    return f'192.0.2.{number}:5555'


def make_member(number, status=member.ONLINE, age=1.0, online_for=1000.0,
                host=None):
    """Make a health manager, alive for long unless told otherwise."""
    return member.Member(host=host or f'hm{number}', address=address(number),
                         status=status, keepalive_age=age,
                         online_for=online_for)


def make_dead(number, age=30.0):
    """Make one that has been silent for so many seconds."""
    return make_member(number, age=age)


def listeners(members, pinned=(), settings=SETTINGS, **values):
    """Who listens where."""
    return listening.HealthManagers(members, pinned, settings, **values)


def plan_for(members, pinned, last, settings=SETTINGS, suspects=(),
             good=None):
    """Plan, for those who have been watched for long."""
    return plan.plan(listeners(members, pinned, settings), last, suspects,
                     good)


def alive(*numbers):
    """Make health managers that are alive."""
    return [make_member(number) for number in numbers]


def addresses(*numbers):
    """Return a published list."""
    return tuple(address(number) for number in numbers)


# What a member can be in: status, keepalive age, seconds since it came, and
# whether it is in the last list.
_conditions = st.one_of(
    st.sampled_from([(member.ONLINE, 1.0, 1000.0, True),
                     (member.ONLINE, 15.0, 1000.0, True),
                     (member.DRAINING, 1.0, 1000.0, True),
                     (member.ONLINE, 30.0, 1000.0, True),
                     (member.ONLINE, 70.0, 1000.0, True),
                     (member.OFFLINE, 1.0, 1000.0, True),
                     (member.ONLINE, 1.0, 1.5, False),
                     (member.ONLINE, 1.0, 5.0, False),
                     (member.ONLINE, 1.0, 30.0, False),
                     (member.DRAINING, 30.0, 1000.0, False)]),
    st.tuples(st.sampled_from([member.ONLINE, member.DRAINING,
                               member.OFFLINE]),
              st.integers(0, 100), st.integers(0, 100), st.booleans()))
address_sets = st.sets(st.integers(1, 14), max_size=10).map(
    lambda numbers: addresses(*sorted(numbers)))
steady_times = st.sampled_from([1000.0, 1000.0, 20.5, 20.0, 5.0, 0.0])


@st.composite
def settings(draw):
    """Settings that pass the check of the configuration."""
    interval = draw(st.integers(1, 20))
    timeout = draw(st.integers(interval + 1, 12 * interval))
    return timing.Settings(
        heartbeat_interval=interval, heartbeat_timeout=timeout,
        offline_after=draw(st.integers(2, 60)),
        settle_time=draw(st.integers(0, 10)),
        removal_delay=draw(st.integers(0, 120)),
        restart_grace=draw(st.integers(0, 60)))


@dataclasses.dataclass(frozen=True)
class World:
    """All that a plan depends on."""

    members: tuple
    pinned: tuple
    last: tuple | None
    settings: timing.Settings
    steady: float
    good: tuple | None = None

    @property
    def listeners(self):
        return listening.HealthManagers(
            self.members, self.pinned, self.settings,
            reader_steady_for=self.steady)

    def plan(self, suspects=(), **changes):
        """Plan, in this world or in one that differs in something."""
        world = dataclasses.replace(self, **changes)
        return plan.plan(world.listeners, world.last, suspects, world.good)

    @property
    def published(self):
        return set(self.last or ())

    def addresses(self, *states):
        """The addresses of the members in one of these states."""
        return {m.address for m in self.members if member.state_of(
            m, self.settings.offline_after, self.steady) in states}

    @property
    def alive(self):
        return self.addresses(member.State.ALIVE)

    @property
    def proven_alive(self):
        """Those that gave a sign of life quite lately."""
        return {m.address for m in self.members if m.address in self.alive and
                2 * m.keepalive_age <= self.settings.offline_after}

    def unheard(self, published):
        """Those of a list at which nobody can be listening, or soon be."""
        return listening.find_unheard(published, self.listeners.may_listen)

    def is_urgent(self):
        """Whether dead addresses bring the gap near the timeout."""
        return bool(self.last) and listening.published_level(
            self.last, self.listeners.addresses and listening.find_unheard(
                self.last, self.listeners.listens) or frozenset(self.last),
            self.settings) is not listening.Level.FINE


@st.composite
def worlds(draw):
    """Worlds in which members, pins and the last list belong together."""
    size = draw(st.integers(0, 9))
    conditions = draw(st.lists(_conditions, min_size=size, max_size=size))
    members, last = [], []
    for number, (status, age, online_for, is_in) in enumerate(conditions, 1):
        members.append(make_member(number, status, age, online_for))
        if is_in:
            last.append(address(number))
    # Of hosts that have another address now, and of nobody's any more.
    last += addresses(*range(20, 20 + draw(st.sampled_from([0, 0, 1, 2]))))
    return World(
        members=tuple(members), last=tuple(last) or None,
        pinned=draw(st.sampled_from([(), (), addresses(1),
                                     addresses(2, 30)])),
        settings=draw(st.just(SETTINGS) | settings()),
        steady=draw(steady_times))
