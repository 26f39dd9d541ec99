#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0
#
# Runs the style checks, the unit tests and the functional tests ("tox -e ci"),
# then the unit tests and a few functional ones with the oldest Octavia that
# the plugin is for, and does all the set-up they need: missing system packages
# (bindep.txt, only as root on Debian and Ubuntu) and virtual environments.
#
# What failed is run once more at the end, alone. The last lines name the tests
# that passed only then (FLAKY: a defect of the test or of the code, to be mended;
# it counts as passed), those that failed twice and the checks that failed
# (FAILED), and say how many tests passed, failed and were skipped. The exit
# status is 0 only if every check passed, no test failed twice, and all four runs
# of tests took place. Where more than twenty tests failed, none is run again.
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
reports=$(mktemp -d)
trap 'remove_policy; rm -rf "$reports"' EXIT
run_tox() {
    local environment=$1
    shift
    (
        if [ "$environment" != ci ]; then
            unset TOX_CONSTRAINTS_FILE PIP_CONSTRAINT
        fi
        "$venv/bin/tox" run --workdir .tox -e "$environment" "$@" </dev/null
    )
}
run_tox ci --result-json "$reports/ci" || true
run_tox "ci-$oldest" --result-json "$reports/oldest" -- "$cloud_tests" || true
if [ ! -x .tox/ci/bin/python ]; then
    say "tox could not make its environment"
    echo "0 passed, 0 failed, 0 skipped"
    exit 1
fi

count_tests() {
    .tox/ci/bin/python tools/count_tests.py "$1" "$first_run" \
        ci="$reports/ci" "ci-$oldest=$reports/oldest"
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
