# SPDX-License-Identifier: Apache-2.0

"""What the checks of "image check" know; they ask nobody themselves."""

import dataclasses

from octavia_hmsync.image import load_balancer as lb
from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image import target as image_target


@dataclasses.dataclass(frozen=True)
class Hidden:
    """In place of what a policy does not let the user of Octavia read.

    :param reason: in words, with what to do.
    """

    reason: str


@dataclasses.dataclass(frozen=True)
class Needs:
    """What the next amphora of a load balancer needs, but for its image.

    :param port_ids: those of its VIPs, in Neutron.
    :param vip_subnet_id: where it gets an address beside the VIP's.
    :param member_subnet_ids: where it gets an address for its members.
    :param more_subnet_ids: those of more VIPs.
    :param security_group_ids: those that its owner gave to the VIP.
    :param qos_policy_id: that of its VIP; None without one.
    :param secrets: the references to certificates that it is to serve with.
    :param authorities: those to certificates of authorities, and to lists of
                        what they have revoked.
    :param addresses: those of its VIPs.
    :param is_direct: whether its VIP is on a network card (SR-IOV).
    :param protocols: those of its listeners.
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
        """Those where it gets an address of its own."""
        return self.member_subnet_ids | (
            {self.vip_subnet_id} if self.vip_subnet_id else frozenset())

    @property
    def subnet_ids(self) -> frozenset[str]:
        """All that Octavia looks up."""
        return self.plugged_subnet_ids | self.more_subnet_ids


@dataclasses.dataclass(frozen=True)
class Build:
    """How the instance of the next amphora is asked for.

    As its flavor and its availability zone say, else octavia.conf.

    :param flavor_id: of Nova; empty where none is named, None where the
                      flavor of Octavia cannot be read.
    :param zone: of Nova; None for any.
    :param volume_zone: of Cinder; None for any.
    :param boot_networks: ids of the networks to boot on, those of the
                          management of amphorae.
    :param problem: why its availability zone cannot be read; None if it can.
    """

    flavor_id: str | None = ''
    zone: str | None = None
    volume_zone: str | None = None
    boot_networks: tuple[str, ...] = ()
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class Subnet:
    """A subnet in Neutron.

    :param network_id: the network that it is of.
    :param project_id: whose it is.
    :param version: 4 or 6.
    :param is_full: whether no address of its pools is free; None where it
                    cannot be told.
    """

    network_id: str
    project_id: str | None = None
    version: int = 4
    is_full: bool | None = False


@dataclasses.dataclass(frozen=True)
class Net:
    """A network in Neutron.

    :param subnet_ids: its subnets.
    :param is_up: its admin_state_up.
    :param is_secure: its port_security_enabled.
    :param project_id: whose it is.
    """

    subnet_ids: tuple[str, ...] = ()
    is_up: bool = True
    is_secure: bool = True
    project_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Network:
    """What of all that there is in Neutron; any may be Hidden.

    :param ports: the addresses of the ports of VIPs, by id.
    :param subnets: Subnet by id, those of the boot networks as well.
    :param networks: Net by id: boot networks, and those of the subnets.
    :param choices: how many networks Nova has to choose from where no boot
                    network is named; None where it was not asked for.
    :param security_group_ids: the security groups.
    :param boot_groups: how many security groups of Octavia's project have a
                        name, by name.
    :param vip_groups: names of the security groups that Octavia made for
                       VIPs; None where Neutron has no security groups.
    :param qos_policy_ids: the QoS policies; None where Neutron has none.
    :param ports_left: how many ports Octavia's own project may still have;
                       None where it may have any number, or it is not known.
    :param full: Hidden where it is not known which subnets are full.
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
    """A server group of Nova: its policy, and how many instances it has."""

    policy: str
    members: int = 0


@dataclasses.dataclass(frozen=True)
class Compute:
    """What of all that there is in Nova; any may be Hidden.

    :param groups: ServerGroup by id.
    :param hosts: how many hosts are up and enabled, by zone.
    :param zones: whether a zone is available, by its name.
    :param left: how many instances, cores and MB of RAM the project of
                 Octavia may still have; None for any number.
    :param limits: how many members a server group may have ('members'), how
                   many files an instance gets ('files'), and how many bytes
                   one has ('bytes'); None for any number.
    :param flavors: ComputeFlavor by id, of those that are there.
    :param has_key: whether the keypair is there; None where none is needed.
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
    """What of all that there is in Cinder; any may be Hidden.

    :param types: names and ids of volume types.
    :param zones: whether a zone is available, by its name.
    :param left: how many volumes and GB the project of Octavia may still
                 have, by the name of the quota; None for any number.
    :param largest: how many GB one volume may have; None for any number.
    """

    types: frozenset[str] | Hidden = frozenset()
    zones: dict[str, bool] | Hidden = dataclasses.field(default_factory=dict)
    left: dict[str, int | None] | Hidden = dataclasses.field(
        default_factory=dict)
    largest: int | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """What octavia.conf has that matters here.

    :param boots_from_volume: whether the next amphora does.
    :param has_cinder: whether that volume is Cinder's.
    :param volume_size: how many GB it has.
    :param volume_type: name or id of its type; None for Cinder's default.
    :param is_apart: whether the instances of a pair must be on different
                     hosts, whatever comes.
    :param has_nova: whether the instances are Nova's.
    :param parallel: how many load balancers may have a replacement at once.
    :param key_name: the keypair of instances; None without one.
    :param boot_groups: names or ids of the security groups of instances.
    :param file_size: how many bytes the largest file has that an instance
                      gets; None where it cannot be read.
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

    :param reason: in the words of the certificate manager.
    :param whose: CLOUD where the manager gives no proper answer, OPERATOR
                  where it cannot be used.
    """

    reason: str
    whose: finding.Whose = finding.Whose.TENANT


@dataclasses.dataclass(frozen=True)
class Facts:
    """All that is known of one load balancer.

    :param load_balancer: LoadBalancer.
    :param needs: Needs.
    :param build: Build.
    :param target: Target; None where the image service gave no answer.
    :param image: ImageNeeds of the target; None where they are not known.
    :param network: Network; None where Neutron gave no answer.
    :param settings: Settings.
    :param compute: Compute; None where Nova gave no answer, or is not asked.
    :param volumes: Volumes; None where Cinder gave no answer, or is not
                    asked.
    :param secret_faults: SecretFault by reference, of secrets that cannot be
                          fetched; None where they were not asked for.
    """

    load_balancer: lb.LoadBalancer
    needs: Needs = Needs()
    build: Build = Build()
    target: image_target.Target | None = None
    image: image_target.ImageNeeds | None = None
    network: Network | None = None
    settings: Settings = Settings()
    compute: Compute | None = None
    volumes: Volumes | None = None
    secret_faults: dict[str, SecretFault] | None = None


def find_unknown(part: Network | Compute | Volumes | None, row: str,
                 *names: str) -> finding.Finding | None:
    """Return the Finding where a part of the cloud is not known, else None.

    :param part: Network, Compute or Volumes; None without an answer.
    :param row: the name of the check which tells that there was none.
    :param names: attributes of it that have to be known.
    """
    if part is None:
        return finding.not_checked(
            f'Nobody can tell while "{row}" is a failure.')
    for name in names:
        value = getattr(part, name)
        if isinstance(value, Hidden):
            return finding.not_checked(value.reason)
    return None
