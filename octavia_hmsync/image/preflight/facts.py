# SPDX-License-Identifier: Apache-2.0

"""The data that the checks of "image check" use; they ask no service."""

from collections.abc import Mapping
import dataclasses

from octavia_hmsync.cli import finding
from octavia_hmsync.image import outdated
from octavia_hmsync.image import target as image_target


@dataclasses.dataclass(frozen=True)
class Hidden:
    """Stands for what a policy hides from the user of Octavia."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Needs:
    """What the next amphora of a load balancer needs, except for its image.

    :param port_ids: the Neutron ports of its VIPs.
    :param vip_subnet_id: subnet for its address beside the VIP.
    :param member_subnet_ids: subnets for its addresses towards members.
    :param more_subnet_ids: subnets of additional VIPs.
    :param security_group_ids: security groups that its owner gave to the VIP.
    :param authorities: references to certificates of authorities, and to
                        their revocation lists.
    :param is_direct: whether its VIP is on a network card (SR-IOV).
    """

    port_ids: frozenset[str] = frozenset()
    vip_subnet_id: str | None = None
    member_subnet_ids: frozenset[str] = frozenset()
    more_subnet_ids: frozenset[str] = frozenset()
    security_group_ids: frozenset[str] = frozenset()
    qos_policy_id: str | None = None
    secrets: frozenset[str] = frozenset()
    authorities: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    is_direct: bool = False
    protocols: frozenset[str] = frozenset()

    @property
    def plugged_subnet_ids(self) -> frozenset[str]:
        """Subnets in which it gets an address of its own."""
        return self.member_subnet_ids | (
            {self.vip_subnet_id} if self.vip_subnet_id else frozenset())

    @property
    def subnet_ids(self) -> frozenset[str]:
        """All subnets that Octavia looks up."""
        return self.plugged_subnet_ids | self.more_subnet_ids


@dataclasses.dataclass(frozen=True)
class Build:
    """The request for the instance of the next amphora.

    From its flavor and its availability zone, otherwise from octavia.conf.

    :param flavor_id: of Nova; empty if none is named, None if Octavia's
                      flavor cannot be read.
    :param boot_networks: ids of the networks to boot on, which are those of
                          the management of amphorae.
    """

    flavor_id: str | None = ''
    zone: str | None = None
    volume_zone: str | None = None
    boot_networks: tuple[str, ...] = ()
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class Subnet:
    """A subnet in Neutron; is_full is None if that is unknown."""

    network_id: str
    project_id: str | None = None
    version: int = 4
    is_full: bool | None = False


@dataclasses.dataclass(frozen=True)
class Net:
    """A network; is_up: admin_state_up, is_secure: port_security_enabled."""

    subnet_ids: tuple[str, ...] = ()
    is_up: bool = True
    is_secure: bool = True
    project_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Network:
    """The needed resources that exist in Neutron; any may be Hidden.

    :param ports: the addresses of the ports of VIPs, by id.
    :param subnets: Subnet by id, including subnets of boot networks.
    :param networks: Net by id: boot networks, and networks of the subnets.
    :param choices: how many networks Nova can choose from if no boot network
                    is named; None if that was not asked for.
    :param boot_groups: {name: how many security groups of Octavia's project
                        have it}.
    :param vip_groups: names of the security groups that Octavia made for
                       VIPs; None if Neutron has no security groups.
    :param qos_policy_ids: the QoS policies; None if Neutron has none.
    :param ports_left: how many more ports Octavia's project may have; None
                       for any number, or if unknown.
    :param full: Hidden if it is unknown which subnets are full.
    """

    ports: dict[str, frozenset[str]] | Hidden = dataclasses.field(
        default_factory=dict)
    subnets: dict[str, Subnet] | Hidden = dataclasses.field(
        default_factory=dict)
    networks: dict[str, Net] | Hidden = dataclasses.field(
        default_factory=dict)
    choices: int | Hidden | None = None
    security_group_ids: frozenset[str] | Hidden = frozenset()
    boot_groups: dict[str, int] | Hidden = dataclasses.field(
        default_factory=dict)
    vip_groups: frozenset[str] | Hidden | None = None
    qos_policy_ids: frozenset[str] | Hidden | None = None
    ports_left: int | Hidden | None = None
    full: Hidden | None = None


@dataclasses.dataclass(frozen=True)
class ComputeFlavor:
    """A flavor of Nova: cores, MB of RAM, GB of disk."""

    cores: int
    ram: int
    disk: int = 0


@dataclasses.dataclass(frozen=True)
class ServerGroup:
    """A server group of Nova: its policy and number of instances."""

    policy: str
    members: int = 0


@dataclasses.dataclass(frozen=True)
class Compute:
    """The needed resources that exist in Nova; any may be Hidden.

    :param hosts: how many hosts are up and enabled, by zone.
    :param zones: {name of a zone: whether it is available}.
    :param left: how many more instances, cores and MB of RAM the project of
                 Octavia may have; None for any number.
    :param limits: how many members a server group may have ('members'), how
                   many files an instance gets ('files'), and how many bytes
                   a file has ('bytes'); None for any number.
    :param has_key: whether the keypair exists; None if none is needed.
    """

    groups: dict[str, ServerGroup] | Hidden = dataclasses.field(
        default_factory=dict)
    hosts: dict[str, int] | Hidden = dataclasses.field(default_factory=dict)
    zones: dict[str, bool] | Hidden = dataclasses.field(default_factory=dict)
    left: dict[str, int | None] | Hidden = dataclasses.field(
        default_factory=dict)
    limits: dict[str, int | None] | Hidden = dataclasses.field(
        default_factory=dict)
    flavors: dict[str, ComputeFlavor] | Hidden = dataclasses.field(
        default_factory=dict)
    has_key: bool | Hidden | None = None


@dataclasses.dataclass(frozen=True)
class Volumes:
    """The needed resources that exist in Cinder; any may be Hidden.

    :param types: names and ids of volume types.
    :param zones: {name of a zone: whether it is available}.
    :param left: how many more volumes and GB the project of Octavia may have,
                 by the name of the quota; None for any number.
    :param largest: how many GB one volume may have; None for any number.
    """

    types: frozenset[str] | Hidden = frozenset()
    zones: dict[str, bool] | Hidden = dataclasses.field(default_factory=dict)
    left: dict[str, int | None] | Hidden = dataclasses.field(
        default_factory=dict)
    largest: int | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """The values of octavia.conf that the checks use.

    :param boots_from_volume: whether the next amphora does.
    :param has_cinder: whether that volume is Cinder's.
    :param volume_size: its size, GB.
    :param volume_type: name or id of its type; None for Cinder's default.
    :param is_apart: whether the instances of a pair must be on different
                     hosts in any case.
    :param boot_groups: names or ids of the security groups of instances.
    :param file_size: bytes of the largest file that an instance gets; None if
                      it cannot be read.
    """

    boots_from_volume: bool = False
    has_cinder: bool = False
    volume_size: int = 0
    volume_type: str | None = None
    is_apart: bool = False
    has_nova: bool = True
    parallel: int = 1
    key_name: str | None = None
    boot_groups: tuple[str, ...] = ()
    file_size: int | None = None


@dataclasses.dataclass(frozen=True)
class SecretFault:
    """Why a secret cannot be fetched.

    :param whose: CLOUD if the manager gives no valid answer, OPERATOR if it
                  cannot be used.
    """

    reason: str
    whose: finding.Whose = finding.Whose.TENANT


@dataclasses.dataclass(frozen=True)
class Facts:
    """All that is known of one load balancer.

    :param target: Target; None if the image service gave no answer.
    :param network: Network; None if Neutron gave no answer.
    :param compute: Compute; None if Nova gave no answer, or is not asked.
    :param volumes: Volumes; None if Cinder gave no answer, or is not asked.
    :param secret_faults: SecretFault by reference, of secrets that cannot be
                          fetched; None if they were not tried.
    :param leaving: how many of its amphorae are on a host that takes no new
                    instances, and so does not count as one for these.
    :param more: how many amphorae are built before an old one is deleted.
    """

    load_balancer: outdated.LoadBalancer
    needs: Needs = Needs()
    build: Build = Build()
    target: image_target.Target | None = None
    image: image_target.ImageNeeds | None = None
    network: Network | None = None
    settings: Settings = Settings()
    compute: Compute | None = None
    volumes: Volumes | None = None
    secret_faults: dict[str, SecretFault] | None = None
    leaving: int = 0
    more: int = 1


def find_unknown(part: Network | Compute | Volumes | None, row: str,
                 *names: str) -> finding.Finding | None:
    """Return the Finding of the check ``row`` if anything is unknown."""
    if part is None:
        return finding.not_checked(
            f'Not known while "{row}" is a failure.')
    for name in names:
        value = getattr(part, name)
        if isinstance(value, Hidden):
            return finding.not_checked(value.reason)
    return None


def check_left(resources: Mapping[str, tuple[list[int], int | None, str]],
               parallel: int, where: str) -> finding.Finding:
    """Whether quotas have room for replacements.

    :param resources: {name: (what each load balancer takes; what is left,
                      None for any number; its name for the operator)}.
    :param where: which quota, and of which service.
    """
    limited = [(sorted(needed, reverse=True), left, title)
               for _name, (needed, left, title) in sorted(resources.items())
               if left is not None]
    for needed, left, title in limited:
        if left < needed[0]:
            return finding.failure(
                f'A replacement takes up to {needed[0]} {title} more while '
                f'it goes on, and the project of Octavia may have {left} '
                f'more: raise its quota {where}.')
    for needed, left, title in limited:
        # The largest ones may run together.
        at_once = needed[:parallel]
        if left < sum(at_once):
            return finding.warning(
                f'{len(at_once)} replacements at once take up to '
                f'{sum(at_once)} {title} more, and the project of Octavia '
                f'may have {left} more: raise its quota {where}, or '
                f'set a smaller rollout_parallel.')
    return finding.success()
