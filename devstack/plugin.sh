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
# The devstack plugin: stack.sh, unstack.sh and clean.sh source it once for
# each of their phases, after Octavia's plugin.
#
# Octavia's plugin writes octavia.conf and makes the database in post-config;
# in extra it adds controller_ip_port_list and starts the services, which so
# find hmsync switched on. Each phase may run again and then changes nothing.

_XTRACE_OCTAVIA_HMSYNC=$(set +o | grep xtrace)
set +o xtrace

function octavia_hmsync {
    "$OCTAVIA_HMSYNC_BIN_DIR/octavia-hmsync" --config-file "$OCTAVIA_CONF" "$@"
}

# Adds hmsync to an option that is a list, after what is in it.
# octavia_hmsync_list_add section option default
function octavia_hmsync_list_add {
    local section=$1
    local option=$2
    local default=$3
    local value
    value=$(iniget "$OCTAVIA_CONF" "$section" "$option")
    value=${value:-$default}
    if [[ ",${value// /}," != *,hmsync,* ]]; then
        iniset "$OCTAVIA_CONF" "$section" "$option" "${value:+$value, }hmsync"
    fi
}

# Takes hmsync out again, and with it an option that has its default then.
# octavia_hmsync_list_remove section option default
function octavia_hmsync_list_remove {
    local section=$1
    local option=$2
    local default=$3
    local value item kept=""
    value=$(iniget "$OCTAVIA_CONF" "$section" "$option")
    if [[ ",${value// /}," != *,hmsync,* ]]; then
        return 0
    fi
    for item in ${value//,/ }; do
        if [[ $item != hmsync ]]; then
            kept+=${kept:+, }$item
        fi
    done
    if [[ $kept == "$default" ]]; then
        inidelete "$OCTAVIA_CONF" "$section" "$option"
    else
        iniset "$OCTAVIA_CONF" "$section" "$option" "$kept"
    fi
}

function octavia_hmsync_install {
    if [[ -z $OCTAVIA_HMSYNC_AFTER_OCTAVIA ]]; then
        die $LINENO "octavia-hmsync needs Octavia: in local.conf, put" \
            "'enable_plugin octavia' before 'enable_plugin octavia-hmsync'"
    fi
    setup_develop "$OCTAVIA_HMSYNC_DIR"
}

function octavia_hmsync_switch_on {
    octavia_hmsync_list_add DEFAULT config_source ""
    octavia_hmsync_list_add controller_worker statistics_drivers stats_db
    iniset "$OCTAVIA_CONF" hmsync driver octavia_hmsync
}

function octavia_hmsync_switch_off {
    if [[ ! -f $OCTAVIA_CONF ]]; then
        return 0
    fi
    octavia_hmsync_list_remove DEFAULT config_source ""
    octavia_hmsync_list_remove controller_worker statistics_drivers stats_db
    inidelete "$OCTAVIA_CONF" hmsync driver
    if [[ -f $OCTAVIA_HMSYNC_PINNED ]] && ! ini_has_option "$OCTAVIA_CONF" \
            health_manager controller_ip_port_list; then
        iniset "$OCTAVIA_CONF" health_manager controller_ip_port_list \
            "$(cat "$OCTAVIA_HMSYNC_PINNED")"
    fi
    rm -f "$OCTAVIA_HMSYNC_PINNED"
}

# On the nodes that make Octavia's own tables: they drop the database first.
function octavia_hmsync_upgrade_db {
    case $OCTAVIA_NODE in
        main|standalone|api)
            octavia_hmsync db upgrade || die $LINENO \
                "octavia-hmsync: the tables could not be made"
            ;;
    esac
}

# Restarts those of the services that are on this node.
# octavia_hmsync_restart service ...
function octavia_hmsync_restart {
    local service
    for service in "$@"; do
        if is_service_enabled "$service"; then
            restart_service "devstack@$service.service"
        fi
    done
}

# local.conf can have set one of the options too, after post-config. The
# services read them only when they start, and have started by now.
function octavia_hmsync_switch_on_again {
    local before
    before=$(cksum <"$OCTAVIA_CONF")
    octavia_hmsync_switch_on
    if [[ $(cksum <"$OCTAVIA_CONF") != "$before" ]]; then
        octavia_hmsync_restart "$OCTAVIA_HEALTHMANAGER" \
            "$OCTAVIA_CONSUMER" "$OCTAVIA_HOUSEKEEPER"
    fi
}

# Waits until a command of octavia-hmsync succeeds. It is run by a shell.
# octavia_hmsync_wait failure command
function octavia_hmsync_wait {
    local command="$OCTAVIA_HMSYNC_BIN_DIR/octavia-hmsync"
    command+=" --config-file $OCTAVIA_CONF $2"
    test_with_retry "$command" "octavia-hmsync: $1; see journalctl" \
        "$OCTAVIA_HMSYNC_TIMEOUT" 2
}

function octavia_hmsync_wait_registered {
    if is_service_enabled "$OCTAVIA_HEALTHMANAGER"; then
        octavia_hmsync_wait "$OCTAVIA_HEALTHMANAGER has not registered" \
            "health manager show --self"
    fi
}

# What the file of a housekeeper lists is in every published list, whether
# anything listens there or not. It must not go before a list is published:
# a worker would build amphorae with none.
#
# Signal HUP would be enough, as the option is mutable; but it ends a service
# that has only just been started and does not handle it yet. A health manager
# does not look at the option.
function octavia_hmsync_remove_pinned {
    local pinned
    pinned=$(iniget "$OCTAVIA_CONF" health_manager controller_ip_port_list)
    if [[ -z $pinned ]] || ! is_service_enabled "$OCTAVIA_HOUSEKEEPER"; then
        return 0
    fi
    octavia_hmsync_wait "$OCTAVIA_HOUSEKEEPER has not published a list" \
        "sync status -f value -c generation | grep '[0-9]'"
    echo "$pinned" >"$OCTAVIA_HMSYNC_PINNED"
    inidelete "$OCTAVIA_CONF" health_manager controller_ip_port_list
    octavia_hmsync_restart "$OCTAVIA_CONSUMER" "$OCTAVIA_HOUSEKEEPER"
}

# Exit code 1 of upgrade check is a warning, such as pinned addresses.
function octavia_hmsync_check {
    octavia_hmsync upgrade check || [[ $? -eq 1 ]] \
        || die $LINENO "octavia-hmsync: the plugin cannot work; see above"
    octavia_hmsync health manager list \
        || die $LINENO "octavia-hmsync: the health managers are not known"
}

$_XTRACE_OCTAVIA_HMSYNC

if is_service_enabled octavia; then
    case "$1 ${2:-}" in
        "stack install")
            echo_summary "Installing octavia-hmsync"
            octavia_hmsync_install
            ;;
        "stack post-config")
            echo_summary "Configuring octavia-hmsync"
            octavia_hmsync_switch_on
            octavia_hmsync_upgrade_db
            ;;
        "stack extra")
            echo_summary "Waiting for octavia-hmsync"
            octavia_hmsync_switch_on_again
            octavia_hmsync_wait_registered
            if [[ $OCTAVIA_HMSYNC_REMOVE_PINNED == True ]]; then
                octavia_hmsync_remove_pinned
            fi
            ;;
        "stack test-config")
            octavia_hmsync_check
            ;;
        # The tables stay: Octavia's plugin makes its database anew when it is
        # stacked again, and clean.sh removes the database server's data.
        "unstack "*|"clean "*)
            octavia_hmsync_switch_off
            ;;
    esac
fi
