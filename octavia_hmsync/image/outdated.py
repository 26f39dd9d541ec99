# SPDX-License-Identifier: Apache-2.0

"""Which load balancers are outdated, and what blocks a replacement.

Pure rules: they need only the database and the id of the target image.
"""

import enum

from octavia_hmsync import compat
from octavia_hmsync.image import load_balancer as lb


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


def get_allocated(load_balancer: lb.LoadBalancer) -> list[lb.Amphora]:
    """Return the amphorae that can be replaced.

    An amphora in ERROR or in the making is another matter.
    """
    return [amphora for amphora in load_balancer.amphorae
            if amphora.status == compat.AMPHORA_ALLOCATED]


def get_outdated(load_balancer: lb.LoadBalancer,
                 target_image_id: str | None) -> list[lb.Amphora]:
    """Return the amphorae that are known not to have the target image.

    :param target_image_id: None if there is none.
    """
    if target_image_id is None:
        return []
    return [amphora for amphora in get_allocated(load_balancer)
            if amphora.image_id not in (None, target_image_id)]


def judge(load_balancer: lb.LoadBalancer,
          target_image_id: str | None) -> Outdated:
    """Tell whether a load balancer is outdated.

    :param target_image_id: None if there is none.
    """
    images = {amphora.image_id for amphora in get_allocated(load_balancer)}
    if len(images - {None}) > 1:
        # That holds for any target.
        return Outdated.MIXED
    if target_image_id is None or not images:
        return Outdated.UNKNOWN
    if images - {None, target_image_id}:
        return Outdated.YES
    return Outdated.UNKNOWN if None in images else Outdated.NO


def get_blocks(load_balancer: lb.LoadBalancer,
               target_image_id: str | None) -> tuple[Blocked, ...]:
    """Tell what blocks a replacement.

    :param target_image_id: None if there is none.
    :returns: in the order in which an operator would look at it; empty if
              nothing in the database blocks it.
    """
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


def _get_amphora_blocks(load_balancer: lb.LoadBalancer) -> list[Blocked]:
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


def is_of_amphorae(load_balancer: lb.LoadBalancer) -> bool:
    """Tell whether a load balancer has amphorae of Octavia's own."""
    return (load_balancer.provider in (None, *compat.AMPHORA_PROVIDERS) or
            has_cluster(load_balancer))


def has_cluster(load_balancer: lb.LoadBalancer) -> bool:
    """Tell whether the amphorae of a load balancer are members of a cluster.

    The cluster replaces them itself, whatever the mode: one after the other,
    each new one before the old one goes.
    """
    return load_balancer.provider == compat.CLUSTER_PROVIDER
