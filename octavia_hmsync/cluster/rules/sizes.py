# SPDX-License-Identifier: Apache-2.0

"""The sizes and the affinity of a cluster: rules."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import math
from typing import Any

DESIRED_SIZE = 'cluster_desired_size'
MIN_SIZE = 'cluster_min_size'
AFFINITY = 'cluster_affinity'
KEYS = (DESIRED_SIZE, MIN_SIZE, AFFINITY)

# A connection, or all connections of a client, stay with an amphora.
FLOW = 'FLOW'
SOURCE_IP = 'SOURCE_IP'
AFFINITIES = (FLOW, SOURCE_IP)
# The largest value of the option, too.
MOST_STANDBY = 8

# Types of session persistence that an amphora keeps. The client keeps an
# HTTP_COOKIE, which names the member to any amphora.
KEPT_BY_AMPHORAE = frozenset(('SOURCE_IP', 'APP_COOKIE'))


class Refused(Exception):
    """Sizes that are not possible.

    :param user: what is wrong, for the tenant or the author of a flavor; None
                 if only the configuration is to blame.
    :param operator: the same, with the options that matter.
    """

    def __init__(self, user: str | None, operator: str) -> None:
        super().__init__(operator)
        self.user = user
        self.operator = operator


@dataclasses.dataclass(frozen=True)
class Defaults:
    """The options: values for clusters whose flavor has none, and a limit.

    :param size_limit: no cluster may be larger.
    """

    desired_size: int
    min_size: int
    size_limit: int
    affinity: str


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes and the affinity of a cluster.

    :param desired: the number of amphorae.
    :param minimum: with fewer healthy amphorae it is in ERROR.
    :param affinity: one of AFFINITIES.
    """

    desired: int
    minimum: int
    affinity: str

    def to_flavor(self) -> dict[str, Any]:
        """Return the keys of a flavor that say the same."""
        return {DESIRED_SIZE: self.desired, MIN_SIZE: self.minimum,
                AFFINITY: self.affinity}


def check_defaults(defaults: Defaults) -> None:
    """Check that the options agree; raise Refused with what to do."""
    if defaults.size_limit < 1:
        raise Refused(None, '[hmsync_cluster] size_limit must be 1 or more')
    if not 1 <= defaults.desired_size <= defaults.size_limit:
        raise Refused(
            None, f'[hmsync_cluster] desired_size is {defaults.desired_size}: '
                  f'it must be from 1 to size_limit, {defaults.size_limit}')
    if not 1 <= defaults.min_size <= defaults.desired_size:
        raise Refused(
            None, f'[hmsync_cluster] min_size is {defaults.min_size}: it '
                  f'must be from 1 to desired_size, {defaults.desired_size}')
    if defaults.affinity not in AFFINITIES:
        raise Refused(
            None, f'[hmsync_cluster] affinity is {defaults.affinity}: it '
                  f'must be one of {", ".join(AFFINITIES)}')


def resolve(flavor: Mapping[str, Any], defaults: Defaults) -> Sizes:
    """Choose the sizes and the affinity of a cluster.

    Values of the flavor are never changed. A default minimum is lowered to
    the size of the flavor; a default size is not raised to its minimum.

    :param flavor: metadata of the flavor, of which KEYS are read.
    :raises Refused: if the values are not possible.
    """
    check_defaults(defaults)
    desired = read_size(flavor, DESIRED_SIZE)
    minimum = read_size(flavor, MIN_SIZE)
    if desired is not None and desired > defaults.size_limit:
        user = (f'{DESIRED_SIZE} is {desired}, and a cluster may have '
                f'{defaults.size_limit} amphorae at most')
        raise Refused(user, f'{user} ([hmsync_cluster] size_limit)')
    if minimum is not None and minimum > (desired or defaults.desired_size):
        if desired is not None:
            user = operator = (f'{MIN_SIZE} is {minimum}, which is more than '
                               f'{DESIRED_SIZE}, {desired}')
        else:
            user = (f'{MIN_SIZE} is {minimum}, and a cluster without '
                    f'{DESIRED_SIZE} has {defaults.desired_size} amphorae: '
                    f'add {DESIRED_SIZE} to the flavor')
            operator = f'{user} ([hmsync_cluster] desired_size)'
        raise Refused(user, operator)
    if desired is None:
        desired = defaults.desired_size
    if minimum is None:
        minimum = min(defaults.min_size, desired)
    affinity = flavor.get(AFFINITY, defaults.affinity)
    if affinity not in AFFINITIES:
        user = (f'{AFFINITY} is {affinity!r}, and must be one of '
                f'{", ".join(AFFINITIES)}')
        raise Refused(user, user)
    return Sizes(desired=desired, minimum=minimum, affinity=affinity)


def find_problem(*, desired_size: int, min_size: int, cooldown: int,
                 standby: int, size_limit: int) -> str | None:
    """Return why an existing cluster cannot have these sizes.

    :param min_size: with fewer members it is in ERROR.
    :param cooldown: seconds between two changes of its size.
    :param standby: the number of further members that wait.
    :param size_limit: ``[hmsync_cluster] size_limit``.
    :returns: one line without a full stop, or None.
    """
    if not 1 <= desired_size <= size_limit:
        return (f'its desired size would be {desired_size}, and must be '
                f'from 1 to {size_limit} ([hmsync_cluster] size_limit)')
    if not 1 <= min_size <= desired_size:
        return (f'its minimum would be {min_size}, and must be from 1 to '
                f'its desired size, {desired_size}')
    if not 0 <= standby <= MOST_STANDBY:
        return (f'{standby} members would stand by, and {MOST_STANDBY} may '
                f'at most')
    if cooldown < 0:
        return f'its cooldown would be {cooldown} s, and must be 0 or more'
    return None


def read_size(flavor: Mapping[str, Any], key: str) -> int | None:
    """Return a size that a flavor has, or None.

    JSON does not tell integers apart: 4.0 passes validation as 4.
    """
    if key not in flavor:
        return None
    value = flavor[key]
    if (isinstance(value, bool) or not isinstance(value, int | float) or
            not math.isfinite(value) or int(value) != value or value < 1):
        user = f'{key} is {value!r}, and must be a whole number from 1 on'
        raise Refused(user, user)
    return int(value)


def choose_affinity(affinity: str, pools: Iterable[Any]) -> str:
    """Return the affinity that a cluster needs.

    An amphora remembers which client belongs to which member of a pool, and
    shares that with its peer group only. If a pool needs that memory, a client
    must reach the amphorae that have it.

    SOURCE_IP stays when the last such pool is gone: a change would only break
    connections.

    :param affinity: its present one, or that of its flavor.
    :param pools: of its load balancer, as Octavia's data models.
    :returns: one of AFFINITIES.
    """
    if any(pool.session_persistence and
           pool.session_persistence.type in KEPT_BY_AMPHORAE
           for pool in pools):
        return SOURCE_IP
    return affinity
