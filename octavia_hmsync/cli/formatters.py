# SPDX-License-Identifier: Apache-2.0

"""Output formats, and forms of values, that cliff lacks."""

import csv

from cliff import columns
from cliff.formatters import base
from cliff.formatters import commaseparated
from cliff.formatters import shell
from cliff.formatters import table
from cliff.formatters import value
from cliff import utils


class List(columns.FormattableColumn):
    """A list: in one line for people, a list in JSON and YAML."""

    separator = ', '

    def human_readable(self):
        return self.separator.join(map(str, self._value))

    def machine_readable(self):
        return list(self._value)


class Lines(List):
    """A list with a line for each item."""

    separator = '\n'


class Objects(Lines):
    """Objects: for programs as they are, for people a line for each."""

    def __init__(self, objects, describe):
        super().__init__(list(objects))
        self._describe = describe

    def human_readable(self):
        return self.separator.join(map(self._describe, self._value))


def _to_text(row):
    """Return values in the form for people, octavia.conf and spreadsheets."""
    return [item.human_readable()
            if isinstance(item, columns.FormattableColumn) else item
            for item in row]


class ValueFormatter(value.ValueFormatter):
    """cliff's formatter, but without Python's notation of lists."""

    def emit_list(self, column_names, data, stdout, parsed_args):
        super().emit_list(column_names, map(_to_text, data), stdout,
                          parsed_args)

    def emit_one(self, column_names, data, stdout, parsed_args):
        super().emit_one(column_names, _to_text(data), stdout, parsed_args)


class ListCSVFormatter(commaseparated.CSVLister):
    """The same for cliff's CSV formatter of lists."""

    def emit_list(self, column_names, data, stdout, parsed_args):
        super().emit_list(column_names, map(_to_text, data), stdout,
                          parsed_args)


class ShellFormatter(shell.ShellFormatter):
    """The same for cliff's shell formatter."""

    def emit_one(self, column_names, data, stdout, parsed_args):
        super().emit_one(column_names, _to_text(data), stdout, parsed_args)


class TableFormatter(table.TableFormatter):
    """cliff's formatter, within the terminal, or 80 columns without one.

    Where a list is wider its last column is wrapped if it is text; cliff
    would wrap ids and addresses.
    """

    # Of a last column, however wide the others are.
    _NARROWEST = 14

    def add_rows(self, table, column_names, data):
        """Add rows, and wrap the last column if that is necessary."""
        super().add_rows(table, column_names, data)
        if not table.rows:
            return
        too_much = len(table.get_string().splitlines()[0]) - _get_width()
        last = table.field_names[-1]
        is_text = any(' ' in str(row[-1]) for row in table.rows)
        if too_much > 0 and is_text:
            # Its text, and two blanks and a line on each side.
            width = len(table.get_string(fields=[last]).splitlines()[0]) - 4
            table.max_width[last] = max(self._NARROWEST, width - too_much)

    def emit_one(self, column_names, data, stdout, parsed_args):
        if not parsed_args.fit_width and parsed_args.max_width < 1:
            parsed_args.max_width = _get_width()
        super().emit_one(column_names, data, stdout, parsed_args)


def _get_width():
    return utils.terminal_width() or 80


class ShowCSVFormatter(base.SingleFormatter):
    """One object as CSV: a line of names and a line of values."""

    def add_argument_group(self, parser):
        """Add no arguments."""

    def emit_one(self, column_names, data, stdout, parsed_args):
        writer = csv.writer(stdout, lineterminator='\n')
        writer.writerow(column_names)
        writer.writerow(_to_text(data))
