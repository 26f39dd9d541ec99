# SPDX-License-Identifier: Apache-2.0

"""Octavia's own tasks, combined to build amphorae of a cluster.

Import it only where these are built: that takes seconds.
"""

from octavia.common import constants
from taskflow.patterns import linear_flow

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import cluster as compat_cluster

AMPHORA = constants.AMPHORA
AMPHORA_ID = constants.AMPHORA_ID
BASE_PORT = constants.BASE_PORT
LOADBALANCER = constants.LOADBALANCER
LOADBALANCER_ID = constants.LOADBALANCER_ID
VIP = constants.VIP

# A member's port is made with these, instead of VIP and ADDITIONAL_VIPS.
PORT_VIP = 'port_vip'
PORT_ADDITIONAL_VIPS = 'port_additional_vips'


def make_boot_flow(name, create, after_port):
    """Make the flow that builds an amphora of a cluster, and plugs its VIP.

    Its row gets its load balancer only after its port, because a change of
    the load balancer meanwhile would ask Neutron for the port of each of its
    amphorae. It must have its load balancer before it boots, because health
    managers delete instances that send heartbeats without one.

    :param create: the task that makes its row; provides AMPHORA_ID.
    :param after_port: the task that permits the boot; gets BASE_PORT, too.
    """
    from octavia.controller.worker.v2.flows import amphora_flows
    from octavia.controller.worker.v2.tasks import amphora_driver_tasks
    from octavia.controller.worker.v2.tasks import compute_tasks
    from octavia.controller.worker.v2.tasks import network_tasks

    flow = linear_flow.Flow(f'{name}-flow')
    flow.add(
        create,
        network_tasks.GetVIPSecurityGroupID(
            name=f'{name}-get-vip-sg', requires=LOADBALANCER_ID,
            provides=constants.VIP_SG_ID),
        network_tasks.CreateVIPBasePort(
            name=f'{name}-{constants.CREATE_VIP_BASE_PORT}',
            requires=(constants.VIP_SG_ID, AMPHORA_ID),
            rebind={VIP: PORT_VIP,
                    constants.ADDITIONAL_VIPS: PORT_ADDITIONAL_VIPS},
            provides=BASE_PORT),
        after_port)
    # Octavia has no such role: without a role its flow sets none.
    stock = list(amphora_flows.AmphoraFlows().get_amphora_for_lb_subflow(
        prefix=name, role=None))
    if not stock[0].name.endswith(constants.CREATE_AMPHORA_INDB):
        raise ValueError(f'{stock[0].name} comes first')
    flow.add(*stock[1:])
    flow.add(
        compute_tasks.AttachPort(
            name=f'{name}-{constants.ATTACH_PORT}', requires=AMPHORA,
            rebind={constants.PORT: BASE_PORT}),
        network_tasks.GetAmphoraNetworkConfigsByID(
            name=f'{name}-{constants.GET_AMPHORA_NETWORK_CONFIGS_BY_ID}',
            requires=(LOADBALANCER_ID, AMPHORA_ID),
            provides=constants.AMPHORAE_NETWORK_CONFIG),
        amphora_driver_tasks.AmphoraPostVIPPlug(
            name=f'{name}-{constants.AMPHORA_POST_VIP_PLUG}',
            requires=(AMPHORA, LOADBALANCER,
                      constants.AMPHORAE_NETWORK_CONFIG)))
    return flow


def get_availability_zone(load_balancer):
    """Return the profile of the load balancer's availability zone, a dict."""
    return compat_amphora.get_metadata(
        load_balancer, compat_amphora.ACTIVE_STANDBY)[1]


def make_boot_store(load_balancer, compute_zone=None):
    """Return the store of make_boot_flow().

    The amphora boots as one of a pair, because the agent then leaves the VIP
    to keepalived. The allowed address pairs of its port have the VIP with the
    length of its prefix: OVN would take a port with the bare address for a
    possible parent port.

    :param compute_zone: where it boots; None for the compute zone of the
                         load balancer's availability zone.
    """
    flavor, zone = compat_amphora.get_metadata(
        load_balancer, compat_amphora.ACTIVE_STANDBY)
    if compute_zone is not None:
        zone = {**zone, constants.COMPUTE_ZONE: compute_zone}
    vip = load_balancer.vip.to_dict()
    additional = [each.to_dict() for each in load_balancer.additional_vips]
    return {
        constants.AVAILABILITY_ZONE: zone,
        constants.BUILD_TYPE_PRIORITY: compat_amphora.PRIORITY,
        constants.FLAVOR: flavor,
        LOADBALANCER: compat_cluster.describe_load_balancer(load_balancer),
        LOADBALANCER_ID: load_balancer.id,
        constants.SERVER_GROUP_ID: load_balancer.server_group_id,
        VIP: vip,
        PORT_VIP: _with_prefix(vip),
        PORT_ADDITIONAL_VIPS: [_with_prefix(each) for each in additional]}


def _with_prefix(vip):
    address = vip[constants.IP_ADDRESS]
    length = 128 if ':' in address else 32
    return {**vip, constants.IP_ADDRESS: f'{address}/{length}'}


def make_plug_flow(name):
    """Make the flow that plugs an amphora into its members' networks.

    The caller has to hold the lock of the load balancer.
    """
    from octavia.controller.worker.v2.tasks import amphora_driver_tasks
    from octavia.controller.worker.v2.tasks import network_tasks

    flow = linear_flow.Flow(f'{name}-flow')
    flow.add(
        network_tasks.CalculateAmphoraDelta(
            name=f'{name}-{constants.CALCULATE_AMPHORA_DELTA}',
            requires=(LOADBALANCER, AMPHORA, constants.AVAILABILITY_ZONE),
            provides=constants.DELTA),
        network_tasks.HandleNetworkDelta(
            name=f'{name}-{constants.HANDLE_NETWORK_DELTA}',
            requires=(AMPHORA, constants.DELTA),
            provides=constants.UPDATED_PORTS),
        network_tasks.GetAmphoraNetworkConfigsByID(
            name=f'{name}-{constants.GET_AMPHORA_NETWORK_CONFIGS_BY_ID}',
            requires=(LOADBALANCER_ID, AMPHORA_ID),
            provides=constants.AMPHORAE_NETWORK_CONFIG),
        amphora_driver_tasks.AmphoraePostNetworkPlug(
            name=f'{name}-{constants.AMPHORAE_POST_NETWORK_PLUG}',
            requires=(LOADBALANCER, constants.UPDATED_PORTS,
                      constants.AMPHORAE_NETWORK_CONFIG)))
    return flow


def make_plug_store(load_balancer, amphora):
    """Return the store of make_plug_flow()."""
    _flavor, zone = compat_amphora.get_metadata(
        load_balancer, compat_amphora.ACTIVE_STANDBY)
    return {constants.AVAILABILITY_ZONE: zone,
            AMPHORA: amphora.to_dict(), AMPHORA_ID: amphora.id,
            LOADBALANCER: compat_cluster.describe_load_balancer(load_balancer),
            LOADBALANCER_ID: load_balancer.id}
