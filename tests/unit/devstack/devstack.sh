#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0

# What the plugin takes from devstack, as far as it can be seen from outside.
# With DEVSTACK_DIR in the environment devstack's own functions are used
# instead; what would change the machine is recorded in either case.

set -o errexit

if [[ -n ${DEVSTACK_DIR:-} ]]; then
    export TOP_DIR=$DEVSTACK_DIR
    # shellcheck source=/dev/null
    source "$DEVSTACK_DIR/functions"
else
    # Prints the lines of an option, each with its number in the file.
    function ini_lines {
        awk -v section="[$2]" -v option="$3" '
            /^\[/ { inside = ($0 == section) }
            inside && $0 ~ "^" option "[ \t]*=" { print NR ":" $0 }' "$1"
    }

    function ini_has_option {
        [[ -n $(ini_lines "$@") ]]
    }

    function iniget {
        ini_lines "$@" | sed 's/^[^=]*=[ \t]*//'
    }

    function inidelete {
        local number
        for number in $(ini_lines "$@" | sed 's/:.*//' | tac); do
            sed -i "${number}d" "$1"
        done
    }

    # A new option comes first in its section.
    function iniset {
        local number
        if ! grep -qF "[$2]" "$1"; then
            printf '\n[%s]\n' "$2" >>"$1"
        fi
        if ini_has_option "$1" "$2" "$3"; then
            for number in $(ini_lines "$1" "$2" "$3" | sed 's/:.*//'); do
                sed -i "${number}s|=.*|= $4|" "$1"
            done
        else
            sed -i "/^\[$2\]/a $3 = $4" "$1"
        fi
    }

    function is_service_enabled {
        [[ ,$ENABLED_SERVICES, == *,$1,* ]]
    }

    function trueorfalse {
        [[ ${!2:-$1} == [Ff]alse ]] && echo False || echo True
    }

    function get_python_exec_prefix {
        echo "$DATA_DIR/venv/bin"
    }

    function die {
        shift
        echo "$*" >&2
        exit 1
    }

    function test_with_retry {
        local _
        for _ in 1 2 3; do
            if sh -c "$1"; then
                return 0
            fi
        done
        die "" "$2"
    }

    function define_plugin {
        :
    }

    function plugin_requires {
        :
    }
fi

function record {
    echo "$*" >>"$DEST/calls"
}

function echo_summary {
    record echo_summary "$@"
}

function setup_develop {
    record setup_develop "$@"
}

function restart_service {
    record restart_service "$@"
}

function run_process {
    record run_process "$@"
}

function stop_process {
    record stop_process "$@"
}

# Of Octavia's plugin.
function install_diskimage_builder {
    record install_diskimage_builder
}

# The tests' user may do what it has to.
function sudo {
    "$@"
}
