# SPDX-License-Identifier: Apache-2.0

"""Whether amphorae of a load balancer serve.

Pure rules, for "image restore": they turn what was found of each amphora into
what is proven. What cannot be proven does not count.
"""

import collections.abc
import dataclasses
import uuid

from octavia_hmsync.amphora import listeners
from octavia_hmsync.cli import finding
from octavia_hmsync import compat
from octavia_hmsync.image.db import restore as restore_repo

# The agent's statuses of a listener that runs.
RUNNING = ('ACTIVE', 'OPEN')

_INSTANCE_ACTIVE = 'ACTIVE'
# An instance in these states sends nothing.
_OFF_STATUSES = ('SHUTOFF', 'STOPPED', 'SUSPENDED', 'PAUSED', 'DELETED',
                 'SOFT_DELETED', 'SHELVED', 'SHELVED_OFFLOADED')


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What was found of one amphora.

    :param agent_error: why its agent does not tell; None if it does.
    :param is_heard: whether anything answered at the address of its agent.
    :param held: the VIPs that are on one of its interfaces.
    :param running: the listeners that its agent runs.
    :param instance: the state of its instance; None if it does not exist.
    :param has_port: whether its VRRP port exists; None if it has none.
    """

    amphora: restore_repo.Amphora
    agent_error: str | None = None
    is_heard: bool = True
    held: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    haproxies: int = 0
    instance: str | None = None
    instance_error: str | None = None
    has_port: bool | None = None
    port_error: str | None = None

    @property
    def answers(self) -> bool:
        """Whether its agent answers."""
        return self.agent_error is None


@dataclasses.dataclass(frozen=True)
class Row:
    """One finding; without an amphora_id, of the load balancer."""

    amphora_id: str | None
    check: str
    found: finding.Finding


def has_failed(rows: collections.abc.Iterable[Row]) -> bool:
    """Tell whether one of them is a failure."""
    return any(row.found.severity is finding.Severity.FAILURE for row in rows)


def check_amphora(snapshot: restore_repo.Snapshot, one: Evidence,
                  heartbeat_timeout: float) -> list[Row]:
    """Tell what is proven of one amphora, whether it holds the VIP or not."""
    found = [('Agent', _check_agent(one)),
             ('Listeners', _check_listeners(snapshot, one)),
             ('Heartbeats', _check_heartbeats(one, heartbeat_timeout)),
             ('Instance', _check_instance(one)),
             ('VRRP port', _check_port(one))]
    return [Row(one.amphora.id, check, each) for check, each in found]


def _check_agent(one: Evidence) -> finding.Finding:
    if one.agent_error is not None:
        return finding.failure(
            f'Its agent does not tell what it does: {one.agent_error}.')
    return finding.success('holds the VIP' if one.held else
                           'does not hold the VIP')


def _is_id(text: str) -> bool:
    # haproxy may have sections that are not listeners.
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False


def _check_listeners(snapshot: restore_repo.Snapshot,
                     one: Evidence) -> finding.Finding:
    if not one.answers:
        return finding.not_checked('Only its agent could tell.')
    if not snapshot.enabled:
        return finding.success('the load balancer is disabled')
    served = listeners.find_served(snapshot.enabled, {
        each.id: each.enabled for each in snapshot.listeners})
    wanted = {each.id: each for each in snapshot.listeners
              if each.id in served}
    missing = wanted.keys() - one.running
    if missing:
        return finding.failure(
            f'Its agent does not run {", ".join(sorted(missing))}.')
    # With a different number of listeners Octavia ignores its heartbeats.
    more = {each for each in one.running if _is_id(each)} - wanted.keys()
    if more:
        return finding.failure(
            f'Its agent runs {", ".join(sorted(more))}, which Octavia does '
            f'not know, or has disabled: Octavia would not hear its '
            f'heartbeats.')
    if not one.haproxies and any(
            each.protocol not in compat.LVS_PROTOCOLS
            for each in wanted.values()):
        return finding.failure('It has the listeners, and its haproxy does '
                               'not run.')
    return finding.success(f'{len(wanted)} run')


def _check_heartbeats(one: Evidence,
                      heartbeat_timeout: float) -> finding.Finding:
    age = one.amphora.heartbeat_age
    if age is None:
        return finding.failure('Octavia has not heard a heartbeat of it.')
    if age > heartbeat_timeout:
        return finding.failure(
            f'Octavia heard it {age:.0f} s ago for the last time, or with '
            f'another number of listeners; heartbeat_timeout is '
            f'{heartbeat_timeout:.0f} s.')
    return finding.success(f'{max(0, age):.0f} s ago')


def _check_instance(one: Evidence) -> finding.Finding:
    if one.instance_error is not None:
        return finding.failure(
            f'The compute service does not tell of its instance: '
            f'{one.instance_error}')
    if one.instance is None:
        return finding.failure('Its instance is not in the compute service '
                               'any more, or it never had one.')
    if one.instance != _INSTANCE_ACTIVE:
        return finding.failure(
            f'Its instance is {one.instance}, and not ACTIVE.')
    return finding.success(one.instance)


def _check_port(one: Evidence) -> finding.Finding:
    if one.port_error is not None:
        return finding.failure(
            f'Neutron does not tell of its VRRP port: {one.port_error}')
    if not one.has_port:
        return finding.failure('Its VRRP port is not in Neutron any more, or '
                               'it never had one.')
    return finding.success()


def check_vip(snapshot: restore_repo.Snapshot,
              evidence: collections.abc.Sequence[Evidence],
              proven: collections.abc.Collection[Evidence],
              heartbeat_timeout: float) -> finding.Finding:
    """Tell whether one amphora alone has the VIP, and is proven to serve."""
    holders = [one for one in evidence if one.held]
    if len(holders) > 1:
        names = ', '.join(sorted(one.amphora.id for one in holders))
        return finding.failure(
            f'Several amphorae hold its VIP: {names}. Stop the instance of '
            f'the wrong one.')
    problem = (_check_holder(snapshot, holders[0], proven) if holders
               else _check_none(snapshot, proven))
    if problem:
        return finding.failure(problem)
    for one in evidence:
        if not one.answers and _may_hold(snapshot, one, heartbeat_timeout):
            return finding.failure(
                f'Amphora {one.amphora.id} may hold its VIP, too: its agent '
                f'does not tell, and its instance is {one.instance or "?"}. '
                f'Stop that instance ({one.amphora.compute_id}) first.')
    return finding.success(
        f'held by {holders[0].amphora.id}' if holders else
        'held by none, as there is no listener')


def _check_none(snapshot: restore_repo.Snapshot,
                proven: collections.abc.Collection[Evidence]) -> str | None:
    """Tell what is wrong where none has the VIP, if anything is."""
    if proven and listeners.may_lack_holder(snapshot.topology,
                                            snapshot.listeners):
        return None
    return 'No amphora that answers holds its VIP, so nothing serves.'


def _check_holder(snapshot: restore_repo.Snapshot, holder: Evidence,
                  proven: collections.abc.Collection[Evidence]
                  ) -> str | None:
    """Tell what is wrong with the holder of the VIP, if anything is."""
    if len(holder.held) < len(snapshot.vips):
        missing = ', '.join(sorted(set(snapshot.vips) - holder.held))
        return (f'Amphora {holder.amphora.id} does not hold all addresses: '
                f'{missing} is missing.')
    if holder not in proven:
        return (f'Amphora {holder.amphora.id} holds the VIP, and it is not '
                f'proven that it serves.')
    return None


def _may_hold(snapshot: restore_repo.Snapshot, one: Evidence,
              heartbeat_timeout: float) -> bool:
    """Tell whether an amphora that does not answer may have the VIP."""
    if not one.amphora.vrrp_ip and not one.amphora.vrrp_port_id:
        # Octavia writes both before the agent gets the VIP.
        return False
    if one.instance_error is None and (one.instance is None or
                                       one.instance in _OFF_STATUSES):
        return False
    age = one.amphora.heartbeat_age
    if age is not None and age <= heartbeat_timeout:
        return True
    # The two of a pair hear each other in the network of the VIP.
    return compat.AMPHORAE_OF_TOPOLOGY[snapshot.topology] == 1 or one.is_heard
