# SPDX-License-Identifier: Apache-2.0

"""The OpenAPI document of the REST API.

What a document of a VIP looks like comes from schemas.py, which is what
requests are checked with.
"""

import typing

from octavia_hmsync.distributor import look_rules
from octavia_hmsync.distributor import schemas
from octavia_hmsync.distributor import sights
from octavia_hmsync import version

_Raw = dict[str, typing.Any]

_COUNT: _Raw = {'type': 'integer', 'minimum': 0}


def _ref(name: str) -> _Raw:
    return {'$ref': f'#/components/schemas/{name}'}


def _object(**properties: _Raw) -> _Raw:
    return {'type': 'object', 'properties': properties,
            'required': list(properties), 'additionalProperties': False}


def _nullable(kind: str, **more: typing.Any) -> _Raw:
    return {'type': [kind, 'null'], **more}


_VERSIONS = _object(
    software_version={'type': 'string'},
    host={'type': 'string', 'description': 'Name of the node.'},
    versions={'type': 'array', 'items': _object(
        id={'type': 'string'}, status={'type': 'string'},
        openapi={'type': 'string',
                 'description': 'Path of this document.'})})

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
    vips={**_COUNT, 'description': 'That have a document.'},
    active={**_COUNT, 'description': 'That it answers for.'},
    in_force={**_COUNT, 'description': 'Of which all flows are there.'},
    unknown={'type': 'array', 'items': {'type': 'string'},
             'description': 'Ids of those that there is something of, and no '
                            'document. They are left alone until they are '
                            'sent anew or deleted.'},
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
    'looked_at': {'type': 'boolean',
                  'description': 'Whether its document tells how to look at '
                                 'members.'},
    'in_force': {'type': 'boolean',
                 'description': 'Whether all of its flows are there.'},
    'error': _nullable('string', description='Why they are not.')}

_SIGHT_FIELDS: dict[str, _Raw] = {
    'state': {'type': 'string',
              'enum': [look_rules.UP, look_rules.DOWN, sights.UNKNOWN,
                       sights.GONE],
              'description': 'UP answers at a port. DOWN does not, or said a '
                             'short while ago that an address of the VIP '
                             'were its own. UNKNOWN while nobody can tell, '
                             'as after a start. GONE is looked at no more.'},
    'error': _nullable('string', description='Why it is DOWN, or what is '
                       'wrong with it though it is UP.'),
    'since': {'type': 'number',
              'description': 'When it became that, in seconds since the '
                             'epoch, by the clock of this node.'}}

_COUNTED: dict[str, _Raw] = {
    'id': {'type': 'string'}, 'slot': _COUNT,
    'state': {'type': 'string', 'enum': list(schemas.STATES)},
    'packets': {**_COUNT, 'description': 'That it was sent, since the flows '
                                         'were made.'},
    'bytes': _COUNT,
    'pins': {**_COUNT, 'description': 'Connections that are remembered one '
                                      'by one, since a change of members.'}}

_COUNTERS_FIELDS: dict[str, _Raw] = {
    'members': {'type': 'array', 'items': _object(**_COUNTED)},
    'claims': {**_COUNT, 'description': 'Frames by which another one in the '
                                        'network said that an address of the '
                                        'VIP were its own.'}}

_ERROR = {
    **_object(error={'type': 'string', 'description': 'One line.'},
              code={'type': 'string',
                    'description': 'What a program goes by.'},
              in_force={**schemas.VERSION,
                        'description': 'Of VERSION_CONFLICT alone: the '
                                       'version that is there.'}),
    'required': ['error', 'code']}

# Status of an error: what is wrong.
_FAULTS = {
    '400': 'INVALID: the document, the id or the query is wrong; the field '
           'and the reason.',
    '403': 'FORBIDDEN: the certificate has no name of allowed_clients.',
    '404': 'UNKNOWN_VIP: there is no such VIP, or no document of it.',
    '409': 'VERSION_CONFLICT: what is there is newer, or is of the same '
           'version and another one; or a transition is of another version, '
           'or this distributor is the active one.',
    '413': 'TOO_LONG: a document of more than 256 KiB.',
    '415': 'NO_JSON: the type is not application/json.',
    '500': 'STORE_FAILED: the disk does not take it; nothing is changed. '
           'FAILED: a fault in the distributor.',
    '503': 'VSWITCH_UNAVAILABLE: Open vSwitch does not answer; a document '
           'is remembered and put in force once it does. BUSY: another '
           'request changes the same VIP.'}


def _json(schema: _Raw) -> _Raw:
    return {'application/json': {'schema': schema}}


def _operation(name: str, summary: str, answer: _Raw | None,
               faults: tuple[str, ...] = (), **more: typing.Any) -> _Raw:
    responses: _Raw = (
        {'204': {'description': 'Done, or nothing to be done.'}}
        if answer is None else
        {'200': {'description': 'Done.', 'content': _json(answer)}})
    for status in sorted({*faults, '403', '500'}):
        responses[status] = {'description': _FAULTS[status],
                             'content': _json(_ref('Error'))}
    return {'operationId': name, 'summary': summary, **more,
            'responses': responses}


_VIP_ID = {'name': 'vip_id', 'in': 'path', 'required': True,
           'schema': schemas.VIP_ID}
_VERSION = {
    'name': 'version', 'in': 'query', 'required': False,
    'schema': schemas.VERSION,
    'description': 'That of the deletion. With it, a document of the same or '
                   'a lower version that comes later is refused for a day, '
                   'and so is the deletion if a document of a higher one is '
                   'there.'}

_CHANGE = _object(
    id=schemas.VIP_ID, version=schemas.VERSION,
    changed={'type': 'boolean',
             'description': 'Whether it was not in force before.'})

_NEWS_QUERY = [
    {'name': 'run', 'in': 'query', 'required': False,
     'schema': {'type': 'string'},
     'description': 'That of the answer before. Of another run, or without '
                    'it, all of it is told.'},
    {'name': 'after', 'in': 'query', 'required': False, 'schema': _COUNT,
     'description': 'The sequence of the answer before.'},
    {'name': 'timeout', 'in': 'query', 'required': False,
     'schema': {**_COUNT, 'maximum': schemas.MAX_WAIT},
     'description': 'Seconds to wait for news at most. Where many wait it is '
                    'answered at once: ask again after a pause.'}]

_PATHS: _Raw = {
    '/': {'get': _operation(
        'get_versions', 'Which versions of the API there are.',
        _ref('Versions'))},
    '/v1/openapi.json': {'get': _operation(
        'get_openapi', 'This document.', {'type': 'object'})},
    '/v1/status': {'get': _operation(
        'get_status', 'How the distributor is. It answers at once, whatever '
                      'Open vSwitch does.', _ref('Status'))},
    '/v1/sights': {'get': _operation(
        'get_sights', 'What is seen of members, and changed since.',
        _ref('News'), ('400',), parameters=_NEWS_QUERY)},
    '/v1/vips': {'get': _operation(
        'list_vips', 'All VIPs.',
        _object(vips={'type': 'array', 'items': _ref('Summary')}))},
    '/v1/vips/{vip_id}': {
        'parameters': [_VIP_ID],
        'get': _operation(
            'get_vip', 'One VIP, with its document and counters.',
            _ref('Details'), ('400', '404', '503')),
        'put': _operation(
            'put_vip', 'Put a document in force. The answer is given when '
                       'its flows are. The same again does nothing.',
            _CHANGE,
            ('400', '409', '413', '415', '503'),
            requestBody={'required': True, 'content': _json(_ref('VIP'))}),
        'delete': _operation(
            'delete_vip', 'Forget a VIP and remove its flows. One that is '
                          'not there is no error.',
            None, ('400', '409', '503'), parameters=[_VERSION])},
    '/v1/vips/{vip_id}/statistics': {
        'parameters': [_VIP_ID],
        'get': _operation(
            'get_statistics', 'What went through to each member.',
            _ref('Statistics'), ('400', '404', '503'))},
    '/v1/vips/{vip_id}/transition': {
        'parameters': [_VIP_ID],
        'get': _operation(
            'get_transition', 'Where the VIP stands between two lists of '
                              'members.',
            _ref('Transition'), ('400', '404')),
        'put': _operation(
            'put_transition', 'Have a distributor that stands by go by what '
                              'the active one has, whatever it has missed. '
                              'The same again does nothing.',
            _CHANGE, ('400', '404', '409', '413', '415', '503'),
            requestBody={'required': True,
                         'content': _json(_ref('Transition'))})}}

_SCHEMAS: _Raw = {
    'VIP': schemas.DOCUMENT,
    'Transition': schemas.TRANSITION,
    'Versions': _VERSIONS,
    'Status': _STATUS,
    'Summary': _object(**_SUMMARY_FIELDS),
    'Statistics': _object(id=schemas.VIP_ID, version=schemas.VERSION,
                          **_COUNTERS_FIELDS),
    'Sight': {**_object(**_SIGHT_FIELDS), 'type': ['object', 'null'],
              'description': 'null of a member that nobody looks at.'},
    'News': _object(
        run={'type': 'string',
             'description': 'Name of the run of the process: the sequence '
                            'begins anew with each.'},
        sequence={**_COUNT, 'description': 'What to ask with next time.'},
        whole={'type': 'boolean',
               'description': 'Whether it is all there is: what is not in it '
                              'is looked at no more.'},
        sights={'type': 'array', 'items': _object(
            vip=schemas.VIP_ID, member={'type': 'string'},
            **_SIGHT_FIELDS)}),
    'Details': _object(
        **_SUMMARY_FIELDS, document=_ref('VIP'),
        **{**_COUNTERS_FIELDS, 'members': {
            'type': 'array', 'items': _object(**_COUNTED,
                                              sight=_ref('Sight'))}}),
    'Error': _ERROR}


def make_document() -> _Raw:
    """Return the OpenAPI document, version 3.1."""
    return {
        'openapi': '3.1.0',
        'info': {
            'title': 'octavia-hmsync-distributor',
            'version': version.version_string(),
            'description': 'What octavia-hmsync asks of the distributors of '
                           'clusters of amphorae. Both sides need a '
                           'certificate.'},
        'paths': _PATHS,
        'components': {
            'schemas': _SCHEMAS,
            'securitySchemes': {'certificate': {'type': 'mutualTLS'}}},
        'security': [{'certificate': []}]}
