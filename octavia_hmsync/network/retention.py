# SPDX-License-Identifier: Apache-2.0

"""When the port of a node may be deleted: pure rules.

Neutron may give the address of a deleted port to another port. Heartbeats that
still go there would arrive at a stranger, and Octavia would take their
amphorae for dead.
"""

from collections import abc
import dataclasses

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import member as mem

# Seconds within which a node, which plugs each minute, has done so again even
# after a delay.
_PLUGGED_AGAIN = 300


@dataclasses.dataclass(frozen=True)
class UsedLists:
    """The lists that an amphora uses, or may use, or may still get."""

    addresses: tuple[str, ...] | None
    others: tuple[tuple[str, ...], ...] = ()
    is_unknown: bool = False


def is_left(is_registered: bool, plugged_age: float | None,
            member: mem.Member | None, retention: float,
            offline_after: float, reader_steady_for: float) -> bool:
    """Tell whether a port is no longer used.

    So if its health manager was deleted, or is dead and the node has stopped
    plugging the port.

    :param plugged_age: seconds since the node plugged it last; None if
                        another tool plugs it.
    :param retention: ``[hmsync_network] port_retention``, seconds; 0 keeps
                      it until its health manager is deleted.
    """
    if member is None:
        if is_registered:
            # An octavia-worker of the node may still use it.
            return plugged_age is None or (
                plugged_age > min(retention or _PLUGGED_AGAIN,
                                  _PLUGGED_AGAIN))
        return plugged_age is not None and 0 < retention < plugged_age
    if mem.state_of(member, offline_after,
                    reader_steady_for) is not mem.State.DEAD:
        return False
    if plugged_age is None:
        return 0 < retention < member.keepalive_age
    return 0 < retention < min(member.keepalive_age, plugged_age)


def has_address(ip_addresses: abc.Collection[str],
                addresses: abc.Iterable[str]) -> bool:
    """Tell whether a list has a port's address, with any UDP port."""
    return any(str(addr.parse_address(entry)[0]) in ip_addresses
               for entry in addresses)


def may_send(ip_addresses: abc.Collection[str], used: UsedLists) -> bool:
    """Tell whether an amphora may send to a port, now or later."""
    if used.addresses is None or used.is_unknown:
        return True
    return any(has_address(ip_addresses, addresses)
               for addresses in (used.addresses, *used.others))
