# SPDX-License-Identifier: Apache-2.0

"""Reads which subnets have no free address."""

import collections
import dataclasses
import ipaddress

from octavia_hmsync.image.preflight import facts

# Ids in one request: a server may take 4 kB for its first line.
_AT_ONCE = 50
# Ports in one answer.
_PAGE = 1000

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclasses.dataclass(frozen=True)
class Pools:
    """A subnet, with Neutron's allocation pools.

    :param ranges: the first and the last address of each pool.
    """

    network_id: str
    project_id: str | None
    version: int
    ranges: tuple[tuple[_Address, _Address], ...]

    @property
    def size(self) -> int:
        """The number of addresses in the pools."""
        return sum(int(last) - int(first) + 1 for first, last in self.ranges)

    def has(self, address: _Address) -> bool:
        """Tell whether an address is in a pool."""
        return any(int(first) <= int(address) <= int(last)
                   for first, last in self.ranges)


class AddressReader:
    """Asks Neutron which subnets have no free address.

    :param asker: asking.Asker of Neutron.
    """

    def __init__(self, asker):
        self._asker = asker

    def find_full(self, pools):
        """Find subnets without a free address in their pools.

        :param pools: Pools by id of each subnet.
        :returns: a set of ids; Hidden if a policy forbids to read it.
        """
        if not pools:
            return set()
        used = self._count_used(frozenset(
            subnet.network_id for subnet in pools.values()))
        if isinstance(used, facts.Hidden):
            return used
        # Used addresses outside of the pools count here, too, as a router's.
        maybe = {subnet_id for subnet_id, subnet in pools.items()
                 if subnet.ranges and used.get(subnet_id, 0) >= subnet.size}
        taken = self._count_taken(maybe, pools)
        return {subnet_id for subnet_id, subnet in pools.items()
                if not subnet.ranges or
                subnet_id in maybe and taken[subnet_id] >= subnet.size}

    def _count_used(self, network_ids):
        """Return how many addresses are used, by subnet."""
        found: dict = {}
        ids = sorted(network_ids)
        for n in range(0, len(ids), _AT_ONCE):
            part = self._asker.find(
                'read how many addresses are free',
                lambda answer: {
                    subnet['subnet_id']: int(subnet['used_ips'])
                    for network in answer['network_ip_availabilities']
                    for subnet in network['subnet_ip_availability']},
                '/network-ip-availabilities',
                network_id=ids[n:n + _AT_ONCE])
            if not part:
                # An extension, whose list is empty for unprivileged users.
                return facts.Hidden(
                    'Neutron does not tell the user of Octavia how many '
                    'addresses of a subnet are free '
                    '(network-ip-availability).')
            found |= part
        return found

    def _count_taken(self, subnet_ids, pools):
        """Count the addresses of pools that ports use, by subnet."""
        taken: dict = collections.Counter()
        ids = sorted(subnet_ids)
        for n in range(0, len(ids), _AT_ONCE):
            marker: dict = {}
            while True:
                ports = self._asker.get(
                    'read which addresses are taken',
                    lambda answer: [(port['id'], [
                        (ip['subnet_id'],
                         ipaddress.ip_address(ip['ip_address']))
                        for ip in port['fixed_ips']])
                        for port in answer['ports']], '/ports',
                    fields=['id', 'fixed_ips'], limit=_PAGE, sort_key='id',
                    sort_dir='asc',
                    fixed_ips=[f'subnet_id={subnet_id}'
                               for subnet_id in ids[n:n + _AT_ONCE]],
                    **marker)
                taken.update(
                    subnet_id for _port_id, ips in ports
                    for subnet_id, address in ips
                    if subnet_id in subnet_ids and
                    pools[subnet_id].has(address))
                if not ports or marker.get('marker') == ports[-1][0]:
                    break
                marker = {'marker': ports[-1][0]}
        return taken
