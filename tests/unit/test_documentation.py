# SPDX-License-Identifier: Apache-2.0

"""What the documentation says of the code is so."""

import argparse
import ast
import contextlib
import functools
import importlib.util
import io
import pathlib
import re
import shlex
import tokenize

from oslotest import base

from octavia_hmsync.cmd import hmsync
from tests.unit import test_packaging

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCS = TOP / 'doc/source'

# Of a thousand words, how many may be of PLAIN's: in the documentation, and in
# docstrings, comments, messages and help of the package.
DOCS_LIMIT = 2
PACKAGE_LIMIT = 2
# Pronouns in place of a subject, and causatives: HACKING.rst, "English".
NOT_PLAIN = re.compile(
    r"\b(nobody|somebody|anybody|whoever|(?:the )?ones? (?:that|who)"
    r"|those (?:that|who)|ha(?:ve|s|d|ving) (?:[\w.`'-]+ ){1,6}?"
    r"(?:be|made|done|said|tried)\b|bears? with)\b", re.I)

# Of promises; see TestPromises.
PROMISES = pathlib.Path(__file__).with_name('promises.txt')
ABSOLUTE = re.compile(
    r'\b(?:nothing|never|nobody|none|no|nowhere|always|at once|only'
    r'|without (?:a )?br(?:eaking|oken)|0 of)\b', re.I)
NO_PROMISE = ('- when', '- what', '- limit')
# What is quoted from logs, and names of places in the documentation.
NO_PROSE = re.compile(r':\w+:`[^`]+`|^\.\. _.*$', re.M)
# Of lists and tables.
BEGINS = re.compile(r'^ *(?:\* - |- |\* )', re.M)


def load_extension():
    spec = importlib.util.spec_from_file_location(
        'module_map', DOCS / '_ext/module_map.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_prose(path):
    """Return the text of a page, or the comments and texts of a module.

    What is written in pieces, over several lines, is one text.
    """
    text = path.read_text()
    if path.suffix == '.py':
        text = ' '.join(
            token.string.lstrip('#') for token in
            tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT or ' ' in token.string and
            token.type in (tokenize.STRING,
                           getattr(tokenize, 'FSTRING_MIDDLE', None)))
    return re.sub(r"""['"]*\s+(?:[bfr]?(?=['"]))?['"]*""", ' ', text)


def count_not_plain(paths):
    """Return (how many of a thousand words, [(path, text around)])."""
    words, found = 0, []
    for path in paths:
        text = read_prose(path)
        words += len(re.findall('[A-Za-z]+', text))
        found += [(path.relative_to(TOP).as_posix(),
                   text[max(0, match.start() - 30):match.end() + 20])
                  for match in NOT_PLAIN.finditer(text)]
    return 1000 * len(found) / words, found


class TestEnglish(base.BaseTestCase):
    """Sentences have a subject: housekeeper, worker, operator, agent, ..."""

    def check(self, limit, paths):
        rate, found = count_not_plain(paths)
        self.assertLessEqual(
            rate, limit, '\n'.join(f'{path}: ...{text}...'
                                   for path, text in found[:200]))

    def test_documentation(self):
        self.check(DOCS_LIMIT, [
            *sorted(DOCS.rglob('*.rst')), *sorted(TOP.glob('*.rst'))])

    def test_package(self):
        self.check(PACKAGE_LIMIT,
                   sorted((TOP / 'octavia_hmsync').rglob('*.py')))

    def test_rule(self):
        for text in ('Nobody works on it.', 'of those that are dead',
                     'the one that answers', 'One that is silent',
                     'it has its members be told', 'whoever asks'):
            self.assertTrue(NOT_PLAIN.search(text), text)
        for text in ('No worker works on it.', 'of dead members',
                     'It has to be told.', 'Members have their own keys.'):
            self.assertFalse(NOT_PLAIN.search(text) and 'has to' not in text,
                             text)


class TestOldImages(base.BaseTestCase):

    def test_they_are_replaced(self):
        """A failover interrupts; "image replace" does not."""
        advised = re.compile(r'fail(?:s|ed)? (?:\S+ ){1,4}over to a newer',
                             re.I)
        paths = [*DOCS.rglob('*.rst'), *(TOP / 'octavia_hmsync').rglob('*.py'),
                 TOP / 'README.rst', *(TOP / 'etc').rglob('*.yml'),
                 *(TOP / 'doc/notification_samples').rglob('*.json')]
        self.assertEqual([], [path.name for path in paths
                              if advised.search(read_prose(path))])


class TestContributorGuide(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.text = (DOCS / 'contributor/index.rst').read_text()

    def test_each_layer_is_in_the_map(self):
        table = self.text.split('Map of the code', 1)[1].split(
            '\nModules\n', 1)[0]
        named = set(re.findall(r'``([\w/]+)``', table))
        self.assertEqual(set(), set(test_packaging.get_ranks('')) - named)

    def test_named_modules_are_there(self):
        tops = {path.stem for path in (TOP / 'octavia_hmsync').iterdir()}
        names = {name for name in re.findall(
            r'``((?:[a-z_]+\.)+[a-z_]+)(?:\(\))?``', self.text)
            if name.split('.')[0] in tops and not name.endswith('.py')}
        self.assertGreater(len(names), 30)
        self.assertEqual([], sorted(
            name for name in names if not self.is_there(name)))

    def is_there(self, name):
        """Tell whether a dotted name is a module, or something of one."""
        path = TOP / 'octavia_hmsync' / name.replace('.', '/')
        if path.is_dir() or path.with_suffix('.py').is_file():
            return True
        module, defined = path.parent.with_suffix('.py'), path.name
        return module.is_file() and re.search(
            rf'^\s*(def|class) {defined}\b|^{defined} =', module.read_text(),
            re.MULTILINE) is not None

    def test_named_files_are_there(self):
        names = set(re.findall(r'``([\w./-]+\.(?:py|txt|rst|yml))``',
                               self.text))
        self.assertGreater(len(names), 20)
        self.assertEqual([], sorted(
            name for name in names if not any(
                (TOP / place / name).is_file()
                for place in ('', 'octavia_hmsync', 'octavia_hmsync/db',
                              'tests', 'tests/cloud', 'tests/functional',
                              'tests/soak', 'tests/unit'))))

    def test_each_module_says_what_it_is_for(self):
        self.assertIn('.. module-map::', self.text)
        modules = dict(load_extension().find_modules())
        self.assertGreater(len(modules), 50)
        self.assertEqual([], [str(path) for path, text in modules.items()
                              if len(text.split()) < 2])
        self.assertIn('plan.py', {path.name for path in modules})


class TestParts(base.BaseTestCase):
    """Each of the four parts has a way in, which half an hour is enough for.

    Somebody reads some 200 words of such pages in a minute, half as many with
    the commands.
    """

    WORDS = 3000
    PAGES = {'roll-out': 'admin/how-it-works',
             'roll-out-network': 'admin/management-network',
             'roll-out-images': 'admin/images',
             'roll-out-clusters': 'admin/clusters'}

    def test_half_an_hour(self):
        readme = len((TOP / 'README.rst').read_text().split())
        for name in self.PAGES:
            page = len((DOCS / f'install/{name}.rst').read_text().split())
            self.assertLessEqual(readme + page, self.WORDS, name)

    def test_found_from_both_front_pages(self):
        readme = (TOP / 'README.rst').read_text()
        index = (DOCS / 'index.rst').read_text()
        for page, about in self.PAGES.items():
            self.assertIn(f'``doc/source/install/{page}.rst``', readme)
            self.assertIn(f'``doc/source/{about}.rst``', readme)
            for path in (f'install/{page}', about):
                self.assertIn(f':doc:`{path}`', index)

    def test_each_step_has_a_check_and_there_is_a_way_back(self):
        for name in set(self.PAGES) - {'roll-out'}:
            text = (DOCS / f'install/{name}.rst').read_text()
            steps = re.split(r'^\d\. .*\n=+\n', text, flags=re.M)[1:]
            steps[-1], back = steps[-1].split('The way back\n============\n')
            self.assertGreater(len(back.split()), 40)
            for step in steps[:-1]:
                self.assertRegex(step, r'\*Check[:*,]|:doc:`', name)
        self.assertIn(':doc:`roll-back`',
                      (DOCS / 'install/roll-out.rst').read_text())

    def test_help(self):
        text = hmsync.HMSyncApp().parser.description
        for word in ('health manager', 'network', 'image', 'cluster'):
            self.assertIn(word, text)


class TestFrontPages(base.BaseTestCase):
    """What an operator looks for is in the table of both front pages."""

    def check(self, page, *texts):
        table = re.search(r'^\.\. list-table::\n(?:(?: .*)?\n)*',
                          page.read_text(), re.M)[0]
        self.assertEqual([], [text for text in texts if text not in table])

    def test_each_leads_to_what_else_there_is(self):
        paths = ('install/requirements', 'admin/metrics',
                 'admin/notifications', 'admin/management-network',
                 'admin/operations', 'admin/troubleshooting',
                 'install/devstack')
        self.check(DOCS / 'index.rst', *(f':doc:`{path}`' for path in paths))
        self.check(TOP / 'README.rst', *(f'``{path}``' for path in paths))
        for path in paths:
            self.assertTrue((DOCS / f'{path}.rst').exists(), path)

    def test_each_page_is_in_one_table_of_contents(self):
        entries = []
        for page in DOCS.rglob('*.rst'):
            for toctree in re.findall(r'^\.\. toctree::\n((?:(?: .*)?\n)*)',
                                      page.read_text() + '\n', re.M):
                entries += [(page.parent / line.strip()).relative_to(DOCS)
                            for line in toctree.splitlines()
                            if line.strip() and ':' not in line]
        self.assertEqual(
            sorted(path.relative_to(DOCS).with_suffix('')
                   for path in DOCS.rglob('*.rst')
                   if path != DOCS / 'index.rst'), sorted(entries))

    def test_devstack_is_described_once(self):
        self.assertEqual(
            [DOCS / 'install/devstack.rst'],
            [path for path in (TOP / 'README.rst', *DOCS.rglob('*.rst'),
                               *(TOP / 'devstack').glob('*.rst'))
             if 'enable_plugin' in path.read_text()])


class TestOutput(base.BaseTestCase):
    """The options of cliff's formatters are documented once."""

    def setUp(self):
        super().setUp()
        source = (DOCS / 'conf.py').read_text()
        self.ignored = set(ast.literal_eval(re.search(
            r'^autoprogram_cliff_ignored = (\[.*?\])', source,
            re.M | re.S)[1])) - {'--help'}
        self.text = (DOCS / 'cli/output.rst').read_text()
        app = hmsync.HMSyncApp()
        self.common, self.own, self.formats = set(), set(), set()
        for name, _ in app.command_manager:
            factory, _, _ = app.command_manager.find_command(name.split())
            command = factory(app, None, cmd_name=name)
            # "complete" is cliff's own.
            if not factory.__module__.startswith('octavia_hmsync'):
                continue
            for group in command.get_parser(name)._action_groups:
                for action in group._group_actions:
                    self.add(action, self.own if group.title in (
                        'options', 'positional arguments') else self.common)

    def add(self, action, options):
        if action.help != argparse.SUPPRESS:
            options.update(option for option in action.option_strings
                           if option.startswith('--'))
        if '--format' in action.option_strings:
            self.formats.update(action.choices)

    def test_no_command_repeats_them(self):
        self.assertEqual(self.common, self.ignored)
        self.assertEqual(set(), self.own & self.ignored)

    def test_each_is_on_the_page(self):
        options = {option for line in re.findall(r'^\.\. option:: (.*)',
                                                 self.text, re.M)
                   for option in re.findall(r'--[a-z-]+', line)}
        self.assertEqual(self.ignored, options)
        self.assertIn('shell', self.formats)
        self.assertEqual([], [name for name in self.formats
                              if f'``{name}``' not in self.text])


class TestCommands(base.BaseTestCase):
    """Each command that a page tells to run can be run so."""

    # A whole line of a literal block, and what stands in the text.
    LINE = re.compile(r'^ +(?:\$ )?octavia-hmsync (.*)$', re.MULTILINE)
    INLINE = re.compile(r'``octavia-hmsync ([^`]+)``')
    # No commands: log lines, and what stands for any.
    OTHERS = ('works', 'failed', 'is', 'help', 'complete', 'COMMAND')
    # Of the shell, after the command.
    REST = re.compile(r' (?:\|\||>|\|) .*')

    def setUp(self):
        super().setUp()
        self.app = hmsync.HMSyncApp()
        self.pages = [TOP / 'README.rst', *sorted(DOCS.rglob('*.rst'))]

    def find(self, pattern):
        """Yield (page, arguments) of each command."""
        for page in self.pages:
            for found in pattern.findall(page.read_text()):
                line = self.REST.sub('', ' '.join(found.split()))
                arguments = self.app.parser.parse_known_args(
                    shlex.split(line))[1]
                if arguments[0] not in self.OTHERS:
                    yield page.name, arguments

    def problem(self, arguments):
        """Return what is wrong with a command, or None."""
        said = io.StringIO()
        try:
            factory, name, rest = self.app.command_manager.find_command(
                arguments)
            with contextlib.redirect_stderr(said):
                factory(self.app, None, cmd_name=name).get_parser(
                    name).parse_args(rest)
        except ValueError as e:
            return str(e)
        except SystemExit:
            return said.getvalue()
        return None

    def test_lines(self):
        commands = list(self.find(self.LINE))
        self.assertGreater(len(commands), 30)
        self.assertEqual([], [
            (page, ' '.join(arguments), self.problem(arguments))
            for page, arguments in commands if self.problem(arguments)])

    def test_in_the_text(self):
        """There the arguments may be left out."""
        commands = list(self.find(self.INLINE))
        self.assertGreater(len(commands), 30)
        wrong = [(page, ' '.join(arguments), self.problem(arguments))
                 for page, arguments in commands]
        self.assertEqual([], [
            found for found in wrong if found[2] and not re.search(
                'arguments are required|one of the arguments .* is required',
                found[2])])


def read_page(name):
    """Return the text of a page as one line."""
    text = (TOP / f'doc/source/admin/{name}.rst').read_text()
    return ' '.join(BEGINS.sub(' ', NO_PROSE.sub('', text)).split())


def read_promises():
    """Return {page: {words of it: what shows them}}."""
    found, shown = {}, []
    for line in PROMISES.read_text().splitlines():
        if line.startswith('='):
            page = found.setdefault(line.strip('= '), {})
        elif line.startswith(' '):
            shown.append(line.strip())
        elif line:
            shown = page.setdefault(line, [])
    return found


@functools.cache
def read_tests(module):
    """Return {(class, method)} of a module below "tests."."""
    path = TOP / 'tests' / f'{module.replace(".", "/")}.py'
    return {(one.name, each.name)
            for one in ast.parse(path.read_text()).body
            if isinstance(one, ast.ClassDef)
            for each in one.body if isinstance(each, ast.FunctionDef)
            } if path.is_file() else set()


def is_test(name):
    module, *rest = name.rsplit('.', 2)
    return tuple(rest) in read_tests(module)


class TestPromises(base.BaseTestCase):
    """Each "nothing", "never" and the like of two pages has its tests.

    promises.txt has, after the name of a page, words of it, and below them
    the tests that would fail were they not so. A "-" stands before what is no
    promise of the plugin: when (a condition), what (what a word means, or what
    another program does), limit (what is not so).
    """

    def setUp(self):
        super().setUp()
        self.promises = read_promises()

    def test_each_has_an_entry(self):
        for name, promises in self.promises.items():
            page, covered = read_page(name), set()
            for words in promises:
                for found in re.finditer(re.escape(words), page):
                    covered.update(range(*found.span()))
            self.assertEqual([], [
                page[max(0, found.start() - 60):found.end() + 40]
                for found in ABSOLUTE.finditer(page)
                if found.start() not in covered],
                f'{name}.rst: name what shows it in promises.txt')

    def test_each_entry_is_on_its_page(self):
        self.assertEqual({'clusters', 'distributors'}, set(self.promises))
        for name, promises in self.promises.items():
            page = read_page(name)
            self.assertEqual([], [
                words for words in promises
                if words not in page or not ABSOLUTE.search(words)], name)

    def test_each_is_shown(self):
        for promises in self.promises.values():
            for words, shown in promises.items():
                self.assertTrue(shown, words)
                self.assertEqual([], [
                    one for one in shown
                    if one not in NO_PROMISE and not is_test(one)], words)
