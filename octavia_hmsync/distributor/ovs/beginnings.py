# SPDX-License-Identifier: Apache-2.0

"""Connections that were just beginning when the members change. Pure.

At rest nothing is remembered of a first packet, but that it is in the cache
of the data path for ten seconds. Where no second packet is there, the answer
may have been lost, or wait for the client: the first packet comes again, and
has to go where it went before.
"""

from collections import abc
import re
import typing

from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import sharing

_PACKET = re.compile(
    r'ipv(?P<family>[46])\(src=(?P<src>[0-9a-f.:]+),dst=(?P<dst>[0-9a-f.:]+),'
    r'proto=6[,)].*\btcp\(src=(?P<port>\d+)[,)].*tcp_flags\((?P<flags>[^)]*)\)'
    r'.* actions:(?P<actions>.*)')
_TARGET = re.compile(r'set\(eth\([^)]*dst=([0-9a-f:]{17})')
_BEGINS = '+syn-ack'
# Less than that of pins that are learned: what comes later replaces it.
_PRIORITY = 5


class Beginning(typing.NamedTuple):
    """A first packet without a second one, and the member that got it."""

    family: str
    source: str
    target: str
    port: int
    mac: str

    def to_text(self) -> str:
        """Return the flow that pins it, as ovs-ofctl takes it."""
        protocol, source, target = openflow.TCP[int(self.family)]
        cookie = sharing.get_pin_cookie(self.mac, sharing.YOUNG)
        return (f'flow add cookie={cookie:#x},table={sharing.HANDSHAKES},'
                f'priority={_PRIORITY},'
                f'hard_timeout={sharing.YOUNG_TIMEOUT},{protocol},'
                f'{source}={self.source},{target}={self.target},'
                f'tcp_src={self.port},actions='
                f'set_field:{sharing.to_number(self.mac):#x}->{sharing.OUT},'
                f'set_field:{sharing.YOUNG}->{sharing.PIN}')


def find(lines: abc.Iterable[str],
         living: abc.Container[str]) -> list[Beginning]:
    """Find connections that begin.

    :param lines: flows of the data path, as "ovs-appctl dpctl/dump-flows"
                  shows them.
    :param living: MAC addresses of the members that may have got them.
    """
    begun: dict[tuple[str, ...], Beginning] = {}
    went_on: set[tuple[str, ...]] = set()
    for line in lines:
        found = _PACKET.search(line)
        if found is None:
            continue
        key = found.group('family', 'src', 'dst', 'port')
        if found['flags'] != _BEGINS:
            went_on.add(key)
            continue
        macs = [mac for mac in _TARGET.findall(found['actions'])
                if mac in living]
        if macs:
            begun[key] = Beginning(key[0], key[1], key[2], int(key[3]),
                                   macs[-1])
    return [one for key, one in begun.items() if key not in went_on]
