# SPDX-License-Identifier: Apache-2.0

"""Which instances, ports and rows are left over from former amphorae.

Pure rules, for "image leaks". Recent ones are never leaks, because Octavia may
be building or deleting their amphora.
"""

import collections.abc
import dataclasses
import datetime
import enum

from octavia_hmsync import compat
from octavia_hmsync import compute
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.recovery import amphora_ports

# An amphora without a load balancer never leaves these statuses.
_LEFT_STATUSES = (*compat.BUILDING_STATUSES, compat.ERROR,
                  compat.PENDING_DELETE)


class Kind(enum.StrEnum):
    """A kind of leak; deleted in this order."""

    ROW = 'ROW'
    """An amphora in Octavia that no worker builds or deletes any more,
    with its instance and its ports.
    """

    INSTANCE = 'INSTANCE'
    """An instance of the compute service."""

    PORT = 'PORT'
    """A port of Neutron."""


@dataclasses.dataclass(frozen=True)
class Leak:
    """Something that is left over.

    :param amphora_id: its former amphora; None for a distributor's port.
    :param keep: why it is not deleted; None if it may be.
    """

    kind: Kind
    id: str
    name: str | None
    amphora_id: str | None
    load_balancer_id: str | None
    age: float | None
    reason: str
    keep: str | None = None


def judge_row(amphora: leak_repo.Amphora, known: leak_repo.Known,
              older_than: float) -> Leak | None:
    """Tell whether an amphora is left over, unchanged for older_than."""
    if (amphora.status not in _LEFT_STATUSES or
            amphora.id in known.replaced or
            amphora.unchanged_for < older_than):
        return None
    status, keep = amphora.load_balancer_status, None
    if amphora.load_balancer_id is None:
        reason = f'It is {amphora.status} and has no load balancer'
    elif status in (None, compat.DELETED):
        reason = f'It is {amphora.status} and its load balancer is gone'
    elif amphora.status not in compat.BUILDING_STATUSES:
        # Octavia, or "image restore", repairs that.
        return None
    else:
        reason = (f'It is {amphora.status} and its load balancer is '
                  f'{status}')
        if status not in (compat.ACTIVE, compat.ERROR):
            keep = 'see "octavia-hmsync image restore" first'
    return Leak(Kind.ROW, amphora.id, None, amphora.id,
                amphora.load_balancer_id, amphora.unchanged_for, reason, keep)


def judge_instance(instance: compute.Instance, known: leak_repo.Known,
                   older_than: float) -> Leak | None:
    """Tell whether an instance belongs to no amphora.

    :param instance: named like an amphora; read before known.
    :param older_than: seconds for which it must have existed, and have been
                       without an amphora.
    """
    if instance.is_going or instance.id in known.compute_ids:
        return None
    return _judge(Kind.INSTANCE, instance, known, older_than)


def judge_port(port: amphora_ports.Port, known: leak_repo.Known,
               older_than: float) -> Leak | None:
    """Tell whether a port, read before known, belongs to nothing there."""
    if port.cluster_id is not None:
        return _judge_distributor_port(port, known, older_than)
    if port.id in known.port_ids or (
            port.device_id is not None and
            port.device_id in known.compute_ids):
        return None
    return _judge(Kind.PORT, port, known, older_than)


def _judge_distributor_port(
        port: amphora_ports.Port, known: leak_repo.Known,
        older_than: float) -> Leak | None:
    age = _get_age(port.created_at, known.now)
    if port.cluster_id in known.clusters or (
            age is not None and age < older_than):
        return None
    return Leak(Kind.PORT, port.id, port.name, None, None, age,
                'It is a distributor\'s, and there is no such cluster',
                'its age is unknown' if age is None else None)


def _judge(kind: Kind, found: compute.Instance | amphora_ports.Port,
           known: leak_repo.Known, older_than: float) -> Leak | None:
    amphora = known.amphorae.get(found.amphora_id or '')
    if found.amphora_id in known.replaced:
        return None
    if amphora is not None and (amphora.status != compat.DELETED or
                                amphora.unchanged_for < older_than):
        return None
    age = _get_age(found.created_at, known.now)
    if age is not None and age < older_than:
        return None
    return Leak(
        kind, found.id, found.name, found.amphora_id,
        None if amphora is None else amphora.load_balancer_id, age,
        'Octavia knows no such amphora' if amphora is None else
        'Its amphora is DELETED',
        'its age is unknown' if age is None else None)


def _get_age(created_at: datetime.datetime | None,
             now: datetime.datetime) -> float | None:
    return None if created_at is None else (now - created_at).total_seconds()


def find_all(known: leak_repo.Known,
             instances: collections.abc.Iterable[compute.Instance],
             ports: collections.abc.Iterable[amphora_ports.Port],
             older_than: float) -> list[Leak]:
    """Find all leaks, in the order of their deletion; known is read last."""
    found = [judge_row(each, known, older_than)
             for each in known.amphorae.values()]
    found += [judge_instance(each, known, older_than) for each in instances]
    found += [judge_port(each, known, older_than) for each in ports]
    kinds = list(Kind)
    return sorted((leak for leak in found if leak is not None),
                  key=lambda leak: (kinds.index(leak.kind),
                                    -(leak.age or 0), leak.id))
