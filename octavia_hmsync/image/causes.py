# SPDX-License-Identifier: Apache-2.0

"""Why amphorae are replaced, and which ones are: pure rules.

A replacement does not care why. All that differs is which amphorae are
selected, and that a new amphora which is selected again is not taken: it would
be no better than the old one.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import datetime
import enum
import json

from octavia_hmsync import compat
from octavia_hmsync import compute
from octavia_hmsync.image import outdated


class Kind(enum.StrEnum):
    """What amphorae leave."""

    IMAGE = 'IMAGE'
    """An image that is not the newest one of their tag."""

    HOST = 'HOST'
    """A compute host."""

    ZONE = 'ZONE'
    """An availability zone of Nova."""

    FLAVOR = 'FLAVOR'
    """A compute flavor that their flavor of Octavia does not name any more."""

    NETWORK = 'NETWORK'
    """A network in which their instances have a port."""

    TOPOLOGY = 'TOPOLOGY'
    """A role that this topology, the new one, does not have."""

    CERTIFICATE = 'CERTIFICATE'
    """A certificate that ends before a time, in ISO format, UTC."""

    AGE = 'AGE'
    """What they were given when they were built before a time, ISO, UTC."""

    BALANCE = 'BALANCE'
    """A compute zone with too many of their load balancer's amphorae."""


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why amphorae are replaced; value is None for the image."""

    kind: Kind = Kind.IMAGE
    value: str | None = None

    def describe(self) -> str:
        """Return what amphorae leave, in words."""
        return {
            Kind.IMAGE: 'an older image',
            Kind.HOST: f'host {self.value}',
            Kind.ZONE: f'zone {self.value}',
            Kind.FLAVOR: 'another compute flavor than ' + (
                f'that of flavor {self.value}' if self.value else
                '[controller_worker] amp_flavor_id'),
            Kind.NETWORK: f'network {self.value}',
            Kind.TOPOLOGY: f'another topology than {self.value}',
            Kind.CERTIFICATE: f'a certificate that ends before {self.value}',
            Kind.AGE: f'what it was given before {self.value} UTC',
            Kind.BALANCE: 'a compute zone with more amphorae than others',
        }[self.kind]


class Stays(enum.StrEnum):
    """Why a load balancer is not moved out of a compute zone or off a host."""

    NO_HOST = 'NO_HOST'
    """No other host of the zone where Octavia builds takes new instances."""

    ONLY_IN_ZONE = 'ONLY_IN_ZONE'
    """Octavia builds its amphorae there: see its availability zone."""

    ZONE_ENABLED = 'ZONE_ENABLED'
    """Nova chooses the zone, and hosts there take new instances."""


@dataclasses.dataclass(frozen=True)
class Zones:
    """In which compute zones amphorae are built.

    :param profiles: data of the profile by availability zone of Octavia.
    :param default: the zone of all others; None if Nova chooses it.
    :param drained: zones that an operator drains.
    :param enabled: zones with hosts that take new instances, as far as known.
    :param left: by load balancer, the zone that one of several amphorae left.
    """

    profiles: Mapping[str, dict] = dataclasses.field(default_factory=dict)
    default: str | None = None
    drained: Collection[str] = frozenset()
    enabled: Collection[str] = frozenset()
    left: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def get_choices(self, load_balancer: outdated.LoadBalancer) -> list[str]:
        """Return the zones where it may be built; empty if Nova chooses."""
        profile = self.profiles.get(load_balancer.availability_zone or '', {})
        spread = self.get_spread(load_balancer)
        zone = profile.get(compat.COMPUTE_ZONE, self.default)
        # A zone may name a host after a colon.
        return spread or ([zone.partition(':')[0]] if zone else [])

    def get_spread(self, load_balancer: outdated.LoadBalancer) -> list[str]:
        """Return the zones over which the members of a cluster are spread."""
        if not outdated.has_cluster(load_balancer):
            return []
        profile = self.profiles.get(load_balancer.availability_zone or '', {})
        return profile.get(compat.CLUSTER_COMPUTE_ZONES) or []

    def why_stays(self, load_balancer: outdated.LoadBalancer,
                  zone: str) -> Stays | None:
        """Tell why its amphorae cannot leave a zone, None if they can."""
        choices = self.get_choices(load_balancer)
        if not choices:
            return Stays.ZONE_ENABLED if zone in self.enabled else None
        return (None if set(choices) - {zone, *self.drained}
                else Stays.ONLY_IN_ZONE)

    def why_no_host(self, load_balancer: outdated.LoadBalancer
                    ) -> Stays | None:
        """Tell why none can be built; enabled: without the host to leave."""
        choices = self.get_choices(load_balancer)
        return (Stays.NO_HOST if choices and
                not set(choices) & set(self.enabled) else None)

    def find_return(self, load_balancer: outdated.LoadBalancer
                    ) -> str | None:
        """Return the zone to which one of a pair is to go back, or None.

        Only where Nova chooses zones: it does not even out by itself what a
        drain has moved, so the replacement names the zone.
        """
        zone = self.left.get(load_balancer.id)
        there = {amphora.zone
                 for amphora in outdated.get_allocated(load_balancer)}
        is_lacking = len(there) == 1 and there.isdisjoint((zone, None))
        is_pair = compat.AMPHORAE_OF_TOPOLOGY.get(load_balancer.topology) == 2
        return (zone if is_pair and is_lacking and
                zone in set(self.enabled) - set(self.drained) and
                not self.get_choices(load_balancer) else None)

    def find_surplus(self, load_balancer: outdated.LoadBalancer
                     ) -> list[outdated.Amphora]:
        """Return the amphorae of which some have to move for even zones.

        Of a cluster, the fewest members; of a pair, both: the one without the
        VIP is replaced, and then none is left.
        """
        if self.find_return(load_balancer) is not None:
            return outdated.get_allocated(load_balancer)
        there: dict[str, list[outdated.Amphora]] = {
            zone: [] for zone in self.get_spread(load_balancer)
            if zone not in self.drained}
        for amphora in outdated.get_allocated(load_balancer):
            if amphora.zone in there:
                there[amphora.zone].append(amphora)
        counts = {zone: len(found) for zone, found in there.items()}
        surplus = []
        while counts:
            most = max(counts, key=counts.__getitem__)
            least = min(counts, key=counts.__getitem__)
            # With a difference of 1 members would move for ever.
            if counts[most] - counts[least] < 2:
                break
            surplus.append(there[most].pop())
            counts[most] -= 1
            counts[least] += 1
        return surplus


@dataclasses.dataclass(frozen=True)
class Place:
    """A place, as other services know it: instances, Nova's flavor, zones."""

    compute_ids: Collection[str] = frozenset()
    compute_flavor: str | None = None
    zones: Zones = Zones()


def find(cause: Cause, load_balancer: outdated.LoadBalancer,
         image_id: str | None, place: Place) -> list[outdated.Amphora]:
    """Return the amphorae of a load balancer that are to be replaced.

    What is not known of an amphora selects it for nothing.
    """
    if cause.kind is Kind.IMAGE:
        return outdated.get_outdated(load_balancer, image_id)
    if cause.kind is Kind.BALANCE:
        return place.zones.find_surplus(load_balancer)
    if cause.kind is Kind.FLAVOR and load_balancer.flavor_id != cause.value:
        return []
    return [amphora for amphora in outdated.get_allocated(load_balancer)
            if is_selected(cause, amphora, place)]


def is_selected(cause: Cause, amphora: outdated.Amphora,
                place: Place) -> bool:
    """Tell whether it is at the place that amphorae leave; no for IMAGE."""
    match cause.kind:
        case Kind.HOST | Kind.NETWORK:
            return amphora.compute_id in place.compute_ids
        case Kind.ZONE:
            return amphora.zone == cause.value
        case Kind.FLAVOR:
            return (place.compute_flavor is not None and
                    amphora.compute_flavor not in (None,
                                                   place.compute_flavor))
        case Kind.TOPOLOGY:
            return compat.TOPOLOGY_OF_ROLE.get(amphora.role) not in (
                None, cause.value)
        case Kind.CERTIFICATE:
            return _is_before(amphora.certificate_ends_at, cause)
        case Kind.AGE:
            return _is_before(amphora.created_at, cause)
        case _:
            return False


def _is_before(time: datetime.datetime | None, cause: Cause) -> bool:
    return time is not None and time < datetime.datetime.fromisoformat(
        cause.value or '')


def count_new(cause: Cause) -> int:
    """Return how many amphorae are built before an old one goes."""
    return (compat.AMPHORAE_OF_TOPOLOGY[cause.value]
            if cause.kind is Kind.TOPOLOGY and cause.value else 1)


@dataclasses.dataclass(frozen=True)
class Only:
    """A rollout's load balancers, perhaps by their owner's tag; None: any."""

    project_id: str | None = None
    tag: str | None = None
    load_balancer_ids: tuple[str, ...] | None = None

    @classmethod
    def from_text(cls, text: str) -> 'Only':
        """Read what to_text() has written."""
        known = json.loads(text) if text else {}
        ids = known.get('load_balancer_ids')
        return cls(known.get('project_id'), known.get('tag'),
                   None if ids is None else tuple(ids))

    def to_text(self) -> str:
        """Return it as JSON; empty for all load balancers."""
        known = {key: value for key, value in
                 dataclasses.asdict(self).items() if value is not None}
        return json.dumps(known, sort_keys=True) if known else ''

    def holds(self, load_balancer: outdated.LoadBalancer,
              tagged: Collection[str]) -> bool:
        """Tell whether a load balancer is one of them, or has the tag."""
        return (self.project_id in (None, load_balancer.project_id) and
                (self.tag is None or load_balancer.id in tagged) and
                (self.load_balancer_ids is None or
                 load_balancer.id in self.load_balancer_ids))


def why_unknown(hosts: Iterable[compute.Host], name: str) -> str | None:
    """Return that there is no such host, None if there is."""
    if any(host.name == name for host in hosts):
        return None
    return f'There is no compute host {name}: see "octavia-hmsync host list".'


def why_not_drained(hosts: Iterable[compute.Host], name: str) -> str | None:
    """Return why a host cannot be drained now, None if it can."""
    known = {host.name: host for host in hosts}
    problem = why_unknown(known.values(), name)
    if problem:
        return problem
    if known[name].is_enabled:
        return (f'Host {name} takes new instances, so that amphorae would '
                f'come back to it: run "openstack compute service set '
                f'--disable {name} nova-compute", and this again.')
    if not any(host.is_enabled and host.is_up for host in known.values()):
        return (f'No other compute host is up and enabled, so that amphorae '
                f'of host {name} have no place to go to: enable one, or add '
                f'one.')
    return None


def why_zone_not_drained(hosts: Iterable[compute.Host], name: str,
                         build_in: str | None = None,
                         drained: Collection[str] = ()) -> str | None:
    """Return why a compute zone cannot be drained, None if it can.

    :param build_in: where Octavia is to build meanwhile, if that is ordered.
    :param drained: zones that are drained already.
    """
    hosts = list(hosts)
    if not any(host.zone == name for host in hosts):
        return (f'There is no compute zone {name}: see "octavia-hmsync zone '
                f'list".')
    if not any(host.zone != name and host.is_enabled and host.is_up
               for host in hosts):
        return (f'No compute host of another zone is up and enabled, so that '
                f'amphorae of zone {name} have no place to go to: enable '
                f'one, or add one.')
    if build_in is not None and (build_in in (name, *drained) or not any(
            host.zone == build_in and host.is_enabled and host.is_up
            for host in hosts)):
        return (f'Nothing can be built in zone {build_in}, which is drained, '
                f'or has no compute host that is up and enabled: give '
                f'another --build-in, see "octavia-hmsync zone list".')
    return None


def find_without_second(load_balancer: outdated.LoadBalancer, host: str,
                        hosts: dict[str, str]) -> bool:
    """Tell whether one host alone serves it; hosts: {instance id: host}."""
    return all(hosts.get(amphora.compute_id or '') == host
               for amphora in outdated.get_allocated(load_balancer))
