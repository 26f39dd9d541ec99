# SPDX-License-Identifier: Apache-2.0

"""Pure: how a clone differs from its source."""

import dataclasses
import itertools
import json
import typing

from octavia_hmsync.image.clone import attributes as attrs
from octavia_hmsync.image.clone import tags as clone_tags
from octavia_hmsync.image.clone import tree as trees

Raw = trees.Raw


@dataclasses.dataclass(frozen=True)
class Difference:
    """A different attribute, or an object that only one side has."""

    subject: str
    attribute: str
    source: typing.Any
    clone: typing.Any

    def __str__(self) -> str:
        return (f'{self.subject}: {self.attribute} is {self.clone!r}, not '
                f'{self.source!r}')


def compare(source: trees.Tree, clone: trees.Tree,
            name: str | None = None) -> list[Difference]:
    """Compare attribute by attribute.

    A pool that still has its name of the request counts as renamed.

    :param name: the name that the clone was given, if not the source's.
    :returns: all differences, except for the clone's own attributes, and
              for Octavia's defaults of attributes that the source lacks.
    """
    pools = match_pools(source, clone)
    found = list(_attributes('load balancer', attrs.LOAD_BALANCER,
                             source.root, clone.root,
                             skip=('name',) if name else ()))
    found += _value('load balancer', 'additional_vips',
                    *([vip[2] for vip in tree.vips[1:]]
                      for tree in (source, clone)))
    found += _listeners(source, clone, pools)
    found += _pools(source, clone, pools)
    return found


def match_listeners(source: trees.Tree, clone: trees.Tree
                    ) -> list[tuple[Raw | None, Raw | None]]:
    """Pair listeners by protocol and port, which no two share."""
    return _match(source.listeners, clone.listeners,
                  lambda raw: (raw['protocol'], raw['protocol_port']))


def match_members(source: Raw, clone: Raw
                  ) -> list[tuple[Raw | None, Raw | None]]:
    """Pair members of two pools by address and port, which no two share."""
    return _match(source['members'], clone['members'],
                  lambda raw: (raw['address'], raw['protocol_port']))


def match_pools(source: trees.Tree, clone: trees.Tree) -> dict[str, Raw]:
    """Find the pool of the clone for each pool of the source.

    It goes by the name in the request, then by references to the pool, then
    by the name and equality, since names may be empty or not unique.

    :returns: {id of the source's pool: the clone's pool}.
    """
    left = {pool['id']: pool for pool in clone.pools}
    found: dict[str, Raw] = {}

    def pair(source_id: str | None, clone_id: str | None) -> None:
        if source_id and source_id not in found and clone_id in left:
            found[source_id] = left.pop(clone_id)

    by_name = {pool.get('name'): pool['id'] for pool in clone.pools}
    for pool in source.pools:
        pair(pool['id'], by_name.get(pool['id']))
    for ours, theirs in match_listeners(source, clone):
        if ours is None or theirs is None:
            continue
        pair(ours.get('default_pool_id'), theirs.get('default_pool_id'))
        for policy, other in zip(
                trees.by_position(ours['l7policies']),
                trees.by_position(theirs['l7policies'])):
            pair(policy.get('redirect_pool_id'),
                 other.get('redirect_pool_id'))
    rest = [pool for pool in source.pools if pool['id'] not in found]
    for equal in (True, False):
        for pool in rest:
            for other in list(left.values()):
                if (pool['id'] not in found and
                        pool.get('name') == other.get('name') and
                        (not equal or not list(_pool('', pool, other)))):
                    pair(pool['id'], other['id'])
    return found


def _match(ours: list[Raw], theirs: list[Raw],
           key: typing.Callable[[Raw], typing.Any]
           ) -> list[tuple[Raw | None, Raw | None]]:
    left = {key(raw): raw for raw in theirs}
    pairs: list[tuple[Raw | None, Raw | None]] = [
        (raw, left.pop(key(raw), None)) for raw in ours]
    return pairs + [(None, raw) for raw in left.values()]


def _value(subject: str, name: str, ours: object, theirs: object
           ) -> typing.Iterator[Difference]:
    ours, theirs = (attrs.normalize(name, ours),
                    attrs.normalize(name, theirs))
    if ours != theirs:
        yield Difference(subject, name, ours, theirs)


def _attributes(subject: str, kind: attrs.Kind, ours: Raw, theirs: Raw,
                skip: typing.Collection[str] = ()
                ) -> typing.Iterator[Difference]:
    for name in kind.copied:
        if name in skip:
            continue
        pair = [raw.get(name) for raw in (ours, theirs)]
        if name in kind.filled and not attrs.is_set(pair[0]):
            continue
        if kind is attrs.LOAD_BALANCER and name == 'tags':
            pair = [clone_tags.foreign(tags) for tags in pair]
        yield from _value(subject, name, *pair)


def _presence(subject: str, ours: object, theirs: object) -> Difference:
    return Difference(subject, 'existence', *(
        'there' if each else 'missing' for each in (ours, theirs)))


def _listeners(source: trees.Tree, clone: trees.Tree, pools: dict[str, Raw]
               ) -> typing.Iterator[Difference]:
    for ours, theirs in match_listeners(source, clone):
        raw = ours or theirs or {}
        subject = f'listener {raw["protocol"]} {raw["protocol_port"]}'
        if ours is None or theirs is None:
            yield _presence(subject, ours, theirs)
            continue
        yield from _attributes(subject, attrs.LISTENER, ours, theirs)
        yield from _reference(subject, 'default_pool_id', ours, theirs,
                              pools)
        for number, (policy, other) in enumerate(itertools.zip_longest(
                trees.by_position(ours['l7policies']),
                trees.by_position(theirs['l7policies'])), 1):
            yield from _policy(f'{subject}, L7 policy {number}', policy,
                               other, pools)


def _reference(subject: str, name: str, ours: Raw, theirs: Raw,
               pools: dict[str, Raw]) -> typing.Iterator[Difference]:
    wanted = ours.get(name)
    if wanted:
        wanted = pools.get(wanted, {}).get('id', wanted)
    yield from _value(subject, name, wanted, theirs.get(name))


def _policy(subject: str, ours: Raw | None, theirs: Raw | None,
            pools: dict[str, Raw]) -> typing.Iterator[Difference]:
    if ours is None or theirs is None:
        yield _presence(subject, ours, theirs)
        return
    yield from _attributes(subject, attrs.POLICY, ours, theirs)
    yield from _reference(subject, 'redirect_pool_id', ours, theirs, pools)
    # Rules have neither a name nor an order.
    wanted, found = ([_canonical(rule) for rule in raw['rules']]
                     for raw in (ours, theirs))
    for rule in sorted({*wanted, *found}):
        if wanted.count(rule) != found.count(rule):
            yield Difference(f'{subject}, L7 rule {rule}', 'count',
                             wanted.count(rule), found.count(rule))


def _canonical(rule: Raw) -> str:
    return json.dumps({name: attrs.normalize(name, rule.get(name))
                       for name in attrs.RULE.copied
                       if attrs.is_set(rule.get(name))})


def _pools(source: trees.Tree, clone: trees.Tree, pools: dict[str, Raw]
           ) -> typing.Iterator[Difference]:
    for pool in source.pools:
        subject = f'pool {pool.get("name") or pool["id"]}'
        other = pools.get(pool['id'])
        if other is None:
            yield _presence(subject, pool, None)
        else:
            yield from _pool(subject, pool, other)
    taken = {pool['id'] for pool in pools.values()}
    for other in clone.pools:
        if other['id'] not in taken:
            yield _presence(f'pool {other.get("name") or other["id"]}', None,
                            other)


def _pool(subject: str, ours: Raw, theirs: Raw
          ) -> typing.Iterator[Difference]:
    yield from _attributes(
        subject, attrs.POOL, ours, theirs,
        skip=('name',) if theirs.get('name') == ours['id'] else ())
    monitor, other = ours['healthmonitor'], theirs['healthmonitor']
    if bool(monitor) != bool(other):
        yield _presence(f'{subject}, health monitor', monitor, other)
    elif monitor:
        yield from _attributes(f'{subject}, health monitor', attrs.MONITOR,
                               monitor, other)
    for mine, its in match_members(ours, theirs):
        raw = mine or its or {}
        name = f'{subject}, member {raw["address"]}:{raw["protocol_port"]}'
        if mine is None or its is None:
            yield _presence(name, mine, its)
        else:
            yield from _attributes(name, attrs.MEMBER, mine, its)
