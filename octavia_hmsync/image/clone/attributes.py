# SPDX-License-Identifier: Apache-2.0

"""Pure: which attributes a clone copies from its source.

Every attribute of the API is listed here. An attribute that a later release
adds is reported before it is lost: see unknown().
"""

import dataclasses
import typing

Raw = typing.Mapping[str, typing.Any]

_COMMON = frozenset((
    'id', 'project_id', 'tenant_id', 'created_at', 'updated_at',
    'provisioning_status', 'operating_status'))


@dataclasses.dataclass(frozen=True)
class Kind:
    """Attributes of one kind of object.

    :ivar copied: sent unchanged, and compared afterwards.
    :ivar own: different in a clone, or derived from other attributes.
    :ivar nested: other objects, or references to them.
    :ivar filled: copied attributes that an object may lack if it is older
                  than they are in Octavia; a new object gets a default.
    """

    name: str
    copied: tuple[str, ...]
    own: frozenset[str]
    nested: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.copied) | self.own | self.nested


# Without these, a TLS listener or pool uses defaults of its TLS library.
TLS_DEFAULTS = ('tls_ciphers', 'tls_versions')

LOAD_BALANCER = Kind(
    'load balancer',
    ('name', 'description', 'admin_state_up', 'provider', 'flavor_id',
     'availability_zone', 'vip_network_id', 'vip_subnet_id',
     'vip_qos_policy_id', 'vip_sg_ids', 'tags'),
    # The kind of the virtual NIC follows from the flavor.
    _COMMON | {'vip_address', 'vip_port_id', 'vip_vnic_type'},
    frozenset(('listeners', 'pools', 'additional_vips')),
    frozenset(('vip_network_id',)))
LISTENER = Kind(
    'listener',
    ('name', 'description', 'admin_state_up', 'protocol', 'protocol_port',
     'connection_limit', 'default_tls_container_ref', 'sni_container_refs',
     'client_ca_tls_container_ref', 'client_authentication',
     'client_crl_container_ref', 'insert_headers', 'timeout_client_data',
     'timeout_member_connect', 'timeout_member_data', 'timeout_tcp_inspect',
     'allowed_cidrs', 'tls_ciphers', 'tls_versions', 'alpn_protocols',
     'hsts_max_age', 'hsts_include_subdomains', 'hsts_preload', 'tags'),
    _COMMON | {'loadbalancers', 'loadbalancer_id', 'load_balancer_id'},
    frozenset(('l7policies', 'default_pool_id', 'default_pool')),
    frozenset(('connection_limit', 'timeout_client_data',
               'timeout_member_connect', 'timeout_member_data',
               'timeout_tcp_inspect', 'alpn_protocols',
               'hsts_include_subdomains', 'hsts_preload', *TLS_DEFAULTS)))
POOL = Kind(
    'pool',
    ('name', 'description', 'admin_state_up', 'protocol', 'lb_algorithm',
     'session_persistence', 'tls_container_ref', 'ca_tls_container_ref',
     'crl_container_ref', 'tls_enabled', 'tls_ciphers', 'tls_versions',
     'alpn_protocols', 'tags'),
    _COMMON | {'loadbalancers', 'loadbalancer_id', 'listeners',
               'listener_id'},
    frozenset(('members', 'healthmonitor', 'healthmonitor_id')),
    frozenset(('alpn_protocols', *TLS_DEFAULTS)))
MEMBER = Kind(
    'member',
    ('name', 'address', 'protocol_port', 'subnet_id', 'weight', 'backup',
     'admin_state_up', 'monitor_address', 'monitor_port', 'vnic_type',
     'tags'), _COMMON, filled=frozenset(('weight',)))
MONITOR = Kind(
    'health monitor',
    ('name', 'type', 'delay', 'timeout', 'max_retries', 'max_retries_down',
     'http_method', 'url_path', 'expected_codes', 'admin_state_up',
     'http_version', 'domain_name', 'tags'),
    _COMMON | {'pools', 'pool_id'},
    filled=frozenset(('http_method', 'url_path', 'expected_codes')))
POLICY = Kind(
    'L7 policy',
    ('name', 'description', 'admin_state_up', 'action', 'position',
     'redirect_url', 'redirect_prefix', 'redirect_http_code', 'tags'),
    _COMMON | {'listener_id'},
    frozenset(('rules', 'redirect_pool_id', 'redirect_pool')),
    frozenset(('redirect_http_code',)))
RULE = Kind(
    'L7 rule',
    ('type', 'compare_type', 'key', 'value', 'invert', 'admin_state_up',
     'tags'), _COMMON)

# The order of these does not matter.
_SETS = frozenset(('tags', 'vip_sg_ids', 'sni_container_refs',
                   'allowed_cidrs', 'tls_versions'))


def is_set(value: object) -> bool:
    """Tell whether an attribute has a value."""
    return value is not None and value != [] and value != {} and value != ''


def unknown(kind: Kind, raw: Raw) -> list[str]:
    """Return the attributes that would be lost, in order."""
    return sorted(name for name, value in raw.items()
                  if name not in kind.known and is_set(value) and
                  value is not False)


def normalize(name: str, value: typing.Any) -> typing.Any:
    """Return a form of a value that can be compared with others."""
    if isinstance(value, (list, tuple)) and name in _SETS:
        value = sorted(value)
    elif isinstance(value, dict):
        value = {key: each for key, each in value.items() if is_set(each)}
    return value if is_set(value) else None
