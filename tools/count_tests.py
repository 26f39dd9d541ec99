# SPDX-License-Identifier: Apache-2.0

"""Counts what "tools/test.sh" ran, for it; see there.

    count_tests.py failed ENVIRONMENT=REPORT...
    count_tests.py report ENVIRONMENT=REPORT... < tests that passed alone

REPORT is what run_beside.py wrote in that environment of tox: it ran unit
tests and functional ones. "failed" prints the environment and the name of each
test that failed, and that can be run again; "report" reads such lines and
prints the result.
"""

import collections
import json
import sys

from stestr.repository import abstract
from stestr.repository import util
import testtools

RUNS = 2
# With more than that, it is no chance, and all of them take too long.
MOST = 20

Results = collections.namedtuple('Results', 'passed failed skipped')


def read_report(path):
    """Read what run_beside.py wrote; nothing where it did not come so far."""
    try:
        with open(path) as report:
            return json.load(report)
    except (OSError, ValueError):
        return {'checks': {'set-up': 1}, 'runs': {}}


def read_results(runs):
    """Read what stestr recorded.

    A test that was started and never ended (its process died) has failed.

    :param runs: {kind: what the report has of it}.
    :returns: a list of Results, of what was recorded.
    """
    results = []
    for run in runs.values():
        try:
            repository = util.get_repo_open(repo_url=run['repository'])
        except abstract.RepositoryNotFound:
            continue
        for number in range(run['first'], repository.count()):
            results.append(read_run(repository.get_test_run(number)))
    return results


def read_run(run):
    passed, failed, skipped = [], [], []

    def sort(test):
        if test['status'] in ('success', 'xfail'):
            passed.append(test['id'])
        elif test['status'] == 'skip':
            skipped.append(test['id'])
        elif test['status'] != 'exists':
            failed.append(test['id'])

    result = testtools.StreamToDict(sort)
    result.startTestRun()
    run.get_test().run(result)
    result.stopTestRun()
    return Results(passed, failed, skipped)


def print_failed(runs):
    failed = [(environment, name) for environment, results in runs
              for name in results.failed]
    if len(failed) <= MOST:
        for environment, name in failed:
            # stestr has names of its own for a process that died, unittest
            # for a module or class that cannot be set up.
            if name.startswith('tests.') and ' ' not in name:
                print(environment, name)


def print_report(runs, checks, passed_alone):
    """Print the result; returns whether all is well."""
    passed, failed, skipped, flaky = 0, [], 0, []
    for environment, results in runs:
        passed += len(results.passed)
        skipped += len(results.skipped)
        for name in results.failed:
            (flaky if (environment, name) in passed_alone
             else failed).append(name)
    passed += len(flaky)
    took_place = sum(bool(results.passed or results.failed)
                     for _environment, results in runs)
    expected = RUNS * len(checks)
    print()
    for name in flaky:
        print('FLAKY %s' % name)
    for name in failed:
        print('FAILED %s' % name)
    for environment, names in checks.items():
        for name in names:
            print('FAILED %s of %s' % (name, environment))
    if took_place < expected:
        print('Of the unit tests and the functional tests, with the newest '
              'and with the oldest Octavia, %d of %d runs took place.'
              % (took_place, expected))
    print('%d passed, %d failed, %d skipped' % (passed, len(failed), skipped))
    return not failed and not any(checks.values()) and took_place == expected


def main(task, *paths):
    reports = {name: read_report(path) for name, path in (
        each.split('=', 1) for each in paths)}
    runs = [(name, results) for name, report in reports.items()
            for results in read_results(report['runs'])]
    if task == 'failed':
        print_failed(runs)
        return 0
    passed_alone = {tuple(line.split()) for line in sys.stdin}
    return 0 if print_report(
        runs, {name: [check for check, status in report['checks'].items()
                      if status] for name, report in reports.items()},
        passed_alone) else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
