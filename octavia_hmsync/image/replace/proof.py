# SPDX-License-Identifier: Apache-2.0

"""Whether a new amphora is proven to serve: pure rules.

An agent lists the listeners of its configuration. Only heartbeats list the
listeners that haproxy really runs.
"""

from collections.abc import Container
from collections.abc import Mapping
import dataclasses
import datetime

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.amphora import listeners
from octavia_hmsync import compat
from octavia_hmsync.image.db import evidence as evidence_repo

# Heartbeats in a row of the new amphora, before it has the VIP and with it.
# More with the VIP, as only then its haproxy has work.
HEARTBEATS = 2
HEARTBEATS_SWITCHED = 3
# A lost heartbeat is tolerated.
HEARTBEATS_MISSED = 3
# After so many breaks haproxy counts as unable to keep running.
BREAKS = 3


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What has to be proven.

    :param target_image_id: the image that it must have; None for any.
    :param since: earlier heartbeats prove nothing.
    :param max_age: seconds after which a heartbeat proves nothing any more.
    :param holders: ids of the amphorae of which exactly one must have the
                    VIP, and no other; empty for any.
    :param are_listeners_told: whether listeners of heartbeats are recorded.
    :param is_vip_shared: whether every amphora must have the VIP, as the
                          members of a cluster.
    """

    new_amphora_id: str
    target_image_id: str | None
    since: datetime.datetime
    max_age: float
    holders: frozenset[str] = frozenset()
    are_listeners_told: bool = True
    is_vip_shared: bool = False


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is known of a load balancer.

    :param listeners: {id: status} from the new amphora's agent.
    :param holding: {amphora id: whether it has the VIP}, None if it does not
                    tell.
    :param replaced: {amphora id: {id: status}}, the listeners of amphorae
                     that were replaced before and have the VIP now.
    """

    evidence: evidence_repo.Evidence
    listeners: Mapping[str, str]
    holding: Mapping[str, bool | None]
    replaced: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict)


def find_problems(expected: Expectation, seen: Seen) -> list[str]:
    """Return in words what is not proven."""
    new = seen.evidence.amphorae.get(expected.new_amphora_id)
    if new is None:
        return [f'amphora {expected.new_amphora_id} is gone']
    return [*_find_amphora_problems(expected, seen, new),
            *_find_listener_problems(expected, seen, new),
            *_find_holder_problems(expected, seen)]


def is_alone(new_ids: Container[str], expected: Expectation,
             seen: Seen) -> bool:
    """Tell whether neither agents nor heartbeats of the others are heard."""
    oldest = seen.evidence.now - datetime.timedelta(seconds=expected.max_age)
    return all(
        seen.holding.get(amphora.id) is None and
        (amphora.heard_at is None or amphora.heard_at < oldest)
        for amphora in seen.evidence.amphorae.values()
        if amphora.id not in new_ids)


def find_problems_alone(expected: Expectation, seen: Seen) -> list[str]:
    """Tell what is not proven of a new amphora that is the only one left.

    It may have the VIP already, or is to get it: no other one can.
    """
    new = seen.evidence.amphorae.get(expected.new_amphora_id)
    alone = dataclasses.replace(seen, evidence=dataclasses.replace(
        seen.evidence, amphorae={new.id: new} if new else {}),
        holding={expected.new_amphora_id: True})
    return find_problems(dataclasses.replace(expected, holders=frozenset()),
                         alone)


def find_served(evidence: evidence_repo.Evidence) -> list[str]:
    """Return the ids of the listeners that each amphora must serve."""
    return listeners.find_served(evidence.is_enabled, {
        listener_id: is_enabled for listener_id, (is_enabled, *_)
        in evidence.listeners.items()})


def needs_haproxy(evidence: evidence_repo.Evidence) -> bool:
    """Tell whether an amphora serves nothing without its haproxy."""
    return bool(set(find_served(evidence)) - evidence.without_haproxy)


def _find_amphora_problems(expected, seen, new):
    if new.image_id not in (None, expected.target_image_id) and (
            expected.target_image_id is not None):
        yield (f'amphora {new.id} is of image {new.image_id}, not of '
               f'{expected.target_image_id}')
    # Octavia records times in whole seconds.
    oldest = max(expected.since, seen.evidence.now - datetime.timedelta(
        seconds=expected.max_age)).replace(microsecond=0)
    if new.heard_at is None or new.heard_at < oldest:
        yield f'no heartbeat of amphora {new.id} arrives'
    for amphora in seen.evidence.amphorae.values():
        if amphora.status == compat.ERROR:
            yield f'amphora {amphora.id} is in ERROR'


def _find_listener_problems(expected, seen, new):
    for listener_id in find_served(seen.evidence):
        missing = list(listeners.find_missing(new.id, (listener_id,),
                                              seen.listeners))
        yield from missing
        if not missing and expected.are_listeners_told and (
                listener_id not in new.listeners):
            yield (f'the heartbeats of amphora {new.id} do not tell of '
                   f'listener {listener_id}')
        for amphora_id, statuses in sorted(seen.replaced.items()):
            yield from listeners.find_missing(amphora_id, (listener_id,),
                                              statuses)


def _find_holder_problems(expected, seen):
    holders = sorted(amphora_id for amphora_id, holds in seen.holding.items()
                     if holds)
    unknown = sorted(amphora_id for amphora_id, holds in seen.holding.items()
                     if holds is None)
    if unknown:
        yield f'amphora {", ".join(unknown)} does not say who has the VIP'
    elif expected.is_vip_shared:
        if expected.new_amphora_id not in holders:
            yield f'amphora {expected.new_amphora_id} does not have the VIP'
    elif not holders and _may_lack_holder(expected, seen):
        return
    elif len(holders) != 1:
        yield (f'{", ".join(holders)} have the VIP at once' if holders
               else 'no amphora has the VIP')
    elif expected.holders and holders[0] not in expected.holders:
        yield f'amphora {holders[0]} has the VIP'


def _may_lack_holder(expected, seen):
    """Tell whether keepalived of a pair may give the VIP to none.

    While there is no listener, Octavia's agent has keepalived's check fail
    (vrrp_check_script_update).
    """
    return not (seen.evidence.listeners or len(expected.holders) == 1 or
                len(seen.evidence.amphorae) == 1)


def is_worse(status: str, before: str) -> bool:
    """Tell whether an operating status is worse than another one."""
    return (heartbeat.BADNESS.get(status, 0) >
            heartbeat.BADNESS.get(before, 0))


def find_worse(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return ids of members worse than the worst that was seen before."""
    return sorted(
        member_id for member_id, status in now.items()
        if is_worse(status, before.get(member_id, '')))


def merge_worst(before: Mapping[str, str],
                now: Mapping[str, str]) -> dict[str, str]:
    """Return the worse of the two statuses of each member."""
    return {member_id: heartbeat.worst(before.get(member_id, status), status)
            for member_id, status in now.items()}
