# SPDX-License-Identifier: Apache-2.0

"""Reference tables that are made of the code when the pages are built.

A table written by hand lacks the next metric, alert, event or field.
"""

import ast
import pathlib
import re
import textwrap

from docutils import nodes
from docutils import statemachine
from sphinx.util import docutils
import yaml

TOP = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = TOP / 'octavia_hmsync'
RULES = TOP / 'etc/prometheus/octavia-hmsync.rules.yml'
PREFIX = 'octavia_hmsync_'
ALERTS = 'OctaviaHMSync'
# What makes a metric, in the package or in the client library: where its
# arguments have the name, and where what it says.
_MAKERS = {'gauge': (0, 1), 'gauge_by': (1, 2), 'Gauge': (0, 1),
           'Counter': (0, 1), 'Histogram': (0, 1),
           'GaugeMetricFamily': (0, 1), 'CounterMetricFamily': (0, 1)}
_COUNTERS = ('Counter', 'CounterMetricFamily')


def parse_package():
    """Yield (path, tree) of each module."""
    for path in sorted(PACKAGE.rglob('*.py')):
        yield path, ast.parse(path.read_text())


def find_metrics():
    """Return {name: (labels, what it says)} of the metrics that are served."""
    found = {}
    for _, tree in parse_package():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            maker = ast.unparse(node.func).rpartition('.')[2].lstrip('_')
            texts = [arg.value if isinstance(arg, ast.Constant) else None
                     for arg in node.args]
            at = _MAKERS.get(maker, (0, len(texts)))
            if at[1] >= len(texts) or not all(
                    isinstance(texts[i], str) for i in at):
                continue
            name, text = texts[at[0]], texts[at[1]]
            if maker in ('gauge', 'gauge_by'):
                name = PREFIX + name
            if not name.startswith(PREFIX):
                continue
            if maker in _COUNTERS:
                name = name.removesuffix('_total') + '_total'
            found[name] = (_find_labels(node, maker), text)
    return found


def _find_labels(node, maker):
    if maker == 'gauge_by':
        return [ast.literal_eval(node.args[0])] if isinstance(
            node.args[0], ast.Constant) else []
    for value in [*node.args, *(k.value for k in node.keywords
                                if k.arg == 'labels')]:
        if isinstance(value, (ast.List, ast.Tuple)) and all(
                isinstance(e, ast.Constant) for e in value.elts):
            return [e.value for e in value.elts]
    return []


def read_alerts():
    """Return the rules, each as a dictionary."""
    return [rule for group in yaml.safe_load(RULES.read_text())['groups']
            for rule in group['rules']]


def find_events():
    """Return [(event, priority, version, text)] of all notifications."""
    found = []
    for _, tree in parse_package():
        for node in tree.body:
            for call in getattr(node, 'decorator_list', ()):
                if not re.match(r'(payloads\.)?event\(', ast.unparse(call)):
                    continue
                name, *priority = map(ast.unparse, call.args)
                version = {each.arg: each.value.value
                           for each in call.keywords}.get('version', '1.0')
                found.append((
                    f'octavia_hmsync.{ast.literal_eval(name)}',
                    (priority or ['INFO'])[0].rpartition('.')[2], version,
                    (ast.get_docstring(node) or '').partition(
                        '\n\n:param')[0]))
    return found


def fill(text, indent=''):
    """Return the lines of a paragraph and an empty one."""
    return [*textwrap.wrap(text, 78, initial_indent=indent,
                           subsequent_indent=indent,
                           break_on_hyphens=False), '']


class Generated(docutils.SphinxDirective):
    """Puts lines of reStructuredText in its place, sections too."""

    optional_arguments = 1
    final_argument_whitespace = True

    def make(self):
        """Yield the lines."""
        raise NotImplementedError

    def run(self):
        """Return no nodes: the lines are parsed as those of the page."""
        source = self.state_machine.input_lines.source(
            self.lineno - self.state_machine.input_offset - 1)
        self.state_machine.insert_input(
            statemachine.StringList(list(self.make()), source), source)
        return []


class Metrics(Generated):
    """``.. metrics:: REGEX``: those whose name without prefix matches."""

    def make(self):
        """Yield the lines of a definition list."""
        for name, (labels, text) in sorted(find_metrics().items()):
            if re.match(self.arguments[0], name.removeprefix(PREFIX)):
                shown = f'{{{",".join(labels)}}}' if labels else ''
                yield f'``{name}{shown}``'
                yield from fill(text, '    ')


class Alerts(Generated):
    """``.. alerts::``: a section for each rule."""

    def make(self):
        """Yield the lines of sections."""
        for rule in read_alerts():
            notes = rule['annotations']
            # All names begin alike, and the side bar cuts what is long.
            title = rule['alert'].removeprefix(ALERTS)
            yield from (f'.. _{rule["alert"].lower()}:', '')
            yield from (title, '-' * len(title), '')
            yield from fill(f'*{rule["labels"]["severity"]}*: '
                            f'{notes["summary"]}')
            yield from fill(notes['description'])


class Notifications(Generated):
    """``.. notifications::``: a section for each event, with its sample."""

    def make(self):
        """Yield the lines of sections."""
        for event, priority, version, text in find_events():
            yield from (event, '-' * len(event), '')
            yield from fill(f'*priority {priority}, version {version}*')
            yield from [*text.split('\n'), '']
            sample = event.partition('.')[2]
            yield f'.. literalinclude:: /../notification_samples/{sample}.json'
            yield from ('   :language: json', '')


class DistributorAPI(Generated):
    """``.. distributor-api::``: a section for each object of the REST API."""

    def make(self):
        """Yield the lines of sections."""
        # Here, as only this directive needs the package.
        from octavia_hmsync.distributor import answers
        from octavia_hmsync.distributor import schemas
        objects = {'VIP': schemas.DOCUMENT, 'Transition': schemas.TRANSITION}
        for function, schema in answers.ANSWERS.items():
            # What is put and got is an object of its own.
            if schema not in objects.values():
                objects[f'Answer of {function}'] = schema
        for name, schema in objects.items():
            yield from (name, '-' * len(name), '')
            yield from _make_fields(schema)


def _make_fields(schema, indent=''):
    for name, field in schema['properties'].items():
        yield f'{indent}``{name}``'
        yield from fill(f'{_type(field)}. {field.get("description", "")}',
                        f'{indent}    ')
        inner = field.get('items', field)
        if 'properties' in inner and inner.get('title') != 'VIP':
            yield from _make_fields(inner, f'{indent}    ')


def _type(schema):
    if schema.get('title') == 'VIP':
        return 'a `VIP`_'
    kinds = schema.get('type', 'object')
    text = ' or '.join(kinds if isinstance(kinds, list) else [kinds])
    if 'enum' in schema:
        text += ': ' + ', '.join(schema['enum'])
    if 'minimum' in schema and 'maximum' in schema:
        text += f', {schema["minimum"]} to {schema["maximum"]}'
    if 'items' in schema:
        text += f' of {_type(schema["items"])}'
    return text


def message_role(name, rawtext, text, lineno, inliner, options=None,
                 content=None):
    """``:message:``: what a program prints, ``...`` for what it puts in."""
    return [nodes.literal(rawtext, text, classes=['message'])], []


def setup(app):
    """Register the directives and the role."""
    app.add_directive('metrics', Metrics)
    app.add_directive('alerts', Alerts)
    app.add_directive('notifications', Notifications)
    app.add_directive('distributor-api', DistributorAPI)
    app.add_role('message', message_role)
    return {'parallel_read_safe': True}
