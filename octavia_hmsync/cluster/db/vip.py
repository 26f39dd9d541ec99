# SPDX-License-Identifier: Apache-2.0

"""The addresses of a cluster, from Octavia's rows."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync import compat

_VIP = compat.VIP
_MORE_VIP = compat.ADDITIONAL_VIP


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Where clients find a load balancer.

    :param port_id: the port of the VIP, which has all addresses.
    :param vnic_type: of the ports of amphorae there, None if not known.
    :param subnets: {address: id of its subnet}, the VIP first.
    :param is_owned: whether Octavia has made the port.
    """

    load_balancer_id: str
    network_id: str | None
    port_id: str | None
    vnic_type: str | None
    subnets: dict[str, str | None]
    is_owned: bool = True


def get(engine, load_balancer_id):
    """Return the Addresses of a load balancer, or None if it has none."""
    with engine.connect() as connection:
        vip = connection.execute(
            sa.select(*_VIP.c)
            .where(_VIP.c.load_balancer_id == load_balancer_id)).first()
        if vip is None or not vip.ip_address:
            return None
        more = connection.execute(
            sa.select(_MORE_VIP.c.ip_address, _MORE_VIP.c.subnet_id)
            .where(_MORE_VIP.c.load_balancer_id == load_balancer_id)
            .order_by(_MORE_VIP.c.ip_address)).all()
    return Addresses(
        load_balancer_id, vip.network_id, vip.port_id, vip.vnic_type,
        {vip.ip_address: vip.subnet_id,
         **{row.ip_address: row.subnet_id for row in more}},
        bool(vip.octavia_owned))
