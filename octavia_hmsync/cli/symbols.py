# SPDX-License-Identifier: Apache-2.0

"""Finds which of Octavia's private names for compat are missing.

It reads the source of compat, which cannot be imported without some of them,
and imports others only where it uses them. The names in compat itself and in
compat.heartbeats are needed by every service; those in its other modules, only
for their subject.
"""

import ast
import functools
import importlib
from importlib import resources
from importlib import util

from octavia_hmsync import exceptions
from octavia_hmsync import version

_MISSING = object()
_NEEDED = ('__init__', 'heartbeats')


def check():
    """Raise WrongOctavia or BrokenOctavia if compat cannot be imported."""
    if not util.find_spec('octavia'):
        raise exceptions.BrokenOctavia(
            'Octavia is not installed in this environment: install '
            'octavia-hmsync in that of Octavia, and run it there. '
            'Only "image clone" works without it.')
    missing, broken = find_problems()
    if broken:
        # First, because it may be why other names are missing.
        reasons = '; '.join(sorted(set(broken.values())))
        raise exceptions.BrokenOctavia(
            f'The installed Octavia cannot be imported, whatever its release '
            f'({", ".join(sorted(broken))}: {reasons}). '
            f'Install what is missing, or its right release, into the '
            f'environment of Octavia; "pip check" compares them.')
    if missing:
        raise exceptions.WrongOctavia(
            f'The installed Octavia does not have {", ".join(missing)}, '
            f'which this octavia-hmsync {version.version_string()} needs: '
            f'install a release of octavia-hmsync for this Octavia.')


def find_problems():
    """Return (names that Octavia lacks, {module: why its import fails})."""
    found = [_find(subject) for subject in _NEEDED]
    return (sorted({name for missing, _broken in found for name in missing}),
            {name: reason for _missing, broken in found
             for name, reason in broken.items()})


def _find(subject):
    """Look for the names in a module of compat."""
    missing: set[str] = set()
    broken: dict[str, str] = {}
    for name, attributes in _read(subject).items():
        module = _import(name, broken)
        if module is not _MISSING:
            missing.update(f'{name}.{attribute}' for attribute in attributes
                           if not hasattr(module, attribute))
        elif name not in broken:
            missing.add(name)
    return missing, broken


@functools.cache
def _read(subject):
    """Read a module of compat; return {module of Octavia: names used}."""
    tree = ast.parse(
        (resources.files('octavia_hmsync') / 'compat' /
         f'{subject}.py').read_text())
    modules = {alias.asname or alias.name: f'{node.module}.{alias.name}'
               for node in ast.walk(tree)
               if isinstance(node, ast.ImportFrom) and node.module and
               node.module.split('.')[0] == 'octavia'
               for alias in node.names}
    used: dict[str, set[str]] = {name: set() for name in modules.values()}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and
                isinstance(node.value, ast.Name) and
                node.value.id in modules):
            used[modules[node.value.id]].add(node.attr)
    return used


def _import(name, broken):
    """Import a module of Octavia; record the reason if that fails."""
    try:
        return importlib.import_module(name)
    except Exception as e:
        # The module itself is missing, or a package that contains it.
        if not (isinstance(e, ModuleNotFoundError) and
                f'{name}.'.startswith(f'{e.name}.')):
            broken[name] = ' '.join(f'{type(e).__name__}: {e}'.split())
        return _MISSING
