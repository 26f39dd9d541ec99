# SPDX-License-Identifier: Apache-2.0

"""What the next amphorae of load balancers need, from Octavia's tables.

The number of statements is the same for one load balancer and for all.
"""

import collections

import sqlalchemy as sa

from octavia_hmsync import compat

_VIP = compat.VIP
_MORE_VIP = compat.ADDITIONAL_VIP
_GROUP = compat.VIP_SECURITY_GROUP
_LISTENER = compat.LISTENER
_SNI = compat.SNI
_POOL = compat.POOL
_MEMBER = compat.MEMBER

PORT = 'port'
VIP_SUBNET = 'vip_subnet'
MEMBER_SUBNET = 'member_subnet'
MORE_SUBNET = 'more_subnet'
SECURITY_GROUP = 'security_group'
QOS_POLICY = 'qos_policy'
SECRET = 'secret'
AUTHORITY = 'authority'
ADDRESS = 'address'
VNIC_TYPE = 'vnic_type'
PROTOCOL = 'protocol'

# Where each kind is: the column of the load balancer, the kinds with their
# columns, and the table or join.
_SOURCES = (
    (_VIP.c.load_balancer_id,
     ((PORT, _VIP.c.port_id), (VIP_SUBNET, _VIP.c.subnet_id),
      (QOS_POLICY, _VIP.c.qos_policy_id), (ADDRESS, _VIP.c.ip_address),
      (VNIC_TYPE, _VIP.c.vnic_type)), _VIP),
    (_MORE_VIP.c.load_balancer_id,
     ((PORT, _MORE_VIP.c.port_id), (MORE_SUBNET, _MORE_VIP.c.subnet_id),
      (ADDRESS, _MORE_VIP.c.ip_address)),
     _MORE_VIP),
    (_GROUP.c.load_balancer_id, ((SECURITY_GROUP, _GROUP.c.sg_id),), _GROUP),
    (_POOL.c.load_balancer_id, ((MEMBER_SUBNET, _MEMBER.c.subnet_id),),
     _POOL.join(_MEMBER, _MEMBER.c.pool_id == _POOL.c.id)),
    (_POOL.c.load_balancer_id,
     ((SECRET, _POOL.c.tls_certificate_id),
      (AUTHORITY, _POOL.c.ca_tls_certificate_id),
      (AUTHORITY, _POOL.c.crl_container_id)), _POOL),
    (_LISTENER.c.load_balancer_id,
     ((PROTOCOL, _LISTENER.c.protocol),
      (SECRET, _LISTENER.c.tls_certificate_id),
      (AUTHORITY, _LISTENER.c.client_ca_tls_certificate_id),
      (AUTHORITY, _LISTENER.c.client_crl_container_id)), _LISTENER),
    (_LISTENER.c.load_balancer_id, ((SECRET, _SNI.c.tls_container_id),),
     _LISTENER.join(_SNI, _SNI.c.listener_id == _LISTENER.c.id)),
)

# Likewise, for uncommon values.
_UNCOMMON = (
    (_VIP.c.load_balancer_id, VNIC_TYPE, _VIP.c.vnic_type,
     _VIP.c.vnic_type == compat.DIRECT),
    (_LISTENER.c.load_balancer_id, PROTOCOL, _LISTENER.c.protocol,
     _LISTENER.c.protocol.in_(compat.LVS_PROTOCOLS)))


def get_all(engine, first, last):
    """Return {load balancer id: {kind: values}} of a range of ids."""
    found: dict = collections.defaultdict(
        lambda: collections.defaultdict(set))
    with engine.connect() as connection:
        for owner, kinds, table in _SOURCES:
            columns = [column for _kind, column in kinds]
            needs = connection.execute(
                sa.select(owner, *columns).select_from(table).distinct()
                .where(owner.between(first, last),
                       sa.or_(*(column.is_not(None)
                                for column in columns))))
            for load_balancer_id, *values in needs:
                for (kind, _column), value in zip(kinds, values,
                                                  strict=True):
                    if value:
                        found[load_balancer_id][kind].add(value)
    return found


def get_uncommon(engine):
    """Return uncommon needs, which exclude some modes.

    Few load balancers have them, and only their rows are read.

    :returns: as get_all(), with VNIC_TYPE of ports on a network card, and
              PROTOCOL of listeners that LVS serves.
    """
    found: dict = collections.defaultdict(
        lambda: collections.defaultdict(set))
    with engine.connect() as connection:
        for owner, kind, column, condition in _UNCOMMON:
            for load_balancer_id, value in connection.execute(
                    sa.select(owner, column).where(condition).distinct()):
                found[load_balancer_id][kind].add(value)
    return found
