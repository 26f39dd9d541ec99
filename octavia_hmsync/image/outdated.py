# SPDX-License-Identifier: Apache-2.0

"""Which load balancers are outdated, excluded, or blocked from a replacement.

Pure rules: they need only the database and the id of the target image.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import datetime
import enum

from octavia_hmsync import compat
from octavia_hmsync.image.db import exclusion as exclusion_repo


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora that is not deleted.

    :param status: ALLOCATED, ERROR, BOOTING, ...
    :param role: MASTER, BACKUP, STANDALONE; None while it has none.
    :param is_busy: whether a failover of it has begun, or has failed.
    :param compute_id: its instance; this and what follows is None if it is
                       not known or was not read.
    """

    id: str
    status: str | None
    role: str | None = None
    image_id: str | None = None
    lb_network_ip: str | None = None
    is_busy: bool = False
    compute_id: str | None = None
    zone: str | None = None
    compute_flavor: str | None = None
    certificate_ends_at: datetime.datetime | None = None
    created_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class LoadBalancer:
    """A load balancer that is not deleted.

    :param provider: None if it is older than other providers.
    :param topology: None if Octavia did not store it.
    :param tag: of the image for its next amphora; None if its flavor cannot
                be read.
    :param changed_at: Octavia's last change, UTC, by Octavia's clock.
    """

    id: str
    name: str | None
    project_id: str | None
    provider: str | None
    topology: str | None
    status: str
    flavor_id: str | None = None
    availability_zone: str | None = None
    server_group_id: str | None = None
    tag: str | None = None
    amphorae: tuple[Amphora, ...] = ()
    operating_status: str | None = None
    changed_at: datetime.datetime | None = None


class Outdated(enum.StrEnum):
    """The images of a load balancer's amphorae, compared with the target."""

    NO = 'NO'
    """All amphorae have the target image."""

    YES = 'YES'
    """None is known to have the target, at least one is known not to."""

    MIXED = 'MIXED'
    """The amphorae have different images: at least one is not the target."""

    UNKNOWN = 'UNKNOWN'
    """There is no target, no amphora, or an amphora of unknown image."""


TO_REPLACE = (Outdated.YES, Outdated.MIXED)


class Blocked(enum.StrEnum):
    """What blocks a replacement."""

    OTHER_PROVIDER = 'OTHER_PROVIDER'
    """Its amphorae, if it has any, are not Octavia's."""

    UNKNOWN_TOPOLOGY = 'UNKNOWN_TOPOLOGY'
    """It is not known how many amphorae it should have."""

    PENDING = 'PENDING'
    """Octavia works on it."""

    ERROR = 'ERROR'
    """The last change of it failed."""

    AMPHORA_ERROR = 'AMPHORA_ERROR'
    """One amphora is in ERROR; the other one serves alone."""

    AMPHORA_BUSY = 'AMPHORA_BUSY'
    """One amphora is being built or failed over."""

    AMPHORA_COUNT = 'AMPHORA_COUNT'
    """It has fewer or more amphorae than its topology requires."""

    NO_IMAGE = 'NO_IMAGE'
    """No active image has the tag."""


def get_allocated(load_balancer: LoadBalancer) -> list[Amphora]:
    """Return what can be replaced: neither in ERROR nor in the making."""
    return [amphora for amphora in load_balancer.amphorae
            if amphora.status == compat.AMPHORA_ALLOCATED]


def get_outdated(load_balancer: LoadBalancer,
                 target_image_id: str | None) -> list[Amphora]:
    """Return the amphorae that are known not to have the target image."""
    if target_image_id is None:
        return []
    return [amphora for amphora in get_allocated(load_balancer)
            if amphora.image_id not in (None, target_image_id)]


def judge(load_balancer: LoadBalancer,
          target_image_id: str | None) -> Outdated:
    """Tell whether a load balancer is outdated."""
    images = {amphora.image_id for amphora in get_allocated(load_balancer)}
    if len(images - {None}) > 1:
        # That holds for any target.
        return Outdated.MIXED
    if target_image_id is None or not images:
        return Outdated.UNKNOWN
    if images - {None, target_image_id}:
        return Outdated.YES
    return Outdated.UNKNOWN if None in images else Outdated.NO


def get_blocks(load_balancer: LoadBalancer,
               target_image_id: str | None) -> tuple[Blocked, ...]:
    """Tell what blocks a replacement, in the order of an operator's look."""
    if not is_of_amphorae(load_balancer):
        return (Blocked.OTHER_PROVIDER,)
    blocks = []
    if (not has_cluster(load_balancer) and
            load_balancer.topology not in compat.AMPHORAE_OF_TOPOLOGY):
        blocks.append(Blocked.UNKNOWN_TOPOLOGY)
    if load_balancer.status == compat.ERROR:
        blocks.append(Blocked.ERROR)
    elif load_balancer.status != compat.ACTIVE:
        blocks.append(Blocked.PENDING)
    blocks += _get_amphora_blocks(load_balancer)
    if target_image_id is None:
        blocks.append(Blocked.NO_IMAGE)
    return tuple(blocks)


def _get_amphora_blocks(load_balancer: LoadBalancer) -> list[Blocked]:
    blocks = []
    allocated = get_allocated(load_balancer)
    if any(a.status == compat.ERROR for a in load_balancer.amphorae):
        blocks.append(Blocked.AMPHORA_ERROR)
    if has_cluster(load_balancer):
        # All members are marked busy, as Octavia never fails them over; their
        # number is the business of the cluster's own rows.
        return blocks
    if any(a.is_busy or a.status not in (
            compat.AMPHORA_ALLOCATED, compat.ERROR)
            for a in load_balancer.amphorae):
        blocks.append(Blocked.AMPHORA_BUSY)
    # Only if nothing above explains the wrong number.
    wanted = compat.AMPHORAE_OF_TOPOLOGY.get(load_balancer.topology)
    if not blocks and wanted not in (None, len(allocated)):
        blocks.append(Blocked.AMPHORA_COUNT)
    return blocks


def is_of_amphorae(load_balancer: LoadBalancer) -> bool:
    """Tell whether a load balancer has amphorae of Octavia's own."""
    return (load_balancer.provider in (None, *compat.AMPHORA_PROVIDERS) or
            has_cluster(load_balancer))


def has_cluster(load_balancer: LoadBalancer) -> bool:
    """Tell whether the amphorae of a load balancer are members of a cluster.

    The cluster replaces them itself, whatever the mode: one after the other,
    each new one before the old one goes.
    """
    return load_balancer.provider == compat.CLUSTER_PROVIDER


class Exclusions:
    """Exclusions, for many load balancers; tagged: {excluded id: its tags}."""

    def __init__(self, exclusions: Iterable[exclusion_repo.Exclusion],
                 tagged: Mapping[str, Iterable[str]]):
        self._by_value = {(e.kind, e.value): e for e in exclusions}
        self._tagged = tagged

    def find(self, load_balancer: LoadBalancer
             ) -> exclusion_repo.Exclusion | None:
        """Return the exclusion that covers a load balancer, or None."""
        for key in self._get_keys(load_balancer):
            if key in self._by_value:
                return self._by_value[key]
        return None

    def _get_keys(self, load_balancer: LoadBalancer
                  ) -> Iterable[tuple[str, str | None]]:
        yield exclusion_repo.LOAD_BALANCER, load_balancer.id
        yield exclusion_repo.PROJECT, load_balancer.project_id
        for tag in self._tagged.get(load_balancer.id, ()):
            yield exclusion_repo.TAG, tag
        yield exclusion_repo.FLAVOR, load_balancer.flavor_id
        yield exclusion_repo.ZONE, load_balancer.availability_zone
