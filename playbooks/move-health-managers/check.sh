#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0
#
# Watches amphorae while run.yaml takes health managers away and brings them
# back. Proves that
#
# * the published list follows the health managers that are up,
# * the amphorae of a load balancer get each list and are heard to use it,
# * none of them is failed over, though each health manager they knew at first
#   was gone in turn: the same amphorae are there at the end.
#
# check.sh begin            makes a load balancer with a listener, and notes
#                           its amphorae
# check.sh expect ADDRESS ...  waits until these are the list, and all amphorae
#                           use it; fails after HMSYNC_CHECK_TIMEOUT s
# check.sh end              compares the amphorae, and deletes all

set -euo pipefail

# shellcheck source=playbooks/common.sh
. "$(dirname "$0")/../common.sh"

dir=${HMSYNC_CHECK_DIR:-/opt/stack/data/octavia-hmsync-check}

begin() {
    mkdir -p "$dir"
    openstack loadbalancer create --name "$name" \
        --vip-subnet-id private-subnet --wait
    # Without a listener an amphora does not tell which list it uses.
    openstack loadbalancer listener create --name "$name" --protocol TCP \
        --protocol-port 80 --wait "$name"
    amphorae "$name" >"$dir/amphorae"
    [ -s "$dir/amphorae" ] || fail "the load balancer has no amphora"
}

# is_settled STATUS ADDRESS ...: STATUS is what "sync status -f json" prints.
# Succeeds if these addresses are the list, and all amphorae use it.
is_settled() {
    python3 - "$@" <<'PYTHON'
import json
import sys

status = json.loads(sys.argv[1])
listed = status['controller_ip_port_list']
amphorae = status['amphorae']
sys.exit(not (sorted(listed) == sorted(sys.argv[2:]) and amphorae and
              status['due'] == 0 and
              status['applied'] == status['adopted'] == amphorae))
PYTHON
}

expect() {
    local status stuck deadline
    deadline=$((SECONDS + timeout))
    until status=$(octavia-hmsync sync status -f json) \
            && is_settled "$status" "$@"; do
        [ "$SECONDS" -lt "$deadline" ] \
            || fail "after $timeout s not all amphorae use $*: $status"
        sleep "$interval"
    done
    stuck=$(octavia-hmsync amphora list --not-adopted -f value -c id)
    [ -z "$stuck" ] || fail "these do not use their list: $stuck"
    compare
}

compare() {
    local now
    now=$(amphorae "$name")
    [ "$now" = "$(cat "$dir/amphorae")" ] \
        || fail "failed over: there were $(cat "$dir/amphorae"), now $now"
}

end() {
    compare
    openstack loadbalancer delete --cascade --wait "$name"
    rm -r "$dir"
}

case ${1:-} in
    begin|end) "$1" ;;
    expect)
        shift
        [ $# -gt 0 ] || fail "expect which addresses?"
        expect "$@"
        ;;
    *) fail "say begin, expect ADDRESS ... or end" ;;
esac
