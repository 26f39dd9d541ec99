# SPDX-License-Identifier: Apache-2.0

"""Options that soak tests and benchmarks set, which CI does not run."""

import ast
import pathlib
import re

from octavia_hmsync.conf import opts
from octavia_hmsync.distributor import conf as distributor_conf
from tests.unit import base

TOP = pathlib.Path(__file__).resolve().parents[2]
_FOLDERS = ('tests/soak', 'tests/cloud', 'benchmarks')


def _read_text(node):
    """Return a pattern of a string, or of an f-string; None of others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return ''.join(_read_text(part) or '.+' for part in node.values)
    return None


def _find_set(tree):
    """Yield a line, a group, and a pattern of an option."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and isinstance(
                        value, ast.Dict):
                    for name in value.keys:
                        yield node.lineno, key.value, _read_text(name)
        elif isinstance(node, ast.Call) and getattr(
                node.func, 'attr', None) == 'set_override':
            named = {each.arg: each.value for each in node.keywords}
            group = named.get('group', node.args[2] if len(node.args) > 2
                              else None)
            if isinstance(group, ast.Constant):
                yield node.lineno, group.value, _read_text(node.args[0])


class TestOptions(base.TestCase):

    def test_exist(self):
        known = {}
        for group, options in (*opts.list_opts(),
                               *distributor_conf.list_opts()):
            known.setdefault(str(group), set()).update(
                option.dest for option in options)
        # Others have options there.
        del known['DEFAULT']
        found = 0
        for folder in _FOLDERS:
            for path in (TOP / folder).rglob('*.py'):
                for line, group, name in _find_set(ast.parse(
                        path.read_text())):
                    if group not in known or name is None:
                        continue
                    found += 1
                    self.assertTrue(
                        any(re.fullmatch(name, option)
                            for option in known[group]),
                        f'{path.relative_to(TOP)}:{line}: {group}.{name}')
        self.assertGreater(found, 40)
