# SPDX-License-Identifier: Apache-2.0

"""Octavia's functions that build, configure and delete amphorae.

Import it only where amphorae are replaced: that takes seconds. Functions
import what is likely to change, so that a missing name breaks only them.
octavia_hmsync.compat.changes lists each such call.
"""

from octavia.common import constants
from octavia.db import api as db_api
from octavia.db import repositories
from octavia.network import base as network_base
from oslo_config import cfg
from stevedore import driver as stevedore_driver
from taskflow.patterns import linear_flow

CONF = cfg.CONF

# The task that makes the amphora's row; nothing was built before it.
CREATE_TASK = constants.CREATE_AMPHORA_INDB
# Suffixes of names of tasks that only wait.
WAITING_TASKS = (constants.COMPUTE_WAIT,
                 constants.AMP_COMPUTE_CONNECTIVITY_WAIT)

# Raised by a network driver for a missing port.
PortNotFound = network_base.PortNotFound


def is_no_answer(error):
    """Tell whether a network driver's error means that Neutron did not answer.

    Missing objects and refused requests have classes of their own.
    """
    return type(error) is network_base.NetworkException


VRRP_PORT_PREFIX = constants.AMP_BASE_PORT_PREFIX
MEMBER_PORT_PREFIX = 'octavia-lb-member-'

# Flows for tenants who wait for a new load balancer have priority.
PRIORITY = constants.LB_CREATE_NORMAL_PRIORITY

# The keys of the store of the flow that builds an amphora.
_STORED = {
    constants.ADDITIONAL_VIPS, constants.AVAILABILITY_ZONE,
    constants.BUILD_TYPE_PRIORITY, constants.FLAVOR, constants.LOADBALANCER,
    constants.LOADBALANCER_ID, constants.SERVER_GROUP_ID, constants.VIP}

SINGLE_ROLE = constants.ROLE_STANDALONE
SINGLE = constants.TOPOLOGY_SINGLE
ACTIVE_STANDBY = constants.TOPOLOGY_ACTIVE_STANDBY
# The roles of the amphorae that a topology has.
ROLES = {SINGLE: (SINGLE_ROLE,),
         ACTIVE_STANDBY: (constants.ROLE_MASTER, constants.ROLE_BACKUP)}


def load_network_driver():
    """Load the network driver that octavia.conf names."""
    return stevedore_driver.DriverManager(
        namespace='octavia.network.drivers',
        name=CONF.controller_worker.network_driver,
        invoke_on_load=True).driver


def load_compute_driver():
    """Load the compute driver that octavia.conf names."""
    return stevedore_driver.DriverManager(
        namespace='octavia.compute.drivers',
        name=CONF.controller_worker.compute_driver,
        invoke_on_load=True).driver


def get_load_balancer(load_balancer_id):
    """Return Octavia's LoadBalancer data model with its children, or None."""
    session = db_api.get_session()
    with session.begin():
        return repositories.LoadBalancerRepository().get(
            session, id=load_balancer_id)


def get_metadata(load_balancer, topology):
    """Return the profiles of its flavor and its availability zone."""
    flavor, zone = {}, {}
    session = db_api.get_session()
    with session.begin():
        if load_balancer.flavor_id:
            flavor = repositories.FlavorRepository().get_flavor_metadata_dict(
                session, load_balancer.flavor_id)
        if load_balancer.availability_zone:
            zone = (repositories.AvailabilityZoneRepository()
                    .get_availability_zone_metadata_dict(
                        session, load_balancer.availability_zone))
    return {**flavor, constants.LOADBALANCER_TOPOLOGY: topology}, zone


def _make_flow(role):
    from octavia.controller.worker.v2.flows import amphora_flows
    from octavia.controller.worker.v2.tasks import network_tasks

    flow = linear_flow.Flow('octavia-hmsync-build-amphora-flow')
    flow.add(
        network_tasks.GetVIPSecurityGroupID(
            requires=constants.LOADBALANCER_ID, provides=constants.VIP_SG_ID),
        amphora_flows.AmphoraFlows().get_amphora_for_lb_failover_subflow(
            prefix='octavia-hmsync', role=role))
    return flow


def _get_names(flow):
    """Yield the names of all tasks of a flow."""
    for node, _ in flow.iter_nodes():
        if hasattr(node, 'iter_nodes'):
            yield from _get_names(node)
        else:
            yield node.name


def find_problems_of_build_flow():
    """Compare the flow that builds an amphora with what the plugin expects.

    It loads the drivers of octavia.conf, but makes no request.
    """
    flow = _make_flow(SINGLE_ROLE)
    missing = flow.requires - _STORED
    found = [f'the flow that builds an amphora needs {name}, too'
             for name in sorted(missing)]
    if sum(name.endswith(CREATE_TASK) for name in _get_names(flow)) != 1:
        found.append(f'the flow that builds an amphora has no task '
                     f'{CREATE_TASK}')
    return found


def make_build_flow(load_balancer, role, default_zone=None):
    """Make the flow that builds one more amphora of a load balancer.

    In either topology the amphora boots as one of a pair, because the agent
    then leaves the VIP to keepalived.

    :param default_zone: its compute zone if its profile names none.
    :returns: (flow, its store).
    """
    from octavia.api.drivers import utils as provider_utils

    flavor, zone = get_metadata(load_balancer, ACTIVE_STANDBY)
    if default_zone:
        zone = {constants.COMPUTE_ZONE: default_zone, **zone}
    return _make_flow(role), {
        constants.AVAILABILITY_ZONE: zone,
        constants.BUILD_TYPE_PRIORITY: PRIORITY,
        constants.FLAVOR: flavor,
        constants.LOADBALANCER:
            provider_utils.db_loadbalancer_to_provider_loadbalancer(
                load_balancer).to_dict(),
        constants.SERVER_GROUP_ID: load_balancer.server_group_id,
        constants.LOADBALANCER_ID: load_balancer.id,
        constants.VIP: load_balancer.vip.to_dict(),
        constants.ADDITIONAL_VIPS: [
            vip.to_dict() for vip in load_balancer.additional_vips]}


def ensure_server_group(load_balancer):
    """Let the new amphorae of a load balancer be apart, as octavia.conf says.

    :raises Exception: any error of the compute driver.
    """
    from octavia.controller.worker.v2.tasks import compute_tasks
    from octavia.controller.worker.v2.tasks import database_tasks

    if not CONF.nova.enable_anti_affinity or load_balancer.server_group_id:
        return
    load_balancer.server_group_id = (
        compute_tasks.NovaServerGroupCreate().execute(load_balancer.id))
    database_tasks.UpdateLBServerGroupInDB().execute(
        load_balancer.id, load_balancer.server_group_id)


def ensure_vrrp_group(load_balancer_id):
    """Make the row that render_keepalived() needs, if there is none."""
    from octavia.controller.worker.v2.tasks import database_tasks

    database_tasks.CreateVRRPGroupForLB().execute(load_balancer_id)


def read_network_config(load_balancer, amphora, network_driver):
    """Ask Neutron how an amphora is plugged in, for render_keepalived()."""
    return network_driver.get_network_configs(load_balancer, amphora)[
        amphora.id].to_dict(recurse=True)


def render_keepalived(load_balancer, amphora, network_config):
    """Render the keepalived configuration of one amphora of a pair.

    :param load_balancer: see get_load_balancer(), reduced to the two
                          amphorae that are to be peers.
    """
    from octavia.amphorae.drivers.keepalived.jinja import jinja_cfg

    return jinja_cfg.KeepalivedJinjaTemplater().build_keepalived_config(
        load_balancer, amphora, network_config)


def get_member_ports(amphora_id):
    """Return the ids of an amphora's ports in its members' networks."""
    session = db_api.get_session()
    with session.begin():
        return repositories.AmphoraMemberPortRepository().get_port_ids(
            session, amphora_id)


def forget_member_port(port_id):
    """Delete the row of a port that no longer exists."""
    session = db_api.get_session()
    with session.begin():
        repositories.AmphoraMemberPortRepository().delete(
            session, port_id=port_id)
