# SPDX-License-Identifier: Apache-2.0

"""Runs octavia-tempest-plugin: python -m tests.tempest [RUN ...].

"tox -e tempest" calls it; a run is a line of runs.RUNS. All that it starts
ends with it.
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile
import warnings

from tests.cloud import isolation
from tests.tempest import results
from tests.tempest import runs


def main():
    parser = argparse.ArgumentParser(prog='python -m tests.tempest')
    parser.add_argument('runs', nargs='*', default=[
        'cluster', 'amphora', 'traffic-cluster', 'traffic', 'noop'],
        help=f'of {", ".join(runs.RUNS)}')
    parser.add_argument('--logs', default=os.path.join(
        tempfile.gettempdir(), 'octavia-hmsync-tempest'),
        help='where logs go [default: %(default)s]')
    arguments = parser.parse_args()
    unknown = [name for name in arguments.runs if name not in runs.RUNS]
    if unknown:
        parser.error(f'{unknown[0]} is not one of '
                     f'{", ".join(runs.RUNS)}')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    warnings.simplefilter('ignore')
    isolation.isolate()
    os.makedirs(arguments.logs, exist_ok=True)
    providers = {name: runs.RUNS[name].provider for name in arguments.runs}
    table = pathlib.Path(arguments.logs, 'results.rst')
    found, unexpected = {}, []
    for kind in dict.fromkeys(runs.RUNS[name].kind for name in providers):
        with kind() as cloud:
            cloud.wait_until_ready()
            for name, provider in providers.items():
                run = runs.RUNS[name]
                if run.kind is not kind:
                    continue
                found[name] = runs.run(cloud, run, arguments.logs)
                unexpected += results.find_unexpected(provider, found[name])
                print(results.describe(name, found[name]), flush=True)
                table.write_text(results.make_table(found, providers))
    print(f'Logs and the table: {arguments.logs}')
    for each in unexpected:
        print(f'FAILED: {each.name}: {each.reason}')
    return int(bool(unexpected))


if __name__ == '__main__':
    sys.exit(main())
