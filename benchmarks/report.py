#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
