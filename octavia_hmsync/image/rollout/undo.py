# SPDX-License-Identifier: Apache-2.0

"""Taking a rollout back: who is concerned, and whether it can be. Pure rules.

The way back is another rollout, to the image that the tag has by then.
"""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

from octavia_hmsync.image import load_balancer as lb

Brought = Mapping[str, Collection[str]]


def is_on_image(load_balancer: lb.LoadBalancer, brought: Brought) -> bool:
    """Tell whether an amphora has an image that a rollout has brought.

    :param load_balancer: LoadBalancer.
    :param brought: the images by the id of the load balancer.
    """
    images = brought.get(load_balancer.id, ())
    return any(amphora.image_id in images
               for amphora in load_balancer.amphorae)


def find_tags_to_change(load_balancers: Sequence[lb.LoadBalancer],
                        brought: Brought,
                        image_of_tag: Mapping[str | None, str | None]
                        ) -> dict[str | None, str]:
    """Return the tags that still give an image which is to be taken back.

    :param load_balancers: those for which is_on_image() holds.
    :param brought: the images by the id of the load balancer.
    :param image_of_tag: the image that each tag has now, or None.
    :returns: the image by the tag, empty if nothing is in the way.
    """
    return {each.tag: image for each in load_balancers
            if (image := image_of_tag.get(each.tag)) is not None and
            image in brought[each.id]}
