# SPDX-License-Identifier: Apache-2.0

"""What a manager of clusters is: what it is told, and what it decides.

No I/O. A manager is asked what is to be done for a cluster, and what that
cluster is; it is told all that the database has of it, and whoever has asked
does it. After each thing that was done all of it is looked at anew.

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

    # Of those that concern all of it, the first that fits.
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
    # Those of Octavia's API become orders, and the load balancer is ACTIVE.
    TAKE_ORDERS = 'take orders'
    # Of members, what takes its time.
    REMOVE = 'remove'
    REPLACE = 'replace'
    CONFIGURE = 'configure'
    ADD = 'add'
    STAND_BY = 'stand by'
    BUILD_STANDBY = 'build standby'


# Whoever does one of them needs no claim: only what was decided for the
# newest version of a cluster is done.
URGENT = frozenset((Kind.MOVE_VIP, Kind.UNREGISTER, Kind.PROMOTE, Kind.DRAIN,
                    Kind.RETURN, Kind.RESIZE))


@dataclasses.dataclass(frozen=True)
class Action:
    """Something that is to be done.

    :param kind: what.
    :param member_id: with which member; None for all of the cluster.
    :param other_id: PROMOTE: whose slot it takes; None for a free one.
    :param reason: why, in words, where that is not in the kind.
    """

    kind: Kind
    member_id: str | None = None
    other_id: str | None = None
    reason: str = ''


@dataclasses.dataclass(frozen=True)
class Signs:
    """What speaks against a member.

    :param silent: why it is silent though it could be heard, or None.
    :param down: what is wrong with its front end, or None.
    :param well_for: seconds since the last of both was over.
    :param since: seconds for which one of them holds.
    :param may_be_load: whether that may come of too much to do: it is heard,
                        and its front end says nothing at all.
    """

    silent: str | None = None
    down: str | None = None
    well_for: float = math.inf
    since: float = 0.0
    may_be_load: bool = False


NO_SIGNS = Signs()


@dataclasses.dataclass(frozen=True)
class Member:
    """A member, as far as it matters here.

    :param id: its id.
    :param slot: None for one that no distributor sends anything new to.
    :param state: BUILDING, STANDBY, ACTIVE, DRAINING or FAILED.
    :param age: seconds since it came into that state, or its slot.
    :param amphora_status: Octavia's; None before it has an amphora, or after.
    :param ordered: DRAIN, REPLACE or None.
    :param connections: open ones while it drains; None where nobody knows.
    :param is_configured: whether it was told all that its slot needs.
    :param signs: what speaks against it.
    :param is_current: whether it has taken the configuration that the ACTIVE
                       ones have.
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


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster that nobody works on, as far as it matters here.

    :param status: its provisioning status: what was begun last, and by whom
                   of those who work on clusters.
    :param load_balancer_status: Octavia's; None where the row is gone.
    :param desired_size: how many members it is to have.
    :param min_size: with fewer it is no use.
    :param age: seconds since it was begun.
    :param size: what it is being brought to; None for desired_size.
    :param standby: how many more wait without a slot.
    :param enabled: whether its load balancer is.
    :param may_resize: whether size may follow desired_size now.
    :param is_misdirected: whether another distributor than the active one
                           sees members that this one does not see.
    :param is_distributed: whether a distributor was told of it: what was made
                           once can be made whole without building it anew.
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

    @property
    def size_now(self) -> int:
        """How many slots there are to be now."""
        return self.desired_size if self.size is None else self.size


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long is waited.

    :param drain_timeout: seconds for which one that leaves has connections.
    :param creation_timeout: seconds after which a load balancer that is not
                             built by then is given up.
    :param recovery: seconds for which a member has to be well before it gets
                     connections again.
    :param patience: seconds after which one is given up that is silent, and
                     stands by, or is of a cluster that nobody looks at.
    :param steady: seconds after which a front end that does not answer is not
                   one that merely has too much to do.
    """

    drain_timeout: float
    creation_timeout: float = 1800.0
    recovery: float = 30.0
    patience: float = 600.0
    steady: float = 10.0


def find_failovers(cluster: Cluster,
                   members: Sequence[Member]) -> list[Member]:
    """Return those that Octavia was asked to fail over.

    It does not know how, and leaves both in ERROR, the amphora and the load
    balancer.

    :param cluster: a Cluster.
    :param members: of that.
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

    :param kind: what.
    :param cluster_id: to which cluster.
    :param member_id: to which member; None for all of it.
    :param detail: a health, a status, or the kind of what was done.
    :param reason: in words, where there is one.
    """

    kind: EventKind
    cluster_id: str
    member_id: str | None = None
    detail: str = ''
    reason: str = ''


class ClusterManager(abc.ABC):
    """Decides for clusters. Threads share one.

    Of stevedore's namespace ``octavia_hmsync.cluster_managers``, by the name
    that is the cluster_type of a cluster; made without arguments. It has no
    state that anything depends on: whichever process asks gets the same
    answers.
    """

    def handle(self, event: Event) -> None:
        """Hear of something that has happened; of each once, in one process.

        :param event: an Event.
        """

    @abc.abstractmethod
    def decide(self, cluster: Cluster, members: Sequence[Member],
               limits: Limits) -> tuple[Action, ...]:
        """Tell what is to be done.

        :param cluster: a Cluster.
        :param members: of that.
        :param limits: a Limits.
        :returns: the first thing first; empty if all is as it should be, or
                  Octavia works on it.
        """

    @abc.abstractmethod
    def get_health(self, members: Sequence[Member],
                   limits: Limits) -> Mapping[str, str]:
        """Tell how members are.

        :returns: {id: HEALTHY, SUSPECT or DEAD}.
        """

    @abc.abstractmethod
    def get_status(self, cluster: Cluster, members: Sequence[Member],
                   limits: Limits) -> str:
        """Tell how a cluster is.

        :returns: ONLINE, DEGRADED, ERROR or OFFLINE.
        """

    @abc.abstractmethod
    def settle(self, cluster: Cluster, members: Sequence[Member]) -> str:
        """Tell what a load balancer is that somebody died with.

        :returns: ACTIVE or ERROR.
        """
