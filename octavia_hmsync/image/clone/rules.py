# SPDX-License-Identifier: Apache-2.0

"""Pure: whether a clone serves as well as its source; its phase."""

import enum
import typing

from octavia_hmsync.image.clone import diff
from octavia_hmsync.image.clone import tree as trees

# Any other status serves nothing.
_RANKS = {'ONLINE': 3, 'NO_MONITOR': 3, 'DRAINING': 3, 'DEGRADED': 2,
          'ERROR': 1}
_SERVES = 3


class Phase(enum.StrEnum):
    """How far a clone is."""

    CREATING = 'CREATING'
    FAILED = 'FAILED'
    READY = 'READY'
    SWITCHING = 'SWITCHING'
    SWITCHED = 'SWITCHED'
    RETIRING = 'RETIRING'
    RETIRED = 'RETIRED'
    DELETING = 'DELETING'


def rank(raw: trees.Raw) -> int:
    """Return a rank of an operating status; more is better."""
    return _RANKS.get(raw.get('operating_status') or '', 0)


def count_up(tree: trees.Tree) -> str:
    """Return how many of the enabled members are up, as "2/3"."""
    members = [member for pool in tree.pools for member in pool['members']
               if member.get('admin_state_up', True)]
    return (f'{sum(rank(member) >= _SERVES for member in members)}'
            f'/{len(members)}')


def find_worse(source: trees.Tree, clone: trees.Tree) -> list[str]:
    """Return, in words, which parts of the clone serve worse."""
    if clone.root['provisioning_status'] != 'ACTIVE':
        return [f'the clone is {clone.root["provisioning_status"]}']
    pools = diff.match_pools(source, clone)
    found = list(_worse('load balancer', source.root, clone.root))
    for ours, theirs in diff.match_listeners(source, clone):
        if ours is not None:
            found += _worse(
                f'listener {ours["protocol"]} {ours["protocol_port"]}', ours,
                theirs)
    for pool in source.pools:
        other = pools.get(pool['id'])
        found += _worse(f'pool {pool.get("name") or pool["id"]}', pool,
                        other)
        for ours, theirs in diff.match_members(
                pool, other or {'members': []}):
            if ours is not None:
                found += _worse(
                    f'member {ours["address"]}:{ours["protocol_port"]}',
                    ours, theirs)
    return found


def _worse(subject: str, ours: trees.Raw, theirs: trees.Raw | None
           ) -> typing.Iterator[str]:
    if rank(ours) > rank(theirs or {}):
        yield (f'{subject} is '
               f'{theirs["operating_status"] if theirs else "missing"} '
               f'there and {ours["operating_status"]} here')


def find_phase(clone_status: str, source_status: str | None, retiring: bool,
               complete: bool, at_source: int, at_clone: int) -> Phase:
    """Return the phase of a clone, from its present state.

    :param source_status: that of the source, None if it is gone.
    :param complete: whether all pools of the clone have their names.
    :param at_source: how many floating IPs lead to the source.
    :param at_clone: how many of the source's floating IPs lead to the clone.
    """
    for applies, phase in (
            (clone_status == 'PENDING_DELETE', Phase.DELETING),
            (clone_status == 'ERROR', Phase.FAILED),
            (source_status is None, Phase.RETIRED),
            (retiring or source_status == 'PENDING_DELETE', Phase.RETIRING),
            (clone_status == 'PENDING_CREATE' or not complete,
             Phase.CREATING),
            (at_clone and at_source, Phase.SWITCHING),
            (at_clone, Phase.SWITCHED)):
        if applies:
            return phase
    return Phase.READY


def is_drained(samples: typing.Sequence[tuple[float, int]],
               settle: float) -> bool:
    """Tell whether a load balancer had no connection for long enough.

    Its statistics come with heartbeats, so one sample proves nothing.

    :param samples: (time, active connections), the latest one last.
    """
    since = None
    for time, connections in samples:
        if connections:
            since = None
        elif since is None:
            since = time
    return since is not None and samples[-1][0] - since >= settle
