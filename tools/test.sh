#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0
#
# Runs the style checks, the unit tests and the functional tests ("tox -e ci"),
# beside them the unit tests that depend on the release, and a few functional
# ones, with the oldest Octavia that the plugin is for, and does all the set-up
# they need: missing system packages (bindep.txt, only as root on Debian and
# Ubuntu) and virtual environments.
#
# The tests of the harness itself (tests/functional/harness.txt) run where their
# files changed, as tools/changed.sh finds it, and with "tox -e soak"; of those
# with the oldest Octavia the ones of octavia_hmsync/compat, and the others that
# depend on the release where that changed, and with "tox -e ci-2025.1".
#
# What failed is run once more at the end, alone. The last lines name the tests
# that passed only then (FLAKY: a defect of the test or of the code, to be mended;
# it counts as passed), those that failed twice and the checks that failed
# (FAILED), and say how many tests passed, failed and were skipped. The exit
# status is 0 only if every check passed, no test failed twice, and all four runs
# of tests took place. Where more than twenty tests failed, none is run again.
#
# Environment:
#   PYTHON          interpreter to use (default: the first of the distribution's
#                   python3.11, python3.11, python3, python3.12, python3.13,
#                   python3.14 that is 3.11 or later)
#   TOX_CONSTRAINTS_FILE  upper constraints, if wanted, for "tox -e ci"
#   OS_UNIT_CONCURRENCY, OS_FUNCTIONAL_CONCURRENCY  test workers (default: see
#                   tools/run_beside.py)
#   HARNESS         yes or no: whether to run the tests of the harness
#   COMPAT          yes or no: whether to run all that depend on the release with
#                   the oldest

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
venv=$top/.tox/test-sh
oldest=2025.1
# A short one, of what most depends on the release: an octavia-worker with the
# plugin. Controllers of the oldest run beside those of "tox -e ci" there.
cloud_tests='test_config_source.TestWorker'

# shellcheck source=tools/common.sh
. tools/common.sh

# Of what pip installs a quarter is ever imported, and compiled then: to compile
# all takes a third of its time.
export PIP_COMPILE=0

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

reports=$(mktemp -d)
beside=
function clean_up {
    remove_policy
    rm -rf "$reports"
    [ -z "$beside" ] || kill "$beside"
}
trap clean_up EXIT
left_out=tests/functional/long.txt
if tools/changed.sh harness; then
    say "with the tests of the harness, tests/functional/harness.txt"
else
    left_out=$reports/left-out
    cat tests/functional/{long,harness}.txt >"$left_out"
fi

if tools/changed.sh compat; then
    say "with the oldest Octavia all tests that depend on the release"
else
    export RELEASE_TESTS=--compat
fi

# Becomes tox; of the oldest Octavia constraints of its own are known.
become_tox() {
    if [ "$1" != ci ]; then
        unset TOX_CONSTRAINTS_FILE PIP_CONSTRAINT
        # Each worker imports all tests first, which takes seconds.
        export OS_UNIT_CONCURRENCY=${OS_UNIT_CONCURRENCY:-2}
    fi
    exec "$venv/bin/tox" run --workdir .tox -e "$@" </dev/null
}
run_tox() { (become_tox "$@"); }

rm -f .tox/ci/report.json ".tox/ci-$oldest/report.json"
# Both need the environment that builds the package: one makes it, while the
# other one has its dependencies installed.
run_tox "ci-$oldest" --notest --skip-pkg-install >"$reports/set-up.log" 2>&1 &
beside=$!
run_tox ci --notest || true
wait "$beside" || cat "$reports/set-up.log"
{
    renice -n 5 "$BASHPID" >/dev/null
    become_tox "ci-$oldest" -- "$cloud_tests"
} >"$reports/oldest.log" 2>&1 &
beside=$!
run_tox ci --skip-pkg-install -- "$left_out" || true
wait "$beside" || true
beside=
cat "$reports/oldest.log"
if [ ! -x .tox/ci/bin/python ]; then
    say "tox could not make its environment"
    echo "0 passed, 0 failed, 0 skipped"
    exit 1
fi

count_tests() {
    .tox/ci/bin/python tools/count_tests.py "$1" ci=.tox/ci/report.json \
        "ci-$oldest=.tox/ci-$oldest/report.json"
}
count_tests failed >"$reports/failed" || true
: >"$reports/passed-alone"
while read -r environment name; do
    say "$name once more, alone"
    if run_tox "$environment" --skip-pkg-install \
            -x "testenv:$environment.commands=python -m unittest $name"; then
        echo "$environment $name" >>"$reports/passed-alone"
    fi
done <"$reports/failed"
count_tests report <"$reports/passed-alone"
