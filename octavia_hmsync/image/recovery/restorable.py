# SPDX-License-Identifier: Apache-2.0

"""Which load balancers may be restored, and to which state.

Pure rules, for "image restore"; serving has the proof of amphorae.
"""

import collections.abc
import dataclasses

from octavia_hmsync.cli import finding
from octavia_hmsync import compat
from octavia_hmsync.image.db import restore as restore_repo
from octavia_hmsync.image.recovery import serving


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of judge().

    :param amphorae: the new status of each amphora, {id: status}; empty if
                     nothing may be restored.
    """

    rows: tuple[serving.Row, ...]
    amphorae: collections.abc.Mapping[str, str] = dataclasses.field(
        default_factory=dict)
    detached: frozenset[str] = frozenset()
    statuses: collections.abc.Mapping[restore_repo.Object, str] = (
        dataclasses.field(default_factory=dict))


def check_load_balancer(snapshot: restore_repo.Snapshot, older_than: float,
                        has_jobboard: bool) -> tuple[serving.Row, ...]:
    """Tell whether a load balancer may be restored, from the database alone.

    :param older_than: seconds for which it must be unchanged, if it is
                       PENDING_UPDATE.
    :param has_jobboard: whether another worker continues the work of a dead
                         one.
    """
    found = [('Provider', _check_provider(snapshot)),
             ('State', _check_state(snapshot)),
             ('Lock', check_lock(snapshot, older_than, has_jobboard)),
             ('Replacement', _check_replacement(snapshot))]
    return tuple(serving.Row(None, check, each) for check, each in found)


def _check_provider(snapshot: restore_repo.Snapshot) -> finding.Finding:
    if snapshot.provider == compat.CLUSTER_PROVIDER:
        return finding.failure(
            f'It has a cluster, whose amphorae housekeeping repairs by '
            f'itself: see "octavia-hmsync cluster show {snapshot.id}", and '
            f'"octavia-hmsync cluster restore {snapshot.id}" if it is '
            f'ERROR or PENDING_UPDATE.')
    if snapshot.provider not in (None, *compat.AMPHORA_PROVIDERS):
        return finding.failure(
            f'Its provider is {snapshot.provider}, which has no amphorae of '
            f'this Octavia.')
    if snapshot.topology not in compat.AMPHORAE_OF_TOPOLOGY:
        return finding.failure(
            f'It is unknown how many amphorae it needs: its topology is '
            f'{snapshot.topology}.')
    return finding.success()


def _check_state(snapshot: restore_repo.Snapshot) -> finding.Finding:
    status = snapshot.status
    if status == compat.ACTIVE:
        return finding.failure('It is ACTIVE, so there is nothing to '
                               'restore.')
    if status not in (compat.ERROR, compat.PENDING_UPDATE):
        return finding.failure(
            f'It is {status}, and no failover leaves it so: only a load '
            f'balancer in ERROR or PENDING_UPDATE is restored.')
    return finding.success(status)


def check_lock(snapshot: restore_repo.Snapshot, older_than: float,
               has_jobboard: bool) -> finding.Finding:
    """Tell whether a process may still work on a load balancer."""
    if snapshot.status != compat.PENDING_UPDATE:
        return finding.success()
    if snapshot.unchanged_for < older_than:
        return finding.failure(
            f'A worker may still work on it: it is PENDING_UPDATE, and was '
            f'changed {snapshot.unchanged_for:.0f} s ago. Wait, or see that '
            f'no octavia-worker does, and say --older-than.')
    if has_jobboard:
        return finding.warning(
            'With a jobboard another octavia-worker goes on with what one '
            'died with. See that all of them run, and that none has taken it '
            'up.')
    return finding.success()


def _check_replacement(snapshot: restore_repo.Snapshot) -> finding.Finding:
    if snapshot.replacement_phase is not None:
        return finding.failure(
            f'A replacement of its amphorae is open '
            f'({snapshot.replacement_phase}): a housekeeper brings it to its '
            f'end, and gives the load balancer back.')
    return finding.success()


def judge(snapshot: restore_repo.Snapshot,
          evidence: collections.abc.Sequence[serving.Evidence],
          heartbeat_timeout: float) -> Verdict:
    """Tell which amphorae serve; check_load_balancer() comes first."""
    rows: list[serving.Row] = []
    proven: list[serving.Evidence] = []
    for one in evidence:
        if _never_was(one):
            continue
        found = serving.check_amphora(snapshot, one, heartbeat_timeout)
        rows += found
        if not serving.has_failed(found):
            proven.append(one)
    vip = serving.check_vip(snapshot, evidence, proven, heartbeat_timeout)
    rows.append(serving.Row(None, 'VIP', vip))
    if vip.severity is finding.Severity.FAILURE:
        return Verdict(tuple(rows))
    kept = _choose(snapshot, proven)
    statuses = {each: get_status(each) for each in snapshot.objects}
    rows += _tell_outcome(snapshot, evidence, kept)
    rows += _tell_objects(statuses)
    return Verdict(tuple(rows), {
        one.amphora.id: _get_amphora_status(one, kept) for one in evidence},
        frozenset(one.amphora.id for one in evidence
                  if _is_detached(one, kept)), statuses)


def _choose(snapshot: restore_repo.Snapshot,
            proven: list[serving.Evidence]) -> list[str]:
    """Return the ids of ALLOCATED amphorae; the VIP's holder first."""
    kept: list[serving.Evidence] = []
    for one in sorted(proven, key=lambda each: (
            not each.held, each.amphora.status != compat.AMPHORA_ALLOCATED,
            str(each.amphora.created_at), each.amphora.id)):
        if (len(kept) < compat.AMPHORAE_OF_TOPOLOGY[snapshot.topology] and
                one.amphora.role not in {
                    other.amphora.role for other in kept}):
            kept.append(one)
    return [one.amphora.id for one in kept]


def _never_was(one: serving.Evidence) -> bool:
    """Tell whether a worker died before the amphora had an instance."""
    return not one.amphora.compute_id and not one.amphora.lb_network_ip


def _is_detached(one: serving.Evidence, kept: list[str]) -> bool:
    """Tell whether an amphora is removed from the load balancer.

    Each change of a load balancer goes through all its amphorae, even DELETED
    ones, and fails at an amphora without a VRRP port.
    """
    return one.amphora.id not in kept and not one.amphora.vrrp_port_id


def _get_amphora_status(one: serving.Evidence, kept: list[str]) -> str:
    status: str = compat.ERROR
    if one.amphora.id in kept:
        status = compat.AMPHORA_ALLOCATED
    elif _never_was(one):
        status = compat.DELETED
    return status


def get_status(found: restore_repo.Object) -> str:
    """Return the new status of a child that is not ACTIVE.

    A listener is proven to run. Any other change was lost with its worker. It
    gets ERROR if it was to be made or deleted, so that its owner can delete
    it, as after a failure in Octavia. Octavia renders objects that are
    PENDING_UPDATE in their old state.
    """
    status: str = compat.ERROR
    if (found.status == compat.PENDING_UPDATE or
            found.kind == 'listener' and
            found.status != compat.PENDING_DELETE):
        status = compat.ACTIVE
    return status


def _tell_objects(statuses: dict[restore_repo.Object, str]
                  ) -> list[serving.Row]:
    return [
        serving.Row(None, 'Objects', finding.warning(
            f'The {each.kind} {each.id} is {status}, no longer '
            f'{each.status}: an amphora may not have what was asked for.'))
        for each, status in statuses.items()
        if each.status not in (status, compat.ERROR)]


def _tell_outcome(snapshot: restore_repo.Snapshot,
                  evidence: collections.abc.Sequence[serving.Evidence],
                  kept: list[str]) -> list[serving.Row]:
    rows = []
    roles = {one.amphora.role for one in evidence if one.amphora.id in kept}
    missing = compat.AMPHORAE_OF_TOPOLOGY[snapshot.topology] - len(kept)
    for one in evidence:
        amphora_id = one.amphora.id
        if amphora_id in kept:
            found = finding.success(compat.AMPHORA_ALLOCATED)
        elif _never_was(one):
            found = finding.warning(
                'It is DELETED, because Octavia got no instance of it. If '
                'one was built, "octavia-hmsync image leaks" lists it.')
        elif _is_detached(one, kept):
            found = finding.warning(
                'It was not plugged yet. It is in ERROR, and no longer of '
                'this load balancer: "octavia-hmsync image leaks" lists it.')
        elif missing and one.amphora.role not in roles:
            # Only as many as are missing: a second of its role is not needed.
            missing -= 1
            found = finding.warning(
                f'It is left in ERROR. Once instances can be built, rebuild '
                f'it: openstack loadbalancer amphora failover '
                f'{amphora_id}')
        else:
            found = finding.warning(
                f'It is left in ERROR, and not needed any more. While it is '
                f'there a change of the load balancer waits for it, in vain: '
                f'openstack loadbalancer amphora delete {amphora_id}')
        rows.append(serving.Row(amphora_id, 'Outcome', found))
    if missing:
        rows.append(serving.Row(None, 'Outcome', finding.warning(
            f'It has one amphora only. Once instances can be built, build '
            f'the other one: openstack loadbalancer failover '
            f'{snapshot.id}')))
    else:
        rows.append(serving.Row(None, 'Outcome',
                                finding.success(compat.ACTIVE)))
    return rows
