# SPDX-License-Identifier: Apache-2.0

"""All checks of "image check", and whether a replacement may begin by them."""

import dataclasses

from octavia_hmsync.cli import finding
from octavia_hmsync import cloud
from octavia_hmsync import compute as image_compute
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import compute_reading
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import files
from octavia_hmsync.image.preflight import network
from octavia_hmsync.image.preflight import network_reading
from octavia_hmsync.image.preflight import reading
from octavia_hmsync.image.preflight import secrets

PROVIDER = 'Provider'
MODE = 'Mode'

# (name of the check, function of the Facts of one load balancer).
CHECKS = (
    ('State', database.check_state),
    ('Topology', database.check_topology),
    ('Amphorae', database.check_amphorae),
    ('Image', database.check_image),
    ('Image ids', database.check_image_ids),
    (MODE, database.check_mode),
    ('Compute flavor', compute.check_flavor),
    ('Image and flavor', compute.check_fit),
    ('Compute zone', compute.check_zone),
    ('Hosts', compute.check_hosts),
    ('Volume zone', compute.check_volume_zone),
    ('Boot networks', network.check_networks),
    ('VIP port', network.check_vip),
    ('VIP security group', network.check_vip_group),
    ('Port security', network.check_port_security),
    ('Subnets', network.check_subnets),
    ('Addresses', network.check_addresses),
    ('Security groups', network.check_security_groups),
    ('QoS policy', network.check_qos_policy),
    ('Certificates', secrets.check_secrets),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """The result of one check; without load_balancer_id it concerns all."""

    load_balancer_id: str | None
    check: str
    found: finding.Finding


def run_all(conf, engine, load_balancers, targets, is_builder=False,
            leaving=0, more=1, zone=None):
    """Make all checks of some load balancers.

    Neutron, Nova, Cinder and the image service are asked once for all load
    balancers. If one of them gives no answer, that is a result, too.

    :param is_builder: whether this process is to build the amphorae.
    :param leaving: how many amphorae of each are on a host that takes no new
                    instances.
    :param more: how many amphorae of each are built before one is deleted.
    :param zone: the compute zone for what is built where no availability zone
                 of Octavia names one; None for [nova] availability_zone.
    :returns: a list of Row; rows that concern all come first.
    """
    if not load_balancers:
        return []
    needs = reading.read_needs(engine, load_balancers)
    builds = reading.read_builds(conf, engine, load_balancers, zone)
    settings = reading.read_settings(conf)
    image_found, known, images = _ask_for_images(load_balancers, targets)
    all_facts = [
        facts.Facts(each, needs[each.id], builds[each.id],
                    known.get(each.tag), images.get(each.tag),
                    settings=settings, leaving=leaving, more=more)
        for each in load_balancers]
    rows = [Row(None, 'Image service', image_found)]
    for ask in (_ask_neutron, _ask_nova, _ask_cinder):
        more, all_facts = ask(conf, all_facts)
        rows += [Row(None, name, found) for name, found in more]
    rows += [Row(None, name, found)
             for name, found in files.check_all(conf, is_builder)]
    if len(all_facts) == 1:
        # Only for one load balancer, since each secret takes a request.
        one, = all_facts
        all_facts = [dataclasses.replace(
            one, secret_faults=secrets.read_faults(
                conf, one.load_balancer.project_id, one.needs))]
    for one in all_facts:
        rows += _check(one)
    return rows


def _check(one):
    """Make the checks of one load balancer; only one for other providers."""
    found = database.check_provider(one)
    row = Row(one.load_balancer.id, PROVIDER, found)
    if found.severity:
        return [row]
    return [row, *(Row(one.load_balancer.id, name, check(one))
                   for name, check in CHECKS)]


def _ask_for_images(load_balancers, targets):
    """Return a Finding, and {tag: (Target, its ImageNeeds)}."""
    known: dict = {}
    images: dict = {}
    try:
        for tag in {each.tag for each in load_balancers}:
            known[tag] = targets.get(tag)
        for tag, found in known.items():
            if found.image_id is not None:
                images[tag] = targets.get_needs(found.image_id)
    except exceptions.CloudUnavailable as e:
        return (finding.failure(str(e), True, finding.Whose.CLOUD), known,
                images)
    return finding.success(), known, images


def _ask_neutron(conf, all_facts):
    found, all_facts = _ask(
        lambda: network_reading.NetworkReader(conf, cloud.connect(conf)),
        'network', all_facts)
    return [('Neutron', found),
            ('Port quota', network.check_port_quota(all_facts)),
            ('Security groups of amphorae', network.check_groups(all_facts))
            ], all_facts


def _ask_nova(conf, all_facts):
    if not all_facts[0].settings.has_nova:
        return [], all_facts
    found, all_facts = _ask(
        lambda: compute_reading.ComputeReader(
            conf, image_compute.connect_to_nova(conf)), 'compute', all_facts)
    return [('Compute service', found),
            ('Compute quota', compute.check_quota(all_facts)),
            ('Keypair', compute.check_key(all_facts)),
            ('Files of instances', compute.check_files(all_facts))
            ], all_facts


def _ask_cinder(conf, all_facts):
    if not all_facts[0].settings.has_cinder:
        return [], all_facts
    found, all_facts = _ask(
        lambda: compute_reading.VolumeReader(
            conf, compute_reading.connect(conf)), 'volumes', all_facts)
    return [('Volume service', found),
            ('Volume quota', compute.check_volume_quota(all_facts)),
            ('Volume type', compute.check_volume_type(all_facts))], all_facts


def _ask(make_reader, name, all_facts):
    """Add a service's answer to all Facts; return (Finding, Facts)."""
    try:
        known = make_reader().read(all_facts)
    except exceptions.CloudUnavailable as e:
        return finding.failure(str(e), True, finding.Whose.CLOUD), all_facts
    except exceptions.CloudRefused as e:
        return finding.failure(str(e)), all_facts
    return finding.success(), [dataclasses.replace(one, **{name: known})
                               for one in all_facts]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The checks' result for one load balancer before its replacement.

    :param is_passing: whether all failures may pass by themselves.
    :param is_tenants: whether all other failures are for the owner of the
                       load balancer to mend. Then they say nothing about the
                       image, and are no reason to stop the rollout.
    """

    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_passing: bool = False
    is_tenants: bool = False


def judge(conf, engine, load_balancer, targets, mode, is_housekeeper=False,
          leaving=0, more=1, zone=None):
    """Make all checks of one load balancer, as the housekeeper or not.

    The other arguments are those of run_all().
    """
    is_in_process = (mode == rollout_repo.REPLACE and
                     not outdated.has_cluster(load_balancer))
    needs = reading.read_needs(engine, [load_balancer])[load_balancer.id]
    reasons = (database.why_failover(needs)
               if is_in_process else ())
    if reasons:
        return Verdict((
            f'Mode replace is not for load balancer {load_balancer.id}: '
            f'{"; ".join(reasons)}. Use --mode failover, which has a gap of '
            f'some seconds.',), is_tenants=True)
    # The check of the mode was made above, or the operator chose failover.
    rows = [row for row in run_all(
        conf, engine, [load_balancer], targets,
        is_housekeeper and is_in_process, leaving, more, zone)
        if row.check != MODE]
    failures = [row for row in rows
                if row.found.severity is finding.Severity.FAILURE]
    lasting = [row.found for row in failures if not row.found.is_passing]
    return Verdict(
        tuple(f'Load balancer {load_balancer.id} cannot be replaced: '
              f'{row.check}: {row.found.details}' for row in failures),
        tuple(f'{row.found.name}: {row.check}: {row.found.details}'
              for row in rows
              if row.found.severity is finding.Severity.WARNING),
        bool(failures) and not lasting,
        bool(lasting) and all(found.whose is finding.Whose.TENANT
                              for found in lasting))
