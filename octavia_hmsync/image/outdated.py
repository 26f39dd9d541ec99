# SPDX-License-Identifier: Apache-2.0

"""Who is outdated, and what is in the way of a replacement.

Pure rules: told from what is in the database, and which image is the target.
"""

import enum

from octavia_hmsync import compat
from octavia_hmsync.image import load_balancer as lb


class Outdated(enum.StrEnum):
    """What the images of a load balancer's amphorae are."""

    NO = 'NO'
    """All are the target."""

    YES = 'YES'
    """None is known to be the target, and one is known not to be."""

    MIXED = 'MIXED'
    """The amphorae have different ones, so that one has to be replaced."""

    UNKNOWN = 'UNKNOWN'
    """There is no target, no amphora, or one of which nobody knows."""


TO_REPLACE = (Outdated.YES, Outdated.MIXED)


class Blocked(enum.StrEnum):
    """What is in the way of a replacement."""

    OTHER_PROVIDER = 'OTHER_PROVIDER'
    """Its amphorae, if it has any, are none of Octavia's."""

    UNKNOWN_TOPOLOGY = 'UNKNOWN_TOPOLOGY'
    """Nobody knows how many amphorae it should have."""

    PENDING = 'PENDING'
    """Octavia works on it."""

    ERROR = 'ERROR'
    """What was done to it last failed."""

    AMPHORA_ERROR = 'AMPHORA_ERROR'
    """One amphora is in ERROR; the other one serves alone."""

    AMPHORA_BUSY = 'AMPHORA_BUSY'
    """One amphora is built, or failed over."""

    AMPHORA_COUNT = 'AMPHORA_COUNT'
    """It has fewer amphorae than its topology tells, or more."""

    NO_IMAGE = 'NO_IMAGE'
    """No image that is active has the tag."""


def get_allocated(load_balancer: lb.LoadBalancer) -> list[lb.Amphora]:
    """Return the amphorae that a replacement may be for.

    What is in ERROR or built right now is another matter.
    """
    return [amphora for amphora in load_balancer.amphorae
            if amphora.status == compat.AMPHORA_ALLOCATED]


def get_outdated(load_balancer: lb.LoadBalancer,
                 target_image_id: str | None) -> list[lb.Amphora]:
    """Return the amphorae that are known not to be of the target image.

    :param load_balancer: LoadBalancer.
    :param target_image_id: None where there is none.
    """
    if target_image_id is None:
        return []
    return [amphora for amphora in get_allocated(load_balancer)
            if amphora.image_id not in (None, target_image_id)]


def judge(load_balancer: lb.LoadBalancer,
          target_image_id: str | None) -> Outdated:
    """Tell whether a load balancer is outdated.

    :param load_balancer: LoadBalancer.
    :param target_image_id: None where there is none.
    """
    images = {amphora.image_id for amphora in get_allocated(load_balancer)}
    if len(images - {None}) > 1:
        # That is so whatever the target is.
        return Outdated.MIXED
    if target_image_id is None or not images:
        return Outdated.UNKNOWN
    if images - {None, target_image_id}:
        return Outdated.YES
    return Outdated.UNKNOWN if None in images else Outdated.NO


def get_blocks(load_balancer: lb.LoadBalancer,
               target_image_id: str | None) -> tuple[Blocked, ...]:
    """Tell what is in the way of a replacement.

    :param load_balancer: LoadBalancer.
    :param target_image_id: None where there is none.
    :returns: in the order in which somebody would look at them; empty if
              nothing is, as far as that can be told from here.
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
        # Octavia never fails those over, so that each is busy; how many there
        # are to be the cluster's rows tell.
        return blocks
    if any(a.is_busy or a.status not in (
            compat.AMPHORA_ALLOCATED, compat.ERROR)
            for a in load_balancer.amphorae):
        blocks.append(Blocked.AMPHORA_BUSY)
    # Both of the above explain a wrong number; it is told where nothing does.
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

    That replaces them, whatever the mode: one after the other, each before it
    is broken.
    """
    return load_balancer.provider == compat.CLUSTER_PROVIDER
