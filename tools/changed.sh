#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0
#
# Ends with 0 where tests that few changes concern are to be run:
#
#   changed.sh harness   those of the harness itself
#                        (tests/functional/harness.txt: the small cloud, the
#                        simulated fleet, benchmarks, the demo, mixed releases,
#                        other places)
#   changed.sh compat    with the oldest Octavia, all that depend on the release
#
# They are where a file of theirs differs from what it was
#
# - on a branch: where that left the main branch of its remote (origin/HEAD);
# - on that main branch itself, and without a remote: a day before the last
#   commit;
# - and always where git cannot tell.
#
# HARNESS or COMPAT, yes or no, overrules that.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
case $1 in
    harness)
        asked=${HARNESS:-}
        files=(tests/cloud tests/fleet benchmarks tools
            tests/functional/harness.txt
            tests/functional/test_{benchmarks,cloud,demo,fleet}.py
            tests/functional/test_{mixed_releases,places}.py) ;;
    compat)
        asked=${COMPAT:-}
        files=(octavia_hmsync/compat tests/unit/compat setup.cfg
            requirements.txt test-requirements.txt tox.ini) ;;
    *)
        echo "usage: changed.sh harness|compat" >&2
        exit 2 ;;
esac
[ -z "$asked" ] || { [ "$asked" = yes ]; exit; }

main=origin/HEAD
git rev-parse --verify -q "$main" >/dev/null 2>&1 || main=HEAD
base=$(git merge-base HEAD "$main" 2>/dev/null) || exit 0
if [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-list -1 --first-parent HEAD --min-age=$((
        $(git show -s --format=%ct HEAD) - 86400)))
    [ -n "$base" ] || exit 0
fi
# With what is not committed yet.
! git diff --quiet "$base" -- "${files[@]}"
