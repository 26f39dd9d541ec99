# SPDX-License-Identifier: Apache-2.0

"""The diagrams of the documentation are what tools draws from their texts."""

import importlib.util
import pathlib
import tempfile
from xml.etree import ElementTree

from oslotest import base

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOL = TOP / 'tools/sequence_diagrams.py'


def load_tool():
    spec = importlib.util.spec_from_file_location('sequence_diagrams', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestDiagrams(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.tool = load_tool()
        self.paths = sorted(self.tool.DIAGRAMS.glob('*.seq'))

    def draw(self, *lines):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(directory) / 'a.seq'
        path.write_text('\n'.join(['# A title', *lines]))
        return self.tool.render(path)

    def test_up_to_date(self):
        self.assertGreaterEqual(len(self.paths), 5)
        for path in self.paths:
            self.assertEqual(
                self.tool.render(path), path.with_suffix('.svg').read_text(),
                f'{path.name} has changed: run {TOOL.name}')

    def test_each_drawing_has_a_text(self):
        self.assertEqual(
            {path.stem for path in self.paths},
            {path.stem for path in self.tool.DIAGRAMS.glob('*.svg')})

    def test_each_is_shown(self):
        pages = ''.join(page.read_text() for page in
                        (TOP / 'doc/source').rglob('*.rst'))
        self.assertEqual([], [
            path.name for path in self.paths
            if f'/diagrams/{path.stem}.svg' not in pages])

    def test_everything_is_drawn(self):
        svg = self.draw('a = first', 'b = second', '== Then ==',
                        'a -> b: hello', 'b --> a: <answer>', 'a -x b: lost',
                        'a -> a: thinks', 'note a, b: both')
        texts = {element.text for element in
                 ElementTree.fromstring(svg).iter() if element.text}
        for text in ('A title', 'first', 'second', 'Then', 'hello',
                     '<answer>', 'lost', 'thinks', 'both'):
            self.assertIn(text, texts)
        self.assertIn('prefers-color-scheme: dark', svg)

    def test_bad_lines(self):
        for line, said in (('a => b: x', 'line 3 means nothing: a => b: x'),
                           ('a -> c: x', "line 3 names 'c'"),
                           ('note c: x', "line 3 names 'c'")):
            problem = self.assertRaises(self.tool.SyntaxProblem, self.draw,
                                        'a = first', line)
            self.assertIn('a.seq', str(problem))
            self.assertIn(said, str(problem))
