# SPDX-License-Identifier: Apache-2.0

"""What a provider driver in octavia-api needs of Octavia."""

from octavia.api.drivers.amphora_driver import flavor_schema
from octavia.api.drivers.amphora_driver.v2 import driver as amphora_driver
from octavia.common import constants
from octavia.common import exceptions as octavia_except
from octavia.common import rpc
from octavia.common import utils
from octavia.db import api as db_api
from octavia.network import base as network_base
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions as driver_except
from openstack import exceptions as sdk_exc
import oslo_messaging

AmphoraProviderDriver = amphora_driver.AmphoraProviderDriver

# The properties of flavors of provider amphora, as JSON schema has them.
FLAVOR_PROPERTIES = flavor_schema.SUPPORTED_FLAVOR_SCHEMA['properties']

# What a caller of a provider driver has set nothing for.
Unset = data_models.Unset

# What octavia-api makes of them: 501 and 500. Whatever else a driver raises
# becomes 500, too, with what it says.
UnsupportedOptionError = driver_except.UnsupportedOptionError
DriverError = driver_except.DriverError

# What is raised where nobody has a message, nor ever will.
Undeliverable = oslo_messaging.MessageUndeliverable

NetworkException = network_base.NetworkException

# What Octavia's own driver raises where a flavor or an availability zone
# names what the cloud has not; octavia-api would make 500 of it.
NOT_FOUND = (octavia_except.InvalidSubresource, driver_except.NotFound,
             network_base.NetworkNotFound)

# Protocols that haproxy does not serve: an amphora has LVS for them.
LVS_PROTOCOLS = constants.LVS_PROTOCOLS
SUPPORTED_PROTOCOLS = tuple(
    protocol for protocol in amphora_driver.AMPHORA_SUPPORTED_PROTOCOLS
    if protocol not in LVS_PROTOCOLS)

COMPUTE_FLAVOR = constants.COMPUTE_FLAVOR
AMP_IMAGE_TAG = constants.AMP_IMAGE_TAG
LOADBALANCER_TOPOLOGY = constants.LOADBALANCER_TOPOLOGY
SRIOV_VIP = constants.SRIOV_VIP
VNIC_TYPE_NORMAL = constants.VNIC_TYPE_NORMAL


# Who has the ports of routers that Neutron knows.
DISTRIBUTED_ROUTER = 'network:router_interface_distributed'
_ROUTERS = ('network:router_interface', DISTRIBUTED_ROUTER,
            'network:ha_router_replicated_interface')


def has_segments(network_driver, network_id):
    """Tell whether a network is a routed one, of segments.

    :param network_driver: Octavia's.
    :param network_id: of the network.
    :returns: whether Neutron says so: it does not without an extension that
              not every cloud has, nor does a driver that asks nobody.
    :raises openstack.exceptions.SDKException: if it does not answer.
    """
    api = getattr(network_driver, 'network_proxy', None)
    if api is None:
        return False
    # The SDK's own Network leaves this out.
    answer = api.get(f'/networks/{network_id}')
    sdk_exc.raise_from_response(answer)
    return answer.json()['network'].get('l2_adjacency') is False


def get_routed_subnets(network_driver, network_id, owners=None):
    """Return the ids of the subnets of a network that have a router.

    :param network_driver: Octavia's.
    :param network_id: of the network.
    :param owners: device owners of the ports of routers that count; None for
                   those of all routers.
    :returns: a set; None where that driver does not tell.
    """
    api = getattr(network_driver, 'network_proxy', None)
    if api is None:
        return None
    return {fixed_ip['subnet_id']
            for owner in owners or _ROUTERS
            for port in api.ports(network_id=network_id, device_owner=owner)
            for fixed_ip in port.fixed_ips}


def get_subnets_with_gateway(network_driver, network_id):
    """Return the ids of subnets whose router goes outside.

    :param network_driver: Octavia's.
    :param network_id: of the network.
    :returns: a set; it is empty where that driver does not tell.
    """
    api = getattr(network_driver, 'network_proxy', None)
    if api is None:
        return set()
    found = set()
    for owner in _ROUTERS:
        for port in api.ports(network_id=network_id, device_owner=owner):
            # It may be deleted right now.
            router = api.find_router(port.device_id)
            if router is not None and router.external_gateway_info:
                found |= {each['subnet_id'] for each in port.fixed_ips}
    return found


def find_refusal(error):
    """Tell why Neutron refused to make a port, where the request is to blame.

    :param error: a DriverError of create_vip_port().
    :returns: what Neutron said with a status of 400 to 499; None for another,
              or no answer.
    """
    cause = error.__context__
    code = getattr(cause, 'orig_code', None)
    if code is None or not 400 <= code < 500:
        return None
    # Octavia's driver keeps the name of the status alone.
    return (getattr(cause.__context__, 'details', None) or
            error.user_fault_string)


def describe(error):
    """Return what one of NOT_FOUND says to whoever asked."""
    return getattr(error, 'user_fault_string', None) or str(error)


def make_target(topic, namespace, version):
    """Say where messages go.

    :returns: what make_client() takes.
    """
    return oslo_messaging.Target(topic=topic, namespace=namespace,
                                 version=version, fanout=False)


def make_client(target):
    """Make a client on the connections that octavia-api has anyway.

    :returns: an object with ``cast(context, method, **arguments)``, which
              raises Undeliverable where no queue has ever been made.
    """
    return rpc.get_client(target).prepare(
        transport_options=oslo_messaging.TransportOptions(
            at_least_once=True))


def load_network_driver():
    """Load the network driver that octavia-api uses.

    :returns: an object with ``get_network(id)``, ``get_port(id)``,
              ``delete_port(id)`` and ``get_network_ip_availability(network)``.
    """
    return utils.get_network_driver()


def begin():
    """Begin a transaction on Octavia's own connections.

    :returns: a context manager with the session.
    """
    return db_api.session().begin()
