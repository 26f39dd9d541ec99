# SPDX-License-Identifier: Apache-2.0

"""The interface of a cluster manager: its input and its decisions.

No I/O. The caller passes what the database has of a cluster, the manager
returns what is to be done, and the caller does it. After each action the
caller reads the cluster again and asks again.

Times are ages in seconds, by the database's clock.
"""

import abc
from collections.abc import Mapping, Sequence
import dataclasses
import enum
import math

ACTIVE = 'ACTIVE'
ERROR = 'ERROR'
DELETED = 'DELETED'
PENDING_CREATE = 'PENDING_CREATE'
PENDING_UPDATE = 'PENDING_UPDATE'
PENDING_DELETE = 'PENDING_DELETE'

BUILDING = 'BUILDING'
STANDBY = 'STANDBY'
DRAINING = 'DRAINING'
FAILED = 'FAILED'

DRAIN = 'DRAIN'
REPLACE = 'REPLACE'

HEALTHY = 'HEALTHY'
SUSPECT = 'SUSPECT'
DEAD = 'DEAD'

ONLINE = 'ONLINE'
DEGRADED = 'DEGRADED'
OFFLINE = 'OFFLINE'


class Kind(enum.StrEnum):
    """What is done."""

    # Actions on the whole cluster: the first that fits.
    FORGET = 'forget'
    DELETE = 'delete'
    TAKE_BACK = 'take back'
    CREATE = 'create'
    UNLOCK = 'unlock'
    # At once: rows change, and distributors are told.
    MOVE_VIP = 'move VIP'
    UNREGISTER = 'unregister'
    PROMOTE = 'promote'
    DRAIN = 'drain'
    RETURN = 'return'
    RESIZE = 'resize'
    # Failovers asked of Octavia's API become orders, and the load balancer
    # is ACTIVE again.
    TAKE_ORDERS = 'take orders'
    # Slow actions on members.
    REMOVE = 'remove'
    REPLACE = 'replace'
    CONFIGURE = 'configure'
    ADD = 'add'
    STAND_BY = 'stand by'
    BUILD_STANDBY = 'build standby'


# These need no claim: an action is skipped unless it was decided for the
# newest version of the cluster.
URGENT = frozenset((Kind.MOVE_VIP, Kind.UNREGISTER, Kind.PROMOTE, Kind.DRAIN,
                    Kind.RETURN, Kind.RESIZE))


@dataclasses.dataclass(frozen=True)
class Action:
    """Something that is to be done.

    :param member_id: None for the whole cluster.
    :param other_id: PROMOTE: the member whose slot it takes; None for a free
                     slot.
    :param reason: in words, where the kind does not tell.
    :param size: RESIZE: the number of members that the manager wants; None
                 for what an operator wants, the desired_size.
    """

    kind: Kind
    member_id: str | None = None
    other_id: str | None = None
    reason: str = ''
    size: int | None = None


@dataclasses.dataclass(frozen=True)
class Signs:
    """What speaks against a member.

    :param silent: why it is silent though it could be heard, or None.
    :param down: what is wrong with its front end, or None.
    :param well_for: seconds since the last of both signs was over.
    :param since: seconds for which one of the signs has held.
    :param may_be_load: whether overload may be the cause: heartbeats arrive,
                        and its front end does not answer at all.
    """

    silent: str | None = None
    down: str | None = None
    well_for: float = math.inf
    since: float = 0.0
    may_be_load: bool = False


NO_SIGNS = Signs()


@dataclasses.dataclass(frozen=True)
class Load:
    """The load of a member, as its heartbeats tell it.

    :param connections: open ones.
    :param connection_rate: new ones, for each second.
    :param byte_rate: bytes to and from clients, for each second.
    :param age: seconds since the heartbeat. Both rates are of some ten
                seconds before it.
    """

    connections: int
    connection_rate: float
    byte_rate: float
    age: float


@dataclasses.dataclass(frozen=True)
class Member:
    """A member, as far as it matters here.

    :param slot: None if no distributor sends it new connections.
    :param state: BUILDING, STANDBY, ACTIVE, DRAINING or FAILED.
    :param age: seconds since it got that state or its slot.
    :param amphora_status: Octavia's; None before it has an amphora, or after.
    :param ordered: DRAIN, REPLACE or None.
    :param connections: open ones while it drains; None if not known.
    :param is_configured: whether it has all that its slot needs.
    :param is_current: whether it has the configuration of the ACTIVE members.
    :param load: None if it is not known, or the manager does not ask for it.
    :param zone: the availability zone of its amphora; None if it has none.
    :param host: the compute host of its amphora, as Nova told it some minutes
                 ago; None if it did not, or the manager does not ask for it.
    """

    id: str
    slot: int | None
    state: str
    age: float
    amphora_status: str | None = None
    ordered: str | None = None
    connections: int | None = None
    is_configured: bool = True
    signs: Signs = NO_SIGNS
    is_current: bool = False
    load: Load | None = None
    zone: str | None = None
    host: str | None = None


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster without a claim, as far as it matters here.

    :param status: its provisioning status: the work that was begun last.
    :param load_balancer_status: Octavia's; None if the row is gone.
    :param desired_size: the number of members that an operator wants.
    :param min_size: with fewer members it is in ERROR.
    :param age: seconds since it was created.
    :param size: the number of slots it is being brought to; None for
                 desired_size.
    :param standby: the number of further members that wait without a slot.
    :param enabled: whether its load balancer is.
    :param may_resize: whether size may follow desired_size now.
    :param is_misdirected: whether another distributor sees members that the
                           active one does not see.
    :param is_distributed: whether a distributor was told of it: such a
                           cluster is repaired, not built again.
    :param is_failing_over: whether Octavia's API keeps the load balancer
                            locked until members with REPLACE are replaced.
    :param may_build: whether a member may be built in the place of a dead
                      one; False for a while after its replacements have died.
    """

    status: str
    load_balancer_status: str | None
    desired_size: int
    min_size: int
    age: float = 0.0
    size: int | None = None
    standby: int = 0
    enabled: bool = True
    may_resize: bool = True
    is_misdirected: bool = False
    is_distributed: bool = True
    is_failing_over: bool = False
    may_build: bool = True

    @property
    def size_now(self) -> int:
        """The number of slots that it is to have now."""
        return self.desired_size if self.size is None else self.size


@dataclasses.dataclass(frozen=True)
class Limits:
    """Time-outs, in seconds.

    :param drain_timeout: a member that leaves keeps its connections so long.
    :param creation_timeout: a load balancer that is not built by then is
                             taken back.
    :param recovery: a member must be well so long before it gets
                     connections again.
    :param patience: a silent member is given up after this time if it stands
                     by, or if no distributor probes its cluster.
    :param steady: a front end that is silent for longer is not just
                   overloaded.
    :param size_limit: the number of members that no cluster may exceed.
    """

    drain_timeout: float
    creation_timeout: float = 1800.0
    recovery: float = 30.0
    patience: float = 600.0
    steady: float = 10.0
    size_limit: int = 8


def find_failovers(cluster: Cluster,
                   members: Sequence[Member]) -> list[Member]:
    """Return the members that Octavia was asked to fail over.

    Octavia cannot fail over a member, and leaves the amphora and the load
    balancer in ERROR.
    """
    if cluster.load_balancer_status != ERROR or cluster.status == ERROR:
        return []
    return [member for member in members if member.amphora_status == ERROR]


class EventKind(enum.StrEnum):
    """What has happened to a cluster."""

    HEALTH = 'health'
    STATUS = 'status'
    DONE = 'done'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that has happened.

    :param member_id: None for the whole cluster.
    :param detail: a health, a status, or the kind of what was done.
    :param reason: in words, if there is one.
    """

    kind: EventKind
    cluster_id: str
    member_id: str | None = None
    detail: str = ''
    reason: str = ''


class ClusterManager(abc.ABC):
    """Decides for clusters. Threads share one.

    stevedore loads it from ``octavia_hmsync.cluster_managers`` by the
    cluster_type of a cluster, and calls it without arguments. Answers must
    not depend on its state: all processes have to get the same ones.

    :cvar FOLLOWS_LOAD: whether it wants the load of members. It is asked in
                        each round then, though nothing else has happened.
    :cvar FOLLOWS_HOSTS: whether it wants the compute hosts of members.
    """

    FOLLOWS_LOAD = False
    FOLLOWS_HOSTS = False

    def handle(self, event: Event) -> None:
        """Take note of an event; one process passes each event, once."""

    @abc.abstractmethod
    def decide(self, cluster: Cluster, members: Sequence[Member],
               limits: Limits) -> tuple[Action, ...]:
        """Return what is to be done.

        :returns: in this order; empty if all is as it should be, or if
                  Octavia works on the load balancer.
        """

    @abc.abstractmethod
    def get_health(self, members: Sequence[Member],
                   limits: Limits) -> Mapping[str, str]:
        """Return the health of members.

        :returns: {id: HEALTHY, SUSPECT or DEAD}.
        """

    @abc.abstractmethod
    def get_status(self, cluster: Cluster, members: Sequence[Member],
                   limits: Limits) -> str:
        """Return the operating status of a cluster.

        :returns: ONLINE, DEGRADED, ERROR or OFFLINE.
        """

    @abc.abstractmethod
    def settle(self, cluster: Cluster, members: Sequence[Member]) -> str:
        """Return the status for a load balancer whose worker died.

        :returns: ACTIVE or ERROR.
        """
