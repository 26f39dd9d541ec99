#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0
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

# Takes an option out, for unstack to put it back.
# octavia_hmsync_take_out section option
function octavia_hmsync_take_out {
    local value
    value=$(iniget "$OCTAVIA_CONF" "$1" "$2")
    if [[ -n $value ]]; then
        echo "$1 $2 $value" >>"$OCTAVIA_HMSYNC_TAKEN"
        inidelete "$OCTAVIA_CONF" "$1" "$2"
    fi
}

# What was taken out last counts; what has been written since is newer.
function octavia_hmsync_put_back {
    local section option value
    if [[ -f $OCTAVIA_HMSYNC_TAKEN ]]; then
        while read -r section option value; do
            if ! ini_has_option "$OCTAVIA_CONF" "$section" "$option"; then
                iniset "$OCTAVIA_CONF" "$section" "$option" "$value"
            fi
        done < <(tac "$OCTAVIA_HMSYNC_TAKEN")
        rm "$OCTAVIA_HMSYNC_TAKEN"
    fi
}

function octavia_hmsync_install {
    if [[ -z $OCTAVIA_HMSYNC_AFTER_OCTAVIA ]]; then
        die $LINENO "octavia-hmsync needs Octavia: in local.conf, put" \
            "'enable_plugin octavia' before 'enable_plugin octavia-hmsync'"
    fi
    if [[ ! $OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES =~ ^(0|[1-9][0-9]*)$ ]]; then
        die $LINENO "octavia-hmsync: OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES is" \
            "$OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES: set it to a number"
    fi
    if octavia_hmsync_has_instances \
            && [[ $OCTAVIA_HMSYNC_DISTRIBUTOR_DRIVER == hmsync_ovn ]]; then
        die $LINENO "octavia-hmsync: hmsync_ovn needs no distributors: unset" \
            "OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES"
    fi
    setup_develop "$OCTAVIA_HMSYNC_DIR" distributor,ovn
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
    octavia_hmsync_withdraw_clusters
    inidelete "$OCTAVIA_CONF" hmsync driver
    octavia_hmsync_leave_network
    octavia_hmsync_put_back
}

OCTAVIA_HMSYNC_NETWORK=hmsync-mgmt-net

function octavia_hmsync_has_network {
    [[ -n $OCTAVIA_HMSYNC_MANAGEMENT_CIDR && $OCTAVIA_NODE != api ]]
}

# Has amphorae be built in a network that the plugin makes, and this node have
# a port there. Octavia's own, with the default names, stays unused.
function octavia_hmsync_use_network {
    local wildcard=0.0.0.0
    if [[ $OCTAVIA_HMSYNC_MANAGEMENT_CIDR == *:* ]]; then
        wildcard=::
    fi
    octavia_hmsync_take_out controller_worker amp_boot_network_list
    octavia_hmsync_take_out controller_worker amp_secgroup_list
    if [[ $(iniget "$OCTAVIA_CONF" health_manager bind_ip) \
            != "$wildcard" ]]; then
        octavia_hmsync_take_out health_manager bind_ip
    fi
    iniset "$OCTAVIA_CONF" hmsync_network management_subnet_cidr \
        "$OCTAVIA_HMSYNC_MANAGEMENT_CIDR"
    iniset "$OCTAVIA_CONF" hmsync_network network_name \
        "$OCTAVIA_HMSYNC_NETWORK"
    iniset "$OCTAVIA_CONF" hmsync_network amphora_security_group \
        hmsync-mgmt-sec-grp
    iniset "$OCTAVIA_CONF" hmsync_network health_manager_security_group \
        hmsync-health-mgr-sec-grp
    iniset "$OCTAVIA_CONF" hmsync_network supply_options True
    iniset "$OCTAVIA_CONF" health_manager bind_ip "$wildcard"
    iniset "$OCTAVIA_CONF" hmsync address_driver neutron_port
    iniset "$OCTAVIA_CONF" hmsync address_interface "$OCTAVIA_HMSYNC_INTERFACE"
}

# Open vSwitch and interfaces are root's.
# octavia_hmsync_port plug|unplug
function octavia_hmsync_port {
    sudo "$OCTAVIA_HMSYNC_BIN_DIR/octavia-hmsync" \
        --config-file "$OCTAVIA_CONF" network port "$1"
}

# Other nodes find the network that the first one has made.
function octavia_hmsync_make_network {
    if [[ $OCTAVIA_NODE == main || $OCTAVIA_NODE == standalone ]]; then
        octavia_hmsync network ensure || die $LINENO \
            "octavia-hmsync: the management network could not be made"
    fi
    octavia_hmsync_port plug || die $LINENO \
        "octavia-hmsync: this node has no port in the management network"
}

# The network goes with the database of Neutron, which stack.sh makes anew.
function octavia_hmsync_leave_network {
    local option
    if [[ $(iniget "$OCTAVIA_CONF" hmsync_network network_name) \
            != "$OCTAVIA_HMSYNC_NETWORK" ]]; then
        return 0
    fi
    octavia_hmsync_port unplug || true
    for option in management_subnet_cidr network_name amphora_security_group \
            health_manager_security_group supply_options; do
        inidelete "$OCTAVIA_CONF" hmsync_network "$option"
    done
    inidelete "$OCTAVIA_CONF" hmsync address_driver
    inidelete "$OCTAVIA_CONF" hmsync address_interface
    inidelete "$OCTAVIA_CONF" health_manager bind_ip
}

function octavia_hmsync_has_instances {
    [[ $OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES -gt 0 ]]
}

function octavia_hmsync_has_clusters {
    [[ $OCTAVIA_HMSYNC_CLUSTERS == True ]] \
        || octavia_hmsync_has_instances \
        || is_service_enabled "$OCTAVIA_HMSYNC_DISTRIBUTOR" \
        || is_service_enabled "$OCTAVIA_HMSYNC_MANAGER"
}

OCTAVIA_HMSYNC_PROVIDER="amphora_cluster: A cluster of amphorae"

# As devstack has it for Neutron. Without an address it is a socket here.
# octavia_hmsync_tell_ovn database address
function octavia_hmsync_tell_ovn {
    if [[ -n $2 ]]; then
        iniset "$OCTAVIA_CONF" ovn "ovn_$1_connection" "$2"
    fi
    if is_service_enabled tls-proxy; then
        iniset "$OCTAVIA_CONF" ovn "ovn_$1_ca_cert" "$INT_CA_DIR/ca-chain.pem"
        iniset "$OCTAVIA_CONF" ovn "ovn_$1_certificate" \
            "$INT_CA_DIR/$DEVSTACK_CERT_NAME.crt"
        iniset "$OCTAVIA_CONF" ovn "ovn_$1_private_key" \
            "$INT_CA_DIR/private/$DEVSTACK_CERT_NAME.key"
    fi
}

# Offers load balancers on clusters of amphorae.
function octavia_hmsync_offer_clusters {
    local providers distributors=$OCTAVIA_HMSYNC_DISTRIBUTORS
    providers=$(iniget "$OCTAVIA_CONF" api_settings enabled_provider_drivers)
    if [[ -z $providers ]]; then
        # Octavia's own default: the option replaces all of it.
        providers="amphora: The Octavia Amphora driver."
        providers+=", octavia: Deprecated alias of the Octavia Amphora driver."
    fi
    if [[ $providers != *"$OCTAVIA_HMSYNC_PROVIDER"* ]]; then
        iniset "$OCTAVIA_CONF" api_settings enabled_provider_drivers \
            "$providers, $OCTAVIA_HMSYNC_PROVIDER"
    fi
    iniset "$OCTAVIA_CONF" controller_worker amphora_driver hmsync
    iniset "$OCTAVIA_CONF" controller_worker distributor_driver \
        "$OCTAVIA_HMSYNC_DISTRIBUTOR_DRIVER"
    if [[ $OCTAVIA_HMSYNC_DISTRIBUTOR_DRIVER == hmsync_ovn ]]; then
        octavia_hmsync_tell_ovn nb "${OVN_NB_REMOTE:-}"
        octavia_hmsync_tell_ovn sb "${OVN_SB_REMOTE:-}"
    else
        if is_service_enabled "$OCTAVIA_HMSYNC_DISTRIBUTOR" \
                || ! octavia_hmsync_has_instances; then
            distributors=${distributors:-$(hostname)=https://$HOST_IP:9444}
        fi
        if [[ -n $distributors ]]; then
            iniset "$OCTAVIA_CONF" hmsync_cluster distributors "$distributors"
        fi
    fi
    if octavia_hmsync_has_instances; then
        iniset "$OCTAVIA_CONF" hmsync_cluster distributor_instances \
            "$OCTAVIA_HMSYNC_DISTRIBUTOR_INSTANCES"
    fi
    if is_service_enabled "$OCTAVIA_HMSYNC_MANAGER"; then
        iniset "$OCTAVIA_CONF" hmsync_cluster keep_in_housekeeping False
    fi
}

function octavia_hmsync_withdraw_clusters {
    local providers option
    providers=$(iniget "$OCTAVIA_CONF" api_settings enabled_provider_drivers)
    if [[ $providers != *", $OCTAVIA_HMSYNC_PROVIDER"* ]]; then
        return 0
    fi
    iniset "$OCTAVIA_CONF" api_settings enabled_provider_drivers \
        "${providers/, $OCTAVIA_HMSYNC_PROVIDER/}"
    # As Octavia's plugin has written it.
    if [[ -n $OCTAVIA_AMPHORA_DRIVER ]]; then
        iniset "$OCTAVIA_CONF" controller_worker amphora_driver \
            "$OCTAVIA_AMPHORA_DRIVER"
    else
        inidelete "$OCTAVIA_CONF" controller_worker amphora_driver
    fi
    inidelete "$OCTAVIA_CONF" controller_worker distributor_driver
    for option in distributors keep_in_housekeeping distributor_instances \
            distributor_flavor_id distributor_secgroup_list \
            distributor_server_group; do
        inidelete "$OCTAVIA_CONF" hmsync_cluster "$option"
    done
}

# Prints the id of what has a name, and fails where there is no such thing.
# octavia_hmsync_find kind name
function octavia_hmsync_find {
    local -a kind
    read -ra kind <<<"$1"
    openstack "${kind[@]}" show -f value -c id "$2" 2>/dev/null
}

# Makes it where there is none, as the user as whom Octavia's plugin makes its
# own.
# octavia_hmsync_find_or_create kind name option ...
function octavia_hmsync_find_or_create {
    local name=$2
    local -a kind
    read -ra kind <<<"$1"
    if ! octavia_hmsync_find "$1" "$name"; then
        shift 2
        openstack "${kind[@]}" create -f value -c id "$@" "$name" || die \
            $LINENO "octavia-hmsync: the ${kind[*]} $name could not be made"
    fi
}

OCTAVIA_HMSYNC_INSTANCE_NAME=hmsync-distributor

# The source is what this node runs.
function octavia_hmsync_build_distributor_image {
    # Octavia's plugin installs it only where it builds an image.
    if ! command -v disk-image-create >/dev/null; then
        install_diskimage_builder
    fi
    ELEMENTS_PATH=$OCTAVIA_HMSYNC_DIR/elements DIB_RELEASE=noble \
        DIB_REPOLOCATION_octavia_hmsync=$OCTAVIA_HMSYNC_DIR \
        DIB_REPOREF_octavia_hmsync=$(
            git -C "$OCTAVIA_HMSYNC_DIR" rev-parse HEAD) \
        disk-image-create -o "$OCTAVIA_HMSYNC_DISTRIBUTOR_IMAGE" \
        ubuntu-minimal vm octavia-hmsync-distributor || die $LINENO \
            "octavia-hmsync: the image of distributors could not be built"
}

# octavia_hmsync_upload image file option ...
function octavia_hmsync_upload {
    openstack image create --file "$2" --disk-format qcow2 \
        --container-format bare "${@:3}" "$1" >/dev/null || die $LINENO \
            "octavia-hmsync: the image $1 could not be made of $2"
}

function octavia_hmsync_make_distributor_image {
    local name=$OCTAVIA_HMSYNC_INSTANCE_NAME
    local file=$OCTAVIA_HMSYNC_DISTRIBUTOR_IMAGE
    if octavia_hmsync_find image "$name" >/dev/null; then
        return 0
    fi
    if [[ ! -f $file ]]; then
        octavia_hmsync_build_distributor_image
    fi
    octavia_hmsync_upload "$name" "$file" --private --tag hmsync-distributor
}

# Ports of health managers alone reach distributors. Each node whose services
# ask them has such a port.
function octavia_hmsync_make_distributor_rule {
    local name=$OCTAVIA_HMSYNC_INSTANCE_NAME
    local remote ethertype=IPv4
    if [[ -n $(openstack security group rule list -f value -c ID \
            --protocol tcp "$name") ]]; then
        return 0
    fi
    remote=$(iniget "$OCTAVIA_CONF" hmsync_network \
        health_manager_security_group)
    if [[ $(iniget "$OCTAVIA_CONF" health_manager bind_ip) == *:* ]]; then
        ethertype=IPv6
    fi
    openstack security group rule create --ethertype "$ethertype" \
        --protocol tcp --dst-port 9444 \
        --remote-group "${remote:-lb-health-mgr-sec-grp}" "$name" >/dev/null \
        || die $LINENO \
            "octavia-hmsync: no rule lets controllers reach distributors"
}

# Makes what housekeeping boots distributors with; other nodes find it by its
# names.
function octavia_hmsync_use_instances {
    local name=$OCTAVIA_HMSYNC_INSTANCE_NAME
    local flavor group server_group
    octavia_hmsync_make_distributor_image
    group=$(octavia_hmsync_find_or_create "security group" "$name")
    octavia_hmsync_make_distributor_rule
    flavor=$(octavia_hmsync_find_or_create flavor "$name" \
        --vcpus 2 --ram 2048 --disk 8 --private)
    # A devstack mostly has one host: with anti-affinity it would never have
    # the second distributor.
    server_group=$(OS_COMPUTE_API_VERSION=2.15 \
        octavia_hmsync_find_or_create "server group" "$name" \
        --policy soft-anti-affinity)
    iniset "$OCTAVIA_CONF" hmsync_cluster distributor_flavor_id "$flavor"
    iniset "$OCTAVIA_CONF" hmsync_cluster distributor_secgroup_list "$group"
    iniset "$OCTAVIA_CONF" hmsync_cluster distributor_server_group \
        "$server_group"
}

# Without the tag of Octavia's images: with it this image, the newest, would be
# that of the first load balancers, and none would be outdated.
function octavia_hmsync_make_new_amphora_image {
    if [[ -n $OCTAVIA_HMSYNC_NEW_AMPHORA_IMAGE ]] \
            && ! octavia_hmsync_find image amphora-new >/dev/null; then
        octavia_hmsync_upload amphora-new "$OCTAVIA_HMSYNC_NEW_AMPHORA_IMAGE" \
            --public --property hw_rng_model=virtio
    fi
}

# Whether the certificate is of the authority that controllers trust now:
# Octavia's plugin makes another one at each stack.sh.
function octavia_hmsync_has_certificate {
    local certificate=$OCTAVIA_HMSYNC_DISTRIBUTOR_DIR/server.pem
    [[ -f $certificate ]] && openssl verify -partial_chain -CAfile \
        "$(iniget "$OCTAVIA_CONF" certificates ca_certificate)" \
        "$certificate" &>/dev/null
}

# A certificate for the address of this node, of the authority that has issued
# those of amphorae.
function octavia_hmsync_make_certificate {
    local directory=$OCTAVIA_HMSYNC_DISTRIBUTOR_DIR
    local ca key passphrase
    ca=$(iniget "$OCTAVIA_CONF" certificates ca_certificate)
    key=$(iniget "$OCTAVIA_CONF" certificates ca_private_key)
    passphrase=$(iniget "$OCTAVIA_CONF" certificates ca_private_key_passphrase)
    openssl req -newkey rsa:3072 -nodes -subj "/CN=$HOST_IP" \
        -keyout "$directory/server.key" -out "$directory/server.csr" \
        || die $LINENO "octavia-hmsync: no key for the distributor"
    PASSPHRASE=$passphrase openssl x509 -req -in "$directory/server.csr" \
        -days 365 -CA "$ca" -CAkey "$key" -passin env:PASSPHRASE \
        -CAserial "$directory/serial" -CAcreateserial \
        -extfile <(echo "subjectAltName=IP:$HOST_IP") \
        -out "$directory/server.pem" \
        || die $LINENO "octavia-hmsync: no certificate for the distributor"
}

function octavia_hmsync_configure_distributor {
    local directory=$OCTAVIA_HMSYNC_DISTRIBUTOR_DIR
    local conf=$directory/distributor.conf
    mkdir -p "$directory"
    chmod 700 "$directory"
    if ! octavia_hmsync_has_certificate; then
        octavia_hmsync_make_certificate
    fi
    touch "$conf"
    iniset "$conf" hmsync_distributor bind_host "$HOST_IP"
    iniset "$conf" hmsync_distributor server_cert "$directory/server.pem"
    iniset "$conf" hmsync_distributor server_key "$directory/server.key"
    iniset "$conf" hmsync_distributor client_ca \
        "$(iniget "$OCTAVIA_CONF" controller_worker client_ca)"
    iniset "$conf" hmsync_distributor state_path "$directory/state"
}

# The distributor speaks to the sockets of Open vSwitch, which are root's.
function octavia_hmsync_start {
    local program=$OCTAVIA_HMSYNC_BIN_DIR/octavia-hmsync
    local own_conf=$OCTAVIA_HMSYNC_DISTRIBUTOR_DIR/distributor.conf
    if is_service_enabled "$OCTAVIA_HMSYNC_DISTRIBUTOR"; then
        octavia_hmsync_configure_distributor
        run_process "$OCTAVIA_HMSYNC_DISTRIBUTOR" \
            "$program-distributor --config-file $own_conf" "" root
    fi
    if is_service_enabled "$OCTAVIA_HMSYNC_MANAGER"; then
        run_process "$OCTAVIA_HMSYNC_MANAGER" \
            "$program-cluster-manager --config-file $OCTAVIA_CONF"
    fi
}

function octavia_hmsync_stop {
    local service
    for service in "$OCTAVIA_HMSYNC_DISTRIBUTOR" "$OCTAVIA_HMSYNC_MANAGER"; do
        if is_service_enabled "$service"; then
            stop_process "$service"
        fi
    done
    # The VIPs in it are of a database that stack.sh makes anew.
    if is_service_enabled "$OCTAVIA_HMSYNC_DISTRIBUTOR"; then
        sudo rm -rf "$OCTAVIA_HMSYNC_DISTRIBUTOR_DIR/state"
    fi
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

# local.conf can have set one of the options too, after post-config, and
# Octavia's plugin has made its own network since. The services read options
# only when they start, and have started by now.
function octavia_hmsync_switch_on_again {
    local before
    before=$(cksum <"$OCTAVIA_CONF")
    octavia_hmsync_switch_on
    if octavia_hmsync_has_network; then
        octavia_hmsync_use_network
        octavia_hmsync_make_network
    fi
    if octavia_hmsync_has_instances; then
        octavia_hmsync_use_instances
    fi
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
    if ! ini_has_option "$OCTAVIA_CONF" health_manager \
            controller_ip_port_list || \
            ! is_service_enabled "$OCTAVIA_HOUSEKEEPER"; then
        return 0
    fi
    octavia_hmsync_wait "$OCTAVIA_HOUSEKEEPER has not published a list" \
        "sync status -f value -c generation | grep '[0-9]'"
    octavia_hmsync_take_out health_manager controller_ip_port_list
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
            if octavia_hmsync_has_clusters; then
                octavia_hmsync_offer_clusters
            fi
            octavia_hmsync_upgrade_db
            ;;
        "stack extra")
            echo_summary "Waiting for octavia-hmsync"
            octavia_hmsync_switch_on_again
            octavia_hmsync_wait_registered
            if [[ $OCTAVIA_HMSYNC_REMOVE_PINNED == True ]]; then
                octavia_hmsync_remove_pinned
            fi
            octavia_hmsync_start
            octavia_hmsync_make_new_amphora_image
            ;;
        "stack test-config")
            octavia_hmsync_check
            ;;
        # The tables stay: Octavia's plugin makes its database anew when it is
        # stacked again, and clean.sh removes the database server's data.
        "unstack "*|"clean "*)
            octavia_hmsync_stop
            octavia_hmsync_switch_off
            ;;
    esac
fi
