# SPDX-License-Identifier: Apache-2.0

"""The commands on a page of the documentation, and what it says they print."""

import pathlib
import re
import textwrap

from docutils import core
from docutils import nodes

TOP = pathlib.Path(__file__).resolve().parents[2]

# What is a command where it stands in the text, with arguments.
PROGRAMS = ('octavia-db-manage', 'octavia-hmsync', 'pip', 'tox')
SCRIPTS = 'tools/'
# A user's, and root's.
_PROMPTS = ('$ ', '# ')

_SETTINGS = {
    # Sphinx's roles and directives are unknown here, and not looked at.
    'report_level': 5, 'halt_level': 6, 'syntax_highlight': 'none',
    'file_insertion_enabled': False, 'raw_enabled': False,
}

# What differs from cloud to cloud, and what is put in its place before a page
# and an output are compared. Anything else is to be the same.
_VARIABLE = (
    # The frame of a table, and how it is wrapped.
    (re.compile(r'^\+[-+]+\+$', re.MULTILINE), ''),
    (re.compile(r'\|'), ' '),
    (re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d'), '<time>'),
    (re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'), '<id>'),
    # Its own loopback network; the last part stays.
    (re.compile(r'127\.\d+\.\d+\.(?=\d)'), '<network>.'),
    # Of a network that Neutron gives addresses of.
    (re.compile(r'172\.16(\.\d+){2}'), '<address>'),
    (re.compile(r'\b\d+ rows\b'), '<count> rows'),
    # Proved by heartbeats, one amphora after the other.
    (re.compile(r'\b(ADOPTED +\S+|PENDING +None)'), '<adoption>'),
    (re.compile(r'\b(adopted|pending) +\d+'), r'\1 <count>'),
    (re.compile(r'\s+'), ' '),
)


def normalize(text):
    """Put the same in place of what differs from cloud to cloud."""
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return text.strip()


class Block:
    """A literal block.

    :param section: the title of the section that it is in.
    :param language: of a code-block, '' for what follows a double colon.
    :param text: what is in it.
    """

    def __init__(self, section, language, text):
        self.section = section
        self.language = language
        self.text = text

    @property
    def commands(self):
        """What a console shows: a list of (command, what it prints)."""
        found = []
        for line in self.text.splitlines():
            if line.startswith(_PROMPTS):
                found.append([line[2:], ''])
            elif found and found[-1][0].endswith('\\'):
                found[-1][0] = f'{found[-1][0][:-1]}{line.strip()}'
            elif found:
                found[-1][1] += f'{line}\n'
            else:
                raise ValueError(f'"{self.section}" has a console block that '
                                 f'does not begin with a command: {line}')
        return [tuple(command) for command in found]

    def __str__(self):
        return (f'"{self.section}" ({self.language or "literal"}):\n'
                f'{textwrap.indent(self.text, "    ")}')


class Page:
    """A page, read from its source.

    .blocks is a list of its literal blocks, .inline of the commands in its
    text.

    :param name: its path in the repository.
    """

    def __init__(self, name):
        self.name = name
        self.blocks = []
        self.inline = []
        tree = core.publish_doctree((TOP / name).read_text(),
                                    settings_overrides=_SETTINGS)
        for node in tree.findall():
            if isinstance(node, nodes.literal_block):
                self._add_block(node)
            elif isinstance(node, nodes.literal):
                self._add_inline(' '.join(node.astext().split()))

    def _add_block(self, node):
        section, inner = None, node
        while inner.parent is not None:
            inner = inner.parent
            if isinstance(inner, nodes.system_message):
                # A directive of Sphinx's.
                return
            if section is None and isinstance(inner, nodes.section):
                section = inner.next_node(nodes.title).astext()
        (language,) = [name for name in node['classes']
                       if name != 'code'] or ['']
        self.blocks.append(Block(section or self.name, language,
                                 node.astext()))

    def _add_inline(self, text):
        program, _, arguments = text.partition(' ')
        if (program in PROGRAMS and arguments or
                program.startswith(SCRIPTS) and len(program) > len(SCRIPTS)):
            self.inline.append(text)
