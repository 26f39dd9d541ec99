# SPDX-License-Identifier: Apache-2.0

"""The compute service through Octavia's driver, or Nova directly."""

from octavia.common import exceptions as octavia_except
from octavia.common import keystone
from stevedore import driver as stevedore_driver

NOVA_DRIVER = 'compute_nova_driver'
# Octavia's own driver names instances so, unless random names are set.
INSTANCE_PREFIX = 'amphora-'
# Prefixes, before an amphora's id, of names of ports in its instance.
PORT_PREFIXES = ('octavia-lb-vrrp-', 'octavia-lb-member-')

# Raised by a driver for a missing instance.
NotFound = octavia_except.NotFound


def load_driver(name):
    """Load a compute driver.

    :returns: an object with ``get_amphora(compute_id)``, which returns an
              amphora with the instance's status, and a fault;
              ``attach_network_or_port(compute_id, port_id=...)``, which does
              nothing if the port is attached already;
              ``detach_port(compute_id, port_id)``, which raises nothing; and
              ``delete(compute_id)``.
    """
    return stevedore_driver.DriverManager(
        namespace='octavia.compute.drivers', name=name,
        invoke_on_load=True).driver


def load_auth():
    """Load Octavia's credentials for Nova, a plugin of keystoneauth1."""
    return keystone.KeystoneSession().get_auth()
