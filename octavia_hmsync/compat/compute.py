# SPDX-License-Identifier: Apache-2.0

"""The compute service, as Octavia has it: a driver, or Nova."""

from octavia.common import exceptions as octavia_except
from octavia.common import keystone
from stevedore import driver as stevedore_driver

NOVA_DRIVER = 'compute_nova_driver'
# By Octavia's own driver, where no random names are set.
INSTANCE_PREFIX = 'amphora-'
# Before the id of an amphora: ports of Octavia's, plugged into its instance.
PORT_PREFIXES = ('octavia-lb-vrrp-', 'octavia-lb-member-')

# What a driver raises where there is no such instance.
NotFound = octavia_except.NotFound


def load_driver(name):
    """Load a compute driver.

    :param name: an entry point of ``octavia.compute.drivers``.
    :returns: an object with ``get_amphora(compute_id)``, which returns an
              amphora, whose status is the instance's, and a fault;
              ``attach_network_or_port(compute_id, port_id=...)``, which does
              nothing where the port is there already;
              ``detach_port(compute_id, port_id)``, which raises nothing; and
              ``delete(compute_id)``.
    """
    return stevedore_driver.DriverManager(
        namespace='octavia.compute.drivers', name=name,
        invoke_on_load=True).driver


def load_auth():
    """Load the credentials that Octavia has for Nova.

    :returns: a keystoneauth1 plugin for authentication.
    """
    return keystone.KeystoneSession().get_auth()
