# SPDX-License-Identifier: Apache-2.0

"""What an operator reads says what to do, and the pages quote it right.

A message says itself what to do, or what its reason is that says so. What
takes more than a line is quoted in the documentation, with the role
``:message:`` and ``...`` for what is put in.
"""

import ast
import pathlib
import re

from oslotest import base

from octavia_hmsync import exceptions

TOP = pathlib.Path(__file__).resolve().parents[2]
# With a traceback, LOG.exception() is a defect: the page says to report it.
LOGGED = ('warning', 'error', 'critical')
# Of "upgrade check", "image check" and "image restore".
RESULTS = ('finding.warning', 'finding.failure')
VERBS = (
    'add ask attach begin bind build cancel change check choose configure '
    'correct create delete detach empty enable end enlarge fail find free '
    'give grant have install keep leave let list look lower make mend mount '
    'move name open pass pause pin put raise rebuild recreate reload remove '
    'rename renew repair replace report restart restore resume retry run say '
    'see send set start stop switch take take try undo unset update upgrade '
    'use wait write').split()
# An order, where a clause begins; a command; what the plugin does itself; or
# what is asked for by its name.
SAYS_WHAT_TO_DO = re.compile(
    r'(?:^|[.:;,(]\s|\b(?:and|or|then|first|please)\s|")'
    rf'(?:{"|".join(VERBS)})\b'
    r'|\b(?:octavia-hmsync|openstack) [a-z]|--\w'
    r'|\bagain\b|\bby itself\b|\bgo(?:es)? on\b|\bgoing on\b|\blater\b'
    r'|\b(?:is|are|was|were) (?:replaced|made|done|built|put back|set right|'
    r'taken up|left (?:alone|as)|repaired|gone)\b'
    r'|\b(?:needs?|lacks?|has to|have to|must|takes that|nothing to|only)\b'
    r'|\bnothing of it\b|\btakes its place\b|\balready\b', re.I)
# A reason follows, which is a message itself; the whole text is a reason.
HAS_A_REASON = re.compile(
    r'(?:[:;,(]|\. )\s?%s[.)]*$|^%s: %s|\(%s\)|: %s [A-Z]')
# A piece of a message, which is put in where this ends.
PIECE = re.compile(r'[^.?!)]$')


def calls(tree):
    """Yield (how, argument) of each message of a module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = ast.unparse(node.func)
        if name in {f'LOG.{level}' for level in LOGGED} or name in RESULTS:
            yield name, node.args[0]
        elif name == 'LOG.log':
            yield name, node.args[1]
        elif name == 'SystemExit' or isinstance(
                getattr(exceptions, name.rpartition('.')[2], None), type):
            yield 'raise', node.args[0]


def text_of(node):
    """Return a text with %s wherever something is put in, None for none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return ''.join(part.value if isinstance(part, ast.Constant) else '%s'
                       for part in node.values)
    return None


def modules():
    """Yield (path below the package, tree)."""
    top = TOP / 'octavia_hmsync'
    for path in sorted(top.rglob('*.py')):
        yield path.relative_to(top), ast.parse(path.read_text())


def messages():
    """Yield (module, how, text) of each message."""
    for path, tree in modules():
        for how, node in calls(tree):
            text = text_of(node)
            if text is not None:
                yield str(path), how, ' '.join(re.sub(
                    '%(?:[dr]|\\.\\d+f)', '%s', text).split())


def texts():
    """Return all texts of the package."""
    found = {text_of(node) for _, tree in modules() for node in ast.walk(tree)}
    return {' '.join(text.split()) for text in found if text}


def quotes():
    """Yield (page, pattern of what it quotes)."""
    for page in sorted((TOP / 'doc/source').rglob('*.rst')):
        for quote in re.findall(r':message:`([^`]+)`', page.read_text()):
            yield page.name, re.compile('.*'.join(
                re.escape(piece.strip())
                for piece in ' '.join(quote.split()).split('...')))


class TestMessages(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.messages = list(messages())
        self.quotes = list(quotes())

    def is_quoted(self, text):
        return any(pattern.search(text) for _, pattern in self.quotes)

    def test_each_says_what_to_do(self):
        """A line in a log, a result of a check, and what a command says."""
        self.assertGreater(len(self.messages), 400)
        self.assertEqual([], [
            (module, text) for module, how, text in self.messages
            if not SAYS_WHAT_TO_DO.search(text) and
            not HAS_A_REASON.search(text) and
            not (how == 'raise' and PIECE.search(text)) and
            not self.is_quoted(text)])

    def test_errors_name_their_thing(self):
        """What keeps something from working says what, or which option.

        A finding of "image check" stands in a row that names it.
        """
        errors = [(module, text) for module, how, text in self.messages
                  if how in ('LOG.error', 'LOG.critical') or
                  how == 'finding.failure' and module.startswith('services')]
        self.assertGreater(len(errors), 15)
        self.assertEqual([], [
            found for found in errors
            if not re.search(r'%s|\[\w+\]|octavia', found[1])])

    def test_quotes_are_to_the_letter(self):
        found = texts()
        self.assertGreater(len(self.quotes), 80)
        self.assertEqual([], [
            (page, pattern.pattern) for page, pattern in self.quotes
            if not any(pattern.search(text) for text in found)])

    def test_rules(self):
        for text in ('The database is full. See its log.',
                     'it is full (%s): delete something',
                     'Run "octavia-hmsync db upgrade".',
                     'It is tried again in %s s.'):
            self.assertTrue(SAYS_WHAT_TO_DO.search(text), text)
        for text in ('The database is full.', 'Something failed in a run.',
                     'Members see it.'):
            self.assertFalse(SAYS_WHAT_TO_DO.search(text), text)
        self.assertTrue(HAS_A_REASON.search('It failed: %s'))
        self.assertFalse(HAS_A_REASON.search('It failed %s times.'))
