# SPDX-License-Identifier: Apache-2.0

"""Draws the sequence diagrams of the documentation.

The tools that Sphinx has extensions for are no longer kept up (seqdiag), or
want a Java run-time or another system package wherever the documentation is
built. These diagrams need five kinds of lines:

    hm = octavia-health-manager     a participant, in the order of columns
    == Start-up ==                  a heading across the whole width
    hm -> db: registers             a message; --> is drawn dashed, and one
                                    that is lost ends in a cross with -x
    hm -> hm: binds its socket      something that a participant does
    note hm, db: text               a note from the first to the last column

and lines that begin with # are comments. "sequence_diagrams.py" reads each
doc/source/diagrams/*.seq and writes the SVG file beside it.
"""

import pathlib
import re
import sys
import textwrap
from xml.sax import saxutils

DIAGRAMS = pathlib.Path(__file__).resolve().parents[1] / 'doc/source/diagrams'

COLUMN = 196
MARGIN = 108
FONT_SIZE = 13
LINE = 17
# Of the fonts below, the mean width of a character.
CHARACTER = 6.9
HEAD_WIDTH = 180
# Names are bold, and wider.
NAME_WIDTH = 152
ARROW = 7

PARTICIPANT = re.compile(r'(\w+) = (.+)')
HEADING = re.compile(r'== (.+) ==')
MESSAGE = re.compile(r'(\w+) (->|-->|-x) (\w+): (.+)')
NOTE = re.compile(r'note (\w+)(?:, (\w+))?: (.+)')

# The same shapes in both themes; a page says which one it has.
COLORS = {
    'light': {'back': '#ffffff', 'ink': '#1f2933', 'line': '#7b8794',
              'box': '#e4ecf5', 'note': '#fdf3d0', 'lost': '#b42318'},
    'dark': {'back': '#1b2128', 'ink': '#e4e7eb', 'line': '#8d9aa8',
             'box': '#2b3a4c', 'note': '#4a4222', 'lost': '#ff8a7a'},
}
STYLE = '''
.back {{ fill: {back}; }}
text {{ fill: {ink}; }}
.label {{ stroke: {back}; }}
.life, .rule, .frame {{ stroke: {line}; }}
.head {{ fill: {box}; stroke: {line}; }}
.note {{ fill: {note}; stroke: {line}; }}
.arrow, .self {{ stroke: {ink}; }}
.tip {{ fill: {ink}; }}
.lost {{ stroke: {lost}; }}'''
SHAPE = '''
text { font-family: "Open Sans", "Segoe UI", "DejaVu Sans", sans-serif;
  font-size: 13px; text-anchor: middle; }
.strong { font-weight: 600; }
.label { paint-order: stroke; stroke-width: 5px; stroke-linejoin: round; }
.life { stroke-dasharray: 2 4; }
.reply { stroke-dasharray: 6 4; }
.arrow, .self, .lost { fill: none; stroke-width: 1.4; }
.lost { stroke-width: 2.2; }
.frame { fill: none; }'''


class SyntaxProblem(Exception):
    """A line that means nothing."""


class Diagram:
    """One diagram, drawn from top to bottom.

    :param text: the lines, see above.
    :raises SyntaxProblem: naming the line.
    """

    def __init__(self, text):
        self._columns = {}
        self._names = []
        self._parts = []
        self._y = 0
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith('#'):
                self._draw(number, line.strip())

    def _draw(self, number, line):
        if match := PARTICIPANT.fullmatch(line):
            self._columns[match[1]] = MARGIN + COLUMN * len(self._columns)
            self._names.append(match[2])
            return
        if not self._y:
            self._y = 20 + self._head_height
        try:
            if match := HEADING.fullmatch(line):
                self._heading(match[1])
            elif match := NOTE.fullmatch(line):
                self._note(self._columns[match[1]],
                           self._columns[match[2] or match[1]], match[3])
            elif match := MESSAGE.fullmatch(line):
                self._message(self._columns[match[1]], match[2],
                              self._columns[match[3]], match[4])
            else:
                raise SyntaxProblem(f'line {number} means nothing: {line}')
        except KeyError as e:
            raise SyntaxProblem(
                f'line {number} names {e}, which is no participant: {line}'
            ) from None

    @property
    def _width(self):
        return 2 * MARGIN + COLUMN * (len(self._columns) - 1)

    @property
    def _head_height(self):
        return 10 + LINE * max(
            len(self._wrap(name, NAME_WIDTH)) for name in self._names)

    def _wrap(self, text, width=HEAD_WIDTH - 12):
        # A number stays with its unit.
        glued = re.sub(r'(\d) (s\b)', '\\1\N{NO-BREAK SPACE}\\2', text)
        return textwrap.wrap(glued, max(int(width / CHARACTER), 8),
                             break_on_hyphens=False)

    def _text(self, x, y, lines, kind):
        for n, line in enumerate(lines):
            self._parts.append(
                f'<text class="{kind}" x="{x:g}" y="{y + n * LINE:g}">'
                f'{saxutils.escape(line)}</text>')

    def _heading(self, text):
        self._y += 16
        self._parts.append(f'<line class="rule" x1="12" x2="{self._width - 12}'
                           f'" y1="{self._y + 6}" y2="{self._y + 6}"/>')
        self._text(self._width / 2, self._y + 11, [text], 'label strong')
        self._y += 24

    def _note(self, first, last, text):
        left, right = min(first, last), max(first, last)
        width = right - left + HEAD_WIDTH
        lines = self._wrap(text, width - 16)
        height = len(lines) * LINE + 10
        self._y += 8
        self._parts.append(
            f'<rect class="note" x="{left - HEAD_WIDTH / 2:g}" y="{self._y}" '
            f'width="{width}" height="{height}" rx="3"/>')
        self._text((left + right) / 2, self._y + LINE, lines, 'in')
        self._y += height + 4

    def _message(self, start, kind, end, text):
        if start == end:
            self._own(start, text)
            return
        lines = self._wrap(text, abs(end - start) - 24)
        self._y += 8
        self._text((start + end) / 2, self._y + FONT_SIZE, lines, 'label')
        self._y += len(lines) * LINE + 5
        away = 1 if end > start else -1
        tip = end - away * (22 if kind == '-x' else 2)
        dashed = ' reply' if kind == '-->' else ''
        self._parts.append(f'<path class="arrow{dashed}" '
                           f'd="M{start} {self._y}H{tip - away * ARROW}"/>')
        if kind == '-x':
            self._parts.append(
                f'<path class="lost" d="M{tip - 6} {self._y - 6}l12 12m0 -12'
                f'l-12 12"/>')
        else:
            self._parts.append(
                f'<path class="tip" d="M{tip} {self._y}l{-away * (ARROW + 3)} '
                f'-4.5v9z"/>')
        self._y += 6

    def _own(self, x, text):
        lines = self._wrap(text)
        self._y += 8
        height = len(lines) * LINE + 8
        self._parts.append(
            f'<rect class="head" x="{x - HEAD_WIDTH / 2:g}" y="{self._y}" '
            f'width="{HEAD_WIDTH}" height="{height}" rx="9"/>')
        self._text(x, self._y + FONT_SIZE + 3, lines, 'in')
        self._y += height + 4

    def to_svg(self, title):
        """Return the diagram.

        :param title: for those who hear it read.
        """
        heads, height = self._heads(), self._y + 16
        body = '\n'.join([*heads, *self._parts])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {self._width} {height}" width="{self._width}" '
            f'height="{height}">\n<title>{saxutils.escape(title)}</title>\n'
            f'<style>{SHAPE}{STYLE.format(**COLORS["light"])}\n'
            f'@media (prefers-color-scheme: dark) {{'
            f'{STYLE.format(**COLORS["dark"])}\n}}\n</style>\n'
            f'<rect class="back" width="100%" height="100%" rx="6"/>\n'
            f'{body}\n</svg>\n')

    def _heads(self):
        height = self._head_height
        for x, name in zip(self._columns.values(), self._names):
            yield (f'<line class="life" x1="{x}" x2="{x}" y1="{10 + height}" '
                   f'y2="{self._y + 8}"/>')
            yield (f'<rect class="head" x="{x - HEAD_WIDTH / 2:g}" y="10" '
                   f'width="{HEAD_WIDTH}" height="{height}" rx="3"/>')
            lines = self._wrap(name, NAME_WIDTH)
            top = 10 + (height - LINE * len(lines)) / 2 + FONT_SIZE
            for n, line in enumerate(lines):
                yield (f'<text class="strong" x="{x}" '
                       f'y="{top + n * LINE:g}">{saxutils.escape(line)}'
                       f'</text>')


def render(path):
    """Draw one diagram.

    :param path: a pathlib.Path; its first line is a comment, the title.
    :returns: the SVG.
    :raises SyntaxProblem: naming the file and the line.
    """
    text = path.read_text()
    try:
        return Diagram(text).to_svg(text.split('\n', 1)[0].strip('# '))
    except SyntaxProblem as e:
        raise SyntaxProblem(f'{path.name}: {e}') from None


def main():
    """Write all diagrams anew."""
    for path in sorted(DIAGRAMS.glob('*.seq')):
        try:
            path.with_suffix('.svg').write_text(render(path))
        except SyntaxProblem as e:
            sys.exit(str(e))


if __name__ == '__main__':
    main()
