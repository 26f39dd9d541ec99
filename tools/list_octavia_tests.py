# SPDX-License-Identifier: Apache-2.0

"""Lists the unit tests that depend on the release of Octavia, for stestr.

    list_octavia_tests.py [--compat] FILE

Writes regular expressions, for "stestr run --include-list": the modules in
tests/unit that import octavia or octavia_hmsync.compat, and the tests of each
module of the package that does: those of its name, or else all that import it.
What calls such a module for another one meets no more of Octavia than they do.
Repositories do not count: of Octavia they have the names of tables and
columns, which tests/unit/compat/test_compat.py compares.

With --compat only those of compat itself.
"""

import ast
import contextlib
import pathlib
import re
import sys

COMPAT = 'octavia_hmsync.compat'


def find_modules(*folders):
    """Find Python modules: {dotted name: path}."""
    return {'.'.join(path.with_suffix('').parts).removesuffix('.__init__'):
            path for folder in folders
            for path in pathlib.Path(folder).rglob('*.py')}


def read_imports(source, modules):
    """Read the names of the modules that a module imports.

    Also those in a program that it has as a string, and those that it names
    for importlib.
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f'{node.module}.{alias.name}'
                names.add(name if name in modules else node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in modules:
                names.add(node.value)
            elif 'import ' in node.value:
                with contextlib.suppress(SyntaxError):
                    names |= read_imports(node.value, modules)
    return names


def _is_octavia(name):
    return (name.partition('.')[0] == 'octavia' or
            f'{name}.'.startswith(f'{COMPAT}.'))


def find_tests():
    """Find the names of the test modules."""
    modules = find_modules('octavia_hmsync', 'tests/unit')
    imports = {name: read_imports(path.read_text(), modules)
               for name, path in modules.items()}
    touching = {name for name, imported in imports.items()
                if _is_octavia(name) or any(map(_is_octavia, imported))}
    tests = {name for name in imports
             if name.rpartition('.')[2].startswith('test_')}

    def find_own(module):
        importers = {name for name in tests if module in imports[name]}
        folder, _, last = module.rpartition('.')
        start = f'{folder}.test_{last}'.replace('octavia_hmsync',
                                                'tests.unit', 1)
        return {name for name in importers
                if f'{name}_'.startswith(f'{start}_')} or importers

    return sorted((tests & touching).union(*(
        find_own(name) for name in touching
        if not (name.startswith('tests.') or '.db.' in name))))


def main(target, is_all=True):
    pathlib.Path(target).write_text(''.join(
        f'^{re.escape(name)}\\.\n' for name in find_tests()
        if is_all or name.startswith('tests.unit.compat.')))


if __name__ == '__main__':
    main(sys.argv[-1], is_all='--compat' not in sys.argv[1:-1])
