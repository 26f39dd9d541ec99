# SPDX-License-Identifier: Apache-2.0

"""Octavia's load balancers with the facts for image upgrades.

The number of statements is the same for one load balancer and for all.
"""

import dataclasses
import typing

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import rows

_LB = compat.LOAD_BALANCER
_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH
_FLAVOR = compat.FLAVOR
_PROFILE = compat.FLAVOR_PROFILE
_ZONE = compat.AVAILABILITY_ZONE
_ZONE_PROFILE = compat.AVAILABILITY_ZONE_PROFILE

# None is the provider of load balancers from before there were others.
PROVIDERS = (None, *compat.AMPHORA_PROVIDERS, compat.CLUSTER_PROVIDER)

# Only these: with thousands of rows the driver's time depends on columns.
_AMPHORA_COLUMNS = (_AMPHORA.c.id, _AMPHORA.c.load_balancer_id,
                    _AMPHORA.c.status, _AMPHORA.c.role, _AMPHORA.c.image_id,
                    _AMPHORA.c.lb_network_ip)
# What other causes than the image of a replacement depend on.
_PLACE_COLUMNS = (_AMPHORA.c.compute_id, _AMPHORA.c.cached_zone,
                  _AMPHORA.c.compute_flavor, _AMPHORA.c.cert_expiration,
                  _AMPHORA.c.created_at)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A filter for load balancers; None matches any.

    :param flavor_ids: with one of these flavors; None among them matches load
                       balancers without a flavor.
    :param providers: of one of these providers; None likewise.
    """

    load_balancer_id: str | None = None
    project_id: str | None = None
    topology: str | None = None
    availability_zone: str | None = None
    flavor_ids: typing.Collection[str | None] | None = None
    providers: typing.Collection[str | None] | None = None

    def get_conditions(self):
        """Return the conditions for a load balancer."""
        conditions: list[sa.ColumnElement[bool]] = [
            _LB.c.provisioning_status.not_in(compat.DELETED_STATUSES)]
        conditions += [
            column == value for column, value in (
                (_LB.c.id, self.load_balancer_id),
                (_LB.c.project_id, self.project_id),
                (_LB.c.topology, self.topology),
                (_LB.c.availability_zone, self.availability_zone))
            if value is not None]
        conditions += [
            _is_in(column, values) for column, values in (
                (_LB.c.flavor_id, self.flavor_ids),
                (_LB.c.provider, self.providers)) if values is not None]
        return conditions


def _is_in(column, values):
    named = column.in_([value for value in values if value is not None])
    return sa.or_(named, column.is_(None)) if None in values else named


def get_flavors(engine):
    """Return rows of all flavors, with their provider_name and flavor_data.

    The latter is JSON.
    """
    return rows.read(
        engine, sa.select(_FLAVOR.c.id, _FLAVOR.c.name, _FLAVOR.c.enabled,
                          _PROFILE.c.provider_name, _PROFILE.c.flavor_data)
        .join(_PROFILE, _PROFILE.c.id == _FLAVOR.c.flavor_profile_id))


def get_zones(engine):
    """Return name and availability_zone_data, JSON, of all zones."""
    return rows.read(
        engine, sa.select(_ZONE.c.name, _ZONE_PROFILE.c.availability_zone_data)
        .join(_ZONE_PROFILE,
              _ZONE_PROFILE.c.id == _ZONE.c.availability_zone_profile_id))


def get_page(engine, wanted, after=None, limit=None, with_places=False):
    """Return load balancers by id, and their amphorae.

    :param with_places: whether amphorae have compute_id, cached_zone,
                        compute_flavor, cert_expiration and created_at, too.
    :returns: (rows of load balancers, in order; rows of their amphorae that
              are not deleted, with busy, by load balancer and id).
    """
    conditions = wanted.get_conditions()
    if after is not None:
        conditions.append(_LB.c.id > after)
    with engine.connect() as connection:
        load_balancers = connection.execute(
            sa.select(*_LB.c).where(*conditions).order_by(_LB.c.id)
            .limit(limit)).all()
        if not load_balancers:
            return [], []
        # A range, because a page may have any number of load balancers.
        conditions.append(_LB.c.id.between(load_balancers[0].id,
                                           load_balancers[-1].id))
        amphorae = connection.execute(
            sa.select(*_AMPHORA_COLUMNS,
                      *(_PLACE_COLUMNS if with_places else ()),
                      _HEALTH.c.busy)
            .join(_LB, _LB.c.id == _AMPHORA.c.load_balancer_id)
            .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _AMPHORA.c.id)
            .where(_AMPHORA.c.status.not_in(compat.DELETED_STATUSES),
                   *conditions)
            .order_by(_AMPHORA.c.load_balancer_id, _AMPHORA.c.id)).all()
    return load_balancers, amphorae


def get_tagged(engine, tag):
    """Return the ids of load balancers that their owners gave a tag."""
    return {row.resource_id for row in rows.read(
        engine, sa.select(compat.TAG.c.resource_id)
        .where(compat.TAG.c.tag == tag))}


def exists(engine, load_balancer_id):
    """Tell whether Octavia knows a load balancer, deleted or not."""
    return rows.read_one(engine, sa.select(_LB.c.id).where(
        _LB.c.id == load_balancer_id)) is not None
