# SPDX-License-Identifier: Apache-2.0

"""Write the reference of the distributors' REST API from its OpenAPI document.

Run it in the top directory when the API has changed; tests/unit/distributor
tells if it was forgotten.
"""

import json
import textwrap

from octavia_hmsync.distributor import api
from octavia_hmsync.distributor import openapi

PATH = 'doc/source/contributor/distributor-api.rst'
_WIDTH = 79
# Errors that any request may have.
_COMMON = ('403', '500')

_HEAD = '''\
..
   Written by tools/write_api_reference.py from the OpenAPI document: change
   octavia_hmsync/distributor/openapi.py or schemas.py instead.

============================
REST API of the distributors
============================

What controllers ask of ``octavia-hmsync-distributor``, version 1. Both sides
need a certificate, see :doc:`/admin/distributors`. The OpenAPI document that
each distributor serves at ``/v1/openapi.json`` has the same for programs;
``octavia_hmsync.distributor.client`` is the client.

A document is put whole. Its version tells which one is newer, so that it does
no harm if one comes twice, late, or from two controllers at once.

Errors have an object `Error`_; those that any request may have are:
'''


def write(document=None):
    """Return the reference as reStructuredText."""
    document = document or openapi.make_document()
    parts = [_HEAD]
    common = document['paths']['/']['get']['responses']
    parts += [_write_fault(status, common[status]['description'])
              for status in _COMMON]
    for path, operations in document['paths'].items():
        shared = operations.get('parameters', [])
        for method, operation in operations.items():
            if method != 'parameters':
                parts.append(_write_operation(document, path, method,
                                              operation, shared))
    parts.append('Objects\n=======\n')
    parts += [_write_schema(name, schema) for name, schema in
              document['components']['schemas'].items()]
    return '\n'.join(parts)


def _title(text, underline):
    return f'{text}\n{underline * len(text)}\n'


def _fill(text, indent=''):
    return textwrap.fill(text, _WIDTH, initial_indent=indent,
                         subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) + '\n'


def _write_operation(document, path, method, operation, shared):
    lines = [_title(f'{method.upper()} {path}', '='),
             _fill(operation['summary'])]
    for parameter in operation.get('parameters', []) + [
            one for one in shared if one['in'] != 'path']:
        lines.append(_entry(f'``?{parameter["name"]}=``',
                            parameter['schema'],
                            parameter['description']))
    if 'requestBody' in operation:
        lines.append(f'Request: {_name(_content(operation["requestBody"]))}\n')
    for status, response in operation['responses'].items():
        content = _content(response) if 'content' in response else None
        if status == '204':
            lines.append(f'{status}\n' + _fill(response['description'],
                                               '    '))
        elif status == '200':
            lines.append(f'{status}\n    {_name(content)}\n')
            if 'properties' in content:
                lines.append(_write_fields(content, '    '))
        elif status not in _COMMON:
            lines.append(_write_fault(status, response['description']))
    return '\n'.join(lines)


def _write_fault(status, text):
    return '\n'.join(f'{status} ``{code}``\n' + _fill(words, '    ')
                     for code, words in _split_faults(text))


def _split_faults(text):
    # "CODE: what is wrong. CODE: ..."
    codes = {code for _status, code in api.ERRORS.values()} | {
        *api.HTTP_CODES.values(), 'FAILED'}
    found = []
    for word in text.split(' '):
        if word.removesuffix(':') in codes and word.endswith(':'):
            found.append([word.removesuffix(':'), ''])
        else:
            found[-1][1] += f'{word} '
    return [(code, words[0].upper() + words[1:].rstrip())
            for code, words in found]


def _content(part):
    return part['content']['application/json']['schema']


def _name(schema):
    if '$ref' in schema:
        name = schema['$ref'].rpartition('/')[2]
        return f'`{name}`_'
    return 'an object'


def _type(schema):
    if '$ref' in schema:
        return _name(schema)
    kinds = schema.get('type', 'object')
    text = ' or '.join(kinds if isinstance(kinds, list) else [kinds])
    if 'enum' in schema:
        text += ': ' + ', '.join(schema['enum'])
    limits = [str(schema[key]) for key in ('minimum', 'maximum')
              if key in schema]
    if len(limits) == 2:
        text += f', {limits[0]} to {limits[1]}'
    if 'items' in schema:
        text += f' of {_type(schema["items"])}'
    return text


def _entry(head, schema, description='', indent=''):
    text = _type(schema) + '.'
    if description:
        text += f' {description}'
    return f'{indent}{head}\n' + _fill(text, f'{indent}    ')


def _write_fields(schema, indent=''):
    lines = []
    for name, field in schema['properties'].items():
        lines.append(_entry(f'``{name}``', field,
                            field.get('description', ''), indent))
        inner = field.get('items', field)
        if 'properties' in inner:
            lines.append(_write_fields(inner, f'{indent}    '))
    return '\n'.join(lines)


def _write_schema(name, schema):
    text = f'{_title(name, "-")}\n{_write_fields(schema)}'
    if name == 'VIP':
        example = json.dumps(EXAMPLE, indent=2)
        text += ('\nSuch as:\n\n.. code-block:: json\n\n' +
                 textwrap.indent(example, '    ') + '\n')
    return text


EXAMPLE = {
    'version': 7, 'active': True, 'algorithm': 'HASH', 'affinity': 'FLOW',
    'addresses': ['10.0.0.5', 'fd00::5'],
    'port': {'id': '5f0c2f0e-7d5a-4a51-9a3e-2f6c7b1d9e40',
             'mac': 'fa:16:3e:5a:00:01', 'mtu': 1442},
    'pin_timeout': 3600,
    'members': [
        {'id': '8a1be1f6-33a4-4d57-a4a7-0f6f7a9a2c11', 'slot': 0,
         'peer_group': 0, 'mac': 'fa:16:3e:5a:00:02', 'state': 'ACTIVE'},
        {'id': 'd4f3b6f0-6f0e-4a8e-8f0c-6d5f4c3b2a19', 'slot': 1,
         'peer_group': 0, 'mac': 'fa:16:3e:5a:00:03', 'state': 'DRAINING'}]}


if __name__ == '__main__':
    with open(PATH, 'w') as reference:
        reference.write(write())
