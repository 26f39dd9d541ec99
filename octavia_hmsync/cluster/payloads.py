# SPDX-License-Identifier: Apache-2.0

"""Payloads about clusters and distributors; see the module payloads."""

import dataclasses

from octavia_hmsync.sync import payloads


@dataclasses.dataclass(frozen=True)
class _Cluster(payloads.Payload):
    """A cluster was created, or has a new operating status.

    :param load_balancer_id: its load balancer.
    :param status: its operating status: ONLINE, DEGRADED, ERROR or OFFLINE.
    :param desired_size: how many members it is to have.
    :param min_size: with fewer its load balancer is in ERROR.
    :param active: how many members get new connections.
    """

    cluster_id: str
    load_balancer_id: str
    status: str
    desired_size: int
    min_size: int
    active: int


@payloads.event('cluster.created')
class ClusterCreated(_Cluster):
    """A load balancer on a cluster is ACTIVE for the first time."""


@payloads.event('cluster.online')
class ClusterOnline(_Cluster):
    """All members of a cluster are well."""


@payloads.event('cluster.degraded', payloads.WARN)
class ClusterDegraded(_Cluster):
    """Fewer members of a cluster are well than desired."""


@payloads.event('cluster.error', payloads.ERROR)
class ClusterError(_Cluster):
    """Fewer members of a cluster are well than it needs."""


@payloads.event('cluster.offline')
class ClusterOffline(_Cluster):
    """The load balancer of a cluster was disabled."""


@payloads.event('cluster.vip_moved')
class ClusterVIPMoved(payloads.Payload):
    """Another distributor of a cluster takes over its VIP.

    :param load_balancer_id: whose VIP.
    :param distributor: name of the distributor that takes over.
    :param previous_distributor: name of the one before.
    :param reason: what is wrong with the previous one, None if nothing is
                   known to be.
    """

    cluster_id: str
    load_balancer_id: str
    distributor: str
    previous_distributor: str
    reason: str | None


@dataclasses.dataclass(frozen=True)
class _Member(payloads.Payload):
    """Something happened to a member of a cluster.

    :param load_balancer_id: the load balancer of the cluster.
    :param amphora_id: its amphora, None before it has one.
    :param slot: its place in the hash table of distributors, or None.
    """

    cluster_id: str
    load_balancer_id: str
    member_id: str
    amphora_id: str | None
    slot: int | None


@payloads.event('cluster_member.added')
class ClusterMemberAdded(_Member):
    """A member gets new connections.

    :param previous_state: BUILDING for a new member, STANDBY for a spare,
                           DRAINING for a member that has recovered.
    """

    previous_state: str


@payloads.event('cluster_member.drained', payloads.WARN)
class ClusterMemberDrained(_Member):
    """A member gets no new connections any more.

    :param ordered: DRAIN or REPLACE if an operator ordered it, else None.
    :param reason: what is wrong with it, None if nothing is known to be.
    """

    ordered: str | None
    reason: str | None


@payloads.event('cluster_member.dead', payloads.WARN)
class ClusterMemberDead(_Member):
    """A member is silent, and its front end does not answer.

    :param reason: in words, or None.
    """

    reason: str | None


@payloads.event('cluster_member.replaced')
class ClusterMemberReplaced(_Member):
    """Another member has taken the slot of a member.

    :param new_member_id: id of the new member.
    :param new_amphora_id: id of the new member's amphora.
    """

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


@payloads.event('distributor.up')
class DistributorUp(_Distributor):
    """A distributor answers, for the first time or again."""


@payloads.event('distributor.down', payloads.WARN)
class DistributorDown(_Distributor):
    """A distributor that answered does not any more."""


ALL = (
    ClusterCreated, ClusterOnline, ClusterDegraded, ClusterError,
    ClusterOffline, ClusterVIPMoved, ClusterMemberAdded, ClusterMemberDrained,
    ClusterMemberDead, ClusterMemberReplaced, DistributorUp, DistributorDown)
