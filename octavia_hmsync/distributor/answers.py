# SPDX-License-Identifier: Apache-2.0

"""What the REST API answers: JSON schemas, as schemas.py has what it takes.

The tests hold each answer against them, and the documentation is made of them.
"""

import typing

from octavia_hmsync.distributor import probe_results
from octavia_hmsync.distributor import probe_rules
from octavia_hmsync.distributor import schemas

_Raw = dict[str, typing.Any]

_COUNT: _Raw = {'type': 'integer', 'minimum': 0}


def _object(**properties: _Raw) -> _Raw:
    return {'type': 'object', 'properties': properties,
            'required': list(properties), 'additionalProperties': False}


def _nullable(kind: str, **more: typing.Any) -> _Raw:
    return {'type': [kind, 'null'], **more}


_VERSIONS = _object(
    software_version={'type': 'string'},
    host={'type': 'string', 'description': 'Name of the node.'},
    versions={'type': 'array', 'items': _object(
        id={'type': 'string'}, status={'type': 'string'})})

_LOAD_FIELDS: dict[str, _Raw] = {
    'flows': _nullable('integer', description='Of OpenFlow, in all bridges '
                                              'of the node.'),
    'max_flows': {**_COUNT, 'description': 'From there on no connections are '
                                           'remembered.'},
    'cached_flows': _nullable('integer', description='Of the data path.'),
    'max_cached_flows': _nullable(
        'integer', description='That Open vSwitch allows for just now, at '
                               'most other_config:flow-limit.'),
    'full': {'type': 'boolean',
             'description': 'Whether no connections are remembered, for '
                            'flows.'},
    'cache_full': {'type': 'boolean',
                   'description': 'Whether the data path has as many flows as '
                                  'Open vSwitch allows for.'},
    'full_vips': {'type': 'array', 'items': {'type': 'string'},
                  'description': 'Of which no more connections are '
                                 'remembered.'}}

_STATUS = _object(
    host={'type': 'string'},
    software_version={'type': 'string'},
    status={'type': 'string', 'enum': ['ONLINE', 'OFFLINE'],
            'description': 'OFFLINE if Open vSwitch does not work.'},
    vswitch_version=_nullable('string'),
    error=_nullable('string', description='Why it is OFFLINE.'),
    load=_nullable('object', description='How much of Open vSwitch is used, '
                                         'null while that is not known. Of '
                                         'another backend, what that has.',
                   properties=_LOAD_FIELDS),
    vips={**_COUNT, 'description': 'VIPs with a document.'},
    active={**_COUNT, 'description': 'VIPs that it answers for.'},
    in_force={**_COUNT, 'description': 'VIPs whose flows are all there.'},
    unknown={'type': 'array', 'items': {'type': 'string'},
             'description': 'Ids of VIPs in Open vSwitch without a document. '
                            'They are left alone until they are sent anew or '
                            'deleted.'},
    certificates={'type': 'object',
                  'additionalProperties': {'type': 'number'},
                  'description': 'When certificates of the API end, by the '
                                 'option that names their file, in seconds '
                                 'since the epoch.'})

_SUMMARY_FIELDS: dict[str, _Raw] = {
    'id': schemas.VIP_ID,
    'version': _nullable('integer',
                         description='null if there is no document.'),
    'active': _nullable('boolean'),
    'has_left': {'type': 'boolean',
                 'description': 'Whether it was told to answer for the VIP, '
                                'and has heard another distributor announce '
                                'it since.'},
    'probed': {'type': 'boolean',
               'description': 'Whether its document tells how to probe '
               'members.'},
    'in_force': {'type': 'boolean',
                 'description': 'Whether all of its flows are there.'},
    'error': _nullable('string', description='Why they are not.')}

_PROBE_FIELDS: dict[str, _Raw] = {
    'state': {'type': 'string',
              'enum': [probe_rules.UP, probe_rules.DOWN, probe_results.UNKNOWN,
                       probe_results.GONE],
              'description': 'UP answers at a port. DOWN does not, or claimed '
                             'an address of the VIP a short while ago. '
                             'UNKNOWN was not probed yet, as after a start. '
                             'GONE is probed no more.'},
    'error': _nullable('string', description='Why it is DOWN, or what is '
                       'wrong with it though it is UP.'),
    'since': {'type': 'number',
              'description': 'When it became that, in seconds since the '
                             'epoch, by the clock of this node.'}}

_SENT: dict[str, _Raw] = {
    'id': {'type': 'string'},
    'packets': {**_COUNT, 'description': 'That it was sent, since the flows '
                                         'were made.'},
    'bytes': _COUNT}

_COUNTED: dict[str, _Raw] = {
    **_SENT, 'slot': _COUNT,
    'state': {'type': 'string', 'enum': list(schemas.STATES)},
    'pins': {**_COUNT, 'description': 'Connections that are remembered one '
                                      'by one, since a change of members.'},
    'connections': _nullable(
        'integer', minimum=0, description='The same, and those that it may '
        'have, as one of several members, since a change of members. null if '
        'none is known and not all are known yet.')}

_COUNTERS_FIELDS: dict[str, _Raw] = {
    'members': {'type': 'array', 'items': _object(**_COUNTED)},
    'claims': {**_COUNT, 'description': 'Frames by which another one in the '
                                        'network said that an address of the '
                                        'VIP were its own.'}}

ERROR: _Raw = {
    **_object(error={'type': 'string', 'description': 'One line.'},
              code={'type': 'string',
                    'description': 'What a program goes by.'},
              in_force={**schemas.VERSION,
                        'description': 'Of VERSION_CONFLICT alone: the '
                                       'version that is there.'}),
    'required': ['error', 'code']}

_PROBE: _Raw = {
    **_object(**_PROBE_FIELDS), 'type': ['object', 'null'],
    'description': 'null of a member that is not probed.'}

_CHANGE = _object(
    id=schemas.VIP_ID, version=schemas.VERSION,
    changed={'type': 'boolean',
             'description': 'Whether it was not in force before.'})

_SUMMARY = _object(**_SUMMARY_FIELDS)

_VIP_CHANGE: _Raw = {
    **_object(
        mappings={**_COUNT,
                  'description': 'The current mapping, and the former ones '
                                 'whose connections are not all known.'},
        one_by_one={'type': 'array', 'items': {'type': 'string'},
                    'description': 'Members whose connections are remembered '
                                   'one by one meanwhile, because they answer '
                                   'packets of other connections.'}),
    'type': ['object', 'null'],
    'description': 'The change of members that is under way; null for none.'}

# By the function of api.py that answers; delete_vip() answers nothing.
ANSWERS: dict[str, _Raw] = {
    'get_versions': _VERSIONS,
    'get_status': _STATUS,
    'get_probes': _object(
        run={'type': 'string',
             'description': 'Name of the run of the process: the sequence '
                            'begins anew with each.'},
        sequence={**_COUNT, 'description': 'What to ask with next time.'},
        whole={'type': 'boolean',
               'description': 'Whether it is all there is: what is not in it '
                              'is probed no more.'},
        probes={'type': 'array', 'items': _object(
            vip=schemas.VIP_ID, member={'type': 'string'},
            **_PROBE_FIELDS)}),
    'get_traffic': _object(vips={'type': 'array', 'items': _object(
        id=schemas.VIP_ID,
        members={'type': 'array', 'items': _object(**_SENT)})}),
    'list_vips': _object(vips={'type': 'array', 'items': _SUMMARY}),
    'get_vip': _object(
        **_SUMMARY_FIELDS, document=schemas.DOCUMENT,
        **{**_COUNTERS_FIELDS, 'members': {
            'type': 'array', 'items': _object(**_COUNTED, probe=_PROBE)}},
        change=_VIP_CHANGE),
    'put_vip': _CHANGE,
    'get_statistics': _object(id=schemas.VIP_ID, version=schemas.VERSION,
                              **_COUNTERS_FIELDS),
    'get_transition': schemas.TRANSITION,
    'put_transition': _CHANGE}
