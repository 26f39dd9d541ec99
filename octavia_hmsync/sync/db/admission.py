# SPDX-License-Identifier: Apache-2.0

"""Which amphorae get a new list before the others, and how they behave."""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
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

    :param load_balancer: id of its load balancer, or its own id without one.
    :param harm: how much its failover would harm, from 0.
    :param is_mute: whether it was seen to keep an old list.
    :param fell_silent: whether it did so before, with a list on trial.
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

    :param is_tried: whether the upload has ended, well or not.
    :param is_applied: whether its agent acknowledged the list.
    :param fell_silent: whether it was seen to be silent since.
    :param last_update: when it was last heard, by Octavia's row, or None.
    :param is_held: whether the failover guard wrote last_update.
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
    """Return Candidates: amphorae without a generation, not yet admitted.

    Octavia takes them for healthy, or they got a list after the last good
    one.

    :param good: number of the last good generation, or None.
    """
    return [Candidate(
        row.amphora_id, row.load_balancer_id or row.amphora_id,
        row.generation, addr.split_list(row.controller_ip_port_list)
        if row.result == upload_result.APPLIED else None,
        _HARM.get(row.role, len(_HARM)), row.not_adopted_at is not None,
        row.fell_silent_at is not None, row.key_digest)
        for row in rows.read(
            engine, sa.select(
                _TABLE.c.amphora_id, _TABLE.c.controller_ip_port_list,
                _TABLE.c.generation, _TABLE.c.result,
                _TABLE.c.not_adopted_at, _TABLE.c.fell_silent_at,
                _TABLE.c.key_digest,
                _OCTAVIA.c.role, _OCTAVIA.c.load_balancer_id)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .join(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
            .where(amphora_repo.that_get_lists(), amphora_repo.behind(number),
                   # Members of clusters are always busy, see member_health.
                   sa.or_(_HEALTH.c.busy.is_(sa.false()),
                          _OCTAVIA.c.role == compat.ROLE_IN_CLUSTER),
                   # Other amphorae may be silent for their own reasons.
                   sa.or_(sa.and_(_OCTAVIA.c.status ==
                                  compat.AMPHORA_ALLOCATED,
                                  _TABLE.c.held_since.is_(None)),
                          _TABLE.c.generation > (good or 0)),
                   sa.func.coalesce(_TABLE.c.admitted_generation, 0) !=
                   number))]


def admit(engine, number, amphora_ids):
    """Let amphorae have a generation that is on trial."""
    rows.write(engine, sa.update(_TABLE)
               .where(_TABLE.c.amphora_id.in_(amphora_ids))
               .values(admitted_generation=number, next_attempt_at=None))


def get_admitted(engine, number):
    """Return the AdmittedAmphorae of a generation.

    Without amphorae that are being replaced: their silence proves nothing.
    """
    return [rows.make(
        AdmittedAmphora, row,
        load_balancer=row.load_balancer_id or row.amphora_id,
        # An amphora that had this list already gets no upload.
        is_tried=number in (row.attempted_generation, row.generation),
        is_applied=row.generation == number,
        fell_silent=_is_since(row.fell_silent_at, row.applied_at),
        has_adopted=row.adopted_at is not None,
        is_held=hold_repo.is_last_update_ours(row))
        for row in rows.read(
            engine, sa.select(
                _TABLE.c.amphora_id, _TABLE.c.generation,
                _TABLE.c.attempted_generation, _TABLE.c.applied_at,
                _TABLE.c.held_at, _TABLE.c.fell_silent_at,
                _TABLE.c.adopted_at, _TABLE.c.adopted_via,
                _OCTAVIA.c.load_balancer_id, _HEALTH.c.last_update)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
            .where(_TABLE.c.admitted_generation == number,
                   amphora_repo.that_get_lists()))]


def _is_since(when, then):
    return when is not None and then is not None and when >= then


def note_silence(engine, number, amphora_ids):
    """Record that amphorae fell silent while a list was on trial with them."""
    rows.write(engine, sa.update(_TABLE)
               .where(_TABLE.c.amphora_id.in_(amphora_ids),
                      _TABLE.c.generation == number)
               .values(fell_silent_at=types.utcnow()))
