# SPDX-License-Identifier: Apache-2.0

"""Runs checks and tests beside each other, for "tox -e ci".

    run_beside.py [--checks] [--unit OPTIONS] [--functional OPTIONS] DIRECTORY

OPTIONS are those of "stestr run". The functional tests wait more than they
compute. What they leave of the machine the checks and the unit tests get, at
a lower priority; their output follows at the end. All three begin at once, so
that no processor is idle while the last one ends. Each command runs, also
after one that failed.

Writes what count_tests.py needs into report.json of the directory, how each
command ended, and which runs there were. There stestr keeps these, too.
"""

import argparse
import configparser
import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading

REPORT = 'report.json'
LOWER = 10
# Of a few more processes than there are processors some have work until the
# end: stestr shares tests out by number, whatever each takes.
CONCURRENCY = {'unit': os.environ.get('OS_UNIT_CONCURRENCY') or '3',
               'functional': os.environ.get('OS_FUNCTIONAL_CONCURRENCY')
               or '5'}


def read_checks():
    """Read the commands of the environments pep8 and mypy."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read('tox.ini')
    return [line for environment in ('testenv:pep8', 'testenv:mypy')
            for line in parser[environment]['commands'].strip().splitlines()]


def run(command, output=None, lower=0):
    """Run a command to its end; returns its status."""
    print(f'> {shlex.join(command)}', file=output, flush=True)
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output and subprocess.STDOUT,
            preexec_fn=lambda: os.nice(lower)).returncode
    except OSError as e:
        print(e, file=output, flush=True)
        return 127


def run_tests(kind, directory, options, **how):
    """Run tests; returns what the report has of them."""
    # One for each kind: stestr numbers a run when it ends.
    repository = directory / f'tests-{kind}'
    repository.mkdir(exist_ok=True)
    number = repository / '.stestr/next-stream'
    first = int(number.read_text()) if number.exists() else 0
    status = run(['stestr', '--repo-url', str(repository), '--test-path',
                  f'./tests/{kind}', 'run', '--concurrency',
                  CONCURRENCY[kind], *shlex.split(options)], **how)
    return {'status': status, 'repository': str(repository), 'first': first}


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument('--checks', action='store_true')
    parser.add_argument('--unit', default='')
    parser.add_argument('--functional', default='')
    parser.add_argument('directory', type=pathlib.Path)
    asked = parser.parse_args(arguments)
    checks, runs = {}, {}

    def run_checks(**how):
        for line in read_checks() if asked.checks else ():
            name, *rest = shlex.split(line)
            checks[name] = run([name, *rest], **how) or checks.get(name, 0)

    def run_unit_tests(**how):
        runs['unit'] = run_tests('unit', asked.directory, asked.unit, **how)

    with contextlib.ExitStack() as stack:
        outputs, threads = [], []
        for target in (run_checks, run_unit_tests):
            outputs.append(stack.enter_context(
                tempfile.TemporaryFile('w+')))
            threads.append(threading.Thread(target=target, kwargs={
                'output': outputs[-1], 'lower': LOWER}))
            threads[-1].start()
        runs['functional'] = run_tests('functional', asked.directory,
                                       asked.functional)
        for thread, output in zip(threads, outputs):
            thread.join()
            output.seek(0)
            sys.stdout.writelines(output)
    (asked.directory / REPORT).write_text(
        json.dumps({'checks': checks, 'runs': runs}))
    return int(any([*checks.values(),
                    *(each['status'] for each in runs.values())]))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
