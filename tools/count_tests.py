# SPDX-License-Identifier: Apache-2.0

"""Counts what "tools/test.sh" ran, for it; see there.

    count_tests.py failed FIRST ENVIRONMENT=REPORT...
    count_tests.py report FIRST ENVIRONMENT=REPORT... < tests that passed alone

FIRST is the number of the first run that stestr recorded. Each environment of
tox ran the unit tests and then functional ones; REPORT is its --result-json.
"failed" prints the environment and the name of each test that failed, and that
can be run again; "report" reads such lines and prints the result.
"""

import collections
import json
import os
import sys

from stestr.repository import abstract
from stestr.repository import util
import testtools

RUNS = 2
# With more than that, it is no chance, and all of them take too long.
MOST = 20

Results = collections.namedtuple('Results', 'passed failed skipped')


def read_results(first, environments):
    """Read what stestr recorded.

    A test that was started and never ended (its process died) has failed.

    :returns: a list of (environment, Results of one run), in their order; it
              has fewer runs if fewer were recorded.
    """
    try:
        repository = util.get_repo_open(repo_url='.')
        numbers = range(first, repository.count())
    except abstract.RepositoryNotFound:
        return []
    runs = []
    for number, environment in zip(
            numbers, [each for each in environments for _ in range(RUNS)],
            strict=False):
        passed, failed, skipped = [], [], []

        def sort(test, passed=passed, failed=failed, skipped=skipped):
            if test['status'] in ('success', 'xfail'):
                passed.append(test['id'])
            elif test['status'] == 'skip':
                skipped.append(test['id'])
            elif test['status'] != 'exists':
                failed.append(test['id'])

        result = testtools.StreamToDict(sort)
        result.startTestRun()
        repository.get_test_run(number).get_test().run(result)
        result.stopTestRun()
        runs.append((environment, Results(passed, failed, skipped)))
    return runs


def find_failed_checks(environment, path):
    """Name what failed in an environment, other than tests.

    :param path: of what tox reported; there is none where tox could not run.
    """
    try:
        with open(path) as report:
            found = json.load(report)['testenvs'][environment]
        if found['result']['success']:
            return []
        failed = [os.path.basename(each['command'][0])
                  for each in found['test'] if each['retcode']]
        failed += [None for each in found['setup'] if each['retcode']]
    except (OSError, ValueError, LookupError):
        failed = []
    # Not only tests failed, or nobody knows what did.
    return ([name or 'set-up' for name in failed if name != 'stestr']
            if failed else ['set-up'])


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


def main(task, first, *reports):
    paths = dict(each.split('=', 1) for each in reports)
    runs = read_results(int(first), paths)
    if task == 'failed':
        print_failed(runs)
        return 0
    passed_alone = {tuple(line.split()) for line in sys.stdin}
    return 0 if print_report(
        runs, {environment: find_failed_checks(environment, path)
               for environment, path in paths.items()}, passed_alone) else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
