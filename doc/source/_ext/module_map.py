# SPDX-License-Identifier: Apache-2.0

"""The map of the code in the contributor guide, made of the code itself.

A list written by hand would lack the next module.
"""

import ast
import pathlib
import re

from docutils import nodes
from sphinx.util import docutils

TOP = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = 'octavia_hmsync'


def find_modules(top=TOP):
    """Yield (path below the package, what it is for) of each module.

    :param top: where the package lies.
    """
    for path in sorted((top / PACKAGE).rglob('*.py')):
        if path.name != '__init__.py' and 'versions' not in path.parts:
            docstring = ast.get_docstring(ast.parse(path.read_text())) or ''
            first = ' '.join(docstring.split('\n\n')[0].split())
            yield path.relative_to(top / PACKAGE), first.rstrip('.')


class ModuleMap(docutils.SphinxDirective):
    """``.. module-map::``, a definition list for each folder."""

    def run(self):
        """Return the nodes."""
        folders = {}
        for path, text in find_modules():
            self.env.note_dependency(str(TOP / PACKAGE / path))
            folders.setdefault(path.parent.as_posix(), []).append(
                (path.stem, text))
        result = []
        for folder, modules in folders.items():
            name = PACKAGE if folder == '.' else f'{PACKAGE}/{folder}'
            result.append(nodes.paragraph('', '', nodes.literal(name, name)))
            result.append(nodes.bullet_list('', *(
                nodes.list_item('', nodes.paragraph(
                    '', '', nodes.literal(stem, stem), nodes.Text(': '),
                    *_parse(text))) for stem, text in modules)))
        return result


def _parse(text):
    """Yield the nodes of a text with ``literals``."""
    for n, part in enumerate(re.split('``', text)):
        yield nodes.literal(part, part) if n % 2 else nodes.Text(part)


def setup(app):
    """Register the directive."""
    app.add_directive('module-map', ModuleMap)
    return {'parallel_read_safe': True}
