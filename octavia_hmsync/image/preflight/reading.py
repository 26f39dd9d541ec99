# SPDX-License-Identifier: Apache-2.0

"""Reads the data for "image check" from the database and octavia.conf."""

import json
import os

from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import needs as needs_repo
from octavia_hmsync.image.preflight import facts


def read_needs(engine, load_balancers):
    """Read {id: Needs} of load balancers, which are by id and not empty."""
    found = needs_repo.get_all(engine, load_balancers[0].id,
                               load_balancers[-1].id)
    return {load_balancer.id: _make_needs(found.get(load_balancer.id, {}))
            for load_balancer in load_balancers}


def read_uncommon(engine):
    """Read {id: Needs} of the few that may need why_failover()."""
    return {lb_id: _make_needs(found) for lb_id, found in
            needs_repo.get_uncommon(engine).items()}


def _make_needs(found):
    policies = found.get(needs_repo.QOS_POLICY)
    vip_subnets = found.get(needs_repo.VIP_SUBNET)
    return facts.Needs(
        frozenset(found.get(needs_repo.PORT, ())),
        min(vip_subnets) if vip_subnets else None,
        frozenset(found.get(needs_repo.MEMBER_SUBNET, ())),
        frozenset(found.get(needs_repo.MORE_SUBNET, ())),
        frozenset(found.get(needs_repo.SECURITY_GROUP, ())),
        min(policies) if policies else None,
        frozenset(found.get(needs_repo.SECRET, ())),
        frozenset(found.get(needs_repo.AUTHORITY, ())),
        frozenset(found.get(needs_repo.ADDRESS, ())),
        compat.DIRECT in found.get(needs_repo.VNIC_TYPE, ()),
        frozenset(found.get(needs_repo.PROTOCOL, ())))


def read_builds(conf, engine, load_balancers, zone=None):
    """Read {id: Build} by two statements, without load balancers' rows.

    :param zone: in place of [nova] availability_zone.
    """
    default_zone = zone or conf.nova.availability_zone
    flavors = {row.id: _parse(row.flavor_data)
               for row in inventory_repo.get_flavors(engine)}
    zones = {row.name: _parse(row.availability_zone_data)
             for row in inventory_repo.get_zones(engine)}
    return {one.id: _make_build(
        conf, flavors.get(one.flavor_id) if one.flavor_id else {},
        one.availability_zone,
        zones.get(one.availability_zone) if one.availability_zone else {},
        default_zone)
        for one in load_balancers}


def _parse(text):
    """Return the data of a profile; None if it cannot be read."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _make_build(conf, flavor, name, zone, default_zone):
    """Make a Build like Octavia's tasks, also from empty values."""
    problem = None
    if zone is None:
        zone = {}
        problem = (f'Its availability zone {name} cannot be read: see '
                   f'"openstack loadbalancer availabilityzoneprofile show".')
    network = zone.get(compat.MANAGEMENT_NETWORK)
    # Without Cinder its options are not registered.
    volume_zone = (conf.cinder.availability_zone
                   if has_cinder(conf) else None)
    return facts.Build(
        None if flavor is None else flavor.get(
            compat.COMPUTE_FLAVOR, conf.controller_worker.amp_flavor_id),
        zone.get(compat.COMPUTE_ZONE, default_zone) or None,
        zone.get(compat.VOLUME_ZONE, volume_zone) or None,
        (network,) if network else tuple(
            conf.controller_worker.amp_boot_network_list), problem)


def has_cinder(conf):
    """Tell whether amphorae boot from volumes of Cinder."""
    worker = conf.controller_worker
    return (worker.volume_driver == compat.CINDER_DRIVER and
            worker.compute_driver == compat_compute.NOVA_DRIVER)


def read_settings(conf):
    """Return the values of octavia.conf that the checks use."""
    worker = conf.controller_worker
    uses_cinder = has_cinder(conf)
    return facts.Settings(
        worker.volume_driver != compat.NO_VOLUMES, uses_cinder,
        conf.cinder.volume_size if uses_cinder else 0,
        conf.cinder.volume_type or None if uses_cinder else None,
        conf.nova.enable_anti_affinity and
        conf.nova.anti_affinity_policy == compat.HARD_ANTI_AFFINITY,
        worker.compute_driver == compat_compute.NOVA_DRIVER,
        conf[image_conf.GROUP].rollout_parallel,
        worker.amp_ssh_key_name or None, tuple(worker.amp_secgroup_list),
        # Only the certificates of authorities may be large.
        None if worker.user_data_config_drive
        else _get_size(worker.client_ca))


def _get_size(path):
    try:
        return os.path.getsize(path)
    except OSError:
        return None
