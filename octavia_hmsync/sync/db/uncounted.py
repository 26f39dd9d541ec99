# SPDX-License-Identifier: Apache-2.0

"""Heartbeats of members of clusters that Octavia does not count.

Octavia counts a heartbeat only if it reports as many listeners as are enabled.
While a new listener is in ERROR because no member has taken it, all members
would be taken for silent.
"""

import collections
import dataclasses

from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH
_LISTENER = compat.LISTENER


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a heartbeat reports.

    :param listeners: ids of the listeners that the member must serve.
    :param number: of the listeners for which Octavia counts the heartbeat.
    """

    listeners: frozenset[str]
    number: int


def get(engine):
    """Return {amphora id: Expected} of members with a listener in ERROR."""
    with engine.connect() as connection:
        in_error = connection.execute(
            sa.select(_CLUSTER.c.id).distinct()
            .join(_LISTENER, _LISTENER.c.load_balancer_id ==
                  _CLUSTER.c.load_balancer_id)
            .where(_LISTENER.c.enabled,
                   _LISTENER.c.provisioning_status == compat.ERROR)
        ).scalars().all()
        if not in_error:
            return {}
        listeners = connection.execute(
            sa.select(_MEMBER.c.amphora_id, _LISTENER.c.id,
                      _LISTENER.c.provisioning_status)
            .select_from(
                _MEMBER.join(_AMPHORA, _AMPHORA.c.id == _MEMBER.c.amphora_id)
                .join(_LISTENER, _LISTENER.c.load_balancer_id ==
                      _AMPHORA.c.load_balancer_id))
            .where(_MEMBER.c.cluster_id.in_(in_error),
                   _LISTENER.c.enabled)).all()
    found: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for row in listeners:
        found[row.amphora_id][row.id] = row.provisioning_status
    return {
        amphora_id: Expected(frozenset(
            listener_id for listener_id, status in statuses.items()
            if status != compat.ERROR), len(statuses))
        for amphora_id, statuses in found.items()}


def count(engine, amphora_id):
    """Count a heartbeat as Octavia does, by the clock of this controller."""
    rows.change(engine, _HEALTH, _HEALTH.c.amphora_id == amphora_id,
                last_update=timeutils.utcnow())
