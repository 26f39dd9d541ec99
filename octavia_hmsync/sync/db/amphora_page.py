# SPDX-License-Identifier: Apache-2.0

"""Octavia's amphorae with their rows here, for commands, page by page."""

import dataclasses
import typing

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo

_TABLE = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_LOAD_BALANCER = compat.LOAD_BALANCER


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A filter for amphorae; None matches any.

    :param result: with this result of the last attempt.
    :param address: with a list that has this address.
    :param certificate_ends_within: seconds; it may have ended.
    """

    ids: typing.Collection[str] | None = None
    load_balancer_id: str | None = None
    status: str | None = None
    role: str | None = None
    result: str | None = None
    address: str | None = None
    certificate_ends_within: float | None = None

    def get_conditions(self):
        conditions = [
            column == value for column, value in (
                (_OCTAVIA.c.load_balancer_id, self.load_balancer_id),
                (_OCTAVIA.c.status, self.status),
                (_OCTAVIA.c.role, self.role),
                (_TABLE.c.result, self.result)) if value is not None]
        if self.address is not None:
            between = addr.join_list(('', ''))
            conditions.append(
                (between + _TABLE.c.controller_ip_port_list + between)
                .contains(f'{between}{self.address}{between}',
                          autoescape=True))
        if self.certificate_ends_within is not None:
            conditions.append(_OCTAVIA.c.cert_expiration < types.utcnow_plus(
                self.certificate_ends_within))
        return conditions


def get_page(engine, wanted, after=None, limit=None):
    """Return rows of amphorae with an agent, by id."""
    if wanted.ids is None:
        return _get(engine, wanted.get_conditions(), after, limit)
    found: list[sa.Row] = []
    for part in rows.split(sorted(wanted.ids)):
        left = None if limit is None else limit - len(found)
        found += _get(engine, [_OCTAVIA.c.id.in_(part),
                               *wanted.get_conditions()], after, left)
        if len(found) == limit:
            break
    return found


def _get(engine, conditions, after, limit):
    if after is not None:
        conditions = [*conditions, _OCTAVIA.c.id > after]
    return rows.read(
        engine, sa.select(
            _OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip,
            _OCTAVIA.c.load_balancer_id, _OCTAVIA.c.status, _OCTAVIA.c.role,
            _OCTAVIA.c.cert_expiration,
            _LOAD_BALANCER.c.name.label('load_balancer_name'),
            *[c for c in _TABLE.c if c is not _TABLE.c.amphora_id])
        .select_from(_OCTAVIA)
        .outerjoin(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
        .outerjoin(_LOAD_BALANCER,
                   _LOAD_BALANCER.c.id == _OCTAVIA.c.load_balancer_id)
        .where(amphora_repo.with_agent(), *conditions)
        .order_by(_OCTAVIA.c.id).limit(limit))


def exists(engine, amphora_id):
    """Tell whether Octavia knows an amphora, deleted or not."""
    return rows.read_one(engine, sa.select(_OCTAVIA.c.id).where(
        _OCTAVIA.c.id == amphora_id)) is not None


def find_load_balancers(engine, name):
    """Find ids of existing load balancers; an id before equal names."""
    ids = [row.id for row in rows.read(
        engine, sa.select(_LOAD_BALANCER.c.id)
        .where(sa.or_(_LOAD_BALANCER.c.id == name,
                      _LOAD_BALANCER.c.name == name),
               _LOAD_BALANCER.c.provisioning_status.not_in(
                   compat.DELETED_STATUSES))
        .order_by(_LOAD_BALANCER.c.id))]
    return [name] if name in ids else ids


def get_load_balancer_names(engine, ids):
    """Return {id: name} of load balancers, deleted or not, with a name."""
    return {row.id: row.name for row in rows.read(
        engine, sa.select(_LOAD_BALANCER.c.id, _LOAD_BALANCER.c.name)
        .where(_LOAD_BALANCER.c.id.in_(list(ids)),
               sa.func.coalesce(_LOAD_BALANCER.c.name, '') != ''))}
