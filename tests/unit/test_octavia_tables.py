# SPDX-License-Identifier: Apache-2.0

"""What the code writes into Octavia's tables, and what the page says of it."""

import ast
import importlib
import pathlib

from docutils import core
from docutils import nodes
from oslotest import base
import sqlalchemy as sa

from octavia_hmsync.image.db import restore as restore_repo

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = TOP / 'doc/source/admin/octavia-tables.rst'
# Whose statements are of which part of the page.
PARTS = {
    'sync.db.hold': 'Failovers are held back',
    'sync.db.uncounted': 'Clusters',
    'db.lookup': 'octavia-hmsync db upgrade',
    'db.octavia_amphora': 'Image upgrades',
    'image.db.lock': 'Image upgrades',
    'compat.amphora': 'Image upgrades',
    'image.db.replacement': 'resize',
    'image.db.leak': 'image leaks --delete',
    'image.db.restore': 'image restore',
    'cluster.db.lock': 'Clusters',
    'cluster.db.member_health': 'Clusters',
    'cluster.db.shown_status': 'Clusters',
    'compat.cluster': 'Clusters'}
BEGINNINGS = ('sa.update', 'sa.insert', 'sa.delete')
# Of octavia_hmsync.db.rows: a connection or engine, the table, conditions.
HELPERS = ('rows.change',)
# Of Octavia's repositories.
WRITES = ('create', 'update', 'delete', 'replace')
REPOSITORIES = {
    'LoadBalancerRepository': 'load_balancer',
    'AmphoraRepository': 'amphora',
    'AmphoraHealthRepository': 'amphora_health',
    'AmphoraMemberPortRepository': 'amphora_member_port'}
# What no statement names: tables that are taken out of a mapping, and values
# that a function is given.
OTHERS = {
    ('db.lookup', 'table'): {'lb_topology', 'amphora_roles'},
    ('image.db.restore', 'table'): {
        *(table.name for table in restore_repo._TABLES.values()),
        # _update() of a load balancer and of an amphora.
        'load_balancer', 'amphora', 'status', 'load_balancer_id'},
    ('cluster.db.member_health', '_HEALTH'): {'last_update'}}
# Tables of the plugin, by names that are no table of a module.
OWN = {('cluster.db.cluster', 'table'), ('db.claims', 'self._table'),
       ('db.rows', 'table'), ('image.db.rollout', 'table'),
       ('sync.db.clocks', 'model'), ('sync.db.previous_list', 'table')}
# On the page, and neither table nor column; which row is meant.
NAMES = {'ACTIVE_ACTIVE', 'IN_CLUSTER'}
KEYS = {'name', 'description', 'id', 'amphora_id', 'port_id'}


def begin_of(call):
    """Return what a chain of calls begins with, if it is a statement."""
    while isinstance(call, ast.Call):
        if ast.unparse(call.func) in BEGINNINGS:
            return call
        call = getattr(call.func, 'value', None)
    return None


def find_statements(tree):
    """Return {(its table, in Python): columns that it sets}."""
    found = {}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and
                ast.unparse(node.func) in HELPERS):
            found.setdefault(ast.unparse(node.args[1]), set()).update(
                each.arg for each in node.keywords if each.arg)
        begin = begin_of(node) if isinstance(node, ast.Call) else None
        if begin is not None:
            columns = found.setdefault(ast.unparse(begin.args[0]), set())
            if getattr(node.func, 'attr', None) == 'values':
                columns |= {each.arg for each in node.keywords if each.arg}
    return found


def find_calls(tree):
    """Return {a repository of Octavia: columns that it is told to set}."""
    found = {}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and
                isinstance(node.func, ast.Attribute) and
                node.func.attr in WRITES):
            name = ast.unparse(node.func.value).partition('(')[0]
            name = name.rpartition('.')[2]
            if name.endswith('Repository'):
                found.setdefault(name, set()).update(
                    each.arg for each in node.keywords if each.arg)
    return found


def find_written():
    """Return {part: names of tables and columns}, by the code."""
    parts = {}
    for path in sorted((TOP / 'octavia_hmsync').rglob('*.py')):
        name = '.'.join(path.relative_to(
            TOP / 'octavia_hmsync').with_suffix('').parts)
        text = path.read_text()
        tree = ast.parse(text)
        written = {}
        for each in ast.walk(tree):
            if (isinstance(each, ast.Call) and ast.unparse(each.func) ==
                    'compat_cluster.update_load_balancer'):
                parts.setdefault('Clusters', set()).update(
                    value.arg for value in each.keywords)
        for table, columns in find_statements(tree).items():
            made = getattr(importlib.import_module(f'octavia_hmsync.{name}'),
                           table, None)
            if isinstance(made, sa.TableClause):
                if not made.name.startswith('hmsync'):
                    written[table] = {made.name, *columns}
            elif (name, table) not in OWN and 'migration' not in name:
                written[table] = columns
        for repository, columns in find_calls(tree).items():
            written[repository] = {REPOSITORIES[repository], *columns}
        for table, names in written.items():
            parts.setdefault(PARTS[name], set()).update(
                names, OTHERS.get((name, table), ()))
    return parts


def find_described():
    """Return {part: names of tables and columns}, by the page."""
    tree = core.publish_doctree(PAGE.read_text(), settings_overrides={
        'report_level': 5, 'halt_level': 6})
    table = next(iter(tree.findall(nodes.tbody)))
    parts, part = {}, None
    for row in table.findall(nodes.row):
        cells = list(row.findall(nodes.entry))
        part = ' '.join(cells[0].astext().split()) or part
        parts.setdefault(part, set()).update(
            each.astext() for each in cells[1].findall(nodes.literal))
    return {part: names for part, names in parts.items() if names}


class TestOctaviaTables(base.BaseTestCase):

    def test_page(self):
        written, described = find_written(), find_described()
        # It writes the same as "image restore", by the same functions.
        described.pop('cluster restore', None)
        self.assertEqual(
            {part: names - KEYS for part, names in written.items()},
            {part: names - KEYS - NAMES for part, names in
             described.items()})

    def test_what_is_found(self):
        """Statements and calls, whatever stands between."""
        tree = ast.parse(
            'connection.execute(sa.update(_LB).where(_LB.c.id == 1)'
            '.values(status=1, **more)).rowcount\n'
            'connection.execute(sa.delete(_HEALTH))\n'
            'rows.change(connection, _VIP, _VIP.c.id == 1, port_id=2)\n'
            'repositories.AmphoraRepository().update(session, 1, role=2)\n'
            'repositories.AmphoraRepository().get(session, id=1)')
        self.assertEqual(
            {'_LB': {'status'}, '_HEALTH': set(), '_VIP': {'port_id'}},
            find_statements(tree))
        self.assertEqual({'AmphoraRepository': {'role'}}, find_calls(tree))
