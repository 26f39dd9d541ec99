#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Which of Octavia's private names that compat needs are missing.

Read from the source of compat, which cannot be imported without them.
"""

import ast
import importlib
from importlib import resources

_MISSING = object()


def find_missing():
    """Look for every name that compat takes from Octavia.

    :returns: the names that the installed Octavia does not have, in order.
    """
    tree = ast.parse(
        (resources.files('octavia_hmsync') / 'compat.py').read_text())
    modules = {}
    missing: set[str] = set()
    for node in ast.walk(tree):
        if (isinstance(node, ast.ImportFrom) and node.module and
                node.module.split('.')[0] == 'octavia'):
            for alias in node.names:
                name = f'{node.module}.{alias.name}'
                modules[alias.asname or alias.name] = name, _import(name)
    missing.update(name for name, module in modules.values()
                   if module is _MISSING)
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and
                isinstance(node.value, ast.Name) and
                node.value.id in modules):
            name, module = modules[node.value.id]
            if module is not _MISSING and not hasattr(module, node.attr):
                missing.add(f'{name}.{node.attr}')
    return sorted(missing)


def _import(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return _MISSING
