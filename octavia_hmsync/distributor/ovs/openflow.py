# SPDX-License-Identifier: Apache-2.0

"""OpenFlow in words: flows, groups, and the text of them. Pure."""

from collections import abc
import dataclasses
import hashlib
import typing

# The first byte of the cookie of all flows that are programmed; what those
# learn has 0 there.
COOKIE_PREFIX = 0x6d << 56
COOKIE_PREFIX_MASK = 0xff << 56
_DIGEST_BITS = 56
# By family, what matches TCP, and its source and destination address.
TCP = {4: ('tcp', 'nw_src', 'nw_dst'), 6: ('tcp6', 'ipv6_src', 'ipv6_dst')}
_ALL_BITS = 0xffffffffffffffff


class Match(typing.NamedTuple):
    """Which flows are meant; all of a bridge by default.

    :param table: the number of their table; None for any.
    :param mask: the bits of it that count.
    :param register: the number of a register of 64 bits that they match, and
                     its content; None for all flows.
    """

    table: int | None = None
    cookie: int = 0
    mask: int = 0
    register: tuple[int, int] | None = None

    def to_text(self) -> str:
        """Return it as ovs-ofctl takes it."""
        terms = [f'cookie={self.cookie:#x}/{self.mask:#x}']
        if self.table is not None:
            terms.append(f'table={self.table}')
        if self.register is not None:
            terms.append('xreg{}={:#x}'.format(*self.register))
        return ','.join(terms)


# All that is programmed, and nothing that was learned.
PROGRAMS = Match(cookie=COOKIE_PREFIX, mask=COOKIE_PREFIX_MASK)


@dataclasses.dataclass(frozen=True)
class Flow:
    """A flow.

    :param priority: the highest match is taken.
    :param match: as ovs-ofctl takes it: 'tcp', 'eth_src=fa:16:3e:00:00:01'.
    :param actions: as ovs-ofctl takes them; none drops.
    """

    table: int
    priority: int
    match: tuple[str, ...]
    actions: tuple[str, ...]

    def to_text(self) -> str:
        actions = ','.join(self.actions) or 'drop'
        return ','.join((f'table={self.table}', f'priority={self.priority}',
                         *self.match, f'actions={actions}'))


@dataclasses.dataclass(frozen=True)
class Group:
    """A group that selects a bucket by a hash.

    :param fields: what is hashed, where a packet has it.
    :param buckets: pairs of a stable number and what is done.
    """

    id: int
    fields: tuple[str, ...]
    buckets: tuple[tuple[int, tuple[str, ...]], ...]

    def to_text(self) -> str:
        buckets = (f'bucket=bucket_id:{number},actions={",".join(actions)}'
                   for number, actions in self.buckets)
        return ','.join((f'group_id={self.id}', 'type=select',
                         'selection_method=hash',
                         f'fields({",".join(self.fields)})', *buckets))


@dataclasses.dataclass(frozen=True)
class Meter:
    """Drops packets beyond a rate.

    Its number tells the rate, as the flows that name it are what is compared.

    :param kind: 0 or 1, as two may have the same rate.
    :param rate: packets in a second.
    """

    kind: int
    rate: int

    @property
    def id(self) -> int:
        """Its number; some data paths take up to 65535."""
        return 2 * self.rate + self.kind

    @property
    def action(self) -> str:
        """What a flow does to have its packets counted and dropped."""
        return f'meter:{self.id}'


@dataclasses.dataclass(frozen=True)
class Program:
    """All that is programmed into one bridge.

    :param groups: in an order in which none needs a later one.
    :param meters: which must be there before.
    """

    groups: tuple[Group, ...]
    flows: tuple[Flow, ...]
    meters: tuple[Meter, ...] = ()

    @property
    def cookie(self) -> int:
        """The cookie of all its flows, which says what it consists of.

        So it can be seen of a bridge whether this is what it has.
        """
        text = '\n'.join((*(group.to_text() for group in self.groups),
                          *(flow.to_text() for flow in self.flows)))
        digest = hashlib.sha256(text.encode()).digest()
        return COOKIE_PREFIX | int.from_bytes(digest[:_DIGEST_BITS // 8],
                                              'big')

    @property
    def match(self) -> Match:
        """Its flows."""
        return Match(cookie=self.cookie, mask=_ALL_BITS)

    def to_bundle(self, old_cookies: abc.Iterable[int],
                  old_groups: abc.Iterable[int],
                  forget: abc.Iterable[str] = ()) -> list[str]:
        """Return the lines that put it in the place of another one.

        A flow that both have is replaced, and keeps its counters.

        :param old_cookies: those of what is there now.
        :param old_groups: the ids of the groups that are there now.
        :param forget: matches of flows that were learned and have to go.
        :returns: a bundle, as ovs-ofctl takes it: all of it comes into force
                  at once.
        """
        cookie = self.cookie
        kept = {group.id for group in self.groups}
        return [
            *(f'group add_or_mod {group.to_text()}' for group in self.groups),
            *(f'flow add cookie={cookie:#x},{flow.to_text()}'
              for flow in self.flows),
            *(f'flow delete cookie={old:#x}/-1'
              for old in sorted(set(old_cookies) - {cookie})),
            *(f'flow delete {match}' for match in forget),
            *(f'group delete group_id={old}'
              for old in sorted(set(old_groups) - kept)),
        ]
