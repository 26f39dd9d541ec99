#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What the checks of "image check" know; they ask nobody themselves."""

import dataclasses

from octavia_hmsync.image import load_balancer as lb
from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image import target as image_target


@dataclasses.dataclass(frozen=True)
class Needs:
    """What the next amphora of a load balancer needs, but for its image.

    :param port_ids: those of its VIPs, in Neutron.
    :param subnet_ids: those of its VIPs and its members.
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
    subnet_ids: frozenset[str] = frozenset()
    security_group_ids: frozenset[str] = frozenset()
    qos_policy_id: str | None = None
    secrets: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    is_direct: bool = False
    protocols: frozenset[str] = frozenset()
    authorities: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Network:
    """What of all that there is in Neutron.

    :param port_ids: the ports.
    :param network_of_subnet: the subnets, with their networks.
    :param security_group_ids: the security groups.
    :param qos_policy_ids: the QoS policies; None where Neutron has none.
    :param ports_left: how many ports Octavia's own project may still have;
                       None where it may have any number, or nobody can tell.
    """

    port_ids: frozenset[str] = frozenset()
    network_of_subnet: dict[str, str] = dataclasses.field(
        default_factory=dict)
    security_group_ids: frozenset[str] = frozenset()
    qos_policy_ids: frozenset[str] | None = None
    ports_left: int | None = None


@dataclasses.dataclass(frozen=True)
class Compute:
    """What of all that there is in Nova.

    :param policies: the policies of server groups, by id.
    :param hosts: how many hosts are up and enabled, by zone; None where
                  nobody may tell.
    :param left: how many instances, cores and MB of RAM the project of
                 Octavia may still have; None for any number.
    :param flavor: cores and MB of RAM of an instance; None where nobody can
                   tell, or it is not there.
    """

    policies: dict[str, str] = dataclasses.field(default_factory=dict)
    hosts: dict[str, int] | None = None
    left: dict[str, int | None] = dataclasses.field(default_factory=dict)
    flavor: dict[str, int] | None = None

    def count_hosts(self, zone: str | None) -> int | None:
        """Return how many hosts there are, None where nobody may tell.

        :param zone: in this zone; None in all of them.
        """
        if self.hosts is None:
            return None
        return (sum(self.hosts.values()) if zone is None
                else self.hosts.get(zone, 0))


@dataclasses.dataclass(frozen=True)
class Settings:
    """What octavia.conf has that matters here.

    :param boots_from_volume: whether the next amphora does.
    :param is_apart: whether the instances of a pair must be on different
                     hosts, whatever comes.
    :param boot_networks: on how many networks an amphora boots.
    :param has_nova: whether the instances are Nova's.
    :param zone: the zone of Nova for load balancers without one.
    :param compute_flavor: the id of the flavor of instances, or None.
    :param parallel: how many load balancers may have a replacement at once.
    """

    boots_from_volume: bool = False
    is_apart: bool = False
    boot_networks: int = 1
    has_nova: bool = True
    zone: str | None = None
    compute_flavor: str | None = None
    parallel: int = 1


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
    :param target: Target; None where the image service gave no answer.
    :param network: Network; None where Neutron gave no answer.
    :param settings: Settings.
    :param compute: Compute; None where Nova gave no answer, or is not asked.
    :param secret_faults: SecretFault by reference, of secrets that cannot be
                          fetched; None where they were not asked for.
    """

    load_balancer: lb.LoadBalancer
    needs: Needs = Needs()
    target: image_target.Target | None = None
    network: Network | None = None
    settings: Settings = Settings()
    compute: Compute | None = None
    secret_faults: dict[str, SecretFault] | None = None
