# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0

# What demo.sh and test.sh share: finding Python, installing system packages.

say() { printf 'tools/%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$*"; exit 1; }

policy=/usr/sbin/policy-rc.d
remove_policy() {
    [ -z "${policy_is_ours:-}" ] || rm -f "$policy"
    policy_is_ours=
}
trap remove_policy EXIT

# Installs system packages, starting none of the services in them: the tests
# bring up their own.
apt_install() {
    command -v apt-get >/dev/null || die "install these packages first: $*"
    [ "$(id -u)" -eq 0 ] || die "install these packages first, as root: $*"
    say "installing $*"
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        policy_is_ours=yes
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2 \
        || say "apt-get update failed; using the lists at hand"
    apt-get install -q -y --no-install-recommends "$@" </dev/null >&2
    remove_policy
}

# Prints the path of an interpreter, if it is new enough and has these modules.
find_one() {
    "$1" -c "import $2; sys.exit(sys.version_info < (3, 11))" \
        >/dev/null 2>&1 && command -v "$1"
}

# The distribution's own goes first, where it can make virtual environments: it
# was built with a profile, for which pyenv has to be asked, and takes a fifth
# less of a processor.
find_python() {
    local name
    if [ -z "${PYTHON:-}" ]; then
        find_one /usr/bin/python3.11 ensurepip,sys,venv && return
    fi
    for name in ${PYTHON:-python3.11 python3 python3.12 python3.13 \
            python3.14}; do
        find_one "$name" sys && return
    done
    return 1
}

# Sets $python to the interpreter to use, once it can make virtual environments.
prepare_python() {
    python=$(find_python) || die "needs Python 3.11 or later"
    "$python" -c 'import ensurepip, venv' 2>/dev/null \
        || apt_install "$("$python" -c \
            'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
}
