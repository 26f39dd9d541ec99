# SPDX-License-Identifier: Apache-2.0

"""What a VIP document has to look like: JSON schemas.

What no schema can say, such as that no two members have one slot, is checked
in document.py.
"""

import typing

Schema = dict[str, typing.Any]

# Group ids, bucket ids and registers of Open vSwitch could carry more; more
# was not measured.
MAX_SLOT = 255
# A port can have as many address pairs, unless Neutron is told otherwise.
MAX_ADDRESSES = 10
MAX_VERSION = 2 ** 53 - 1
# A cluster has two distributors; a third one may be on its way in.
MAX_PARTNERS = 3
# Mappings of before the current one, and connections that another distributor
# is told of.
MAX_FORMERS = 4
MAX_PINS = 20000
# Of one node, in the subnets of a VIP, and listeners that are probed.
MAX_PROBE_ADDRESSES = 10
MAX_PROBE_PORTS = 16
# Seconds that a controller may wait for news.
MAX_WAIT = 60

ALGORITHMS = ('HASH',)
FLOW = 'FLOW'
SOURCE_IP = 'SOURCE_IP'
AFFINITIES = (FLOW, SOURCE_IP)
ACTIVE = 'ACTIVE'
DRAINING = 'DRAINING'
DEAD = 'DEAD'
STATES = (ACTIVE, DRAINING, DEAD)

UUID = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
# Of one device: the last bit of the first octet would make it a group.
MAC = '^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$'

# With a length, as Python's $ takes a line feed for nothing.
_ID: Schema = {'type': 'string', 'pattern': UUID, 'maxLength': 36}
_MAC: Schema = {'type': 'string', 'pattern': MAC, 'maxLength': 17}
_ADDRESS: Schema = {'type': 'string', 'format': 'ip'}
_PORT: Schema = {'type': 'integer', 'minimum': 0, 'maximum': 65535}
_SLOT: Schema = {'type': 'integer', 'minimum': 0, 'maximum': MAX_SLOT}


def _object(**properties: Schema) -> Schema:
    return {'type': 'object', 'properties': properties,
            'required': list(properties), 'additionalProperties': False}


VIP_ID: Schema = {
    **_ID, 'description': 'The id of the cluster.'}

VERSION: Schema = {
    'type': 'integer', 'minimum': 1, 'maximum': MAX_VERSION,
    'description': 'Each change has a higher one. What has a lower one than '
                   'that in force, or the same with other content, is '
                   'refused.'}

MEMBER: Schema = {
    **_object(
        id={**_ID, 'description': 'The id of the amphora.'},
        slot={**_SLOT,
              'description': 'Its place in the hash, for as long as it lives; '
                             'its successor takes it over.'},
        peer_group={'type': 'integer', 'minimum': 0, 'maximum': MAX_SLOT,
                    'description': 'Members with the same one share their '
                                   'stick tables.'},
        mac={**_MAC, 'type': ['string', 'null'],
             'description': 'Of its port in the network of the VIP. null '
                            'only if it is DEAD.'},
        state={'type': 'string', 'enum': list(STATES),
               'description': 'ACTIVE takes new connections, DRAINING keeps '
                              'what it has, DEAD has an empty slot.'}),
    'title': 'Member'}

PORT: Schema = {
    **_object(
        id={**_ID, 'description': 'Of the Neutron port of this distributor.'},
        mac={**_MAC, 'description': 'Its own MAC address.'},
        mtu={'type': 'integer', 'minimum': 576, 'maximum': 65535,
             'description': 'That of the network.'}),
    'title': 'Port'}

PROBE: Schema = {
    **_object(
        addresses={'type': 'array', 'minItems': 1,
                   'maxItems': MAX_PROBE_ADDRESSES,
                   'items': {'type': 'string', 'format': 'ip'},
                   'description': 'Those of the port of this distributor '
                                  'itself: members answer to them.'},
        ports={'type': 'array', 'minItems': 1, 'maxItems': MAX_PROBE_PORTS,
               'items': {'type': 'integer', 'minimum': 1, 'maximum': 65535},
               'description': 'TCP ports that all members serve.'}),
    'title': 'Probe',
    'description': 'How the front ends of members are probed; without it they '
                   'are not. It may change without a new version.'}

# It may be left out.
PROBE['properties']['peers'] = {
    'type': 'array', 'maxItems': MAX_SLOT + 1, 'items': _object(
        id={**_ID, 'description': 'The id of the amphora.'},
        address={'type': 'string', 'format': 'ip',
                 'description': 'Its own, not of the VIP.'},
        port={'type': 'integer', 'minimum': 1, 'maximum': 65535}),
    'description': 'Where haproxy of members itself answers, as the peers of '
                   'its stick tables know it. Members that are not in it '
                   'are not asked.'}

_MAPPING = _object(
    affinity={'type': 'string', 'enum': list(AFFINITIES)},
    slots={'type': 'array', 'maxItems': MAX_SLOT + 1, 'items': {
        'type': 'array', 'minItems': 2, 'maxItems': 2, 'prefixItems': [
            _SLOT, {'type': 'array', 'maxItems': MAX_SLOT + 1,
                    'items': {'type': 'array', 'minItems': 2, 'maxItems': 2,
                              'prefixItems': [_SLOT, _MAC]}}]},
           'description': 'For the number of each slot the members that it '
                          'stands for, each by its slot and MAC address.'})
TRANSITION: Schema = {
    **_object(
        version={**VERSION, 'description': 'Of the document that it is of.'},
        base={**_MAPPING,
              'description': 'Members of established connections, unless '
                             'these are remembered one by one.'},
        current={**_MAPPING,
                 'description': 'Members of connections that begin.'},
        age={'type': 'number', 'minimum': 0,
             'description': 'Seconds since the last change of the latter.'}),
    'title': 'Transition'}
# They are left out where each connection is remembered one by one.
TRANSITION['properties'] |= {
    'between': {
        'type': 'array', 'maxItems': MAX_FORMERS,
        'items': {'type': 'array', 'minItems': 2, 'maxItems': 2,
                  'prefixItems': [_MAPPING, {'type': 'number', 'minimum': 0}]},
        'description': 'Mappings after the base, oldest first, each with the '
                       'seconds since it became the current one.'},
    'proven': {
        'type': 'array', 'maxItems': MAX_SLOT + 1, 'items': _MAC,
        'description': 'Members that may get packets of connections of '
                       'others.'},
    'pins': {
        'type': 'array', 'maxItems': MAX_PINS,
        'items': {'type': 'array', 'minItems': 5, 'maxItems': 5,
                  'prefixItems': [
                      _ADDRESS, _PORT, _ADDRESS, _PORT,
                      {'type': 'array', 'minItems': 1, 'maxItems': 5,
                       'items': _MAC}]},
        'description': 'Connections that are remembered one by one: address '
                       'and port of the client and of the VIP, and the MAC '
                       'addresses of members that may have it.'}}

_DOCUMENT = _object(
    version=VERSION,
    active={'type': 'boolean',
            'description': 'Whether this distributor answers for the '
                           'addresses; only one may.'},
    algorithm={'type': 'string', 'enum': list(ALGORITHMS)},
    affinity={'type': 'string', 'enum': list(AFFINITIES),
              'description': 'FLOW: each connection for itself. '
                             'SOURCE_IP: all of one client go to one '
                             'member.'},
    addresses={'type': 'array', 'minItems': 1, 'maxItems': MAX_ADDRESSES,
               'items': {'type': 'string', 'format': 'ip'},
               'description': 'Those of the VIP, IPv4 and IPv6.'},
    port=PORT,
    pin_timeout={'type': 'integer', 'minimum': 1, 'maximum': 7 * 86400,
                 'description': 'Seconds after which a connection '
                                'without a packet is forgotten: no longer '
                                'than time-outs of listeners allow for.'},
    members={'type': 'array', 'maxItems': MAX_SLOT + 1,
             'items': MEMBER,
             'description': 'All of them. A slot without a member does not '
                            'exist.'})
DOCUMENT: Schema = {**_DOCUMENT, 'title': 'VIP'}
# They may be left out.
DOCUMENT['properties']['partners'] = {
    'type': 'array', 'maxItems': MAX_PARTNERS, 'items': _MAC,
    'description': 'The MAC addresses of the ports of the other distributors '
                   'of this VIP: they are told of pins, and are believed '
                   'what they tell.'}
DOCUMENT['properties']['probe'] = PROBE
