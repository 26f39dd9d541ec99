# SPDX-License-Identifier: Apache-2.0

"""Which load balancers a rollout leaves alone.

Pure rules: they need only the exclusions and the load balancer's data.
"""

from collections.abc import Iterable
from collections.abc import Mapping

from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image import load_balancer as lb


class Exclusions:
    """The exclusions, prepared for many load balancers.

    :param exclusions: all present exclusions.
    :param tagged: {id of a load balancer: its tags}, of load balancers that
                   are excluded by tag.
    """

    def __init__(self, exclusions: Iterable[exclusion_repo.Exclusion],
                 tagged: Mapping[str, Iterable[str]]):
        self._by_value = {(e.kind, e.value): e for e in exclusions}
        self._tagged = tagged

    def find(self, load_balancer: lb.LoadBalancer
             ) -> exclusion_repo.Exclusion | None:
        """Return the exclusion that covers a load balancer, or None."""
        for key in self._get_keys(load_balancer):
            if key in self._by_value:
                return self._by_value[key]
        return None

    def _get_keys(self, load_balancer: lb.LoadBalancer
                  ) -> Iterable[tuple[str, str | None]]:
        yield exclusion_repo.LOAD_BALANCER, load_balancer.id
        yield exclusion_repo.PROJECT, load_balancer.project_id
        for tag in self._tagged.get(load_balancer.id, ()):
            yield exclusion_repo.TAG, tag
        yield exclusion_repo.FLAVOR, load_balancer.flavor_id
        yield exclusion_repo.ZONE, load_balancer.availability_zone
