# SPDX-License-Identifier: Apache-2.0

"""What the benchmarks print."""

import json
import platform

import psutil


def print_results(title, columns, rows):
    """Print rows as a table, and as JSON.

    :param title: of the table.
    :param columns: keys of the rows, a list.
    :param rows: a list of dicts.
    """
    cells = [columns] + [[_cell(row[column]) for column in columns]
                         for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    print(f'\n{title}\n')
    for line in cells:
        print('  '.join(cell.rjust(width)
                        for cell, width in zip(line, widths)))
    print()
    print(json.dumps({'benchmark': title, 'rows': rows,
                      'cpus': psutil.cpu_count(),
                      'python': platform.python_version()}))


def _cell(value):
    if value is None:
        return '-'
    return f'{value:.2f}' if isinstance(value, float) else str(value)


def cpu_seconds(pid):
    """Return what a process and its children have used, seconds."""
    process = psutil.Process(pid)
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
