#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Runs demo.py in an environment of its own, which it makes at its first run
# (below ${XDG_CACHE_HOME:-~/.cache}) and uses again afterwards. Needs root and
# Python 3.11 or later; on Debian and Ubuntu it installs the venv module and
# haproxy where they are missing, for --image-upgrade, --real and --cluster
# MariaDB, RabbitMQ, keepalived, curl and iproute2, too, for --cluster Open
# vSwitch, OVN and ethtool, and for --real QEMU and what builds an image;
# Neutron and Glance get an environment each beside its own.
# Takes the options of demo.py; see --help.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/octavia-hmsync
venv=$cache/demo

# shellcheck source=tools/common.sh
. "$top/tools/common.sh"

make_environment() {
    local python=$1
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    "$python" -m venv "$venv"
    # pyroute2, which the amphora agent needs and octavia does not require, is
    # among the controller's. The last line is what tests/cloud imports.
    "$venv/bin/pip" install -q --disable-pip-version-check \
        --constraint <(echo 'octavia==19.0.0') \
        'pbr>=6.1.1' 'setuptools>=70.1' \
        --editable "${top}[ovn,distributor]" \
        cryptography fixtures psutil PyMySQL
}

[ "$(id -u)" -eq 0 ] || die "needs root, to read packets on the loopback \
interface and because amphora agents write below /var/log"
prepare_python
needs() { PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || missing+=("$2"); }
missing=()
needs haproxy haproxy
if [[ " $* " == *" --cluster "* ]]; then
    needs ovs-vswitchd openvswitch-switch
    needs ovn-northd ovn-central
    needs ovn-controller ovn-host
    needs ethtool ethtool
fi
if [[ " $* " == *" --real "* ]]; then
    needs qemu-system-x86_64 qemu-system-x86
    needs qemu-img qemu-utils
    needs genisoimage genisoimage
    needs debootstrap debootstrap
    needs sgdisk gdisk
    needs kpartx kpartx
    needs git git
    needs sudo sudo
fi
if [[ " $* " =~ " --"(image-upgrade|real|cluster)" " ]]; then
    needs mariadbd mariadb-server
    needs rabbitmq-server rabbitmq-server
    needs keepalived keepalived
    needs curl curl
    needs ip iproute2
    export OCTAVIA_HMSYNC_VIRTUALENVS=$cache
    for each in neutron glance; do
        [ -e "$cache/$each/made-for" ] || say "an environment for $each is \
made in $cache when it is started; this takes a minute"
    done
fi
[ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"

if ! git -C "$top" rev-parse --verify -q HEAD >/dev/null 2>&1; then
    export PBR_VERSION=${PBR_VERSION:-0.0.1}
fi
wanted=$({ "$python" -VV; sed -n '/^\[extras\]/,/^\[entry_points\]/p' \
    "$top/setup.cfg"; cat "${BASH_SOURCE[0]}"; } | sha256sum)
if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$wanted" ]; then
    say "making an environment in $venv; this takes some minutes"
    make_environment "$python"
    echo "$wanted" >"$venv/made-for"
fi

# Each time: its entry points may have changed. Editable, because pbr would
# leave out of a wheel what git does not know yet.
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps \
    --no-build-isolation --editable "$top"

exec "$venv/bin/python" "$top/tools/demo.py" "$@"
