# SPDX-License-Identifier: Apache-2.0

"""What a provider driver in octavia-api uses of Octavia."""

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

from octavia_hmsync import compat

AmphoraProviderDriver = amphora_driver.AmphoraProviderDriver

# The properties of flavors of provider amphora, as JSON schema.
FLAVOR_PROPERTIES = flavor_schema.SUPPORTED_FLAVOR_SCHEMA['properties']

# Marks what a caller of a provider driver has not set.
Unset = data_models.Unset

# octavia-api turns them into 501 and 500. Any other exception of a driver
# becomes 500, too, with its text.
UnsupportedOptionError = driver_except.UnsupportedOptionError
DriverError = driver_except.DriverError

# Raised if no queue takes a message, now or later.
Undeliverable = oslo_messaging.MessageUndeliverable

NetworkException = network_base.NetworkException

# Raised by Octavia's own driver for a flavor or an availability zone that
# names something the cloud lacks; octavia-api would answer with 500.
NOT_FOUND = (octavia_except.InvalidSubresource, driver_except.NotFound,
             network_base.NetworkNotFound)

SUPPORTED_PROTOCOLS = tuple(
    protocol for protocol in amphora_driver.AMPHORA_SUPPORTED_PROTOCOLS
    if protocol not in constants.LVS_PROTOCOLS)

COMPUTE_FLAVOR = constants.COMPUTE_FLAVOR
AMP_IMAGE_TAG = constants.AMP_IMAGE_TAG
LOADBALANCER_TOPOLOGY = constants.LOADBALANCER_TOPOLOGY
SRIOV_VIP = constants.SRIOV_VIP
VNIC_TYPE_NORMAL = constants.VNIC_TYPE_NORMAL


# Device owners of the ports of routers in Neutron.
_ROUTERS = ('network:router_interface', compat.DISTRIBUTED_ROUTER,
            'network:ha_router_replicated_interface')


def has_segments(network_driver, network_id):
    """Tell whether a network is routed, which means made of segments.

    :returns: True if Neutron says so. It does not without an optional
              extension, nor does a driver without Neutron.
    :raises openstack.exceptions.SDKException: if it does not answer.
    """
    api = getattr(network_driver, 'network_proxy', None)
    if api is None:
        return False
    # The SDK's Network class lacks this field.
    answer = api.get(f'/networks/{network_id}')
    sdk_exc.raise_from_response(answer)
    return answer.json()['network'].get('l2_adjacency') is False


def get_routed_subnets(network_driver, network_id, owners=None):
    """Return the ids of the subnets of a network that have a router.

    :param owners: device owners of router ports that count; None for all.
    :returns: a set; None if the driver cannot tell.
    """
    api = getattr(network_driver, 'network_proxy', None)
    if api is None:
        return None
    return {fixed_ip['subnet_id']
            for owner in owners or _ROUTERS
            for port in api.ports(network_id=network_id, device_owner=owner)
            for fixed_ip in port.fixed_ips}


def get_subnets_with_gateway(network_driver, network_id):
    """Return ids of subnets whose router has an external gateway, if known."""
    api = getattr(network_driver, 'network_proxy', None)
    if api is None:
        return set()
    found = set()
    for owner in _ROUTERS:
        for port in api.ports(network_id=network_id, device_owner=owner):
            # It may have been deleted meanwhile.
            router = api.find_router(port.device_id)
            if router is not None and router.external_gateway_info:
                found |= {each['subnet_id'] for each in port.fixed_ips}
    return found


def find_refusal(error):
    """Tell why Neutron refused to make a port, if the request is to blame.

    :returns: Neutron's text with a status of 400 to 499; None for other
              statuses, or without an answer.
    """
    cause = error.__context__
    code = getattr(cause, 'orig_code', None)
    if code is None or not 400 <= code < 500:
        return None
    # Octavia's driver keeps only the name of the status.
    return (getattr(cause.__context__, 'details', None) or
            error.user_fault_string)


def describe(error):
    """Return the text of a NOT_FOUND exception for the caller of the API."""
    return getattr(error, 'user_fault_string', None) or str(error)


def make_target(topic, namespace, version):
    """Return the address of messages, for make_client()."""
    return oslo_messaging.Target(topic=topic, namespace=namespace,
                                 version=version, fanout=False)


def make_client(target):
    """Make a client on the existing connections of octavia-api.

    :returns: an object with ``cast(context, method, **arguments)``, which
              raises Undeliverable if the queue was never made.
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
    """Begin a transaction, with its session, on Octavia's connections."""
    return db_api.session().begin()
