# SPDX-License-Identifier: Apache-2.0

"""Each message that an operator can meet is explained in the documentation."""

import ast
import pathlib
import re

from oslotest import base

from octavia_hmsync import exceptions

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = ('troubleshooting.rst', 'faults.rst', 'management-network.rst',
         'node-ports.rst', 'image-check.rst', 'image-rollout.rst',
         'image-clone.rst', 'image-restore.rst', 'distributors.rst')
LOGGED = ('warning', 'error', 'exception', 'critical')
# Of "upgrade check".
RESULTS = ('result.warning', 'result.failure', 'result.not_checked',
           'finding.warning', 'finding.failure', 'finding.not_checked')
# What is not the plugin's own text.
EXEMPTIONS = {
    'octavia-hmsync: %s': 'wraps a message that is explained by itself',
}
WORDS = 4


def calls(tree):
    """Yield the call of each message of a module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = ast.unparse(node.func)
        if (name in {f'LOG.{level}' for level in LOGGED} or
                name in RESULTS or name == 'SystemExit' or
                isinstance(getattr(exceptions, name.rpartition('.')[2], None),
                           type)):
            yield node.args[0]
        elif name == 'LOG.log':
            yield node.args[1]


def text_of(node):
    """Return a text with %s wherever something is put in, None for none."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return ''.join(part.value if isinstance(part, ast.Constant) else '%s'
                       for part in node.values)
    return None


def messages():
    """Yield (module, text) of each message."""
    for path in sorted((TOP / 'octavia_hmsync').rglob('*.py')):
        for node in calls(ast.parse(path.read_text())):
            text = text_of(node)
            if text is not None and text not in EXEMPTIONS:
                yield path.name, text


def words_of(text):
    return re.findall(r"[\w'-]+", text)


def first_words(text):
    """Return the first words of a message that are always the same."""
    pieces = [words_of(piece) for piece in re.split(r'%[sd]|: ', text)]
    return ' '.join(max(pieces[:2], key=len)[:WORDS])


class TestMessages(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.explained = ' '.join(words_of(' '.join(
            (TOP / 'doc/source/admin' / page).read_text()
            for page in PAGES)))

    def test_each_is_explained(self):
        found = list(messages())
        self.assertGreater(len(found), 50)
        self.assertEqual([], [
            (module, text) for module, text in found
            if first_words(text) not in self.explained])

    def test_no_stale_exemption(self):
        source = ''.join(path.read_text() for path in
                         (TOP / 'octavia_hmsync').rglob('*.py'))
        self.assertEqual([], [text for text in EXEMPTIONS
                              if text not in source])
