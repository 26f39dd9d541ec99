#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""All checks of "image check"."""

import dataclasses

from octavia_hmsync import exceptions
from octavia_hmsync.image import compute as image_compute
from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import compute_reading
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image.preflight import modes
from octavia_hmsync.image.preflight import network
from octavia_hmsync.image.preflight import reading
from octavia_hmsync.image.preflight import secrets
from octavia_hmsync.mgmt_network import cloud

PROVIDER = 'Provider'
MODE = 'Mode'

# The name of each, and its function of the Facts of one load balancer.
CHECKS = (
    ('State', database.check_state),
    ('Topology', database.check_topology),
    ('Amphorae', database.check_amphorae),
    ('Image', database.check_image),
    ('Image ids', database.check_image_ids),
    (MODE, modes.check_mode),
    ('Hosts', compute.check_hosts),
    ('VIP port', network.check_vip),
    ('Subnets', network.check_subnets),
    ('Security groups', network.check_security_groups),
    ('QoS policy', network.check_qos_policy),
    ('Certificates', secrets.check_secrets),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One result.

    :param load_balancer_id: None for what concerns all.
    :param check: name of the check.
    :param found: Finding.
    """

    load_balancer_id: str | None
    check: str
    found: finding.Finding


def run_all(conf, engine, load_balancers, targets):
    """Make all checks of some load balancers.

    Neutron, Nova and the image service are asked once for all of them; that
    one of them gives no answer is a result, too.

    :param conf: the oslo.config object that Octavia reads, parsed.
    :param engine: an SQLAlchemy engine.
    :param load_balancers: a list of LoadBalancer, by id.
    :param targets: target.Targets.
    :returns: a list of Row, those that concern all of them first.
    """
    if not load_balancers:
        return []
    needs = reading.read_needs(engine, load_balancers)
    rows = []
    image_found, known = _ask_for_images(load_balancers, targets)
    network_found, found = _ask_neutron(conf, needs.values())
    settings = reading.read_settings(conf)
    compute_found, computes = _ask_nova(conf, settings, load_balancers)
    all_facts = [
        facts.Facts(load_balancer, needs[load_balancer.id],
                    known.get(load_balancer.tag), found, settings, computes)
        for load_balancer in load_balancers]
    if len(all_facts) == 1:
        # Each secret is a request, and tenants have many.
        one, = all_facts
        all_facts = [dataclasses.replace(
            one, secret_faults=secrets.read_faults(
                conf, one.load_balancer.project_id, one.needs))]
    rows += [Row(None, 'Image service', image_found),
             Row(None, 'Neutron', network_found),
             Row(None, 'Port quota', network.check_port_quota(all_facts))]
    if settings.has_nova:
        rows += [
            Row(None, 'Compute service', compute_found),
            Row(None, 'Compute flavor', compute.check_flavor(all_facts)),
            Row(None, 'Compute quota', compute.check_quota(all_facts))]
    for one in all_facts:
        rows += _check(one)
    return rows


def _check(one):
    """Make the checks of one load balancer; of another provider's, one."""
    found = database.check_provider(one)
    row = Row(one.load_balancer.id, PROVIDER, found)
    if found.severity:
        return [row]
    return [row, *(Row(one.load_balancer.id, name, check(one))
                   for name, check in CHECKS)]


def _ask_for_images(load_balancers, targets):
    known: dict = {}
    try:
        for load_balancer in load_balancers:
            if load_balancer.tag not in known:
                known[load_balancer.tag] = targets.get(load_balancer.tag)
    except exceptions.CloudUnavailable as e:
        return finding.failure(str(e), True, finding.Whose.CLOUD), known
    return finding.success(), known


def _ask_neutron(conf, all_needs):
    try:
        return finding.success(), reading.NetworkReader(
            conf, cloud.connect(conf)).read(all_needs)
    except exceptions.CloudUnavailable as e:
        return finding.failure(str(e), True, finding.Whose.CLOUD), None
    except exceptions.CloudRefused as e:
        return finding.failure(str(e)), None


def _ask_nova(conf, settings, load_balancers):
    if not settings.has_nova:
        return finding.success(), None
    group_ids = {each.server_group_id for each in load_balancers} - {None}
    try:
        return finding.success(), compute_reading.ComputeReader(
            conf, image_compute.connect_to_nova(conf),
            settings.compute_flavor).read(group_ids)
    except exceptions.CloudUnavailable as e:
        return finding.failure(str(e), True, finding.Whose.CLOUD), None
    except exceptions.CloudRefused as e:
        return finding.failure(str(e)), None
