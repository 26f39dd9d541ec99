# SPDX-License-Identifier: Apache-2.0

"""Makes the documents for the distributors of a cluster from rows. Pure.

The same rows always make the same documents: any change of a document has a
new version of the cluster, see cluster.db.cluster.
"""

from collections import abc
import itertools
import typing

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import schemas
from octavia_hmsync import exceptions

ALGORITHM = 'HASH'
# The peers port of haproxy in all amphorae, as Octavia configures it.
PEER_PORT = 1025

# Seconds: packets may be late, and so may a document.
_LEAST = 60

# States of members in documents. Distributors are not told of BUILDING
# members and standbys.
_STATES = {member_repo.ACTIVE: doc.ACTIVE,
           member_repo.DRAINING: doc.DRAINING,
           member_repo.FAILED: doc.DEAD}


def make(cluster: cluster_repo.Cluster,
         members: abc.Iterable[member_repo.Member],
         addresses: abc.Iterable[str], vip: vip_repo.VIP,
         pin_timeout: int,
         others: abc.Iterable[vip_repo.VIP] = (),
         own_addresses: abc.Mapping[str, str] | None = None
         ) -> doc.Document:
    """Make the document of a cluster for one of its distributors.

    :param pin_timeout: ``[hmsync_cluster] pin_timeout``, lowered to the idle
                        time-out of the members.
    :param others: its VIPs on all distributors.
    :param own_addresses: {id of an amphora: its own address}, where the
                          distributor asks haproxy whether it hangs.
    :raises InvalidDocument: if no distributor would take it, as when a member
                             carries traffic and has no MAC address.
    """
    if not (vip.port_id and vip.mac and vip.mtu):
        raise exceptions.InvalidDocument(
            f'The cluster {cluster.id} has no port yet on the distributor '
            f'{vip.distributor_name}, so that it cannot be told anything: '
            f'its VIP is added first.')
    addresses, members = list(addresses), list(members)
    own = [address for address in (vip.addresses or '').split(',')
           if address and address not in addresses]
    ports = sorted(member_facts.parse_ports(cluster.ports))
    own_addresses = own_addresses or {}
    peers_ = [{'id': member.amphora_id, 'port': PEER_PORT, 'address': address}
              for member in members if is_told(member) and (
                  address := own_addresses.get(member.amphora_id or ''))]
    probe = {} if not (own and ports) else {'probe': {
        'addresses': own[:schemas.MAX_PROBE_ADDRESSES],
        'ports': ports[:schemas.MAX_PROBE_PORTS],
        **({'peers': peers_} if peers_ else {})}}
    partners = sorted(other.mac for other in others
                      if other.port_id and other.mac and other.id != vip.id)
    return doc.parse({
        **probe, 'version': cluster.version, 'active': vip.active,
        'algorithm': ALGORITHM, 'affinity': cluster.affinity,
        'addresses': addresses,
        'port': {'id': vip.port_id, 'mac': vip.mac, 'mtu': vip.mtu},
        'pin_timeout': choose_pin_timeout(members, pin_timeout),
        'members': _describe(members, cluster.affinity),
        'partners': partners[:schemas.MAX_PARTNERS]})


def choose_pin_timeout(members: abc.Iterable[member_repo.Member],
                       most: int) -> int:
    """Return for how many seconds silent connections are remembered. Pure.

    haproxy closes connections that are silent for longer than listeners
    allow.

    :param most: ``[hmsync_cluster] pin_timeout``.
    """
    return min(most, max((_LEAST, *(
        member.idle_timeout for member in members
        if member.state in (member_repo.ACTIVE, member_repo.DRAINING)))))


def is_told(member: member_repo.Member) -> bool:
    """Tell whether distributors are told of a member at all.

    A member that lost its slot keeps its connections while it drains.
    """
    if member.slot is None:
        return member.state == member_repo.DRAINING and bool(member.mac)
    return member.state in _STATES


def _describe(
        members: abc.Sequence[member_repo.Member], affinity: str
) -> list[dict[str, typing.Any]]:
    # Slots and groups that no other member has.
    spare = itertools.count(schemas.MAX_SLOT, -1)
    described = []
    for member in sorted(filter(is_told, members),
                         key=lambda member: member.id):
        slot, group, state = member.slot, member.peer_group, member.state
        if affinity == doc.SOURCE_IP and peers.find_teachers(members, member):
            # Its clients go to its group, which knows them.
            state = member_repo.DRAINING
        if slot is None:
            slot = group = next(spare)
        described.append({
            # A member without an amphora may still hold its slot.
            'id': member.amphora_id or member.id, 'slot': slot,
            'peer_group': group, 'mac': member.mac,
            'state': _STATES[state]})
    return described
