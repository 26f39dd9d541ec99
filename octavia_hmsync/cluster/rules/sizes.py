# SPDX-License-Identifier: Apache-2.0

"""How many amphorae a cluster has, and how connections are spread: rules."""

from collections.abc import Mapping
import dataclasses
import math
from typing import Any

DESIRED_SIZE = 'cluster_desired_size'
MIN_SIZE = 'cluster_min_size'
AFFINITY = 'cluster_affinity'
KEYS = (DESIRED_SIZE, MIN_SIZE, AFFINITY)

# Each connection for itself, or all of a client's to the same amphora.
FLOW = 'FLOW'
SOURCE_IP = 'SOURCE_IP'
AFFINITIES = (FLOW, SOURCE_IP)
# Of any cluster, as the option has it.
MOST_STANDBY = 8


class Refused(Exception):
    """Sizes that cannot be.

    :param user: what is wrong, for whoever asked for a load balancer or made
                 a flavor; None where only the configuration is to blame.
    :param operator: the same, with the options that matter.
    """

    def __init__(self, user: str | None, operator: str) -> None:
        super().__init__(operator)
        self.user = user
        self.operator = operator


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What the options have.

    :param desired_size: of a cluster whose flavor has none.
    :param min_size: the same.
    :param size_limit: no cluster may be larger.
    :param affinity: as desired_size.
    """

    desired_size: int
    min_size: int
    size_limit: int
    affinity: str


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What a cluster is to be.

    :param desired: how many amphorae.
    :param minimum: with fewer that are well it is in ERROR.
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
    """Check that the options agree with each other.

    :raises Refused: naming the option and what to do.
    """
    if defaults.size_limit < 1:
        raise Refused(None, '[hmsync_cluster] size_limit has to be 1 or more')
    if not 1 <= defaults.desired_size <= defaults.size_limit:
        raise Refused(
            None, f'[hmsync_cluster] desired_size is {defaults.desired_size}: '
                  f'it has to be from 1 to size_limit, '
                  f'{defaults.size_limit}')
    if not 1 <= defaults.min_size <= defaults.desired_size:
        raise Refused(
            None, f'[hmsync_cluster] min_size is {defaults.min_size}: it has '
                  f'to be from 1 to desired_size, {defaults.desired_size}')
    if defaults.affinity not in AFFINITIES:
        raise Refused(
            None, f'[hmsync_cluster] affinity is {defaults.affinity}: it has '
                  f'to be one of {", ".join(AFFINITIES)}')


def resolve(flavor: Mapping[str, Any], defaults: Defaults) -> Sizes:
    """Decide what a cluster is to be.

    What a flavor says holds as it says it. Without a minimum a smaller
    cluster has a smaller one; without a size a larger minimum makes no larger
    cluster.

    :param flavor: what the flavor has, of which KEYS are read.
    :param defaults: of the options.
    :raises Refused: if no cluster can be so.
    """
    check_defaults(defaults)
    desired = _read_size(flavor, DESIRED_SIZE)
    minimum = _read_size(flavor, MIN_SIZE)
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
        user = (f'{AFFINITY} is {affinity!r}, and has to be one of '
                f'{", ".join(AFFINITIES)}')
        raise Refused(user, user)
    return Sizes(desired=desired, minimum=minimum, affinity=affinity)


def find_problem(*, desired_size: int, min_size: int, cooldown: int,
                 standby: int, size_limit: int) -> str | None:
    """Tell why a cluster that is there cannot have these sizes.

    :param desired_size: how many members it is to have.
    :param min_size: with fewer it is in ERROR.
    :param cooldown: seconds between two changes of its size.
    :param standby: how many more wait.
    :param size_limit: ``[hmsync_cluster] size_limit``.
    :returns: one line without a full stop, None if it can.
    """
    if not 1 <= desired_size <= size_limit:
        return (f'its desired size would be {desired_size}, and has to be '
                f'from 1 to {size_limit} ([hmsync_cluster] size_limit)')
    if not 1 <= min_size <= desired_size:
        return (f'its minimum would be {min_size}, and has to be from 1 to '
                f'its desired size, {desired_size}')
    if not 0 <= standby <= MOST_STANDBY:
        return (f'{standby} members would stand by, and {MOST_STANDBY} may '
                f'at most')
    if cooldown < 0:
        return f'its cooldown would be {cooldown} s, and has to be 0 or more'
    return None


def _read_size(flavor: Mapping[str, Any], key: str) -> int | None:
    """Return a size that a flavor has, or None.

    JSON has no integers of its own: 4.0 is 4 to who validates a flavor.
    """
    if key not in flavor:
        return None
    value = flavor[key]
    if (isinstance(value, bool) or not isinstance(value, int | float) or
            not math.isfinite(value) or int(value) != value or value < 1):
        user = f'{key} is {value!r}, and has to be a whole number from 1 on'
        raise Refused(user, user)
    return int(value)
