# SPDX-License-Identifier: Apache-2.0

"""Which zone an amphora is in, with regard to health managers.

A zone is an availability zone of Octavia with its own management network: only
there an amphora may reach other health managers than the rest. Two of them
with the same network are one zone, with both names; the name of the Nova zone
counts, too. A network in which health managers have further addresses is the
zone of all amphorae with an address there.
"""

import collections
import ipaddress
import json

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import rows
from octavia_hmsync.sync.rules import zones as zn

_AMPHORA = compat.AMPHORA
_LOAD_BALANCER = compat.LOAD_BALANCER
_ZONE = compat.AVAILABILITY_ZONE
_PROFILE = compat.AVAILABILITY_ZONE_PROFILE


def get_names(engine, zones, amphora_ids=None):
    """Return the names of the zones of amphorae.

    One statement; if any zone has its own management network, one more for
    each 500 amphorae; and one for these if any of the zones is a network.

    :param zones: the zones of the addresses of a list.
    :returns: {amphora id: a frozenset of names}, of amphorae with a zone.
    """
    networks = zn.find_networks(zones)
    found = {}
    with engine.connect() as connection:
        known = _get_zones(connection)
        for ids in ([None] if amphora_ids is None
                    else rows.split(list(amphora_ids))):
            of_these = () if ids is None else (_AMPHORA.c.id.in_(ids),)
            if known:
                found.update(_find(connection, known, *of_these))
            if networks:
                found.update(_find_in(connection, networks, *of_these))
    return found


def get_all_names(engine):
    """Return the names of all zones, a set; see the top of the module."""
    with engine.connect() as connection:
        return set().union(*_get_zones(connection).values())


def _find(connection, zones, *conditions):
    name = _LOAD_BALANCER.c.availability_zone
    return {row.id: zones[row.name] for row in connection.execute(
        sa.select(_AMPHORA.c.id, name.label('name'))
        .join(_LOAD_BALANCER,
              _LOAD_BALANCER.c.id == _AMPHORA.c.load_balancer_id)
        .where(name.in_(sorted(zones)), *conditions))}


def _find_in(connection, networks, *conditions):
    names = {str(n): frozenset({str(n)}) for n in networks}
    found = {}
    for row in connection.execute(
            sa.select(_AMPHORA.c.id, _AMPHORA.c.lb_network_ip)
            .where(_AMPHORA.c.lb_network_ip.is_not(None), *conditions)):
        network = zn.network_of(ipaddress.ip_address(row.lb_network_ip),
                                networks)
        if network:
            found[row.id] = names[network]
    return found


def _get_zones(connection):
    """Return {availability zone with its own network: names of its zone}."""
    names: dict[str, set[str]] = collections.defaultdict(set)
    networks = {}
    for row in connection.execute(
            sa.select(_ZONE.c.name, _PROFILE.c.availability_zone_data)
            .join(_PROFILE,
                  _PROFILE.c.id == _ZONE.c.availability_zone_profile_id)):
        data = _read(row)
        network = data.get('management_network')
        if not network:
            continue
        networks[row.name] = network
        names[network] |= {row.name, data.get('compute_zone') or row.name}
    return {name: frozenset(names[network])
            for name, network in networks.items()}


def _read(row):
    try:
        data = json.loads(row.availability_zone_data)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
