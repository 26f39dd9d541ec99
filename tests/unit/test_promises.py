# SPDX-License-Identifier: Apache-2.0

"""Each "nothing", "never" and the like of two pages has a test that shows it.

promises.txt has, after the name of a page, words of it, and below them the
tests that would fail were they not so. A "-" stands before what is no promise
of the plugin: when (a condition), what (what a word means, or what another
program does), limit (what is not so).
"""

import ast
import functools
import pathlib
import re

from oslotest import base

TOP = pathlib.Path(__file__).resolve().parents[2]
PROMISES = pathlib.Path(__file__).with_name('promises.txt')
ABSOLUTE = re.compile(
    r'\b(?:nothing|never|nobody|none|no|nowhere|always|at once|only'
    r'|without (?:a )?br(?:eaking|oken)|0 of)\b', re.I)
NO_PROMISE = ('- when', '- what', '- limit')
# What is quoted from logs, and names of places in the documentation.
NO_PROSE = re.compile(r':\w+:`[^`]+`|^\.\. _.*$', re.M)
# Of lists and tables.
BEGINS = re.compile(r'^ *(?:\* - |- |\* )', re.M)


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
                if found.start() not in covered], name)

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
