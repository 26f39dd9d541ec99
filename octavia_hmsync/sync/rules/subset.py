# SPDX-License-Identifier: Apache-2.0

"""Which of the published addresses one amphora gets."""

from collections import abc
import hashlib
import itertools
import math

from octavia_hmsync import addresses as addr


def max_list_length(heartbeat_timeout: float,
                    heartbeat_interval: float) -> int:
    """Return how many addresses one amphora's list may hold.

    An amphora sends each heartbeat to one address, round robin. With a longer
    list, a single live health manager hears it too rarely, and Octavia
    declares it dead.

    :returns: at least 1.
    """
    return max(1, math.floor(heartbeat_timeout / heartbeat_interval) - 1)


def assign_slots(previous: abc.Mapping[str, int],
                 addresses: abc.Collection[str]) -> dict[str, int]:
    """Give each published address a slot, by which subsets are chosen.

    An address keeps its slot. A new address takes the slot of an address that
    leaves, if there is one: then the change concerns only the amphorae that
    had the old address.

    :returns: slot by address, in the order of the list.
    """
    slots = {a: previous[a] for a in addresses if a in previous}
    freed = sorted(slot for a, slot in previous.items() if a not in slots)
    taken = set(slots.values())
    others = (n for n in itertools.count() if n not in taken | set(freed))
    candidates = itertools.chain(freed, others)
    # A slot that was freed earlier is taken before a new one.
    free = sorted(itertools.islice(candidates, len(addresses) - len(slots)))
    for address in addr.canonical(addresses):
        if address not in slots:
            slots[address] = free.pop(0)
    return {a: slots[a] for a in addresses}


def rank(key: str, slot: int) -> bytes:
    """Return by what a key orders slots (rendezvous hashing)."""
    return hashlib.sha256(f'{key}|{slot}'.encode()).digest()


def subset(key: str, slots: abc.Mapping[str, int],
           length: int) -> tuple[str, ...]:
    """Choose the addresses for one amphora by rendezvous hashing.

    Each key ranks all slots in its own order and takes the first ones. So the
    load is even, and a change of one slot concerns only the keys that had it
    or now get it.

    :returns: in the canonical order; all addresses if they fit.
    """
    addresses = list(slots)
    if len(addresses) > length:
        addresses.sort(key=lambda a: rank(key, slots[a]))
    return addr.canonical(addresses[:length])
