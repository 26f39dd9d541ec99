# SPDX-License-Identifier: Apache-2.0

"""Which amphorae get a new list before the others, and how they fare."""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import hold as hold_repo

_TABLE = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH
_HARM = {role: rank for rank, role in enumerate(compat.ROLES_BY_HARM)}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An amphora that could be admitted.

    :param amphora_id: its id.
    :param load_balancer: whose amphora it is; its own id if it has none.
    :param generation: the newest one that it acknowledged, or None.
    :param addresses: the list that it has, None if that is not known.
    :param harm: what its failover would do, from 0 on.
    :param is_mute: whether it was seen to go on with a list before.
    :param fell_silent: whether it once did while a list was on trial.
    :param key_digest: digest of the key that it got with that list, None if
                       that is not known.
    """

    amphora_id: str
    load_balancer: str
    generation: int | None
    addresses: tuple | None
    harm: int
    is_mute: bool
    fell_silent: bool
    key_digest: str | None = None


@dataclasses.dataclass(frozen=True)
class AdmittedAmphora:
    """An amphora that was admitted to a generation.

    :param amphora_id: its id.
    :param load_balancer: whose amphora it is; its own id if it has none.
    :param is_tried: whether the upload has ended, one way or another.
    :param is_applied: whether its agent acknowledged the list.
    :param applied_at: when.
    :param fell_silent: whether it was seen to be silent since.
    :param has_adopted: whether it was seen to use the list.
    :param adopted_via: at which address, if that is known.
    :param last_update: when Octavia says that it was heard last, or None.
    :param is_held: whether the failover guard wrote that.
    """

    amphora_id: str
    load_balancer: str
    is_tried: bool
    is_applied: bool
    applied_at: datetime.datetime | None
    fell_silent: bool
    has_adopted: bool
    adopted_via: str | None
    last_update: datetime.datetime | None
    is_held: bool


def get_candidates(engine, number, good=None):
    """Return the amphorae that are behind a generation and not admitted.

    Of those that Octavia takes for healthy, and of those that got one before
    it which nobody found good.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    :param good: the last good one, None if there is none.
    :returns: a list of Candidate.
    """
    with engine.connect() as connection:
        rows = connection.execute(
            sa.select(_TABLE.c.amphora_id, _TABLE.c.controller_ip_port_list,
                      _TABLE.c.generation, _TABLE.c.result,
                      _TABLE.c.not_adopted_at, _TABLE.c.fell_silent_at,
                      _TABLE.c.key_digest,
                      _OCTAVIA.c.role, _OCTAVIA.c.load_balancer_id)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .join(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
            .where(amphora_repo.that_get_lists(), amphora_repo.behind(number),
                   # Of members of clusters that is so all their life.
                   sa.or_(_HEALTH.c.busy.is_(sa.false()),
                          _OCTAVIA.c.role == compat.ROLE_IN_CLUSTER),
                   # Others may be silent for reasons of their own.
                   sa.or_(sa.and_(_OCTAVIA.c.status ==
                                  compat.AMPHORA_ALLOCATED,
                                  _TABLE.c.held_since.is_(None)),
                          _TABLE.c.generation > (good or 0)),
                   sa.func.coalesce(_TABLE.c.admitted_generation, 0) !=
                   number)).all()
    return [Candidate(
        row.amphora_id, row.load_balancer_id or row.amphora_id,
        row.generation, addr.split_list(row.controller_ip_port_list)
        if row.result == upload_result.APPLIED else None,
        _HARM.get(row.role, len(_HARM)), row.not_adopted_at is not None,
        row.fell_silent_at is not None, row.key_digest) for row in rows]


@api.retry
def admit(engine, number, amphora_ids):
    """Let amphorae have a generation that is on trial.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    :param amphora_ids: their ids.
    """
    with engine.begin() as connection:
        connection.execute(
            sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(amphora_ids))
            .values(admitted_generation=number, next_attempt_at=None))


def get_admitted(engine, number):
    """Return the amphorae that were admitted to a generation.

    Not one that is about to be replaced: its silence says nothing.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    :returns: a list of AdmittedAmphora.
    """
    with engine.connect() as connection:
        rows = connection.execute(
            sa.select(_TABLE.c.amphora_id, _TABLE.c.generation,
                      _TABLE.c.attempted_generation, _TABLE.c.applied_at,
                      _TABLE.c.held_at, _TABLE.c.fell_silent_at,
                      _TABLE.c.adopted_at, _TABLE.c.adopted_via,
                      _OCTAVIA.c.load_balancer_id, _HEALTH.c.last_update)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
            .where(_TABLE.c.admitted_generation == number,
                   amphora_repo.that_get_lists())).all()
    return [AdmittedAmphora(
        row.amphora_id, row.load_balancer_id or row.amphora_id,
        # One that had this very list was not uploaded to.
        is_tried=number in (row.attempted_generation, row.generation),
        is_applied=row.generation == number, applied_at=row.applied_at,
        fell_silent=_is_since(row.fell_silent_at, row.applied_at),
        has_adopted=row.adopted_at is not None, adopted_via=row.adopted_via,
        last_update=row.last_update,
        is_held=hold_repo.is_last_update_ours(row)) for row in rows]


def _is_since(when, then):
    return when is not None and then is not None and when >= then


@api.retry
def note_silence(engine, number, amphora_ids):
    """Record that amphorae fell silent while a list was on trial with them.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    :param amphora_ids: their ids.
    """
    with engine.begin() as connection:
        connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.amphora_id.in_(amphora_ids),
                   _TABLE.c.generation == number)
            .values(fell_silent_at=types.utcnow()))
