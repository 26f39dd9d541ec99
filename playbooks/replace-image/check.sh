#!/usr/bin/env bash
#
# SPDX-License-Identifier: Apache-2.0
#
# Brings a SINGLE load balancer and a pair to a new image while a client asks
# each of them. Proves that
#
# * they are outdated once the new image has the tag, and nothing is in the way
#   of a replacement,
# * "image replace" ends well, with other amphorae, all of the new image,
# * nothing is outdated then,
# * each request was answered, but for the two that may be under way as the VIP
#   of a load balancer moves.
#
# The image is amphora-new, without the tag at first; see
# OCTAVIA_HMSYNC_NEW_AMPHORA_IMAGE.

set -euo pipefail

# shellcheck source=playbooks/common.sh
. "$(dirname "$0")/../common.sh"

image=amphora-new
tag=amphora
balancers=()
clients=()
dir=$(mktemp -d)

end() {
    [ ${#clients[@]} -eq 0 ] || kill "${clients[@]}" || true
    rm -r "$dir"
}
trap end EXIT

# make TOPOLOGY: the load balancer answers by itself, by a redirect, and needs
# no members.
make() {
    local lb port
    lb=$name-$1
    openstack loadbalancer flavorprofile create --name "$lb" \
        --provider amphora \
        --flavor-data "{\"loadbalancer_topology\":\"$1\"}"
    openstack loadbalancer flavor create --name "$lb" --flavorprofile "$lb" \
        --enable
    openstack loadbalancer create --name "$lb" --flavor "$lb" \
        --vip-subnet-id private-subnet --wait
    openstack loadbalancer listener create --name "$lb" --protocol HTTP \
        --protocol-port 80 --wait "$lb"
    openstack loadbalancer l7policy create --name "$lb" \
        --action REDIRECT_TO_URL --redirect-url http://192.0.2.1/ --wait "$lb"
    openstack loadbalancer l7rule create --type PATH \
        --compare-type STARTS_WITH --value / --wait "$lb"
    port=$(openstack loadbalancer show -f value -c vip_port_id "$lb")
    openstack floating ip create --port "$port" -f value \
        -c floating_ip_address public >"$dir/$lb.address"
    amphorae "$lb" >"$dir/$lb.amphorae"
    [ -s "$dir/$lb.amphorae" ] || fail "$lb has no amphora"
    balancers+=("$lb")
}

# ask ADDRESS: prints the status of the answer to one request.
ask() {
    curl -s -o /dev/null -w '%{http_code}\n' --max-time 10 "http://$1/" || true
}

# begin_asking LOAD_BALANCER: when it answers, until the script ends.
begin_asking() {
    local address deadline
    address=$(cat "$dir/$1.address")
    deadline=$((SECONDS + timeout))
    until [ "$(ask "$address")" = 302 ]; do
        [ "$SECONDS" -lt "$deadline" ] \
            || fail "$1 does not answer at $address after $timeout s"
        sleep "$interval"
    done
    while true; do
        ask "$address"
        sleep 0.2
    done >"$dir/$1.answers" &
    clients+=($!)
}

# check_outdated LOAD_BALANCER ...: these are, and no others.
check_outdated() {
    local found
    found=$(octavia-hmsync image list --outdated YES --outdated MIXED \
        --outdated UNKNOWN -f value -c name | sort)
    [ "$found" = "$(printf '%s\n' "$@" | sort)" ] \
        || fail "outdated should be ($*), and is: ${found:-none}"
}

# check_amphorae LOAD_BALANCER IMAGE_ID
check_amphorae() {
    local before now each
    before=$(cat "$dir/$1.amphorae")
    now=$(amphorae "$1")
    [ "$(wc -l <<<"$now")" = "$(wc -l <<<"$before")" ] \
        || fail "$1 had the amphorae $before, now $now"
    for each in $now; do
        ! grep -q "$each" <<<"$before" || fail "$each of $1 was not replaced"
        [ "$(openstack loadbalancer amphora show -f value -c image_id \
            "$each")" = "$2" ] || fail "$each of $1 is not of the image $2"
    done
}

# check_answers LOAD_BALANCER: up to one that begins now. The last line may be
# half written.
check_answers() {
    local answers lines
    lines=$(wc -l <"$dir/$1.answers")
    until [ "$(wc -l <"$dir/$1.answers")" -gt $((lines + 2)) ]; do
        sleep 0.2
    done
    answers=$(sed '$d' "$dir/$1.answers" | sort | uniq -c | xargs)
    [[ $answers =~ ^([12]\ 000\ )?[0-9]+\ 302$ ]] \
        || fail "$1 answered (times, status): ${answers:-never}"
    echo "check.sh: $1 answered (times, status): $answers"
}

for topology in SINGLE ACTIVE_STANDBY; do
    make "$topology"
done
image_id=$(openstack image show -f value -c id "$image")
check_outdated
for lb in "${balancers[@]}"; do
    begin_asking "$lb"
done

openstack image set --tag "$tag" "$image_id"
check_outdated "${balancers[@]}"
# Exit code 1 is a warning.
octavia-hmsync image check || [ $? -eq 1 ] \
    || fail "a replacement would fail; see above"
for lb in "${balancers[@]}"; do
    octavia-hmsync image replace "$lb" --wait
    check_amphorae "$lb" "$image_id"
    check_answers "$lb"
done
check_outdated

for lb in "${balancers[@]}"; do
    openstack floating ip delete "$(cat "$dir/$lb.address")"
    openstack loadbalancer delete --cascade --wait "$lb"
    openstack loadbalancer flavor delete "$lb"
    openstack loadbalancer flavorprofile delete "$lb"
done
