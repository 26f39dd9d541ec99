# SPDX-License-Identifier: Apache-2.0

"""All lists that each amphora may be using."""

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import rows
from octavia_hmsync.network import retention as port_retention
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import adoption

_OCTAVIA = compat.AMPHORA


def get_senders(engine):
    """Return {amphora id: retention.UsedLists}, of unheard ones, too."""
    # In this order: an amphora that gets an agent meanwhile is in the second
    # answer, and a list that it gets meanwhile is in the last.
    building = _get_building(engine)
    found = amphora_repo.get_rows(engine)
    previous = previous_repo.get_all(engine, found)
    history = generation_repo.get_history(engine)
    return {**dict.fromkeys(building, port_retention.UsedLists(None)),
            **{row.id: _to_sender(row, previous.get(row.id, ()), history)
               for row in found}}


def _get_building(engine):
    """Return the ids of amphorae that boot; their lists are not known."""
    return [row.id for row in rows.read(engine, sa.select(_OCTAVIA.c.id).where(
        _OCTAVIA.c.lb_network_ip.is_(None),
        _OCTAVIA.c.status.in_(compat.BUILDING_STATUSES)))]


def _to_sender(row, previous, history):
    if row.controller_ip_port_list is None:
        return port_retention.UsedLists(None)
    others = [p for p in previous if not isinstance(p, adoption.Unknown)]
    is_unknown = len(others) < len(previous)
    if row.result != upload_result.APPLIED or row.claim_owner is not None:
        # Any later list may have arrived, or is on its way.
        later = [g for g in history if g.number > row.generation]
        others += [g.addresses for g in later]
        is_unknown = is_unknown or (
            bool(history) and history[0].number > row.generation + 1)
    return port_retention.UsedLists(
        addr.split_list(row.controller_ip_port_list), tuple(others),
        is_unknown)
