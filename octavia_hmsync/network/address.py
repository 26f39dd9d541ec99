# SPDX-License-Identifier: Apache-2.0

"""The address driver that takes the address of the node's port.

Neutron is not asked: it may be down, and a health manager that amphorae reach
must not go for that. What a port is like is remembered in the database, where
"network port plug" and the housekeepers keep it true, and the keepalive needs
the database anyway.
"""

import functools

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import link

_PLUG = 'run "octavia-hmsync network port plug" on this node'


class NeutronPortDriver:
    """The address of ``[hmsync] address_interface`` that its port has."""

    def __init__(self, conf):
        self._conf = conf

    @functools.cached_property
    def _engine(self):
        return api.create_engine(self._conf, connections=1)

    def get(self):
        """Return the address of the node's port.

        :raises InvalidAddress: if there is no such port, or the interface is
                                not plugged for it, or nobody listens there.
                                Neutron lets nothing through to an interface
                                with another MAC or IP address.
        """
        name = self._conf.hmsync.address_interface
        found = link.get(name)
        if found is None:
            raise exceptions.InvalidAddress(
                f'there is no network interface {name} here: {_PLUG}.')
        port = port_repo.get(self._engine, self._conf.host)
        if port is None:
            raise exceptions.InvalidAddress(
                f'{self._conf.host} has no port in the management network: '
                f'{_PLUG}.')
        mac, addresses = found
        for address in addresses:
            if address in port.ip_addresses and mac == port.mac:
                return addr.check_heard(
                    address, self._conf.health_manager.bind_ip)
        raise exceptions.InvalidAddress(
            f'the network interface {name} has {mac} and '
            f'{", ".join(addresses) or "no address"}, and its port '
            f'{port.port_id} has {port.mac} and '
            f'{", ".join(port.ip_addresses)}: {_PLUG}.')
