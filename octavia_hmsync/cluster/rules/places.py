# SPDX-License-Identifier: Apache-2.0

"""Chooses the compute zone of each member of a cluster.

An availability zone profile of provider ``amphora_cluster`` may list several
compute zones. All of them must have its one management network: Octavia
unplugs an amphora from any other network when it plugs the networks of its
members.
"""

from collections import abc
import time
import typing

import jsonschema
from oslo_log import log as logging

from octavia_hmsync.cluster.rules import flavor as flavors
from octavia_hmsync import compat

LOG = logging.getLogger(__name__)

# The key in an availability zone profile.
KEY = compat.CLUSTER_COMPUTE_ZONES
COMPUTE_ZONE = 'compute_zone'
DESCRIPTION = ('Compute availability zones over which the amphorae of a '
               'cluster are spread, instead of compute_zone.')
_SCHEMA = {'type': 'array', 'minItems': 2, 'uniqueItems': True,
           'items': {'type': 'string', 'minLength': 1, 'maxLength': 255}}

# Seconds for which a zone where a build failed is avoided, if there are
# others.
PATIENCE = 600


def check(metadata: dict) -> list[str]:
    """Check the compute zones of a profile.

    :param metadata: of an availability zone profile, any JSON value.
    :returns: the zones that it lists, empty if it has no list.
    :raises flavors.Invalid: naming the key.
    """
    if not isinstance(metadata, dict) or KEY not in metadata:
        return []
    if COMPUTE_ZONE in metadata:
        raise flavors.Invalid(
            f'{KEY} and {COMPUTE_ZONE} are not for the same availability '
            f'zone profile: take one of them out')
    try:
        jsonschema.validate(metadata[KEY], _SCHEMA)
    except jsonschema.ValidationError as e:
        raise flavors.Invalid(f'{KEY}: {e.message}', str(e)) from None
    return metadata[KEY]


def choose(zones: abc.Sequence[str], members: abc.Iterable[typing.Any],
           failed: abc.Container[str] = (),
           drained: abc.Container[str] = ()) -> str:
    """Choose the zone for one more member.

    It is the zone with the fewest healthy members. Zones whose members are
    all unwell come after the others, because the zone may be lost; zones
    where a build failed lately come last, except for zones that an
    operator drains, which come after them.

    :param zones: at least one.
    :param members: the others of the cluster, with zone, state and health.
    :param failed: zones where a build failed lately.
    :param drained: zones that an operator drains.
    """
    well = dict.fromkeys(zones, 0)
    unwell = dict.fromkeys(zones, 0)
    for member in members:
        if member.zone in well:
            is_unwell = (member.state == 'FAILED' or
                         member.health in ('DEAD', 'SUSPECT'))
            (unwell if is_unwell else well)[member.zone] += 1
    return min(zones, key=lambda zone: (
        zone in drained, zone in failed,
        bool(unwell[zone] and not well[zone]), well[zone]))


class Failures:
    """The zones where builds of this process failed lately."""

    def __init__(self, clock: abc.Callable[[], float] = time.monotonic
                 ) -> None:
        self._clock = clock
        self._at: dict[str, float] = {}

    def note(self, zone: str) -> None:
        """Take note that a build failed in a zone."""
        is_news = zone not in self.get()
        self._at[zone] = self._clock()
        if is_news:
            LOG.warning(
                'Compute zone %s: an amphora could not be built there. For '
                '%d s members of clusters are built in the other zones of '
                'their availability zone.', zone, PATIENCE)

    def forget(self, zone: str) -> None:
        """Take note that a build went well in a zone."""
        self._at.pop(zone, None)

    def get(self) -> set[str]:
        """Return the zones to avoid for now."""
        now = self._clock()
        return {zone for zone, at in dict(self._at).items()
                if now - at < PATIENCE}


FAILURES = Failures()
