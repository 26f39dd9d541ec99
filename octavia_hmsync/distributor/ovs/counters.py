# SPDX-License-Identifier: Apache-2.0

"""Counters of flows, as ovs-ofctl shows them. Pure."""

import collections
from collections import abc
import re
import typing

from octavia_hmsync.distributor.ovs import answers

_FLOW = re.compile(
    r'n_packets=(\d+), n_bytes=(\d+).* priority=(\d+).* actions=(.*)')
_COOKIE = re.compile('cookie=(0x[0-9a-f]+),')
_SENT_TO = re.compile(r'set_field:([0-9a-f:]{17})->eth_dst')


def sum_output(lines: abc.Iterable[str]) -> dict[str, dict[str, int]]:
    """Return what was sent to each member.

    :param lines: flows of the table OUTPUT.
    :returns: a dict from the MAC address to a dict with packets and bytes.
    """
    found: dict[str, dict[str, int]] = {}
    for packets, size, _, actions in _parse(lines):
        target = _SENT_TO.search(actions)
        if target:
            one = found.setdefault(target.group(1),
                                   {'packets': 0, 'bytes': 0})
            one['packets'] += packets
            one['bytes'] += size
    return found


class Read(typing.NamedTuple):
    """What is programmed into a bridge.

    :param flows: a dict from the cookie to the number of its flows.
    :param macs: the MAC addresses to which something is sent.
    """

    flows: dict[int, int]
    macs: set[str]


def read_program(lines: abc.Collection[str]) -> Read:
    """Return what is programmed.

    :param lines: all flows that are not learned.
    """
    # What a flow gives to those that it learns is another cookie.
    cookies = collections.Counter(
        int(found.group(1), 16) for found in map(_COOKIE.match, lines)
        if found)
    return Read(dict(cookies), set(sum_output(lines)))


def sum_claims(lines: abc.Iterable[str]) -> int:
    """Return how often others said that an address of the VIP were theirs.

    :param lines: flows of the table CLASSIFY.
    """
    return sum(packets for packets, _, priority, _ in _parse(lines)
               if priority == answers.CLAIM_PRIORITY)


def _parse(lines: abc.Iterable[str]) -> abc.Iterator[
        tuple[int, int, int, str]]:
    for line in lines:
        found = _FLOW.search(line)
        if found:
            packets, size, priority, actions = found.groups()
            yield int(packets), int(size), int(priority), actions
