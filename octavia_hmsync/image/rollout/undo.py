# SPDX-License-Identifier: Apache-2.0

"""Which load balancers the undo of a rollout concerns. Pure rules.

The undo is another rollout, to the image that the tag has by then.
"""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

from octavia_hmsync.image import load_balancer as lb

Brought = Mapping[str, Collection[str]]


def is_on_image(load_balancer: lb.LoadBalancer, brought: Brought) -> bool:
    """Tell whether an amphora has an image of a rollout.

    :param brought: {load balancer id: the images that the rollout brought}.
    """
    images = brought.get(load_balancer.id, ())
    return any(amphora.image_id in images
               for amphora in load_balancer.amphorae)


def find_tags_to_change(load_balancers: Sequence[lb.LoadBalancer],
                        brought: Brought,
                        image_of_tag: Mapping[str | None, str | None]
                        ) -> dict[str | None, str]:
    """Return the tags that still point to an image to be undone.

    :param load_balancers: load balancers for which is_on_image() is true.
    :param brought: see is_on_image().
    :param image_of_tag: {tag: its present image, or None}.
    :returns: {tag: image}, empty if the undo may begin.
    """
    return {each.tag: image for each in load_balancers
            if (image := image_of_tag.get(each.tag)) is not None and
            image in brought[each.id]}
