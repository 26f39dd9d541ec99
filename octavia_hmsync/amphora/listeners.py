# SPDX-License-Identifier: Apache-2.0

"""Which listeners an amphora is to serve, and whether it does: rules."""

from collections.abc import Iterable, Iterator, Mapping

from octavia_hmsync import compat


def find_served(is_enabled: bool, enabled: Mapping[str, bool]) -> list[str]:
    """Tell which listeners amphorae are to serve.

    Octavia renders no listener of a load balancer that is disabled.

    :param is_enabled: whether the load balancer is.
    :param enabled: {id: whether the listener is}.
    :returns: ids, in order.
    """
    return sorted(listener_id for listener_id, itself in enabled.items()
                  if is_enabled and itself)


def find_missing(amphora_id: str, expected: Iterable[str],
                 statuses: Mapping[str, str]) -> Iterator[str]:
    """Tell which listeners an amphora lacks, or does not serve.

    :param amphora_id: of which amphora.
    :param expected: the ids of those that it is to serve.
    :param statuses: {id: status}, as its agent has them.
    :returns: in words.
    """
    for listener_id in expected:
        status = statuses.get(listener_id)
        if status != compat.ACTIVE:
            yield (f'the agent of amphora {amphora_id} has listener '
                   f'{listener_id} as {status or "none of its own"}')
