# SPDX-License-Identifier: Apache-2.0

"""What is told of clusters and distributors; see the module payloads."""

import dataclasses

from octavia_hmsync.sync import payloads


@dataclasses.dataclass(frozen=True)
class _Cluster(payloads.Payload):
    """A cluster is there, or is in another operating status.

    :param cluster_id: its id.
    :param load_balancer_id: whose amphorae its members are.
    :param status: its operating status: ONLINE, DEGRADED, ERROR or OFFLINE.
    :param desired_size: how many members it is to have.
    :param min_size: with fewer its load balancer is in ERROR.
    :param active: how many get new connections.
    """

    cluster_id: str
    load_balancer_id: str
    status: str
    desired_size: int
    min_size: int
    active: int


@dataclasses.dataclass(frozen=True)
class ClusterCreated(_Cluster):
    """A load balancer on a cluster is ACTIVE for the first time."""

    EVENT_TYPE = 'octavia_hmsync.cluster.created'
    PRIORITY = payloads.INFO
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ClusterOnline(_Cluster):
    """All members of a cluster are well."""

    EVENT_TYPE = 'octavia_hmsync.cluster.online'
    PRIORITY = payloads.INFO
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ClusterDegraded(_Cluster):
    """Fewer members of a cluster are well than there are to be."""

    EVENT_TYPE = 'octavia_hmsync.cluster.degraded'
    PRIORITY = payloads.WARN
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ClusterError(_Cluster):
    """Fewer members of a cluster are well than it needs."""

    EVENT_TYPE = 'octavia_hmsync.cluster.error'
    PRIORITY = payloads.ERROR
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ClusterOffline(_Cluster):
    """The load balancer of a cluster was disabled."""

    EVENT_TYPE = 'octavia_hmsync.cluster.offline'
    PRIORITY = payloads.INFO
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ClusterVIPMoved(payloads.Payload):
    """Another distributor of a cluster is to answer for its VIP.

    :param cluster_id: its id.
    :param load_balancer_id: whose VIP.
    :param distributor: the name of that which is to answer.
    :param previous_distributor: of that which was.
    :param reason: what is wrong with the latter, None where nothing is known
                   to be.
    """

    EVENT_TYPE = 'octavia_hmsync.cluster.vip_moved'
    PRIORITY = payloads.INFO
    VERSION = '1.0'

    cluster_id: str
    load_balancer_id: str
    distributor: str
    previous_distributor: str
    reason: str | None


@dataclasses.dataclass(frozen=True)
class _Member(payloads.Payload):
    """Something happened to a member of a cluster.

    :param cluster_id: of which cluster.
    :param load_balancer_id: whose amphora it is.
    :param member_id: its id.
    :param amphora_id: that of its amphora, None before it has one.
    :param slot: its place in what distributors compute, None without one.
    """

    cluster_id: str
    load_balancer_id: str
    member_id: str
    amphora_id: str | None
    slot: int | None


@dataclasses.dataclass(frozen=True)
class ClusterMemberAdded(_Member):
    """A member gets new connections.

    :param previous_state: BUILDING for a new one, STANDBY for one that has
                           waited, DRAINING for one that is well again.
    """

    EVENT_TYPE = 'octavia_hmsync.cluster_member.added'
    PRIORITY = payloads.INFO
    VERSION = '1.0'

    previous_state: str


@dataclasses.dataclass(frozen=True)
class ClusterMemberDrained(_Member):
    """A member gets no new connections any more.

    :param ordered: DRAIN or REPLACE if an operator wanted that, None if not.
    :param reason: what is wrong with it, None where nothing is known to be.
    """

    EVENT_TYPE = 'octavia_hmsync.cluster_member.drained'
    PRIORITY = payloads.WARN
    VERSION = '1.0'

    ordered: str | None
    reason: str | None


@dataclasses.dataclass(frozen=True)
class ClusterMemberDead(_Member):
    """A member is silent, and its front end does not answer.

    :param reason: in words, or None.
    """

    EVENT_TYPE = 'octavia_hmsync.cluster_member.dead'
    PRIORITY = payloads.WARN
    VERSION = '1.0'

    reason: str | None


@dataclasses.dataclass(frozen=True)
class ClusterMemberReplaced(_Member):
    """Another member has taken the slot of one.

    :param new_member_id: its id.
    :param new_amphora_id: that of its amphora.
    """

    EVENT_TYPE = 'octavia_hmsync.cluster_member.replaced'
    PRIORITY = payloads.INFO
    VERSION = '1.0'

    new_member_id: str
    new_amphora_id: str | None


@dataclasses.dataclass(frozen=True)
class _Distributor(payloads.Payload):
    """A distributor answers, or does not.

    :param distributor: its name.
    :param url: of its API.
    :param vips: how many clusters are on it.
    """

    distributor: str
    url: str
    vips: int


@dataclasses.dataclass(frozen=True)
class DistributorUp(_Distributor):
    """A distributor answers, for the first time or again."""

    EVENT_TYPE = 'octavia_hmsync.distributor.up'
    PRIORITY = payloads.INFO
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class DistributorDown(_Distributor):
    """A distributor that answered does not any more."""

    EVENT_TYPE = 'octavia_hmsync.distributor.down'
    PRIORITY = payloads.WARN
    VERSION = '1.0'


ALL = (
    ClusterCreated, ClusterOnline, ClusterDegraded, ClusterError,
    ClusterOffline, ClusterVIPMoved, ClusterMemberAdded, ClusterMemberDrained,
    ClusterMemberDead, ClusterMemberReplaced, DistributorUp, DistributorDown)
