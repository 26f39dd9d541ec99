# SPDX-License-Identifier: Apache-2.0

"""What an upload costs: the plugin, Octavia's own way, and the floor.

::

    python -m benchmarks.upload [--amphorae N] [--upstream N] [--rounds N]
                                [--httpx]

All upload to the same simulated fleet, in turn, each in a process of
its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from benchmarks import report
from tests.cloud import process
from tests.fleet import cloud as fleet_cloud

COLUMNS = ['contender', 'amphorae', 'cpu_ms', 'wall_ms', 'statements',
           'cpu_to_bare']


def run(amphorae=1000, upstream=100, rounds=3, httpx=False):
    """Measure.

    :param amphorae: how many the plugin and the bare client upload to.
    :param upstream: how many Octavia's own way uploads to.
    :param rounds: how often; the median counts.
    :param httpx: whether to measure that library, too, which is no
                  requirement of the plugin.
    :returns: a list of dicts with the COLUMNS; the times are per amphora, in
              milliseconds.
    """
    results = {'bare': [], **({'httpx': []} if httpx else {}),
               'hmsync': [], 'upstream': []}
    with fleet_cloud.FleetCloud(amphorae) as cloud:
        fleet = cloud.start_fleet(['192.0.2.1:5555'], heartbeat_interval=0)
        for _ in range(rounds):
            for name, rows in results.items():
                number = upstream if name == 'upstream' else amphorae
                rows.append(_measure(cloud, name, number))
                state = fleet.state()
                if state['answers'].get('202') != state['uploads']:
                    raise RuntimeError(f'not all were uploaded to: {state}')
    floor = _median(results['bare'], 'cpu_ms')
    return [{'contender': name, 'amphorae': rows[0]['amphorae'],
             **{column: _median(rows, column)
                for column in ('cpu_ms', 'wall_ms', 'statements')},
             'cpu_to_bare': _median(rows, 'cpu_ms') / floor}
            for name, rows in results.items()]


def _median(rows, column):
    return statistics.median(row[column] for row in rows)


def _measure(cloud, name, number):
    members_path = os.path.join(cloud.directory, 'members.json')
    with open(members_path, 'w') as members:
        json.dump(cloud.members[:number], members)
    result = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'benchmarks.contenders', name,
         '--config-file', cloud.write_conf('contender'),
         '--fleet', members_path],
        env=process.environment(cloud.directory), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        raise RuntimeError(f'{name} failed:\n{result.stderr}')
    return json.loads(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--amphorae', type=int, default=1000)
    parser.add_argument('--upstream', type=int, default=100)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--httpx', action='store_true')
    report.print_results('upload, per amphora', COLUMNS,
                         run(**vars(parser.parse_args())))


if __name__ == '__main__':
    main()
