# SPDX-License-Identifier: Apache-2.0

"""Pure: a load balancer with all its children."""

import collections
import dataclasses
import typing

from octavia_hmsync.image.clone import attributes as attrs
from octavia_hmsync.image.clone import tags as clone_tags

Raw = dict[str, typing.Any]

_TLS_LISTENER = 'TERMINATED_HTTPS'
_NO_HTTP2 = ('http/1.1', 'http/1.0')
_DIRECT = 'direct'


@dataclasses.dataclass(frozen=True)
class Tree:
    """A load balancer as the API shows it.

    :ivar listeners: each with its policies in "l7policies", and these with
                     their rules in "rules".
    :ivar pools: each with its "members", and its "healthmonitor" or None.
    """

    root: Raw
    listeners: list[Raw]
    pools: list[Raw]

    @property
    def id(self) -> str:
        """Return the id of the load balancer."""
        return str(self.root['id'])

    @property
    def vips(self) -> list[tuple[str, str, str | None]]:
        """Return (port, address, subnet) of each VIP, the first one first."""
        root = self.root
        return [(root['vip_port_id'], root['vip_address'],
                 root.get('vip_subnet_id')),
                *((vip.get('port_id') or root['vip_port_id'],
                   vip['ip_address'], vip.get('subnet_id'))
                  for vip in root.get('additional_vips') or ())]


def walk(tree: Tree) -> typing.Iterator[tuple[attrs.Kind, Raw]]:
    """Yield each object with its kind."""
    yield attrs.LOAD_BALANCER, tree.root
    for listener in tree.listeners:
        yield attrs.LISTENER, listener
        for policy in listener['l7policies']:
            yield attrs.POLICY, policy
            for rule in policy['rules']:
                yield attrs.RULE, rule
    for pool in tree.pools:
        yield attrs.POOL, pool
        for member in pool['members']:
            yield attrs.MEMBER, member
        if pool['healthmonitor']:
            yield attrs.MONITOR, pool['healthmonitor']


def count(tree: Tree) -> collections.Counter[str]:
    """Return how many objects of each kind it has."""
    return collections.Counter(kind.name for kind, _raw in walk(tree))


def find_tls_defaults(tree: Tree) -> list[tuple[str, list[str]]]:
    """Return TLS attributes that only the clone gets a default for.

    :returns: (listener or pool in words, names of attributes), where there
              are any.
    """
    speakers = [(f'listener {raw["protocol"]} {raw["protocol_port"]}', raw)
                for raw in tree.listeners
                if raw.get('protocol') == _TLS_LISTENER]
    speakers += [(f'pool {raw.get("name") or raw["id"]}', raw)
                 for raw in tree.pools if raw.get('tls_enabled')]
    found = [(words, [name for name in attrs.TLS_DEFAULTS
                      if name in raw and not attrs.is_set(raw[name])])
             for words, raw in speakers]
    return [(words, names) for words, names in found if names]


def find_unknown(tree: Tree) -> list[tuple[str, str, str]]:
    """Return (kind, id, attribute) of all that would be lost."""
    return [(kind.name, raw['id'], name) for kind, raw in walk(tree)
            for name in attrs.unknown(kind, raw)]


def name_pools(tree: Tree) -> dict[str, str]:
    """Return the name of each pool in the request, by its id.

    The request tells pools apart by name. A pool without a unique name gets
    its id as its name, until it is renamed.
    """
    names = collections.Counter(pool.get('name') for pool in tree.pools)
    return {pool['id']: pool['name']
            if pool.get('name') and names[pool['name']] == 1 else pool['id']
            for pool in tree.pools}


def find_renames(source: Tree, clone: Tree) -> dict[str, str]:
    """Return {id: name} of the clone's pools that are to be renamed."""
    names = {pool['id']: pool.get('name') or '' for pool in source.pools}
    return {pool['id']: names[pool['name']] for pool in clone.pools
            if pool.get('name') in names and
            names[pool['name']] != pool['name']}


def build_request(source: Tree, name: str | None,
                  floating_ips: typing.Iterable[str]) -> Raw:
    """Return the request that makes the whole clone.

    :param name: of the clone, None for the name of the source.
    :param floating_ips: ids to be recorded in tags.
    """
    pool_names = name_pools(source)
    made = _copy(attrs.LOAD_BALANCER, source.root)
    if made.get('vip_subnet_id'):
        # A deployment may reject a request with both.
        made.pop('vip_network_id', None)
    if name:
        made['name'] = name
    made['project_id'] = source.root['project_id']
    made['tags'] = [
        *clone_tags.foreign(source.root.get('tags')),
        clone_tags.make(clone_tags.CLONE_OF, source.id),
        *(clone_tags.make(clone_tags.FLOATING_IP, each)
          for each in floating_ips)]
    more = [{'subnet_id': subnet} for _port, _ip, subnet in source.vips[1:]]
    if more:
        made['additional_vips'] = more
    made['pools'] = [_pool(pool, pool_names) for pool in source.pools]
    made['listeners'] = [_listener(listener, pool_names)
                         for listener in source.listeners]
    return made


def _copy(kind: attrs.Kind, raw: Raw) -> Raw:
    return {name: raw[name] for name in kind.copied
            if attrs.is_set(raw.get(name))}


def _pool(pool: Raw, names: dict[str, str]) -> Raw:
    made = _copy(attrs.POOL, pool)
    made['name'] = names[pool['id']]
    if 'session_persistence' in made:
        made['session_persistence'] = {
            name: value for name, value in
            made['session_persistence'].items() if attrs.is_set(value)}
    if pool.get('tls_enabled'):
        _copy_protocols(pool, made)
    made['members'] = [_member(member) for member in pool['members']]
    if pool['healthmonitor']:
        made['healthmonitor'] = _copy(attrs.MONITOR, pool['healthmonitor'])
    return made


def _member(member: Raw) -> Raw:
    made = _copy(attrs.MEMBER, member)
    if made.pop('vnic_type', None) == _DIRECT:
        # The request has another attribute for it than the answer.
        made['request_sriov'] = True
    return made


def _listener(listener: Raw, names: dict[str, str]) -> Raw:
    made = _copy(attrs.LISTENER, listener)
    if listener.get('protocol') == _TLS_LISTENER:
        _copy_protocols(listener, made)
    if listener.get('default_pool_id'):
        made['default_pool'] = {'name': names[listener['default_pool_id']]}
    made['l7policies'] = [_policy(policy, names) for policy in
                          by_position(listener['l7policies'])]
    return made


def _copy_protocols(raw: Raw, made: Raw) -> None:
    """Set HTTP/1.1 explicitly where ALPN is off, as the default has HTTP/2.

    Octavia rejects an empty list.
    """
    if 'alpn_protocols' in raw:
        made['alpn_protocols'] = raw['alpn_protocols'] or list(_NO_HTTP2)


def by_position(policies: list[Raw]) -> list[Raw]:
    """Return L7 policies in the order of their evaluation."""
    return sorted(policies, key=lambda policy: policy.get('position') or 0)


def _policy(policy: Raw, names: dict[str, str]) -> Raw:
    made = _copy(attrs.POLICY, policy)
    if policy.get('redirect_pool_id'):
        made['redirect_pool'] = {'name': names[policy['redirect_pool_id']]}
    made['rules'] = [_copy(attrs.RULE, rule) for rule in policy['rules']]
    return made
