# SPDX-License-Identifier: Apache-2.0

"""Rules: which listeners an amphora must serve, and whether it does."""

from collections.abc import Iterable, Iterator, Mapping, Sized

from octavia_hmsync import compat


def find_served(is_enabled: bool, enabled: Mapping[str, bool]) -> list[str]:
    """Return sorted listeners to serve; none if the balancer is disabled."""
    return sorted(listener_id for listener_id, itself in enabled.items()
                  if is_enabled and itself)


def find_missing(amphora_id: str, expected: Iterable[str],
                 statuses: Mapping[str, str]) -> Iterator[str]:
    """Yield in words which listeners an amphora lacks or does not serve."""
    for listener_id in expected:
        status = statuses.get(listener_id)
        if status != compat.ACTIVE:
            yield (f'the agent of amphora {amphora_id} has listener '
                   f'{listener_id} as {status or "none of its own"}')


def may_lack_holder(topology: str | None, its_listeners: Sized) -> bool:
    """Tell whether keepalived may give the VIP to no amphora.

    While a pair has no listener, Octavia's agents have keepalived's check
    fail (vrrp_check_script_update).
    """
    return not its_listeners and (
        compat.AMPHORAE_OF_TOPOLOGY.get(topology) == 2)
