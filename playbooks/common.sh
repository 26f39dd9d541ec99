# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0

# What the scripts of the devstack jobs share.

name=hmsync-check
timeout=${HMSYNC_CHECK_TIMEOUT:-600}
interval=${HMSYNC_CHECK_INTERVAL:-5}
openrc=${HMSYNC_CHECK_OPENRC:-/opt/stack/devstack/openrc}
PATH=$PATH:/opt/stack/data/venv/bin

fail() { echo "check.sh: $*" >&2; exit 1; }

# amphorae LOAD_BALANCER: one line for each that serves. One that was failed
# over, or replaced, has another id.
amphorae() {
    openstack loadbalancer amphora list --loadbalancer "$1" \
        --status ALLOCATED -f value -c id | sort
}

# openrc uses variables that are not set.
set +u
# shellcheck source=/dev/null
. "$openrc" admin admin
set -u
