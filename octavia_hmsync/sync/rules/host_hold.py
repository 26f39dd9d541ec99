# SPDX-License-Identifier: Apache-2.0

"""Whose failover waits while an operator holds a compute host: pure rules."""

import collections
from collections.abc import Iterable
import dataclasses

# Seconds for which a host may be held at most.
LONGEST = 24 * 3600


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora of a load balancer with amphorae on held hosts.

    :param host: the held host that it is on, None if it is on none.
    :param is_heard: whether it serves: it is ALLOCATED, and a heartbeat of it
                     came lately.
    """

    id: str
    load_balancer_id: str | None
    host: str | None
    is_heard: bool


def find_waiting(amphorae: Iterable[Amphora]) -> dict[str, str]:
    """Return {id: held host} of silent amphorae whose failover can wait.

    Another amphora of the same load balancer serves it from another host.
    """
    known = list(amphorae)
    serving: dict[str | None, set[str | None]] = collections.defaultdict(set)
    for amphora in known:
        if amphora.is_heard and amphora.load_balancer_id is not None:
            serving[amphora.load_balancer_id].add(amphora.host)
    return {amphora.id: amphora.host for amphora in known
            if amphora.host is not None and not amphora.is_heard and
            serving[amphora.load_balancer_id] - {amphora.host}}
