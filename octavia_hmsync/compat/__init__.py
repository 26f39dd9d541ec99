# SPDX-License-Identifier: Apache-2.0

"""The only module that imports from Octavia.

Octavia has no stable interface for control plane plugins. All that the plugin
uses of it is named here, so that a new Octavia release is checked in one
place. What takes long to import is imported where it is used: a command that
reads the database needs the names alone.
"""

import os
import sys

from octavia.amphorae.driver_exceptions import exceptions as driver_except
from octavia.common import constants
from octavia.common import exceptions as octavia_except
from oslo_config import cfg
import sqlalchemy as sa
from stevedore import driver as stevedore_driver

# Octavia registers its options on the global object, and reads it everywhere.
CONF = cfg.CONF

# Groups with the options of keystoneauth's sessions: Neutron, and the rest.
_SESSION_GROUPS = ('neutron', 'service_auth')
# Seconds: the usual time-out of proxies before such services.
_REQUEST_TIMEOUT = 60

# The columns that the plugin reads. octavia.db.models itself takes seconds to
# import, because it imports the types of the REST API.
AMPHORA = sa.table(
    'amphora', sa.column('id', sa.String(36)),
    sa.column('load_balancer_id', sa.String(36)),
    sa.column('lb_network_ip', sa.String(64)),
    sa.column('role', sa.String(36)), sa.column('status', sa.String(36)),
    sa.column('compute_id', sa.String(36)),
    sa.column('image_id', sa.String(36)),
    sa.column('vrrp_ip', sa.String(64)),
    sa.column('vrrp_port_id', sa.String(36)),
    sa.column('created_at', sa.DateTime()),
    sa.column('vrrp_interface', sa.String(16)),
    sa.column('cert_expiration', sa.DateTime()),
    sa.column('cached_zone', sa.String(255)),
    sa.column('compute_flavor', sa.String(255)),
    sa.column('updated_at', sa.DateTime()))
AMPHORA_HEALTH = sa.table(
    'amphora_health', sa.column('amphora_id', sa.String(36)),
    sa.column('last_update', sa.DateTime()), sa.column('busy', sa.Boolean()))
LOAD_BALANCER = sa.table(
    'load_balancer', sa.column('id', sa.String(36)),
    sa.column('name', sa.String(255)),
    sa.column('provisioning_status', sa.String(16)),
    sa.column('operating_status', sa.String(16)),
    sa.column('topology', sa.String(36)),
    sa.column('project_id', sa.String(36)),
    sa.column('provider', sa.String(64)),
    sa.column('flavor_id', sa.String(36)),
    sa.column('availability_zone', sa.String(255)),
    sa.column('server_group_id', sa.String(36)),
    sa.column('enabled', sa.Boolean()),
    sa.column('created_at', sa.DateTime()),
    sa.column('updated_at', sa.DateTime()))
TABLES = (AMPHORA, AMPHORA_HEALTH, LOAD_BALANCER)

# Tables that only image upgrades read.
FLAVOR = sa.table(
    'flavor', sa.column('id', sa.String(36)),
    sa.column('name', sa.String(255)),
    sa.column('enabled', sa.Boolean()),
    sa.column('flavor_profile_id', sa.String(36)))
FLAVOR_PROFILE = sa.table(
    'flavor_profile', sa.column('id', sa.String(36)),
    sa.column('provider_name', sa.String(255)),
    sa.column('flavor_data', sa.String(4096)))
VIP = sa.table(
    'vip', sa.column('load_balancer_id', sa.String(36)),
    sa.column('ip_address', sa.String(64)),
    sa.column('port_id', sa.String(36)), sa.column('subnet_id', sa.String(36)),
    sa.column('network_id', sa.String(36)),
    sa.column('qos_policy_id', sa.String(36)),
    sa.column('vnic_type', sa.String(64)),
    sa.column('octavia_owned', sa.Boolean()))
ADDITIONAL_VIP = sa.table(
    'additional_vip', sa.column('load_balancer_id', sa.String(36)),
    sa.column('ip_address', sa.String(64)),
    sa.column('port_id', sa.String(36)), sa.column('subnet_id', sa.String(36)))
VIP_SECURITY_GROUP = sa.table(
    'vip_security_group', sa.column('load_balancer_id', sa.String(36)),
    sa.column('sg_id', sa.String(64)))
LISTENER = sa.table(
    'listener', sa.column('id', sa.String(36)),
    sa.column('load_balancer_id', sa.String(36)),
    sa.column('protocol', sa.String(16)),
    sa.column('protocol_port', sa.Integer()),
    sa.column('peer_port', sa.Integer()),
    sa.column('enabled', sa.Boolean()),
    sa.column('provisioning_status', sa.String(16)),
    sa.column('operating_status', sa.String(16)),
    sa.column('tls_certificate_id', sa.String(255)),
    sa.column('client_ca_tls_certificate_id', sa.String(255)),
    sa.column('client_crl_container_id', sa.String(255)))
LISTENER_CIDR = sa.table(
    'listener_cidr', sa.column('listener_id', sa.String(36)),
    sa.column('cidr', sa.String(64)))
SNI = sa.table(
    'sni', sa.column('listener_id', sa.String(36)),
    sa.column('tls_container_id', sa.String(128)))
POOL = sa.table(
    'pool', sa.column('id', sa.String(36)),
    sa.column('load_balancer_id', sa.String(36)),
    sa.column('provisioning_status', sa.String(16)),
    sa.column('tls_certificate_id', sa.String(255)),
    sa.column('ca_tls_certificate_id', sa.String(255)),
    sa.column('crl_container_id', sa.String(255)))
MEMBER = sa.table(
    'member', sa.column('id', sa.String(36)),
    sa.column('pool_id', sa.String(36)),
    sa.column('subnet_id', sa.String(36)),
    sa.column('provisioning_status', sa.String(16)),
    sa.column('operating_status', sa.String(16)))
HEALTH_MONITOR = sa.table(
    'health_monitor', sa.column('id', sa.String(36)),
    sa.column('pool_id', sa.String(36)),
    sa.column('delay', sa.Integer()), sa.column('timeout', sa.Integer()),
    sa.column('fall_threshold', sa.Integer()),
    sa.column('enabled', sa.Boolean()),
    sa.column('provisioning_status', sa.String(16)))
L7POLICY = sa.table(
    'l7policy', sa.column('id', sa.String(36)),
    sa.column('listener_id', sa.String(36)),
    sa.column('provisioning_status', sa.String(16)))
L7RULE = sa.table(
    'l7rule', sa.column('id', sa.String(36)),
    sa.column('l7policy_id', sa.String(36)),
    sa.column('provisioning_status', sa.String(16)))
# The listeners that an amphora's heartbeats report; of the driver stats_db.
LISTENER_STATISTICS = sa.table(
    'listener_statistics', sa.column('listener_id', sa.String(36)),
    sa.column('amphora_id', sa.String(36)),
    sa.column('bytes_in', sa.BigInteger()),
    sa.column('bytes_out', sa.BigInteger()),
    sa.column('active_connections', sa.Integer()),
    sa.column('total_connections', sa.BigInteger()))
TAG = sa.table(
    'tags', sa.column('resource_id', sa.String(36)),
    sa.column('tag', sa.String(255)))
# Of each load balancer with a pair.
VRRP_GROUP = sa.table(
    'vrrp_group', sa.column('load_balancer_id', sa.String(36)))
IMAGE_TABLES = (FLAVOR, FLAVOR_PROFILE, VIP, ADDITIONAL_VIP,
                VIP_SECURITY_GROUP, LISTENER, LISTENER_CIDR, SNI, POOL,
                MEMBER, TAG, HEALTH_MONITOR, LISTENER_STATISTICS, L7POLICY,
                L7RULE, VRRP_GROUP)

# Profiles of availability zones, as JSON.
AVAILABILITY_ZONE = sa.table(
    'availability_zone', sa.column('name', sa.String(255)),
    sa.column('availability_zone_profile_id', sa.String(36)))
AVAILABILITY_ZONE_PROFILE = sa.table(
    'availability_zone_profile', sa.column('id', sa.String(36)),
    sa.column('provider_name', sa.String(255)),
    sa.column('availability_zone_data', sa.String(4096)))
ZONE_TABLES = (AVAILABILITY_ZONE, AVAILABILITY_ZONE_PROFILE)

# Permitted values of load balancers and amphorae, from octavia-db-manage.
LB_TOPOLOGY = sa.table(
    'lb_topology', sa.column('name', sa.String(36)),
    sa.column('description', sa.String(255)))
AMPHORA_ROLES = sa.table(
    'amphora_roles', sa.column('name', sa.String(36)),
    sa.column('description', sa.String(255)))

LOOKUP_TABLES = (LB_TOPOLOGY, AMPHORA_ROLES)

# Octavia's specifications name these, its code does not.
TOPOLOGY_ACTIVE_ACTIVE = 'ACTIVE_ACTIVE'
ROLE_IN_CLUSTER = 'IN_CLUSTER'

DELETED_STATUSES = (constants.DELETED, constants.PENDING_DELETE)
AMPHORA_STATUSES = (constants.AMPHORA_ALLOCATED, constants.AMPHORA_BOOTING,
                    constants.ERROR, constants.AMPHORA_FAILOVER_STOPPED,
                    constants.PENDING_CREATE)
# Amphorae with a compute instance, or soon with one, but no address yet.
BUILDING_STATUSES = (constants.PENDING_CREATE, constants.AMPHORA_BOOTING)
# Octavia fails over stale amphorae with these statuses.
FAILOVER_STATUSES = (constants.AMPHORA_ALLOCATED,
                     constants.AMPHORA_FAILOVER_STOPPED)
AMPHORA_ALLOCATED = constants.AMPHORA_ALLOCATED
TOPOLOGY_OF_ROLE = {
    constants.ROLE_MASTER: constants.TOPOLOGY_ACTIVE_STANDBY,
    constants.ROLE_BACKUP: constants.TOPOLOGY_ACTIVE_STANDBY,
    constants.ROLE_STANDALONE: constants.TOPOLOGY_SINGLE,
    # An agent that is told SINGLE announces the VIP by gratuitous ARP.
    ROLE_IN_CLUSTER: constants.TOPOLOGY_ACTIVE_STANDBY,
}

# By the harm of a needless failover: a BACKUP carries no traffic, a member of
# a cluster carries a part of it, a MASTER has a backup.
ROLES_BY_HARM = (constants.ROLE_BACKUP, ROLE_IN_CLUSTER,
                 constants.ROLE_MASTER, constants.ROLE_STANDALONE)

TOPOLOGY_SINGLE = constants.TOPOLOGY_SINGLE
SINGLE_ROLE = constants.ROLE_STANDALONE
# How many amphorae a load balancer has.
AMPHORAE_OF_TOPOLOGY = {constants.TOPOLOGY_SINGLE: 1,
                        constants.TOPOLOGY_ACTIVE_STANDBY: 2}

# Two names of one provider. Older load balancers have no name at all.
AMPHORA_PROVIDERS = ('amphora', constants.OCTAVIA)
# The plugin's provider, whose load balancers also have Octavia's amphorae.
CLUSTER_PROVIDER = 'amphora_cluster'
# The key of a cluster's zones in an availability zone profile.
CLUSTER_COMPUTE_ZONES = 'cluster_compute_zones'
ACTIVE = constants.ACTIVE
ERROR = constants.ERROR
PENDING_CREATE = constants.PENDING_CREATE
PENDING_UPDATE = constants.PENDING_UPDATE
PENDING_DELETE = constants.PENDING_DELETE
DELETED = constants.DELETED
# Operating statuses.
ONLINE = constants.ONLINE
OFFLINE = constants.OFFLINE
DEGRADED = constants.DEGRADED

# The flavor's key of its image tag; [controller_worker] has the default.
AMP_IMAGE_TAG = constants.AMP_IMAGE_TAG

# Raised by an image driver if no active image has the tag.
NoImage = octavia_except.ImageGetException

# The VIP is on a virtual function of the network card.
DIRECT = constants.VNIC_TYPE_DIRECT
# Neutron's device owner of the port of a distributed router (DVR).
DISTRIBUTED_ROUTER = 'network:router_interface_distributed'
# haproxy terminates TLS.
TERMINATED_HTTPS = constants.PROTOCOL_TERMINATED_HTTPS
# Protocols that LVS in the amphora serves, not haproxy.
LVS_PROTOCOLS = constants.LVS_PROTOCOLS
# With these the order of servers only decides which comes first.
ALGORITHMS_IN_TURN = frozenset((constants.LB_ALGORITHM_ROUND_ROBIN,
                                constants.LB_ALGORITHM_LEAST_CONNECTIONS))

_GLANCE_DRIVER = 'octavia.image.drivers.glance_driver'
NO_VOLUMES = constants.VOLUME_NOOP_DRIVER
CINDER_DRIVER = 'volume_cinder_driver'
# Signs with a local key, see the options of [certificates].
LOCAL_GENERATOR = 'local_cert_generator'
# Keys in the profile of a flavor (Nova) and of an availability zone (Nova,
# Cinder, Neutron).
COMPUTE_FLAVOR = constants.COMPUTE_FLAVOR
# Keys in the profile of a flavor; the second is of what no running load
# balancer can change.
FLAVOR_TOPOLOGY = constants.LOADBALANCER_TOPOLOGY
FLAVOR_SRIOV = constants.SRIOV_VIP
COMPUTE_ZONE = constants.COMPUTE_ZONE
# Octavia 16 has no availability zone for volumes.
VOLUME_ZONE = getattr(constants, 'VOLUME_ZONE', 'volume_zone')
MANAGEMENT_NETWORK = constants.MANAGEMENT_NETWORK
HARD_ANTI_AFFINITY = constants.ANTI_AFFINITY

REST_DRIVER = 'amphora_haproxy_rest_driver'
# Drivers that speak the agent's REST API. The second is the plugin's, which
# is the first one for all load balancers but clusters.
REST_DRIVERS = (REST_DRIVER, 'hmsync')

# Raised by drivers that cannot upload an agent configuration at all.
UNSUPPORTED_ERRORS = (driver_except.AmpDriverNotImplementedError,
                      NotImplementedError)

SERVICE_MODULES = {
    'octavia.cmd.health_manager': 'health_manager',
    'octavia.cmd.house_keeping': 'house_keeping',
    'octavia.cmd.octavia_worker': 'worker',
}

# Services that read the same octavia.conf, but do not run the plugin.
OTHER_SERVICE_MODULES = ('octavia.api.app', 'octavia.cmd.driver_agent')

# The names that cmd/health_manager.py gives to its two child processes.
LISTENER_PROCESS = 'HM_listener'
HEALTH_CHECK_PROCESS = 'HM_health_check'


def service_name():
    """Tell which Octavia service this process is.

    Each console script imports exactly one of these modules, whatever its
    name in a container image; command line tools import none.

    :returns: health_manager, house_keeping, worker, or None for anything
              else.
    """
    for module, service in SERVICE_MODULES.items():
        if module in sys.modules:
            return service
    return None


def is_other_service():
    """Tell whether this is octavia-api (or WSGI), or octavia-driver-agent."""
    return any(module in sys.modules for module in OTHER_SERVICE_MODULES)


def get_agent_template_path():
    """Return the path of the template of an agent's configuration."""
    from octavia.amphorae.backends.agent import agent_jinja_cfg

    return os.path.join(agent_jinja_cfg.TEMPLATES_DIR,
                        constants.AGENT_CONF_TEMPLATE)


def load_configuration(args):
    """Parse octavia.conf as Octavia does, from --config-file or -dir."""
    from octavia.common import config as octavia_config

    octavia_config.register_cli_opts()
    CONF(args=args, project='octavia', prog='octavia-hmsync')
    CONF.set_default('auth_type', CONF.service_auth.auth_type, 'neutron')
    octavia_config.handle_neutron_deprecations()
    return CONF


def limit_requests():
    """Set a time-out for requests of Octavia's drivers in this process.

    octavia.conf takes precedence. Without a time-out, a service that accepts
    connections but never answers blocks its caller for ever.
    """
    for group in _SESSION_GROUPS:
        CONF.set_default('timeout', _REQUEST_TIMEOUT, group)


def load_neutron_auth():
    """Load the credentials that Octavia has for Neutron."""
    from octavia.common import keystone

    return keystone.KeystoneSession('neutron').get_auth()


def opens_peers_to_group():
    """Tell whether Octavia opens peers ports to a load balancer's group only.

    Older releases open them to all.
    """
    return getattr(CONF.networking, 'use_remote_group_for_lb_peer_ports',
                   False)


def load_amphora_driver(name):
    """Make an amphora driver by entry point; threads never share one."""
    return stevedore_driver.DriverManager(
        namespace='octavia.amphora.drivers', name=name,
        invoke_on_load=True).driver


def load_image_driver(name):
    """Load an image driver by entry point, for get_image_id_by_tag()."""
    return stevedore_driver.DriverManager(
        namespace='octavia.image.drivers', name=name,
        invoke_on_load=True).driver


def read_image(driver, image_id):
    """Read the properties of a Glance image.

    :returns: a dict with min_disk, min_ram, size and virtual_size; None for a
              driver other than Octavia's for Glance.
    """
    # A driver whose module is not loaded is not in use; its import is slow.
    module = sys.modules.get(_GLANCE_DRIVER)
    if module is None or not isinstance(driver, module.ImageManager):
        return None
    return dict(driver.manager.get(image_id))


def make_driver_amphora(amphora_id, lb_network_ip):
    """Build the data model that an amphora driver takes as its amphora."""
    from octavia.common import data_models

    return data_models.Amphora(id=amphora_id, lb_network_ip=lb_network_ip)


def load_jobboard_driver():
    """Load the jobboard driver that octavia-worker uses.

    :returns: an object with ``job_board(persistence)`` and
              ``persistence_driver.get_persistence()``, context managers, and
              ``shutdown()``.
    """
    from octavia.controller.worker.v2 import taskflow_jobboard_driver

    persistence = taskflow_jobboard_driver.MysqlPersistenceDriver()
    return stevedore_driver.DriverManager(
        namespace='octavia.worker.jobboard_driver',
        name=CONF.task_flow.jobboard_backend_driver, invoke_on_load=True,
        invoke_args=(persistence,)).driver
