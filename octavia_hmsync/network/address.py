# SPDX-License-Identifier: Apache-2.0

"""The address driver that takes the address of the node's port.

It does not ask Neutron, because Neutron may be down, which must not stop a
health manager that amphorae reach. "network port plug" and the housekeepers
keep the properties of the port in the database, which the keepalive needs
anyway.
"""

import functools

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import link

_PLUG = 'run "octavia-hmsync network port plug" on this node'


class NeutronPortDriver:
    """The address that ``[hmsync] address_interface`` shares with its port."""

    def __init__(self, conf):
        self._conf = conf

    @functools.cached_property
    def _engine(self):
        return api.create_engine(self._conf, connections=1)

    def get(self):
        """Return the address of the node's port.

        Neutron drops traffic of an interface with another MAC or IP address
        than its port.

        :raises InvalidAddress: if there is no such port, the interface is not
                                plugged for it, or no listener is bound there.
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
