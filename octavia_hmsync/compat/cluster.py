# SPDX-License-Identifier: Apache-2.0

"""Octavia's functions for load balancers that have a cluster.

They are Octavia's own tasks, combined for any number of amphorae, and its RPC.
Import it only where these are used: that takes seconds.
"""

import functools

from octavia.common import constants
from octavia.common import rpc
from octavia.db import api as db_api
from octavia.db import repositories
from oslo_config import cfg
import oslo_messaging
from oslo_messaging.rpc import dispatcher
from oslo_utils import timeutils
from stevedore import driver as stevedore_driver
from taskflow import engines
from taskflow import exceptions as taskflow_exc
from taskflow.patterns import linear_flow

from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora

CONF = cfg.CONF

# Names in the stores of flows, and in the arguments of RPC calls.
ADDITIONAL_VIPS = constants.ADDITIONAL_VIPS
AMPHORAE = constants.AMPHORAE
AMPHORA_ID = constants.AMPHORA_ID
LOADBALANCER = constants.LOADBALANCER
LOADBALANCER_ID = constants.LOADBALANCER_ID
VIP = constants.VIP


def make_server(topic, endpoint):
    """Make an RPC server, not yet started, on the connection of Octavia's."""
    return rpc.get_server(
        oslo_messaging.Target(topic=topic, server=CONF.host, fanout=False),
        [endpoint], access_policy=dispatcher.DefaultRPCAccessPolicy)


def make_target(namespace, version):
    return oslo_messaging.Target(namespace=namespace, version=version)


def make_runner():
    """Return a function that runs flows like Octavia's controller worker.

    With a jobboard it posts them, and any octavia-worker runs them.

    :returns: a function that takes a flow factory, its arguments, and
              ``store``.
    """
    from octavia.controller.worker.v2 import controller_worker

    return controller_worker.ControllerWorker().run_flow


def take_amphora_failovers(take):
    """Let this octavia-worker ask before it fails an amphora over.

    Octavia sends "amphora failover" to its own topic, whose endpoint has no
    hook, and its controller worker raises for load balancers that are neither
    SINGLE nor ACTIVE_STANDBY. So its method is wrapped, once in a process.

    :param take: takes the id of an amphora; returns False if Octavia is to
                 fail it over.
    """
    from octavia.controller.worker.v2 import controller_worker

    kind = controller_worker.ControllerWorker
    stock = getattr(kind.failover_amphora, 'hmsync_stock',
                    kind.failover_amphora)

    @functools.wraps(stock)
    def failover_amphora(self, amphora_id, *args, **kwargs):
        if not take(amphora_id):
            stock(self, amphora_id, *args, **kwargs)

    setattr(failover_amphora, 'hmsync_stock', stock)
    kind.failover_amphora = failover_amphora


def run(flow, store):
    """Run a flow here to its end; on a task's error it is reverted."""
    engines.load(flow, store=store).run()


def describe_failure(error):
    """Return in one line why a flow failed."""
    if isinstance(error, taskflow_exc.WrappedFailure):
        # Of several failures, the first.
        text = next(iter(error)).exception_str
        return text.split('\n', maxsplit=1)[0].rstrip('.')
    text = ' '.join(str(error).split()).rstrip('.')
    return f'{type(error).__name__}: {text[:300]}'


def load_distributor_driver():
    """Load the distributor driver that octavia.conf names."""
    return stevedore_driver.DriverManager(
        namespace='octavia.distributor.drivers',
        name=CONF.controller_worker.distributor_driver,
        invoke_on_load=True).driver


def find_server_group_policy():
    """Return the anti-affinity policy of amphorae, None if it is off."""
    nova = CONF.nova
    return nova.anti_affinity_policy if nova.enable_anti_affinity else None


def create_server_group(load_balancer_id, policy):
    """Make a server group for a load balancer; returns its id."""
    return compat_amphora.load_compute_driver().create_server_group(
        f'octavia-lb-{load_balancer_id}', policy).id


def delete_server_group(server_group_id):
    """Delete a server group; a missing one is no error."""
    compat_amphora.load_compute_driver().delete_server_group(server_group_id)


def update_load_balancer(load_balancer_id, **values):
    """Change columns of a load balancer."""
    session = db_api.get_session()
    with session.begin():
        repositories.LoadBalancerRepository().update(
            session, load_balancer_id, **values)


def get_amphora(amphora_id):
    """Return Octavia's data model of an amphora, or None."""
    session = db_api.get_session()
    with session.begin():
        return repositories.AmphoraRepository().get(session, id=amphora_id)


def create_amphora(amphora_id):
    """Make the row of an amphora that has no load balancer yet.

    It is marked busy, which heartbeats do not change, so that no health
    manager ever fails it over.
    """
    session = db_api.get_session()
    with session.begin():
        repositories.AmphoraRepository().create(
            session, id=amphora_id, status=constants.PENDING_CREATE,
            cert_busy=False)
        repositories.AmphoraHealthRepository().replace(
            session, amphora_id, last_update=timeutils.utcnow(), busy=True)


def get_mac(base_port):
    """Return the MAC address of a port, as given by the task that made it."""
    return base_port[constants.MAC_ADDRESS]


def join_load_balancer(amphora_id, load_balancer_id, vip, base_port):
    """Assign an amphora without an instance to a load balancer."""
    session = db_api.get_session()
    with session.begin():
        repositories.AmphoraRepository().update(
            session, amphora_id, load_balancer_id=load_balancer_id,
            role=compat.ROLE_IN_CLUSTER, vrrp_id=1,
            vrrp_ip=base_port[constants.FIXED_IPS][0][constants.IP_ADDRESS],
            vrrp_port_id=base_port[constants.ID],
            ha_ip=vip[constants.IP_ADDRESS],
            ha_port_id=vip[constants.PORT_ID])


def leave_load_balancer(amphora_id):
    """Detach an amphora from its load balancer.

    A heartbeat may then make Octavia delete its instance.
    """
    session = db_api.get_session()
    with session.begin():
        repositories.AmphoraRepository().update(
            session, amphora_id, load_balancer_id=None)


def set_amphora_right(amphora_id):
    """Set an amphora that serves from ERROR to its normal status."""
    session = db_api.get_session()
    with session.begin():
        repositories.AmphoraRepository().update(
            session, amphora_id, status=constants.AMPHORA_ALLOCATED)


def describe_load_balancer(load_balancer):
    """Return a load balancer in the form that Octavia's tasks take."""
    from octavia.api.drivers import utils as provider_utils

    return provider_utils.db_loadbalancer_to_provider_loadbalancer(
        load_balancer).to_dict()


# Flows


def make_allocation_tasks():
    """Return the tasks that ensure the VIPs of a load balancer.

    They require LOADBALANCER_ID, and provide LOADBALANCER, VIP and
    ADDITIONAL_VIPS. A revert keeps the VIPs, which belong to the load
    balancer until it is deleted. They may be repeated.
    """
    from octavia.controller.worker.v2.tasks import database_tasks
    from octavia.controller.worker.v2.tasks import network_tasks

    class AllocateVIP(network_tasks.AllocateVIP):
        def revert(self, *args, **kwargs):
            pass

    return [
        database_tasks.ReloadLoadBalancer(
            name=constants.RELOAD_LB_BEFOR_ALLOCATE_VIP,
            requires=LOADBALANCER_ID, provides=LOADBALANCER),
        AllocateVIP(
            requires=LOADBALANCER, provides=(VIP, ADDITIONAL_VIPS)),
        database_tasks.UpdateVIPAfterAllocation(
            requires=(LOADBALANCER_ID, VIP), provides=LOADBALANCER),
        database_tasks.UpdateAdditionalVIPsAfterAllocation(
            requires=(LOADBALANCER_ID, ADDITIONAL_VIPS),
            provides=LOADBALANCER),
        network_tasks.UpdateVIPSecurityGroup(requires=LOADBALANCER_ID)]


def restore_vip(load_balancer_id):
    """Make what the VIP of a load balancer lacks in Neutron, as a failover.

    :returns: the id of the port of the VIP.
    :raises Exception: any that Octavia's network driver raises.
    """
    run(linear_flow.Flow('octavia-hmsync-restore-vip').add(
        *make_allocation_tasks()), {LOADBALANCER_ID: load_balancer_id})
    found = compat_amphora.get_load_balancer(load_balancer_id)
    session = db_api.get_session()
    with session.begin():
        for amphora in found.amphorae:
            if amphora.ha_port_id:
                repositories.AmphoraRepository().update(
                    session, amphora.id, ha_port_id=found.vip.port_id)
    return found.vip.port_id


def make_activation_tasks(is_new):
    """Return the tasks that set a load balancer to ACTIVE.

    They require LOADBALANCER_ID.

    :param is_new: whether it was just created, with all its children.
    """
    from octavia.controller.worker.v2.tasks import database_tasks
    from octavia.controller.worker.v2.tasks import notification_tasks

    tasks = [database_tasks.ReloadLoadBalancer(
        name=constants.RELOAD_LB_AFTER_AMP_ASSOC,
        requires=LOADBALANCER_ID, provides=LOADBALANCER)]
    if is_new:
        tasks.append(database_tasks.MarkHealthMonitorsOnlineInDB(
            requires=LOADBALANCER))
    tasks.append(database_tasks.MarkLBActiveInDB(
        mark_subobjects=is_new, requires=LOADBALANCER))
    if CONF.controller_worker.event_notifications:
        kind = (notification_tasks.SendCreateNotification if is_new
                else notification_tasks.SendUpdateNotification)
        tasks.append(kind(requires=LOADBALANCER))
    return tasks


def make_deletion_flow(load_balancer, listeners, pools):
    """Return Octavia's deletion flow; describe_*() make its arguments."""
    from octavia.controller.worker.v2.flows import flow_utils

    return flow_utils.get_cascade_delete_load_balancer_flow(
        load_balancer, listeners, pools)


def describe_children(load_balancer):
    """Return the listeners and the pools, as dicts, for a deletion."""
    from octavia.controller.worker.v2.flows import flow_utils

    return (flow_utils.get_listeners_on_lb(load_balancer, True),
            flow_utils.get_pools_on_lb(load_balancer, True))


def make_deletion_store(load_balancer):
    """Return the store of make_deletion_flow()."""
    return {LOADBALANCER: describe_load_balancer(load_balancer),
            LOADBALANCER_ID: load_balancer.id,
            constants.SERVER_GROUP_ID: load_balancer.server_group_id,
            constants.PROJECT_ID: load_balancer.project_id}
