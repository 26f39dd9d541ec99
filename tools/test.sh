#!/usr/bin/env bash
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
#
# Runs the style checks, the unit tests and the functional tests ("tox -e ci"),
# then the unit tests and a few functional ones with the oldest Octavia that
# the plugin is for, and does all the set-up they need: missing system packages
# (bindep.txt, only as root on Debian and Ubuntu) and virtual environments.
#
# The last lines name the tests that failed, and say how many passed, failed and
# were skipped. The exit status is 0 only if every check passed, no test failed,
# and all four runs of tests took place.
#
# Environment:
#   PYTHON          interpreter to use (default: the first of python3.11,
#                   python3, python3.12, python3.13, python3.14 that is 3.11
#                   or later)
#   TOX_CONSTRAINTS_FILE  upper constraints, if wanted, for "tox -e ci"
#   OS_UNIT_CONCURRENCY, OS_FUNCTIONAL_CONCURRENCY  test workers (default: see
#                   tox.ini)

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
venv=$top/.tox/test-sh
oldest=2025.1
# Short ones, of what most depends on the release: an octavia-worker with the
# plugin, and controllers of the oldest beside those of "tox -e ci".
cloud_tests='test_config_source.TestWorker|test_mixed_releases.TestOctavia'

# shellcheck source=tools/common.sh
. tools/common.sh

prepare_python

if ! "$venv/bin/tox" --version >/dev/null 2>&1 \
        || ! "$venv/bin/bindep" --version >/dev/null 2>&1; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -q 'tox>=4.6.0' bindep
fi

missing=$("$venv/bin/bindep" -b test) || [ -n "$missing" ] \
    || die "bindep could not tell which system packages are missing"
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086  # one word is one package
    apt_install $missing
fi

# pbr reads the version from git. Without a git history that it may read (a
# tarball, somebody else's clone) it has to be told one.
if ! git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    export PBR_VERSION=${PBR_VERSION:-0.0.1}
fi

first_run=$(cat .stestr/next-stream 2>/dev/null || echo 0)
status=0
run_tox() { "$venv/bin/tox" run --workdir .tox "$@" </dev/null || status=$?; }
run_tox -e ci
(
    unset TOX_CONSTRAINTS_FILE PIP_CONSTRAINT
    run_tox -e "ci-$oldest" -- "$cloud_tests"
    exit "$status"
) || status=$?
if [ ! -x .tox/ci/bin/python ]; then
    say "tox could not make its environment"
    echo "0 passed, 0 failed, 0 skipped"
    exit 1
fi

# Counts the results of the runs that stestr recorded since. A test that was
# started and never ended (its process died) has failed.
counts=0
.tox/ci/bin/python - "$first_run" <<'PYTHON' || counts=$?
import sys

from stestr.repository import abstract
from stestr.repository import util
import testtools

passed, failed, skipped, empty = 0, [], 0, 0


def count(test):
    global passed, skipped
    if test['status'] in ('success', 'xfail'):
        passed += 1
    elif test['status'] == 'skip':
        skipped += 1
    elif test['status'] != 'exists':
        failed.append(test['id'])


try:
    repository = util.get_repo_open(repo_url='.')
    runs = range(int(sys.argv[1]), repository.count())
except abstract.RepositoryNotFound:
    runs = ()
for run in runs:
    before = passed + len(failed)
    result = testtools.StreamToDict(count)
    result.startTestRun()
    repository.get_test_run(run).get_test().run(result)
    result.stopTestRun()
    empty += passed + len(failed) == before
print()
for name in failed:
    print('FAILED %s' % name)
if len(runs) < 4 or empty:
    print('Of the unit tests and the functional tests, with the newest and '
          'with the oldest Octavia, %d of 4 runs took place.'
          % (len(runs) - empty))
print('%d passed, %d failed, %d skipped' % (passed, len(failed), skipped))
sys.exit(bool(failed or empty or len(runs) < 4))
PYTHON

if [ "$status" -eq 0 ]; then
    status=$counts
fi
exit "$status"
