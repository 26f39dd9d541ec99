# SPDX-License-Identifier: Apache-2.0

"""Counters of flows, as ovs-ofctl shows them. Pure."""

import collections
from collections import abc
import re
import typing

from octavia_hmsync.distributor.ovs import answers

_CLAIMS = re.compile(
    rf'n_packets=(\d+),.* priority={answers.CLAIM_PRIORITY}[ ,]')
_COOKIE = re.compile('cookie=(0x[0-9a-f]+),')
_SENT_TO = re.compile(r'set_field:([0-9a-f:]{17})->eth_dst')


class Read(typing.NamedTuple):
    """What is programmed into a bridge.

    :param flows: a dict from the cookie to the number of its flows.
    :param macs: the MAC addresses to which something is sent.
    """

    flows: dict[int, int]
    macs: set[str]


def read_program(lines: abc.Collection[str]) -> Read:
    """Return what is programmed, from all flows that are not learned."""
    # Flows that a flow learns have another cookie.
    cookies = collections.Counter(
        int(found.group(1), 16) for found in map(_COOKIE.match, lines)
        if found)
    return Read(dict(cookies), {
        found.group(1) for found in map(_SENT_TO.search, lines) if found})


def sum_claims(lines: abc.Iterable[str]) -> int:
    """Return how often others said that an address of the VIP were theirs.

    :param lines: flows of the table CLASSIFY.
    """
    return sum(int(found.group(1)) for found in map(_CLAIMS.search, lines)
               if found)
